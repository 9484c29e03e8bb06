//! What the manager's own file asks of the manager itself (systemd-system.conf(5)): what runs for it, as generators
//! do, inherits it. Processes of units get the same by their requests.

use warren_sys::Result;
use warren_sys::child::{self, CpuSet};
use warren_unit::config::{CapabilitySet, IndexSet, NumaNodes};
use warren_unit::{Defaults, value};

use crate::base::say::say;

/// Nodes of memory that have a number.
const NODES_MAX: u16 = 1024;

/// Follows it, before there is another thread; says what the kernel refuses.
pub(crate) fn apply(defaults: &Defaults) {
    let (inherited, bounds) = (&defaults.inherited, &defaults.bounds);
    let say = |setting: &str, done: Result<()>| {
        if let Err(e) = done {
            say!("{setting}= of the manager is not applied to itself: {e}");
        }
    };
    if let Some(set) = &inherited.cpu_affinity {
        let cpus: Vec<u16> = numbers(set).collect();
        say("CPUAffinity", child::set_affinity(&CpuSet::new(&cpus)));
    }
    if let Some(policy) = inherited.numa_policy {
        let bits = inherited.numa_nodes.as_ref().map_or_else(Vec::new, bits);
        say("NUMAPolicy", child::set_memory_policy(policy as u8, &bits));
    }
    if let Some(nanoseconds) = inherited.timer_slack_nsec {
        say("TimerSlackNSec", child::set_timer_slack(nanoseconds));
    }
    if bounds.capabilities != CapabilitySet::ALL {
        say("CapabilityBoundingSet", child::limit_bounding_set(bounds.capabilities.0));
    }
    if bounds.no_new_privileges {
        say("NoNewPrivileges", child::set_no_new_privileges());
    }
}

fn numbers(set: &IndexSet) -> impl Iterator<Item = u16> {
    set.ranges().iter().flat_map(|&(low, high)| low..=high)
}

/// A bit for each node.
fn bits(nodes: &NumaNodes) -> Vec<u64> {
    let online = || {
        let text = warren_sys::text::read("/sys/devices/system/node/online");
        value::indexes(text.unwrap_or_default().trim()).unwrap_or_default()
    };
    let set = match nodes {
        NumaNodes::All => online(),
        NumaNodes::Listed(set) => set.clone(),
    };
    let mut bits = Vec::new();
    for node in numbers(&set).filter(|&node| node < NODES_MAX).map(usize::from) {
        bits.resize(bits.len().max(node / 64 + 1), 0u64);
        bits[node / 64] |= 1 << (node % 64);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_bits() {
        let listed = |text: &str| NumaNodes::Listed(value::indexes(text).expect("numbers"));
        assert_eq!(bits(&listed("0,2-3 65")), [0b1101, 0b10]);
        assert_eq!(bits(&listed("8000")), Vec::<u64>::new());
    }
}
