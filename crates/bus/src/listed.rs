//! Which units clients see.

use crate::backend::Backend;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use warren_core::graph::Graph;
use warren_core::model::ids::UnitId;
use warren_core::view::View;
use warren_unit::{LoadState, Relation};

/// Whether clients see the unit: it has a file or does something, or another unit names it in
/// more than a path that it needs mounted.
pub fn is_listed(view: &View, unit: UnitId) -> bool {
    is_named(&view.graph, unit) || is_doing(view, unit)
}

/// Whether a unit is not there: others name it, and it had no file when it was loaded.
pub fn is_only_named(view: &View, unit: UnitId) -> bool {
    let definition = view.definition(unit);
    definition.load_state == LoadState::NotFound && view.active_state(unit).is_down()
}

/// Whether such a unit has a file by now, as far as is known.
pub fn has_got_file(view: &View, backend: &dyn Backend, unit: UnitId) -> bool {
    let name = &view.definition(unit).name;
    is_only_named(view, unit) && backend.unit_file_state(name.as_str()).is_some()
}

/// Whether it is not known if such a unit has a file.
pub fn may_have_got_file(view: &View, backend: &dyn Backend, unit: UnitId) -> bool {
    let name = &view.definition(unit).name;
    is_only_named(view, unit) && !backend.knows_unit_files(Some(name))
}

fn is_doing(view: &View, unit: UnitId) -> bool {
    let run = view.run(unit);
    run.job.is_some() || !run.active_state().is_down()
}

fn is_named(graph: &Graph, unit: UnitId) -> bool {
    let names = |relation: &Relation| {
        !matches!(relation, Relation::MountsFor | Relation::MountsForOf)
            && graph.related(unit, *relation).next().is_some()
    };
    match graph.definition(unit).load_state {
        // Forgotten: its id waits for another unit.
        LoadState::Stub => false,
        LoadState::NotFound => Relation::ALL.iter().any(names),
        _ => true,
    }
}

thread_local! {
    /// What [`is_named`] says of each unit of the last generation that was listed: with 8,000
    /// sockets as many names of mounts that nobody has are looked at for each list otherwise.
    static NAMED: RefCell<(Weak<Graph>, Rc<[bool]>)> = RefCell::new((Weak::new(), Rc::default()));
}

fn all_named(graph: &Arc<Graph>) -> Rc<[bool]> {
    NAMED.with_borrow_mut(|(of, named)| {
        if of.as_ptr() != Arc::as_ptr(graph) {
            *named = all_ids(graph).map(|unit| is_named(graph, unit)).collect();
            *of = Arc::downgrade(graph);
        }
        named.clone()
    })
}

fn all_ids(graph: &Graph) -> impl Iterator<Item = UnitId> {
    (0..u32::try_from(graph.len()).expect("ids are 32 bits")).map(UnitId)
}

/// All units that clients see.
pub fn all_units(view: &View) -> impl Iterator<Item = UnitId> {
    let named = all_named(&view.graph);
    all_ids(&view.graph).filter(move |unit| named[unit.index()] || is_doing(view, *unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_unit::UnitName;

    #[test]
    fn forgotten_units_are_not_listed() {
        let graph = Graph::with_names(vec![UnitName::parse("a.service").ok(), None]);
        assert!(!is_named(&graph, UnitId(0)), "no other unit names it");
        assert!(!is_named(&graph, UnitId(1)), "its id waits for another unit");
    }
}
