//! What the new process does: system calls, in an order that matters, then exec.
//!
//! Runs in the helper's memory (see `warren_sys::clone::spawn`): allocates nothing, takes no
//! lock, drops nothing. The order: what needs privileges first, then the user switch, then
//! what must see the new user (the working directory), then the fds, then exec.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use warren_sys::errno::{ECANCELED, EDQUOT, ENOSPC, ENOSYS, EPERM};
use warren_sys::signal::SIGPIPE;

use warren_init::protocol::ExecStep;
use warren_init::protocol::birth::Birth;
use warren_init::protocol::exec::{ExecSpec, Keyring, LOG_STREAMS, TtyMode};
use warren_init::protocol::session::CONTINUATION_FD;
use warren_sys::child::{self, OpenFiles};
use warren_sys::namespace::{self, Namespaces};
use warren_sys::signal::{self, SignalSet};
use warren_sys::{Error, utmp};

use crate::fds::own_fds_from;
use crate::prepare::{Part, Prepared};
use crate::stdio::{LOG_FLAGS, Source, TTY_FLAGS, TTY_OUTPUT_FLAGS};

/// Files that are made, before UMask=.
const FILE_MODE: u32 = 0o666;

/// The step that failed, and how.
pub struct Failure {
    /// The step.
    pub step: ExecStep,
    /// errno(3).
    pub errno: i32,
    /// The system call.
    pub call: &'static str,
}

/// The helper is gone and the manager has decided that there is to be no process.
const UNWANTED: Failure = Failure { step: ExecStep::Exec, errno: ECANCELED, call: "birth" };

/// Names the step of a failed call.
trait At {
    fn at(self, step: ExecStep) -> Result<(), Failure>;
}

impl At for Result<(), Error> {
    fn at(self, step: ExecStep) -> Result<(), Failure> {
        self.map_err(|e| failure(step, &e))
    }
}

fn failure(step: ExecStep, error: &Error) -> Failure {
    Failure { step, errno: error.errno, call: error.call }
}

/// What a process does on the way to its program, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Dispositions and mask of signals.
    Signals,
    /// A session and a process group of its own.
    Leader,
    /// Standard input, output and error.
    Streams,
    /// Records of logins.
    Records,
    /// Mounts and namespaces.
    View,
    /// Priorities, processors, memory.
    Scheduling,
    /// Resource limits.
    Limits,
    /// The file mode creation mask.
    Mask,
    /// Keyring and groups, which a session of PAM may change.
    Login,
    /// The fds that the session's program gets.
    HandOver,
    /// Root directory, capabilities, the user.
    Privileges,
    /// The working directory.
    Directory,
    /// The fds that are passed.
    Fds,
    /// What is forbidden in the group may not be opened from here on.
    Seal,
    /// The helper is told that what follows may forbid to tell it anything.
    Report,
    /// The filter of system calls.
    Filter,
}

/// The order. Limits come after what is opened for the process's own view, as they are the unit's; but before a
/// session of PAM, whose modules have the last word about them, and that view comes after that.
fn order(part: Part) -> &'static [Phase] {
    use Phase::*;
    match part {
        Part::Whole => &[
            Signals, Leader, Streams, Records, View, Scheduling, Limits, Mask, Privileges,
            Directory, Fds, Seal, Filter,
        ],
        Part::BeforeSession => {
            &[Signals, Leader, Streams, Records, Scheduling, Limits, Mask, Login, HandOver, Seal]
        }
        // What is made for the view has stated modes; the mask is set again after it.
        Part::InSession => &[View, Mask, Privileges, Directory, Fds, Report, Filter],
    }
}

/// Applies everything and execs. Returns only when a step failed. `enter`: the cgroup to move
/// to, when the process could not be born in it. `pid` is its number where the helper is. `birth` is told how far we
/// are, `report` that [`Phase::Report`] has come.
pub fn apply_and_exec(
    prepared: &mut Prepared,
    enter: Option<BorrowedFd<'_>>,
    pid: i32,
    birth: &Birth,
    report: &mut dyn FnMut(&Prepared),
) -> Failure {
    if prepared.part != Part::InSession && !birth.made(pid) {
        return UNWANTED;
    }
    if let Err(failure) = apply(prepared, enter, pid, report) {
        return failure;
    }
    if prepared.part == Part::BeforeSession {
        return failure(
            ExecStep::Pam,
            &child::exec(&prepared.program, &prepared.argv, &prepared.env),
        );
    }
    // As the program sees it.
    prepared.env.set_pid(child::own_pid());
    if !birth.executes(pid) {
        return UNWANTED;
    }
    let error = child::exec(&prepared.program, &prepared.argv, &prepared.env);
    birth.failed(pid);
    failure(ExecStep::Exec, &error)
}

fn apply(
    prepared: &mut Prepared,
    enter: Option<BorrowedFd<'_>>,
    pid: i32,
    report: &mut dyn FnMut(&Prepared),
) -> Result<(), Failure> {
    if let Some(spared) = &prepared.spared {
        child::mark(spared.marks.as_fd()).at(ExecStep::Bpf)?;
    }
    if let Some(group) = enter {
        child::enter_cgroup(group).at(ExecStep::Cgroup)?;
    }
    order(prepared.part).iter().try_for_each(|phase| match phase {
        Phase::Signals => signals(&prepared.spec),
        Phase::Leader if prepared.spec.keep_session => Ok(()),
        Phase::Leader => child::new_session().at(ExecStep::Setsid),
        Phase::Streams => standard_fds(prepared),
        Phase::Records => {
            records(prepared, pid);
            Ok(())
        }
        Phase::View => own_view(prepared),
        Phase::Scheduling => scheduling(prepared),
        Phase::Limits => limits(&prepared.spec),
        Phase::Mask => {
            child::set_umask(prepared.umask);
            Ok(())
        }
        Phase::Login => login(prepared),
        Phase::HandOver => hand_over(prepared),
        Phase::Privileges => privileges(prepared),
        Phase::Directory => change_directory(prepared),
        Phase::Fds => install_fds(&prepared.listen),
        Phase::Seal => match &prepared.spared {
            Some(spared) => child::seal(spared.directory.as_fd()).at(ExecStep::Bpf),
            None => Ok(()),
        },
        Phase::Report => {
            report(prepared);
            Ok(())
        }
        // Last: it may forbid what the steps before it call.
        Phase::Filter => match &prepared.filter {
            Some(filter) => child::attach_filter(filter).at(ExecStep::SystemCallFilter),
            None => Ok(()),
        },
    })
}

/// What a session of PAM begins with and may change.
fn login(prepared: &Prepared) -> Result<(), Failure> {
    if prepared.spec.keyring != Keyring::Inherit {
        let identity = &prepared.identity;
        let (uid, gid) = (identity.uid.unwrap_or(0), identity.gid.unwrap_or(0));
        let made = child::new_session_keyring(false);
        keyring(made.and_then(|()| child::give_session_keyring(uid, gid))).at(ExecStep::Keyring)?;
    }
    groups(prepared)
}

/// As with systemd, who starts does so whatever becomes of the records: files that are not there are not kept.
fn records(prepared: &Prepared, pid: i32) {
    let Some(records) = &prepared.records else { return };
    let entry = records.entry(pid);
    for kind in records.kinds {
        let _ = utmp::begin(utmp::Files::OWN, *kind, &entry);
    }
}

/// Has the session's program inherit what it needs.
fn hand_over(prepared: &Prepared) -> Result<(), Failure> {
    let Some(opening) = &prepared.opening else { return Ok(()) };
    // What was opened on the way to the standard streams.
    child::close_on_exec_between(CONTINUATION_FD, own_fds_from() - 1);
    for &number in &opening.inherited {
        child::install_fd(number, number).at(ExecStep::Fds)?;
    }
    child::install_fd(opening.continuation.as_raw_fd(), CONTINUATION_FD).at(ExecStep::Fds)
}

/// Mounts and namespaces of its own.
fn own_view(prepared: &mut Prepared) -> Result<(), Failure> {
    let own = &prepared.spec.view.plan.namespaces;
    let must_hold = prepared.spec.view.must_hold;
    if own.control_groups {
        // Before the mounts: they show the tree from here on.
        namespace::unshare(Namespaces::CGROUP).at(ExecStep::Namespace)?;
    }
    let entered = &prepared.entered;
    for (fd, kind, step) in [
        (&entered.network, Namespaces::NET, ExecStep::Network),
        (&entered.ipc, Namespaces::IPC, ExecStep::Namespace),
    ] {
        fd.as_ref().map_or(Ok(()), |fd| namespace::enter(fd.as_fd(), kind)).at(step)?;
    }
    if let Some(mounts) = &mut prepared.mounts {
        // Modes of what is made here are stated; the unit's is set later.
        child::set_umask(0);
        crate::mounts::enter(mounts).at(ExecStep::Namespace)?;
    }
    if own.host_name {
        match host_name(own.host_name_is.as_deref()) {
            Err(e) if matches!(e.errno, EPERM | ENOSYS) && !must_hold => {
                prepared.missing.host_name = true;
            }
            other => other.at(ExecStep::Namespace)?,
        }
    }
    // At last: what was made before belongs to others than those who are in there.
    match &prepared.entered.users {
        Some(users) => {
            groups(prepared)?;
            namespace::enter(users.as_fd(), Namespaces::USER).at(ExecStep::User)
        }
        None => Ok(()),
    }
}

/// A host name of its own: what it is outside, unless another is stated.
fn host_name(name: Option<&str>) -> Result<(), Error> {
    namespace::unshare(Namespaces::UTS)?;
    name.map_or(Ok(()), namespace::set_host_name)
}

fn signals(spec: &ExecSpec) -> Result<(), Failure> {
    signal::set_ignored(SIGPIPE, spec.ignore_sigpipe).at(ExecStep::SignalMask)?;
    signal::set_blocked(SignalSet::EMPTY).map(|_| ()).at(ExecStep::SignalMask)
}

fn standard_fds(prepared: &Prepared) -> Result<(), Failure> {
    let steps = [ExecStep::Stdin, ExecStep::Stdout, ExecStep::Stderr];
    for ((source, step), number) in prepared.stdio.iter().zip(steps).zip(0..) {
        standard_fd(prepared, source, number).at(step)?;
    }
    Ok(())
}

fn standard_fd(prepared: &Prepared, source: &Source, number: RawFd) -> Result<(), Error> {
    match source {
        Source::Fd(fd) => child::install_fd(*fd, number),
        Source::Same(fd) => child::install_fd(*fd, number),
        Source::Passed(fd) => {
            child::install_fd(*fd, number)?;
            if child::must_be_terminal(number).is_ok() {
                // Another session may have it.
                let _ = child::take_terminal(number, false);
            }
            Ok(())
        }
        Source::Open { path, flags, is_ours: false } => {
            child::set_umask(prepared.umask);
            place(child::open_or_connect(path, *flags, FILE_MODE)?, number)
        }
        Source::Open { path, flags, is_ours: true } => log_file(path, *flags, number),
        Source::Journal { fd, header, file } => {
            match child::connect_stream(*fd, LOG_STREAMS, header) {
                Ok(()) => child::install_fd(*fd, number),
                Err(_) => log_file(file, LOG_FLAGS, number),
            }
        }
        Source::Tty { path, take } => {
            let flags = if number == 0 { TTY_FLAGS } else { TTY_OUTPUT_FLAGS };
            let fd = child::open_raw(path, flags, 0)?;
            child::must_be_terminal(fd)?;
            place(fd, number)?;
            let Some(mode) = take else { return Ok(()) };
            child::take_terminal(number, *mode == TtyMode::Force)?;
            if let Some(uid) = prepared.identity.uid.filter(|_| !prepared.already_is_user) {
                child::give_terminal(number, uid);
            }
            Ok(())
        }
    }
}

/// A file of ours. Where there is no room for it, its output is lost and not the service.
fn log_file(path: &CStr, flags: i32, number: RawFd) -> Result<(), Error> {
    // What services say is for root and its group.
    const LOG_UMASK: u32 = 0o027;
    child::set_umask(LOG_UMASK);
    let opened = match child::open_or_connect(path, flags, FILE_MODE) {
        Err(error) if matches!(error.errno, ENOSPC | EDQUOT) => {
            child::open_raw(c"/dev/null", TTY_OUTPUT_FLAGS, 0)
        }
        opened => opened,
    };
    place(opened?, number)
}

/// Moves a freshly opened fd to its number. The old number is closed with the others later.
fn place(fd: RawFd, number: RawFd) -> Result<(), Error> {
    if fd == number { Ok(()) } else { child::install_fd(fd, number) }
}

fn scheduling(prepared: &mut Prepared) -> Result<(), Failure> {
    let spec = &prepared.spec;
    if let Some(value) = spec.oom_score_adjust {
        // In a container the kernel may not let the score be lowered; that is no reason to leave
        // the service down (systemd.exec(5) says nothing of it, systemd goes on as well).
        match child::set_oom_score_adjust(value) {
            Err(e) if matches!(e.errno, 1 | 13) => {}
            other => other.at(ExecStep::OomAdjust)?,
        }
    }
    if let Some(nice) = spec.nice {
        child::set_nice(nice).at(ExecStep::Nice)?;
    }
    if let Some(s) = spec.scheduling {
        child::set_scheduler(s.policy, s.priority, s.reset_on_fork).at(ExecStep::SetScheduler)?;
    }
    if let Some(cpus) = &prepared.cpus {
        child::set_affinity(cpus).at(ExecStep::CpuAffinity)?;
    }
    if let Some(io) = spec.io_priority {
        child::set_io_priority(io.class, io.level).at(ExecStep::IoPrio)?;
    }
    if let Some(memory) = &prepared.memory {
        match child::set_memory_policy(memory.policy, &memory.nodes) {
            // A kernel for machines with one node.
            Err(e) if e.errno == ENOSYS => {}
            other => other.at(ExecStep::NumaPolicy)?,
        }
    }
    if let Some(bits) = spec.coredump_filter {
        child::set_coredump_filter(bits).at(ExecStep::Limits)?;
    }
    if let Some(on) = spec.memory_ksm {
        // Nothing is less safe for a kernel that cannot.
        prepared.missing.page_merging = on && child::set_page_merging(on).is_err();
    }
    if let Some(ns) = spec.timer_slack_ns {
        child::set_timer_slack(ns).at(ExecStep::TimerSlack)?;
    }
    if let Some(persona) = spec.personality {
        child::set_personality(persona).at(ExecStep::Personality)?;
    }
    Ok(())
}

fn limits(spec: &ExecSpec) -> Result<(), Failure> {
    for limit in &spec.rlimits {
        child::set_rlimit(limit.resource, limit.soft, limit.hard).at(ExecStep::Limits)?;
    }
    Ok(())
}

fn privileges(prepared: &Prepared) -> Result<(), Failure> {
    let spec = &prepared.spec;
    if let Some(root) = &prepared.root {
        child::change_root(root).at(ExecStep::Chroot)?;
    }
    // While there is the right to.
    if let Some(filter) = &prepared.architecture_filter {
        child::attach_filter(filter).at(ExecStep::SystemCallFilter)?;
    }
    // Those of the unit are all that it has.
    child::drop_inherited().at(ExecStep::Capabilities)?;
    if let Some(keep) = spec.capability_bounding_set {
        child::limit_bounding_set(keep).at(ExecStep::Capabilities)?;
    }
    if let Some(bits) = spec.secure_bits {
        child::set_secure_bits(bits).at(ExecStep::SecureBits)?;
    }
    if spec.ambient_capabilities != 0 {
        child::keep_capabilities(true).at(ExecStep::Capabilities)?;
    }
    // While its own files in /proc are still its own.
    for label in &prepared.labels {
        match child::set_label(label.file, &label.text) {
            Err(_) if label.is_optional => {}
            other => other.at(label.step)?,
        }
    }
    switch_user(prepared)?;
    let is_shared = spec.keyring == Keyring::Shared;
    match prepared.part {
        // The session has one.
        Part::InSession if is_shared => {
            keyring(child::link_user_keyring()).at(ExecStep::Keyring)?;
        }
        Part::Whole if spec.keyring != Keyring::Inherit => {
            keyring(child::new_session_keyring(is_shared)).at(ExecStep::Keyring)?;
        }
        _ => {}
    }
    if spec.ambient_capabilities != 0 {
        child::raise_ambient(spec.ambient_capabilities).at(ExecStep::Capabilities)?;
    }
    if spec.no_new_privileges {
        child::set_no_new_privileges().at(ExecStep::NoNewPrivileges)?;
    }
    Ok(())
}

/// A kernel without keyrings, or a container that forbids them, has none to be shared.
fn keyring(result: Result<(), Error>) -> Result<(), Error> {
    use warren_sys::errno::{EACCES, ENOSYS, EPERM};
    match result {
        Err(e) if matches!(e.errno, ENOSYS | EPERM | EACCES) => Ok(()),
        other => other,
    }
}

/// Supplementary groups. Those of a session stay, with what its modules have added.
fn groups(prepared: &Prepared) -> Result<(), Failure> {
    match &prepared.identity.groups {
        Some(_) if prepared.part == Part::InSession => Ok(()),
        Some(groups) if !prepared.already_is_user => child::set_groups(groups).at(ExecStep::Group),
        _ => Ok(()),
    }
}

fn switch_user(prepared: &Prepared) -> Result<(), Failure> {
    let identity = &prepared.identity;
    if prepared.already_is_user {
        return Ok(());
    }
    // Inside a namespace of users that cannot be done any more.
    if prepared.entered.users.is_none() {
        groups(prepared)?;
    }
    if prepared.spec.keeps_ids {
        return Ok(());
    }
    if let Some(gid) = identity.gid {
        child::set_gid(gid).at(ExecStep::Group)?;
    }
    if let Some(uid) = identity.uid {
        child::set_uid(uid).at(ExecStep::User)?;
        child::close_memory().at(ExecStep::User)?;
    }
    Ok(())
}

/// After the switch, so that the user's own rights count.
fn change_directory(prepared: &Prepared) -> Result<(), Failure> {
    let ignore = prepared.spec.working_directory.ignore_missing;
    match child::change_directory(&prepared.directory) {
        Err(_) if ignore => child::change_directory(c"/").at(ExecStep::Chdir),
        other => other.at(ExecStep::Chdir),
    }
}

/// Every source is numbered above every target: see `fds::own_fds_from`.
/// More of them than the program's soft limit of open files come to it all the same; that limit counts for what it opens.
fn install_fds(listen: &[RawFd]) -> Result<(), Failure> {
    let mut next = 3;
    let end = next as u64 + listen.len() as u64;
    let raised = OpenFiles::allow_below(end).map_err(|e| failure(ExecStep::Fds, &e))?;
    for &fd in listen {
        child::install_fd(fd, next).at(ExecStep::Fds)?;
        next += 1;
    }
    // Not before: who hears of the helper's socket hears when we are the program.
    child::close_on_exec_from(next);
    raised.map_or(Ok(()), |limit| limit.restore().at(ExecStep::Fds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_moves_the_view_alone() {
        let only_with = [Phase::Login, Phase::HandOver, Phase::Report, Phase::Seal];
        let mut with: Vec<Phase> = [order(Part::BeforeSession), order(Part::InSession)].concat();
        with.retain(|phase| !only_with.contains(phase) && *phase != Phase::View);
        // Once for the files that modules make, once for the program.
        with.dedup();
        let mut without = order(Part::Whole).to_vec();
        without.retain(|phase| ![Phase::View, Phase::Seal].contains(phase));
        assert_eq!(with, without);
        let at = |part, phase| order(part).iter().position(|p| *p == phase);
        assert_eq!(at(Part::InSession, Phase::View), Some(0));
        assert!(at(Part::Whole, Phase::View) < at(Part::Whole, Phase::Limits));
        assert_eq!(order(Part::Whole).last(), Some(&Phase::Filter));
        assert_eq!(order(Part::InSession).last(), Some(&Phase::Filter));
        // Nothing is opened behind it but the program.
        assert!(order(Part::Whole).ends_with(&[Phase::Fds, Phase::Seal, Phase::Filter]));
        assert_eq!(order(Part::BeforeSession).last(), Some(&Phase::Seal));
    }
}
