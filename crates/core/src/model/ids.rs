//! Small numbers in place of references: dense, ordered, cheap to copy and to write down.

use serde::{Deserialize, Serialize};

/// A unit's place in the dense tables. That of a forgotten unit is given to another after a while.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitId(pub u32);

/// A job's number as clients see it (`/org/freedesktop/systemd1/job/N`). Never 0, never reused
/// within one life of the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u32);

/// An effect's number. Unique over restarts of the manager, so that a spawn that was sent by one
/// incarnation can be recognised by the next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EffectId(pub u64);

/// Who sent a request: a connection of the bus or of the control socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClientId(pub u64);

impl UnitId {
    /// Index into a dense table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

macro_rules! debug_as_number {
    ($($name:ident $prefix:literal),*) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )*};
}
debug_as_number!(UnitId "u", JobId "job", EffectId "fx", ClientId "client");

/// Numbers that the next incarnation goes on with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Serial {
    /// The next job.
    pub job: u32,
    /// The next effect.
    pub effect: u64,
    /// State of the generator of invocation ids.
    pub invocation: u128,
}
