//! Arguments.

use std::path::PathBuf;

use warren_init::protocol::control::{HELPERS_MAX, PowerAction};
use warren_init::protocol::ring;
use warren_sys::usage;

use crate::finish::{FINISH, parse_finish};

/// Text of `--help`.
pub const HELP: &str = "\
Usage: warren-init [OPTION...] [-- MANAGER-ARGUMENT...]

  --manager=PATH       the manager; default: warrend beside this program,
                       else in ../lib/warren
  --exec=PATH          the exec helper; default: warren-exec, likewise
  --helpers=N          how many exec helpers; default: one for each CPU, at most 4
  --cgroup-root=PATH   cgroup to manage; default: the one this process is in
  --no-cgroup          manage without cgroups
  --on-exit=WHAT       when the manager exits by itself:
                       restart (default), or stop with its status
  --heartbeat=SECONDS  restart a manager that has been silent so long; 0: never;
                       default 60
  --healthy=MS         a program that ran so long is taken to work: when it ends
                       it is started again at once; default 10000
  --ring=N             records in the exit ring; default 32768
  --version            print the version
  --help               this text
";

/// What to do when the manager exits by itself (not: is killed).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExit {
    /// Start it again.
    Restart,
    /// End, with its status.
    Stop,
}

/// The arguments, checked.
#[derive(Debug)]
pub struct Options {
    /// Print the help and end.
    pub help: bool,
    /// Print the version and end.
    pub version: bool,
    /// Path of warrend.
    pub manager: PathBuf,
    /// Path of warren-exec.
    pub exec: PathBuf,
    /// Number of helpers, 1 to [`HELPERS_MAX`].
    pub helpers: usize,
    /// The cgroup to manage, when given.
    pub cgroup_root: Option<PathBuf>,
    /// Use no cgroups.
    pub no_cgroup: bool,
    /// What a clean exit means.
    pub on_exit: OnExit,
    /// Heartbeat bound in seconds; 0 is off.
    pub heartbeat_s: u32,
    /// What ran so long is taken to work, in milliseconds.
    pub healthy_ms: u32,
    /// Records in the exit ring.
    pub ring_records: u64,
    /// Do nothing but end the machine: init executes itself with this.
    pub finish: Option<PowerAction>,
    /// Passed on to the manager.
    pub manager_args: Vec<String>,
    /// What is wrong with arguments of process 1, which goes on without them.
    pub faults: Vec<String>,
}

impl Options {
    /// Reads the arguments. Process 1 of a host also gets those that the boot loader passed and
    /// the kernel did not know: what does not start with `-` is ignored, and what it does not know
    /// itself, too, since the kernel panics when it ends.
    pub fn parse(
        mut args: impl Iterator<Item = String>,
        is_pid_1: bool,
    ) -> Result<Options, String> {
        let mut options = Options {
            help: false,
            version: false,
            manager: beside("warrend"),
            exec: beside("warren-exec"),
            helpers: default_helpers(),
            cgroup_root: None,
            no_cgroup: false,
            on_exit: OnExit::Restart,
            heartbeat_s: 60,
            healthy_ms: 10_000,
            ring_records: ring::CAPACITY,
            finish: None,
            manager_args: Vec::new(),
            faults: Vec::new(),
        };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--" => {
                    options.manager_args = args.collect();
                    break;
                }
                _ if !arg.starts_with('-') => {}
                _ => match options.set(&arg) {
                    Err(fault) if is_pid_1 => options.faults.push(fault),
                    set => set?,
                },
            }
        }
        Ok(options)
    }

    fn set(&mut self, arg: &str) -> Result<(), String> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("not a number: {arg}"));
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("--help" | "-h", _) => self.help = true,
            ("--version" | "-V", _) => self.version = true,
            ("--manager", path) => self.manager = path.into(),
            ("--exec", path) => self.exec = path.into(),
            ("--helpers", n) => self.helpers = (number(n)? as usize).clamp(1, HELPERS_MAX),
            ("--cgroup-root", path) => self.cgroup_root = Some(path.into()),
            ("--no-cgroup", _) => self.no_cgroup = true,
            ("--on-exit", "restart") => self.on_exit = OnExit::Restart,
            ("--on-exit", "stop") => self.on_exit = OnExit::Stop,
            ("--ring", n) => self.ring_records = u64::from(number(n)?).clamp(1, ring::CAPACITY_MAX),
            ("--healthy", n) => self.healthy_ms = number(n)?,
            (FINISH, word) => {
                self.finish = Some(parse_finish(word).ok_or_else(|| usage::unexpected(arg))?);
            }
            ("--heartbeat", n) => self.heartbeat_s = number(n)?,
            _ => return Err(usage::unexpected(arg)),
        }
        Ok(())
    }
}

fn default_helpers() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get()).clamp(1, 4)
}

/// The program in our own directory, else in `../lib/warren`, else by its usual path.
fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let here = own.parent().map(|dir| dir.join(name));
    let lib = own.parent().map(|dir| dir.join("../lib/warren").join(name));
    let found = [here, lib].into_iter().flatten().find(|path| path.exists());
    found.unwrap_or_else(|| PathBuf::from("/usr/lib/warren").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &str, expected: &str) {
        let text = match Options::parse(args.split_whitespace().map(str::to_owned), false) {
            Ok(o) => {
                format!("{} {:?} {} {:?}", o.helpers, o.on_exit, o.heartbeat_s, o.manager_args)
            }
            Err(e) => e,
        };
        assert_eq!(text, expected, "{args}");
    }

    #[test]
    fn arguments_are_read() {
        check(
            "--helpers=2 quiet --on-exit=stop -- a --helpers=9",
            "2 Stop 60 [\"a\", \"--helpers=9\"]",
        );
        check("--helpers=0 --heartbeat=5", "1 Restart 5 []");
        check("--helpers=99", "16 Restart 60 []");
        check("--helpers=x", "not a number: --helpers=x");
        check("--on-exit=maybe", "unexpected argument '--on-exit=maybe' found");
    }

    #[test]
    fn process_1_goes_on_without_what_it_does_not_know() {
        let args = "-b splash --helpers=x --switched-root --helpers=2 -- -x";
        let options = Options::parse(args.split_whitespace().map(str::to_owned), true)
            .expect("nothing ends it");
        let faults = [
            "unexpected argument '-b' found",
            "not a number: --helpers=x",
            "unexpected argument '--switched-root' found",
        ];
        assert_eq!(options.faults, faults);
        assert_eq!((options.helpers, options.manager_args), (2, vec!["-x".to_owned()]));
    }
}
