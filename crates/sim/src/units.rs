//! Units as text: a small notation for sets of unit files, and the way from it into the graph.
//!
//! ```text
//! # a.service
//! [Service]
//! ExecStart=/run
//! ```
//!
//! A line `# NAME` with a unit's name begins that unit's file; everything up to the next such line
//! is its text. What other units refer to and has no file (slices) is loaded as the manager does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warren_core::graph::{Change, Files, Graph, NewDefinition};
use warren_unit::{Context, Defaults, LoadState, Relation, UnitFile, UnitName, load, parse};

/// Units that every manager has.
const ALWAYS: [&str; 3] = ["-.slice", "system.slice", "-.mount"];

/// Unit files by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitTexts {
    files: BTreeMap<UnitName, Source>,
    /// Units without a file that are loaded although no file names them.
    lingering: BTreeSet<UnitName>,
}

/// One file. Parsed once: the graph tells an unchanged file by its being the same value.
#[derive(Clone, Debug)]
struct Source {
    text: String,
    file: Arc<UnitFile>,
}

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        self.text == other.text
    }
}

impl UnitTexts {
    /// Reads the notation. Lines before the first name are ignored.
    pub fn parse(text: &str) -> UnitTexts {
        let mut bodies: Vec<(UnitName, String)> = Vec::new();
        for line in text.lines() {
            if let Some(name) = heading(line) {
                bodies.push((name, String::new()));
            } else if let Some((_, body)) = bodies.last_mut() {
                body.push_str(line.trim_start());
                body.push('\n');
            }
        }
        let mut units = UnitTexts::default();
        for (name, body) in bodies {
            let text = body.trim_end();
            units.set(name, if text.is_empty() { String::new() } else { format!("{text}\n") });
        }
        units
    }

    /// Adds or replaces one file; the same text again changes nothing.
    pub fn set(&mut self, name: UnitName, text: String) {
        if self.files.get(&name).is_some_and(|old| old.text == text) {
            return;
        }
        let file = parse::parse(name.as_str().into(), text.as_bytes(), name.unit_type()).0;
        self.files.insert(name, Source { text, file: Arc::new(file) });
    }

    /// Names an instance of a template, which has no file of its own; false without a template.
    pub fn set_instance(&mut self, name: UnitName) -> bool {
        let template = name.template().and_then(|template| self.files.get(&template));
        let Some(source) = template.cloned() else { return false };
        self.files.insert(name, source);
        true
    }

    /// Notes what `graph` has besides what these files lead to: slices whose last unit was
    /// forgotten.
    pub fn note_lingering(&mut self, graph: &Graph) {
        let led_to = graph_of(self);
        let known = graph.definitions().filter(|d| d.load_state != LoadState::NotFound);
        let names = known.map(|d| d.name.clone()).filter(|name| led_to.lookup(name).is_none());
        self.lingering.extend(names);
    }

    /// Takes one file away.
    pub fn remove(&mut self, name: &UnitName) {
        self.files.remove(name);
    }

    /// The names that have a file, in order.
    pub fn names(&self) -> impl Iterator<Item = &UnitName> {
        self.files.keys()
    }

    /// The text of one file.
    pub fn text(&self, name: &UnitName) -> Option<&str> {
        self.files.get(name).map(|source| source.text.as_str())
    }

    /// Writes the notation.
    pub fn print(&self) -> String {
        let one = |(name, s): (&UnitName, &Source)| format!("# {name}\n{}\n", s.text.trim_end());
        self.files.iter().map(one).collect()
    }

    /// The changes that lead from `old` to these texts, with what they refer to.
    pub fn changes_from(&self, old: &UnitTexts) -> Vec<Change> {
        let (now, before) = (self.definitions(), old.definitions());
        let gone = before.keys().filter(|name| !now.contains_key(*name));
        let mut changes: Vec<Change> = gone.cloned().map(Change::Remove).collect();
        changes.extend(now.into_values().map(|new| Change::Set(Box::new(new))));
        changes
    }

    /// Every unit that can be loaded: those with a text and the slices and such around them.
    fn definitions(&self) -> BTreeMap<UnitName, NewDefinition> {
        let mut out = BTreeMap::new();
        let mut pending: BTreeSet<UnitName> = self.files.keys().cloned().collect();
        pending.extend(self.lingering.iter().cloned());
        pending.extend(ALWAYS.iter().filter_map(|name| UnitName::parse(name).ok()));
        while let Some(name) = pending.pop_first() {
            if out.contains_key(&name) {
                continue;
            }
            let Some(new) = self.definition(&name) else { continue };
            pending.extend(new.relations.iter().map(|(_, other)| other.clone()));
            out.insert(name, new);
        }
        complete_ordering(&mut out);
        out
    }

    /// The file of an instance is that of its template.
    fn file_of(&self, name: &UnitName) -> Option<Arc<UnitFile>> {
        let source = self.files.get(name).or_else(|| self.files.get(&name.template()?))?;
        Some(source.file.clone())
    }

    fn definition(&self, name: &UnitName) -> Option<NewDefinition> {
        if name.is_template() {
            return None;
        }
        let files = Files::of(self.file_of(name));
        let (context, defaults) = (Context::system(), Defaults::default());
        let (loaded, _) = load(name, &files.sources(), &context, &defaults);
        (loaded.load_state != LoadState::NotFound).then(|| NewDefinition {
            name: name.clone(),
            aliases: Vec::new(),
            load_state: loaded.load_state,
            description: loaded.description,
            flags: loaded.flags,
            slice: loaded.slice,
            relations: loaded.relations.into_vec(),
            files,
        })
    }
}

/// Targets come after what they pull in (systemd.target(5)), which needs the other units' files.
fn complete_ordering(units: &mut BTreeMap<UnitName, NewDefinition>) {
    let mut added: Vec<(UnitName, UnitName)> = Vec::new();
    for (name, unit) in units.iter().filter(|(_, u)| u.flags.completes_ordering()) {
        for (relation, other) in &unit.relations {
            let pulls = warren_unit::Loaded::PULLS_IN.contains(relation);
            let Some(far) = units.get(other).filter(|_| pulls) else { continue };
            let ordered = unit.relations.contains(&(Relation::Before, other.clone()))
                || far.relations.contains(&(Relation::After, name.clone()));
            if far.flags.default_dependencies() && !ordered {
                added.push((name.clone(), other.clone()));
            }
        }
    }
    for (name, other) in added {
        let unit = units.get_mut(&name).expect("it was just looked at");
        unit.relations.push((Relation::After, other));
    }
}

fn heading(line: &str) -> Option<UnitName> {
    UnitName::parse(line.trim().strip_prefix("# ")?).ok()
}

/// The graph of these units alone.
pub fn graph_of(units: &UnitTexts) -> Graph {
    Graph::default().apply(units.changes_from(&UnitTexts::default())).0
}

/// What a graph says of one unit: load state, flags and slice, ties.
pub type Meaning = (LoadState, String, BTreeSet<(Relation, String)>);

/// What a graph says, by name: equal for graphs that mean the same, whatever their ids.
pub fn meaning(graph: &Graph) -> BTreeMap<String, Meaning> {
    let mut out = BTreeMap::new();
    for definition in graph.definitions() {
        let mut ties = BTreeSet::new();
        for relation in Relation::ALL {
            for other in graph.related(definition.id, relation) {
                ties.insert((relation, graph.name(other).to_string()));
            }
        }
        let known = definition.load_state != LoadState::NotFound;
        if known || !ties.is_empty() {
            let slice = definition.slice.map(|slice| graph.name(slice));
            let rest = format!("{:?} {slice:?}", definition.flags);
            out.insert(definition.name.to_string(), (definition.load_state.clone(), rest, ties));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# a.service\n[Service]\nExecStart=/run\n# b.target\n[Unit]\nWants=a.service\n";

    #[test]
    fn printing_and_parsing_give_the_same_units() {
        let units = UnitTexts::parse(TEXT);
        assert_eq!(units.names().count(), 2);
        assert_eq!(UnitTexts::parse(&units.print()), units);
    }

    #[test]
    fn slices_come_without_a_file_and_targets_after_what_they_want() {
        let graph = graph_of(&UnitTexts::parse(TEXT));
        let id = |name: &str| graph.lookup(&UnitName::parse(name).expect("valid")).expect("known");
        assert_eq!(graph.definition(id("system.slice")).load_state, LoadState::Loaded);
        assert!(graph.is_before(id("a.service"), id("b.target")));
    }
}
