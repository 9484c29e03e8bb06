//! Where the cgroup of a unit lies below the root of the tree.

use crate::graph::Graph;
use crate::model::ids::UnitId;
use std::borrow::Cow;
use std::sync::Arc;
use warren_unit::UnitType;

/// Units whose group lies elsewhere than their definition says, with its path below the root of the tree.
pub type Strays = imbl::OrdMap<UnitId, Arc<str>>;

/// `a-b.slice` lies at `a.slice/a-b.slice`; the root slice is the root of the tree.
pub fn slice_path(name: &str) -> String {
    let stem = name.strip_suffix(".slice").unwrap_or(name);
    if stem == "-" {
        return String::new();
    }
    let dashes = stem.match_indices('-').map(|(at, _)| at);
    let parts = dashes.chain([stem.len()]).map(|end| format!("{}.slice", &stem[..end]));
    parts.collect::<Vec<_>>().join("/")
}

/// The path of a unit's group below the root of the tree when it is made now.
pub fn defined_path(graph: &Graph, unit: UnitId) -> String {
    let definition = graph.definition(unit);
    let own = definition.name.as_str();
    if definition.unit_type() == UnitType::Slice {
        return slice_path(own);
    }
    let slice = definition.slice.map_or(String::new(), |s| slice_path(graph.name(s).as_str()));
    if slice.is_empty() { own.to_owned() } else { format!("{slice}/{own}") }
}

/// The path of a unit's group: where it was made, else where it would be made now.
pub(crate) fn path<'a>(graph: &Graph, strays: &'a Strays, unit: UnitId) -> Cow<'a, str> {
    match strays.get(&unit) {
        Some(stray) => Cow::Borrowed(stray),
        None => Cow::Owned(defined_path(graph, unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_nest_by_their_dashes() {
        for (name, path) in [
            ("-.slice", ""),
            ("system.slice", "system.slice"),
            ("test-1.slice", "test.slice/test-1.slice"),
            ("a-b-c.slice", "a.slice/a-b.slice/a-b-c.slice"),
        ] {
            assert_eq!(slice_path(name), path);
        }
    }
}
