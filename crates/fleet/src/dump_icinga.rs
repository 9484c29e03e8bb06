//! Objects as the installed Icinga 2 writes them down after a check: one JSON text for each, with
//! every attribute, set or not, and the places that set them.
//!
//! `icinga2 object list` reads a file of these, each as `LENGTH:TEXT,`.

mod hints;

use hints::{Hints, SourceHints};

use crate::ast::Kind;
use crate::dump::Only;
use crate::eval::World;
use crate::heap::Heap;
use crate::modules::Modules;
use crate::source::Place;
use crate::text;
use crate::types::{Types, Unset};
use crate::value::{Object, ObjectId, Value};

/// What a dump is made of.
pub struct Dump<'d> {
    /// The objects.
    pub world: &'d World,
    /// Their types.
    pub types: &'d Types,
    /// The files.
    pub modules: &'d Modules,
    /// Which of the objects.
    pub only: Only<'d>,
}

impl Dump<'_> {
    /// The objects, in the order of their types and names.
    pub fn all(&self) -> Vec<Vec<u8>> {
        let heap = Heap::over(&self.world.layer);
        let written = SourceHints::of(self.modules);
        let objects = self.only.objects(self.world, self.types).into_iter();
        objects.map(|object| self.one(&heap, &written, object)).collect()
    }

    /// The objects as the file that `icinga2 object list` reads.
    pub fn file(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for text in self.all() {
            out.extend_from_slice(format!("{}:", text.len()).as_bytes());
            out.extend_from_slice(&text);
            out.push(b',');
        }
        out
    }

    fn one(&self, heap: &Heap<'_>, written: &SourceHints<'_>, id: ObjectId) -> Vec<u8> {
        let object = heap.object(id);
        let origin = written.extent(object.origin);
        let mut out = b"{\"debug_hints\":".to_vec();
        self.hints(&Hints::of(self, heap, written, object), &mut out);
        out.extend_from_slice(b",\"debug_info\":");
        self.place(origin, &mut out);
        out.extend_from_slice(b",\"name\":");
        let given = heap.find(b"name").and_then(|key| object.attributes.get(key));
        out.extend(text::json(heap, self.types, given.unwrap_or(Value::String(object.name))));
        out.extend_from_slice(b",\"properties\":{");
        self.properties(heap, object, origin, &mut out);
        out.extend_from_slice(b"},\"type\":");
        text::json_string(self.types.get(object.of_type).name.as_bytes(), &mut out);
        out.push(b'}');
        out
    }

    fn properties(&self, heap: &Heap<'_>, object: &Object, origin: Place, out: &mut Vec<u8>) {
        let of_type = self.types.get(object.of_type);
        let own =
            |name: &str| heap.find(name.as_bytes()).and_then(|key| object.attributes.get(key));
        for field in of_type.fields.iter().filter(|field| !field.is_state) {
            if out.last() != Some(&b'{') {
                out.push(b',');
            }
            if field.name == "templates" {
                // `source_location` comes before it.
                self.location(origin, out);
            }
            text::json_string(field.name.as_bytes(), out);
            out.push(b':');
            let value = match (field.name.as_str(), own(&field.name), field.unset) {
                // An array of all that was imported, unless no name was ever read or set.
                ("templates", None, _) => {
                    self.templates(heap, object, out);
                    continue;
                }
                (_, Some(value), _) => value,
                (.., Unset::Null | Unset::Own | Unset::Owner | Unset::Location) => Value::Empty,
                (.., Unset::Boolean(value)) => Value::Boolean(value),
                (.., Unset::Number(value)) => Value::Number(value),
                (.., Unset::FullName) => Value::String(object.name),
                (.., Unset::ItsName) => own("name").unwrap_or(Value::String(object.name)),
                (.., Unset::Text(text)) => {
                    text::json_string(text.as_bytes(), out);
                    continue;
                }
                (.., Unset::Below(..) | Unset::Entries(_)) => self.unset(heap, object, &field.name),
                (.., Unset::NoItems) => {
                    out.extend_from_slice(b"[]");
                    continue;
                }
            };
            let function = |value| self.function(heap, value);
            out.extend(text::json_with(heap, self.types, value, &function));
        }
    }

    /// A type or a function as the program writes it down: what it is called with.
    fn function(&self, heap: &Heap<'_>, value: Value) -> Option<Vec<u8>> {
        let id = match value {
            Value::Type(_) => return Some(b"{\"type\":\"Type\"}".to_vec()),
            Value::Function(id) => id,
            _ => return None,
        };
        let closure = heap.function(id);
        let module = self.modules.get(closure.file)?;
        let Kind::Function(function) = &module.node(closure.node).kind else { return None };
        let mut out = b"{\"arguments\":[".to_vec();
        for (at, name) in function.parameters.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            text::json_string(module.atom(*name), &mut out);
        }
        out.extend_from_slice(b"],\"deprecated\":false,\"name\":");
        let name = closure.name.map_or(&b"<anonymous>"[..], |name| heap.bytes(name));
        text::json_string(name, &mut out);
        out.extend_from_slice(b",\"side_effect_free\":false,\"type\":\"Function\"}");
        Some(out)
    }

    /// The value of an attribute that nobody set, where the run has made one.
    fn unset(&self, heap: &Heap<'_>, object: &Object, name: &str) -> Value {
        let all = &self.world.roots.attributes[object.of_type.0 as usize];
        let name = heap.find(name.as_bytes());
        let found = all.iter().find(|attribute| Some(attribute.name) == name);
        found.map_or(Value::Empty, |attribute| attribute.unset)
    }

    fn templates(&self, heap: &Heap<'_>, object: &Object, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, name) in heap.trail(object).templates.iter().enumerate() {
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            text::json_string(heap.bytes(*name), out);
        }
        out.push(b']');
    }

    /// First line and column, and the last of both.
    fn lines(&self, place: Place) -> Option<(&str, [u32; 4])> {
        let source = &self.modules.get(place.file)?.source;
        let is_file = !source.path.is_empty();
        is_file.then(|| (&*source.path, source.extent(place.span)))
    }

    fn place(&self, place: Place, out: &mut Vec<u8>) {
        let (path, lines) = self.lines(place).unwrap_or(("", [0; 4]));
        out.push(b'[');
        text::json_string(path.as_bytes(), out);
        lines.iter().for_each(|number| out.extend_from_slice(format!(",{number}").as_bytes()));
        out.push(b']');
    }

    fn location(&self, place: Place, out: &mut Vec<u8>) {
        let (path, [line, column, last_line, last_column]) =
            self.lines(place).unwrap_or(("", [0; 4]));
        let text = format!(
            "\"source_location\":{{\"first_column\":{column},\"first_line\":{line},\
             \"last_column\":{last_column},\"last_line\":{last_line},\"path\":"
        );
        out.extend_from_slice(text.as_bytes());
        text::json_string(path.as_bytes(), out);
        out.extend_from_slice(b"},");
    }

    fn hints(&self, hints: &Hints, out: &mut Vec<u8>) {
        out.push(b'{');
        if !hints.messages.is_empty() {
            out.extend_from_slice(b"\"messages\":[");
            for (at, place) in hints.messages.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b",[\"=\"," } else { b"[\"=\"," });
                let start = out.len();
                self.place(*place, out);
                out.remove(start);
            }
            out.push(b']');
        }
        if !hints.below.is_empty() {
            out.extend_from_slice(if hints.messages.is_empty() { b"" } else { b"," });
            out.extend_from_slice(b"\"properties\":{");
            for (at, (key, hints)) in hints.below.iter().enumerate() {
                out.extend_from_slice(if at > 0 { b"," } else { b"" });
                text::json_string(key, out);
                out.push(b':');
                self.hints(hints, out);
            }
            out.push(b'}');
        }
        out.push(b'}');
    }
}
