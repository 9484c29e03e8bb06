//! Checks a directory against its ledger, with the verification key.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::Result;
use crate::files::{Disk, Files};
use crate::ledger::book::{read_ledger, read_state, sum_of};
use crate::ledger::keys::{Bytes32, Key, State};
use crate::ledger::record::{Record, What};
use crate::store::names::{Catalogue, SegmentName};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What is wrong, for people.
    pub faults: Vec<String>,
    /// Segments that are as they were.
    pub proved: usize,
    /// The end of the last epoch that has a line, µs since 1970: what came later is not proved.
    pub until_us: Option<u64>,
}

/// Checks the ledger's signatures, and every segment against it. `key` is the verification key.
pub fn audit(directory: &Path, key: &State) -> Result<Report> {
    let mut report = Report::default();
    let text = read_ledger(directory)?;
    let mut reading = Reading { key: key.key.clone(), before: Bytes32::ZERO, marked: None };
    let mut held: BTreeMap<SegmentName, (u64, Bytes32)> = BTreeMap::new();
    for (number, line) in text.split_terminator('\n').enumerate() {
        match reading.take(line) {
            Ok(What::Mark) => {}
            Ok(What::Have { name, bytes, sum }) => _ = held.insert(name, (bytes, sum)),
            Ok(What::Gone { name }) => _ = held.remove(&name),
            Err(what) => {
                report.faults.push(format!("line {} of the ledger: {what}", number + 1));
                return Ok(report);
            }
        }
    }
    report.until_us = reading.marked.map(|epoch| key.begin_us(epoch + 1));
    check_state(directory, key, &reading, &mut report)?;
    check_files(directory, held, &mut report)?;
    Ok(report)
}

/// How far the ledger was read.
struct Reading {
    /// Of the epoch that was read last.
    key: Key,
    before: Bytes32,
    marked: Option<u64>,
}

impl Reading {
    fn take(&mut self, line: &str) -> std::result::Result<What, &'static str> {
        let (record, text, signature) = Record::parse(line).ok_or("not a valid line")?;
        let due = self.marked.map_or(0, |epoch| epoch + 1);
        match record.what {
            What::Mark if record.epoch != due => return Err("an epoch is missing or repeated"),
            What::Mark if self.marked.is_some() => self.key = self.key.next(),
            What::Mark => {}
            _ if self.marked != Some(record.epoch) => return Err("it belongs to another epoch"),
            _ => {}
        }
        if self.key.sign(&self.before, text.as_bytes()) != signature {
            return Err("it was changed");
        }
        (self.before, self.marked) = (signature, Some(record.epoch));
        Ok(record.what)
    }
}

/// The current key must be of the same row, and not further than the ledger.
fn check_state(directory: &Path, key: &State, at: &Reading, report: &mut Report) -> Result<()> {
    let fault = match read_state(directory) {
        Err(e) => Some(e.to_string()),
        Ok(None) => Some("the current key is missing".to_owned()),
        Ok(Some(state)) => {
            let same = (state.start_us, state.interval_us) == (key.start_us, key.interval_us);
            let reached = at.marked.unwrap_or(0);
            let ended = state.key.epoch > reached || (at.marked.is_none() && state.key.epoch > 0);
            match () {
                () if ended => Some("the end of the ledger is missing".to_owned()),
                () if !same || key_of(key, state.key.epoch) != state.key => {
                    Some("the current key does not belong to this ledger".to_owned())
                }
                () => None,
            }
        }
    };
    report.faults.extend(fault);
    Ok(())
}

fn key_of(first: &State, epoch: u64) -> Key {
    (0..epoch).fold(first.key.clone(), |key, _| key.next())
}

fn check_files(
    directory: &Path,
    mut held: BTreeMap<SegmentName, (u64, Bytes32)>,
    report: &mut Report,
) -> Result<()> {
    let files = Disk::new(directory);
    for (name, _) in Catalogue::of(files.list()?).segments() {
        let found = sum_of(&files, &name.to_string())?;
        match held.remove(name) {
            Some(was) if was == found => report.proved += 1,
            Some(_) => report.faults.push(format!("{name}: changed since it was recorded")),
            None => report.faults.push(format!("{name}: not in the ledger")),
        }
    }
    report.faults.extend(held.into_keys().map(|name| format!("{name}: missing")));
    Ok(())
}
