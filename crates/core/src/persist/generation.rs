//! A generation in writing: what lets the next incarnation of the manager go on with the very
//! definitions that were in force, without reading 40,000 files again.
//!
//! A *batch* has the definitions that differ from the last, in pieces; [`write_batch`] makes one from
//! two generations, and [`Reader`] makes a generation of all batches. Ids are those of the state
//! file (see [`crate::persist::run_state`]), so nothing is looked up by name. The pieces are for the same program
//! only: whoever keeps them says which one wrote them.

use crate::graph::{Definition, Edge, Files, Graph};
use crate::model::ids::UnitId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use warren_unit::parse::UnitFile;
use warren_unit::{LoadState, Relation, UnitFlags, UnitName};

/// Definitions in one piece.
const DEFINITIONS_PER_PIECE: usize = 512;

/// A part of a batch.
#[derive(Serialize, Deserialize)]
struct Piece<'a> {
    /// The generation that the batch leads to.
    generation: u64,
    /// The batch ends with this piece.
    is_last: bool,
    /// Files that the definitions refer to, numbered on through the batch.
    files: Vec<Arc<UnitFile>>,
    #[serde(borrow)]
    definitions: Vec<Written<'a>>,
}

/// A definition.
#[derive(Serialize, Deserialize)]
struct Written<'a> {
    unit: UnitId,
    /// Checksum of the name: an id that was given out again meant something else before.
    name_sum: u32,
    aliases: Vec<UnitName>,
    load_state: LoadState,
    /// None: the name.
    description: Option<&'a str>,
    flags: UnitFlags,
    slice: Option<UnitId>,
    edges: Vec<Edge>,
    completed: Vec<UnitId>,
    /// Numbers of files in the batch.
    fragment: Option<u32>,
    dropins: Vec<u32>,
    links: Vec<(Relation, UnitName)>,
    masked: bool,
    /// Own file and drop-ins that the unit had, if it cannot be found any more.
    before: Option<(Option<u32>, Vec<u32>)>,
}

/// Makes the pieces that lead from `before` to `now`, one at a time; those that lead from nothing,
/// without it.
pub fn write_batch<'a>(
    before: Option<&Graph>,
    now: &'a Graph,
) -> impl Iterator<Item = Vec<u8>> + use<'a> {
    let mut numbers = FileNumbers::default();
    let differing = now.differing(before);
    let count = differing.len().div_ceil(DEFINITIONS_PER_PIECE).max(1);
    (0..count).map(move |index| {
        let mut files = Vec::new();
        let definitions = differing.iter().skip(index * DEFINITIONS_PER_PIECE);
        let definitions = definitions.take(DEFINITIONS_PER_PIECE);
        let definitions = definitions.map(|d| Written::of(d, &mut numbers, &mut files)).collect();
        let is_last = index + 1 == count;
        let piece = Piece { generation: now.generation(), is_last, files, definitions };
        postcard::to_allocvec(&piece).expect("definitions are plain data and a vector has room")
    })
}

/// Numbers of files within one batch, by where they are in memory.
#[derive(Default)]
struct FileNumbers(BTreeMap<*const UnitFile, u32>);

impl FileNumbers {
    fn of(&mut self, file: &Arc<UnitFile>, new: &mut Vec<Arc<UnitFile>>) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(Arc::as_ptr(file)).or_insert_with(|| {
            new.push(file.clone());
            next
        })
    }
}

fn name_sum(name: &UnitName) -> u32 {
    crc32fast::hash(name.as_str().as_bytes())
}

impl<'a> Written<'a> {
    fn of(
        definition: &'a Definition,
        numbers: &mut FileNumbers,
        new: &mut Vec<Arc<UnitFile>>,
    ) -> Written<'a> {
        let files = &definition.files;
        let described = *definition.description != *definition.name.as_str();
        let mut number = |file: &Arc<UnitFile>| numbers.of(file, new);
        let mut number_all = |files: &Files| {
            let fragment = files.fragment.as_ref().map(&mut number);
            (fragment, files.dropins().iter().map(&mut number).collect())
        };
        let (fragment, dropins) = number_all(files);
        Written {
            unit: definition.id,
            name_sum: name_sum(&definition.name),
            aliases: definition.aliases.to_vec(),
            load_state: definition.load_state.clone(),
            description: described.then_some(&*definition.description),
            flags: definition.flags,
            slice: definition.slice,
            edges: definition.edges.to_vec(),
            completed: definition.completed.to_vec(),
            fragment,
            dropins,
            links: files.links().to_vec(),
            masked: files.masked(),
            before: files.before().map(number_all),
        }
    }

    /// The definition; nothing if it has files that nobody wrote.
    fn definition(self, name: &UnitName, files: &[Arc<UnitFile>]) -> Option<Definition> {
        let file = |number: u32| files.get(number as usize).cloned();
        let made = |fragment: Option<u32>, dropins: Vec<u32>, links, masked| {
            let fragment = match fragment {
                Some(number) => Some(file(number)?),
                None => None,
            };
            let dropins = dropins.into_iter().map(file).collect::<Option<Vec<_>>>()?;
            Some(Files::new(fragment, dropins, links, masked))
        };
        let before = match self.before {
            Some((fragment, dropins)) => Some(made(fragment, dropins, Vec::new(), false)?),
            None => None,
        };
        let files = made(self.fragment, self.dropins, self.links, self.masked)?.after(before);
        Some(Definition {
            id: self.unit,
            name: name.clone(),
            aliases: self.aliases.into(),
            load_state: self.load_state,
            description: self.description.unwrap_or(name.as_str()).into(),
            flags: self.flags,
            slice: self.slice,
            edges: self.edges.into(),
            completed: self.completed.into(),
            files,
        })
    }
}

/// Makes a generation of batches.
pub struct Reader {
    names: Vec<Option<UnitName>>,
    /// By id.
    definitions: Vec<Option<Arc<Definition>>>,
    /// Of the batch that is being read.
    pending: Vec<Arc<Definition>>,
    files: Vec<Arc<UnitFile>>,
    known: KnownFiles,
    wanted: u64,
    reached: Option<u64>,
}

/// The files of all batches, by checksum of their path and number: one that two batches have is the same
/// file, as it was when they were written (see [`Files`]).
#[derive(Default)]
struct KnownFiles(BTreeMap<(u32, u32), Arc<UnitFile>>);

impl KnownFiles {
    fn shared(&mut self, file: Arc<UnitFile>) -> Arc<UnitFile> {
        let sum = crc32fast::hash(file.path().as_bytes());
        let mut alike = self.0.range((sum, 0)..=(sum, u32::MAX)).rev();
        if let Some((_, known)) = alike.find(|(_, known)| **known == file) {
            return known.clone();
        }
        self.0.insert((sum, self.0.len() as u32), file.clone());
        file
    }
}

/// What is written down does not belong to these names, or is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch;

/// What a piece was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// Part of a batch.
    Part,
    /// The end of one.
    Batch,
    /// It leads to a generation that was never put in force; it was not looked at.
    Beyond,
}

impl Reader {
    /// Reads towards the generation `wanted` of units with these names by id.
    pub fn new(names: Vec<Option<UnitName>>, wanted: u64) -> Reader {
        Reader {
            definitions: vec![None; names.len()],
            names,
            pending: Vec::new(),
            files: Vec::new(),
            known: KnownFiles::default(),
            wanted,
            reached: None,
        }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// It is none.
    pub fn take(&mut self, piece: &[u8]) -> Result<Taken, Mismatch> {
        let piece: Piece<'_> = postcard::from_bytes(piece).map_err(|_| Mismatch)?;
        if piece.generation > self.wanted {
            return Ok(Taken::Beyond);
        }
        self.files.extend(piece.files.into_iter().map(|file| self.known.shared(file)));
        for written in piece.definitions {
            let name = self.names.get(written.unit.index()).and_then(Option::as_ref);
            if let Some(name) = name.filter(|name| name_sum(name) == written.name_sum) {
                let definition = written.definition(name, &self.files).ok_or(Mismatch)?;
                self.pending.push(Arc::new(definition));
            }
        }
        if piece.is_last {
            self.files.clear();
            for definition in self.pending.drain(..) {
                // It has a name, so it has a place.
                let place = definition.id.index();
                self.definitions[place] = Some(definition);
            }
            self.reached = Some(piece.generation);
            return Ok(Taken::Batch);
        }
        Ok(Taken::Part)
    }

    /// The generation, if the batches led there.
    ///
    /// # Errors
    /// They did not, or refer to units that have no name.
    pub fn finish(self) -> Result<Graph, Mismatch> {
        let Reader { names, definitions, wanted, reached, .. } = self;
        let ids = names.len() as u32;
        let is_known = |id: UnitId| id.0 < ids;
        let all_known = definitions.iter().flatten().all(|d| {
            d.edges.iter().all(|edge| is_known(edge.other))
                && d.edges.is_sorted()
                && d.slice.is_none_or(is_known)
        });
        if reached != Some(wanted) || !all_known {
            return Err(Mismatch);
        }
        Ok(Graph::of_definitions(names, definitions.into_iter().flatten(), wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Change, NewDefinition};
    use warren_unit::parse::parse;

    /// `NAME REQUIRED... ` a line; ends with `~ ALIAS` for a further name. The text of its file is
    /// the line.
    fn changes(text: &str) -> Vec<Change> {
        let name = |text: &str| UnitName::parse(text).expect("a valid name");
        let change = |line: &str| {
            let (line, alias) = line.split_once(" ~ ").map_or((line, None), |(l, a)| (l, Some(a)));
            let mut words = line.split_whitespace().map(name);
            let unit = words.next().expect("a name");
            let path = Arc::from(format!("/u/{unit}"));
            let text = format!("[Unit]\nDescription={line}\n");
            let (file, _) = parse(path, text.as_bytes(), unit.unit_type());
            let files = Files::of(Some(Arc::new(file)));
            Change::Set(Box::new(NewDefinition {
                name: unit,
                aliases: alias.map(name).into_iter().collect(),
                load_state: LoadState::Loaded,
                description: line.into(),
                flags: UnitFlags::default(),
                slice: None,
                relations: words.map(|other| (Relation::Requires, other)).collect(),
                files,
            }))
        };
        text.lines().map(change).collect()
    }

    fn names(graph: &Graph) -> Vec<Option<UnitName>> {
        let name = |i: u32| {
            let definition = graph.definition(UnitId(i));
            (definition.load_state != LoadState::Stub).then(|| definition.name.clone())
        };
        (0..graph.len() as u32).map(name).collect()
    }

    /// What everything says, with texts in place of pointers.
    fn told(graph: &Graph) -> Vec<String> {
        let all = graph.definitions().map(|d| {
            let text = d.files.fragment.as_ref().map(|file| file.print(d.unit_type()));
            let others: Vec<UnitId> = graph.related(d.id, Relation::RequiredBy).collect();
            format!(
                "{:?} {text:?} {others:?}",
                Definition { files: Files::default(), ..(**d).clone() }
            )
        });
        all.chain(graph.names().map(|(name, id)| format!("{name} {id:?}"))).collect()
    }

    #[test]
    fn a_generation_comes_back_from_all_batches() {
        let mut all = Vec::new();
        let mut graph = Graph::default().with_resting_min(0);
        let mut before = None;
        let steps = [
            "a.service b.socket\nb.socket\nc.target a.service b.socket ~ d.target",
            "b.socket c.target",
            "c.target\ne.service missing.service",
            // A name that has an id already becomes an alias.
            "f.service ~ missing.service",
        ];
        let gone = UnitName::parse("gone@1.service").expect("a valid name");
        for step in steps {
            graph = graph.apply(changes(step)).0;
            // An id is given out, forgotten and given out again.
            graph = graph.apply(changes("gone@1.service")).0;
            let between = graph.clone();
            all.extend(write_batch(before.as_ref(), &between));
            graph = graph.forget(std::slice::from_ref(&gone)).0;
            all.extend(write_batch(Some(&between), &graph));
            before = Some(graph.clone());
            let mut reader = Reader::new(names(&graph), graph.generation());
            all.iter().for_each(|piece| assert!(reader.take(piece).is_ok()));
            assert_eq!(told(&reader.finish().expect("reached")), told(&graph), "after {step}");
        }
    }

    #[test]
    fn units_of_one_file_that_were_written_one_after_the_other_have_one_file_again() {
        let file = |text: &str| {
            let unit_type = warren_unit::UnitType::Service;
            Arc::new(parse("/u/t@.service".into(), text.as_bytes(), unit_type).0)
        };
        let (first, edited) = (file("[Unit]\nDescription=a\n"), file("[Unit]\nDescription=b\n"));
        let instance = |name: &str, file: &Arc<UnitFile>| {
            let mut change = changes(name).remove(0);
            let Change::Set(definition) = &mut change else { unreachable!("it is set") };
            definition.files = Files::new(Some(file.clone()), vec![file.clone()], vec![], false);
            change
        };
        let steps = [("t@1.service", &first), ("t@2.service", &edited), ("t@3.service", &first)];
        let (mut all, mut graph) = (Vec::new(), Graph::default());
        for (name, file) in steps {
            let next = graph.apply(vec![instance(name, file)]).0;
            all.extend(write_batch(Some(&graph), &next));
            graph = next;
        }
        let mut reader = Reader::new(names(&graph), graph.generation());
        all.iter().for_each(|piece| assert!(reader.take(piece).is_ok()));
        let graph = reader.finish().expect("reached");
        let files = |name: &str| {
            let unit = graph.lookup(&UnitName::parse(name).expect("a valid name"));
            graph.definition(unit.expect("it is there")).files.clone()
        };
        assert_eq!(files("t@1.service"), files("t@3.service"));
        assert_ne!(files("t@1.service"), files("t@2.service"));
    }

    #[test]
    fn what_was_not_put_in_force_is_passed_over() {
        let first = Graph::default().apply(changes("a.service")).0;
        let second = first.apply(changes("a.service b.service")).0;
        let mut all = write_batch(None, &first).collect::<Vec<_>>();
        all.extend(write_batch(Some(&first), &second));
        let mut reader = Reader::new(names(&first), first.generation());
        let taken: Vec<Taken> =
            all.iter().map(|piece| reader.take(piece).expect("whole")).collect();
        assert_eq!(taken, [Taken::Batch, Taken::Beyond]);
        assert_eq!(told(&reader.finish().expect("reached")), told(&first));
        // Cut off before its end, the second is not reached.
        let mut reader = Reader::new(names(&second), second.generation());
        all[..1].iter().for_each(|piece| assert!(reader.take(piece).is_ok()));
        assert_eq!(reader.finish().err(), Some(Mismatch));
    }

    #[test]
    fn damage_never_panics() {
        let graph = Graph::default().apply(changes("a.service b.socket\nb.socket ~ c.socket")).0;
        let piece = write_batch(None, &graph).next().expect("a piece");
        for at in 0..piece.len() {
            for bit in 0..8 {
                let mut damaged = piece.clone();
                damaged[at] ^= 1 << bit;
                let mut reader = Reader::new(names(&graph), graph.generation());
                if reader.take(&damaged).is_ok() {
                    let _ = reader.finish().map(|graph| told(&graph).len());
                }
            }
            let mut reader = Reader::new(names(&graph), graph.generation());
            assert_eq!(reader.take(&piece[..at]), Err(Mismatch));
        }
    }
}
