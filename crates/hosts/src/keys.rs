//! Where things lie in the store.
//!
//! A host writes its registration, its report and its claims, each below its own name, and nothing else; so a role of
//! the store can hold it to that. All else is written by those who push, release and drive.

use std::fmt::Display;

use crate::digest::Digest;
use crate::names::HostId;

/// What all keys begin with; the number is that of this layout.
pub const ROOT: &str = "/warren/v1/";

/// The prefix of all registrations.
pub const HOSTS: &str = "/warren/v1/hosts/";

/// The prefix of all reports.
pub const REPORTS: &str = "/warren/v1/reports/";

/// The prefix of what machines say that have a name of others.
pub const DOUBLES: &str = "/warren/v1/doubles/";

/// The prefix of all claims.
pub const CLAIMS: &str = "/warren/v1/claims/";

/// The prefix of what operators say of hosts that they have taken out of service.
pub const DRAINED: &str = "/warren/v1/drained/";

/// The prefix of all assignments.
pub const ASSIGNED: &str = "/warren/v1/assigned/";

/// The prefix of all releases.
pub const RELEASES: &str = "/warren/v1/releases/";

/// The prefix of what came of releases.
pub const ENDED: &str = "/warren/v1/ended/";

/// The prefix of all manifests.
pub const REVISIONS: &str = "/warren/v1/revisions/";

/// The prefix of all chunks.
pub const CHUNKS: &str = "/warren/v1/chunks/";

/// The prefix of the record of who did what.
pub const AUDIT: &str = "/warren/v1/audit/";

/// The assignment of hosts that have none of their own.
pub const CURRENT: &str = "/warren/v1/current";

/// The rollout that is under way, or was last.
pub const ROLLOUT: &str = "/warren/v1/rollout";

/// Who drives the rollout, under a lease.
pub const DRIVER: &str = "/warren/v1/driver";

/// Who stores a revision or removes old ones, under a lease: what one removes the other may just have found there.
pub const WRITER: &str = "/warren/v1/writer";

/// The registration of a host, under its lease.
pub fn host(id: &HostId) -> String {
    format!("{HOSTS}{id}")
}

/// The report of a host.
pub fn report(id: &HostId) -> String {
    format!("{REPORTS}{id}")
}

/// What another machine with the name of a host says, under its lease.
pub fn double(id: &HostId) -> String {
    format!("{DOUBLES}{id}")
}

/// What an operator says of a host that is out of service.
pub fn drained(id: &HostId) -> String {
    format!("{DRAINED}{id}")
}

/// What a host is assigned to.
pub fn assigned(id: &HostId) -> String {
    format!("{ASSIGNED}{id}")
}

/// A host's claim of a copy of an application, under its lease.
pub fn claim(id: &HostId, app: &str, slot: u32) -> String {
    format!("{CLAIMS}{id}/{app}/{slot}")
}

/// The prefix of a host's claims.
pub fn claims(id: &HostId) -> String {
    format!("{CLAIMS}{id}/")
}

/// A release: numbers have twenty digits, so that their order is that of the keys.
pub fn release(number: u64) -> String {
    format!("{RELEASES}{number:020}")
}

/// What came of a release, numbered as [`release`].
pub fn ended(number: u64) -> String {
    format!("{ENDED}{number:020}")
}

/// A manifest.
pub fn revision(name: Digest) -> String {
    format!("{REVISIONS}{name}")
}

/// A chunk.
pub fn chunk(name: Digest) -> String {
    format!("{CHUNKS}{name}")
}

/// A line of the record of who did what: µs since 1970, and what makes it the only one of that time.
pub fn audit(at: u64, unique: impl Display) -> String {
    format!("{AUDIT}{at:020}-{unique}")
}

/// The last part of a key below a prefix.
pub fn last<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.strip_prefix(prefix).filter(|rest| !rest.is_empty() && !rest.contains('/'))
}

/// The host, application and slot of a claim's key.
pub fn claimed(key: &str) -> Option<(HostId, &str, u32)> {
    let mut parts = key.strip_prefix(CLAIMS)?.split('/');
    let (host, app, slot) = (parts.next()?, parts.next()?, parts.next()?);
    let is_plain = parts.next().is_none() && !slot.starts_with('+');
    Some((host.parse().ok()?, app, slot.parse().ok().filter(|_| is_plain)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let id: HostId = "web-1".parse().expect("a name");
        let key = claim(&id, "shop", 7);
        assert_eq!(key, "/warren/v1/claims/web-1/shop/7");
        assert_eq!(claimed(&key), Some((id.clone(), "shop", 7)));
        for wrong in ["/warren/v1/claims/web-1/shop", "/warren/v1/claims/web-1/shop/7/8", "/x", ""]
        {
            assert_eq!(claimed(wrong), None);
        }
        assert_eq!(last(&host(&id), HOSTS), Some("web-1"));
        assert_eq!(last("/warren/v1/hosts/a/b", HOSTS), None);
        assert!(release(9) < release(10) && release(u64::MAX).len() == release(0).len());
    }
}
