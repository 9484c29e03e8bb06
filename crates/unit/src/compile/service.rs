//! \[Service\] (systemd.service(5)).

use std::time::Duration;

use super::Unit;
use crate::config::{
    ExitStatusSet, ExitType, NotifyAccess, OomPolicy, OpenFile, Preserve, Restart, RestartMode,
    ServiceConfig, ServiceType, StopBudget, StopPolicy, TimeoutFailureMode,
};
use crate::diagnostic::Code;
use crate::name::{UnitName, UnitType};
use crate::settings::{Id, id};
use crate::signal::Signal;
use crate::value::{self, Fault};

/// None is no bound.
type Timeout = Option<Duration>;

impl Unit<'_> {
    pub(super) fn service(&self) -> ServiceConfig {
        let merged = &self.merged;
        let failure_mode = |id: Id| {
            let mode = merged.word(id, TimeoutFailureMode::from_word);
            mode.unwrap_or(TimeoutFailureMode::Terminate)
        };
        let service_type = self.service_type();
        let both_timeouts = self.timeout(id!(Service "TimeoutSec"), true);
        let timeout_stop = self.stop_timeout(both_timeouts);
        let fd_store_max =
            self.number(id!(Service "FileDescriptorStoreMax"), 0, u32::MAX.into()).unwrap_or(0);
        let watchdog = self.timeout(id!(Service "WatchdogSec"), true).flatten();
        let cgroup = Box::new(self.cgroup());
        ServiceConfig {
            service_type,
            exit_type: merged
                .word(id!(Service "ExitType"), ExitType::from_word)
                .unwrap_or(ExitType::Main),
            remain_after_exit: merged.flag(id!(Service "RemainAfterExit"), false),
            guess_main_pid: merged.flag(id!(Service "GuessMainPID"), true),
            pid_file: self.pid_file(),
            bus_name: self.bus_name(),
            exec_condition: self.commands(id!(Service "ExecCondition")),
            exec_start_pre: self.commands(id!(Service "ExecStartPre")),
            exec_start: self.commands(id!(Service "ExecStart")),
            exec_start_post: self.commands(id!(Service "ExecStartPost")),
            exec_reload: self.commands(id!(Service "ExecReload")),
            exec_stop: self.commands(id!(Service "ExecStop")),
            exec_stop_post: self.commands(id!(Service "ExecStopPost")),
            restart: merged.word(id!(Service "Restart"), Restart::from_word).unwrap_or(Restart::No),
            restart_mode: merged
                .word(id!(Service "RestartMode"), RestartMode::from_word)
                .unwrap_or(RestartMode::Normal),
            restart_delay: merged
                .value(id!(Service "RestartSec"), value::span)
                .map_or(self.defaults.restart_delay, |s| s.unwrap_or(Duration::MAX)),
            restart_delay_max: merged
                .value(id!(Service "RestartMaxDelaySec"), value::span)
                .flatten(),
            restart_steps: self
                .number(id!(Service "RestartSteps"), 0, u32::MAX.into())
                .unwrap_or(0),
            timeout_start: self.start_timeout(service_type, both_timeouts),
            timeout_stop,
            timeout_abort: self
                .timeout(id!(Service "TimeoutAbortSec"), false)
                .or(self.defaults.timeout_abort)
                .unwrap_or(timeout_stop),
            timeout_start_failure_mode: failure_mode(id!(Service "TimeoutStartFailureMode")),
            timeout_stop_failure_mode: failure_mode(id!(Service "TimeoutStopFailureMode")),
            stop_policy: merged
                .word(id!(Warren "StopPolicy"), StopPolicy::from_word)
                .unwrap_or(StopPolicy::Ask),
            stop_budget: merged
                .word(id!(Warren "StopBudget"), StopBudget::from_word)
                .unwrap_or(StopBudget::Total),
            runtime_max: self.timeout(id!(Service "RuntimeMaxSec"), false).flatten(),
            runtime_randomized_extra: self
                .timeout(id!(Service "RuntimeRandomizedExtraSec"), false)
                .flatten()
                .unwrap_or_default(),
            watchdog,
            success_exit_status: self.exit_status(id!(Service "SuccessExitStatus")),
            restart_prevent_exit_status: self.exit_status(id!(Service "RestartPreventExitStatus")),
            restart_force_exit_status: self.exit_status(id!(Service "RestartForceExitStatus")),
            permissions_start_only: merged.flag(id!(Service "PermissionsStartOnly"), false),
            non_blocking: merged.flag(id!(Service "NonBlocking"), false),
            notify_access: self.notify_access(service_type, watchdog, fd_store_max),
            sockets: self.service_sockets(),
            open_files: self.open_files(),
            fd_store_max,
            fd_store_preserve: self
                .preserve(id!(Service "FileDescriptorStorePreserve"))
                .unwrap_or(Preserve::Restart),
            oom_policy: self.oom_policy(id!(Service "OOMPolicy")),
            reload_signal: merged
                .value(id!(Service "ReloadSignal"), value::signal)
                .unwrap_or(Signal::HUP),
            root_directory_start_only: merged.flag(id!(Service "RootDirectoryStartOnly"), false),
            exec: Box::new(self.exec()),
            kill: self.kill(),
            cgroup,
        }
    }

    /// The default depends on ExecStart= and BusName= (systemd.service(5), Type=).
    fn service_type(&self) -> ServiceType {
        let written = self.merged.word(id!(Service "Type"), ServiceType::from_word);
        let has_start = self.merged.has(id!(Service "ExecStart"));
        written.unwrap_or(match (has_start, self.merged.has(id!(Service "BusName"))) {
            (_, true) => ServiceType::Dbus,
            (false, false) => ServiceType::Oneshot,
            (true, false) => ServiceType::Simple,
        })
    }

    /// TimeoutSec= sets both timeouts, and the one that comes last in the files counts.
    fn timeout_or(&self, id: Id, both: Option<Timeout>) -> Option<Timeout> {
        let own = self.timeout(id, true);
        let id_of_both = id!(Service "TimeoutSec");
        let is_either = |setting| setting == id || setting == id_of_both;
        let all = self.merged.in_file_order();
        let last = all.iter().rfind(|e| is_either(e.setting) && value::span(e.value).is_ok());
        if last.is_some_and(|e| e.setting == id_of_both) { both } else { own }
    }

    /// Without a timeout for oneshot services, unless one is written.
    fn start_timeout(&self, service_type: ServiceType, both: Option<Timeout>) -> Timeout {
        let is_oneshot = service_type == ServiceType::Oneshot;
        let default = if is_oneshot { None } else { self.defaults.timeout_start };
        self.timeout_or(id!(Service "TimeoutStartSec"), both).unwrap_or(default)
    }

    fn stop_timeout(&self, both: Option<Timeout>) -> Timeout {
        let written = self.timeout_or(id!(Service "TimeoutStopSec"), both);
        written.unwrap_or(self.defaults.timeout_stop)
    }

    /// Relative ones lie below the runtime directory, which was /var/run once: services that write
    /// there do so through a link.
    fn pid_file(&self) -> Option<Box<str>> {
        let runtime = &self.merged.context().runtime_dir;
        self.merged.value(id!(Service "PIDFile"), |text| {
            let text = match text.starts_with('/') {
                true => text.to_owned(),
                false => format!("{runtime}/{text}"),
            };
            Ok(value::below_run(&value::path(&text)?).into())
        })
    }

    fn bus_name(&self) -> Option<Box<str>> {
        self.merged.value(id!(Service "BusName"), |text| match value::is_bus_name(text) {
            true => Ok(text.into()),
            false => Err(Fault::new(0, format!("'{text}' is not a valid D-Bus name"))),
        })
    }

    /// Services that notify need at least `main` (systemd.service(5), NotifyAccess=).
    fn notify_access(
        &self,
        kind: ServiceType,
        watchdog: Option<Duration>,
        fd_store_max: u32,
    ) -> NotifyAccess {
        let written = self.merged.word(id!(Service "NotifyAccess"), NotifyAccess::from_word);
        let needs = matches!(kind, ServiceType::Notify | ServiceType::NotifyReload)
            || watchdog.is_some()
            || fd_store_max > 0;
        match written.unwrap_or(NotifyAccess::None) {
            NotifyAccess::None if needs => NotifyAccess::Main,
            access => access,
        }
    }

    /// Of a delegated group what is in it decides.
    pub(super) fn oom_policy(&self, id: Id) -> OomPolicy {
        let written = self.merged.word(id, OomPolicy::from_word);
        let delegates = self
            .merged
            .text(id!(Cgroup "Delegate"))
            .is_some_and(|text| value::boolean(&text) != Ok(false));
        written.unwrap_or(if delegates { OomPolicy::Continue } else { self.defaults.oom_policy })
    }

    fn exit_status(&self, id: Id) -> ExitStatusSet {
        let (mut codes, mut signals) = (Vec::new(), Vec::new());
        for entry in self.merged.list(id) {
            let (set, faults) = value::exit_statuses(entry.value);
            codes.extend_from_slice(&set.codes);
            signals.extend_from_slice(&set.signals);
            for fault in faults {
                self.merged.fault(entry, Code::BadValue, &fault);
            }
        }
        codes.sort_unstable();
        codes.dedup();
        signals.sort_unstable();
        signals.dedup();
        ExitStatusSet { codes: codes.into(), signals: signals.into() }
    }

    /// A line that is wrong is left out, and the others count.
    fn open_files(&self) -> Vec<OpenFile> {
        let mut files = Vec::new();
        for entry in self.merged.list(id!(Service "OpenFile")) {
            let Some(text) = self.merged.expand(entry) else { continue };
            match value::open_file(&text) {
                Ok(file) => files.push(file),
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
        files
    }

    fn service_sockets(&self) -> Vec<UnitName> {
        let words = self.merged.words(id!(Service "Sockets")).into_iter();
        let names = words.filter_map(|(_, _, word)| UnitName::parse(&word).ok());
        names.filter(|name| name.unit_type() == UnitType::Socket).collect()
    }
}
