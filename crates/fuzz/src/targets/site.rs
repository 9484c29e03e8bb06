//! What lies in the store of many hosts, which everybody with a role there writes.

use std::collections::BTreeMap;

use serde_json::from_slice;
use warren_hosts::digest::Digest;
use warren_hosts::follower::Assignment;
use warren_hosts::host::{Drain, Facts, Registration, Report};
use warren_hosts::machine::Named;
use warren_hosts::release::{Signed, from_hex, read_keys};
use warren_hosts::revision::Manifest;
use warren_hosts::rollout::{End, Rollout};
use warren_hosts::{keys, policy};

/// Reads bytes as each kind of value, and as a key.
///
/// # Panics
/// If a manifest names a path that leads out of its directory, or what was read does not come back.
pub fn values(data: &[u8]) {
    let name = Digest::of(data);
    if let Ok(manifest) = Manifest::decode(name, data) {
        let is_inside = |path: &str| {
            !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        };
        assert!(manifest.files.iter().all(|file| is_inside(&file.path)));
        let again = Manifest::decode(manifest.name(), &manifest.encode());
        assert_eq!(again.as_ref(), Ok(&manifest), "what was read can be written");
        assert!(manifest.chunks().is_empty() || manifest.assemble(&BTreeMap::new()).is_err());
    }
    release(data);
    if let Ok(registration) = from_slice::<Registration>(data) {
        let named = Named::of([data, b"Machine".as_slice()]);
        assert!(!named.prelude(&registration.facts, &Default::default()).contains('\0'));
    }
    let _ = from_slice::<Report>(data).map(Report::bounded);
    let _ = from_slice::<Assignment>(data).is_ok();
    let rollout = from_slice::<Rollout>(data);
    let _ = rollout.map(|rollout| (rollout.words(), rollout.waits(&BTreeMap::new()).len()));
    let _ = (from_slice::<Drain>(data).is_ok(), from_slice::<End>(data).is_ok());
    let _ = from_slice::<policy::Policy>(data).map(|policy| policy.check());
    let text = String::from_utf8_lossy(data);
    let _ = (Facts::read_labels(&text), read_keys(&text), from_hex(&text), keys::claimed(&text));
    let _ = Named::of([data]);
}

/// Reads bytes as a signed release, and as the text that is signed.
fn release(data: &[u8]) {
    let trusted = BTreeMap::from([(Digest::of(b"key"), b"key".to_vec())]);
    assert!(Signed::open(data, 1, &trusted, |_, _, _| false).is_err());
    let text = String::from_utf8_lossy(data).into_owned();
    let signed = Signed { release: text, key: Digest::of(b"key"), signature: "00".to_owned() };
    let bytes = serde_json::to_vec(&signed).unwrap_or_default();
    if let Ok(release) = Signed::open(&bytes, 1, &trusted, |_, _, _| true) {
        assert_eq!(release.number, 1);
    }
}
