//! Runs programs, a few at a time. Decides nothing.

use std::collections::VecDeque;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_sys::eventfd::EventFd;

use crate::orders::Run;

/// Programs that run at one time; one that hangs holds up one place.
const PROGRAMS_MAX: usize = 4;

/// Of what a program says, this much is kept, in bytes, from the end.
const SAID_BYTES_MAX: usize = 4096;

/// A program came to its end, and what went wrong.
type Ended = (u64, Result<(), String>);

/// Runs programs, a few at a time.
pub(super) struct Runner {
    waiting: VecDeque<Run>,
    running: usize,
    sender: Sender<Ended>,
    receiver: Receiver<Ended>,
    done: Arc<EventFd>,
}

/// What tells lvm2 and mdadm that no udev runs: they make their nodes and links themselves and do
/// not wait for anybody to do it.
const WITHOUT_UDEV: [(&str, &str); 2] = [("DM_DISABLE_UDEV", "1"), ("MDADM_NO_UDEV", "1")];

impl Runner {
    pub(super) fn new() -> warren_sys::Result<Runner> {
        let (sender, receiver) = channel();
        let done = Arc::new(EventFd::new()?);
        Ok(Runner { waiting: VecDeque::new(), running: 0, sender, receiver, done })
    }

    /// Becomes readable when a program ended.
    pub(super) fn fd(&self) -> &EventFd {
        &self.done
    }

    pub(super) fn submit(&mut self, run: Run) {
        self.waiting.push_back(run);
        self.start_waiting();
    }

    /// Programs that ended; others take their places.
    pub(super) fn ended(&mut self) -> Vec<Ended> {
        self.done.clear();
        let ended: Vec<Ended> = self.receiver.try_iter().collect();
        self.running -= ended.len();
        self.start_waiting();
        ended
    }

    fn start_waiting(&mut self) {
        while self.running < PROGRAMS_MAX
            && let Some(next) = self.waiting.pop_front()
        {
            self.running += 1;
            let (sender, done) = (self.sender.clone(), self.done.clone());
            let environment: &[(&str, &str)] = if next.udev { &[] } else { &WITHOUT_UDEV };
            std::thread::spawn(move || {
                let result = run(&next.words, environment);
                // Nobody listens any more: the daemon ends.
                let _ = sender.send((next.id, result));
                done.notify();
            });
        }
    }
}

fn run(words: &[String], environment: &[(&str, &str)]) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("no program")?;
    // lvm2 complains of every descriptor it did not open, and ours are close-on-exec.
    let process = Process::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output();
    let output = process.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}: {}", output.status, last_words(&output.stderr))),
    }
}

fn last_words(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(SAID_BYTES_MAX);
    crate::bytes::printable(&String::from_utf8_lossy(&bytes[from..]).trim().replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let run = |words: &[&str]| run(&super::tests::words(words), &[]);
        assert_eq!(run(&["true"]), Ok(()));
        let failed = run(&["sh", "-c", "echo one >&2; echo two >&2; exit 5"]);
        assert_eq!(failed, Err("sh: exit status: 5: one; two".to_owned()));
        assert!(run(&["warren-no-such-program"]).is_err_and(|why| why.contains("No such file")));
        assert!(run(&[]).is_err());
    }

    #[test]
    fn a_few_programs_run_at_a_time_and_all_end() {
        let mut runner = Runner::new().expect("an eventfd can be had");
        (0..10).for_each(|id| runner.submit(Run { id, udev: true, words: words(&["true"]) }));
        assert_eq!((runner.running, runner.waiting.len()), (PROGRAMS_MAX, 10 - PROGRAMS_MAX));
        let mut ended = 0;
        warren_testkit::wait_until("all programs end", || {
            ended += runner.ended().iter().filter(|(_, result)| result.is_ok()).count();
            ended >= 10
        });
        assert_eq!(runner.running, 0);
    }
}
