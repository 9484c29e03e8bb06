//! Variables and members: where they are looked for, and what is refused.

use super::{Attribute, Fault, Flow, Frame, Interpreter, Outcome, fail};
use crate::ast::{AtomId, NodeId};
use crate::diagnostic;
use crate::ops;
use crate::source::Place;
use crate::text;
use crate::types::{Field, Types, Unset};
use crate::value::{DictionaryId, Hint, ObjectId, StringId, TypeId, Value, Writes};

impl<'p> Interpreter<'p> {
    /// The value of a variable.
    pub(super) fn variable(&mut self, frame: &Frame<'p>, id: NodeId, atom: AtomId) -> Outcome {
        let name = self.atom(frame.module, atom);
        if self.is_hidden_by_setting(frame, name)
            && let Some((_, of_type)) = self.find_global(name)
        {
            return Ok(of_type);
        }
        match self.find_variable(frame, id, name)? {
            Some((_, value)) => Ok(value),
            None => Err(self.undefined(frame, id, name)),
        }
    }

    /// The container of a variable and its value: locals, `this`, the namespaces that the file
    /// uses, those that everybody uses, globals.
    pub(super) fn find_variable(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        name: StringId,
    ) -> Result<Option<(Value, Value)>, Flow> {
        if let Some(value) = self.heap.dictionary(frame.locals).items.get(name) {
            return Ok(Some((Value::Dictionary(frame.locals), value)));
        }
        if let Some(value) = self.own_field(frame.this, name) {
            let global = self.is_unset_target(frame.this, name).then(|| self.find_global(name));
            return Ok(global.flatten().or(Some((frame.this, value))));
        }
        if !frame.module.usings.is_empty()
            && let Some(found) = self.find_used(frame, id, name)?
        {
            return Ok(Some(found));
        }
        Ok(self.find_global(name))
    }

    /// Whether a name is that of a target which the object has not: `machine` of what is made for a container. Then a
    /// global of that name is meant.
    fn is_unset_target(&self, this: Value, name: StringId) -> bool {
        let Value::Object(id) = this else { return false };
        let object = self.heap.object(id);
        let rules = self.types.get(object.of_type).rules.as_ref();
        let targets = rules.iter().flat_map(|rules| &rules.target_names);
        object.attributes.get(name).is_none()
            && targets.into_iter().any(|(_, target)| target.as_bytes() == self.heap.bytes(name))
    }

    /// Whether a name is that of a type, and of a setting of the object that nobody set: `Group`.
    fn is_hidden_by_setting(&self, frame: &Frame<'p>, name: StringId) -> bool {
        let Value::Object(id) = frame.this else { return false };
        let object = self.heap.object(id);
        let is_setting = |field: &Field| matches!(field.kind, crate::types::Kind::Setting(_));
        self.known_field(object.of_type, name).is_some_and(is_setting)
            && object.attributes.get(name).is_none()
            && self.heap.dictionary(frame.locals).items.get(name).is_none()
            && self.types.find(self.heap.bytes(name)).is_some()
    }

    pub(crate) fn find_global(&self, name: StringId) -> Option<(Value, Value)> {
        let globals = std::iter::once(self.roots.globals);
        let mut scopes = self.roots.imports.iter().copied().chain(globals);
        scopes.find_map(|scope| {
            let value = self.heap.dictionary(scope).items.get(name)?;
            Some((Value::Namespace(scope), value))
        })
    }

    fn find_used(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        name: StringId,
    ) -> Result<Option<(Value, Value)>, Flow> {
        let module = frame.module;
        let start = module.node(id).span.start;
        for (_, using) in module.usings.iter().filter(|(span, _)| span.end <= start) {
            let scope = self.evaluate(frame, *using)?;
            if let Value::Boolean(_) | Value::Number(_) | Value::String(_) = scope {
                return Err(self.no_object(scope, module.place(*using)));
            }
            if let Some(value) = self.own_field(scope, name) {
                return Ok(Some((scope, value)));
            }
        }
        Ok(None)
    }

    pub(super) fn undefined(&self, frame: &Frame<'p>, id: NodeId, name: StringId) -> Flow {
        let text = self.heap.text(name);
        let mut scopes = vec![frame.locals, self.roots.globals];
        scopes.extend(&self.roots.imports);
        let known: Vec<String> = scopes
            .iter()
            .flat_map(|scope| self.heap.sorted(*scope))
            .map(|(key, _)| self.heap.text(key))
            .collect();
        let meant = diagnostic::nearest(&text, known.iter().map(String::as_str));
        let message = format!("Tried to access undefined script variable '{text}'");
        let help = meant.map(|name| format!("did you mean `{name}`?"));
        Fault::at(frame.module.place(id), message).help(help).into()
    }

    /// A member that a container itself has: what a bare name finds in `this`.
    fn own_field(&mut self, base: Value, name: StringId) -> Option<Value> {
        match base {
            Value::Dictionary(id) | Value::Namespace(id) => {
                self.heap.dictionary(id).items.get(name)
            }
            Value::Object(id) => self.read_attribute(id, name),
            _ => None,
        }
    }

    /// An object's attribute, with those that are made when they are read.
    fn read_attribute(&mut self, id: ObjectId, name: StringId) -> Option<Value> {
        let object = self.heap.object(id);
        let field = self.known_field(object.of_type, name);
        match field.is_some_and(|field| field.unset == Unset::Location) {
            true => Some(self.location(object.origin)),
            false => self.attribute(id, name),
        }
    }

    /// Where an object is defined, as configurations read it.
    fn location(&mut self, origin: Place) -> Value {
        let Some(module) = self.modules.get(origin.file) else { return Value::Empty };
        let [first_line, first_column, last_line, last_column] =
            module.source.extent(origin.span).map(|number| Value::Number(number.into()));
        let path = self.heap.string(module.source.path.as_bytes());
        let entries = [
            ("path", path),
            ("first_line", first_line),
            ("first_column", first_column),
            ("last_line", last_line),
            ("last_column", last_column),
        ];
        let items = entries.map(|(name, value)| (self.heap.intern(name.as_bytes()), value));
        self.heap.dictionary_of(items.into_iter().collect(), origin)
    }

    /// An object's attribute; what nobody set reads as the type says.
    pub(crate) fn attribute(&self, id: ObjectId, name: StringId) -> Option<Value> {
        let object = self.heap.object(id);
        if let Some(value) = object.attributes.get(name) {
            return Some(value);
        }
        let attribute = self.known_attribute(object.of_type, name)?;
        match self.types.get(object.of_type).fields[usize::from(attribute.field)].unset {
            Unset::ItsName => object.attributes.get(self.roots.name),
            Unset::FullName => Some(Value::String(object.name)),
            Unset::Owner if self.making == Some(id) => Some(Value::Empty),
            Unset::Owner => Some(self.owner(id).map_or(Value::Empty, Value::Object)),
            _ => Some(attribute.unset),
        }
    }

    /// An attribute that a type has.
    pub(crate) fn known_attribute(&self, of_type: TypeId, name: StringId) -> Option<&Attribute> {
        let all = &self.roots.attributes[of_type.0 as usize];
        all.binary_search_by_key(&name, |attribute| attribute.name).ok().map(|at| &all[at])
    }

    /// The attributes that an object of a type must have.
    pub(crate) fn required_attributes(&self, of_type: TypeId) -> &[Attribute] {
        &self.roots.required[of_type.0 as usize]
    }

    /// The field of an attribute that a type has.
    pub(crate) fn known_field(&self, of_type: TypeId, name: StringId) -> Option<&'p Field> {
        let field = self.known_attribute(of_type, name)?.field;
        let types: &'p Types = self.types;
        Some(&types.get(of_type).fields[usize::from(field)])
    }

    /// `base[key]`, also written `base.key`.
    pub(crate) fn field(&mut self, base: Value, key: Value, place: Place) -> Outcome {
        match base {
            Value::Empty => Ok(Value::Empty),
            Value::Dictionary(id) | Value::Namespace(id) => {
                let key = ops::to_key(&mut self.heap, self.types, key);
                let own = self.heap.dictionary(id).items.get(key);
                Ok(own.or_else(|| self.method(base, key)).unwrap_or(Value::Empty))
            }
            Value::Array(id) => self.item(id, key, place),
            _ => {
                let name = ops::to_key(&mut self.heap, self.types, key);
                let found = self.special_field(base, name).or_else(|| self.method(base, name));
                found.ok_or_else(|| self.no_field(base, name, place))
            }
        }
    }

    fn item(&mut self, id: crate::value::ArrayId, key: Value, place: Place) -> Outcome {
        let index = match key {
            Value::Number(index) if index.fract() == 0.0 => Some(index),
            Value::String(text) => whole_number(self.heap.bytes(text)),
            _ => None,
        };
        let items = &self.heap.array(id).items;
        match index {
            Some(index) if index >= 0.0 && (index as usize) < items.len() => {
                Ok(items[index as usize])
            }
            Some(index) => Err(fail(place, format!("Array index '{index}' is out of bounds."))),
            None => {
                let name = ops::to_key(&mut self.heap, self.types, key);
                let base = Value::Array(id);
                let found = self.special_field(base, name).or_else(|| self.method(base, name));
                found.ok_or_else(|| self.no_field(base, name, place))
            }
        }
    }

    /// A method of a value's type or of a type it extends.
    pub(crate) fn method(&self, base: Value, name: StringId) -> Option<Value> {
        let mut of_type = Some(self.types.of(&self.heap, base));
        while let Some(id) = of_type {
            let prototype = self.roots.prototypes[id.0 as usize];
            if let Some(found) = self.heap.dictionary(prototype).items.get(name) {
                return Some(found);
            }
            of_type = self.types.get(id).base;
        }
        None
    }

    /// Members that are no items and no methods.
    fn special_field(&mut self, base: Value, name: StringId) -> Option<Value> {
        if let Value::Object(id) = base {
            return self.read_attribute(id, name);
        }
        let bytes = self.heap.bytes(name).to_vec();
        match (base, bytes.as_slice()) {
            (Value::Type(id), b"name") => {
                Some(self.heap.string(self.types.get(id).name.as_bytes()))
            }
            (Value::Type(id), b"base") => {
                Some(self.types.get(id).base.map_or(Value::Empty, Value::Type))
            }
            (Value::Type(id), b"prototype") => Some(self.prototype(id)),
            (Value::Type(_), b"type") => Some(self.heap.string(b"Type")),
            (Value::Array(_), b"type") => Some(self.heap.string(b"Array")),
            (Value::Builtin(_) | Value::Function(_), b"name") => {
                let name = self.function_name(base);
                Some(self.heap.string(name.as_bytes()))
            }
            _ => None,
        }
    }

    fn prototype(&self, id: TypeId) -> Value {
        let prototype = self.roots.prototypes[id.0 as usize];
        let is_plain = self.heap.dictionary(prototype).items.is_empty();
        if is_plain { Value::Empty } else { Value::Dictionary(prototype) }
    }

    fn no_field(&self, base: Value, name: StringId, place: Place) -> Flow {
        let of_type = self.types.name_of(&self.heap, base);
        let name = self.heap.text(name);
        let message = format!("Invalid field access (for value of type '{of_type}'): '{name}'");
        Fault::at(place, message).help(self.meant_field(base, &name)).into()
    }

    pub(crate) fn meant_field(&self, base: Value, name: &str) -> Option<String> {
        let of_type = self.types.get(self.types.of(&self.heap, base));
        let known = of_type.fields.iter().map(|field| field.name.as_str());
        diagnostic::nearest(name, known).map(|name| format!("did you mean `{name}`?"))
    }

    // Writing.

    /// Sets `base[key]`.
    pub(crate) fn set_field(
        &mut self,
        base: Value,
        key: Value,
        value: Value,
        place: Place,
    ) -> Result<(), Flow> {
        match base {
            Value::Dictionary(id) | Value::Namespace(id) => {
                self.set_entry(base, id, key, value, place)
            }
            Value::Array(id) => self.set_item(id, key, value, place),
            Value::Object(id) => self.set_attribute(id, key, value, place),
            Value::Empty => Err(fail(place, "null has no attributes to set")),
            other => {
                let of_type = self.types.name_of(&self.heap, other);
                let message = format!("Cannot convert value of type '{of_type}' to an object.");
                Err(fail(place, message))
            }
        }
    }

    fn set_entry(
        &mut self,
        base: Value,
        id: DictionaryId,
        key: Value,
        value: Value,
        place: Place,
    ) -> Result<(), Flow> {
        let key = ops::to_key(&mut self.heap, self.types, key);
        let what = match base {
            Value::Namespace(_) => "namespace",
            _ => "dictionary",
        };
        let dictionary = match self.heap.dictionary_mut(id) {
            Ok(dictionary) => dictionary,
            Err(frozen) => return Err(self.frozen(what, frozen, place)),
        };
        if let Some(rare) = &dictionary.rare {
            if rare.constants.binary_search(&key).is_ok() {
                return Err(fail(place, "Constant must not be modified."));
            }
            if let Some(frozen) = rare.frozen {
                let fault = Fault::at(place, "Value in dictionary must not be modified.");
                return Err(fault.note(frozen, "it was frozen here").into());
            }
            if rare.writes == Writes::Nothing {
                return Err(fail(place, "Namespace is read-only and must not be modified."));
            }
        }
        dictionary.items.set(key, value);
        if let Some(rare) = &mut dictionary.rare
            && rare.writes == Writes::Once
            && let Err(at) = rare.constants.binary_search(&key)
        {
            rare.constants.insert(at, key);
        }
        Ok(())
    }

    fn set_item(
        &mut self,
        id: crate::value::ArrayId,
        key: Value,
        value: Value,
        place: Place,
    ) -> Result<(), Flow> {
        let index = ops::to_integer(&self.heap, self.types, key);
        let index = index.map_err(|message| fail(place, message))?;
        let at = usize::try_from(index).ok().filter(|at| *at < ARRAY_ITEMS_MAX);
        let Some(at) = at else {
            return Err(fail(place, format!("Array index '{index}' is out of bounds.")));
        };
        let length = self.writable_array(id, place)?.items.len();
        // Room is looked for before much of it is taken.
        self.heap.count_cells((at + 1).saturating_sub(length));
        if !self.heap.has_room(&self.bounds) {
            return Err(fail(place, "the rules need more memory than is allowed for values"));
        }
        let array = self.writable_array(id, place)?;
        if at >= length {
            array.items.resize(at + 1, Value::Empty);
        }
        array.items[at] = value;
        Ok(())
    }

    /// An array that can be written to.
    pub(crate) fn writable_array(
        &mut self,
        id: crate::value::ArrayId,
        place: Place,
    ) -> Result<&mut crate::value::Array, Flow> {
        if let Some(frozen) = self.heap.array(id).frozen {
            let fault = Fault::at(place, "Array must not be modified.");
            return Err(fault.note(frozen, "it was frozen here").into());
        }
        let frozen = self.heap.array_mut(id).err();
        if let Some(frozen) = frozen {
            return Err(self.frozen("array", frozen, place));
        }
        Ok(self.heap.array_mut(id).expect("it is in the layer that can be written"))
    }

    fn set_attribute(
        &mut self,
        id: ObjectId,
        key: Value,
        value: Value,
        place: Place,
    ) -> Result<(), Flow> {
        let key = ops::to_key(&mut self.heap, self.types, key);
        let object = self.heap.object(id);
        let rules = self.types.get(object.of_type).rules.as_ref();
        let Some(field) = self.known_field(object.of_type, key) else {
            if rules.is_some_and(|rules| rules.takes_any) {
                return self.set_any_attribute(id, key, value, place);
            }
            let name = self.heap.text(key);
            let help = self.meant_field(Value::Object(id), &name);
            let message = format!("Attribute '{name}' does not exist.");
            return Err(Fault::at(place, message).help(help).into());
        };
        if field.kind == crate::types::Kind::ReadOnly {
            let message = format!("Attribute '{}' cannot be set.", field.name);
            return Err(fail(place, message));
        }
        let converts = self.types.get(object.of_type).rules.as_ref().is_none_or(|r| r.converts);
        let value = match converts {
            true => crate::schema::convert(self, id, field, value).map_err(|m| fail(place, m))?,
            false => value,
        };
        let is_full_name = field.unset == Unset::FullName;
        match self.heap.object_mut(id) {
            Ok(object) => object.attributes.set(key, value),
            Err(frozen) => return Err(self.frozen("object", frozen, place)),
        }
        if is_full_name {
            self.rename_by_full_name(id, value);
        }
        Ok(())
    }

    fn set_any_attribute(
        &mut self,
        id: ObjectId,
        key: StringId,
        value: Value,
        place: Place,
    ) -> Result<(), Flow> {
        match self.heap.object_mut(id) {
            Ok(object) => object.attributes.set(key, value),
            Err(frozen) => return Err(self.frozen("object", frozen, place)),
        }
        Ok(())
    }

    /// A full name that is set is the object's name, unless `name` is set as well: by its body or by
    /// the rule that makes it. An empty one is none.
    fn rename_by_full_name(&mut self, id: ObjectId, full: Value) {
        let object = self.heap.object(id);
        let name = self.roots.name;
        let is_set = |hints: &[Hint]| hints.iter().any(|hint| hint.attribute == name);
        if object.target.is_some() || is_set(&self.heap.trail(object).hints) {
            return;
        }
        let given = Value::String(object.name);
        let is_empty = !ops::is_true(&self.heap, full);
        if let Ok(object) = self.heap.object_mut(id) {
            object.attributes.set(name, if is_empty { given } else { full });
        }
    }

    /// What messages call a function.
    pub(crate) fn function_name(&self, function: Value) -> String {
        match function {
            Value::Builtin(id) => crate::library::BUILTINS[id.0 as usize].name.to_owned(),
            Value::Function(id) => match self.heap.function(id).name {
                Some(name) => self.heap.text(name),
                None => "<anonymous>".to_owned(),
            },
            _ => String::from_utf8_lossy(&text::string(&self.heap, self.types, function)).into(),
        }
    }

    /// Whether a value is of a type that holds members, for messages of calls that need one.
    pub(crate) fn type_of(&self, value: Value) -> &'p str {
        let types: &'p Types = self.types;
        match value {
            Value::Empty => "Empty",
            value => &types.get(types.of(&self.heap, value)).name,
        }
    }
}

/// The most items an array can get by setting one beyond its end.
pub const ARRAY_ITEMS_MAX: usize = 1 << 20;

fn whole_number(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.parse::<i64>().ok().map(|number| number as f64)
}
