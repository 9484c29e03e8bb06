//! Lists of units and jobs: rows go straight into one buffer, whatever their number.

use crate::backend::{Backend, DeviceWords};
use crate::error::BusError;
use crate::listed::{all_units, has_got_file, may_have_got_file};
use crate::methods::filter::Filter;
use crate::methods::method::{Invocation, Refusal, Step};
use crate::properties::job::job_state;
use crate::wire::{Room, Writer};
use crate::{path, refusals};
use std::borrow::Cow;
use std::collections::BTreeSet;
use warren_core::graph::Definition;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::Job;
use warren_core::view::View;
use warren_unit::{UnitName, UnitType};

const UNIT_PATH_PREFIX: &[u8] = b"/org/freedesktop/systemd1/unit/";

/// What a row of ListUnits shows of a unit.
pub struct Row<'a> {
    definition: &'a Definition,
    active: &'static str,
    sub: &'static str,
    job: Option<&'a Job>,
    device: Option<DeviceWords>,
}

impl<'a> Row<'a> {
    /// The row of a unit.
    pub fn new(view: &'a View, unit: UnitId, backend: &dyn Backend) -> Row<'a> {
        let (run, definition) = (view.run(unit), view.definition(unit));
        let is_device = definition.unit_type() == UnitType::Device;
        Row {
            definition,
            device: is_device.then(|| backend.device(definition)),
            active: run.active_state().as_str(),
            sub: run.sub_state(),
            job: run.job.as_deref(),
        }
    }

    /// Whether one of the three states and one of the names is asked for.
    fn is_asked_for(&self, filter: &Filter<'_>) -> bool {
        let states = [self.definition.load_state.as_str(), self.active, self.sub];
        let has_name = |name: &UnitName| filter.has_name(name.as_str());
        filter.has_state(&states)
            && (has_name(&self.definition.name) || self.definition.aliases.iter().any(has_name))
    }
}

/// Bytes of a row beside its unit's name (four times, as each byte of its path may need three) and
/// its description: eight lengths with padding, the words, the paths.
const ROW_BYTES: usize = 256;

/// Writes `(ssssssouso)`.
pub fn write_unit_row(w: &mut Writer, row: &Row<'_>) {
    let definition = row.definition;
    let of_device = row.device.as_ref().map(|device| device.description(definition));
    let description = of_device.map_or_else(|| definition.title(), Cow::Owned);
    let following = row.device.as_ref().map_or("", |device| &device.following);
    let states = [definition.load_state.as_str(), row.active, row.sub];
    write_row(w, definition.name.as_str(), (&description, following), states, row.job);
}

fn write_row(
    w: &mut Writer,
    name: &str,
    (description, following): (&str, &str),
    states: [&str; 3],
    job: Option<&Job>,
) {
    // What the bus calls a text has no NUL in it.
    let description = match description.as_bytes().contains(&0) {
        false => description,
        true => description.split('\0').next().unwrap_or_default(),
    };
    let bytes = ROW_BYTES + 4 * name.len() + description.len() + following.len();
    w.small_structure(bytes, |w| {
        w.str(name).str(description);
        w.str(states[0]).str(states[1]).str(states[2]).str(following);
        w.str_with(|w| write_unit_path(w, name));
        match job {
            None => w.u32(0).str("").str("/"),
            Some(job) => w.u32(job.id.0).str(job.kind.as_str()).str(&path::job(job.id.0)),
        };
    });
}

/// The same text as [`path::unit`], without a text of its own.
fn write_unit_path(w: &mut Room<'_>, name: &str) {
    w.raw(UNIT_PATH_PREFIX);
    let bytes = name.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() || (at == 0 && byte.is_ascii_digit()) {
            w.raw(&bytes[from..at]).raw(&path::escape_byte(byte));
            from = at + 1;
        }
    }
    w.raw(&bytes[from..]);
}

/// ListUnits, ListUnitsFiltered, ListUnitsByPatterns.
fn write_units(call: &Invocation<'_>, filter: &Filter<'_>) -> Writer {
    let view = call.view;
    let rows_guess = if filter.is_of_all_names() { view.graph.len() } else { 64 };
    let mut w = Writer::with_capacity(rows_guess * 192);
    let units: Vec<UnitId> = all_units(view).collect();
    w.array(b'(', |w| {
        for block in units.chunks(BLOCK) {
            fetch(view, block);
            for &unit in block {
                let row = Row::new(view, unit, call.backend);
                if row.is_asked_for(filter) {
                    write_unit_row(w, &row);
                }
            }
        }
        write_unmade(w, call, filter);
    });
    w
}

/// What a device that is there is, whether it has a unit or not.
const PLUGGED: [&str; 3] = ["loaded", "active", "plugged"];

/// Rows of devices that have no unit: one is made as soon as a client asks for its path.
fn write_unmade(w: &mut Writer, call: &Invocation<'_>, filter: &Filter<'_>) {
    if !filter.has_state(&PLUGGED) {
        return;
    }
    for (name, device) in call.backend.device_units() {
        if filter.has_name(name.as_str()) && call.view.lookup(&name).is_none() {
            let texts = (&*device.described(&name), &*device.following);
            write_row(w, name.as_str(), texts, PLUGGED, None);
        }
    }
}

/// Units whose texts are fetched together.
const BLOCK: usize = 64;

/// Looks at what rows of these units need, in loops so short that the processor waits for many
/// cache lines at once: the texts of 40,000 units lie all over the heap, and waiting for one after
/// the other is most of what a list costs.
fn fetch(view: &View, units: &[UnitId]) {
    let byte = |text: &str| text.as_bytes().first().copied().unwrap_or(0);
    let definitions = || units.iter().map(|&unit| view.definition(unit));
    let ids = definitions().fold(0, |all, d| all ^ d.id.0);
    let texts = definitions().fold(0, |all, d| all ^ byte(d.name.as_str()) ^ byte(&d.description));
    let runs = || units.iter().map(|&unit| view.run(unit));
    let jobs = runs().fold(false, |any, run| any ^ run.job.is_some());
    let states = runs().fold(0, |all, run| all ^ run.active_state() as u8);
    std::hint::black_box((ids, texts, jobs, states));
}

/// `ListUnits`
pub fn list_units(call: &mut Invocation<'_>) -> Result<Step, Refusal> {
    Ok(Step::Reply(write_units(call, &Filter::default())))
}

/// `ListUnitsFiltered`
pub fn list_units_filtered(call: &mut Invocation<'_>) -> Result<Step, Refusal> {
    let states = call.body.strs()?;
    Ok(Step::Reply(write_units(call, &Filter::new(call, &states, &[])?)))
}

/// `ListUnitsByPatterns`
pub fn list_units_by_patterns(call: &mut Invocation<'_>) -> Result<Step, Refusal> {
    let (states, patterns) = (call.body.strs()?, call.body.strs()?);
    Ok(Step::Reply(write_units(call, &Filter::new(call, &states, &patterns)?)))
}

/// Most names of a stranger's `ListUnitsByNames`.
const NAMES_MAX: usize = 4096;

/// `ListUnitsByNames`: loads what is not in memory, and what may have got a file since others named it.
pub fn list_units_by_names(call: &mut Invocation<'_>) -> Result<Step, Refusal> {
    let names = call.body.strs()?;
    if call.is_stranger && names.len() > NAMES_MAX {
        let text = format!("A call may have {NAMES_MAX} names.");
        return Err(BusError::limits_exceeded(text).into());
    }
    let names: Vec<UnitName> =
        names.iter().filter_map(|name| refusals::unit_name(name).ok()).collect();
    let units = || names.iter().filter_map(|name| call.view.lookup(name));
    let may_have = |unit| may_have_got_file(call.view, call.backend, unit);
    if !call.done.has_looked && units().any(may_have) {
        return Ok(Step::LookAtFiles(None));
    }
    let has_got = |unit| has_got_file(call.view, call.backend, unit);
    let is_missing = |name: &&UnitName| {
        !call.done.tried.contains(*name) && call.view.lookup(name).is_none_or(has_got)
    };
    let missing: BTreeSet<&UnitName> = names.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        return Ok(Step::Load(missing.into_iter().cloned().collect()));
    }
    let mut w = Writer::new();
    w.array(b'(', |w| {
        for unit in names.iter().filter_map(|name| call.view.lookup(name)) {
            write_unit_row(w, &Row::new(call.view, unit, call.backend));
        }
    });
    Ok(Step::Reply(w))
}

/// Writes `(usssoo)`.
fn write_job(w: &mut Writer, view: &View, job: &Job) {
    let name = view.definition(job.unit).name.as_str();
    w.structure().u32(job.id.0).str(name).str(job.kind.as_str()).str(job_state(job));
    w.str(&path::job(job.id.0)).str(&path::unit(name));
}

/// `ListJobs`
pub fn list_jobs(call: &mut Invocation<'_>) -> Result<Step, Refusal> {
    let mut w = Writer::new();
    w.array(b'(', |w| call.view.jobs().iter().for_each(|job| write_job(w, call.view, job)));
    Ok(Step::Reply(w))
}

/// The installed job with this number.
pub fn find_job(view: &View, id: JobId) -> Result<&Job, BusError> {
    let text = || format!("Job {} does not exist.", id.0);
    view.find_job(id).ok_or_else(|| BusError::no_such_job(text()))
}

/// GetJobAfter and GetAfter: the jobs that wait for this one. GetJobBefore and GetBefore: those
/// that this one waits for.
pub fn neighbours(view: &View, id: JobId, after: bool) -> Result<Step, Refusal> {
    let job = find_job(view, id)?;
    let mut others: Vec<&Job> =
        view.graph.ordered_with(job.unit).filter_map(|unit| view.job(unit)).collect();
    others.sort_unstable_by_key(|other| other.id);
    others.dedup_by_key(|other| other.id);
    let waits = |first: &Job, second: &Job| {
        view.graph.may_wait(first.unit, first.kind, second.unit, second.kind)
    };
    let mut w = Writer::new();
    w.array(b'(', |w| {
        for other in others {
            if if after { waits(other, job) } else { waits(job, other) } {
                write_job(w, view, other);
            }
        }
    });
    Ok(Step::Reply(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_in_a_row_is_the_path_of_the_unit() {
        for name in ["a.service", "1@x_y-é.socket", "-.slice", "9", "é"] {
            let (mut fast, mut plain) = (Writer::new(), Writer::new());
            fast.small_structure(ROW_BYTES, |w| {
                w.str_with(|w| write_unit_path(w, name));
            });
            plain.str(&path::unit(name));
            assert_eq!(fast.as_bytes(), plain.as_bytes(), "{name}");
        }
    }
}
