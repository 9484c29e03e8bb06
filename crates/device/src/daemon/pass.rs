//! Passes over everything that is there: at boot, and after events were lost.
//!
//! What is started at boot is one batch. Beside udev it waits for what udev has not looked at yet:
//! a process of lvm2 for each group that udev comes to costs ten times as much. Nothing else waits
//! for it: devices are told of as they are ready.

use std::collections::BTreeSet;

use super::{Daemon, now_ms};
use crate::index::{DeviceNumber, Event};
use crate::sysfs::{self, BlockDevice};

/// A pass over everything, and the devices it still waits for.
pub(super) struct Pass {
    is_boot: bool,
    waits_for: BTreeSet<DeviceNumber>,
    /// When the last device answered.
    progress_ms: u64,
}

/// The boot batch, and the devices that udev is still to look at.
pub(super) struct Batch {
    waits_for: BTreeSet<DeviceNumber>,
    progress_ms: u64,
}

/// How long the boot batch waits for udev, which says that it is busy, to come to the next device,
/// in milliseconds. When it is not busy, [`super::PASS_PATIENCE_MS`] counts.
const UDEV_PATIENCE_MS: u64 = 10_000;

/// A pass that could not begin.
pub(super) struct ListAgain {
    is_boot: bool,
    at_ms: u64,
}

/// How soon it is tried again, in milliseconds.
const LIST_AGAIN_MS: u64 = 1_000;

impl Daemon {
    /// Looks at everything that is there; the socket hears meanwhile what changes.
    pub(super) fn begin_pass(&mut self, is_boot: bool) {
        // Events that were lost during the boot pass make it begin anew.
        let is_boot = is_boot || self.pass.as_ref().is_some_and(|pass| pass.is_boot);
        let names = match sysfs::list(&self.options.roots) {
            Ok(names) => names,
            Err(error) => {
                // Nobody knows what is there: nothing is gone, and it is tried again.
                self.log(format!("cannot list block devices: {error}"));
                self.list_again = Some(ListAgain { is_boot, at_ms: now_ms() + LIST_AGAIN_MS });
                return;
            }
        };
        self.list_again = None;
        self.step(Event::RescanBegun);
        let mut waits_for = BTreeSet::new();
        let looked: Vec<_> =
            names.iter().map(|name| (name, sysfs::look(&self.options.roots, name))).collect();
        for (name, found) in &looked {
            match found {
                Ok(found) => waits_for.extend(found.as_ref().map(|found| found.number)),
                Err(error) => {
                    self.log(format!("{name}: cannot be read: {error}"));
                    self.names.get(*name).copied().into_iter().for_each(|number| {
                        self.stays(number);
                    });
                }
            }
        }
        self.pass = Some(Pass { is_boot, waits_for, progress_ms: now_ms() });
        // Content may have changed unheard: a pass reads everything that counts.
        for (_, found) in looked {
            found.ok().flatten().into_iter().for_each(|found| self.consider(found, true));
        }
        // Nobody could answer while a thousand were asked.
        if let Some(pass) = &mut self.pass {
            pass.progress_ms = now_ms();
        }
    }

    pub(super) fn waited_for(&mut self, number: DeviceNumber) {
        if let Some(pass) = &mut self.pass {
            pass.waits_for.remove(&number);
            pass.progress_ms = now_ms();
        }
        let is_looked_at = self.found.get(&number).is_none_or(|found| found.is_initialized);
        if let Some(batch) = self.batch.as_mut().filter(|_| is_looked_at)
            && batch.waits_for.remove(&number)
        {
            batch.progress_ms = now_ms();
        }
    }

    /// The boot pass is over: what it found is started, as soon as udev has looked at all of it.
    fn begin_batch(&mut self) {
        let is_new = |found: &&BlockDevice| self.follows_udev(found) && !found.is_initialized;
        let waits_for = self.found.values().filter(is_new).map(|found| found.number).collect();
        self.batch = Some(Batch { waits_for, progress_ms: now_ms() });
        self.end_batch();
    }

    /// When the boot batch does not wait for udev any longer.
    pub(super) fn batch_deadline_ms(&self) -> Option<u64> {
        let batch = self.batch.as_ref()?;
        // There is such a file while udev has events to look at.
        let is_busy = self.options.roots.udev.join("queue").exists();
        let patience_ms = if is_busy { UDEV_PATIENCE_MS } else { self.options.pass_patience_ms };
        Some(batch.progress_ms.saturating_add(patience_ms))
    }

    pub(super) fn end_batch(&mut self) {
        let is_late = self.batch_deadline_ms().is_some_and(|deadline| deadline <= now_ms());
        if self.batch.take_if(|batch| batch.waits_for.is_empty() || is_late).is_some() {
            self.step(Event::ColdplugDone);
        }
    }

    /// When a pass that could not begin is tried again.
    pub(super) fn list_again_ms(&self) -> Option<u64> {
        self.list_again.as_ref().map(|again| again.at_ms)
    }

    pub(super) fn begin_late_pass(&mut self) {
        if let Some(again) = self.list_again.take_if(|again| again.at_ms <= now_ms()) {
            self.begin_pass(again.is_boot);
        }
    }

    /// When a pass stops waiting for devices that do not answer.
    pub(super) fn pass_deadline_ms(&self) -> Option<u64> {
        let pass = self.pass.as_ref()?;
        Some(pass.progress_ms.saturating_add(self.options.pass_patience_ms))
    }

    /// Ends a pass that waits for nobody. Who is asked in this turn is late in the next at the earliest.
    pub(super) fn end_empty_pass(&mut self) {
        if self.pass.as_ref().is_some_and(|pass| pass.waits_for.is_empty()) {
            self.end_pass();
        }
    }

    pub(super) fn end_pass(&mut self) {
        let is_late = self.pass_deadline_ms().is_some_and(|deadline| deadline <= now_ms());
        let is_over = |pass: &mut Pass| pass.waits_for.is_empty() || is_late;
        let Some(pass) = self.pass.take_if(is_over) else { return };
        self.keep_silent(&pass.waits_for);
        for number in self.index.unseen() {
            self.gone(number);
        }
        self.step(Event::RescanDone);
        if pass.is_boot {
            self.begin_batch();
        }
        self.look_at_others();
        self.teller.open();
    }

    /// Devices that are there but did not answer in this pass stay what they were.
    fn keep_silent(&mut self, silent: &BTreeSet<DeviceNumber>) {
        for number in silent {
            let name = self.found.get(number).map_or_else(String::new, |found| found.name.clone());
            self.log(format!("{name}: slow to respond, not waiting for it"));
            self.stays(*number);
            self.tell(*number);
        }
    }
}
