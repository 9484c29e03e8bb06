//! Devices for people: what a device unit waits for, and the answer of `Devices`. Read from the
//! published view and table by the threads that answer clients.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_bus::backend::Backend;
use warren_core::graph::Definition;
use warren_core::model::device_news::Sight;
use warren_core::model::device_table::{DeviceFacts, DeviceTable, GroupFacts};
use warren_core::model::ids::UnitId;
use warren_core::view::View;
use warren_unit::{Relation, UnitName, UnitType};
use warren_wire::control::{DeviceGroup, DeviceRow, DeviceUser, DeviceWait, DevicesAnswer};

use crate::control::answer::{active, name};
use crate::published::shared::Shared;

/// Groups that are named as what an unknown device may wait for.
const GROUPS_NAMED_MAX: usize = 3;

/// Devices that are named as taken for plugged in.
const UNSEEN_NAMED_MAX: usize = 3;

/// Disks that are named because the device may be on any of them.
const UNKNOWN_NAMED_MAX: usize = 3;

/// How a device unit's device stands, in a sentence; nothing for other units, and for a device
/// that is there.
pub fn standing(view: &View, table: &DeviceTable, definition: &Definition) -> Option<String> {
    if definition.unit_type() != UnitType::Device || view.active_state(definition.id).is_up() {
        return None;
    }
    if view.totals.sight == Sight::Blind {
        return Some(
            "warren-deviced is not running: the device is assumed to be present".to_owned(),
        );
    }
    Some(match table.claimant(&definition.name) {
        Some(facts) => {
            let group = facts.part_of.as_ref().and_then(|id| table.group(id));
            let more = group.map_or_else(String::new, |group| format!("; {}", sentence(group)));
            format!("{} is present but not ready{more}", short(facts))
        }
        None => {
            let waiting = suspects(table, &definition.name).into_iter().map(sentence);
            let unknown = table.devices().filter(|facts| facts.is_unknown).map(unknown_words);
            let more = waiting.chain(unknown.take(UNKNOWN_NAMED_MAX));
            let more: String = more.map(|words| format!("; {words}")).collect();
            let meant = warren_unit::device_name::meant(&definition.name);
            let meant = meant.map(|meant| format!(", and none can be called so: is it {meant}?"));
            let meant = meant.unwrap_or_default();
            format!("no such device has appeared{meant}{more}")
        }
    })
}

/// The devices that a unit which is up requires, or is bound to, and that nobody can tell of, in a
/// sentence; nothing if it is sure of all of them.
pub fn taken_for_plugged_in(view: &View, unit: UnitId) -> Option<String> {
    if view.totals.sight == Sight::Seeing || !view.active_state(unit).is_up() {
        return None;
    }
    let needed = [Relation::BindsTo, Relation::Requires, Relation::Requisite].into_iter();
    let mut unseen: Vec<&str> = needed
        .flat_map(|relation| view.graph.related(unit, relation))
        .filter(|&other| view.graph.is_device(other) && !view.active_state(other).is_up())
        .map(|other| view.graph.name(other).as_str())
        .collect();
    unseen.sort_unstable();
    unseen.dedup();
    let more = match unseen.len().saturating_sub(UNSEEN_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<&str> = unseen.into_iter().take(UNSEEN_NAMED_MAX).collect();
    (!named.is_empty()).then(|| {
        let named = named.join(", ");
        format!("{named}{more}: warren-deviced is not running, so assumed to be present (WR-0084)")
    })
}

/// Groups that the device may be a volume of: the one that its name begins with, or else all that
/// wait.
fn suspects<'a>(table: &'a DeviceTable, name: &UnitName) -> Vec<&'a GroupFacts> {
    let down = || table.groups().filter(|group| !group.is_up);
    let named = |group: &&GroupFacts| {
        let plain = group.name.split_once(' ').map_or("", |(_, plain)| plain);
        let path = |path: String| UnitName::for_path(&path, UnitType::Target).ok();
        let begins = |path: Option<UnitName>| {
            path.is_some_and(|path| name.stem().strip_prefix(path.stem()).is_some())
        };
        !plain.is_empty()
            && (begins(path(format!("/dev/{plain}")))
                || begins(path(format!("/dev/mapper/{plain}"))))
    };
    let exact: Vec<&GroupFacts> = down().filter(named).take(GROUPS_NAMED_MAX).collect();
    match exact.is_empty() {
        true => down().take(GROUPS_NAMED_MAX).collect(),
        false => exact,
    }
}

fn sentence(group: &GroupFacts) -> String {
    format!("{}: {}", group.name, group.state)
}

/// A disk that has not answered, or that udev has not looked at.
fn unknown_words(facts: &DeviceFacts) -> String {
    let note = if facts.note.is_empty() { String::new() } else { format!(": {}", facts.note) };
    format!("the contents of {} are unknown{note}", short(facts))
}

/// The node, or the place of what has none.
fn short(facts: &DeviceFacts) -> &str {
    facts.names.first().map_or(&facts.path, |(name, _)| name)
}

/// Answers `Devices`: all that the device daemon told, and what is mounted from it.
pub(crate) fn devices(shared: &Arc<Shared>) -> DevicesAnswer {
    let (view, table) = (shared.view(), shared.devices());
    DevicesAnswer {
        seeing: view.totals.sight == Sight::Seeing,
        devices: table.devices().map(|facts| device(&view, facts)).collect(),
        groups: table.groups().map(group).collect(),
        waiting: waiting(&view).into_iter().map(|unit| wait(&view, &table, unit)).collect(),
    }
}

fn device(view: &View, facts: &DeviceFacts) -> DeviceRow {
    let paths = facts.names.iter().map(|(name, _)| name).chain([&facts.path]);
    let units = paths.filter_map(|path| UnitName::for_path(path, UnitType::Device).ok());
    let known = units.filter_map(|name| view.lookup(&name));
    let users: BTreeSet<UnitId> = known.flat_map(|unit| users(view, unit)).collect();
    DeviceRow {
        path: facts.path.clone(),
        names: facts.names.iter().map(|(name, _)| name.clone()).collect(),
        ready: facts.ready,
        note: facts.note.clone(),
        size: facts.size_bytes,
        part_of: facts.part_of.clone(),
        made_of: facts.made_of.clone(),
        users: users.into_iter().map(|unit| user(view, unit)).collect(),
    }
}

fn users(view: &View, device: UnitId) -> impl Iterator<Item = UnitId> {
    let needed_by = [Relation::BoundBy, Relation::RequiredBy].into_iter();
    needed_by.flat_map(move |relation| view.graph.related(device, relation))
}

fn user(view: &View, unit: UnitId) -> DeviceUser {
    DeviceUser {
        name: name(view, unit),
        active: active(view, unit),
        waits: view.job(unit).is_some_and(|job| !job.running),
    }
}

fn group(facts: &GroupFacts) -> DeviceGroup {
    DeviceGroup {
        id: facts.id.clone(),
        name: facts.name.clone(),
        up: facts.is_up,
        state: facts.state.clone(),
    }
}

/// Devices that are waited for.
pub(crate) fn waiting(view: &View) -> Vec<UnitId> {
    let jobs = view.jobs();
    let units = jobs.iter().map(|job| job.unit);
    units.filter(|&unit| view.graph.is_device(unit) && !view.active_state(unit).is_up()).collect()
}

fn wait(view: &View, table: &DeviceTable, unit: UnitId) -> DeviceWait {
    let definition = view.definition(unit);
    DeviceWait {
        unit: definition.name.as_str().to_owned(),
        why: standing(view, table, definition),
        users: users(view, unit).map(|unit| user(view, unit)).collect(),
    }
}
