//! Many hosts that follow one desired state: what is pure of it.
//!
//! An operator pushes a directory of rules as a [`revision`]: files cut into chunks that are named by what they hold.
//! A signed [`release`] names the revision that hosts are to have, and the one that they go back to. Hosts are assigned
//! to a release wave by wave ([`waves`], [`rollout`]), and each host decides for itself what it does about that
//! ([`follower`]). Each evaluates the rules with its own facts and labels ([`machine`]). [`placement`] says which host
//! takes which copy of a replicated container, [`leaving`] why one is still on a drained host, [`apps`] which units belong
//! together, [`plan`] what a revision would change on all hosts, [`overview`] what is wrong where. [`keys`] is where all of
//! it lies in the store.
//!
//! Nothing here opens a file, reads a clock or knows the network: `warren-agent` and `warren-hosts` (crate `agent`) do.
//! The simulator in `tests/simulate.rs` runs hosts, drivers and a store that is lost, late or restored from a backup.

pub mod apps;
pub mod digest;
pub mod follower;
pub mod host;
pub mod keys;
pub mod leaving;
pub mod machine;
pub mod names;
pub mod overview;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod release;
pub mod revision;
pub mod rollout;
pub mod secrets;
pub mod waves;
