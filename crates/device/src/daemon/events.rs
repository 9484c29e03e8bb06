//! What is heard: events of devices that came, changed and went, from the kernel or from udev.

use super::Daemon;
use crate::index::{DeviceNumber, Event, GroupId, Holder, Role};
use crate::lvm::LvmId;
use crate::sysfs::{self, BlockDevice};
use crate::uevent::{Action, Sender, Uevent, is_trusted};
use warren_sys::errno::ENOBUFS;

/// Datagrams taken in one turn, at most; the others wait for the next.
const DATAGRAMS_PER_TURN_MAX: usize = 8192;

/// What multipath(8) begins the identifiers of its maps with.
const MULTIPATH_PREFIX: &str = "mpath-";

impl Daemon {
    pub(super) fn take_events(&mut self) -> warren_sys::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.look_for_udev(&mut buffer);
        let taken = self.take_datagrams(&mut buffer);
        self.buffer = buffer;
        taken
    }

    fn take_datagrams(&mut self, buffer: &mut [u8]) -> warren_sys::Result<()> {
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            match self.socket.receive(buffer) {
                Ok(got) => {
                    let sender = Sender { port: got.port, uid: got.uid };
                    let datagram = buffer.get(..got.bytes).unwrap_or_default();
                    self.datagram(sender, datagram, got.truncated);
                }
                Err(error) if error.is_would_block() => break,
                Err(error) if error.errno == ENOBUFS => {
                    self.log("events were lost: scanning all devices again".to_owned());
                    self.lost_events = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The first word of a udev that was started later: from now on it is the one to be heard. What
    /// there was before stays as it is until udev tells of it.
    fn look_for_udev(&mut self, buffer: &mut [u8]) {
        let Some(later) = &self.later else { return };
        let said = later.receive(buffer);
        let trusted = said.as_ref().is_ok_and(|got| {
            let sender = Sender { port: got.port, uid: got.uid };
            is_trusted(sender, buffer.get(..got.bytes).unwrap_or_default())
        });
        // What was lost was said by somebody.
        if !trusted && !said.is_err_and(|error| error.errno == ENOBUFS) {
            return;
        }
        self.log("udev is running now".to_owned());
        self.socket = self.later.take().expect("it was heard");
        self.options.udev = true;
        self.udev_is_late = true;
        self.before_udev = self.found.keys().copied().collect();
        self.begin_pass(false);
    }

    /// Whether udev's word counts for a device.
    pub(super) fn follows_udev(&self, found: &BlockDevice) -> bool {
        self.options.udev && (found.is_initialized || !self.before_udev.contains(&found.number))
    }

    fn datagram(&mut self, sender: Sender, datagram: &[u8], truncated: bool) {
        if !is_trusted(sender, datagram) {
            return;
        }
        match Uevent::parse(datagram) {
            Ok(event) if event.is_block() => self.uevent(&event),
            Ok(event) => self.hear_other(&event),
            // From the kernel or root, and yet not to be understood: better to look than to guess.
            Err(_) => self.lost_events |= truncated,
        }
    }

    fn uevent(&mut self, event: &Uevent) {
        match event.action {
            Action::Remove => {
                if let Some(number) = event.number() {
                    self.gone(number);
                }
            }
            action => match sysfs::look(&self.options.roots, event.name()) {
                Ok(Some(found)) => {
                    self.look_below(&found);
                    self.consider(found, action == Action::Change);
                    if action == Action::Change {
                        self.tell_changed(event);
                    }
                }
                Ok(None) => event.number().into_iter().for_each(|number| self.gone(number)),
                Err(error) => self.log(format!("{}: cannot be read: {error}", event.name())),
            },
        }
    }

    /// What an array or a multipath map lies on is a leg or a path from now on, and of that the
    /// kernel tells nothing.
    fn look_below(&mut self, found: &BlockDevice) {
        if !found.name.starts_with("md") && !found.facts.dm_uuid.starts_with(MULTIPATH_PREFIX) {
            return;
        }
        for below in &found.words.lies_on {
            let before = self.names.get(below).and_then(|number| self.found.get(number));
            let is_held = before.is_none_or(|before| before.facts.held_by != Holder::None);
            if let (false, Ok(Some(now))) = (is_held, sysfs::look(&self.options.roots, below)) {
                self.consider(now, false);
            }
        }
    }

    pub(super) fn gone(&mut self, number: DeviceNumber) {
        let device = self.index.device(number).cloned();
        if let Some(device) = &device {
            self.remove_online(device);
        }
        let group = device.as_ref().and_then(|device| self.index.group_of(device));
        let siblings = match group {
            Some(group @ GroupId::Btrfs(_)) => self.index.members(group),
            _ => Vec::new(),
        };
        let role = device.map(|device| device.role);
        self.before_udev.remove(&number);
        self.forget_nodes(number);
        self.writes.forget(number);
        if let Some(found) = self.found.remove(&number) {
            self.names.remove(&found.name);
            self.tell_gone(&found, group);
        }
        self.details.remove(&number);
        self.whole.remove(&number);
        self.was_read(number);
        self.waited_for(number);
        self.step(Event::Removed(number));
        siblings.into_iter().for_each(|sibling| self.tell(sibling));
        if let Some(Role::Lvm { pv, .. }) = role {
            self.tell_of_clone(pv);
        }
    }

    /// When a disk went that had a clone, lvm2 is told of the clone.
    fn tell_of_clone(&mut self, pv: LvmId) {
        let left = self.index.devices_of_pv(pv).into_iter().next();
        if let Some(device) = left.and_then(|number| self.index.device(number)).cloned() {
            self.write_online(&device);
        }
    }
}
