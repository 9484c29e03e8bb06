//! Containers of which so many copies run on many hosts together, some of them here.
//!
//! Which copies run on a host is decided elsewhere and told to rules as `globals.machine.copies`: numbers of copies by
//! container. Where nobody says so there is one host, and all run on it.

use crate::eval::{Interpreter, World};
use crate::heap::Heap;
use crate::schema::warrener::{CONTAINER, REPLICAS, SPREAD};
use crate::types::Types;
use crate::value::{ObjectId, Value};

/// A container with `replicas`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replicated {
    /// Its name.
    pub name: String,
    /// How many copies.
    pub replicas: u32,
    /// The label over whose values they are spread.
    pub spread: Option<String>,
}

/// Whether rules make something for a target on this host: it has no `replicas`, or some of them run here.
pub(super) fn is_here(run: &Interpreter<'_>, target: ObjectId) -> bool {
    let object = run.heap.object(target);
    if !has_replicas(&run.heap, run.types, target) {
        return true;
    }
    let member = |table: Value, name: &[u8]| {
        let name = run.heap.find(name)?;
        match table {
            Value::Dictionary(id) | Value::Namespace(id) => run.heap.dictionary(id).items.get(name),
            _ => None,
        }
    };
    let machine = run.heap.find(b"machine").and_then(|name| run.find_global(name));
    let copies = machine.and_then(|(_, machine)| member(machine, b"copies"));
    copies.is_none_or(|copies| member(copies, run.heap.bytes(object.name)).is_some())
}

fn has_replicas(heap: &Heap<'_>, types: &Types, id: ObjectId) -> bool {
    let object = heap.object(id);
    let replicas = heap.find(REPLICAS.as_bytes()).and_then(|name| object.attributes.get(name));
    types.get(object.of_type).name == CONTAINER && matches!(replicas, Some(Value::Number(_)))
}

/// All containers with `replicas`, by name.
pub(crate) fn replicated(world: &World, types: &Types) -> Vec<Replicated> {
    let heap = Heap::over(&world.layer);
    let attribute = |id: ObjectId, name: &str| {
        let name = heap.find(name.as_bytes())?;
        heap.object(id).attributes.get(name)
    };
    let read = |id: ObjectId| {
        let Some(Value::Number(replicas)) = attribute(id, REPLICAS) else { return None };
        let name = heap.text(heap.object(id).name);
        let spread = match attribute(id, SPREAD) {
            Some(Value::String(label)) => Some(heap.text(label)),
            _ => None,
        };
        Some(Replicated { name, replicas: replicas as u32, spread })
    };
    let containers = types.find(CONTAINER.as_bytes()).and_then(|of_type| world.by_type.get(&of_type));
    let mut all: Vec<Replicated> = containers.into_iter().flatten().filter_map(|id| read(*id)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
