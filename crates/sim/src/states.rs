//! What the checks compare: states of units before a step, and what a rule owes.

use std::collections::BTreeMap;

use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::time::Moment;

/// States of all units before a step, if any of them has lines that count.
pub type States = BTreeMap<UnitId, ActiveState>;

/// The states now.
pub fn states(core: &Core) -> States {
    let all = core.graph().definitions();
    all.map(|d| (d.id, core.unit_run(d.id).active_state())).collect()
}

/// A unit that a rule was to stop, since when it has been up, and the unit that it is tied to.
pub type Owed = (UnitId, Moment, UnitId);
