//! Runs the programs of a plan and keeps lvm2's run files. Decides nothing.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_sys::eventfd::EventFd;

use crate::activate::{Command, RunFile};
use crate::index::{DeviceNumber, GroupId};

/// Programs that run at one time; one that hangs holds up one place.
const PROGRAMS_MAX: usize = 4;

/// Of what a program says, this much is kept, in bytes, from the end.
const SAID_BYTES_MAX: usize = 4096;

/// A program came to its end.
pub(super) struct Ended {
    pub groups: Vec<GroupId>,
    /// What went wrong.
    pub result: Result<(), String>,
}

/// Runs programs, a few at a time.
pub(super) struct Runner {
    waiting: VecDeque<Command>,
    running: usize,
    sender: Sender<Ended>,
    receiver: Receiver<Ended>,
    done: Arc<EventFd>,
    udev: bool,
}

/// What tells lvm2 and mdadm that no udev runs: they make their nodes and links themselves and do
/// not wait for anybody to do it.
const WITHOUT_UDEV: [(&str, &str); 2] = [("DM_DISABLE_UDEV", "1"), ("MDADM_NO_UDEV", "1")];

impl Runner {
    pub(super) fn new(udev: bool) -> warren_sys::Result<Runner> {
        let (sender, receiver) = channel();
        let done = Arc::new(EventFd::new()?);
        Ok(Runner { waiting: VecDeque::new(), running: 0, sender, receiver, done, udev })
    }

    /// Becomes readable when a program ended.
    pub(super) fn fd(&self) -> &EventFd {
        &self.done
    }

    pub(super) fn submit(&mut self, command: Command) {
        self.waiting.push_back(command);
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

    pub(super) fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting.is_empty()
    }

    fn start_waiting(&mut self) {
        while self.running < PROGRAMS_MAX
            && let Some(command) = self.waiting.pop_front()
        {
            self.running += 1;
            let (sender, done) = (self.sender.clone(), self.done.clone());
            let environment: &[(&str, &str)] = if self.udev { &[] } else { &WITHOUT_UDEV };
            std::thread::spawn(move || {
                let result = run(&command.words, environment);
                // Nobody listens any more: the daemon ends.
                let _ = sender.send(Ended { groups: command.groups, result });
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

/// Writes a run file whole: lvm2 never sees half of one.
pub(super) fn write_file(top: &Path, file: &RunFile) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let path = top.join(&file.path);
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    if fs::read(&path).is_ok_and(|old| old == file.text.as_bytes()) {
        return Ok(());
    }
    // A name that lvm2 does not take for a PVID or a group: it has a space.
    let fresh = path.with_file_name("warren new");
    fs::write(&fresh, &file.text)?;
    fs::rename(&fresh, &path)
}

/// Removes the run file of a PV that went, unless it tells of another device by now.
pub(super) fn remove_file(top: &Path, path: &str, device: DeviceNumber) -> io::Result<()> {
    let path = top.join(path);
    match fs::read_to_string(&path) {
        Ok(text) if text.lines().next() == Some(device.to_string().as_str()) => {
            fs::remove_file(&path)
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Command {
        Command { words: words.iter().map(|word| (*word).to_owned()).collect(), groups: Vec::new() }
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let run = |words: &[&str]| run(&command(words).words, &[]);
        assert_eq!(run(&["true"]), Ok(()));
        let failed = run(&["sh", "-c", "echo one >&2; echo two >&2; exit 5"]);
        assert_eq!(failed, Err("sh: exit status: 5: one; two".to_owned()));
        assert!(run(&["warren-no-such-program"]).is_err_and(|why| why.contains("No such file")));
        assert!(run(&[]).is_err());
    }

    #[test]
    fn a_few_programs_run_at_a_time_and_all_end() {
        let mut runner = Runner::new(true).expect("an eventfd can be had");
        (0..10).for_each(|_| runner.submit(command(&["true"])));
        assert_eq!((runner.running, runner.waiting.len()), (PROGRAMS_MAX, 10 - PROGRAMS_MAX));
        let mut ended = 0;
        while ended < 10 {
            ended += runner.ended().iter().filter(|program| program.result.is_ok()).count();
            std::thread::yield_now();
        }
        assert!(runner.is_idle());
    }

    #[test]
    fn a_run_file_is_removed_by_its_own_device_only() {
        let top = std::env::temp_dir().join(format!("warren-run-{}", std::process::id()));
        let file = RunFile { path: "pvs_online/x".into(), text: "8:0\nvg:a\n".into() };
        let number = |minor| DeviceNumber { major: 8, minor };
        write_file(&top, &file).expect("the directory can be made");
        write_file(&top, &file).expect("it may be there already");
        assert_eq!(fs::read_to_string(top.join(&file.path)).ok(), Some(file.text));
        remove_file(&top, &file.path, number(1)).expect("no error");
        assert!(top.join(&file.path).exists(), "another device's");
        remove_file(&top, &file.path, number(0)).expect("no error");
        remove_file(&top, &file.path, number(0)).expect("it may be gone already");
        assert!(!top.join(&file.path).exists());
        fs::remove_dir_all(&top).expect("it was made here");
    }
}
