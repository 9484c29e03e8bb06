//! Properties that clients write (StartTransientUnit, SetUnitProperties), as lines of unit files.
//!
//! A transient unit is a unit file that the manager writes itself, so that it is loaded, shown, edited and kept over
//! a restart of the manager as any other. The one table of settings says what a value looks like in a file; here is
//! how D-Bus writes it.
//!
//! Owns: which properties can be written, and their text.
//! Must not: write files, or know whether a unit is there.

mod value;

use crate::backend::Place;
use crate::error::BusError;
use crate::wire::{Reader, WireError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use warren_core::model::admin_marks::MarkersChange;
use warren_unit::settings::{Group, Id, Kind, Section};
use warren_unit::{UnitName, UnitType};

/// First line of what is written for a transient unit.
const HEAD: &str =
    "# This is a transient unit file, created programmatically via the systemd API. Do not edit.\n";

/// First lines of a drop-in that `systemctl set-property` makes.
const DROPIN_HEAD: &str = "# This is a drop-in unit file extension, created via \"systemctl set-property\"\n\
                           # or an equivalent operation. Do not edit.\n";

/// Properties of one call, at most: more lines than any unit has.
const PROPERTIES_MAX: usize = 4096;

/// Why a list of properties cannot be taken.
#[derive(Debug)]
pub enum Fault {
    /// The client gets this error.
    Error(BusError),
    /// The message is not sound.
    Garbage(WireError),
}

impl From<BusError> for Fault {
    fn from(error: BusError) -> Fault {
        Fault::Error(error)
    }
}

impl From<WireError> for Fault {
    fn from(error: WireError) -> Fault {
        Fault::Garbage(error)
    }
}

/// One property, as lines of a unit file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The setting's name, by which a drop-in is named.
    pub name: &'static str,
    /// Where the lines belong.
    pub section: &'static str,
    /// Whether it says something of the unit's cgroup: that can be changed while the unit runs.
    pub is_of_cgroup: bool,
    /// `Setting=value`, in order.
    pub lines: Vec<String>,
}

/// What is said of a unit beside its settings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Properties {
    /// Settings, in the order of the call.
    pub written: Vec<Written>,
    /// `PIDs`: the processes of a scope.
    pub pids: Vec<u32>,
    /// `PIDFDs`: the same, by file descriptors of the call.
    pub pidfds: Vec<u32>,
    /// File descriptors of the call that a service's processes have.
    pub places: Vec<(Place, u32)>,
    /// `Markers`: what is noted that the unit needs.
    pub markers: Option<MarkersChange>,
    /// `AddRef`: the unit stays in memory for as long as the client is on the bus.
    pub has_ref: bool,
}

/// Names of properties that are not settings of the same name.
const RENAMED: &[(&str, &str)] = &[
    ("EnvironmentFiles", "EnvironmentFile"),
    ("CPUQuotaPerSecUSec", "CPUQuota"),
    ("DelegateControllers", "Delegate"),
    ("StandardInputText", "StandardInputData"),
    ("StartLimitInterval", "StartLimitIntervalSec"),
    ("RuntimeDirectorySymlink", "RuntimeDirectory"),
    ("StateDirectorySymlink", "StateDirectory"),
    ("CacheDirectorySymlink", "CacheDirectory"),
    ("LogsDirectorySymlink", "LogsDirectory"),
];

/// `a(sv)`: properties of a unit of this type.
pub fn read(unit_type: UnitType, body: &mut Reader<'_>) -> Result<Properties, Fault> {
    let mut properties = Properties::default();
    let mut limits = Limits::default();
    let mut fault = None;
    let mut count = 0;
    body.array(b'(', |body| {
        body.align(8)?;
        let (name, signature) = (body.str()?, body.signature()?);
        count += 1;
        let start = body.clone();
        body.skip(signature)?;
        if fault.is_none() && count > PROPERTIES_MAX {
            fault = Some(Fault::Error(BusError::limits_exceeded("Too many properties.")));
        }
        if fault.is_none() {
            let taken = properties.take(unit_type, name, signature, start, &mut limits);
            fault = taken.err();
        }
        Ok(())
    })?;
    match fault {
        Some(fault) => Err(fault),
        None => {
            limits.write(unit_type, &mut properties.written);
            Ok(properties)
        }
    }
}

/// Soft and hard limits come as two properties and are one setting.
#[derive(Default)]
struct Limits(BTreeMap<&'static str, (Option<u64>, Option<u64>)>);

impl Limits {
    fn write(self, unit_type: UnitType, out: &mut Vec<Written>) {
        for (name, (soft, hard)) in self.0 {
            let number = |value: u64| match value {
                u64::MAX => "infinity".to_owned(),
                value => value.to_string(),
            };
            let hard_or = hard.or(soft).map(number).unwrap_or_default();
            let soft_or = soft.or(hard).map(number).unwrap_or_default();
            out.push(Written {
                name,
                section: unit_type.section(),
                is_of_cgroup: false,
                lines: vec![format!("{name}={soft_or}:{hard_or}")],
            });
        }
    }
}

/// The setting that a property writes, in the words of the table of settings.
fn setting(unit_type: UnitType, property: &str) -> Option<(Section, Id)> {
    let renamed = RENAMED.iter().find(|(name, _)| *name == property).map(|(_, name)| *name);
    let find = |name: &str| {
        [Section::Type(unit_type), Section::Unit]
            .into_iter()
            .find_map(|section| Some((section, section.setting(name)?)))
    };
    let plain = renamed.unwrap_or(property);
    let seconds = || Some(format!("{}Sec", plain.strip_suffix("USec")?));
    let extended = || plain.strip_suffix("Ex").map(str::to_owned);
    let scaled = || plain.strip_suffix("Scale").map(str::to_owned);
    find(plain)
        .or_else(|| find(&seconds()?))
        .or_else(|| find(&extended()?))
        .or_else(|| find(&scaled()?))
}

fn unknown(name: &str) -> Fault {
    BusError::read_only(format!("Cannot set property {name}, or unknown property.")).into()
}

fn wrong_type(name: &str, signature: &str) -> Fault {
    BusError::invalid_args(format!("Property {name} has a value of the wrong type '{signature}'."))
        .into()
}

impl Properties {
    fn take(
        &mut self,
        unit_type: UnitType,
        name: &str,
        signature: &str,
        mut body: Reader<'_>,
        limits: &mut Limits,
    ) -> Result<(), Fault> {
        match (name, signature) {
            ("PIDs", "au") if unit_type == UnitType::Scope => {
                self.pids = body.array(b'u', |r| r.u32())?;
                return Ok(());
            }
            ("PIDFDs", "ah") if unit_type == UnitType::Scope => {
                self.pidfds = body.array(b'h', |r| r.u32())?;
                return Ok(());
            }
            (_, "h") if unit_type == UnitType::Service => {
                let place = match name {
                    "StandardInputFileDescriptor" => Place::Input,
                    "StandardOutputFileDescriptor" => Place::Output,
                    "StandardErrorFileDescriptor" => Place::Error,
                    _ => return Err(unknown(name)),
                };
                self.places.push((place, body.u32()?));
                return Ok(());
            }
            ("ExtraFileDescriptors", "a(hs)") if unit_type == UnitType::Service => {
                let fds = body.array(b'(', |r| {
                    r.align(8)?;
                    Ok((r.u32()?, r.str()?))
                })?;
                for (index, fd_name) in fds {
                    if !is_fd_name(fd_name) {
                        let text = format!("Invalid name for a file descriptor: {fd_name}");
                        return Err(BusError::invalid_args(text).into());
                    }
                    self.places.push((Place::Listed(fd_name.to_owned()), index));
                }
                return Ok(());
            }
            ("Markers", "as") => {
                self.markers = Some(markers(&body.strs()?)?);
                return Ok(());
            }
            ("AddRef", "b") => {
                self.has_ref = body.bool()?;
                return Ok(());
            }
            ("Controller", "s") if unit_type == UnitType::Scope => {
                let line = format!("Controller={}", value::literal(body.str()?, name)?);
                self.push("Controller", Section::Warren, false, vec![line]);
                return Ok(());
            }
            ("TimersCalendar", "a(ss)") | ("Listen", "a(ss)") | ("Paths", "a(ss)") => {
                return self.take_pairs(unit_type, name, &mut body);
            }
            ("TimersMonotonic", "a(st)") => return self.take_spans(unit_type, &mut body),
            ("Conditions" | "Asserts", "a(sbbs)") => {
                return self.take_conditions(unit_type, &mut body);
            }
            _ => {}
        }
        if let Some(resource) = limit_name(unit_type, name).filter(|_| signature == "t") {
            let entry = limits.0.entry(resource).or_default();
            match name.ends_with("Soft") {
                true => entry.0 = Some(body.u64()?),
                false => entry.1 = Some(body.u64()?),
            }
            return Ok(());
        }
        let (section, id) = setting(unit_type, name).ok_or_else(|| unknown(name))?;
        let row = id.setting();
        let property = value::Property { name, signature, row };
        let values =
            value::texts(&property, &mut body)?.ok_or_else(|| wrong_type(name, signature))?;
        let lines = values.iter().map(|value| format!("{}={value}", row.name)).collect();
        self.push(row.name, section, row.group == Group::Cgroup, lines);
        Ok(())
    }

    fn push(
        &mut self,
        name: &'static str,
        section: Section,
        is_of_cgroup: bool,
        lines: Vec<String>,
    ) {
        self.written.push(Written { name, section: section.name(), is_of_cgroup, lines });
    }

    /// `(kind, value)` each, where the kind names the setting: `("PathExists", "/a")`.
    fn take_pairs(
        &mut self,
        unit_type: UnitType,
        property: &str,
        body: &mut Reader<'_>,
    ) -> Result<(), Fault> {
        let pairs = body.array(b'(', |r| {
            r.align(8)?;
            Ok((r.str()?, r.str()?))
        })?;
        for (kind, text) in pairs {
            let name = match property {
                "Listen" => format!("Listen{kind}"),
                _ => kind.to_owned(),
            };
            let id = Section::Type(unit_type).setting(&name).ok_or_else(|| unknown(&name))?;
            let row = id.setting();
            let fits = matches!(
                (property, row.kind),
                ("TimersCalendar", Kind::Calendar)
                    | ("Listen", Kind::Listen(_))
                    | ("Paths", Kind::Path)
            );
            if !fits {
                return Err(unknown(&name));
            }
            let line = format!("{}={}", row.name, value::literal(text, &name)?);
            self.push(row.name, Section::Type(unit_type), false, vec![line]);
        }
        Ok(())
    }

    fn take_spans(&mut self, unit_type: UnitType, body: &mut Reader<'_>) -> Result<(), Fault> {
        let spans = body.array(b'(', |r| {
            r.align(8)?;
            Ok((r.str()?, r.u64()?))
        })?;
        for (kind, usec) in spans {
            let (section, id) = setting(unit_type, kind).ok_or_else(|| unknown(kind))?;
            let row = id.setting();
            if row.kind != Kind::Span {
                return Err(unknown(kind));
            }
            let line = format!("{}={}", row.name, value::span(usec));
            self.push(row.name, section, false, vec![line]);
        }
        Ok(())
    }

    /// `(condition, trigger, negated, parameter)` each.
    fn take_conditions(&mut self, unit_type: UnitType, body: &mut Reader<'_>) -> Result<(), Fault> {
        let conditions = body.array(b'(', |r| {
            r.align(8)?;
            Ok((r.str()?, r.bool()?, r.bool()?, r.str()?))
        })?;
        for (name, trigger, negated, parameter) in conditions {
            let (section, id) = setting(unit_type, name).ok_or_else(|| unknown(name))?;
            let row = id.setting();
            if !matches!(row.kind, Kind::Condition(_) | Kind::Assert(_)) {
                return Err(unknown(name));
            }
            let (trigger, negated) =
                (if trigger { "|" } else { "" }, if negated { "!" } else { "" });
            let parameter = value::literal(parameter, name)?;
            let line = format!("{}={trigger}{negated}{parameter}", row.name);
            self.push(row.name, section, false, vec![line]);
        }
        Ok(())
    }

    /// Whether it only says what can be changed of a unit that has a file (systemctl(1), `set-property`).
    pub fn fault_of_live(&self) -> Option<&'static str> {
        if !self.places.is_empty() {
            return Some("StandardInputFileDescriptor");
        }
        let mut lasting =
            self.written.iter().filter(|w| !w.is_of_cgroup && w.name != "Description");
        lasting.next().map(|written| written.name)
    }

    /// The unit file that says all of it.
    pub fn file(&self) -> String {
        let mut text = HEAD.to_owned();
        let mut section = "";
        for written in &self.written {
            if section != written.section {
                section = written.section;
                write!(text, "\n[{section}]\n").expect("writing to a String does not fail");
            }
            written.lines.iter().for_each(|line| text.extend([line, "\n"]));
        }
        text
    }
}

impl Written {
    /// The drop-in that says it of a unit that has a file.
    pub fn dropin(&self) -> String {
        let lines: String = self.lines.iter().flat_map(|line| [line, "\n"]).collect();
        format!("{DROPIN_HEAD}[{}]\n{lines}", self.section)
    }
}

/// Words without a sign are all that is left; with one, that word is set or taken away.
///
/// # Errors
/// A word is unknown, or only some have a sign.
pub fn markers(words: &[&str]) -> Result<MarkersChange, BusError> {
    let mut change = MarkersChange::default();
    let mut signs = BTreeSet::new();
    for word in words {
        let (is_on, name) = match (word.strip_prefix('+'), word.strip_prefix('-')) {
            (Some(name), _) => (true, name),
            (_, Some(name)) => (false, name),
            _ => (true, *word),
        };
        signs.insert(name.len() < word.len());
        let markers = if is_on { &mut change.on } else { &mut change.off };
        match name {
            "needs-reload" => markers.reload = true,
            "needs-restart" => markers.restart = true,
            _ => return Err(BusError::invalid_args(format!("Unknown marker \"{name}\"."))),
        }
    }
    if signs.len() > 1 {
        return Err(BusError::invalid_args("Bad marker syntax."));
    }
    change.replaces = signs.contains(&false);
    Ok(change)
}

/// sd_pid_notify_with_fds(3), `FDNAME=`: printable ASCII without a colon.
fn is_fd_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b':')
}

fn limit_name(unit_type: UnitType, name: &str) -> Option<&'static str> {
    let plain = name.strip_suffix("Soft").unwrap_or(name);
    let row = Section::Type(unit_type).setting(plain)?.setting();
    matches!(row.kind, Kind::Rlimit(_)).then_some(row.name)
}

/// The types of units that can be made so (systemd.unit(5)).
pub fn can_be_transient(name: &UnitName) -> bool {
    use UnitType::{Automount, Mount, Path, Scope, Service, Slice, Socket, Timer};
    matches!(name.unit_type(), Automount | Mount | Path | Scope | Service | Slice | Socket | Timer)
}

#[cfg(test)]
mod tests;
