//! Namespaces of a run or of a process, made ready before there is a process.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, Missing, STORE_PATIENCE, SpawnError, Stored};
use warren_sandbox::mounts::{Shared, UserMap};
use warren_sys::errno::{ENOSPC, ENOSYS, EPERM};
use warren_sys::fdpass;
use warren_sys::namespace::{self, IdRange, Namespaces};
use warren_sys::{Error, process};

use crate::fault::{failed, wrong};
use crate::fds::FdTable;
use crate::identity::Identity;

/// Namespaces that the process enters.
#[derive(Default)]
pub struct Entered {
    /// Before its mounts are made.
    pub network: Option<OwnedFd>,
    /// The same.
    pub ipc: Option<OwnedFd>,
    /// After them: they are not changed from inside.
    pub users: Option<OwnedFd>,
    /// What is not to be had.
    pub missing: Missing,
}

/// Makes or opens what the spec asks for.
pub fn prepare(spec: &ExecSpec, fds: &FdTable, identity: &Identity) -> Result<Entered, SpawnError> {
    let asked = &spec.view.plan.namespaces;
    let mut entered = Entered::default();
    for (shared, kind, step) in [
        (&asked.network, Namespaces::NET, ExecStep::Network),
        (&asked.ipc, Namespaces::IPC, ExecStep::Namespace),
    ] {
        if let Shared::Path(path) = shared {
            let opened = namespace::open(path).map_err(|e| wrong(step, &e))?;
            *entered.slot(kind) = Some(opened);
        }
    }
    let private = |shared: &Shared| *shared == Shared::Private;
    let wanted = Stored { network: private(&asked.network), ipc: private(&asked.ipc) };
    if wanted != Stored::default() {
        of_run(spec, fds, wanted, &mut entered)?;
    }
    if let Some(map) = asked.users {
        let made = users(map, identity);
        entered.users = Some(made.map_err(|e| wrong(ExecStep::User, &e))?);
    }
    Ok(entered)
}

impl Entered {
    fn slot(&mut self, kind: Namespaces) -> &mut Option<OwnedFd> {
        if kind == Namespaces::NET { &mut self.network } else { &mut self.ipc }
    }
}

/// Takes what the run has out of its store, makes what it lacks, and puts it back.
fn of_run(
    spec: &ExecSpec,
    fds: &FdTable,
    wanted: Stored,
    entered: &mut Entered,
) -> Result<(), SpawnError> {
    let step = ExecStep::Namespace;
    let Some([put, take]) = spec.view.store else {
        return Err(failed(step, 0, "the request lacks the namespace store".to_owned()));
    };
    let (put, take) = (fds.borrow(put, step)?, fds.borrow(take, step)?);
    let [mut network, mut ipc] = taken(take).map_err(|e| wrong(step, &e))?;
    let result = made(spec, wanted, [&mut network, &mut ipc], &mut entered.missing);
    put_back(put, &network, &ipc).map_err(|e| wrong(step, &e))?;
    result?;
    if wanted.network {
        entered.network = network;
    }
    if wanted.ipc {
        entered.ipc = ipc;
    }
    Ok(())
}

/// What is in the store.
fn taken(take: BorrowedFd<'_>) -> Result<[Option<OwnedFd>; 2], Error> {
    let mut out = [None, None];
    if !fdpass::wait_readable(take, STORE_PATIENCE)? {
        return Ok(out);
    }
    let (mut packet, mut fds) = ([0; 1], Vec::new());
    match fdpass::recv(take, &mut packet, &mut fds, false) {
        Err(e) if e.is_would_block() => return Ok(out),
        other => other?,
    };
    let stored = Stored::parse(packet[0]);
    let mut fds = fds.into_iter();
    for (slot, is_there) in out.iter_mut().zip([stored.network, stored.ipc]) {
        *slot = if is_there { fds.next() } else { None };
    }
    Ok(out)
}

fn put_back(
    put: BorrowedFd<'_>,
    network: &Option<OwnedFd>,
    ipc: &Option<OwnedFd>,
) -> Result<(), Error> {
    let stored = Stored { network: network.is_some(), ipc: ipc.is_some() };
    let fds: Vec<BorrowedFd<'_>> = network.iter().chain(ipc).map(AsFd::as_fd).collect();
    fdpass::send(put, &stored.packet(), &fds)
}

/// Makes what is wanted and not there. What cannot be had is noted if the unit may go without.
fn made(
    spec: &ExecSpec,
    wanted: Stored,
    [network, ipc]: [&mut Option<OwnedFd>; 2],
    missing: &mut Missing,
) -> Result<(), SpawnError> {
    let is_refused = |e: &Error| matches!(e.errno, EPERM | ENOSYS) && !spec.view.must_hold;
    if wanted.network && network.is_none() {
        match namespace::make(Namespaces::NET, namespace::loopback_up) {
            Ok(made) => *network = Some(made),
            Err(e) if is_refused(&e) => missing.network = true,
            Err(e) => return Err(no_more(ExecStep::Network, &e, "network namespaces")),
        }
    }
    if wanted.ipc && ipc.is_none() {
        match namespace::make(Namespaces::IPC, || Ok(())) {
            Ok(made) => *ipc = Some(made),
            Err(e) if is_refused(&e) => missing.ipc = true,
            Err(e) => return Err(no_more(ExecStep::Namespace, &e, "IPC namespaces")),
        }
    }
    Ok(())
}

/// Where the table is full, it is said which (sysctl user.max_*_namespaces).
pub fn no_more(step: ExecStep, error: &Error, what: &str) -> SpawnError {
    match error.errno {
        ENOSPC => failed(step, error.errno, format!("the limit on {what} is reached")),
        _ => wrong(step, error),
    }
}

/// A namespace of users: those that are mapped are themselves, all others are `nobody` (systemd.exec(5),
/// "PrivateUsers=").
fn users(map: UserMap, identity: &Identity) -> Result<OwnedFd, Error> {
    const IDENTITY_COUNT: u32 = 65_536;
    let (own_uid, own_gid) = process::own_ids();
    let same = |id, count| IdRange { inside: id, outside: id, count };
    let own = |id: u32, is_privileged: bool| {
        let root = (is_privileged && id != 0).then_some(same(0, 1));
        root.into_iter().chain([same(id, 1)]).collect::<Vec<_>>()
    };
    let uid = identity.uid.unwrap_or(own_uid);
    let gid = identity.gid.unwrap_or(own_gid);
    let (uids, gids) = match map {
        UserMap::Own => (own(uid, own_uid == 0), own(gid, own_uid == 0)),
        UserMap::Identity => (vec![same(0, IDENTITY_COUNT)], vec![same(0, IDENTITY_COUNT)]),
        UserMap::Full => (vec![same(0, u32::MAX)], vec![same(0, u32::MAX)]),
    };
    namespace::make_users(&uids, &gids, map == UserMap::Own)
}
