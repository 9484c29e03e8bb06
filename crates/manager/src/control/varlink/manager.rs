//! The manager as `io.systemd.Manager` tells of it.

use serde_json::{Map, Value, json};
use warren_bus::properties::manager::{MANAGER_INTERFACE, system_state};
use warren_bus::properties::{Interface as BusInterface, Subject};

use super::idl::{Interface, Type};
use super::unit::resource_limit;
use super::{raw, shape};

/// What the interface wants always and D-Bus of systemd 252 does not have, as this manager does it.
fn default(name: &str) -> Option<Value> {
    Some(match name {
        // Settings of no effect here.
        "DefaultRestrictSUIDSGID" => false.into(),
        "DefaultMemoryPressureWatch" => "auto".into(),
        "DefaultCPUPressureWatch" | "DefaultIOPressureWatch" => "no".into(),
        "DefaultMemoryPressureThresholdUSec"
        | "DefaultCPUPressureThresholdUSec"
        | "DefaultIOPressureThresholdUSec" => 200_000.into(),
        "DefaultMemoryZSwapWriteback" => true.into(),
        "CtrlAltDelBurstAction" => "reboot_force".into(),
        "ConfidentialVirtualization" => "none".into(),
        // Kernels hand nothing over to it.
        "KExecCount" => 0.into(),
        _ => return None,
    })
}

/// What is told of the manager.
pub(crate) struct Told<'a> {
    subject: &'a Subject<'a>,
    interface: &'a Interface,
    /// Reloads so far.
    reloads: u64,
}

const BUS: [&BusInterface; 1] = [&MANAGER_INTERFACE];

impl<'a> Told<'a> {
    /// As this description of `io.systemd.Manager` has it.
    pub(crate) fn new(
        subject: &'a Subject<'a>,
        interface: &'a Interface,
        reloads: u64,
    ) -> Told<'a> {
        Told { subject, interface, reloads }
    }

    /// What it is to do, and what it does.
    pub(crate) fn describe(&self) -> Value {
        json!({"context": self.object("ManagerContext"), "runtime": self.object("ManagerRuntime")})
    }

    fn object(&self, structure: &str) -> Map<String, Value> {
        let mut object = Map::new();
        for (name, of) in self.interface.fields(structure) {
            if let Some(value) = self.field(name, of) {
                object.insert(name.clone(), value);
            }
        }
        object
    }

    fn raw(&self, name: &str) -> Option<Value> {
        raw::value(&BUS, name, self.subject)
    }

    fn field(&self, name: &str, of: &Type) -> Option<Value> {
        let named = match of {
            Type::Maybe(inner) => inner,
            of => of,
        };
        match (name, named) {
            ("LogLevel", _) => {
                let level = self.raw(name)?;
                Some(json!({"console": level, "kmsg": level, "syslog": level, "journal": level}))
            }
            ("LogTarget", _) => {
                let target = self.raw(name)?;
                let target = shape::shaped(self.interface, of, &target);
                // What is printed goes where the manager was started.
                target.or_else(|| Some("auto".into()))
            }
            ("Taints", _) => {
                let words = self.raw("Tainted")?;
                let words: Vec<&str> =
                    words.as_str()?.split(':').filter(|word| !word.is_empty()).collect();
                (!words.is_empty()).then(|| words.into())
            }
            ("SystemState", _) => Some(system_state(self.subject.view()).into()),
            ("ReloadCount", _) => Some(self.reloads.into()),
            ("DefaultLimits", _) => Some(self.limits().into()),
            ("DefaultStartLimit", _) => {
                let interval = self.raw("DefaultStartLimitIntervalUSec")?;
                let burst = self.raw("DefaultStartLimitBurst")?;
                Some(json!({"intervalUSec": interval, "burst": burst}))
            }
            ("ConfirmSpawn", _) => None,
            ("DefaultIOAccounting", _) => Some(self.subject.facts().defaults.io_accounting.into()),
            ("DefaultIPAccounting", _) => Some(self.subject.facts().defaults.ip_accounting.into()),
            (_, Type::Named(named)) if named == "Timestamp" => {
                let realtime = self.raw(name)?.as_u64()?;
                let monotonic = self.raw(&format!("{name}Monotonic"))?.as_u64()?;
                (realtime != 0 && realtime != u64::MAX)
                    .then(|| json!({"realtime": realtime, "monotonic": monotonic}))
            }
            _ => match self.raw(name) {
                Some(raw) => shape::shaped(self.interface, of, &raw),
                None => default(name),
            },
        }
    }

    fn limits(&self) -> Map<String, Value> {
        let mut table = Map::new();
        for (name, _) in self.interface.fields("ResourceLimitTable") {
            let limit = |suffix: &str| self.raw(&format!("DefaultLimit{name}{suffix}"));
            if let Some(limit) = resource_limit(limit("Soft"), limit("")) {
                table.insert(name.clone(), limit);
            }
        }
        table
    }
}
