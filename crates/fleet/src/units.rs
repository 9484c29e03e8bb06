//! Objects of Warrener's schema as unit files and drop-ins: their text, parsed, and for every line
//! the place that says why it is there.
//!
//! What is wrong with a unit is found by `warren-unit`, as for any unit file, and reported at the
//! place that set it. Threads write parts of the objects and meet in `share` only. Start at
//! [`Units::all`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warren_unit::compile::Compiler;
use warren_unit::diagnostic::Code;
use warren_unit::parse::UnitFile;
use warren_unit::settings::Section;
use warren_unit::{Context, Defaults, Severity, Sources, UnitName, UnitType, parse};

use crate::diagnostic::{self, Diagnostic};
use crate::eval::World;
use crate::heap::Heap;
use crate::schema::{place_of, warrener};
use crate::share;
use crate::source::Place;
use crate::text;
use crate::types::Types;
use crate::value::{Object, ObjectId, Value};

/// Longest name of a drop-in, in bytes: with `.conf` it is a file name.
const DROP_IN_NAME_BYTES_MAX: usize = 250;

/// Units for which a further thread pays.
const UNITS_PER_THREAD_MIN: usize = 512;

/// A unit file or a drop-in.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its place below the directory of all: `web.service`, `web.service.d/50-limits.conf`.
    pub path: Box<str>,
    /// What the file says.
    pub file: Arc<UnitFile>,
    /// For each line of the file, the assignment that made it; none for headers and empty lines.
    pub lines: Vec<Option<Place>>,
    /// The definition or the rule that made it.
    pub origin: Place,
    /// The object it is made of.
    pub object: ObjectId,
}

/// Units by path, and what is wrong with them.
pub type UnitSet = (BTreeMap<Box<str>, Unit>, Vec<Diagnostic>);

/// Writes the units of a world.
#[derive(Clone, Copy)]
pub struct Units<'w> {
    /// The objects.
    pub world: &'w World,
    /// Their types.
    pub types: &'w Types,
    /// The directory that the files say they are in.
    pub directory: &'w str,
}

impl Units<'_> {
    /// The objects that are units, in the order of their types.
    fn objects(&self) -> Vec<ObjectId> {
        let is_unit = |id: &crate::value::TypeId| unit_type(&self.types.get(*id).name).is_some();
        let of_units = self.world.by_type.iter().filter(|(id, _)| is_unit(id));
        of_units.flat_map(|(_, objects)| objects).copied().collect()
    }

    /// All units, written by several threads.
    pub fn all(&self, threads: usize) -> UnitSet {
        let objects = self.objects();
        let part = objects.len().div_ceil(threads.max(1)).max(UNITS_PER_THREAD_MIN);
        let parts: Vec<&[ObjectId]> = objects.chunks(part).collect();
        let shares = share::out(parts.len(), threads, |claims| {
            let write = |number: usize| (number, self.some(parts[number]));
            std::iter::from_fn(|| claims.take()).map(write).collect()
        });
        let (mut out, mut all, mut told) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for (units, faults) in shares {
            all.extend(units.into_iter().filter_map(|unit| insert(&mut out, unit)));
            for (unit, fault) in faults {
                // One line of a rule may be wrong in each of its units: it is told of once.
                if told.insert((fault.place, fault.message.clone())) {
                    all.push(named(unit, fault));
                }
            }
        }
        (out, diagnostic::limited(all))
    }

    fn writer<'w>(&'w self, heap: &'w Heap<'w>, id: ObjectId) -> Option<Writer<'w>> {
        let object = heap.object(id);
        let unit_type = unit_type(&self.types.get(object.of_type).name)?;
        Some(Writer { heap, types: self.types, object, unit_type, all: self })
    }

    /// The units of these objects, and what is wrong with each.
    pub fn some(&self, objects: &[ObjectId]) -> (Vec<Unit>, Vec<(Box<str>, Diagnostic)>) {
        let heap = Heap::over(&self.world.layer);
        let (mut units, mut faults) = (Vec::new(), Vec::new());
        for id in objects {
            let Some(writer) = self.writer(&heap, *id) else { continue };
            match writer.unit(*id) {
                Ok((unit, found)) => {
                    faults.extend(found.into_iter().map(|fault| (unit.path.clone(), fault)));
                    units.push(unit);
                }
                Err(fault) => faults.push((Box::default(), fault)),
            }
        }
        (units, faults)
    }
}

/// The unit type whose objects have this type.
fn unit_type(name: &str) -> Option<UnitType> {
    UnitType::ALL.into_iter().find(|unit_type| unit_type.section() == name)
}

/// The fault with the unit that it was found in.
pub(crate) fn named(unit: Box<str>, fault: Diagnostic) -> Diagnostic {
    let is_named = fault.message.strip_prefix(&*unit).is_some_and(|rest| rest.starts_with(':'));
    match unit.is_empty() || is_named {
        true => fault,
        false => Diagnostic { message: format!("{unit}: {}", fault.message), ..fault },
    }
}

/// Two objects can make one unit: two mounts of one place.
fn insert(out: &mut BTreeMap<Box<str>, Unit>, unit: Unit) -> Option<Diagnostic> {
    if let Some(before) = out.get(&unit.path) {
        return Some(made_twice(&unit, before.origin));
    }
    out.insert(unit.path.clone(), unit);
    None
}

/// The fault of a unit that is there already.
pub(crate) fn made_twice(unit: &Unit, before: Place) -> Diagnostic {
    let message = format!("two rules make the unit {}", unit.path);
    Diagnostic::error(unit.origin, message).note(before, "the other one is here")
}

struct Writer<'w> {
    heap: &'w Heap<'w>,
    types: &'w Types,
    object: &'w Object,
    unit_type: UnitType,
    all: &'w Units<'w>,
}

/// Which file: a unit's own or a drop-in's.
struct FilePlace {
    /// The unit; none if it is for all of its type.
    owner: Option<UnitName>,
    path: Box<str>,
}

/// A line of a section: name, value, place.
type Line = (String, String, Place);

impl Writer<'_> {
    /// The unit that the file is for, if that has a name, and the file's path.
    fn place(&self, sections: &[(&'static str, Vec<Line>)]) -> Result<FilePlace, Diagnostic> {
        if let Some(drop_in) = self.drop_in()? {
            return Ok(drop_in);
        }
        let name = self.name(sections)?;
        Ok(FilePlace { path: name.as_str().into(), owner: Some(name) })
    }

    fn unit(&self, id: ObjectId) -> Result<(Unit, Vec<Diagnostic>), Diagnostic> {
        let sections = self.sections()?;
        let FilePlace { owner, path } = self.place(&sections)?;
        let (text, lines) = write(&sections);
        let full: Arc<str> = format!("{}/{path}", self.all.directory).into();
        let (file, found) = parse::parse(full, text.as_bytes(), self.unit_type);
        let origin = self.object.origin;
        let unit = Unit { path, file: Arc::new(file), lines, origin, object: id };
        let found = check(&unit, owner.as_ref(), found);
        let found = found.into_iter().map(|fault| self.with_cause(fault, &sections)).collect();
        Ok((unit, found))
    }

    /// A fault of what a rule made, with the target that it was made for: where the wrong value was
    /// said, if it comes from there.
    fn with_cause(&self, fault: Diagnostic, sections: &[(&'static str, Vec<Line>)]) -> Diagnostic {
        let Some(target) = self.object.target else { return fault };
        let lines = sections.iter().flat_map(|(_, lines)| lines);
        let values: Vec<&str> = lines
            .filter(|(.., place)| *place == fault.place)
            .map(|(_, value, _)| value.as_str())
            .collect();
        let target = self.heap.object(target);
        let place = self.said_by(target, &values).unwrap_or(target.origin);
        let (of_type, name) = (&self.types.get(target.of_type).name, self.heap.text(target.name));
        let mut fault = fault;
        fault.notes.push((place, format!("the rule makes this for {of_type} '{name}'")));
        fault
    }

    /// Where a target says something that is part of one of these values: the longest of all.
    fn said_by(&self, target: &Object, values: &[&str]) -> Option<Place> {
        let hints = self.heap.trail(target).hints.iter();
        let said = hints.filter_map(|hint| {
            let value = target.attributes.get(hint.attribute)?;
            let value = match (hint.key, value) {
                (Some(key), Value::Dictionary(id)) => self.heap.dictionary(id).items.get(key)?,
                (_, value) => value,
            };
            let is_plain = matches!(value, Value::String(_) | Value::Number(_));
            let text = is_plain.then(|| text::string(self.heap, self.types, value))?;
            let text = String::from_utf8(text).ok().filter(|text| !text.is_empty())?;
            values.iter().any(|value| value.contains(&text)).then_some((text.len(), hint.place))
        });
        said.max_by_key(|(length, _)| *length).map(|(_, place)| place)
    }

    /// Which drop-in this is; nothing if it is a unit.
    fn drop_in(&self) -> Result<Option<FilePlace>, Diagnostic> {
        let key = self.heap.find(warrener::DROP_IN_OF.as_bytes());
        let value = key.and_then(|key| self.object.attributes.get(key)).unwrap_or(Value::Empty);
        if matches!(value, Value::Empty) {
            return Ok(None);
        }
        let owner = text::string(self.heap, self.types, value);
        let owner = String::from_utf8_lossy(&owner).into_owned();
        let place = place_of(self.heap, self.object, warrener::DROP_IN_OF);
        let suffix = self.unit_type.suffix();
        let unit = UnitName::parse(&owner).ok().filter(|u| u.unit_type() == self.unit_type);
        if unit.is_none() && owner != suffix {
            let message = format!("'{owner}' is not a {suffix}, so this cannot be a drop-in of it");
            return Err(Diagnostic::error(place, message));
        }
        let name = self.heap.text(self.object.name);
        let is_bad = |c: char| c == '/' || c.is_control();
        let fits = (1..=DROP_IN_NAME_BYTES_MAX).contains(&name.len());
        if !fits || name.starts_with('.') || name.contains(is_bad) {
            let message = format!("'{name}' is not a valid name of a drop-in");
            return Err(Diagnostic::error(self.object.origin, message));
        }
        let path = format!("{owner}.d/{name}.conf").into();
        Ok(Some(FilePlace { owner: unit, path }))
    }

    /// Settings by section, in the order of a unit file; sections without settings are left out,
    /// but that of the type is there.
    fn sections(&self) -> Result<Vec<(&'static str, Vec<Line>)>, Diagnostic> {
        let own = Section::Type(self.unit_type);
        let mut out: Vec<(&'static str, Vec<Line>)> = [Section::Unit, own, Section::Install]
            .into_iter()
            .map(|section| (section.name(), Vec::new()))
            .collect();
        let mut attributes: Vec<_> = self.object.attributes.iter().collect();
        attributes.sort_by(|a, b| self.heap.bytes(a.0).cmp(self.heap.bytes(b.0)));
        for (key, value) in attributes {
            let name = self.heap.text(key);
            let Some(section) = warrener::section_of(self.unit_type, &name) else { continue };
            let section = out.iter_mut().find(|(other, _)| *other == section.name());
            let Some((_, lines)) = section else { continue };
            let place = place_of(self.heap, self.object, &name);
            for value in self.values(value) {
                let value = self.line(&name, value, place)?;
                lines.push((name.clone(), value, place));
            }
        }
        out.retain(|(name, lines)| !lines.is_empty() || *name == own.name());
        Ok(out)
    }

    /// One line for each item of an array.
    fn values(&self, value: Value) -> Vec<Value> {
        match value {
            Value::Array(id) => self.heap.array(id).items.clone(),
            Value::Empty => Vec::new(),
            one => vec![one],
        }
    }

    /// A value as it stands behind `=`. It must not end its line, or it would say more than one
    /// thing.
    fn line(&self, name: &str, value: Value, place: Place) -> Result<String, Diagnostic> {
        let bytes = match value {
            Value::Boolean(true) => b"yes".to_vec(),
            Value::Boolean(false) => b"no".to_vec(),
            value => text::string(self.heap, self.types, value),
        };
        let fault = |what: &str| {
            let unit = self.heap.text(self.object.name);
            Diagnostic::error(place, format!("the value of {name} of '{unit}' {what}"))
        };
        let text = String::from_utf8(bytes).map_err(|_| fault("is not UTF-8"))?;
        let is_bad = |c: char| matches!(c, '\n' | '\r' | '\0');
        if text.contains(is_bad) || text.ends_with('\\') {
            return Err(fault("cannot be written in one line"));
        }
        Ok(text)
    }

    /// Mounts and swaps are named by their path, other units by their object.
    fn name(&self, sections: &[(&str, Vec<Line>)]) -> Result<UnitName, Diagnostic> {
        let by_path = match self.unit_type {
            UnitType::Mount | UnitType::Automount => Some("Where"),
            UnitType::Swap => Some("What"),
            _ => None,
        };
        let given = self.heap.text(self.object.name);
        let all = sections.iter().flat_map(|(_, lines)| lines);
        let path = by_path.map(|setting| all.rev().find(|(name, ..)| name == setting));
        let name = match path {
            Some(Some((_, path, _))) => UnitName::for_path(path, self.unit_type),
            Some(None) => {
                let setting = by_path.unwrap_or_default();
                let message = format!("{} '{given}' has no {setting}", self.unit_type.section());
                return Err(Diagnostic::error(self.object.origin, message));
            }
            None => UnitName::parse(&format!("{given}.{}", self.unit_type)),
        };
        let suffix = format!(".{}", self.unit_type);
        if path.is_none() && given.ends_with(&suffix) {
            let message = format!(
                "the name '{given}' ends in '{suffix}', which is added anyway: leave it out"
            );
            let help = format!("write '{}'", given.trim_end_matches(suffix.as_str()));
            return Err(Diagnostic::error(self.object.origin, message).help(Some(help)));
        }
        name.map_err(|error| {
            let message = format!("'{given}' is not a valid unit name: {error}");
            let help = "set `name` to a valid one; letters, digits and :-_.\\ are allowed";
            Diagnostic::error(self.object.origin, message).help(Some(help.to_owned()))
        })
    }
}

/// The text of a file and the place of each of its lines.
fn write(sections: &[(&'static str, Vec<Line>)]) -> (String, Vec<Option<Place>>) {
    let (mut text, mut lines) = (String::new(), Vec::new());
    for (section, settings) in sections {
        if !text.is_empty() {
            text.push('\n');
            lines.push(None);
        }
        text.push_str(&format!("[{section}]\n"));
        lines.push(None);
        for (setting, value, place) in settings {
            text.push_str(&format!("{setting}={value}\n"));
            lines.push(Some(*place));
        }
    }
    (text, lines)
}

/// What `warren-unit` finds wrong with a unit, at the places that set it. A drop-in for all units
/// of a type has no owner, and is checked as far as it can be read.
fn check(
    unit: &Unit,
    owner: Option<&UnitName>,
    mut found: Vec<warren_unit::Diagnostic>,
) -> Vec<Diagnostic> {
    let (context, defaults) = (Context::system(), Defaults::default());
    let is_drop_in = owner.is_none_or(|owner| owner.as_str() != &*unit.path);
    let file = std::slice::from_ref(&unit.file);
    let sources = match is_drop_in {
        true => Sources { dropins: file, ..Sources::default() },
        false => Sources { fragment: Some(&unit.file), ..Sources::default() },
    };
    let sources = &sources;
    if let (Some(name), false) = (owner, is_drop_in) {
        found.extend(warren_unit::load(name, sources, &context, &defaults).1);
    }
    if let Some(name) = owner {
        found.extend(Compiler { name, sources, context: &context, defaults: &defaults }.check());
    }
    found.sort();
    found.dedup();
    // Notes are about what this version does not act on; `warren verify` shows them.
    found.retain(|fault| fault.severity > Severity::Note && (fault.line > 0 || !is_drop_in));
    let place = |line: u32| {
        let line = (line as usize).checked_sub(1).and_then(|line| unit.lines.get(line));
        line.copied().flatten().unwrap_or(unit.origin)
    };
    let diagnostic = |fault: warren_unit::Diagnostic| {
        let place = place(fault.line);
        match does_nothing(fault.code) {
            true => {
                let message = fault.message.strip_suffix(", ignored").unwrap_or(&fault.message);
                Diagnostic::error(place, message)
            }
            false => {
                Diagnostic { severity: fault.severity, ..Diagnostic::error(place, fault.message) }
            }
        }
    };
    found.into_iter().map(diagnostic).collect()
}

/// Whether what was written has no effect: in a file of somebody else that is worth a warning; of a
/// rule nobody is better off with units that lack what it says.
fn does_nothing(code: Code) -> bool {
    matches!(
        code,
        Code::BadValue
            | Code::UnknownSpecifier
            | Code::BadUnitName
            | Code::SelfDependency
            | Code::TooManyValues
            | Code::LineTooLong
    )
}

#[cfg(test)]
mod tests {
    use crate::engine::{Options, load};
    use crate::modules::Modules;
    use crate::outside::Nothing;
    use crate::schema::warrener;
    use crate::source::Source;
    use crate::types::Types;

    /// Texts of units with the line of each setting behind it, then faults.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let (types, modules) = (Types::new(warrener::types()), Modules::default());
        let source = Source::new("t", text.as_bytes());
        let outside = Box::new(Nothing::default());
        let fleet = load(source, &types, &modules, outside, &Options::default());
        assert!(fleet.faults.is_empty(), "{:?}", fleet.faults);
        let line = |place: crate::Place| {
            modules.source(place.file.0).map_or(0, |source| source.line_column(place.span.start).0)
        };
        let mut found = String::new();
        let units = super::Units { world: &fleet.world, types: &types, directory: "/f" };
        let (units, faults) = units.all(1);
        for (path, unit) in units {
            assert_eq!(**unit.file.path(), format!("/f/{path}"));
            found.push_str(&format!("# {path} ({})\n", line(unit.origin)));
            let suffix = path.split('/').next().map(|owner| owner.trim_end_matches(".d"));
            let suffix = suffix.and_then(|owner| owner.rsplit('.').next()).unwrap_or_default();
            let unit_type = warren_unit::UnitType::from_suffix(suffix).expect("a type");
            for (text, place) in unit.file.print(unit_type).lines().zip(&unit.lines) {
                let from = place.map_or(String::new(), |place| format!("  # {}", line(place)));
                found.push_str(&format!("{text}{from}\n"));
            }
        }
        for fault in faults {
            found.push_str(&format!(
                "{} {}: {}\n",
                line(fault.place),
                fault.severity,
                fault.message
            ));
        }
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn products_become_unit_files() {
        check(
            "object Container \"shop\" { vars.data = \"/srv/shop\" }\n\
             template Service \"base\" {\n  Restart = \"always\"\n  MemoryMax = \"1G\"\n}\n\
             apply Service \"web\" to Container {\n  import \"base\"\n  \
             Description = \"web of \" + container.name\n  ExecStart = \"/bin/web\"\n  \
             ExecStartPre = [ \"/bin/a\", \"/bin/b\" ]\n  UserNamespacePath = \"/a\"\n  \
             WantedBy = \"multi-user.target\"\n  assign where true\n}\n\
             apply Mount \"data\" to Container {\n  Where = container.vars.data\n  \
             What = \"/dev/x\"\n  assign where container.vars.data\n}",
            "# shop-web.service (6)\n[Unit]\nDescription=web of shop  # 8\n\n[Service]\n\
             ExecStart=/bin/web  # 9\nExecStartPre=/bin/a  # 10\nExecStartPre=/bin/b  # 10\n\
             MemoryMax=1G  # 4\nRestart=always  # 3\nUserNamespacePath=/a  # 11\n\n[Install]\n\
             WantedBy=multi-user.target  # 12\n# srv-shop.mount (15)\n[Mount]\nWhat=/dev/x  # 17\n\
             Where=/srv/shop  # 16\n\
             11 warning: shop-web.service: UserNamespacePath= is a protection and is NOT applied\n",
        );
    }

    #[test]
    fn what_is_wrong_with_a_unit_is_said_at_its_cause() {
        check(
            "object Service \"a\" {\n  ExecStart = \"/bin/x\"\n  Restart = \"sometimes\"\n}",
            "# a.service (1)\n[Service]\nExecStart=/bin/x  # 2\nRestart=sometimes  # 3\n\
             3 error: a.service: Restart=: 'sometimes' is not one of: no, on-success, on-failure, \
             on-abnormal, on-watchdog, on-abort, always\n",
        );
    }

    #[test]
    fn names_and_values_that_units_cannot_have() {
        check(
            "object Service \"a b\" { ExecStart = \"/bin/x\" }\n\
             object Service \"c\" {\n  ExecStart = \"/bin/x\\nUser=root\"\n}\n\
             object Mount \"d\" { What = \"/dev/x\" }\n\
             object Mount \"e\" { What = \"/dev/x\"; Where = \"/m\" }\n\
             object Mount \"f\" { What = \"/dev/y\"; Where = \"/m/\" }",
            "# m.mount (6)\n[Mount]\nWhat=/dev/x  # 6\nWhere=/m  # 6\n\
             1 error: 'a b' is not a valid unit name: character ' ' at byte 1\n\
             3 error: the value of ExecStart of 'c' cannot be written in one line\n\
             5 error: Mount 'd' has no Where\n\
             7 error: two rules make the unit m.mount\n",
        );
    }

    #[test]
    fn drop_ins_are_products_too() {
        check(
            "object Container \"shop\" {}\n\
             apply Service \"50-limits\" to Container {\n  drop_in_of = \"db.service\"\n  \
             MemoryMax = \"1G\"\n  assign where true\n}\n\
             object Service \"all\" {\n  drop_in_of = \"service\"\n  CPUWeight = 20\n}\n\
             object Service \"bad\" {\n  drop_in_of = \"db.socket\"\n}\n\
             object Socket \"a/b\" { drop_in_of = \"x.socket\" }\n\
             object Service \"wrong\" {\n  drop_in_of = \"db.service\"\n  MemoryMax = \"much\"\n}",
            "# db.service.d/shop-50-limits.conf (2)\n[Service]\nMemoryMax=1G  # 4\n\
             # db.service.d/wrong.conf (15)\n[Service]\nMemoryMax=much  # 17\n\
             # service.d/all.conf (7)\n[Service]\nCPUWeight=20  # 9\n\
             12 error: 'db.socket' is not a service, so this cannot be a drop-in of it\n\
             14 error: 'a/b' is not a valid name of a drop-in\n\
             17 error: db.service.d/wrong.conf: MemoryMax=: 'much' is not a size in bytes\n",
        );
    }

    #[test]
    fn what_is_wrong_with_a_rule_is_told_once() {
        check(
            "object Container \"a\" {}\nobject Container \"b\" {}\n\
             apply Service \"s\" to Container {\n  ExecStart = \"/bin/x\"\n  \
             Restart = \"often\"\n  assign where true\n}",
            "# a-s.service (3)\n[Service]\nExecStart=/bin/x  # 4\nRestart=often  # 5\n\
             # b-s.service (3)\n[Service]\nExecStart=/bin/x  # 4\nRestart=often  # 5\n\
             5 error: a-s.service: Restart=: 'often' is not one of: no, on-success, on-failure, \
             on-abnormal, on-watchdog, on-abort, always\n",
        );
    }
}
