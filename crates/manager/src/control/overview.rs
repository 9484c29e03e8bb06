//! The answer of `Overview`: a short row for each unit, or for each that changed its state since a moment.
//!
//! Read from the published view by a thread of the control socket. It looks at every unit, once for each question;
//! what it answers is bounded by how many there are, and after the first question by how many changed.
//! Must not: give the loop an order, read a cgroup or a log.

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_bus::backend::Backend;
use warren_bus::is_listed;
use warren_core::graph::Definition;
use warren_core::model::ids::UnitId;
use warren_core::model::reason::{Cause, Code};
use warren_core::view::View;
use warren_unit::LoadState;
use warren_wire::control::{Overview, OverviewAnswer, OverviewRow};

use crate::base::clock::now;
use crate::config::fleet;
use crate::control::answer::{active, moment, name};
use crate::published::shared::Shared;

/// The answer.
pub(crate) fn overview(request: &Overview, shared: &Shared) -> OverviewAnswer {
    let (view, rules) = (shared.view(), shared.rules());
    let mut out = OverviewAnswer {
        // Of the view: what changes after it is told with the next answer.
        now_us: view.totals.now.monotonic.0.min(now().monotonic.0),
        cgroup_root: shared.tree_path().map(|path| path.display().to_string()),
        ..OverviewAnswer::default()
    };
    let mut set = Set::new(view.graph.generation());
    let (mut slices, mut targets) = (Places::default(), Places::default());
    let mut wanted: Vec<&Arc<Definition>> = Vec::new();
    for definition in view.graph.definitions().filter(|d| is_told(&view, d)) {
        out.units_total += 1;
        set.add(definition.id);
        if request.changed_since_us.is_none_or(|since| changed_since(&view, definition.id, since)) {
            wanted.push(definition);
        }
    }
    out.set = set.fold();
    wanted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    for definition in wanted {
        let unit = definition.id;
        let run = view.run(unit);
        let history = run.history.as_deref();
        let reason = view.reason(unit);
        out.texts.entry(reason.code.id()).or_insert_with(|| reason.code.text().to_owned());
        out.rows.push(OverviewRow {
            name: definition.name.as_str().to_owned(),
            active: active(&view, unit),
            sub: view.sub_state(unit).to_owned(),
            code: reason.code.id().into(),
            slice: definition.slice.map(|slice| slices.of(name(&view, slice))),
            target: fleet::target(&rules, &definition.name).map(|t| targets.of(t.to_string())),
            cause: cause(&view, reason.cause),
            since_us: history.and_then(|history| moment(history.state_change)),
            restarts: history.map_or(0, |history| history.restarts),
            hidden_by: fleet::hidden_by(&rules, definition),
        });
    }
    out.texts.remove(&Code::default().id());
    out.slices = slices.names;
    out.targets = targets.names;
    out
}

/// Those of `List`: what is not there counts only while it does something.
fn is_told(view: &View, definition: &Definition) -> bool {
    is_listed(view, definition.id)
        && (definition.load_state != LoadState::NotFound
            || !view.active_state(definition.id).is_down())
}

fn changed_since(view: &View, unit: UnitId, since_us: u64) -> bool {
    view.run(unit).history.as_deref().is_some_and(|h| h.state_change.monotonic.0 >= since_us)
}

/// The unit that a failure goes back to.
fn cause(view: &View, cause: Cause) -> Option<String> {
    let (Cause::Dependency(unit) | Cause::Outcome(unit)) = cause else { return None };
    view.graph.get(unit).map(|definition| definition.name.to_string())
}

/// A number that says which units there are: their ids, in whatever order, and the generation.
struct Set(u64);

impl Set {
    fn new(generation: u64) -> Set {
        Set(generation.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn add(&mut self, unit: UnitId) {
        // Mixed, so that sums of different sets differ; splitmix64's last steps.
        let id = (unit.index() as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = self.0.wrapping_add(mixed ^ (mixed >> 31));
    }

    fn fold(&self) -> u32 {
        (self.0 ^ (self.0 >> 32)) as u32
    }
}

/// Texts with their places, each once.
#[derive(Default)]
struct Places {
    names: Vec<String>,
    by_name: BTreeMap<String, u32>,
}

impl Places {
    fn of(&mut self, name: String) -> u32 {
        let next = self.names.len() as u32;
        *self.by_name.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(generation: u64, units: &[u32]) -> u32 {
        let mut set = Set::new(generation);
        units.iter().for_each(|&unit| set.add(UnitId(unit)));
        set.fold()
    }

    #[test]
    fn sets_differ_by_their_units_and_by_the_generation_and_not_by_the_order() {
        assert_eq!(fold(1, &[1, 2, 3]), fold(1, &[3, 1, 2]));
        for (generation, units) in
            [(2, &[1, 2, 3][..]), (1, &[1, 2]), (1, &[1, 2, 4]), (1, &[0, 6])]
        {
            assert_ne!(fold(1, &[1, 2, 3]), fold(generation, units), "{generation} {units:?}");
        }
    }

    #[test]
    fn each_text_has_one_place() {
        let mut places = Places::default();
        let of = ["a", "b", "a", "c", "b"].map(|name| places.of(name.to_owned()));
        assert_eq!((of, places.names.join("")), ([0, 1, 0, 2, 1], "abc".to_owned()));
    }
}
