//! \[Manager\] of systemd-system.conf(5): what units get that say nothing.

use std::sync::Arc;
use std::time::Duration;

use super::{Compiler, Unit};
use warren_sandbox::seccomp;

use super::exec::nanoseconds;
use crate::config::{
    CapabilitySet, Crash, CrashAction, EmergencyAction, LineStyle, NumaPolicy, OomPolicy, Rlimits,
    StatusUnitFormat, Watchdog, WatchdogTime, is_variable_name,
};
use crate::context::{Bounds, Context, Defaults, Inherited, Scope};
use crate::diagnostic::{Code, Diagnostic};
use crate::load::Sources;
use crate::name::UnitName;
use crate::parse::UnitFile;
use crate::settings::{Id, Kind, id};
use crate::value::{self, Fault};

/// The defaults that the manager's file and its drop-ins, in the order in which they apply, state;
/// and what is wrong in them.
pub fn defaults(
    file: Option<&Arc<UnitFile>>,
    dropins: &[Arc<UnitFile>],
    context: &Context,
) -> (Defaults, Vec<Diagnostic>) {
    let built_in = Defaults::default();
    let name = UnitName::parse("init.scope").expect("a valid name");
    let sources = Sources { fragment: file, dropins, links: &[], masked: false };
    let compiler = Compiler { name: &name, sources: &sources, context, defaults: &built_in };
    let (stated, mut diagnostics) = compiler.run(Unit::stated_defaults);
    diagnostics.extend(compiler.run(Unit::unused_settings).1);
    (stated, diagnostics)
}

impl Unit<'_> {
    fn stated_defaults(&self) -> Defaults {
        let (merged, built_in) = (&self.merged, self.defaults);
        let stop = self.timeout(id!(Manager "DefaultTimeoutStopSec"), true);
        let span = |id: Id| Some(merged.value(id, value::span)?.unwrap_or(Duration::MAX));
        let flag = |id: Id, built_in: bool| merged.flag(id, built_in);
        Defaults {
            timeout_start: self
                .timeout(id!(Manager "DefaultTimeoutStartSec"), true)
                .unwrap_or(built_in.timeout_start),
            timeout_stop: stop.unwrap_or(built_in.timeout_stop),
            timeout_abort: self.timeout(id!(Manager "DefaultTimeoutAbortSec"), false),
            device_timeout: self
                .timeout(id!(Manager "DefaultDeviceTimeoutSec"), true)
                .unwrap_or(built_in.device_timeout),
            restart_delay: span(id!(Manager "DefaultRestartSec")).unwrap_or(built_in.restart_delay),
            start_limit_interval: span(id!(Manager "DefaultStartLimitIntervalSec"))
                .unwrap_or(built_in.start_limit_interval),
            start_limit_burst: self
                .number(id!(Manager "DefaultStartLimitBurst"), 0, i64::from(u32::MAX))
                .unwrap_or(built_in.start_limit_burst),
            environment: self.assignments(id!(Manager "DefaultEnvironment")),
            manager_environment: self.assignments(id!(Manager "ManagerEnvironment")),
            inherited: self.inherited(),
            bounds: self.bounds(),
            log_level: merged.value(id!(Manager "LogLevel"), value::log_level),
            watchdog: Arc::new(self.watchdog()),
            show_status: merged.value(id!(Manager "ShowStatus"), value::show_status),
            crash: self.crash(),
            line_style: LineStyle {
                color: merged.optional_flag(id!(Manager "LogColor")),
                location: merged.optional_flag(id!(Manager "LogLocation")),
                time: merged.optional_flag(id!(Manager "LogTime")),
            },
            status_unit_format: merged
                .word(id!(Manager "StatusUnitFormat"), StatusUnitFormat::from_word)
                .unwrap_or(built_in.status_unit_format),
            log_target: merged.value(id!(Manager "LogTarget"), value::log_target),
            cpu_accounting: flag(id!(Manager "DefaultCPUAccounting"), built_in.cpu_accounting),
            memory_accounting: flag(
                id!(Manager "DefaultMemoryAccounting"),
                built_in.memory_accounting,
            ),
            tasks_accounting: flag(
                id!(Manager "DefaultTasksAccounting"),
                built_in.tasks_accounting,
            ),
            io_accounting: flag(id!(Manager "DefaultIOAccounting"), built_in.io_accounting),
            ip_accounting: flag(id!(Manager "DefaultIPAccounting"), built_in.ip_accounting),
            tasks_max: merged
                .value(id!(Manager "DefaultTasksMax"), value::tasks)
                .unwrap_or(built_in.tasks_max),
            rlimits: self.default_rlimits(),
            oom_policy: merged
                .word(id!(Manager "DefaultOOMPolicy"), OomPolicy::from_word)
                .unwrap_or(built_in.oom_policy),
            refuses_missing_protection: merged
                .text(id!(Manager "MissingProtection"))
                .is_some_and(|word| &*word == "refuse"),
            oom_score_adjust: self.number(id!(Manager "DefaultOOMScoreAdjust"), -1000, 1000),
            ctrl_alt_del_burst: merged
                .word(id!(Manager "CtrlAltDelBurstAction"), EmergencyAction::from_word)
                .unwrap_or(built_in.ctrl_alt_del_burst),
            timer_accuracy: span(id!(Manager "DefaultTimerAccuracySec"))
                .unwrap_or(built_in.timer_accuracy),
            standard_output: merged
                .value(id!(Manager "DefaultStandardOutput"), value::output)
                .unwrap_or_else(|| built_in.standard_output.clone()),
            standard_error: merged
                .value(id!(Manager "DefaultStandardError"), value::output)
                .unwrap_or_else(|| built_in.standard_error.clone()),
        }
    }

    fn crash(&self) -> Crash {
        let merged = &self.merged;
        let reboots = merged.optional_flag(id!(Manager "CrashReboot"));
        let action = |reboots| if reboots { CrashAction::Reboot } else { CrashAction::Freeze };
        Crash {
            dumps_core: merged.optional_flag(id!(Manager "DumpCore")),
            starts_shell: merged.optional_flag(id!(Manager "CrashShell")),
            terminal: merged.value(id!(Manager "CrashChangeVT"), value::crash_terminal),
            action: merged
                .word(id!(Manager "CrashAction"), CrashAction::from_word)
                .or(reboots.map(action)),
        }
    }

    fn watchdog(&self) -> Watchdog {
        let default = Watchdog::default();
        let time = |id: Id| self.merged.value(id, watchdog_time);
        Watchdog {
            device: self.path(id!(Manager "WatchdogDevice")).map(Into::into),
            runtime: time(id!(Manager "RuntimeWatchdogSec")).unwrap_or(default.runtime),
            reboot: time(id!(Manager "RebootWatchdogSec")).unwrap_or(default.reboot),
            kexec: time(id!(Manager "KExecWatchdogSec")).unwrap_or(default.kexec),
            pre: time(id!(Manager "RuntimeWatchdogPreSec")).unwrap_or(default.pre),
            governor: self.owned(id!(Manager "RuntimeWatchdogPreGovernor")).map(Into::into),
        }
    }

    fn inherited(&self) -> Inherited {
        let merged = &self.merged;
        let label = merged.text(id!(Manager "DefaultSmackProcessLabel"));
        Inherited {
            cpu_affinity: self.index_set(id!(Manager "CPUAffinity")),
            numa_policy: merged.word(id!(Manager "NUMAPolicy"), NumaPolicy::from_word),
            numa_nodes: self.numa_nodes(id!(Manager "NUMAMask")),
            timer_slack_nsec: merged.value(id!(Manager "TimerSlackNSec"), nanoseconds),
            // No label but those of units.
            smack_label: label.filter(|label| &**label != "/").map(Into::into),
        }
    }

    /// A manager of a user has no right to set them for itself, and there is no way around it.
    fn bounds(&self) -> Bounds {
        if self.merged.context().scope == Scope::User {
            for id in [id!(Manager "CapabilityBoundingSet"), id!(Manager "SystemCallArchitectures")]
            {
                if let Some(entry) = self.merged.list(id).last() {
                    let message = "is not applied: only the manager of the system can";
                    self.merged.fault(entry, Code::SandboxNotApplied, &Fault::new(0, message));
                }
            }
            return Bounds { no_new_privileges: self.has_no_new_privileges(), ..Bounds::default() };
        }
        let id = id!(Manager "SystemCallArchitectures");
        let mut lines = Vec::new();
        for entry in self.merged.list(id) {
            for word in seccomp::settings::unknown_words("SystemCallArchitectures", entry.value) {
                let at = entry.value.find(&*word).unwrap_or(0);
                let fault = Fault::new(at, format!("'{word}' is not known"));
                self.merged.fault(entry, Code::BadValue, &fault);
            }
            lines.push(entry.value);
        }
        Bounds {
            capabilities: self
                .capability_set(id!(Manager "CapabilityBoundingSet"), CapabilitySet::ALL),
            no_new_privileges: self.has_no_new_privileges(),
            architectures: lines.join("\n").into(),
        }
    }

    fn has_no_new_privileges(&self) -> bool {
        self.merged.flag(id!(Manager "NoNewPrivileges"), false)
    }

    fn assignments(&self, id: Id) -> Arc<[Box<str>]> {
        let mut out: Vec<Box<str>> = Vec::new();
        for (entry, at, word) in self.merged.words(id) {
            if word.split_once('=').is_some_and(|(name, _)| is_variable_name(name)) {
                out.push(word.into());
            } else {
                let fault = Fault::new(at, format!("'{word}' is not NAME=value"));
                self.merged.fault(&entry, Code::BadValue, &fault);
            }
        }
        out.into()
    }

    fn default_rlimits(&self) -> Rlimits {
        let mut limits = self.defaults.rlimits.clone();
        let mut stated: Vec<Id> = self.merged.entries().iter().map(|e| e.setting).collect();
        stated.dedup();
        for id in stated {
            let Kind::Rlimit(resource) = id.setting().kind else { continue };
            if let Some(limit) = self.merged.value(id, |text| value::rlimit(resource, text)) {
                limits.set(resource, Some(limit));
            }
        }
        limits
    }
}

/// `off`, `default`, or a time.
fn watchdog_time(text: &str) -> Result<WatchdogTime, Fault> {
    match text {
        "off" => return Ok(WatchdogTime::Off),
        "default" => return Ok(WatchdogTime::OfDevice),
        _ => {}
    }
    Ok(match value::span(text)? {
        None => WatchdogTime::OfDevice,
        Some(Duration::ZERO) => WatchdogTime::Off,
        Some(time) => WatchdogTime::For(time),
    })
}
