//! Where units' cgroups lie: below the slice that the definition names (systemd.slice(5)). What runs stays where it
//! was put: an edit of `Slice=`, a file that is gone or a name that another unit takes moves nobody, and counts from
//! the next start on.

use crate::graph::cgroup_path::defined_path;
use crate::graph::{Delta, Graph, cgroup_path};
use crate::model::ids::UnitId;
use crate::model::state::{Mount, TypeState, UnitRun};
use crate::parts::Core;
use crate::parts::resources::Resources;
use std::borrow::Cow;
use warren_unit::UnitName;

impl UnitRun {
    /// Whether a group may be there that could lie elsewhere than where it would be made now; a slice's name says
    /// where it lies.
    pub(crate) fn is_placed(&self) -> bool {
        match &self.state {
            TypeState::Slice(_) => false,
            TypeState::Mount(Mount::Up(_)) | TypeState::Swap(Mount::Up(_)) => true,
            _ => self.history.as_ref().is_some_and(|history| history.has_cgroup),
        }
    }
}

/// The path of a unit's group below the root of the tree, or where it is to be made.
pub(crate) fn group_path(core: &Core, unit: UnitId) -> Cow<'_, str> {
    cgroup_path::path(&core.graph, &core.resources.strays, unit)
}

/// The same, if there may be one and its place has to be written down.
pub(crate) fn placed_at(core: &Core, unit: UnitId) -> Option<Cow<'_, str>> {
    core.units.run(unit).is_placed().then(|| group_path(core, unit))
}

/// The unit whose group has this path, though its definition says otherwise. Looks at all such units.
pub(crate) fn stray_at(resources: &Resources, path: &str) -> Option<UnitId> {
    resources.strays.iter().find(|(_, stray)| ***stray == *path).map(|(&unit, _)| unit)
}

/// The slices that a unit's group lies in, if its definition does not say so, from the outermost.
pub(crate) fn strays_in(graph: &Graph, resources: &Resources, unit: UnitId) -> Option<Vec<UnitId>> {
    let parts = resources.strays.get(&unit)?.split('/').filter(|part| part.ends_with(".slice"));
    Some(parts.filter_map(|part| graph.lookup(&UnitName::parse(part).ok()?)).collect())
}

/// Has groups stay where they are when `graph` is put in force, which differs by `delta`.
pub(crate) fn keep_places(core: &mut Core, graph: &Graph, delta: &Delta) {
    for &unit in delta.added.iter().chain(&delta.changed).chain(&delta.removed) {
        let is_placed = core.units.known(unit).is_some_and(UnitRun::is_placed);
        let stays = || core.graph.definition(unit).slice == graph.definition(unit).slice;
        if is_placed && (core.resources.strays.contains_key(&unit) || !stays()) {
            let now = group_path(core, unit).into_owned();
            place(&mut core.resources, graph, unit, &now);
        }
    }
}

/// After a restart: a group may lie elsewhere than the definition says that is in force now.
pub(crate) fn restore_place(core: &mut Core, unit: UnitId, path: &str) {
    if core.units.run(unit).is_placed() {
        let graph = core.graph.clone();
        place(&mut core.resources, &graph, unit, path);
    }
}

fn place(resources: &mut Resources, graph: &Graph, unit: UnitId, path: &str) {
    match defined_path(graph, unit) == path {
        true => resources.strays.remove(&unit),
        false => resources.strays.insert(unit, path.into()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Change, NewDefinition};
    use crate::model::time::Moment;
    use crate::persist::run_state;
    use crate::protocol::event::Event;
    use crate::settings::Settings;
    use std::sync::Arc;
    use warren_unit::{Context, Defaults, LoadState, UnitFlags};

    fn core() -> Core {
        let (context, defaults) = (Arc::new(Context::system()), Arc::new(Defaults::default()));
        Core::new(Settings { context, defaults }, 1)
    }

    fn name(text: &str) -> UnitName {
        UnitName::parse(text).expect("a valid name")
    }

    /// `a.mount` in this slice.
    fn in_slice(slice: &str) -> Change {
        Change::Set(Box::new(NewDefinition {
            name: name("a.mount"),
            aliases: Vec::new(),
            load_state: LoadState::Loaded,
            description: "a".into(),
            flags: UnitFlags::default(),
            slice: Some(name(slice)),
            relations: Vec::new(),
            files: Default::default(),
        }))
    }

    fn commit(core: &mut Core, change: Change) {
        let (graph, delta) = core.graph().apply(vec![change]);
        let (graph, delta) = (Arc::new(graph), Box::new(delta));
        core.step(Moment::default(), Event::Commit { graph, delta });
    }

    #[test]
    fn a_group_stays_where_it_is_over_reloads_and_restarts_and_until_the_unit_is_down() {
        const ONE: &str = "one.slice/a.mount";
        const TWO: &str = "two.slice/a.mount";
        let mut core = core();
        commit(&mut core, in_slice("one.slice"));
        let unit = core.graph().lookup(&name("a.mount")).expect("it is loaded");
        commit(&mut core, in_slice("two.slice"));
        assert_eq!((&*core.group_path(unit), core.placed_at(unit)), (TWO, None), "it has no group");
        commit(&mut core, in_slice("one.slice"));
        crate::state_change::transit(&mut core, unit, false, |run| {
            run.state = TypeState::Mount(Mount::found());
        });
        for change in [in_slice("two.slice"), Change::Remove(name("a.mount"))] {
            commit(&mut core, change);
            assert_eq!(&*core.group_path(unit), ONE);
            assert_eq!(core.stray_at(ONE), Some(unit));
        }
        commit(&mut core, in_slice("one.slice"));
        assert_eq!((&*core.group_path(unit), core.stray_at(ONE)), (ONE, None));

        // The next one reads other files than those that are in force.
        let mut written = run_state::header();
        run_state::write_names(&mut written, core.graph(), 0);
        let group = core.placed_at(unit);
        run_state::write_unit(&mut written, unit, core.unit_run(unit), group.as_deref());
        let restored = run_state::read(&written).expect("a state file");
        let graph = core.graph().apply(vec![in_slice("two.slice")]).0;
        let mut next = self::core();
        next.recover(Moment::default(), Arc::new(graph), restored);
        assert_eq!((&*next.group_path(unit), &*next.view().group_path(unit)), (ONE, ONE));
        crate::state_change::transit(&mut next, unit, false, |run| {
            run.state = TypeState::Mount(Mount::Dead)
        });
        assert_eq!(&*next.group_path(unit), TWO);
    }
}
