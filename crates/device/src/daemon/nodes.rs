//! Nodes and links of what device-mapper made, where no udev makes them: its programs do that
//! themselves, a moment after the kernel has told of the device. Until then nobody could open it by
//! its names, so it is not ready. Of that moment's end nobody tells: it is looked for now and then.

use super::{Daemon, now_ms};
use crate::index::DeviceNumber;
use crate::names;
use crate::sysfs::Found;

/// How soon it is looked again, in milliseconds.
const LOOKS_APART_MS: u64 = 100;

/// A device that has no nodes after so long, in milliseconds, is ready without them: who made it
/// wants none.
const PATIENCE_MS: u64 = 5_000;

/// What is known of a device's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nodes {
    /// They were there, or are not waited for any more.
    Settled,
    /// They are waited for until then, in milliseconds.
    Missing(u64),
}

impl Daemon {
    /// Notes whether the nodes of a device are there. Once they were, that is not asked again.
    pub(super) fn look_for_nodes(&mut self, found: &Found) {
        if found.words.mapper_name.is_empty() || self.follows_udev(found) {
            return;
        }
        let now = now_ms();
        let before = self.nodes.get(&found.number).copied();
        let until = match before {
            Some(Nodes::Settled) => return,
            Some(Nodes::Missing(until)) => until,
            None => now.saturating_add(PATIENCE_MS),
        };
        let mut names =
            names::by_mapper(&found.words.mapper_name, &found.facts.dm_uuid).into_iter();
        let is_settled =
            until <= now || names.all(|name| self.options.roots.dev.join(name).exists());
        let nodes = if is_settled { Nodes::Settled } else { Nodes::Missing(until) };
        self.nodes.insert(found.number, nodes);
        match is_settled {
            true => drop(self.nodeless.remove(&found.number)),
            false => {
                self.nodeless.insert(found.number);
                self.look_for_nodes_at_ms.get_or_insert(now.saturating_add(LOOKS_APART_MS));
            }
        }
    }

    /// Whether a device cannot be opened by its names yet.
    pub(super) fn is_nodeless(&self, number: DeviceNumber) -> bool {
        self.nodeless.contains(&number)
    }

    /// Looks at all that are waited for, when it is time to.
    pub(super) fn look_for_nodes_again(&mut self) {
        if self.look_for_nodes_at_ms.take_if(|at| *at <= now_ms()).is_none() {
            return;
        }
        for number in self.nodeless.clone() {
            self.tell(number);
        }
    }

    /// The device went.
    pub(super) fn forget_nodes(&mut self, number: DeviceNumber) {
        self.nodes.remove(&number);
        self.nodeless.remove(&number);
    }
}
