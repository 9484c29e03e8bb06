//! Objects of Warrener's schema as units: names, texts of unit files, and for every line the place
//! that says why it is there.
//!
//! What is wrong with a unit is found by `warren-unit`, as for any unit file, and reported at the
//! place that set it. Start at [`units`].

use std::collections::BTreeMap;
use std::sync::Arc;

use warren_unit::compile::Compiler;
use warren_unit::settings::Section;
use warren_unit::{Context, Defaults, Severity, Sources, UnitName, UnitType, parse};

use crate::diagnostic::{Diagnostic, Sink};
use crate::eval::World;
use crate::heap::Heap;
use crate::schema::{place_of, warrener};
use crate::source::Place;
use crate::text;
use crate::types::Types;
use crate::value::{Object, ObjectId, Value};

/// A unit.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its name.
    pub name: UnitName,
    /// The text of its file.
    pub text: String,
    /// For each line of the text, the assignment that made it; none for headers and empty lines.
    pub lines: Vec<Option<Place>>,
    /// The definition or the rule that made it.
    pub origin: Place,
    /// The object it is made of.
    pub object: ObjectId,
}

/// The units of a world, by name, and what is wrong with them.
pub fn units(world: &World, types: &Types) -> (Vec<Unit>, Vec<Diagnostic>) {
    let heap = Heap::over(&world.layer);
    let mut sink = Sink::default();
    let mut out: BTreeMap<UnitName, Unit> = BTreeMap::new();
    for (id, objects) in &world.by_type {
        let Some(unit_type) = unit_type(&types.get(*id).name) else { continue };
        for object in objects {
            let writer = Writer { heap: &heap, types, object: heap.object(*object), unit_type };
            match writer.unit(*object, &mut sink) {
                Ok(unit) => insert(&mut out, unit, &mut sink),
                Err(fault) => sink.push(fault),
            }
        }
    }
    (out.into_values().collect(), sink.finish())
}

/// The unit type whose objects have this type.
fn unit_type(name: &str) -> Option<UnitType> {
    UnitType::ALL.into_iter().find(|unit_type| unit_type.section() == name)
}

/// Two objects can make one unit: two mounts of one place.
fn insert(out: &mut BTreeMap<UnitName, Unit>, unit: Unit, sink: &mut Sink) {
    if let Some(before) = out.get(&unit.name) {
        let message = format!("the unit {} is made twice", unit.name);
        let fault = Diagnostic::error(unit.origin, message);
        sink.push(fault.note(before.origin, "the other one is made here"));
        return;
    }
    out.insert(unit.name.clone(), unit);
}

struct Writer<'w> {
    heap: &'w Heap<'w>,
    types: &'w Types,
    object: &'w Object,
    unit_type: UnitType,
}

/// A line of a section: name, value, place.
type Line = (String, String, Place);

impl Writer<'_> {
    fn unit(&self, id: ObjectId, sink: &mut Sink) -> Result<Unit, Diagnostic> {
        let sections = self.sections()?;
        let name = self.name(&sections)?;
        let (mut text, mut lines) = (String::new(), Vec::new());
        for (section, settings) in &sections {
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
        let unit = Unit { name, text, lines, origin: self.object.origin, object: id };
        check(&unit).into_iter().for_each(|found| sink.push(found));
        Ok(unit)
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
        name.map_err(|error| {
            let message = format!("'{given}' cannot be the name of a unit: {error}");
            let help = "set `name` to another one; letters, digits and :-_.\\ are allowed";
            Diagnostic::error(self.object.origin, message).help(Some(help.to_owned()))
        })
    }
}

/// What `warren-unit` finds wrong with a unit, at the places that set it.
fn check(unit: &Unit) -> Vec<Diagnostic> {
    let path: Arc<str> = unit.name.as_str().into();
    let (file, mut found) = parse::parse(path, unit.text.as_bytes(), unit.name.unit_type());
    let file = Arc::new(file);
    let (context, defaults) = (Context::system(), Defaults::default());
    let sources = Sources { fragment: Some(&file), ..Sources::default() };
    let (name, sources) = (&unit.name, &sources);
    let (_, more) = warren_unit::load(name, sources, &context, &defaults);
    found.extend(more);
    found.extend(Compiler { name, sources, context: &context, defaults: &defaults }.check());
    found.sort();
    found.dedup();
    // Notes are about what this version does not act on; `warren verify` shows them.
    found.retain(|fault| fault.severity > Severity::Note);
    let place = |line: u32| {
        let line = (line as usize).checked_sub(1).and_then(|line| unit.lines.get(line));
        line.copied().flatten().unwrap_or(unit.origin)
    };
    let diagnostic = |fault: warren_unit::Diagnostic| Diagnostic {
        severity: fault.severity,
        ..Diagnostic::error(place(fault.line), format!("{}: {}", unit.name, fault.message))
    };
    found.into_iter().map(diagnostic).collect()
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
        let (units, faults) = super::units(&fleet.world, &types);
        for unit in units {
            found.push_str(&format!("# {} ({})\n", unit.name, line(unit.origin)));
            for (text, place) in unit.text.lines().zip(&unit.lines) {
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
             ExecStartPre = [ \"/bin/a\", \"/bin/b\" ]\n  PrivateTmp = true\n  \
             WantedBy = \"multi-user.target\"\n  assign where true\n}\n\
             apply Mount \"data\" to Container {\n  Where = container.vars.data\n  \
             What = \"/dev/x\"\n  assign where container.vars.data\n}",
            "# shop-web.service (6)\n[Unit]\nDescription=web of shop  # 8\n\n[Service]\n\
             ExecStart=/bin/web  # 9\nExecStartPre=/bin/a  # 10\nExecStartPre=/bin/b  # 10\n\
             MemoryMax=1G  # 4\nPrivateTmp=yes  # 11\nRestart=always  # 3\n\n[Install]\n\
             WantedBy=multi-user.target  # 12\n# srv-shop.mount (15)\n[Mount]\nWhat=/dev/x  # 17\n\
             Where=/srv/shop  # 16\n\
             11 warning: shop-web.service: PrivateTmp= protects the host and is NOT applied\n",
        );
    }

    #[test]
    fn what_is_wrong_with_a_unit_is_said_at_its_cause() {
        check(
            "object Service \"a\" {\n  ExecStart = \"/bin/x\"\n  Restart = \"sometimes\"\n}",
            "# a.service (1)\n[Service]\nExecStart=/bin/x  # 2\nRestart=sometimes  # 3\n\
             3 warning: a.service: Restart=: 'sometimes' is none of: no, on-success, on-failure, \
             on-abnormal, on-watchdog, on-abort, always, ignored\n",
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
             1 error: 'a b' cannot be the name of a unit: character ' ' at byte 1\n\
             3 error: the value of ExecStart of 'c' cannot be written in one line\n\
             5 error: Mount 'd' has no Where\n\
             7 error: the unit m.mount is made twice\n",
        );
    }
}
