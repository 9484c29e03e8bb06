//! From files to the typed configuration of a unit that is about to be used, or to be checked.
//!
//! One cheap function for each type; a manager with 40,000 inactive units never calls most of
//! them. Wrong values are reported at their place and ignored, as systemd does it; what makes a
//! unit unusable is decided by [`crate::load()`] alone.

mod cgroup;
mod exec;
mod manager;
mod path;
mod scope;
mod service;
mod socket;
mod timer;
mod unit;

pub use manager::defaults;

use crate::config::{
    AutomountConfig, Command, ExecConfig, MountConfig, PathConfig, ScopeConfig, ServiceConfig,
    SliceConfig, SocketConfig, TimerConfig, TriggerLimit, UnitSection,
};
use crate::context::{Context, Defaults};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::load::Sources;
use crate::merged::Merged;
use crate::name::{UnitName, UnitType};
use crate::settings::{Id, Setting, Status, id};
use crate::value::{self, Fault};

/// The type of file system of what [`Compiler::swap`] makes.
const SWAP_TYPE: &str = "swap";

/// What a unit's files are compiled with.
#[derive(Clone, Copy, Debug)]
pub struct Compiler<'a> {
    /// The unit.
    pub name: &'a UnitName,
    /// Its files.
    pub sources: &'a Sources<'a>,
    /// The host.
    pub context: &'a Context,
    /// The manager's defaults.
    pub defaults: &'a Defaults,
}

/// A unit being compiled.
struct Unit<'a> {
    merged: Merged<'a>,
    defaults: &'a Defaults,
}

fn no_effect(setting: &Setting) -> String {
    format!("{}= has no effect yet", setting.name)
}

/// A compiled value and what was wrong on the way.
pub type Compiled<T> = (T, Vec<Diagnostic>);

impl<'a> Compiler<'a> {
    fn run<T>(&self, f: impl Fn(&Unit<'a>) -> T) -> Compiled<T> {
        let merged = Merged::new(self.name, self.sources, self.context);
        let unit = Unit { merged, defaults: self.defaults };
        let value = f(&unit);
        (value, unit.merged.into_diagnostics())
    }

    /// \[Unit\], for every type, with notes of what has no effect in any section.
    pub fn unit(&self) -> Compiled<UnitSection> {
        self.run(|unit| {
            unit.note_unused();
            unit.unit_section()
        })
    }

    /// \[Service\]
    pub fn service(&self) -> Compiled<ServiceConfig> {
        self.run(Unit::service)
    }

    /// \[Socket\]
    pub fn socket(&self) -> Compiled<SocketConfig> {
        self.run(Unit::socket)
    }

    /// What a socket's traffic is counted by, without the rest of \[Socket\].
    pub fn trigger_limit(&self) -> TriggerLimit {
        self.run(|unit| unit.trigger_limit(unit.merged.flag(id!(Socket "Accept"), false))).0
    }

    /// \[Mount\]
    pub fn mount(&self) -> Compiled<MountConfig> {
        self.run(Unit::mount)
    }

    /// \[Swap\], in the words of a mount whose type is `swap`.
    pub fn swap(&self) -> Compiled<MountConfig> {
        self.run(Unit::swap)
    }

    /// \[Automount\]
    pub fn automount(&self) -> Compiled<AutomountConfig> {
        self.run(Unit::automount)
    }

    /// \[Timer\]
    pub fn timer(&self) -> Compiled<TimerConfig> {
        self.run(Unit::timer)
    }

    /// \[Path\]
    pub fn path(&self) -> Compiled<PathConfig> {
        self.run(Unit::path_unit)
    }

    /// \[Scope\]
    pub fn scope(&self) -> Compiled<ScopeConfig> {
        self.run(Unit::scope)
    }

    /// \[Slice\]
    pub fn slice(&self) -> Compiled<SliceConfig> {
        self.run(|unit| {
            let count = |id| unit.merged.value(id, value::count_or_infinity).flatten();
            SliceConfig {
                cgroup: Box::new(unit.cgroup()),
                concurrency_hard_max: count(id!(Slice "ConcurrencyHardMax")),
                concurrency_soft_max: count(id!(Slice "ConcurrencySoftMax")),
                sandbox: unit.sandbox(),
            }
        })
    }

    /// Everything that is wrong with a unit's values, and every setting that it uses and that
    /// has no effect here. For `verify`.
    pub fn check(&self) -> Vec<Diagnostic> {
        let (_, mut all) = self.unit();
        all.extend(match self.name.unit_type() {
            UnitType::Service => self.service().1,
            UnitType::Socket => self.socket().1,
            UnitType::Mount => self.mount().1,
            UnitType::Swap => self.swap().1,
            UnitType::Automount => self.automount().1,
            UnitType::Slice => self.slice().1,
            UnitType::Timer => self.timer().1,
            UnitType::Path => self.path().1,
            UnitType::Scope => self.scope().1,
            UnitType::Target | UnitType::Device => Vec::new(),
        });
        for diagnostic in self.run(Unit::unused_settings).1 {
            // A value that is compiled but not acted on was already found wrong above.
            if !all.contains(&diagnostic) {
                all.push(diagnostic);
            }
        }
        all
    }
}

impl<'a> Unit<'a> {
    /// Reports settings that are known and without effect.
    fn note_unused(&self) {
        for entry in self.merged.entries() {
            let setting = entry.setting.setting();
            if setting.status == Status::Parsed {
                let message = no_effect(setting);
                self.merged.report_at(entry, Severity::Note, Code::NotActedOn, message);
            }
        }
    }

    /// Reports settings without effect, and wrong values of those.
    fn unused_settings(&self) {
        let protections = self.sandbox();
        for entry in self.merged.entries() {
            let setting = entry.setting.setting();
            let name = setting.name;
            let (severity, code, message) = match setting.status {
                Status::Acted | Status::Applied => continue,
                Status::Parsed => (Severity::Note, Code::NotActedOn, no_effect(setting)),
                Status::Obsolete => {
                    (Severity::Note, Code::Obsolete, format!("{name}= is obsolete, ignored"))
                }
                Status::Sandbox => {
                    let message = format!("{name}= is a protection and is NOT applied");
                    (Severity::Warning, Code::SandboxNotApplied, message)
                }
            };
            let is_off = setting.status == Status::Sandbox
                && (exec::protects_nothing(setting, entry.value)
                    || !protections.iter().any(|p| p.setting == name));
            if !is_off {
                self.merged.report_at(entry, severity, code, message);
            }
            let Some(text) = self.merged.expand(entry) else { continue };
            for fault in value::check(setting.kind, &text) {
                self.merged.fault(entry, Code::BadValue, &fault);
            }
        }
    }

    fn owned(&self, id: Id) -> Option<Box<str>> {
        self.merged.text(id).map(|text| text.as_ref().into())
    }

    fn path(&self, id: Id) -> Option<Box<str>> {
        self.merged.value(id, |text| value::path(text).map(Into::into))
    }

    /// A timeout with a default; `infinity` and, where the manual says so, 0 are none.
    fn timeout(&self, id: Id, zero_is_none: bool) -> Option<Option<std::time::Duration>> {
        let span = self.merged.value(id, value::span)?;
        Some(span.filter(|s| !(zero_is_none && s.is_zero())))
    }

    fn number<T: TryFrom<i64>>(&self, id: Id, low: i64, high: i64) -> Option<T> {
        let number = self.merged.value(id, |text| value::number(text, low, high))?;
        T::try_from(number).ok()
    }

    fn commands(&self, id: Id) -> Vec<Command> {
        let mut out = Vec::new();
        for entry in self.merged.list(id) {
            let (commands, faults): (Vec<Command>, Vec<Fault>) =
                value::commands(entry.value, &|word| self.merged.expand_word(word))
                    .unwrap_or_else(|fault| (Vec::new(), vec![fault]));
            out.extend(commands);
            for fault in faults {
                self.merged.fault(entry, Code::BadValue, &fault);
            }
        }
        out
    }

    /// The environment of a tool that is run for the unit: no filter of system calls is applied to it.
    fn exec_of_tool(&self) -> ExecConfig {
        let mut exec = self.exec();
        exec.sandbox.append(&mut exec.protections);
        exec
    }

    /// The environment of a socket unit: its sockets are in the manager's network, and only what a service leaves is
    /// removed.
    fn exec_of_listener(&self) -> ExecConfig {
        const OF_SERVICES: [&str; 3] = ["PrivateNetwork", "NetworkNamespacePath", "RootEphemeral"];
        let mut exec = self.exec();
        let of_services =
            |asked: &mut crate::config::SandboxSetting| OF_SERVICES.contains(&asked.setting);
        exec.sandbox.extend(exec.protections.extract_if(.., of_services));
        exec
    }

    fn mount(&self) -> MountConfig {
        let merged = &self.merged;
        MountConfig {
            what: self.owned(id!(Mount "What")).unwrap_or_default(),
            where_: self.place(id!(Mount "Where")),
            fs_type: self.owned(id!(Mount "Type")),
            options: self.owned(id!(Mount "Options")),
            sloppy_options: merged.flag(id!(Mount "SloppyOptions"), false),
            lazy_unmount: merged.flag(id!(Mount "LazyUnmount"), false),
            read_write_only: merged.flag(id!(Mount "ReadWriteOnly"), false),
            force_unmount: merged.flag(id!(Mount "ForceUnmount"), false),
            directory_mode: merged.value(id!(Mount "DirectoryMode"), value::mode).unwrap_or(0o755),
            timeout: self
                .timeout(id!(Mount "TimeoutSec"), true)
                .unwrap_or(self.defaults.timeout_start),
            exec: Box::new(self.exec_of_tool()),
            kill: self.kill(),
            cgroup: Box::new(self.cgroup()),
        }
    }

    fn swap(&self) -> MountConfig {
        let options = self.owned(id!(Swap "Options")).map(String::from);
        let mut options: Vec<String> = options.into_iter().collect();
        let has_priority = |text: &String| text.split(',').any(|word| word.starts_with("pri="));
        // Priority= counts where Options= has no pri=, systemd.swap(5).
        if let Some(priority) = self.number::<i64>(id!(Swap "Priority"), -1, 32_767)
            && !options.iter().any(has_priority)
            && priority >= 0
        {
            options.push(format!("pri={priority}"));
        }
        MountConfig {
            what: self.path(id!(Swap "What")).unwrap_or_default(),
            where_: "none".into(),
            fs_type: Some(SWAP_TYPE.into()),
            options: (!options.is_empty()).then(|| options.join(",").into()),
            sloppy_options: false,
            lazy_unmount: false,
            read_write_only: false,
            force_unmount: false,
            directory_mode: 0o755,
            timeout: self
                .timeout(id!(Swap "TimeoutSec"), true)
                .unwrap_or(self.defaults.timeout_start),
            exec: Box::new(self.exec_of_tool()),
            kill: self.kill(),
            cgroup: Box::new(self.cgroup()),
        }
    }

    fn automount(&self) -> AutomountConfig {
        let mode = self.merged.value(id!(Automount "DirectoryMode"), value::mode);
        let idle = self.timeout(id!(Automount "TimeoutIdleSec"), false);
        AutomountConfig {
            where_: self.place(id!(Automount "Where")),
            extra_options: self.owned(id!(Automount "ExtraOptions")),
            directory_mode: mode.unwrap_or(0o755),
            timeout_idle: idle.flatten().filter(|idle| !idle.is_zero()),
            idles_for_ever: idle == Some(None),
        }
    }

    /// Where=, or what the name says.
    fn place(&self, id: Id) -> Box<str> {
        let of_name = || crate::escape::path_unescape(self.merged.name().stem());
        let written = self.path(id);
        written.unwrap_or_else(|| of_name().unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests;
