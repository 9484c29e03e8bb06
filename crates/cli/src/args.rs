//! The one table of commands and flags, from which parser, help, completions and manual pages
//! come.
//!
//! Spelling follows systemctl(1) where systemctl has the same thing. Usage errors exit with 2.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::values::{machine_name, unit_name, unit_types};

/// Manage services: start, stop, explain and reload units.
#[derive(Parser, Debug)]
#[command(name = "warren", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "A name without suffix means NAME.service. See also: warren COMMAND --help."
)]
pub struct Cli {
    /// Where to connect and how to print.
    #[command(flatten)]
    pub global: Global,
    /// Command to run; without one, print the totals.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags that every command takes.
#[derive(Args, Debug, Clone, Default)]
pub struct Global {
    /// Connect to this control socket
    #[arg(long, global = true, value_name = "PATH", help_heading = "Common options")]
    pub socket: Option<PathBuf>,
    /// Connect to a nested manager, by name or process id
    #[arg(long, short = 'M', global = true, value_name = "NAME", help_heading = "Common options")]
    pub machine: Option<String>,
    /// Run the command on another host, over ssh(1): HOST, or USER@HOST:PORT
    #[arg(long, short = 'H', global = true, value_name = "HOST", help_heading = "Common options")]
    pub host: Option<String>,
    /// Connect to the manager of the current user instead of the system manager
    #[arg(long, global = true, help_heading = "Common options")]
    pub user: bool,
    /// Print JSON, one object a line
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// Do not wait for jobs to complete
    #[arg(long, global = true, help_heading = "Common options")]
    pub no_block: bool,
    /// Print less
    #[arg(long, short, global = true, help_heading = "Common options")]
    pub quiet: bool,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a nested manager in namespaces of its own
    Run(RunArgs),
    /// Start units
    Start(Units),
    /// Stop units
    Stop(StopArgs),
    /// Stop and start units; start units that are inactive
    Restart(RestartArgs),
    /// Restart units that are up
    TryRestart(Units),
    /// Ask units to reload their configuration
    Reload(Units),
    /// Reload units that support it, restart the others
    ReloadOrRestart(Units),
    /// Reload changed unit files, or those of one unit
    Refresh(RefreshArgs),
    /// Show log messages, of some units or of all
    Logs(Box<warren_log_show::Args>),
    /// Show the state of units, with their last log lines
    Status(StatusArgs),
    /// List units
    #[command(visible_alias = "list-units")]
    List(ListArgs),
    /// Show a unit's properties as NAME=value
    Show(Units),
    /// Show a unit's files
    Cat(Units),
    /// Explain the state of a unit, root causes first
    Why(WhyArgs),
    /// Show disks, the groups they belong to, the volumes made from them and where these are mounted
    Devices(DevicesArgs),
    /// Say what protects services that run, as the kernel says of their processes, and what is left open; without a
    /// unit, which services ask for no protection
    Security(MaybeUnits),
    /// Show timers: when they elapse and elapsed, how long what they start takes, and which of them meet
    Timers,
    /// Draw a timeline of a boot, a reload, a shutdown or the last minutes
    Chart(ChartArgs),
    /// Watch failures, jobs and the resource use of units, and act on them; press ? for the keys
    Top(TopArgs),
    /// Show units on a page for browsers, until it is interrupted: arguments are those of warren-web
    Web {
        /// Arguments of warren-web
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        words: Vec<std::ffi::OsString>,
    },
    /// Print whether units are active; exit status 3 if none is
    IsActive(Units),
    /// Print whether units have failed; exit status 1 if none has
    IsFailed(Units),
    /// Enable units: start them at boot
    Enable(UnitFiles),
    /// Disable units: do not start them at boot
    Disable(UnitFiles),
    /// Disable, then enable units
    Reenable(UnitFiles),
    /// Mask units: make them impossible to start
    Mask(UnitFiles),
    /// Unmask units
    Unmask(UnitFiles),
    /// Link unit files from other directories into the unit search path
    Link(UnitFiles),
    /// Enable or disable units according to preset files (systemd.preset(5))
    Preset(PresetArgs),
    /// Print whether units are enabled; exit status 1 if none is
    IsEnabled(IsEnabledArgs),
    /// Mark units as in maintenance (they are not started) or degraded (they work in part)
    Mark(MarkArgs),
    /// Clear the marks and the failed state of units
    Clear(Units),
    /// Clear the failed state of units
    #[command(visible_alias = "reset")]
    ResetFailed(MaybeUnits),
    /// Check unit files; needs no running manager
    Verify(VerifyArgs),
    /// Run a language server (LSP) for unit files on standard input and output
    Lsp,
    /// Write a unit file for a command: run it once and allow what it turned out to need
    New(NewArgs),
    /// Check, plan and apply rules that generate units
    Fleet {
        /// Command to run
        #[command(subcommand)]
        command: FleetCommand,
    },
    /// See and change what many hosts run: warren-hosts(1)
    #[command(disable_help_flag = true)]
    Hosts {
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        words: Vec<std::ffi::OsString>,
    },
    /// Choose which init the machine boots: Warrener once, from now on, or no more
    Host(HostArgs),
    /// Check configurations of Icinga 2 and list their objects
    Icinga {
        /// Command to run
        #[command(subcommand)]
        command: IcingaCommand,
    },
    /// Replace the running manager process; services keep running
    Reexec,
    /// Print unit counts by state and the resource use of the manager
    Totals,
    /// Shut down and power off
    Poweroff(LeaveArgs),
    /// Shut down and reboot
    Reboot(LeaveArgs),
    /// Shut down and halt
    Halt(LeaveArgs),
    /// Shut down and start the kernel loaded by kexec(8)
    Kexec(LeaveArgs),
    /// Shut down userspace and start it again with the same kernel, from /run/nextroot if it exists
    SoftReboot(LeaveArgs),
    /// Stop all units and exit the manager
    Exit(LeaveArgs),
    /// Show what a shutdown waits for, schedule one, or skip the wait for a unit
    Shutdown(ShutdownArgs),
    /// Run a command and block shutdown until it exits
    Inhibit(InhibitArgs),
    /// Run a command in the namespaces of a nested manager
    Enter(EnterArgs),
    /// Print shell completions
    Completion {
        /// Shell to print them for
        shell: Shell,
    },
    /// Complete the last word of a command line, for shell completions
    #[command(hide = true)]
    CompleteWords {
        /// Words of the command line after the program name
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Write manual pages
    #[command(hide = true)]
    Man {
        /// Directory to write to
        dir: PathBuf,
    },
    /// Demonstrate the main features with generated units in a nested manager
    #[command(hide = true)]
    Tour(TourArgs),
    /// Internal stage of run
    #[command(hide = true)]
    NestOuter(NestArgs),
    /// Internal stage of run
    #[command(hide = true)]
    NestInner(NestArgs),
}

/// One unit or more.
#[derive(Args, Debug)]
pub struct Units {
    /// Unit names; a name without suffix is a service, a path is a mount or a device
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
}

/// Arguments of stop.
#[derive(Args, Debug)]
pub struct StopArgs {
    /// Unit names; a name without suffix is a service
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// Comment shown by status and why until the next start
    #[arg(long, short, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Only print what would be stopped with them, and what may start them again
    #[arg(long, conflicts_with = "comment")]
    pub dry_run: bool,
}

/// Arguments of mark.
#[derive(Args, Debug)]
pub struct MarkArgs {
    /// Unit name; a name without suffix is a service
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Mark to set
    #[arg(value_name = "MARK", value_parser = ["maintenance", "degraded"])]
    pub mark: String,
    /// Comment shown by status and why
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    pub comment: String,
}

/// Arguments of restart.
#[derive(Args, Debug)]
pub struct RestartArgs {
    /// Unit names; a name without suffix is a service
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// Make the main process dump core first (SIGABRT)
    #[arg(long)]
    pub dump: bool,
}

/// Arguments of poweroff and its relatives.
#[derive(Args, Debug)]
pub struct LeaveArgs {
    /// Ignore inhibitor locks
    #[arg(long, short)]
    pub ignore_inhibitors: bool,
}

/// Arguments of inhibit.
#[derive(Args, Debug)]
pub struct InhibitArgs {
    /// Operation to block
    #[arg(long, value_name = "WHAT", default_value = "shutdown")]
    pub what: String,
    /// Who blocks it; default: the command
    #[arg(long, value_name = "TEXT")]
    pub who: Option<String>,
    /// Reason shown to users
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    pub why: String,
    /// Command to run, with its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of shutdown.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ShutdownArgs {
    /// Time of the shutdown
    #[command(flatten)]
    pub later: LaterArgs,
    /// Cancel the scheduled shutdown
    #[arg(long, conflicts_with_all = ["after", "at"])]
    pub cancel: bool,
    /// Command to run; without one, show what the shutdown waits for
    #[command(subcommand)]
    pub command: Option<ShutdownCommand>,
}

/// A scheduled shutdown. The kind of shutdown needs a time.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("when").args(["after", "at"])))]
pub struct LaterArgs {
    /// Power off after this time, for example 5min or "1h 30min"
    #[arg(long = "in", value_name = "SPAN")]
    pub after: Option<String>,
    /// Power off at this time, for example 23:30 or "2026-12-31 23:30"
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    pub at: Option<String>,
    /// Reboot instead of powering off
    #[arg(long, requires = "when")]
    pub reboot: bool,
    /// Halt instead of powering off
    #[arg(long, requires = "when", conflicts_with = "reboot")]
    pub halt: bool,
    /// Start the kernel loaded by kexec(8) instead of powering off
    #[arg(long, requires = "when", conflicts_with_all = ["reboot", "halt"])]
    pub kexec: bool,
    /// Restart userspace with the same kernel instead of powering off
    #[arg(long, requires = "when", conflicts_with_all = ["reboot", "halt", "kexec"])]
    pub soft_reboot: bool,
    /// Exit the manager instead of powering off
    #[arg(long, requires = "when", conflicts_with_all = ["reboot", "halt", "kexec", "soft_reboot"])]
    pub exit: bool,
    /// Message to logged-in users
    #[arg(long, short, requires = "when", value_name = "TEXT", default_value = "")]
    pub message: String,
}

/// Commands for a shutdown, or for any unit that is being stopped.
#[derive(Subcommand, Debug)]
pub enum ShutdownCommand {
    /// Skip the wait for these units: kill their remaining processes
    Skip(Units),
}

/// Any number of units.
#[derive(Args, Debug)]
pub struct MaybeUnits {
    /// Unit names; a name without suffix is a service
    #[arg(value_name = "UNIT")]
    pub units: Vec<String>,
}

/// Units or processes to show.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Unit names or PIDs
    #[arg(value_name = "UNIT|PID")]
    pub units: Vec<String>,
}

/// Arguments of enable and its relatives.
#[derive(Args, Debug, Clone)]
pub struct UnitFiles {
    /// Unit names or paths of unit files
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// Only until the next boot
    #[arg(long)]
    pub runtime: bool,
    /// Overwrite existing links
    #[arg(long, short)]
    pub force: bool,
    /// Also start (enable) or stop (disable, mask) the units
    #[arg(long)]
    pub now: bool,
    /// Comment shown by status and why until it is undone (disable, mask)
    #[arg(long, short, value_name = "TEXT")]
    pub comment: Option<String>,
    /// Work on this root directory, for example an image; needs no running manager
    #[arg(long, value_name = "DIR", conflicts_with_all = ["now", "comment"])]
    pub root: Option<PathBuf>,
}

/// Arguments of preset.
#[derive(Args, Debug, Clone)]
pub struct PresetArgs {
    /// Unit names
    #[arg(value_name = "UNIT", required_unless_present = "all")]
    pub units: Vec<String>,
    /// All installed unit files
    #[arg(long, conflicts_with = "units")]
    pub all: bool,
    /// Apply all presets, only those that enable, or only those that disable
    #[arg(long, value_name = "MODE", default_value = "full",
        value_parser = ["full", "enable-only", "disable-only"])]
    pub mode: String,
    /// Only until the next boot
    #[arg(long)]
    pub runtime: bool,
    /// Overwrite existing links
    #[arg(long, short)]
    pub force: bool,
    /// Work on this root directory; needs no running manager
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Arguments of is-enabled.
#[derive(Args, Debug)]
pub struct IsEnabledArgs {
    /// Unit names; a name without suffix is a service
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// Work on this root directory; needs no running manager
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Arguments of refresh.
#[derive(Args, Debug)]
pub struct RefreshArgs {
    /// Reload only this unit; other changes stay pending
    #[arg(value_name = "UNIT")]
    pub unit: Option<String>,
    /// Only print what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Check every file, not only those that the kernel reported as changed
    #[arg(long)]
    pub full: bool,
    /// Go back to an earlier generation
    #[arg(long, value_name = "N", conflicts_with_all = ["unit", "full"])]
    pub rollback: Option<u64>,
    /// Reload nothing; print what the last N reloads changed, or the last one
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        conflicts_with_all = ["unit", "full", "dry_run", "rollback"],
        value_parser = clap::value_parser!(u8).range(1..))]
    pub last: Option<u8>,
}

/// Arguments of list.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only units that match one of these patterns
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only units in one of these active, sub or load states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Only units of one of these types
    #[arg(long, short = 't', value_name = "TYPE", value_delimiter = ',',
        value_parser = unit_types())]
    pub r#type: Vec<String>,
    /// Only failed units, in addition to those of --state
    #[arg(long)]
    pub failed: bool,
    /// Include inactive units
    #[arg(long, short)]
    pub all: bool,
    /// Do not print header and footer
    #[arg(long)]
    pub no_legend: bool,
    /// Print units with most restarts, memory or tasks first, or those that changed their state last; 20 without --all
    #[arg(long, value_name = "WHAT", conflicts_with_all = ["patterns", "state", "type", "failed", "no_legend"])]
    pub by: Option<By>,
}

/// What units are ranked by.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Restarts by Restart= since somebody asked for the unit
    Restarts,
    /// Memory now
    Memory,
    /// Tasks now
    Tasks,
    /// The last change of state
    Since,
}

/// Arguments of top.
#[derive(Args, Debug)]
pub struct TopArgs {
    /// Print what has failed, then each change of a unit as a line, without moving the cursor
    #[arg(long, conflicts_with = "json")]
    pub lines: bool,
    /// Leave the mouse to the terminal, for selecting text without shift
    #[arg(long)]
    pub no_mouse: bool,
}

/// Arguments of why.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// Unit name or pattern
    #[arg(value_name = "UNIT")]
    pub unit: Option<String>,
    /// All failed and waiting units; the default without a unit
    #[arg(long, conflicts_with = "unit")]
    pub all: bool,
}

/// Arguments of devices.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// Command to run; without one, show the devices known to the manager.
    #[command(subcommand)]
    pub command: Option<DevicesCommand>,
}

/// Commands for devices.
#[derive(Subcommand, Debug)]
pub enum DevicesCommand {
    /// Scan devices or image files and print what is on them; read-only, needs no running manager
    Scan {
        /// Block devices or files
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<String>,
    },
    /// Internal stage of scan
    #[command(hide = true)]
    ReadHere {
        /// Block devices or files
        paths: Vec<String>,
    },
}

/// Arguments of chart.
#[derive(Args, Debug)]
pub struct ChartArgs {
    /// boot, reload, shutdown, one before (boot~1), SINCE..UNTIL (-5min.., -1h..-90s,
    /// @SECONDS..now), or a recording by its name or path
    #[arg(
        value_name = "WHAT",
        default_value = "boot",
        conflicts_with = "compare",
        allow_hyphen_values = true
    )]
    pub what: String,
    /// Compare two recordings, named like WHAT; the first one is the baseline
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_hyphen_values = true)]
    pub compare: Vec<String>,
    /// Add the minimum, median and maximum time of each unit over the last N recordings of its kind that are
    /// kept: WHAT is boot, reload, shutdown or an earlier one
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "compare",
        value_parser = clap::value_parser!(u16).range(2..)
    )]
    pub repeat: Option<u16>,
    /// Write to this file; its suffix (.html, .svg, .json, .txt) sets the format. Default: print a table
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// List the kept recordings
    #[arg(long, conflicts_with_all = ["what", "compare", "repeat", "output"])]
    pub list: bool,
}

/// Arguments of verify.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Unit names or paths of unit files
    #[arg(required = true, value_name = "UNIT|FILE")]
    pub units: Vec<String>,
    /// Search this directory instead of the unit search path
    #[arg(long, value_name = "DIR")]
    pub units_in: Vec<PathBuf>,
}

/// Arguments of new.
#[derive(Args, Debug)]
pub struct NewArgs {
    /// Name of the unit
    #[arg(value_name = "UNIT")]
    pub name: String,
    /// Run the command for this many seconds, then stop it
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub run_for: u64,
    /// Do not run the command; the unit then has no sandbox
    #[arg(long, conflicts_with = "run_for")]
    pub no_run: bool,
    /// Do not try the unit in a nested manager
    #[arg(long)]
    pub no_try: bool,
    /// Run the command as this user, with its primary group; the unit gets User=
    #[arg(long, value_name = "USER")]
    pub run_as: Option<String>,
    /// Run the command in this directory; the unit gets WorkingDirectory=
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Description of the unit; default: its name
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// Write to this file, which must not exist; default: standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The command, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of run.
#[derive(Args, Debug, Clone)]
pub struct RunArgs {
    /// Directory of unit files; appears inside as /etc/systemd/system where that exists
    #[arg(long, value_name = "DIR")]
    pub units: Option<PathBuf>,
    /// Directory of rules; appears inside as /run/warren/fleet.d
    #[arg(long, value_name = "DIR")]
    pub fleet: Option<PathBuf>,
    /// Unit to start first
    #[arg(long, value_name = "UNIT", default_value = "default.target", value_parser = unit_name)]
    pub unit: String,
    /// Name for --machine; default: nested-PID
    #[arg(long, value_name = "NAME", value_parser = machine_name)]
    pub name: Option<String>,
    /// Use a new network namespace with only the loopback interface
    #[arg(long)]
    pub private_network: bool,
    /// Keep what the machine writes to the host's directories in memory, and lose it at its end
    #[arg(long)]
    pub ephemeral: bool,
    /// Show this file, socket or directory of the host inside, for what lies in /run; repeatable
    #[arg(long, value_name = "PATH")]
    pub bind: Vec<PathBuf>,
    /// Do not show this path of the host inside
    #[arg(long, value_name = "PATH", hide = true, requires = "ephemeral")]
    pub without: Vec<PathBuf>,
    /// Do not use cgroups
    #[arg(long)]
    pub no_cgroup: bool,
    /// Stop when the parent process exits
    #[arg(long)]
    pub with_parent: bool,
    /// Program to run as process 1
    #[arg(long, value_name = "PATH")]
    pub init: Option<PathBuf>,
    /// Arguments for the manager
    #[arg(last = true, value_name = "ARG")]
    pub manager_args: Vec<String>,
}

/// Arguments of the inner stages of run.
#[derive(Args, Debug, Clone)]
pub struct NestArgs {
    /// The arguments of run
    #[command(flatten)]
    pub run: RunArgs,
    /// The cgroup that was made for it
    #[arg(long)]
    pub cgroup: Option<PathBuf>,
    /// In a user namespace, as its root
    #[arg(long)]
    pub user_namespace: bool,
}

/// Commands for rules.
#[derive(Subcommand, Debug)]
pub enum FleetCommand {
    /// Check rules for errors; needs no running manager
    Check(RulesArgs),
    /// Run the tests of rules: what *.test files expect of the units; needs no running manager
    Test(RulesArgs),
    /// Show which units would be added, changed, removed and restarted, and why; with a directory what
    /// its rules would change, without a running manager
    Plan(FleetPlanArgs),
    /// Apply the units that the rules generate
    Apply(PlanArgs),
    /// Go back to an earlier generation
    Rollback {
        /// Generation number, as printed by apply and plan
        #[arg(value_name = "N")]
        generation: u64,
    },
    /// Show differences in unit files; exit status 1 if there are any
    Diff(DiffArgs),
    /// Print the generated units, or write them as unit files for systemd
    Dump(DumpArgs),
    /// Evaluate expressions
    Console(ConsoleArgs),
    /// Format rule files
    Fmt(FmtArgs),
    /// Run a language server (LSP) on standard input and output
    Lsp(LspArgs),
}

/// Where rules are.
#[derive(Args, Debug)]
pub struct RulesArgs {
    /// Directory of rules; default: /etc/warren/fleet.d
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Arguments of plan.
#[derive(Args, Debug)]
pub struct FleetPlanArgs {
    /// Directory of rules that are not in force, for example a checkout
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Directory of rules to compare with; default: /etc/warren/fleet.d
    #[arg(long, value_name = "DIR", requires = "dir")]
    pub against: Option<PathBuf>,
    /// Show the lines of unit files that differ, too
    #[arg(long, requires = "dir")]
    pub diff: bool,
    /// What to list
    #[command(flatten)]
    pub plan: PlanArgs,
}

/// Arguments of plan and apply.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// List every unit, even where one rule generates many
    #[arg(long, short)]
    pub all: bool,
}

/// Arguments of diff.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// Only these units
    #[arg(value_name = "UNIT")]
    pub units: Vec<String>,
}

/// Arguments of dump.
#[derive(Args, Debug)]
pub struct DumpArgs {
    /// Directory of rules
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Directory to write the units to; created if missing, must be empty
    #[arg(long, value_name = "OUT")]
    pub unit_files: Option<PathBuf>,
    /// Print objects with their attributes and where each is set
    #[arg(long, conflicts_with = "unit_files")]
    pub objects: bool,
}

/// Arguments of console.
#[derive(Args, Debug)]
pub struct ConsoleArgs {
    /// Directory of rules
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Evaluate this expression and exit; may be repeated
    #[arg(long, short, value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: Vec<String>,
}

/// Arguments of fmt.
#[derive(Args, Debug)]
pub struct FmtArgs {
    /// Files, or directories of *.conf and *.test files; - reads standard input and writes standard output
    #[arg(required = true, value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// Do not change files; exit status 1 if a file would change
    #[arg(long)]
    pub check: bool,
}

/// Arguments of lsp.
#[derive(Args, Debug)]
pub struct LspArgs {
    /// Directory of all rules; default: the directory of the edited file
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Commands for configurations of Icinga 2.
#[derive(Subcommand, Debug)]
pub enum IcingaCommand {
    /// Check a configuration for errors
    Check(IcingaArgs),
    /// Print its objects, with where each attribute is set
    Objects(IcingaObjectsArgs),
}

/// Arguments of icinga objects.
#[derive(Args, Debug)]
pub struct IcingaObjectsArgs {
    /// Which configuration
    #[command(flatten)]
    pub configuration: IcingaArgs,
    /// Write the objects to a file for icinga2 object list
    #[arg(long, value_name = "FILE")]
    pub objects_file: Option<PathBuf>,
    /// Only objects of types that match this pattern, for example Service or '*Group'
    #[arg(long, short = 't', value_name = "PATTERN")]
    pub r#type: Option<String>,
    /// Only objects whose name or full name matches this pattern, for example 'web*!ping4'
    #[arg(long, value_name = "PATTERN")]
    pub name: Option<String>,
}

/// Which configuration of Icinga 2.
#[derive(Args, Debug)]
pub struct IcingaArgs {
    /// Configuration file, or a directory: its icinga2.conf with its zones.d, else all files below it
    #[arg(value_name = "FILE|DIR", default_value = "/etc/icinga2/icinga2.conf")]
    pub path: PathBuf,
    /// Search path for include <...>; may be repeated
    #[arg(long, short = 'I', value_name = "DIR", default_value = "/usr/share/icinga2/include")]
    pub include: Vec<PathBuf>,
    /// Set a global constant; may be repeated
    #[arg(long, short = 'D', value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// Number of threads that create objects
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Create objects one after another, so that they may change global variables
    #[arg(long)]
    pub sequential: bool,
    /// Which Icinga the configuration is for; without it the one whose template library is found
    #[arg(long, value_name = "VERSION")]
    pub icinga: Option<IcingaVersion>,
}

/// A version of Icinga 2.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcingaVersion {
    /// 2.13
    #[value(name = "2.13")]
    V2_13,
    /// Up to 2.16
    #[value(name = "2.16")]
    V2_16,
}

/// Arguments of enter.
#[derive(Args, Debug)]
pub struct EnterArgs {
    /// Command to run
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Arguments of tour.
#[derive(Args, Debug, Clone)]
pub struct TourArgs {
    /// Number of sets of one mount, automount, socket and service
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub sets: u32,
    /// Use one slice per set
    #[arg(long)]
    pub slices: bool,
    /// Show the rules example in this directory instead, for example examples/hosting
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sets", "slices"])]
    pub fleet: Option<PathBuf>,
    /// Print the tour and exit, even on a terminal
    #[arg(long)]
    pub once: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Commands that the reasons page tells users to type.
    #[test]
    fn commands_that_the_reasons_name_are_there() {
        let page = include_str!("../../../docs/src/reference/reasons.md");
        let told: Vec<&str> =
            page.split('`').filter_map(|span| span.strip_prefix("warren ")).collect();
        assert!(told.len() > 50, "{told:?}");
        for line in told {
            let mut command = Cli::command();
            for word in line.split(' ').filter(|word| !word.contains("UNIT")) {
                let known = |argument: &clap::Arg| {
                    word.strip_prefix("--").is_some_and(|long| argument.get_long() == Some(long))
                        || word.strip_prefix('-').is_some_and(|short| {
                            argument.get_short().is_some_and(|it| it.to_string() == short)
                        })
                };
                let below = command.find_subcommand(word).cloned();
                let takes = command.get_positionals().next().is_some();
                match below {
                    Some(below) => command = below,
                    None if word.starts_with('-') => {
                        assert!(command.get_arguments().any(known), "warren {line}: {word}");
                    }
                    None => assert!(takes, "warren {line}: {word}"),
                }
            }
        }
    }

    #[test]
    fn the_table_is_sound() {
        Cli::command().debug_assert();
    }
}

/// `host`
#[derive(Args, Debug)]
pub struct HostArgs {
    /// What to do
    #[arg(value_enum, default_value = "status")]
    pub action: HostAction,
    /// Print what would be written and run, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The root file system, for tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}

/// What to do to the boot loader.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAction {
    /// Show the boot loader, and whether this boot is a try
    Status,
    /// Boot Warrener the next time only; a boot that is not confirmed within 10 minutes ends in a reboot
    Try,
    /// Say that the boot of a try is good: the machine stays up
    Confirm,
    /// Boot Warrener from now on
    Adopt,
    /// Boot what was booted before, from now on
    Release,
}
