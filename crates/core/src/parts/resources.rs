//! What runs hold besides processes: cgroups, files that are being removed, connections, mounts that go.

use crate::graph::cgroup_path::Strays;
use crate::model::ids::UnitId;
use crate::parts::dynamic_users::DynamicUsers;
use crate::parts::ipc_users::IpcUsers;
use crate::parts::removals::Removals;
use crate::parts::slice_limits::SliceLimits;
use crate::parts::units::Units;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// What runs hold besides processes.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    /// No cgroup tracking: a group is empty when the processes that the core knows are gone.
    pub without_cgroups: bool,
    /// Units whose cgroup lies elsewhere than their definition says.
    pub strays: Strays,
    /// Users that are made for runs.
    pub dynamic_users: DynamicUsers,
    /// Which units run as which user.
    pub ipc_users: IpcUsers,
    /// What runs have left and is being removed.
    pub removals: Removals,
    /// Instances of `Accept=yes` that are under way, and the socket that each belongs to.
    pub connections: BTreeMap<UnitId, UnitId>,
    /// Those of sockets that are down: they count again when the socket listens again.
    pub outliving: BTreeMap<UnitId, Vec<UnitId>>,
    /// Slices that say how many units may be active in them.
    pub slice_limits: SliceLimits,
    /// Timers that are active.
    pub timers: BTreeSet<UnitId>,
    /// Mounts that go with their automount point and count as up until the mount table says so.
    pub unmounted_unheard: BTreeSet<UnitId>,
}

impl Resources {
    /// An instance of `Accept=yes` is down, or was not started: its socket has one connection less.
    pub fn end_connection(&mut self, units: &mut Units, instance: UnitId) {
        let Some(socket) = self.connections.remove(&instance) else { return };
        if units.socket(socket).is_some() {
            units.socket_mut(socket).connections.retain(|&unit| unit != instance);
        } else if let Entry::Occupied(mut left) = self.outliving.entry(socket) {
            left.get_mut().retain(|&unit| unit != instance);
            if left.get().is_empty() {
                left.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    #[test]
    fn a_connection_that_outlives_its_socket_is_forgotten_when_it_ends() {
        let name = |text: &str| Some(warren_unit::UnitName::parse(text).expect("a valid name"));
        let mut units = Units::default();
        units.add_idle(&Graph::with_names(vec![name("a.socket"), name("a@1.service")]));
        let (socket, instance) = (UnitId(0), UnitId(1));
        let mut resources = Resources::default();
        resources.connections.insert(instance, socket);
        resources.outliving.insert(socket, vec![instance]);
        resources.end_connection(&mut units, instance);
        assert!(resources.connections.is_empty() && resources.outliving.is_empty());
    }
}
