//! Arguments of warrend, which init passes on, and where things lie in each mode.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use warren_sys::usage;
use warren_unit::config::{Crash, CrashAction, LineStyle};
use warren_unit::value::Fault;
use warren_unit::{Context, Defaults, Diagnostic, Scope, value};
use warren_unit_files::Root;

use crate::base::boot_options::{self, Said};
use crate::base::environment::Sources;
use crate::base::say::{Target, set_style};
use crate::config::fleet::Fleet;
use crate::config::generators::{Generators, Occasion, RUN_GENERATORS};
use crate::last_steps::programs::DIRECTORIES;
use crate::last_steps::{LAST_STEP, LAST_STEPS, LastSteps, left_over};
use crate::spawn::mount_commands::MOUNT_AT;
use crate::spawn::removals::REMOVE_DIRECTORY;

/// Text of `--help`.
pub const HELP: &str = "\
Usage: warrend [OPTION...]   (started by warren-init)

  --system              manage the system (default as root)
  --user                manage one user's units
  --unit=UNIT           unit to start first; default: default.target
  --unit-path=DIRS      search directories instead of the usual ones, colon separated
  --generator-path=DIRS look for generators there, and for those of the environment in environment/
                        below each; with --unit-path and without this, none run
  --fleet-path=DIR      rules that make units; with --unit-path and without this, there are none
  --shutdown-path=DIRS  run the programs there at the very end; with --unit-path and without this,
                        none run
  --no-bus              do not serve systemctl
  --record-path=DIR     keep recordings of boots, reloads and shutdowns there
  --timer-path=DIR      keep stamp files of timers with Persistent= there; with --unit-path and without
                        this, they are kept until the next boot only
  --console=PATH        read keys there during a shutdown; default on a host: /dev/console
  --end-within=SPAN     stop all units within that time; then shut down with those still
                        running; default: 30min
  --log-target=TARGET   where the manager's own messages go: auto, console, journal or null
  --log-color[=BOOL]    lines on a terminal have a colour by how grave they are; default: no
  --log-location[=BOOL] lines on standard error say where in the code they come from; default: no
  --log-time[=BOOL]     lines on standard error begin with the time; default: yes
  --version             print the version
  --help                this text
";

/// The arguments, checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// Print the help and end.
    pub help: bool,
    /// Print the version and end.
    pub version: bool,
    /// System or user manager.
    pub scope: Scope,
    /// The first unit.
    pub unit: Option<String>,
    /// Overrides the search path.
    pub unit_path: Option<String>,
    /// Overrides where generators are looked for.
    pub generator_path: Option<String>,
    /// Overrides where the rules are that make units.
    pub fleet_path: Option<PathBuf>,
    /// Overrides where programs are looked for that run at the very end.
    pub shutdown_path: Option<String>,
    /// Run the generators and end: warrend starts itself with this.
    pub run_generators: Option<Occasion>,
    /// Overrides where keys are read while everything ends.
    pub console: Option<PathBuf>,
    /// The time for an end before its last steps.
    pub end_within: Duration,
    /// Overrides where recordings are kept.
    pub record_path: Option<PathBuf>,
    /// Take the last steps of a shutdown and end: warrend starts itself with this.
    pub last_steps: Option<LastSteps>,
    /// Take one of them and end: those that take the last steps start themselves with this.
    pub last_step: Option<String>,
    /// Prepare a mount point and become the command: see [`crate::spawn::mount_commands::MOUNT_AT`].
    pub mount_at: Option<(String, Vec<String>)>,
    /// Remove a directory and end: see [`crate::spawn::removals::REMOVE_DIRECTORY`].
    pub remove_directory: Option<String>,
    /// Overrides where stamp files of timers are.
    pub timer_path: Option<PathBuf>,
    /// Do not serve D-Bus clients.
    pub no_bus: bool,
    /// Where the manager's own messages go.
    pub log_target: Option<Target>,
    /// How lines on standard error look.
    pub line_style: LineStyle,
    /// The directory for run-time files: `/run` or `$XDG_RUNTIME_DIR`.
    pub runtime_dir: PathBuf,
}

/// Below the directory of run-time files.
const LAST_REPORT: &str = "warren/last-steps";

/// As long as systemd's files give an end (`JobTimeoutSec=` of poweroff.target).
const END_WITHIN: Duration = Duration::from_secs(30 * 60);

fn end_within(text: &str) -> Result<Duration, String> {
    let span = value::span(text).map_err(|e| format!("--end-within=: {}", e.message))?;
    let some = span.filter(|span| !span.is_zero());
    some.ok_or_else(|| format!("--end-within={text}: not a time span above 0 and below the limit"))
}

/// An option that is on where nothing else is said.
fn flag(argument: &str) -> Result<bool, String> {
    let Some((_, word)) = argument.split_once('=') else { return Ok(true) };
    value::boolean(word).map_err(|e| format!("{argument}: {}", e.message))
}

/// Where a user's programs keep what is not for reading by people.
fn user_data_dir() -> Option<PathBuf> {
    let directory = |name: &str| {
        std::env::var_os(name).map(PathBuf::from).filter(|directory| directory.is_absolute())
    };
    directory("XDG_DATA_HOME").or_else(|| Some(directory("HOME")?.join(".local/share")))
}

impl Options {
    /// Reads the arguments. What does not begin with `-` is ignored: the kernel passes such
    /// words of its command line on to process 1.
    pub fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
        let root = warren_sys::process::own_ids().0 == 0;
        let mut options = Options {
            help: false,
            version: false,
            scope: if root { Scope::System } else { Scope::User },
            unit: None,
            unit_path: None,
            generator_path: None,
            fleet_path: None,
            shutdown_path: None,
            run_generators: None,
            console: None,
            end_within: END_WITHIN,
            record_path: None,
            last_steps: None,
            last_step: None,
            mount_at: None,
            remove_directory: None,
            timer_path: None,
            no_bus: false,
            log_target: None,
            line_style: LineStyle::default(),
            runtime_dir: PathBuf::from("/run"),
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.split_once('=').unwrap_or((&arg, "")) {
                ("--help" | "-h", _) => options.help = true,
                ("--version" | "-V", _) => options.version = true,
                ("--system", _) => options.scope = Scope::System,
                ("--user", _) => options.scope = Scope::User,
                ("--unit", unit) => options.unit = Some(unit.to_owned()),
                ("--unit-path", path) => options.unit_path = Some(path.to_owned()),
                ("--generator-path", path) => options.generator_path = Some(path.to_owned()),
                ("--shutdown-path", path) => options.shutdown_path = Some(path.to_owned()),
                ("--console", path) => options.console = Some(path.into()),
                ("--end-within", span) => options.end_within = end_within(span)?,
                ("--record-path", path) => options.record_path = Some(path.into()),
                ("--timer-path", path) => options.timer_path = Some(path.into()),
                ("--fleet-path", path) => options.fleet_path = Some(PathBuf::from(path)),
                (RUN_GENERATORS, how) => options.run_generators = Some(Occasion::parse(how)),
                (LAST_STEP, step) => options.last_step = Some(step.to_owned()),
                (MOUNT_AT, place) => {
                    options.mount_at = Some((place.to_owned(), args.by_ref().collect()));
                }
                (REMOVE_DIRECTORY, what) => options.remove_directory = Some(what.to_owned()),
                (LAST_STEPS, _) => options.last_steps = Some(LastSteps::parse(args.by_ref())?),
                ("--log-target", target) => {
                    let unknown = || format!("--log-target={target}: no such target");
                    options.log_target = Some(Target::parse(target).ok_or_else(unknown)?);
                }
                ("--log-color", _) => options.line_style.color = Some(flag(&arg)?),
                ("--log-location", _) => options.line_style.location = Some(flag(&arg)?),
                ("--log-time", _) => options.line_style.time = Some(flag(&arg)?),
                ("--no-bus", _) => options.no_bus = true,
                (other, _) if other.starts_with('-') => {
                    return Err(usage::unexpected(&arg));
                }
                _ => {}
            }
        }
        // Who takes a step for a user's manager has no environment and needs no such place.
        let takes_steps = options.last_steps.is_some()
            || options.last_step.is_some()
            || options.mount_at.is_some()
            || options.remove_directory.is_some();
        let only_tells = options.help || options.version;
        if options.scope == Scope::User && !takes_steps && !only_tells {
            options.runtime_dir = std::env::var_os("XDG_RUNTIME_DIR")
                .map(PathBuf::from)
                .filter(|dir| dir.is_absolute())
                .ok_or("XDG_RUNTIME_DIR is not set")?;
        }
        Ok(options)
    }

    /// Under which the last steps of an end leave their report.
    pub fn last_report(&self) -> PathBuf {
        self.runtime_dir.join(LAST_REPORT)
    }

    /// Where they say whom they wait for.
    pub fn left_over(&self) -> PathBuf {
        left_over::path(&self.last_report())
    }

    /// The search directories, highest precedence first.
    pub fn search_path(&self) -> Vec<PathBuf> {
        let environment = warren_unit_files::search_environment(self.unit_path.as_deref());
        let program = std::env::current_exe().unwrap_or_default();
        let own = program.parent().map(|directory| directory.join("system"));
        warren_unit_files::search_directories(self.scope, &environment, own)
    }

    /// What units get that say nothing, and what is wrong where that is said. Where units come from
    /// elsewhere than from the host, so do these: they are the built-in ones.
    pub fn defaults(&self, context: &Context) -> (Defaults, Vec<Diagnostic>) {
        match &self.unit_path {
            Some(_) => (self.at_this_boot(Defaults::default()), Vec::new()),
            None => {
                let (defaults, faults) = warren_unit_files::manager_defaults(context);
                (self.at_this_boot(defaults), faults)
            }
        }
    }

    /// Defaults with what the kernel's command line says of them.
    pub fn at_this_boot(&self, defaults: Defaults) -> Defaults {
        let at_boot = self.at_boot("systemd.show_status", value::show_status, Some("yes"));
        let show_status = at_boot.or(defaults.show_status);
        let line_style = self.line_style().or(defaults.line_style);
        let crash = self.crash().or(defaults.crash);
        Defaults { show_status, line_style, crash, ..defaults }
    }

    /// What is done on a crash by the kernel's command line.
    fn crash(&self) -> Crash {
        let flag = |name| self.at_boot(name, value::boolean, Some("yes"));
        let reboots = flag("systemd.crash_reboot");
        let action = |reboots| if reboots { CrashAction::Reboot } else { CrashAction::Freeze };
        let word = self.at_boot("systemd.crash_action", value::crash_action, None);
        Crash {
            dumps_core: flag("systemd.dump_core"),
            starts_shell: flag("systemd.crash_shell"),
            terminal: self.at_boot("systemd.crash_chvt", value::crash_terminal, Some("yes")),
            action: word.or(reboots.map(action)),
        }
    }

    /// Has lines on standard error look as the arguments say.
    pub fn set_line_style(&self) {
        set_style(self.line_style);
    }

    /// How lines on standard error look by the arguments, the kernel's command line and the environment.
    fn line_style(&self) -> LineStyle {
        let flag = |option, variable| {
            let at_boot = || self.at_boot(option, value::boolean, Some("yes"));
            at_boot().or_else(|| self.by_environment(variable, value::boolean))
        };
        self.line_style.or(LineStyle {
            color: flag("systemd.log_color", "SYSTEMD_LOG_COLOR"),
            location: flag("systemd.log_location", "SYSTEMD_LOG_LOCATION"),
            time: flag("systemd.log_time", "SYSTEMD_LOG_TIME"),
        })
    }

    /// Where the manager's own messages go: by its arguments, by the kernel's command line, by its environment, by
    /// its file.
    pub fn log_target(&self, defaults: &Defaults) -> Target {
        let at_boot = || self.at_boot("systemd.log_target", value::log_target, None);
        let here = || self.by_environment("SYSTEMD_LOG_TARGET", value::log_target);
        let stated = || at_boot().or_else(here).or(defaults.log_target);
        self.log_target.or_else(|| Target::parse(stated()?)).unwrap_or_default()
    }

    /// The least grave level of the manager's own messages, if it is stated.
    pub fn log_level(&self, defaults: &Defaults) -> Option<u8> {
        let at_boot = self.at_boot("systemd.log_level", value::log_level, None);
        let here = || self.by_environment("SYSTEMD_LOG_LEVEL", value::log_level);
        at_boot.or_else(here).or(defaults.log_level)
    }

    /// Whether service watchdogs are acted on, if it is stated (kernel-command-line(7), `systemd.service_watchdogs=`).
    pub fn service_watchdogs(&self) -> Option<bool> {
        self.at_boot("systemd.service_watchdogs", value::boolean, Some("yes"))
    }

    /// What a host's kernel command line says last of an option; what is wrong there says nothing. The name alone says
    /// `alone`.
    fn at_boot<T>(
        &self,
        name: &str,
        read: fn(&str) -> Result<T, Fault>,
        alone: Option<&str>,
    ) -> Option<T> {
        if self.scope == Scope::User || self.unit_path.is_some() {
            return None;
        }
        let words = boot_options::words(&boot_options::command_line());
        let value = match boot_options::said(&words, name)? {
            Said::Value(value) => value,
            Said::Name => alone?,
        };
        read(value).ok()
    }

    /// What a variable of the manager's own environment says (systemd(1), "ENVIRONMENT"); what is wrong there says
    /// nothing.
    fn by_environment<T>(&self, variable: &str, read: fn(&str) -> Result<T, Fault>) -> Option<T> {
        if self.unit_path.is_some() {
            return None;
        }
        read(&std::env::var(variable).ok()?).ok()
    }

    /// Whether these are said anywhere.
    pub fn states_defaults(&self) -> bool {
        self.unit_path.is_none()
    }

    /// Where programs are looked for that run at the very end. Where units come from elsewhere than from the
    /// host, its programs are not for this end.
    pub fn shutdown_directories(&self) -> Vec<PathBuf> {
        match (&self.shutdown_path, &self.unit_path) {
            (Some(path), _) => path.split(':').map(PathBuf::from).collect(),
            (None, Some(_)) => Vec::new(),
            (None, None) if crate::base::host::is_nested() => Vec::new(),
            (None, None) => DIRECTORIES.map(PathBuf::from).to_vec(),
        }
    }

    /// Where what services inherit comes from.
    pub fn environment_sources(&self, defaults: &Defaults) -> Sources {
        let is_host = self.scope == Scope::System && self.unit_path.is_none();
        let own = defaults.manager_environment.clone();
        Sources { scope: self.scope, is_host, own, defaults: defaults.environment.clone() }
    }

    /// What generators to run. None where units come from elsewhere than from the host.
    pub fn generators(&self, architecture: &str, sources: Sources) -> Option<Generators> {
        let own =
            self.generator_path.as_ref().map(|path| path.split(':').map(PathBuf::from).collect());
        if own.is_none() && self.unit_path.is_some() {
            return None;
        }
        let runtime = self.runtime_dir.join("systemd");
        Some(Generators::new(sources, own, runtime, architecture))
    }

    /// The rules that make units. None where units come from elsewhere than from the host.
    pub fn fleet(&self) -> Option<Fleet> {
        let usual = || match (self.scope, &self.unit_path) {
            (_, Some(_)) => None,
            (Scope::System, None) => Some(PathBuf::from(warren_fleet_files::SYSTEM_DIRECTORY)),
            (Scope::User, None) => warren_fleet_files::user_directory(),
        };
        let rules = self.fleet_path.clone().or_else(usual)?;
        let context = Arc::new(warren_unit_files::context(&Root::OWN, self.scope));
        Some(Fleet::new(rules, self.rules_directory(), context))
    }

    /// Where units that rules make say they are.
    pub fn rules_directory(&self) -> PathBuf {
        self.runtime_dir.join("warren/fleet")
    }

    /// Where nss-systemd asks for users that were made for a run: the name is that of the service.
    pub fn user_lookup_socket(&self) -> PathBuf {
        self.runtime_dir.join("systemd/userdb/io.systemd.DynamicUser")
    }

    /// Where units, jobs and the manager are asked for over varlink.
    pub fn varlink_socket(&self) -> PathBuf {
        self.runtime_dir.join("systemd/io.systemd.Manager")
    }

    /// Where systemd-oomd asks for the groups that it looks after: the one of systemd 252, and a newer one.
    pub fn managed_oom_sockets(&self) -> [PathBuf; 2] {
        ["systemd/io.system.ManagedOOM", "systemd/io.systemd.ManagedOOM"]
            .map(|name| self.runtime_dir.join(name))
    }

    /// Where clients of varlink look for the socket of an interface.
    pub fn varlink_registry(&self) -> PathBuf {
        self.runtime_dir.join("varlink/registry")
    }

    /// Where systemd's own clients connect.
    pub fn private_socket(&self) -> PathBuf {
        self.runtime_dir.join("systemd/private")
    }

    /// Where services notify.
    pub fn notify_socket(&self) -> PathBuf {
        self.runtime_dir.join("systemd/notify")
    }

    /// Where the message bus is.
    pub fn bus_socket(&self) -> PathBuf {
        match self.scope {
            Scope::System => self.runtime_dir.join("dbus/system_bus_socket"),
            Scope::User => self.runtime_dir.join("bus"),
        }
    }

    /// Where `warren` connects.
    pub fn control_socket(&self) -> PathBuf {
        self.runtime_dir.join("warren/control")
    }

    /// Where recordings are kept: of a host where they outlive it, of all others with what else
    /// they have at run time, because the directories below `/var` may not be theirs.
    pub fn record_dir(&self) -> PathBuf {
        let host = self.scope == Scope::System && !warren_sys::process::in_container();
        match &self.record_path {
            Some(path) => path.clone(),
            None if host => PathBuf::from("/var/log/warren/records"),
            None => self.runtime_dir.join("log/warren/records"),
        }
    }

    /// Where timers with `Persistent=` have their stamp files (systemd.timer(5)). Where units come from elsewhere than
    /// from the host, so do these.
    pub fn timer_dir(&self) -> PathBuf {
        match (&self.timer_path, &self.unit_path, self.scope) {
            (Some(path), _, _) => path.clone(),
            (None, Some(_), _) => self.runtime_dir.join("warren/timers"),
            (None, None, Scope::System) => PathBuf::from("/var/lib/systemd/timers"),
            (None, None, Scope::User) => user_data_dir().map_or_else(
                || self.runtime_dir.join("warren/timers"),
                |dir| dir.join("systemd/timers"),
            ),
        }
    }

    /// Where the log daemon answers questions.
    pub fn journal_socket(&self) -> PathBuf {
        self.runtime_dir.join("systemd/journal/io.warrener.journal")
    }

    /// Where the output of services goes while there is no log daemon.
    pub fn log_dir(&self) -> PathBuf {
        self.runtime_dir.join("log/warren/units")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_the_help_is_taken() {
        let words = HELP.lines().filter_map(|line| line.trim().split(' ').next());
        let options: Vec<&str> = words.filter(|word| word.starts_with("--")).collect();
        assert!(options.contains(&"--help"));
        for option in options {
            let argument = option.replace("=TARGET", "=console").replace("=SPAN", "=5min");
            let argument = argument.replace("[=BOOL]", "=no");
            let parsed = Options::parse(["--help".to_owned(), argument].into_iter());
            assert!(parsed.is_ok(), "{option}: {:?}", parsed.err());
        }
    }

    #[test]
    fn an_end_has_some_time() {
        let parse = |word: &str| Options::parse([word.to_owned(), "--help".to_owned()].into_iter());
        let parsed = parse("--end-within=1min 30s").expect("a time span");
        assert_eq!(parsed.end_within, Duration::from_secs(90));
        for bad in ["", "0", "infinity", "soon"] {
            assert!(parse(&format!("--end-within={bad}")).is_err(), "{bad}");
        }
    }
}
