//! What a shutdown waits for: units that are being stopped, or are started as a part of it, for how long,
//! and how long yet.

use crate::base::process_name::process;
use crate::base::server_mounts::server_of;
use crate::last_steps::left_over::LeftoverWait;
use crate::mount::automounts::{GOES_WITHIN, GoingTrap};
use crate::published::shared::Shared;
use std::time::{Duration, Instant};
use warren_core::model::ids::UnitId;
use warren_core::model::job::{Job, JobKind};
use warren_core::model::state;
use warren_core::model::state::{Service, Socket, TypeState};
use warren_core::model::time::Monotonic;
use warren_core::view::View;
use warren_sys::mount;
use warren_unit::UnitType;
use warren_wire::control::ShutdownWait;

/// Units that are named in one line.
const NAMED_MAX: usize = 3;

/// Units of which it is looked up which server they wait for.
const SERVERS_MAX: usize = 64;

/// One unit that is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Which.
    pub unit: UnitId,
    /// What it is at: the SUB column.
    pub phase: &'static str,
    /// The process that is waited for, if it is one that the manager knows.
    pub pid: Option<u32>,
    /// The mount of which a server must answer first, if it is one.
    pub server: Option<String>,
    /// Since its job began.
    pub so_far: Duration,
    /// Until the manager loses patience; none if it has none to lose.
    pub left: Option<Duration>,
}

/// Where the unit's mount is, if it has one.
pub(crate) fn mount_point(view: &View, unit: UnitId) -> Option<String> {
    let name = view.graph.name(unit);
    let has_one = matches!(name.unit_type(), UnitType::Mount | UnitType::Automount);
    has_one.then(|| warren_unit::escape::path_unescape(name.prefix()).ok()).flatten()
}

/// The server that the way to the unit's mount leads to. That somebody uses it is no reason to wait for
/// an unmount: the kernel says so at once.
pub(crate) fn server(view: &View, unit: UnitId) -> Option<String> {
    // The kernel's own table asks no server.
    mount_point(view, unit).and_then(|path| server_of(&mount::table().unwrap_or_default(), &path))
}

/// The same of those that are waited for.
fn find_servers(view: &View, waits: &mut [Wait]) {
    let mut table = None;
    for wait in waits.iter_mut().take(SERVERS_MAX) {
        if let Some(path) = mount_point(view, wait.unit) {
            let table = table.get_or_insert_with(|| mount::table().unwrap_or_default());
            wait.server = server_of(table, &path);
        }
    }
}

/// The units that are being stopped, or started as a part of an end, those that took longest first. Looks at
/// every unit.
pub fn waits(view: &View, now: Monotonic) -> Vec<Wait> {
    let is_going_down = view.is_going_down();
    let is_waited_for = |job: &&Job| match job.kind {
        JobKind::Stop | JobKind::Restart => job.running,
        JobKind::Start => job.running && is_going_down,
        _ => false,
    };
    let mut all: Vec<Wait> = view
        .jobs()
        .into_iter()
        .filter(is_waited_for)
        .map(|job| {
            let run = view.run(job.unit);
            let main = run.main_process().map(|process| process.pid);
            Wait {
                unit: job.unit,
                phase: run.sub_state(),
                pid: run.control_pid().or(main),
                server: None,
                so_far: now.since(since(view, job).unwrap_or(job.since)),
                left: deadline(&run.state).map(|at| at.since(now)),
            }
        })
        .collect();
    all.sort_by_key(|wait| (std::cmp::Reverse(wait.so_far), wait.unit));
    find_servers(view, &mut all);
    all
}

/// Automount points that are still to go. Their units are down.
pub(crate) fn of_traps<'a>(
    view: &View,
    going: impl Iterator<Item = &'a GoingTrap>,
    now: Instant,
) -> Vec<Wait> {
    let one = |trap: &GoingTrap| {
        let so_far = now.saturating_duration_since(trap.since);
        let left = Some(GOES_WITHIN.saturating_sub(so_far));
        Wait { unit: trap.unit, phase: "unmounting", pid: None, server: None, so_far, left }
    };
    let mut all: Vec<Wait> = going.map(one).collect();
    find_servers(view, &mut all);
    all
}

/// When the unit began to go down, if it was up at all in this run; or to come up.
fn since(view: &View, job: &Job) -> Option<Monotonic> {
    let history = view.run(job.unit).history.as_ref()?;
    let (exit, began) = (history.active_exit, history.inactive_exit);
    if job.kind == JobKind::Start {
        return (began.monotonic >= job.since).then_some(began.monotonic);
    }
    let is_of_this_run = !exit.is_never() && exit.monotonic >= began.monotonic;
    is_of_this_run.then_some(exit.monotonic)
}

/// When the manager loses patience with what the unit is at.
pub(crate) fn deadline(state: &TypeState) -> Option<Monotonic> {
    match state {
        TypeState::Service(Service::Up(run)) => run.stop_by.max(run.deadline),
        TypeState::Socket(Socket::Up(run)) => run.deadline,
        TypeState::Mount(state::Mount::Up(run)) | TypeState::Swap(state::Mount::Up(run)) => {
            run.deadline
        }
        _ => None,
    }
}

/// One line for the console: who is waited for, for how long, and how long yet.
pub fn line(view: &View, waits: &[Wait]) -> String {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let one = |wait: &Wait| {
        let name = view.graph.name(wait.unit);
        let pid = wait.pid.map_or(String::new(), |pid| format!(", {}", process(pid)));
        let server = wait.server.as_ref().map_or(String::new(), |at| format!(", server of {at}"));
        let left =
            wait.left.map_or("no limit".to_owned(), |left| format!("{} left", seconds(left)));
        format!("{name} ({}{pid}{server}, {}, {left})", wait.phase, seconds(wait.so_far))
    };
    let named: Vec<String> = waits.iter().take(NAMED_MAX).map(one).collect();
    let more = match waits.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

/// Bytes that wait to be written to devices; none while no end is under way.
pub fn unwritten_bytes(view: &View) -> Option<u64> {
    view.is_going_down().then(warren_sys::storage::dirty_bytes)
}

/// All that an end waits for, for programs: units, and processes that outlived theirs. Whatever else is being
/// stopped is among them where none is under way.
pub(crate) fn answers(shared: &Shared, view: &View, now: Monotonic) -> Vec<ShutdownWait> {
    let mut all = answers_of(view, &waits(view, now));
    if view.totals.stopping {
        let left_over = LeftoverWait::read(&shared.left_over);
        all.extend(left_over.into_iter().flat_map(|waited| waited.answers(now.0)));
    }
    all
}

fn answers_of(view: &View, waits: &[Wait]) -> Vec<ShutdownWait> {
    let one = |wait: &Wait| ShutdownWait {
        unit: Some(view.graph.name(wait.unit).to_string()),
        phase: wait.phase.to_owned(),
        pid: wait.pid,
        process: wait.pid.map(process),
        server: wait.server.clone(),
        so_far_us: wait.so_far.as_micros() as u64,
        left_us: wait.left.map(|left| left.as_micros() as u64),
    };
    waits.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_sys::mount::Mount;

    /// `POINT TYPE SOURCE` a line → the server that is asked on the way to a path.
    #[track_caller]
    fn check(path: &str, want: Option<&str>) {
        let table = "/ ext4 /dev/vda1\n/srv nfs4 host:/export\n/srv/a fuse.sshfs user@host:\n\
                     /srv/a/b tmpfs tmpfs\n/mnt ext4 /dev/vdb";
        let mount = |(id, line): (usize, &str)| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let [mount_point, fstype, source] = words.try_into().expect("three words");
            Mount { id: id as u64, parent: 0, mount_point, source, fstype }
        };
        let table: Vec<Mount> = table.lines().enumerate().map(mount).collect();
        assert_eq!(server_of(&table, path).as_deref(), want, "{path}");
    }

    #[test]
    fn the_nearest_server_on_the_way_is_named() {
        check("/mnt", None);
        check("/srv", Some("/srv (nfs4 of host:/export)"));
        check("/srv/a/b", Some("/srv/a (fuse.sshfs of user@host:)"));
        check("/srv/ab", Some("/srv (nfs4 of host:/export)"));
        check("/srvs", None);
    }
}
