//! `object`, `template` and `apply`: recorded when they are met, evaluated later; and `import`.

use super::definitions::{Definition, DefinitionIndex, Rule};
use super::{DEPTH_MAX, Fault, Flow, Frame, Interpreter, Outcome, end_of_body};
use crate::ast::{self, DefinitionKind, Kind, NodeId};
use crate::diagnostic;
use crate::ops;
use crate::source::Place;
use crate::text;
use crate::types::Naming;
use crate::value::{Object, ObjectId, StringId, Table, Trail, TrailOf, TypeId, Value};

/// What an object is made from.
#[derive(Clone, Debug)]
pub struct Instance<'d> {
    /// The body.
    pub definition: &'d Definition,
    /// The name.
    pub name: StringId,
    /// The variables of the body.
    pub locals: Table,
    /// Attributes that are set before the body runs.
    pub preset: Table,
    /// The object that a rule makes it for.
    pub target: Option<ObjectId>,
}

/// An `import` whose template's statements are being run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Importing {
    name: StringId,
    place: Place,
}

/// How many templates of a circle are named.
const CIRCLE_SHOWN_MAX: usize = 8;

impl<'p> Interpreter<'p> {
    pub(super) fn define(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        definition: &ast::Definition,
    ) -> Outcome {
        let place = Place { file: frame.module.file, span: definition.head };
        if !self.defines {
            let message = "objects, templates and rules can only be defined at the top level";
            return Err(Fault::at(place, message).into());
        }
        let of_type = self.defined_type(frame, definition)?;
        let name = match definition.name {
            Some(name) => self.evaluate(frame, name)?,
            None => Value::Empty,
        };
        let name = ops::to_key(&mut self.heap, self.types, name);
        let captured = self.capture(frame, id, &definition.captured)?;
        self.read_snippets(frame, id);
        let (is_named, file) = (definition.name.is_some(), frame.module.file);
        let (node, zone, package) = (id, self.zone, self.package);
        let made =
            Definition { of_type, name, is_named, file, node, captured, place, zone, package };
        match &definition.kind {
            DefinitionKind::Object => self.define_object(made, definition),
            DefinitionKind::Template { default } => {
                self.define_template(made, *default, definition)
            }
            DefinitionKind::Apply { target, .. } => {
                let target = target.map(|atom| self.atom(frame.module, atom));
                self.define_rule(made, target)
            }
        }
        .map(|()| Value::Empty)
        .map_err(Flow::from)
    }

    fn defined_type(
        &mut self,
        frame: &Frame<'p>,
        definition: &ast::Definition,
    ) -> Result<TypeId, Flow> {
        let node = definition.of_type;
        let place = frame.module.place(node);
        let is_rule = matches!(definition.kind, DefinitionKind::Apply { .. });
        let name = match frame.module.node(node).kind {
            Kind::Name(atom) | Kind::String(atom) if is_rule => self.atom(frame.module, atom),
            Kind::Name(atom) if self.is_no_variable(frame, node, atom)? => {
                return Err(self.unknown_type(self.atom(frame.module, atom), place));
            }
            _ => match self.evaluate(frame, node)? {
                Value::Type(id) if self.types.get(id).rules.is_some() => return Ok(id),
                other => {
                    let shown = text::string(&self.heap, self.types, other);
                    let shown = String::from_utf8_lossy(&shown);
                    let message = format!("{shown} is not a type of objects");
                    return Err(Fault::at(place, message).into());
                }
            },
        };
        self.object_type(name).ok_or_else(|| {
            let message = format!("'apply' cannot be used with type '{}'", self.heap.text(name));
            Fault::at(place, message).help(self.meant_type(name)).into()
        })
    }

    fn is_no_variable(
        &mut self,
        frame: &Frame<'p>,
        node: NodeId,
        atom: ast::AtomId,
    ) -> Result<bool, Flow> {
        let name = self.atom(frame.module, atom);
        Ok(self.find_variable(frame, node, name)?.is_none())
    }

    /// The fault of a type that there is not: in the words of the installed program where its types
    /// are meant.
    fn unknown_type(&self, name: StringId, place: Place) -> Flow {
        let text = self.heap.text(name);
        let converts = |id| self.types.get(id).rules.as_ref().is_some_and(|rules| rules.converts);
        let message = match self.types.of_objects().any(converts) {
            true => format!("Tried to access undefined script variable '{text}'"),
            false => format!("there is no object type '{text}'"),
        };
        Fault::at(place, message).help(self.meant_type(name)).into()
    }

    fn object_type(&self, name: StringId) -> Option<TypeId> {
        let id = self.types.find(self.heap.bytes(name))?;
        self.types.get(id).rules.is_some().then_some(id)
    }

    fn meant_type(&self, name: StringId) -> Option<String> {
        let name = self.heap.text(name);
        let known = self.types.of_objects().map(|id| self.types.get(id));
        let known = known.filter(|known| known.rules.is_some()).map(|known| known.name.as_str());
        diagnostic::nearest(&name, known).map(|known| format!("did you mean `{known}`?"))
    }

    fn define_object(
        &mut self,
        made: Definition,
        definition: &ast::Definition,
    ) -> Result<(), Box<Fault>> {
        self.check_members(&made, definition)?;
        self.check_name(&made, made.name)?;
        if self.has_composite_name(made.of_type) {
            self.definitions.to_mut().add_unnamed(made);
            return Ok(());
        }
        self.check_redefinition(&made)?;
        self.definitions.to_mut().add_object(made);
        Ok(())
    }

    /// Whether full names of a type's objects are made of more than the name that is written.
    fn has_composite_name(&self, of_type: TypeId) -> bool {
        let rules = self.types.get(of_type).rules.as_ref();
        rules.is_some_and(|rules| rules.naming == Naming::Composite)
    }

    /// Objects and templates of a type share their names.
    fn check_redefinition(&self, made: &Definition) -> Result<(), Box<Fault>> {
        match self.definitions.named(made.of_type, made.name) {
            Some(before) => Err(self.redefined(made, before.place)),
            None => Ok(()),
        }
    }

    /// `!` stands between the names that a composite one is made of.
    pub(crate) fn check_name(
        &self,
        definition: &Definition,
        name: StringId,
    ) -> Result<(), Box<Fault>> {
        if !self.heap.bytes(name).contains(&b'!') {
            return Ok(());
        }
        let (name, of_type) = (self.heap.text(name), &self.types.get(definition.of_type).name);
        let message = format!(
            "Name for object '{name}' of type '{of_type}' is invalid: Object names may not contain '!'"
        );
        Err(Fault::at(definition.place, message))
    }

    /// `assign where` outside of rules makes members of groups.
    fn check_members(
        &self,
        made: &Definition,
        definition: &ast::Definition,
    ) -> Result<(), Box<Fault>> {
        let of_type = self.types.get(made.of_type);
        let has_members = of_type.rules.as_ref().is_some_and(|rules| rules.members.is_some());
        let is_template = !matches!(definition.kind, DefinitionKind::Object);
        let rules = definition.assign.len() + definition.ignore.len();
        if rules == 0 || (has_members && !is_template) {
            return Ok(());
        }
        let name = self.heap.text(made.name);
        let message = format!(
            "Object '{name}' of type '{}' must not have 'assign where' and 'ignore where' rules",
            of_type.name
        );
        Err(Fault::at(made.place, message))
    }

    fn redefined(&self, made: &Definition, before: Place) -> Box<Fault> {
        let name = self.heap.text(made.name);
        let of_type = &self.types.get(made.of_type).name;
        Fault::at(made.place, format!("Object '{name}' of type '{of_type}' re-defined"))
            .note(before, "previous definition")
    }

    fn define_template(
        &mut self,
        made: Definition,
        default: bool,
        definition: &ast::Definition,
    ) -> Result<(), Box<Fault>> {
        self.check_members(&made, definition)?;
        self.check_name(&made, made.name)?;
        self.check_redefinition(&made)?;
        let index = self.definitions.to_mut();
        let number = index.templates.len() as u32;
        index.templates_by_name.insert((made.of_type, made.name), number);
        index.templates.push(made);
        if default {
            let of_type = index.templates[number as usize].of_type;
            let heap = &self.heap;
            let name = |index: &DefinitionIndex, at: &u32| {
                heap.bytes(index.templates[*at as usize].name).to_vec()
            };
            let mut defaults = index.defaults.remove(&of_type).unwrap_or_default();
            defaults.push(number);
            defaults.sort_by_key(|at| name(index, at));
            index.defaults.insert(of_type, defaults);
        }
        Ok(())
    }

    fn define_rule(
        &mut self,
        made: Definition,
        target: Option<StringId>,
    ) -> Result<(), Box<Fault>> {
        let product = self.types.get(made.of_type);
        let targets: &[&str] = product.rules.as_ref().map_or(&[], |rules| &rules.targets);
        let name = target.map(|name| self.heap.text(name));
        let found = match (&name, targets) {
            (_, []) => {
                let message = format!("'apply' cannot be used with type '{}'", product.name);
                return Err(Fault::at(made.place, message));
            }
            (None, [only]) => Some(*only),
            (None, _) => None,
            (Some(name), targets) => targets.iter().copied().find(|target| target == name),
        };
        let target = found.and_then(|name| self.types.find(name.as_bytes()));
        let Some(target) = target else {
            let known = targets.join(", ");
            let message = match name {
                Some(name) => format!("'apply' target type '{name}' is invalid"),
                None => "'apply' needs a target type: `to TYPE`".to_owned(),
            };
            let help = format!("'{}' can be applied to: {known}", product.name);
            return Err(Fault::at(made.place, message).help(Some(help)));
        };
        self.definitions.to_mut().rules.push(Rule { definition: made, target });
        Ok(())
    }

    /// `import`: runs a template's statements for this object.
    pub(super) fn import(&mut self, frame: &Frame<'p>, id: NodeId, name: NodeId) -> Outcome {
        let place = frame.module.place(id);
        let name = self.evaluate(frame, name)?;
        let Value::Object(object) = frame.this else {
            let shown = text::string(&self.heap, self.types, name);
            let shown = String::from_utf8_lossy(&shown);
            let message = format!("Import references unknown template: '{shown}'");
            return Err(Fault::at(place, message)
                .help(Some("`import` can only stand in an object, template or rule".to_owned()))
                .into());
        };
        let Value::String(name) = name else {
            return Err(Fault::at(place, "Template/object name must be a string").into());
        };
        let of_type = self.heap.object(object).of_type;
        let is_object = self.definitions.imports_object(of_type, name);
        if is_object {
            self.note_read(of_type, Some(name));
        }
        let Some(template) = self.definitions.importable(of_type, name).cloned() else {
            return Err(self.unknown_template(of_type, name, place).into());
        };
        self.importing.push(Importing { name, place });
        let run = self.run_template(&template, object, frame.locals, is_object);
        self.importing.pop();
        run.map(|()| Value::Empty)
    }

    fn unknown_template(&self, of_type: TypeId, name: StringId, place: Place) -> Box<Fault> {
        let text = self.heap.text(name);
        let templates = &self.definitions.templates;
        let same_type = templates.iter().filter(|template| template.of_type == of_type);
        let known: Vec<String> = same_type.map(|made| self.heap.text(made.name)).collect();
        let meant = diagnostic::nearest(&text, known.iter().map(String::as_str));
        Fault::at(place, format!("Import references unknown template: '{text}'"))
            .help(meant.map(|name| format!("did you mean `{name}`?")))
    }

    /// The fault of templates that import each other until no level is left, if that is why.
    ///
    /// A template may import itself under a condition, as with the installed program. `try` does
    /// not catch the fault: two imports inside `try` would come to twice as many at each level.
    pub(super) fn circle_of_imports(&self) -> Option<Box<Fault>> {
        let chain = &self.importing;
        let again =
            |from: usize| (from + 1..chain.len()).find(|at| chain[*at].name == chain[from].name);
        let (from, to) = (0..chain.len()).find_map(|from| Some((from, again(from)?)))?;
        let names = |part: &[Importing]| -> Vec<String> {
            part.iter().map(|import| format!("'{}'", self.heap.text(import.name))).collect()
        };
        let circle = match &chain[from..=to] {
            [first @ .., last] if first.len() > CIRCLE_SHOWN_MAX => {
                let first = names(&first[..CIRCLE_SHOWN_MAX]).join(" -> ");
                format!("{first} -> ... -> '{}'", self.heap.text(last.name))
            }
            all => names(all).join(" -> "),
        };
        let message = format!(
            "template '{}' imports itself, more than {DEPTH_MAX} levels deep: {circle}",
            self.heap.text(chain[from].name)
        );
        Some(Box::new(Fault { is_caught: false, ..*Fault::at(chain[to].place, message) }))
    }

    /// A template shares the variables of what imports it. An object that is imported brings the
    /// default templates with it, as the installed program has it.
    fn run_template(
        &mut self,
        template: &Definition,
        object: ObjectId,
        locals: crate::value::DictionaryId,
        is_object: bool,
    ) -> Result<(), Flow> {
        if let Some(trail) = self.heap.trail_mut(object) {
            trail.templates.push(template.name);
        }
        self.tell_template(object, template.name);
        if is_object {
            for default in self.definitions.default_templates(template.of_type) {
                self.run_template(&default, object, locals, false)?;
            }
        }
        if let Ok(locals) = self.heap.dictionary_mut(locals) {
            template.captured.iter().for_each(|(name, value)| locals.items.set(*name, *value));
        }
        self.run_body(template, object, locals).map_err(Flow::Fail)
    }

    fn run_body(
        &mut self,
        definition: &Definition,
        object: ObjectId,
        locals: crate::value::DictionaryId,
    ) -> Result<(), Box<Fault>> {
        let module = self.modules.get(definition.file).expect("a definition's file is kept");
        let Kind::Definition(node) = &module.node(definition.node).kind else {
            return Ok(());
        };
        let frame = Frame { module, this: Value::Object(object), locals };
        end_of_body(self.block(&frame, &node.body)).map(|_| ())
    }

    /// Makes an object: default templates, then its own statements.
    ///
    /// # Errors
    /// The first fault of its statements.
    pub fn instantiate(&mut self, instance: Instance<'_>) -> Result<ObjectId, Box<Fault>> {
        let Instance { definition, name, locals, preset: mut attributes, target } = instance;
        attributes.set(self.roots.name, Value::String(name));
        if let (Some(zone), None) = (definition.zone, target)
            && let Some(key) = self.zone_attribute(definition.of_type)
        {
            attributes.set(key, Value::String(zone));
        }
        if let Some(package) = definition.package
            && let Some(key) = self.heap.find(b"package")
        {
            attributes.set(key, Value::String(package));
        }
        let type_name = self.roots.type_names[definition.of_type.0 as usize];
        attributes.set(self.roots.kind, type_name);
        let object = self.heap.make_object(Object {
            of_type: definition.of_type,
            name,
            attributes,
            trail: TrailOf::One(Box::new(Trail { hints: Vec::new(), templates: vec![name] })),
            origin: definition.place,
            target,
        });
        self.tell_template(object, name);
        let locals = self.body_locals(definition, locals);
        self.making = Some(object);
        let held = self.held();
        self.hold(Value::Dictionary(locals));
        let run = self.run_bodies(definition, object, locals);
        self.let_go(held);
        self.making = None;
        run?;
        self.rename(object);
        Ok(object)
    }

    /// The default templates of an object's type, then its own statements.
    fn run_bodies(
        &mut self,
        definition: &Definition,
        object: ObjectId,
        locals: crate::value::DictionaryId,
    ) -> Result<(), Box<Fault>> {
        for template in self.definitions.default_templates(definition.of_type) {
            self.run_template(&template, object, locals, false).map_err(|flow| match flow {
                Flow::Fail(fault) => fault,
                _ => Fault::at(template.place, "Invalid flow control statement."),
            })?;
        }
        self.run_body(definition, object, locals)
    }

    /// `zone`, where a type has it.
    pub(crate) fn zone_attribute(&self, of_type: TypeId) -> Option<StringId> {
        let key = self.heap.find(b"zone")?;
        let field = self.known_field(of_type, key)?;
        (field.kind == crate::types::Kind::Name("Zone")).then_some(key)
    }

    /// `templates`, where a type has it: what was imported so far. Each import makes an array of its
    /// own, as with the installed program: who kept the one before keeps what it was.
    fn tell_template(&mut self, id: ObjectId, name: StringId) {
        let Some(key) = self.heap.find(b"templates") else { return };
        let object = self.heap.object(id);
        if self.known_attribute(object.of_type, key).is_none() {
            return;
        }
        let mut names = match object.attributes.get(key) {
            Some(Value::Array(names)) => self.heap.array(names).items.to_vec(),
            _ => Vec::new(),
        };
        names.push(Value::String(name));
        let names = self.heap.array_of(names, self.heap.object(id).origin);
        if let Ok(object) = self.heap.object_mut(id) {
            object.attributes.set(key, names);
        }
    }

    fn body_locals(
        &mut self,
        definition: &Definition,
        mut locals: Table,
    ) -> crate::value::DictionaryId {
        definition.captured.iter().for_each(|(name, value)| locals.set(*name, *value));
        let dictionary = crate::value::Dictionary { items: locals, ..Default::default() };
        self.heap.make_dictionary(dictionary)
    }

    /// An object of an earlier stage.
    pub fn find_object(&self, of_type: TypeId, name: StringId) -> Option<ObjectId> {
        self.note_read(of_type, Some(name));
        self.objects.get(&(of_type, name)).copied()
    }

    /// What a configuration finds by name: an object of an earlier stage.
    ///
    /// # Errors
    /// It may be an object that is made together with this one: which is first is not said.
    pub(crate) fn look_up(
        &self,
        of_type: TypeId,
        name: StringId,
        place: Place,
    ) -> Result<Option<ObjectId>, Flow> {
        let is_made_now = || {
            self.definitions.object(of_type, name).is_some()
                || self.definitions.rules.iter().any(|rule| rule.definition.of_type == of_type)
        };
        if self.stage == Some(self.types.stage(of_type)) && is_made_now() {
            return Err(self.made_together(of_type, place));
        }
        Ok(self.find_object(of_type, name))
    }

    /// The same for all objects of a type, by name.
    ///
    /// # Errors
    /// They are made together with this one.
    pub(crate) fn look_up_all(&self, of_type: TypeId, place: Place) -> Result<Vec<ObjectId>, Flow> {
        let all = &self.definitions;
        let mut made = all.objects.iter().chain(all.rules.iter().map(|rule| &rule.definition));
        if self.stage == Some(self.types.stage(of_type)) && made.any(|d| d.of_type == of_type) {
            return Err(self.made_together(of_type, place));
        }
        Ok(self.objects_of(of_type))
    }

    fn made_together(&self, of_type: TypeId, place: Place) -> Flow {
        let name = &self.types.get(of_type).name;
        let message = format!(
            "objects of type '{name}' are made at the same time as this one and do not exist yet"
        );
        let help = "put what several objects share into a constant";
        Fault::at(place, message).help(Some(help.to_owned())).into()
    }

    /// Whether an object of this type and name has been defined.
    pub(super) fn defines_object(&self, of_type: &str, name: &[u8]) -> bool {
        let key = self.types.find(of_type.as_bytes()).zip(self.heap.find(name));
        key.is_some_and(|(of_type, name)| self.definitions.object(of_type, name).is_some())
    }

    /// Whether there is, or will be, an object of this name.
    pub(crate) fn is_defined(&self, of_type: TypeId, name: StringId) -> bool {
        self.definitions.object(of_type, name).is_some()
            || self.objects.contains_key(&(of_type, name))
    }

    /// The top level sees no objects, so it reads none.
    pub(crate) fn note_read(&self, of_type: TypeId, name: Option<StringId>) {
        if !self.defines {
            let name = name.map(|name| self.heap.bytes(name).into());
            self.reads.borrow_mut().insert((of_type, name));
        }
    }

    /// The objects of a type of an earlier stage, by name.
    pub fn objects_of(&self, of_type: TypeId) -> Vec<ObjectId> {
        self.note_read(of_type, None);
        let range = (of_type, StringId(0))..=(of_type, StringId(u32::MAX));
        let mut found: Vec<_> = self.objects.range(range).map(|(_, id)| *id).collect();
        let name = |id: &ObjectId| self.heap.bytes(self.heap.object(*id).name);
        found.sort_by(|a, b| name(a).cmp(name(b)));
        found
    }

    /// The attribute `name` may have been set to another name. `__name` is the full name from now on,
    /// whatever it was set to.
    fn rename(&mut self, id: ObjectId) {
        let full = self.heap.find(b"__name");
        let value = self.heap.object(id).attributes.get(self.roots.name).unwrap_or(Value::Empty);
        let name = ops::to_key(&mut self.heap, self.types, value);
        if let Ok(object) = self.heap.object_mut(id) {
            object.name = name;
            full.and_then(|full| object.attributes.remove(full));
        }
    }
}
