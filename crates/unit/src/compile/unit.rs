//! \[Unit\] (systemd.unit(5)) and the kill settings (systemd.kill(5)).

use super::Unit;
use crate::config::{
    CollectMode, Condition, EmergencyAction, GivenUp, JobMode, KillConfig, KillMode, UnitSection,
};
use crate::diagnostic::Code;
use crate::load::instantiate;
use crate::name::UnitName;
use crate::settings::{Id, Kind, id};
use crate::value::{self, Fault};

/// The conditions and assertions of a unit.
type Conditions = (Vec<Condition>, Vec<Condition>);

impl Unit<'_> {
    /// systemd.unit(5), Documentation=: what cannot be followed is no documentation.
    fn documentation(&self) -> Vec<Box<str>> {
        const SCHEMES: [&str; 5] = ["http://", "https://", "file:/", "info:", "man:"];
        let is_one =
            |word: &str| SCHEMES.iter().any(|&s| word.len() > s.len() && word.starts_with(s));
        let mut out = Vec::new();
        for (entry, at, word) in self.merged.words(id!(Unit "Documentation")) {
            if is_one(&word) {
                out.push(word.into());
            } else {
                let fault =
                    Fault::new(at, format!("'{word}' is no URI of man:, info:, file:, http(s):"));
                self.merged.fault(&entry, Code::BadValue, &fault);
            }
        }
        out
    }

    pub(super) fn unit_section(&self) -> UnitSection {
        let merged = &self.merged;
        let action =
            |id: Id| merged.word(id, EmergencyAction::from_word).unwrap_or(EmergencyAction::None);
        let mode = |id: Id, default| merged.word(id, JobMode::from_word).unwrap_or(default);
        let (conditions, asserts) = self.conditions();
        let description = merged.text(id!(Unit "Description"));
        UnitSection {
            description: description.as_deref().unwrap_or(merged.name().as_str()).into(),
            documentation: self.documentation().into(),
            source_path: self.owned(id!(Unit "SourcePath")),
            conditions: conditions.into(),
            asserts: asserts.into(),
            on_success_job_mode: mode(id!(Unit "OnSuccessJobMode"), JobMode::Fail),
            on_failure_job_mode: mode(id!(Unit "OnFailureJobMode"), JobMode::Replace),
            collect_mode: merged
                .word(id!(Unit "CollectMode"), CollectMode::from_word)
                .unwrap_or(CollectMode::Inactive),
            job_timeout: self.timeout(id!(Unit "JobTimeoutSec"), true).flatten(),
            job_running_timeout: self.job_running_timeout(),
            job_timeout_action: action(id!(Unit "JobTimeoutAction")),
            job_timeout_reboot_argument: self.owned(id!(Unit "JobTimeoutRebootArgument")),
            start_limit_interval: merged
                .value(id!(Unit "StartLimitIntervalSec"), value::span)
                .map_or(self.defaults.start_limit_interval, |s| {
                    s.unwrap_or(std::time::Duration::MAX)
                }),
            start_limit_burst: self
                .number(id!(Unit "StartLimitBurst"), 0, u32::MAX.into())
                .unwrap_or(self.defaults.start_limit_burst),
            start_limit_action: action(id!(Unit "StartLimitAction")),
            failure_action: action(id!(Unit "FailureAction")),
            success_action: action(id!(Unit "SuccessAction")),
            failure_action_exit_status: self.number(id!(Unit "FailureActionExitStatus"), 0, 255),
            success_action_exit_status: self.number(id!(Unit "SuccessActionExitStatus"), 0, 255),
            reboot_argument: self.owned(id!(Unit "RebootArgument")),
            maintenance: merged
                .word(id!(Warren "Maintenance"), GivenUp::from_word)
                .unwrap_or(GivenUp::Never),
            require_any: self.groups(id!(Warren "RequireAny")),
        }
    }

    /// The units of each line of a setting; what is no name was reported when it was loaded.
    fn groups(&self, id: Id) -> Box<[Box<[UnitName]>]> {
        let own = self.merged.name();
        let name = |word: &str| {
            let text = self.merged.expand_word(word).ok()?;
            let name = instantiate(UnitName::parse(&text).ok()?, own).ok()?;
            (&name != own).then_some(name)
        };
        let lines = self.merged.raw(id).iter();
        let groups = lines.map(|entry| entry.value.split_ascii_whitespace().filter_map(name));
        groups.map(|group| group.collect::<Box<[UnitName]>>()).filter(|g| !g.is_empty()).collect()
    }

    /// Device units wait for DefaultDeviceTimeoutSec= (systemd-system.conf(5)); JobTimeoutSec=
    /// bounds the running time too unless that is set (systemd.unit(5)).
    fn job_running_timeout(&self) -> Option<std::time::Duration> {
        let written = self.timeout(id!(Unit "JobRunningTimeoutSec"), true);
        let whole = || self.timeout(id!(Unit "JobTimeoutSec"), true);
        let is_device = self.merged.name().unit_type() == crate::name::UnitType::Device;
        let usual = if is_device { self.defaults.device_timeout } else { None };
        written.or_else(whole).unwrap_or(usual)
    }

    /// An empty assignment of any condition drops all conditions, of any assertion all
    /// assertions (systemd.unit(5)); so they are read in the order of the files.
    fn conditions(&self) -> Conditions {
        let (mut conditions, mut asserts) = Conditions::default();
        for entry in self.merged.in_file_order() {
            let (kind, list) = match entry.setting.setting().kind {
                Kind::Condition(kind) => (kind, &mut conditions),
                Kind::Assert(kind) => (kind, &mut asserts),
                _ => continue,
            };
            if entry.value.is_empty() {
                list.clear();
                continue;
            }
            let Some(text) = self.merged.expand(&entry) else { continue };
            let faults = value::check(Kind::Condition(kind), &text);
            if faults.is_empty() {
                let (trigger, negate, parameter) = value::condition_prefixes(&text);
                list.push(Condition { kind, trigger, negate, parameter: parameter.into() });
            }
            for fault in faults {
                self.merged.fault(&entry, Code::BadValue, &fault);
            }
        }
        (conditions, asserts)
    }

    pub(super) fn kill(&self) -> KillConfig {
        let merged = &self.merged;
        let signal = |id: Id| merged.value(id, value::signal);
        let default = KillConfig::default();
        KillConfig {
            mode: merged.word(id!(Kill "KillMode"), KillMode::from_word).unwrap_or(default.mode),
            signal: signal(id!(Kill "KillSignal")).unwrap_or(default.signal),
            restart_signal: signal(id!(Kill "RestartKillSignal")),
            send_sighup: merged.flag(id!(Kill "SendSIGHUP"), default.send_sighup),
            send_sigkill: merged.flag(id!(Kill "SendSIGKILL"), default.send_sigkill),
            final_signal: signal(id!(Kill "FinalKillSignal")).unwrap_or(default.final_signal),
            watchdog_signal: signal(id!(Kill "WatchdogSignal")).unwrap_or(default.watchdog_signal),
        }
    }
}
