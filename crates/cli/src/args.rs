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
    /// What to do; without it, the totals.
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
    /// The manager of this user instead of the system's
    #[arg(long, global = true, help_heading = "Common options")]
    pub user: bool,
    /// Print JSON, one object a line
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// Do not wait for jobs to end
    #[arg(long, global = true, help_heading = "Common options")]
    pub no_block: bool,
    /// Say less
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
    /// Stop units and start them again; start those that are down
    Restart(RestartArgs),
    /// Restart units that are up
    TryRestart(Units),
    /// Ask units to reload what they have read
    Reload(Units),
    /// Reload units that can, restart the others
    ReloadOrRestart(Units),
    /// Read unit files again: all that changed, or one unit's
    Refresh(RefreshArgs),
    /// Show messages of units, or of all
    Logs(Box<warren_log_show::Args>),
    /// Show how units are, with the last lines of their logs
    Status(StatusArgs),
    /// List units
    #[command(visible_alias = "list-units")]
    List(ListArgs),
    /// Show a unit's properties as NAME=value
    Show(Units),
    /// Show a unit's files
    Cat(Units),
    /// Explain why a unit is as it is, root causes first
    Why(WhyArgs),
    /// Show disks, what they are part of, what is made of them, and what is mounted from that
    Devices(DevicesArgs),
    /// Draw what happened when: a boot, a reload, a shutdown, or the last minutes
    Chart(ChartArgs),
    /// Watch what the manager does: jobs, failures, restarts, use of slices; q ends it
    Top,
    /// Say whether units are up; exit with 3 if none is
    IsActive(Units),
    /// Say whether units have failed; exit with 1 if none has
    IsFailed(Units),
    /// Start units at boot
    Enable(UnitFiles),
    /// No longer start units at boot
    Disable(UnitFiles),
    /// Disable, then enable units
    Reenable(UnitFiles),
    /// Make units impossible to start
    Mask(UnitFiles),
    /// Undo mask
    Unmask(UnitFiles),
    /// Make unit files that lie elsewhere known
    Link(UnitFiles),
    /// Enable or disable units as the distribution's policy says (systemd.preset(5))
    Preset(PresetArgs),
    /// Say whether units are started at boot; exit with 1 if none is
    IsEnabled(IsEnabledArgs),
    /// Put units aside (maintenance), or say that they do less than they should (degraded)
    Mark(MarkArgs),
    /// Clear marks and failed states of units
    Clear(Units),
    /// Forget that units failed
    #[command(visible_alias = "reset")]
    ResetFailed(MaybeUnits),
    /// Check unit files, without a manager
    Verify(VerifyArgs),
    /// Rules that make units: check, plan, apply
    Fleet {
        /// What to do
        #[command(subcommand)]
        command: FleetCommand,
    },
    /// Configurations of Icinga 2: check, list objects
    Icinga {
        /// What to do
        #[command(subcommand)]
        command: IcingaCommand,
    },
    /// Let a new manager take over; no service notices
    Reexec,
    /// Count units by state, with what the manager costs
    Totals,
    /// Stop everything and power off
    Poweroff(LeaveArgs),
    /// Stop everything and boot again
    Reboot(LeaveArgs),
    /// Stop everything and halt
    Halt(LeaveArgs),
    /// Stop everything and start the kernel that kexec(8) has loaded
    Kexec(LeaveArgs),
    /// Stop everything and start it again with the same kernel, from /run/nextroot if that is there
    SoftReboot(LeaveArgs),
    /// Stop everything and end the manager
    Exit(LeaveArgs),
    /// Show what a shutdown waits for, plan one, or wait no longer for a unit
    Shutdown(ShutdownArgs),
    /// Run a command; until it ends, no shutdown begins
    Inhibit(InhibitArgs),
    /// Run a command inside a nested manager's namespaces
    Enter(EnterArgs),
    /// Print shell completions
    Completion {
        /// For this shell
        shell: Shell,
    },
    /// What the last word of a command line may become, for the completions of a shell
    #[command(hide = true)]
    CompleteWords {
        /// The words behind the program's name
        #[arg(last = true)]
        words: Vec<String>,
    },
    /// Write the manual pages
    #[command(hide = true)]
    Man {
        /// Into this directory
        dir: PathBuf,
    },
    /// Show the main job on made-up units in a nested manager
    #[command(hide = true)]
    Tour(TourArgs),
    /// Inner stages of run
    #[command(hide = true)]
    NestOuter(NestArgs),
    /// Inner stages of run
    #[command(hide = true)]
    NestInner(NestArgs),
}

/// One unit or more.
#[derive(Args, Debug)]
pub struct Units {
    /// Names; without suffix, services; a path is that of a mount or a device
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
}

/// Arguments of stop.
#[derive(Args, Debug)]
pub struct StopArgs {
    /// Names; without suffix, services
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// Comment that status and why show until the unit starts again
    #[arg(long, short, value_name = "TEXT")]
    pub comment: Option<String>,
}

/// Arguments of mark.
#[derive(Args, Debug)]
pub struct MarkArgs {
    /// A name; without suffix, a service
    #[arg(value_name = "UNIT")]
    pub unit: String,
    /// Mark to set
    #[arg(value_name = "MARK", value_parser = ["maintenance", "degraded"])]
    pub mark: String,
    /// What status and why are to say of it
    #[arg(long, short, value_name = "TEXT", default_value = "")]
    pub comment: String,
}

/// Arguments of restart.
#[derive(Args, Debug)]
pub struct RestartArgs {
    /// Names; without suffix, services
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// Have the main process leave a core dump first, by SIGABRT
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
    /// Operation to hold back
    #[arg(long, value_name = "WHAT", default_value = "shutdown")]
    pub what: String,
    /// Who does not want it; without it, the command
    #[arg(long, value_name = "TEXT")]
    pub who: Option<String>,
    /// For what reason
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    pub why: String,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Arguments of shutdown.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ShutdownArgs {
    /// When
    #[command(flatten)]
    pub later: LaterArgs,
    /// Take back what was planned
    #[arg(long, conflicts_with_all = ["after", "at"])]
    pub cancel: bool,
    /// What to do; without it, show what is waited for
    #[command(subcommand)]
    pub command: Option<ShutdownCommand>,
}

/// A shutdown that is to come. What it is to be says nothing without a time.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("when").args(["after", "at"])))]
pub struct LaterArgs {
    /// Power off after this time: 5min, 1h 30min
    #[arg(long = "in", value_name = "SPAN")]
    pub after: Option<String>,
    /// Power off at this time: 23:30, or 2026-12-31 23:30
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    pub at: Option<String>,
    /// Boot again rather than power off
    #[arg(long, requires = "when")]
    pub reboot: bool,
    /// Halt rather than power off
    #[arg(long, requires = "when", conflicts_with = "reboot")]
    pub halt: bool,
    /// Start the kernel that kexec(8) has loaded rather than power off
    #[arg(long, requires = "when", conflicts_with_all = ["reboot", "halt"])]
    pub kexec: bool,
    /// Start again with the same kernel rather than power off
    #[arg(long, requires = "when", conflicts_with_all = ["reboot", "halt", "kexec"])]
    pub soft_reboot: bool,
    /// End the manager rather than power off
    #[arg(long, requires = "when", conflicts_with_all = ["reboot", "halt", "kexec", "soft_reboot"])]
    pub exit: bool,
    /// What those are told who are logged in
    #[arg(long, short, requires = "when", value_name = "TEXT", default_value = "")]
    pub message: String,
}

/// What can be done about a shutdown, or about any unit that is being stopped.
#[derive(Subcommand, Debug)]
pub enum ShutdownCommand {
    /// Wait no longer for these units: what is left of them is killed
    Skip(Units),
}

/// Any number of units.
#[derive(Args, Debug)]
pub struct MaybeUnits {
    /// Names; without suffix, services
    #[arg(value_name = "UNIT")]
    pub units: Vec<String>,
}

/// What to tell of.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Names as elsewhere, or numbers of processes
    #[arg(value_name = "UNIT|PID")]
    pub units: Vec<String>,
}

/// Arguments of enable and its relatives.
#[derive(Args, Debug, Clone)]
pub struct UnitFiles {
    /// Names or paths
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// Until the next boot only
    #[arg(long)]
    pub runtime: bool,
    /// Overwrite what is in the way
    #[arg(long, short)]
    pub force: bool,
    /// Also start (enable) or stop (disable, mask)
    #[arg(long)]
    pub now: bool,
    /// What status and why are to say of it (disable, mask) until it is undone
    #[arg(long, short, value_name = "TEXT")]
    pub comment: Option<String>,
    /// In this root directory, an image's say, without a manager
    #[arg(long, value_name = "DIR", conflicts_with_all = ["now", "comment"])]
    pub root: Option<PathBuf>,
}

/// Arguments of preset.
#[derive(Args, Debug, Clone)]
pub struct PresetArgs {
    /// Names
    #[arg(value_name = "UNIT", required_unless_present = "all")]
    pub units: Vec<String>,
    /// All unit files that there are
    #[arg(long, conflicts_with = "units")]
    pub all: bool,
    /// Both, or only what the policy enables, or only what it disables
    #[arg(long, value_name = "MODE", default_value = "full",
        value_parser = ["full", "enable-only", "disable-only"])]
    pub mode: String,
    /// Until the next boot only
    #[arg(long)]
    pub runtime: bool,
    /// Overwrite what is in the way
    #[arg(long, short)]
    pub force: bool,
    /// In this root directory, without a manager
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Arguments of is-enabled.
#[derive(Args, Debug)]
pub struct IsEnabledArgs {
    /// Names; without suffix, services
    #[arg(required = true, value_name = "UNIT")]
    pub units: Vec<String>,
    /// In this root directory, without a manager
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Arguments of refresh.
#[derive(Args, Debug)]
pub struct RefreshArgs {
    /// Only this unit; other changes wait
    #[arg(value_name = "UNIT")]
    pub unit: Option<String>,
    /// Say what would change
    #[arg(long)]
    pub dry_run: bool,
    /// Look at every file, not only at those the kernel reported
    #[arg(long)]
    pub full: bool,
    /// Put an earlier generation back in force
    #[arg(long, value_name = "N", conflicts_with_all = ["unit", "full"])]
    pub rollback: Option<u64>,
}

/// Arguments of list.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only units that match one of these
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Only units in one of these active, sub or load states
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Only units of one of these types
    #[arg(long, short = 't', value_name = "TYPE", value_delimiter = ',',
        value_parser = unit_types())]
    pub r#type: Vec<String>,
    /// Only units that failed, beside those of --state
    #[arg(long)]
    pub failed: bool,
    /// Also units that are down
    #[arg(long, short)]
    pub all: bool,
    /// Print no header and footer
    #[arg(long)]
    pub no_legend: bool,
}

/// Arguments of why.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// This unit, or those that a pattern matches
    #[arg(value_name = "UNIT")]
    pub unit: Option<String>,
    /// All that failed or wait, as without a unit
    #[arg(long, conflicts_with = "unit")]
    pub all: bool,
}

/// Arguments of devices.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// What to do; without it, show what the manager was told.
    #[command(subcommand)]
    pub command: Option<DevicesCommand>,
}

/// What can be done with devices.
#[derive(Subcommand, Debug)]
pub enum DevicesCommand {
    /// Read devices or image files and say what is on them; needs no manager and changes nothing
    Scan {
        /// Block devices or files
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<String>,
    },
    /// Inner stage of scan
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
    /// Compare two recordings, named like WHAT; the first is what was before
    #[arg(long, num_args = 2, value_names = ["A", "B"], allow_hyphen_values = true)]
    pub compare: Vec<String>,
    /// With the least, the median and the most of each unit's own times in the last N of its kind that are
    /// kept: WHAT is boot, reload, shutdown or one before
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "compare",
        value_parser = clap::value_parser!(u16).range(2..)
    )]
    pub repeat: Option<u16>,
    /// Write here; the suffix (.html, .svg, .json, .txt) decides what. Without it, print the table
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// List the recordings that are kept
    #[arg(long, conflicts_with_all = ["what", "compare", "repeat", "output"])]
    pub list: bool,
}

/// Arguments of verify.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Names of units, or paths of files
    #[arg(required = true, value_name = "UNIT|FILE")]
    pub units: Vec<String>,
    /// Search here instead of in the usual directories
    #[arg(long, value_name = "DIR")]
    pub units_in: Vec<PathBuf>,
}

/// Arguments of run.
#[derive(Args, Debug, Clone)]
pub struct RunArgs {
    /// Unit files; shown inside at /etc/systemd/system where that exists
    #[arg(long, value_name = "DIR")]
    pub units: Option<PathBuf>,
    /// Rules that make units; shown inside at /run/warren/fleet.d
    #[arg(long, value_name = "DIR")]
    pub fleet: Option<PathBuf>,
    /// What is started first
    #[arg(long, value_name = "UNIT", default_value = "default.target", value_parser = unit_name)]
    pub unit: String,
    /// Its name for --machine; default: nested-PID
    #[arg(long, value_name = "NAME", value_parser = machine_name)]
    pub name: Option<String>,
    /// A network of its own, with the loopback interface only
    #[arg(long)]
    pub private_network: bool,
    /// Use no cgroups
    #[arg(long)]
    pub no_cgroup: bool,
    /// Stop when the process that started it ends
    #[arg(long)]
    pub with_parent: bool,
    /// The program that becomes process 1
    #[arg(long, value_name = "PATH")]
    pub init: Option<PathBuf>,
    /// Passed on to the manager
    #[arg(last = true, value_name = "ARG")]
    pub manager_args: Vec<String>,
}

/// Arguments of the inner stages of run.
#[derive(Args, Debug, Clone)]
pub struct NestArgs {
    /// The same as given to run
    #[command(flatten)]
    pub run: RunArgs,
    /// The cgroup that was made for it
    #[arg(long)]
    pub cgroup: Option<PathBuf>,
    /// In a user namespace, as its root
    #[arg(long)]
    pub user_namespace: bool,
}

/// What can be done with rules.
#[derive(Subcommand, Debug)]
pub enum FleetCommand {
    /// Evaluate rules without a manager, and say what is wrong with them
    Check(RulesArgs),
    /// Say which units would be added, changed, removed and restarted, and why
    Plan(PlanArgs),
    /// Put what the rules make into force
    Apply(PlanArgs),
    /// Put an earlier generation back in force
    Rollback {
        /// Its number, as apply and plan print it
        #[arg(value_name = "N")]
        generation: u64,
    },
    /// Show how unit files would differ; exit with 1 if any does
    Diff(DiffArgs),
    /// Print what the rules make, or write it as unit files for systemd
    Dump(DumpArgs),
    /// Evaluate expressions
    Console(ConsoleArgs),
    /// Lay files of rules out one way
    Fmt(FmtArgs),
    /// Serve an editor: the language server protocol on standard input and output
    Lsp(LspArgs),
}

/// Where rules are.
#[derive(Args, Debug)]
pub struct RulesArgs {
    /// Rules; default: /etc/warren/fleet.d
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Arguments of plan and apply.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// List every unit, also where one rule makes many
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
    /// Where the rules are
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Write the units here; the directory is made and must be empty
    #[arg(long, value_name = "OUT")]
    pub unit_files: Option<PathBuf>,
    /// Print objects with their attributes and the places that set them
    #[arg(long, conflicts_with = "unit_files")]
    pub objects: bool,
}

/// Arguments of console.
#[derive(Args, Debug)]
pub struct ConsoleArgs {
    /// Where the rules are
    #[command(flatten)]
    pub rules: RulesArgs,
    /// Evaluate this and end; may be repeated
    #[arg(long, short, value_name = "EXPR", allow_hyphen_values = true)]
    pub expression: Vec<String>,
}

/// Arguments of fmt.
#[derive(Args, Debug)]
pub struct FmtArgs {
    /// Files; - reads standard input and prints
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Change nothing; exit with 1 if a file would change
    #[arg(long)]
    pub check: bool,
}

/// Arguments of lsp.
#[derive(Args, Debug)]
pub struct LspArgs {
    /// Where all rules are; default: the directory of what is edited
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// What can be done with configurations of Icinga 2.
#[derive(Subcommand, Debug)]
pub enum IcingaCommand {
    /// Load a configuration and say what is wrong with it
    Check(IcingaArgs),
    /// Print its objects with the places that set their attributes
    Objects(IcingaObjectsArgs),
}

/// Arguments of icinga objects.
#[derive(Args, Debug)]
pub struct IcingaObjectsArgs {
    /// Which configuration
    #[command(flatten)]
    pub configuration: IcingaArgs,
    /// Write the objects to a file that icinga2 object list reads
    #[arg(long, value_name = "FILE")]
    pub objects_file: Option<PathBuf>,
}

/// Which configuration of Icinga 2.
#[derive(Args, Debug)]
pub struct IcingaArgs {
    /// A file that includes the others, or a directory of them
    #[arg(value_name = "FILE|DIR", default_value = "/etc/icinga2/icinga2.conf")]
    pub path: PathBuf,
    /// Where include <...> looks; may be repeated
    #[arg(long, short = 'I', value_name = "DIR", default_value = "/usr/share/icinga2/include")]
    pub include: Vec<PathBuf>,
    /// Set a global constant; may be repeated
    #[arg(long, short = 'D', value_name = "NAME=VALUE")]
    pub define: Vec<String>,
    /// How many threads make objects
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Make objects one after another, so that they may write to global values
    #[arg(long)]
    pub sequential: bool,
}

/// Arguments of enter.
#[derive(Args, Debug)]
pub struct EnterArgs {
    /// The command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<String>,
}

/// Arguments of tour.
#[derive(Args, Debug, Clone)]
pub struct TourArgs {
    /// Sets of a mount, an automount, a socket and a service
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub sets: u32,
    /// A slice for each set
    #[arg(long)]
    pub slices: bool,
    /// Show the example of rules in this directory instead: examples/hosting
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sets", "slices"])]
    pub fleet: Option<PathBuf>,
    /// Print the tour and end, also on a terminal
    #[arg(long)]
    pub once: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// What the page of reasons tells a person to type.
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
