//! How one unit can be tied to another: one table, both directions.
//!
//! An edge is stored once, in the direction in which it acts, with the unit that owns it; the
//! inverses are derived by whoever keeps the graph.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! relations {
    ($( $(#[$doc:meta])* $name:ident, $inverse:ident, $setting:literal; )*) => {
        /// A kind of edge between two units (systemd.unit(5), "\[UNIT\] SECTION OPTIONS" and
        /// "MAPPING OF UNIT PROPERTIES TO THEIR INVERSES").
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Relation { $( $(#[$doc])* $name, )* }

        impl Relation {
            /// Every relation, in the order of the enum.
            pub const ALL: [Relation; [$( Relation::$name, )*].len()] = [$( Relation::$name, )*];

            /// The same edge seen from its other end.
            pub const fn inverse(self) -> Relation {
                match self { $( Relation::$name => Relation::$inverse, )* }
            }

            /// The name under which clients of systemd know it: a property of a unit.
            pub const fn setting_name(self) -> &'static str {
                match self { $( Relation::$name => $setting, )* }
            }
        }
    };
}

relations! {
    /// Starting this starts the other, which must succeed if it is ordered before.
    Requires, RequiredBy, "Requires";
    /// The other must be active already.
    Requisite, RequisiteOf, "Requisite";
    /// Starting this starts the other; its failure is ignored.
    Wants, WantedBy, "Wants";
    /// As Requires, and this stops whenever the other becomes inactive.
    BindsTo, BoundBy, "BindsTo";
    /// Stopping or restarting the other does the same to this.
    PartOf, ConsistsOf, "PartOf";
    /// As Wants, and the other is started again whenever it is found inactive.
    Upholds, UpheldBy, "Upholds";
    /// Starting this stops the other, and the other way round.
    Conflicts, ConflictedBy, "Conflicts";
    /// This starts before the other and stops after it.
    Before, After, "Before";
    /// This starts after the other and stops before it.
    After, Before, "After";
    /// Started when this becomes inactive with success.
    OnSuccess, OnSuccessOf, "OnSuccess";
    /// Started when this fails.
    OnFailure, OnFailureOf, "OnFailure";
    /// A reload of this reloads the other.
    PropagatesReloadTo, ReloadPropagatedFrom, "PropagatesReloadTo";
    /// A stop of this stops the other.
    PropagatesStopTo, StopPropagatedFrom, "PropagatesStopTo";
    /// Shares the other's private network, IPC or /tmp.
    JoinsNamespaceOf, JoinedBy, "JoinsNamespaceOf";
    /// One of such others must be up for this to be up (`[X-Warren]`); this is ordered as if it came
    /// after each, but starts as soon as one of them is up.
    RequireAny, RequireAnyOf, "RequireAny";
    /// This starts after the other if that is about to come up, and stops before it (`[X-Warren]`).
    OptionalAll, OptionalAllOf, "OptionalAll";
    /// This is up only while the other is down, and gives way when it starts (`[X-Warren]`).
    ExcludeAll, ExcludeAllOf, "ExcludeAll";
    /// A stop of the other does nothing to this, whatever else ties them (`RestartOn=none`).
    RestartOnNone, RestartOnNoneOf, "RestartOnNone";
    /// This stops when the other ends by a fault, and starts again with it.
    RestartOnError, RestartOnErrorOf, "RestartOnError";
    /// This stops whenever the other does, and starts again with it.
    RestartOnRestart, RestartOnRestartOf, "RestartOnRestart";
    /// The same, and this is restarted when the other is reloaded.
    RestartOnRefresh, RestartOnRefreshOf, "RestartOnRefresh";
    /// This starts the other when its event comes: socket, path, timer, automount.
    Triggers, TriggeredBy, "Triggers";
    /// This unit's cgroup lies below the other, a slice.
    InSlice, SliceOf, "Slice";
    /// One per prefix of a path of RequiresMountsFor=: acts as Requires and After if the other,
    /// a mount unit, has a file; as After if it is known from the mount table only; else as
    /// nothing (compared with systemd 252).
    MountsFor, MountsForOf, "RequiresMountsFor";

    /// Inverse of Requires.
    RequiredBy, Requires, "RequiredBy";
    /// Inverse of Requisite.
    RequisiteOf, Requisite, "RequisiteOf";
    /// Inverse of Wants.
    WantedBy, Wants, "WantedBy";
    /// Inverse of BindsTo.
    BoundBy, BindsTo, "BoundBy";
    /// Inverse of PartOf.
    ConsistsOf, PartOf, "ConsistsOf";
    /// Inverse of Upholds.
    UpheldBy, Upholds, "UpheldBy";
    /// Inverse of Conflicts.
    ConflictedBy, Conflicts, "ConflictedBy";
    /// Inverse of OnSuccess.
    OnSuccessOf, OnSuccess, "OnSuccessOf";
    /// Inverse of OnFailure.
    OnFailureOf, OnFailure, "OnFailureOf";
    /// Inverse of PropagatesReloadTo; may be written in files.
    ReloadPropagatedFrom, PropagatesReloadTo, "ReloadPropagatedFrom";
    /// Inverse of PropagatesStopTo; may be written in files.
    StopPropagatedFrom, PropagatesStopTo, "StopPropagatedFrom";
    /// Inverse of JoinsNamespaceOf.
    JoinedBy, JoinsNamespaceOf, "JoinsNamespaceOf";
    /// Inverse of RequireAny.
    RequireAnyOf, RequireAny, "RequireAnyOf";
    /// Inverse of OptionalAll.
    OptionalAllOf, OptionalAll, "OptionalAllOf";
    /// Inverse of ExcludeAll.
    ExcludeAllOf, ExcludeAll, "ExcludeAllOf";
    /// Inverse of RestartOnNone.
    RestartOnNoneOf, RestartOnNone, "RestartOnNoneOf";
    /// Inverse of RestartOnError.
    RestartOnErrorOf, RestartOnError, "RestartOnErrorOf";
    /// Inverse of RestartOnRestart.
    RestartOnRestartOf, RestartOnRestart, "RestartOnRestartOf";
    /// Inverse of RestartOnRefresh.
    RestartOnRefreshOf, RestartOnRefresh, "RestartOnRefreshOf";
    /// Inverse of Triggers.
    TriggeredBy, Triggers, "TriggeredBy";
    /// Inverse of InSlice.
    SliceOf, InSlice, "SliceOf";
    /// Inverse of MountsFor; systemd has no name for it.
    MountsForOf, MountsFor, "MountsForOf";
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.setting_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverting_twice_changes_nothing() {
        for r in Relation::ALL {
            assert_eq!(r.inverse().inverse(), r);
            assert_ne!(r.inverse(), r);
        }
    }
}
