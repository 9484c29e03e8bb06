//! The one table of properties: name, type, what a change does, and how the value is had.
//!
//! Get, GetAll, PropertiesChanged and the introspection text all come from these tables; nothing
//! else knows a property. Where to start: [`interfaces`] says which tables a unit type has.

mod cgroup;
mod commands;
mod exec;
mod filters;
pub mod job;
pub mod manager;
mod mount;
mod other;
mod service;
mod socket;
mod subject;
mod unit;
mod values;

pub use subject::Subject;

use crate::wire::{Writer, encode_text};
use warren_unit::UnitType;

/// What subscribers are told when the value changes
/// (`org.freedesktop.DBus.Property.EmitsChangedSignal`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emits {
    /// The new value.
    Value,
    /// That it changed.
    Invalidates,
    /// It cannot change while the object exists.
    Const,
    /// Nothing.
    Never,
}

/// Reads a value and writes it, without its signature.
pub type Getter = for<'w> fn(&Subject<'_>, &'w mut Writer) -> &'w mut Writer;

/// Where a value comes from.
#[derive(Clone, Copy)]
pub enum Value {
    /// Always this, in the notation of busctl(1).
    Fixed(&'static str),
    /// The default of a sandboxing setting that is parsed and not applied.
    Sandbox(&'static str),
    /// Read from the view or the unit's settings.
    Of(Getter),
}

/// One property.
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub signature: &'static str,
    /// What a change does.
    pub emits: Emits,
    /// Where the value comes from.
    pub value: Value,
}

/// Some properties, in the order in which clients see them.
pub type Table = &'static [Property];

/// An interface and the tables that make it up.
pub struct Interface {
    /// Its name, in full.
    pub name: &'static str,
    /// Its properties.
    pub tables: &'static [Table],
}

/// `NAME: Property "signature" Emits = fixed; ...`, with `~` before a sandbox default and `=>`
/// before a getter.
macro_rules! properties {
    ($(#[$doc:meta])* $table:ident:
        $($name:ident $signature:literal $emits:ident $kind:tt $value:expr;)*) => {
        $(#[$doc])*
        pub static $table: &[$crate::properties::Property] = &[$($crate::properties::Property {
            name: stringify!($name),
            signature: $signature,
            emits: $crate::properties::Emits::$emits,
            value: $crate::properties::property_value!($kind $value),
        },)*];
    };
}

macro_rules! property_value {
    (= $text:expr) => {
        $crate::properties::Value::Fixed($text)
    };
    (~ $text:expr) => {
        $crate::properties::Value::Sandbox($text)
    };
    (=> $getter:expr) => {
        $crate::properties::Value::Of($getter)
    };
}
use {properties, property_value};

/// Name of the interface that all units have.
pub const UNIT_INTERFACE: &str = "org.freedesktop.systemd1.Unit";

static UNIT: Interface = Interface { name: UNIT_INTERFACE, tables: &[unit::UNIT] };

macro_rules! interface {
    ($name:literal, $($table:expr),*) => {
        &[Interface { name: concat!("org.freedesktop.systemd1.", $name), tables: &[$($table),*] }]
    };
}

static SERVICE: &[Interface] =
    interface!("Service", service::SERVICE, cgroup::CGROUP, exec::EXEC, exec::KILL);
static SOCKET: &[Interface] =
    interface!("Socket", socket::SOCKET, cgroup::CGROUP, exec::EXEC, exec::KILL);
static MOUNT: &[Interface] =
    interface!("Mount", mount::MOUNT, cgroup::CGROUP, exec::EXEC, exec::KILL);
static SWAP: &[Interface] = interface!("Swap", other::SWAP, cgroup::CGROUP, exec::EXEC, exec::KILL);
static SCOPE: &[Interface] = interface!("Scope", other::SCOPE, cgroup::CGROUP, exec::KILL);
static SLICE: &[Interface] = interface!("Slice", cgroup::CGROUP);
static AUTOMOUNT: &[Interface] = interface!("Automount", mount::AUTOMOUNT);
static TIMER: &[Interface] = interface!("Timer", other::TIMER);
static PATH: &[Interface] = interface!("Path", other::PATH);
static DEVICE: &[Interface] = interface!("Device", other::DEVICE);
static TARGET: &[Interface] = interface!("Target",);

/// The interfaces of a unit: that of its type, then the one that all have.
pub fn interfaces(unit_type: UnitType) -> impl DoubleEndedIterator<Item = &'static Interface> {
    own_interface(unit_type).iter().chain(std::iter::once(&UNIT))
}

/// Name of the interface of a unit type.
pub fn interface_name(unit_type: UnitType) -> &'static str {
    own_interface(unit_type).first().map_or(UNIT_INTERFACE, |interface| interface.name)
}

fn own_interface(unit_type: UnitType) -> &'static [Interface] {
    match unit_type {
        UnitType::Service => SERVICE,
        UnitType::Socket => SOCKET,
        UnitType::Mount => MOUNT,
        UnitType::Automount => AUTOMOUNT,
        UnitType::Slice => SLICE,
        UnitType::Scope => SCOPE,
        UnitType::Swap => SWAP,
        UnitType::Timer => TIMER,
        UnitType::Path => PATH,
        UnitType::Device => DEVICE,
        UnitType::Target => TARGET,
    }
}

impl Interface {
    /// All properties in order.
    pub fn properties(&self) -> impl Iterator<Item = &'static Property> {
        self.tables.iter().flat_map(|table| table.iter())
    }

    /// The property with this name.
    pub fn find(&self, name: &str) -> Option<&'static Property> {
        self.properties().find(|property| property.name == name)
    }
}

impl Property {
    /// Writes the value as a variant.
    pub fn write(&self, subject: &Subject<'_>, out: &mut Writer) {
        out.variant(self.signature);
        match self.value {
            Value::Fixed(text) => encode_text(self.signature, text, out),
            Value::Of(getter) => {
                getter(subject, out);
            }
            Value::Sandbox(default) => self.write_sandbox(subject, default, out),
        }
    }

    /// A setting that asks for protection is shown as it was asked for, where it is a switch, a
    /// word or a list of words.
    fn write_sandbox(&self, subject: &Subject<'_>, default: &str, out: &mut Writer) {
        let exec = subject.exec();
        let mut all = exec.sandbox.iter().chain(&exec.protections);
        let asked = all.find(|asked| asked.setting == self.name);
        match (asked, self.signature) {
            (Some(asked), "b") => {
                out.bool(values::is_yes(&asked.value));
            }
            (Some(asked), "s") => {
                out.str(values::normal_word(&asked.value));
            }
            (Some(asked), "as") => {
                let words = asked.value.split_ascii_whitespace();
                out.strs(words.map(values::simple_path));
            }
            _ => encode_text(self.signature, default, out),
        }
    }

    /// Writes a dictionary entry: name and value.
    pub fn write_entry(&self, subject: &Subject<'_>, out: &mut Writer) {
        out.structure().str(self.name);
        self.write(subject, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Reader, is_valid};

    fn all() -> impl Iterator<Item = &'static Property> {
        UnitType::ALL
            .iter()
            .flat_map(|unit_type| interfaces(*unit_type))
            .chain([&job::JOB_INTERFACE, &manager::MANAGER_INTERFACE])
            .flat_map(Interface::properties)
    }

    #[test]
    fn every_fixed_value_is_of_its_type() {
        for property in all() {
            assert!(is_valid(property.signature), "{}", property.name);
            if let Value::Fixed(text) | Value::Sandbox(text) = property.value {
                let mut out = Writer::new();
                encode_text(property.signature, text, &mut out);
                let bytes = out.finish();
                let mut reader = Reader::new(&bytes, false);
                assert_eq!(reader.skip(property.signature), Ok(()), "{}", property.name);
                assert!(reader.is_at_end(), "{}", property.name);
            }
        }
    }

    #[test]
    fn names_are_given_once_per_interface() {
        for interface in UnitType::ALL.iter().flat_map(|unit_type| interfaces(*unit_type)) {
            let mut names: Vec<_> = interface.properties().map(|p| p.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", interface.name);
        }
    }

    #[test]
    fn the_tables_have_the_sizes_of_systemd_252() {
        let sizes = |unit_type| interfaces(unit_type).map(|i| i.properties().count()).collect();
        let check = |unit_type, want: [usize; 2]| {
            let got: Vec<usize> = sizes(unit_type);
            assert_eq!(got, want, "{unit_type:?}");
        };
        check(UnitType::Service, [303, 98]);
        check(UnitType::Socket, [302, 98]);
        check(UnitType::Mount, [261, 98]);
        check(UnitType::Swap, [254, 98]);
        check(UnitType::Scope, [85, 98]);
        check(UnitType::Slice, [72, 98]);
        check(UnitType::Automount, [5, 98]);
        check(UnitType::Timer, [16, 98]);
        check(UnitType::Path, [7, 98]);
        check(UnitType::Device, [1, 98]);
        check(UnitType::Target, [0, 98]);
        // And one that is newer: SoftRebootsCount.
        assert_eq!(manager::MANAGER_INTERFACE.properties().count(), 118 + 1);
    }
}
