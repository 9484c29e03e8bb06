//! Which groups each target is in, as rules see it by `container.groups`.
//!
//! Members of groups have been entered when this is asked: a container's own list is whole. A group's names only the
//! groups that it was put into itself, so those are followed here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::eval::World;
use crate::heap::Heap;
use crate::schema::warrener::{GROUP, TARGETS};
use crate::types::Types;
use crate::value::{ObjectId, Value};

/// Groups of each target that is in any, by name, under what [`crate::made::Origin::target`] calls it: `Container
/// 'shop'`.
pub type Membership = BTreeMap<String, Vec<Arc<str>>>;

/// Groups by the group that is in them.
type Above = BTreeMap<String, BTreeSet<String>>;

/// The groups of all targets.
pub(crate) fn membership(world: &World, types: &Types) -> Membership {
    let heap = Heap::over(&world.layer);
    let objects = |of_type: &str| {
        let of_type = types.find(of_type.as_bytes()).and_then(|id| world.by_type.get(&id));
        of_type.into_iter().flatten().copied()
    };
    let name = |id: ObjectId| heap.text(heap.object(id).name);
    let above: Above = objects(GROUP).map(|id| (name(id), groups(&heap, id))).collect();
    let mut shared: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut share = |name: String| -> Arc<str> {
        if let Some(known) = shared.get(&*name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        shared.insert(new.clone());
        new
    };
    let mut out = Membership::new();
    for of_type in TARGETS {
        for id in objects(of_type) {
            let all = with_those_above(groups(&heap, id), &above);
            if !all.is_empty() {
                let all = all.into_iter().map(&mut share).collect();
                out.insert(format!("{of_type} '{}'", name(id)), all);
            }
        }
    }
    out
}

/// The groups that an object says it is in.
fn groups(heap: &Heap<'_>, id: ObjectId) -> BTreeSet<String> {
    let attribute = heap.find(b"groups").and_then(|name| heap.object(id).attributes.get(name));
    let Some(Value::Array(items)) = attribute else { return BTreeSet::new() };
    let text = |value: &Value| match value {
        Value::String(name) => Some(heap.text(*name)),
        _ => None,
    };
    heap.array(items).items.iter().filter_map(text).collect()
}

/// These groups, and those that they are in.
fn with_those_above(own: BTreeSet<String>, above: &Above) -> BTreeSet<String> {
    let mut left: Vec<String> = own.iter().cloned().collect();
    let mut all = own;
    while let Some(group) = left.pop() {
        for name in above.get(&group).into_iter().flatten() {
            if all.insert(name.clone()) {
                left.push(name.clone());
            }
        }
    }
    all
}
