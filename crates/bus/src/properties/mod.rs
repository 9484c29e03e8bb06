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
mod property;
mod protections;
mod service;
mod socket;
mod subject;
mod unit;
mod values;

pub use property::{Emits, Getter, Interface, Property, Table, Value};
pub use subject::Subject;
pub use values::per_32_bits;

use std::sync::LazyLock;
use warren_unit::UnitType;

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
static SLICE: &[Interface] = interface!("Slice", other::SLICE, cgroup::CGROUP);
static AUTOMOUNT: &[Interface] = interface!("Automount", mount::AUTOMOUNT);
static TIMER: &[Interface] = interface!("Timer", other::TIMER);
static PATH: &[Interface] = interface!("Path", other::PATH);
static DEVICE: &[Interface] = interface!("Device", other::DEVICE);
static TARGET: &[Interface] = interface!("Target",);

/// The interfaces of a unit: that of its type, then the one that all have.
pub fn interfaces(unit_type: UnitType) -> impl DoubleEndedIterator<Item = &'static Interface> {
    own_interface(unit_type).iter().chain(std::iter::once(&UNIT))
}

/// All properties that units of a type have, sorted by name; of two with one name that of [`interfaces`]' first.
static BY_NAME: LazyLock<Vec<Vec<&'static Property>>> = LazyLock::new(|| {
    let of_type = |unit_type: &UnitType| {
        let mut all: Vec<_> = interfaces(*unit_type).flat_map(Interface::properties).collect();
        all.sort_by_key(|property| property.name);
        all.dedup_by_key(|property| property.name);
        all
    };
    UnitType::ALL.iter().map(of_type).collect()
});

/// The property of this name that units of a type have.
pub fn find(unit_type: UnitType, name: &str) -> Option<&'static Property> {
    let at = UnitType::ALL.iter().position(|known| *known == unit_type)?;
    let all = BY_NAME.get(at)?;
    let found = all.binary_search_by(|property| property.name.cmp(name)).ok()?;
    all.get(found).copied()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Reader, Writer, encode_text, is_valid};

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
    fn a_property_is_found_by_its_name_as_by_looking_at_all() {
        for unit_type in UnitType::ALL {
            for property in interfaces(unit_type).flat_map(Interface::properties) {
                let first = interfaces(unit_type).find_map(|i| i.find(property.name));
                let found = find(unit_type, property.name);
                let (first, found) = first.zip(found).expect("it is there");
                assert!(std::ptr::eq(first, found), "{unit_type:?} {}", property.name);
            }
            assert!(find(unit_type, "NoSuchProperty").is_none());
        }
    }

    #[test]
    fn the_tables_have_the_sizes_of_systemd_252() {
        let sizes = |unit_type| interfaces(unit_type).map(|i| i.properties().count()).collect();
        let check = |unit_type, want: [usize; 2]| {
            let got: Vec<usize> = sizes(unit_type);
            assert_eq!(got, want, "{unit_type:?}");
        };
        // All that have groups with two that are newer: ManagedOOMMemoryPressureDurationUSec and CoredumpReceive.
        // And with two: OpenFile and RestartMode.
        check(UnitType::Service, [303 + 4, 98]);
        // With six: PollLimitIntervalUSec, PollLimitBurst, PassFileDescriptorsToExec and the three of XAttrListen.
        check(UnitType::Socket, [302 + 8, 98]);
        check(UnitType::Mount, [261 + 2, 98]);
        check(UnitType::Swap, [254 + 2, 98]);
        check(UnitType::Scope, [85 + 2, 98]);
        // With three: ConcurrencyHardMax, ConcurrencySoftMax and NCurrentlyActive.
        check(UnitType::Slice, [72 + 5, 98]);
        check(UnitType::Automount, [5, 98]);
        check(UnitType::Timer, [16, 98]);
        check(UnitType::Path, [7, 98]);
        check(UnitType::Device, [1, 98]);
        check(UnitType::Target, [0, 98]);
        // And one that is newer: SoftRebootsCount.
        assert_eq!(manager::MANAGER_INTERFACE.properties().count(), 118 + 1);
    }
}
