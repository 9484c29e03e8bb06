//! Sets of nf_tables that are told who a process is, before there is one (systemd.resource-control(5), "NFTSet=").

use warren_init::protocol::exec::{ExecSpec, NftSource};
use warren_sys::nftables::{self, Change, Set};

use crate::identity::Identity;

/// Tells all that the spec names; false if one of them could not be told: the process is made all the same.
pub fn tell(spec: &ExecSpec, identity: &Identity) -> bool {
    let mut are_told = true;
    for asked in &spec.nft_sets {
        let set = Set { family: asked.family, table: &asked.table, name: &asked.name };
        let add = |key: &[u8]| nftables::change_element(set, key, Change::Add).is_ok();
        are_told &= match asked.source {
            NftSource::Cgroup(id) => add(&id.to_ne_bytes()),
            NftSource::User => identity.uid.is_none_or(|uid| add(&uid.to_ne_bytes())),
            NftSource::Group => identity.gid.is_none_or(|gid| add(&gid.to_ne_bytes())),
        };
    }
    are_told
}
