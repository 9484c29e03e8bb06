//! Mounts for processes that run (`systemctl bind`, `systemctl mount-image`).
//!
//! What mounts is another program, for one mount alone: a path may lie on a server that does not answer, and the
//! process decides what is on the way to the place. A thread waits for that program and answers the client. It owns
//! nothing of the manager's.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use warren_bus::backend::{Answer, MountInto, Outcome};
use warren_bus::{BusError, ReplySender};
use warren_init::protocol::mount_into::{self, MOUNT_INTO, NotMounted};
use warren_sys::errno::{EACCES, EINVAL, ENOENT, EPERM, ESRCH};
use warren_sys::error::errno_text;
use warren_sys::process;

/// How long one may take. A client of sd-bus waits 25 s.
const WITHIN: Duration = Duration::from_secs(20);

/// Mounts that are made at a time, those included whose program cannot be ended.
const AT_WORK_MAX: usize = 8;

/// Bytes of what the program says.
const SAID_BYTES_MAX: u64 = 16 << 10;

/// Mounts that are being made.
#[derive(Default)]
pub(crate) struct MountsInto {
    at_work: Arc<AtomicUsize>,
}

/// One of them, counted until its program has ended.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(at_work: &Arc<AtomicUsize>) -> Option<Counted> {
        let is_room = at_work.fetch_add(1, Ordering::Relaxed) < AT_WORK_MAX;
        let counted = Counted(at_work.clone());
        is_room.then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MountsInto {
    /// Has something mounted for the process of a pidfd, and answers when it is.
    pub(crate) fn begin(&self, mount: &MountInto, process: OwnedFd, reply: ReplySender) {
        let Some(counted) = Counted::new(&self.at_work) else {
            let text = format!("{AT_WORK_MAX} mounts into units are under way.");
            return reply.send(Err(BusError::limits_exceeded(text)));
        };
        let mount = mount_into::MountInto {
            source: mount.source.clone(),
            destination: mount.destination.clone(),
            read_only: mount.read_only,
            makes: mount.makes,
            image: mount.image.clone(),
        };
        // A thread that cannot be had drops the reply, which says that nothing was done.
        let work = move || run(&mount, process, reply, counted);
        let _ = std::thread::Builder::new().name("mount-into".into()).spawn(work);
    }
}

/// The program, which lies beside this one.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("warren-exec")
}

fn run(mount: &mount_into::MountInto, process: OwnedFd, reply: ReplySender, _counted: Counted) {
    let mut command = Command::new(program());
    command.arg(format!("{MOUNT_INTO}{}", std::process::id())).args(mount.to_words());
    command.env_clear().stdin(Stdio::from(process)).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return reply.send(Err(BusError::failed(format!("cannot run warren-exec: {e}")))),
    };
    let Some(said) = end_within(&mut child, WITHIN) else {
        let text = format!("Mounting {} takes more than {WITHIN:?}.", mount.source);
        reply.send(Err(BusError::timed_out(text)));
        // One that the kernel holds counts as under way until it lets go.
        let _ = child.wait();
        return;
    };
    reply.send(outcome(mount, said));
}

/// What a program said that ended in time: nothing if it did what it was to do. One that did not is killed.
fn end_within(child: &mut Child, within: Duration) -> Option<Result<(), NotMounted>> {
    let until = Instant::now() + within;
    let lost = |detail: String| Some(Err(NotMounted::Failed { errno: 0, detail }));
    let pidfd = match process::pidfd_open(child.id().cast_signed()) {
        Ok(pidfd) => pidfd,
        Err(e) => {
            let _ = child.kill();
            let _ = child.wait();
            return lost(e.what());
        }
    };
    let left = until.saturating_duration_since(Instant::now());
    if !process::ends_within(&pidfd, left) {
        let _ = child.kill();
        return None;
    }
    match child.wait() {
        Ok(status) if status.success() => Some(Ok(())),
        Ok(status) => {
            let said = child.stdout.take().map(|out| said(File::from(OwnedFd::from(out))));
            match said.filter(|said| !said.is_empty()) {
                Some(said) => Some(Err(NotMounted::from_text(&said))),
                None => lost(status.to_string()),
            }
        }
        Err(e) => lost(e.to_string()),
    }
}

fn said(out: File) -> String {
    let mut said = Vec::new();
    // Without a word, the status is one.
    let _ = out.take(SAID_BYTES_MAX).read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

/// The answer, in systemd 252's words where it has some.
fn outcome(mount: &mount_into::MountInto, said: Result<(), NotMounted>) -> Outcome {
    let (errno, detail) = match said {
        Ok(()) => return Ok(Answer::Done),
        Err(NotMounted::NotPrivate) => return Err(not_private()),
        Err(NotMounted::Failed { errno, detail }) => (errno, detail),
    };
    let (from, to) = (&mount.source, &mount.destination);
    let why = match (errno, detail.as_str()) {
        (0, "") => "unknown".to_owned(),
        (0, detail) => detail.to_owned(),
        (errno, "") => errno_text(errno),
        (errno, detail) => format!("{} ({detail})", errno_text(errno)),
    };
    let text = format!("Failed to mount {from} on {to} in unit's namespace: {why}");
    Err(match errno {
        ENOENT => BusError::file_not_found(text),
        EINVAL => BusError::invalid_args(text),
        EPERM | EACCES => BusError::access_denied(text),
        ESRCH => BusError::no_such_process(text),
        _ => BusError::failed(text),
    })
}

/// The unit's process sees what the host sees.
pub(crate) fn not_private() -> BusError {
    let text = "Unit not running in private mount namespace, cannot activate bind mount";
    BusError::invalid_args(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_mounts_are_made_at_a_time() {
        let at_work = Arc::default();
        let mut all: Vec<_> = (0..AT_WORK_MAX).map(|_| Counted::new(&at_work)).collect();
        assert!(all.iter().all(Option::is_some) && Counted::new(&at_work).is_none());
        all.pop();
        assert!(Counted::new(&at_work).is_some());
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_and_one_that_fails_is_heard() {
        let run = |script: &str, within| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped());
            let mut child = command.spawn().expect("there is a shell");
            let said = end_within(&mut child, within);
            (said, child.wait().expect("a child").code())
        };
        let long = Duration::from_secs(60);
        assert_eq!(run("exec sleep 600", Duration::ZERO), (None, None));
        assert_eq!(run("exit 0", long), (Some(Ok(())), Some(0)));
        let failed = |errno, detail: &str| NotMounted::Failed { errno, detail: detail.to_owned() };
        assert_eq!(run("printf '2 '; exit 1", long).0, Some(Err(failed(2, ""))));
        assert_eq!(run("exit 3", long).0, Some(Err(failed(0, "exit status: 3"))));
    }

    #[test]
    fn what_went_wrong_is_said_as_systemd_says_it() {
        let (source, destination) = ("/a".to_owned(), "/b".to_owned());
        let mount = mount_into::MountInto {
            source,
            destination,
            read_only: true,
            makes: false,
            image: None,
        };
        let text = |errno, detail: &str| {
            let failed = NotMounted::Failed { errno, detail: detail.to_owned() };
            outcome(&mount, Err(failed)).expect_err("failed").text
        };
        let begin = "Failed to mount /a on /b in unit's namespace: ";
        assert_eq!(text(2, ""), format!("{begin}No such file or directory"));
        assert_eq!(text(0, "/a: no table"), format!("{begin}/a: no table"));
        assert_eq!(text(22, "/a"), format!("{begin}Invalid argument (/a)"));
    }
}
