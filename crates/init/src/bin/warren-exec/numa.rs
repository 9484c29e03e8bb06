//! Nodes of memory and their processors (systemd.exec(5), "NUMAPolicy=", "NUMAMask=").

use std::fs;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, Numa, SpawnError};
use warren_sys::errno::EINVAL;

use crate::fault::failed;

/// Nodes that a kernel has at most.
const NODES_MAX: usize = 1024;

/// What set_mempolicy(2) is told.
#[derive(Debug, PartialEq, Eq)]
pub struct MemoryPolicy {
    /// MPOL_*
    pub policy: u8,
    /// A bit for each node.
    pub nodes: Vec<u64>,
}

/// The policy of a process; none if it stays as it is.
pub fn policy(spec: &ExecSpec) -> Result<Option<MemoryPolicy>, SpawnError> {
    const DEFAULT: u8 = 0;
    const LOCAL: u8 = 4;
    let Some(Numa { policy: Some(policy), .. }) = spec.numa else { return Ok(None) };
    let nodes: Vec<usize> = match policy {
        // They take no nodes.
        DEFAULT | LOCAL => Vec::new(),
        _ => nodes(spec),
    };
    if nodes.is_empty() && !matches!(policy, DEFAULT | LOCAL) {
        let message = "NUMAPolicy= needs nodes (NUMAMask=)".to_owned();
        return Err(failed(ExecStep::NumaPolicy, EINVAL, message));
    }
    let mut bits = vec![0u64; nodes.iter().max().map_or(0, |last| last / 64 + 1)];
    nodes.into_iter().for_each(|node| bits[node / 64] |= 1 << (node % 64));
    Ok(Some(MemoryPolicy { policy, nodes: bits }))
}

/// The processors of the nodes, for `CPUAffinity=numa`.
pub fn processors(spec: &ExecSpec) -> Vec<u16> {
    let list = |node: usize| {
        let path = format!("/sys/devices/system/node/node{node}/cpulist");
        fs::read_to_string(path).unwrap_or_default()
    };
    let all = nodes(spec).into_iter().flat_map(|node| numbers(&list(node)));
    all.filter_map(|number| u16::try_from(number).ok()).collect()
}

fn nodes(spec: &ExecSpec) -> Vec<usize> {
    match spec.numa.as_ref().and_then(|numa| numa.nodes.as_ref()) {
        Some(ranges) => {
            let all = ranges.iter().flat_map(|&(low, high)| usize::from(low)..=usize::from(high));
            all.filter(|&node| node < NODES_MAX).collect()
        }
        None if spec.numa.is_some() => {
            let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
            numbers(&online)
        }
        None => Vec::new(),
    }
}

/// The numbers of a list of the kernel's, such as `0-3,8`; none that is not less than [`NODES_MAX`].
fn numbers(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse().ok()?..=high.parse().ok().filter(|&high: &usize| high < NODES_MAX)?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_become_bits() {
        let of = |policy, nodes: Option<Vec<(u16, u16)>>| {
            let numa = Some(Numa { policy: Some(policy), nodes });
            policy_text(&ExecSpec { numa, ..ExecSpec::default() })
        };
        assert_eq!(of(2, Some(vec![(0, 2), (64, 64)])), "2 [7, 1]");
        assert_eq!(of(4, Some(vec![(0, 2)])), "4 []");
        assert_eq!(of(0, None), "0 []");
        assert_eq!(of(3, Some(vec![])), "NUMAPolicy= needs nodes (NUMAMask=)");
        assert_eq!(policy(&ExecSpec::default()).map_err(|e| e.message), Ok(None));
    }

    fn policy_text(spec: &ExecSpec) -> String {
        match policy(spec) {
            Ok(Some(own)) => format!("{} {:?}", own.policy, own.nodes),
            Ok(None) => "none".to_owned(),
            Err(e) => e.message,
        }
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(numbers("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(numbers(""), [0usize; 0]);
        assert_eq!(numbers("0-99999999999"), [0usize; 0]);
    }
}
