//! The last steps of a shutdown, when every unit is down: leftover processes are named and ended, on
//! a host storage is taken apart, and other programs run that wait for that.
//!
//! Owns: the order in which storage is taken apart, and the report of it. Start at [`run`].
//! Must not: be linked to the state of the manager, or sleep: every wait ends with the process that it
//! waits for, or at its bound. What may hang for ever is done by a child.
//! Thread: one thread of a process of its own (`warrend --last-steps`). The manager waits for its end
//! and then lets init end the machine; if the manager is killed meanwhile, the next one starts the last
//! steps again, which finds less to do.

pub(crate) mod holders;

pub(crate) mod left_over;

mod look;
mod own;

pub(crate) mod programs;

pub(crate) mod progress;

pub(crate) mod report;

mod stack;

mod steps;

mod storage;

mod stragglers;

use crate::base::say::say;
use crate::last_steps::report::Done;
use programs::Programs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
pub use steps::{EXIT_BUSY, LAST_STEP, Step, run_step};

/// The argument with which warrend takes the last steps and ends.
pub const LAST_STEPS: &str = "--last-steps";

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastSteps {
    /// The root of the units' cgroups, in which processes that are left are looked for.
    pub groups: Option<PathBuf>,
    /// There are no cgroups, and every process is of this machine.
    pub everywhere: bool,
    /// How long those that are left may take to end when they were asked to.
    pub grace: Duration,
    /// Where a key ends that.
    pub console: Option<PathBuf>,
    /// The kernel goes on: what SIGTERM does not end is left.
    pub soft: bool,
    /// A file with cgroups below that root, one a line, whose processes are left alone; without cgroups, with
    /// the numbers of such processes.
    pub spare: Option<PathBuf>,
    /// Take storage apart: this is a host, not a container.
    pub storage: bool,
    /// Programs that run when all else is over.
    pub programs: Option<Programs>,
    /// Where the report goes.
    pub report: Option<PathBuf>,
}

impl LastSteps {
    /// The command line that [`LastSteps::parse`] understands.
    pub fn arguments(&self) -> Vec<String> {
        let mut out = vec![LAST_STEPS.to_owned()];
        let groups = self.groups.iter().map(|path| format!("groups={}", path.display()));
        out.extend(groups);
        out.extend(self.everywhere.then(|| "everywhere=yes".to_owned()));
        out.push(format!("grace={}", self.grace.as_millis()));
        out.extend(self.console.iter().map(|path| format!("console={}", path.display())));
        out.extend(self.soft.then(|| "soft=yes".to_owned()));
        out.extend(self.spare.iter().map(|path| format!("spare={}", path.display())));
        out.extend(self.storage.then(|| "storage=yes".to_owned()));
        out.extend(self.programs.iter().map(|it| format!("programs={}", it.to_argument())));
        out.extend(self.report.iter().map(|path| format!("report={}", path.display())));
        out
    }

    /// Reads the words after [`LAST_STEPS`].
    pub fn parse(words: impl Iterator<Item = String>) -> Result<LastSteps, String> {
        let mut steps = LastSteps::default();
        for word in words {
            let unknown = || format!("unknown last step {word}");
            match word.split_once('=') {
                Some(("everywhere", "yes")) => steps.everywhere = true,
                Some(("grace", ms)) => {
                    steps.grace = Duration::from_millis(ms.parse().map_err(|_| unknown())?);
                }
                Some(("console", path)) => steps.console = Some(path.into()),
                Some(("groups", path)) => steps.groups = Some(path.into()),
                Some(("soft", "yes")) => steps.soft = true,
                Some(("spare", path)) => steps.spare = Some(path.into()),
                Some(("storage", "yes")) => steps.storage = true,
                Some(("programs", text)) => steps.programs = Some(Programs::parse(text)),
                Some(("report", path)) => steps.report = Some(path.into()),
                _ => return Err(unknown()),
            }
        }
        Ok(steps)
    }
}

impl LastSteps {
    /// Whether there may be anything to be done.
    pub fn are_needed(&self) -> bool {
        self.storage || self.programs.is_some() || self.stragglers_may_be_left()
    }

    /// Whether processes may have outlived their units.
    pub fn stragglers_may_be_left(&self) -> bool {
        // Without groups only a look at every process could say.
        self.everywhere || self.groups.as_deref().is_some_and(stragglers::may_be_left)
    }
}

/// How long those of a manager that was killed are waited for, beyond the time that they give to processes.
const BEFORE_MAX: Duration = Duration::from_secs(5 * 60);

/// Takes the last steps, when those of an earlier manager are over: side by side each would take what the
/// other has under way for done.
pub fn run(steps: &LastSteps) -> Done {
    let within = BEFORE_MAX + steps.grace;
    let turn = steps.report.as_deref().and_then(|report| wait_for_turn(report, within));
    // What they did counts. What they could not do is tried again.
    let before = steps.report.as_deref().and_then(Done::read).unwrap_or_default();
    let mut done = Done { failed: 0, ..before };
    if steps.groups.is_some() || steps.everywhere {
        let spared = steps.spare.as_deref().map(std::fs::read_to_string);
        let spared = spared.transpose().unwrap_or_else(|e| {
            say!("cannot read the list of processes to spare: {e}");
            None
        });
        let spared = spared.unwrap_or_default().lines().map(str::to_owned).collect();
        let LastSteps { soft, grace, console, .. } = steps.clone();
        let told = steps.report.as_deref().map(left_over::path);
        let hunt = stragglers::Hunt { spared, soft, grace, console, told };
        let ended = hunt.end_all(steps.groups.as_deref());
        done.left_over += ended.found;
        done.killed += ended.killed;
        if ended.found > 0 {
            done.wait = ended.wait;
        }
    }
    if steps.storage {
        done.failed = storage::take_apart();
    }
    // No program runs twice.
    if let Some(programs) = steps.programs.as_ref().filter(|_| done.programs == 0) {
        done.programs = storage::run_programs(programs, steps.storage);
    }
    if let Some(path) = &steps.report {
        // The manager does without it.
        let _ = std::fs::write(path, done.to_line());
    }
    drop(turn);
    done
}

/// A lock beside the report, when nobody else has it any more; none when that takes longer than `within`,
/// or cannot be known. It goes with the process, however that ends.
fn wait_for_turn(report: &Path, within: Duration) -> Option<File> {
    let file = File::create(report.with_extension("lock")).ok()?;
    if file.try_lock().is_ok() {
        return Some(file);
    }
    say!("waiting for the last steps of the previous manager");
    let (sender, turn) = channel();
    // It stays behind if it waits for too long.
    let wait = move || {
        let locked = file.lock().map(|()| file);
        let _ = sender.send(locked);
    };
    std::thread::Builder::new().name("turn".into()).spawn(wait).ok()?;
    turn.recv_timeout(within).ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_steps::report::Wait;

    #[test]
    fn arguments_come_back() {
        let all = [
            LastSteps::default(),
            LastSteps { storage: true, ..LastSteps::default() },
            LastSteps { soft: true, spare: Some("/s".into()), ..LastSteps::default() },
            LastSteps {
                everywhere: true,
                grace: Duration::from_millis(1500),
                ..LastSteps::default()
            },
            LastSteps {
                groups: Some("/a b".into()),
                console: Some("/c".into()),
                storage: true,
                programs: Some(Programs::parse("halt:/p:/q r")),
                report: Some("/r".into()),
                ..LastSteps::default()
            },
        ];
        for steps in all {
            let words = steps.arguments().into_iter().skip(1);
            assert_eq!(LastSteps::parse(words), Ok(steps));
        }
        for wrong in ["storage=no", "grace=x"] {
            assert!(LastSteps::parse(std::iter::once(wrong.to_owned())).is_err());
        }
    }

    #[test]
    fn what_was_told_of_processes_is_not_told_again_with_the_end() {
        let wait = Wait { from_us: 5, killed_us: 6, until_us: 7, held: 0 };
        let first = Done { left_over: 3, killed: 2, failed: 0, programs: 0, wait };
        assert_eq!(first.since(&Done::default()), first);
        let none = Done { failed: 1, ..Done::default() };
        assert_eq!(Done { failed: 1, ..first.clone() }.since(&first), none);
        let later = Wait { from_us: 8, ..wait };
        let one = Done { left_over: 1, wait: later, ..Done::default() };
        assert_eq!(Done { left_over: 4, wait: later, ..first.clone() }.since(&first), one);
    }

    #[test]
    fn the_last_steps_of_two_managers_are_taken_one_after_the_other() {
        let scratch = crate::base::scratch::Scratch::new("last-turn");
        let report = scratch.0.join("last-steps");
        let turn = wait_for_turn(&report, Duration::ZERO).expect("nobody has it");
        assert!(
            wait_for_turn(&report, Duration::ZERO).is_none(),
            "not side by side, but it goes on"
        );
        let second = std::thread::spawn({
            let report = report.clone();
            move || run(&LastSteps { report: Some(report), ..LastSteps::default() })
        });
        let wait = Wait { from_us: 5, killed_us: 6, until_us: 7, held: 4 };
        let first = Done { left_over: 3, killed: 2, failed: 1, programs: 5, wait };
        std::fs::write(&report, first.to_line()).expect("it can be written");
        drop(turn);
        let both = second.join().expect("it ends");
        assert_eq!(both, Done { failed: 0, ..first });
        assert_eq!(Done::read(&report), Some(both));
    }
}
