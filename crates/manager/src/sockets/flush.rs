//! `FlushPending=` (systemd.socket(5)): what waits in sockets is thrown away by a thread. File descriptors may
//! come with it, whose closing takes as long as their owner likes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_core::ids::UnitId;
use warren_sys::eventfd::EventFd;
use warren_sys::{process, socket};

/// What is being thrown away.
pub struct Flushes {
    wake: Arc<EventFd>,
    tell: Sender<UnitId>,
    told: Receiver<UnitId>,
    /// What threads use of a unit's sockets: closed here, as each has descriptors of its own.
    under_way: BTreeMap<UnitId, Vec<Arc<Vec<OwnedFd>>>>,
}

impl Flushes {
    /// Nothing is under way. The loop is woken through `wake`.
    pub fn new(wake: Arc<EventFd>) -> Flushes {
        let (tell, told) = channel();
        Flushes { wake, tell, told, under_way: BTreeMap::new() }
    }

    /// Has a thread throw away what waits in these sockets of a unit. It says that nothing does any more before
    /// it closes anything: nobody waits for that.
    pub fn begin<'a>(
        &mut self,
        unit: UnitId,
        sockets: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> io::Result<()> {
        let sockets = sockets.map(|socket| socket.try_clone_to_owned());
        let sockets = Arc::new(sockets.collect::<io::Result<Vec<OwnedFd>>>()?);
        let (wake, tell, theirs) = (self.wake.clone(), self.tell.clone(), sockets.clone());
        let flush = move || {
            keep_only(&theirs, &wake);
            let scrap: Vec<OwnedFd> =
                theirs.iter().flat_map(|s| socket::flush(s.as_fd())).collect();
            drop(theirs);
            keep_only(&scrap, &wake);
            // The loop is gone only with the process.
            let _ = tell.send(unit);
            wake.notify();
            drop(scrap);
        };
        std::thread::Builder::new().name("flush".to_owned()).spawn(flush)?;
        self.under_way.entry(unit).or_default().push(sockets);
        Ok(())
    }

    /// Whether something of the unit is being thrown away.
    pub fn is_at(&self, unit: UnitId) -> bool {
        self.under_way.contains_key(&unit)
    }

    /// Units in whose sockets nothing waits any more.
    pub fn hear(&mut self) -> Vec<UnitId> {
        let mut over = Vec::new();
        for unit in self.told.try_iter() {
            let Some(sockets) = self.under_way.get_mut(&unit) else { continue };
            sockets.retain(|sockets| Arc::strong_count(sockets) > 1);
            if sockets.is_empty() {
                self.under_way.remove(&unit);
                over.push(unit);
            }
        }
        over
    }
}

/// Who is held up while it closes something holds nothing else open: see [`process::keep_only_descriptors`].
fn keep_only(fds: &[OwnedFd], wake: &EventFd) {
    let fds = fds.iter().map(AsFd::as_fd).chain([wake.as_fd()]);
    let _ = process::keep_only_descriptors(&fds.collect::<Vec<BorrowedFd<'_>>>());
}
