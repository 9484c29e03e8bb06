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

/// The variable of a product's body that holds the number of its copy.
pub(super) const VARIABLE: &[u8] = b"copy";

/// Whether rules make something for a target on this host: it has no `replicas`, or some of them run here.
pub(super) fn is_here(run: &Interpreter<'_>, target: ObjectId) -> bool {
    here(run, target).is_none_or(|copies| !copies.is_empty())
}

/// The numbers of a target's copies that run on this host; none if it has no `replicas`.
pub(super) fn here(run: &Interpreter<'_>, target: ObjectId) -> Option<Vec<u32>> {
    let replicas = replicas(&run.heap, run.types, target)?;
    let member = |table: Value, name: &[u8]| {
        let name = run.heap.find(name)?;
        match table {
            Value::Dictionary(id) | Value::Namespace(id) => run.heap.dictionary(id).items.get(name),
            _ => None,
        }
    };
    let machine = run.heap.find(b"machine").and_then(|name| run.find_global(name));
    let Some(copies) = machine.and_then(|(_, machine)| member(machine, b"copies")) else {
        return Some((0..replicas).collect());
    };
    let Some(Value::Array(numbers)) = member(copies, run.heap.bytes(run.heap.object(target).name))
    else {
        return Some(Vec::new());
    };
    let number = |value: &Value| match value {
        Value::Number(n) if (0.0..f64::from(replicas)).contains(n) => Some(*n as u32),
        _ => None,
    };
    Some(run.heap.array(numbers).items.iter().filter_map(number).collect())
}

fn replicas(heap: &Heap<'_>, types: &Types, id: ObjectId) -> Option<u32> {
    let object = heap.object(id);
    let name =
        heap.find(REPLICAS.as_bytes()).filter(|_| types.get(object.of_type).name == CONTAINER)?;
    match object.attributes.get(name) {
        Some(Value::Number(replicas)) => Some(replicas as u32),
        _ => None,
    }
}

/// All containers with `replicas`, by name.
pub(crate) fn replicated(world: &World, types: &Types) -> Vec<Replicated> {
    let heap = Heap::over(&world.layer);
    let attribute = |id: ObjectId, name: &str| {
        let name = heap.find(name.as_bytes())?;
        heap.object(id).attributes.get(name)
    };
    let read = |id: ObjectId| {
        let replicas = replicas(&heap, types, id)?;
        let name = heap.text(heap.object(id).name);
        let spread = match attribute(id, SPREAD) {
            Some(Value::String(label)) => Some(heap.text(label)),
            _ => None,
        };
        Some(Replicated { name, replicas, spread })
    };
    let containers =
        types.find(CONTAINER.as_bytes()).and_then(|of_type| world.by_type.get(&of_type));
    let mut all: Vec<Replicated> =
        containers.into_iter().flatten().filter_map(|id| read(*id)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
