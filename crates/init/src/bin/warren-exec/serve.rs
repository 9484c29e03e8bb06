//! The loop: a request, a process, a reply.

use std::collections::VecDeque;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use warren_init::protocol::birth::{self, Birth};
use warren_init::protocol::exec::{
    CgroupPlace, HelperReply, Missing, SpawnError, SpawnReply, SpawnRequest, Spawned, Sync, Synced,
};
use warren_init::protocol::{ExecStep, encode};
use warren_sys::clone::{self, Stack};
use warren_sys::errno::{EINVAL, ENOSYS, EPERM};
use warren_sys::{Error, fdpass, process, signal, time};

use crate::Arguments;
use crate::apply::{self, Failure};
use crate::fault::wrong;
use crate::fds::own_fds_from;
use crate::identity::Users;
use crate::namespaces;
use crate::prepare::{Prepared, prepare};
use crate::request::{self, Incoming};
use crate::session;

/// What lasts from request to request.
struct Helper {
    arguments: Arguments,
    stack: Stack,
    /// How far the process is that is being made, for a manager that outlives us.
    birth: Birth,
    /// The same, as it is given to managers.
    birth_fd: OwnedFd,
    users: Users,
    /// The last replies, oldest first: a new manager gets them again, because its predecessor may
    /// have ended with some of them in hand.
    told: VecDeque<HelperReply>,
}

/// Replies that are kept.
const TOLD_MAX: usize = birth::REMEMBERED;

/// Serves until the socket ends; the exit status.
pub fn run(arguments: Arguments) -> i32 {
    signal::reset_all();
    // New processes unblock everything; the helper itself heeds nothing but its socket's end.
    let made =
        signal::set_blocked(signal::SignalSet::ALL).and_then(|_| Ok((Stack::new()?, own_birth()?)));
    let (stack, (birth, birth_fd)) = match made {
        Ok(made) => made,
        Err(error) => {
            eprintln!("warren-exec: {error}");
            return 1;
        }
    };
    let _ = process::set_name("warren-exec");
    let mut helper = Helper {
        arguments,
        stack,
        birth,
        birth_fd,
        users: Users::default(),
        told: VecDeque::with_capacity(TOLD_MAX),
    };
    let mut buffer = request::buffer();
    loop {
        let (reply, pidfd) = match request::receive(helper.arguments.socket.as_fd(), &mut buffer) {
            Incoming::End => return 0,
            Incoming::Garbage(message) => (HelperReply::Refused { message }, None),
            Incoming::WithoutFds { id } => (without_fds(id), None),
            Incoming::Unreadable { id, message } => (unreadable(id, message), None),
            Incoming::Sync(question) => match helper.tell_again(question) {
                Ok(()) => continue,
                Err(_) => return 0,
            },
            Incoming::Spawn(request, fds) => helper.spawn(request, fds),
        };
        if helper.reply(&reply, pidfd).is_err() {
            return 0;
        }
        helper.keep(reply);
    }
}

/// The memory that outlives us, its fd out of the services' way.
fn own_birth() -> Result<(Birth, OwnedFd), Error> {
    let (birth, fd) = Birth::create()?;
    Ok((birth, fdpass::take_inherited(fd.into_raw_fd(), own_fds_from())?))
}

fn unreadable(id: u64, message: String) -> HelperReply {
    let error = SpawnError { step: ExecStep::Request, errno: 0, message, pid: None };
    HelperReply::Spawned(SpawnReply { id, result: Err(error) })
}

fn without_fds(id: u64) -> HelperReply {
    use warren_sys::errno::EMFILE;
    let message = "receiving its files".to_owned();
    let error = SpawnError { step: ExecStep::Fds, errno: EMFILE, message, pid: None };
    HelperReply::Spawned(SpawnReply { id, result: Err(error) })
}

impl Helper {
    fn spawn(
        &mut self,
        request: SpawnRequest,
        fds: Vec<OwnedFd>,
    ) -> (HelperReply, Option<OwnedFd>) {
        let id = request.id;
        let root = self.arguments.cgroup_root.as_ref().map(AsFd::as_fd);
        let socket = self.arguments.socket.as_fd();
        let goes_on = || self.birth.goes_on();
        let prepared = prepare(*request.exec, fds, socket, root, &mut self.users, &goes_on);
        let made = prepared.and_then(|mut prepared| {
            self.birth.begin(id);
            let waits = session::begin(&mut prepared, socket, &self.birth, self.birth_fd.as_fd())?;
            let (spawned, pidfd) = make(&mut prepared, &mut self.stack, &self.birth)?;
            match waits {
                None => Ok((spawned, pidfd)),
                Some(waits) => {
                    drop(prepared);
                    let missing = waits.until_program(spawned.pid, pidfd.as_fd())?;
                    // The rest is for the process behind the session.
                    let Missing { page_merging, nft_sets, .. } = spawned.missing;
                    let missing = Missing { page_merging, nft_sets, ..missing };
                    Ok((Spawned { missing, ..spawned }, pidfd))
                }
            }
        });
        let (result, pidfd) = match made {
            Ok((spawned, pidfd)) => (Ok(spawned), Some(pidfd)),
            Err(error) => (Err(error), None),
        };
        (HelperReply::Spawned(SpawnReply { id, result }), pidfd)
    }

    fn tell_again(&self, question: Sync) -> Result<(), Error> {
        self.told.iter().try_for_each(|reply| self.reply(reply, None))?;
        let (socket, birth) = (self.arguments.socket.as_fd(), self.birth_fd.as_fd());
        fdpass::send(socket, &Synced::to(question).packet(), &[birth])
    }

    fn keep(&mut self, reply: HelperReply) {
        if !matches!(reply, HelperReply::Spawned(_)) {
            return;
        }
        if self.told.len() == TOLD_MAX {
            self.told.pop_front();
        }
        self.told.push_back(reply);
    }

    fn reply(&self, reply: &HelperReply, pidfd: Option<OwnedFd>) -> Result<(), Error> {
        let packet = encode(reply).expect("a reply is far smaller than a packet");
        let socket = self.arguments.socket.as_fd();
        match &pidfd {
            Some(fd) => fdpass::send(socket, &packet, &[fd.as_fd()]),
            None => fdpass::send(socket, &packet, &[]),
        }
    }
}

/// What the kernel begins with (core(5)).
const COREDUMP_FILTER: u32 = 0x33;

/// Makes the process; returns when it has exec'd or failed.
fn make(
    prepared: &mut Prepared,
    stack: &mut Stack,
    announced: &Birth,
) -> Result<(Spawned, OwnedFd), SpawnError> {
    let started_ns = time::monotonic_ns();
    let mut failure: Option<Failure> = None;
    let mut moved = false;
    let cgroup = prepared.cgroup.take();
    let cgroup = cgroup.as_ref().map(AsFd::as_fd);
    let must_hold = prepared.spec.view.must_hold;
    let enters = matches!(prepared.spec.cgroup, CgroupPlace::Enter(_));
    let born_in = cgroup.filter(|_| !enters);
    let mut options =
        clone::Options { cgroup: born_in, sibling: true, pid_namespace: prepared.own_processes };
    let mut body = |newborn: clone::Newborn| {
        moved = !newborn.in_cgroup && cgroup.is_some();
        let place = cgroup.filter(|_| moved);
        let failed = apply::apply_and_exec(prepared, place, newborn.pid, announced, &mut |_| {});
        let code = failed.step.exit_code();
        failure = Some(failed);
        code
    };
    let mut child = clone::spawn(&options, stack, &mut body);
    let is_refused = |e: &Error| matches!(e.errno, EPERM | EINVAL | ENOSYS);
    if options.pid_namespace && !must_hold && child.as_ref().is_err_and(is_refused) {
        options.pid_namespace = false;
        child = clone::spawn(&options, stack, &mut body);
    }
    prepared.missing.processes = prepared.own_processes && !options.pid_namespace;
    if prepared.spec.coredump_filter.is_some() {
        // The process had our memory until it became its program. The next one begins as this one did.
        let _ = warren_sys::child::set_coredump_filter(COREDUMP_FILTER);
    }
    if prepared.spec.memory_ksm == Some(true) {
        let _ = warren_sys::child::set_page_merging(false);
    }
    let child = child.map_err(|e| match prepared.own_processes {
        true => namespaces::no_more(ExecStep::Namespace, &e, "PID namespaces"),
        false => wrong(ExecStep::Cgroup, &e),
    })?;
    if let Some(mounts) = &mut prepared.mounts {
        mounts.forget();
    }
    match failure {
        None => {
            let missing = prepared.missing();
            let spawned = Spawned { pid: child.pid, started_ns, moved_to_cgroup: moved, missing };
            Ok((spawned, child.pidfd))
        }
        Some(Failure { step, errno, call }) => Err(SpawnError {
            step,
            errno,
            message: prepared.describe(step, call),
            pid: Some(child.pid),
        }),
    }
}
