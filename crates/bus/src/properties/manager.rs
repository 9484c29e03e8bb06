//! org.freedesktop.systemd1.Manager: what the manager says of itself.

use super::property::{Interface, properties};
use super::values::*;
use warren_core::model::active_state::ActiveState;
use warren_core::view::View;
use warren_unit::UnitName;
use warren_unit::config::{Resource, ShowStatus};

/// The interface of the manager.
pub static MANAGER_INTERFACE: Interface =
    Interface { name: "org.freedesktop.systemd1.Manager", tables: &[MANAGER] };

/// The properties that clients may write. Of the others of systemd only the names are known here.
pub const WRITABLE: &[&str] = &[
    "LogLevel",
    "LogTarget",
    "RuntimeWatchdogUSec",
    "RuntimeWatchdogPreUSec",
    "RuntimeWatchdogPreGovernor",
    "RebootWatchdogUSec",
    "KExecWatchdogUSec",
    "ServiceWatchdogs",
];

/// The word of `systemctl is-system-running` (systemctl(1)).
pub fn system_state(view: &View) -> &'static str {
    let is_up = |name: &str| {
        let id = UnitName::parse(name).ok().and_then(|name| view.lookup(&name));
        id.is_some_and(|id| view.active_state(id).is_up_or_coming())
    };
    let is_active = |name: &str| {
        let id = UnitName::parse(name).ok().and_then(|name| view.lookup(&name));
        id.is_some_and(|id| view.active_state(id) == ActiveState::Active)
    };
    match () {
        () if view.is_going_down() => "stopping",
        () if is_up("rescue.target") || is_up("emergency.target") => "maintenance",
        () if view.totals.startup_finished && view.totals.failed > 0 => "degraded",
        () if view.totals.startup_finished => "running",
        () if is_active("basic.target") => "starting",
        () => "initializing",
    }
}

/// Share of the boot transaction that is done; 1 when nothing is left.
fn progress(view: &View) -> f64 {
    if view.totals.startup_finished || view.totals.jobs_ever == 0 {
        return 1.0;
    }
    1.0 - f64::from(view.totals.jobs) / f64::from(view.totals.jobs_ever)
}

/// The interface of the log control object.
pub static LOG_CONTROL_INTERFACE: Interface =
    Interface { name: "org.freedesktop.LogControl1", tables: &[LOG_CONTROL] };

properties! {
    /// org.freedesktop.LogControl1(5)
    LOG_CONTROL:
    LogLevel "s" Never => |s, w| w.str(&s.facts().log_level);
    LogTarget "s" Never => |s, w| w.str(&s.facts().log_target);
    SyslogIdentifier "s" Never = "warrend";
}

properties! {
    /// The table of the interface.
    MANAGER:
    Version "s" Const => |s, w| w.str(&format!("252 {}", s.facts().version));
    Features "s" Const = "\"\"";
    Virtualization "s" Const => |s, w| w.str(&s.facts().virtualization);
    Architecture "s" Const => |s, w| w.str(&s.facts().architecture);
    Tainted "s" Const = "\"\"";
    FirmwareTimestamp "t" Const = "0";
    FirmwareTimestampMonotonic "t" Const = "0";
    LoaderTimestamp "t" Const = "0";
    LoaderTimestampMonotonic "t" Const = "0";
    KernelTimestamp "t" Const = "0";
    KernelTimestampMonotonic "t" Const = "0";
    InitRDTimestamp "t" Const = "0";
    InitRDTimestampMonotonic "t" Const = "0";
    UserspaceTimestamp "t" Const => |s, w| w.u64(s.facts().boot.userspace.realtime_us);
    UserspaceTimestampMonotonic "t" Const => |s, w| w.u64(s.facts().boot.userspace.monotonic.0);
    FinishTimestamp "t" Const => |s, w| w.u64(s.facts().boot.finish.realtime_us);
    FinishTimestampMonotonic "t" Const => |s, w| w.u64(s.facts().boot.finish.monotonic.0);
    SecurityStartTimestamp "t" Const = "0";
    SecurityStartTimestampMonotonic "t" Const = "0";
    SecurityFinishTimestamp "t" Const = "0";
    SecurityFinishTimestampMonotonic "t" Const = "0";
    GeneratorsStartTimestamp "t" Const => |s, w| w.u64(s.facts().boot.generators.0.realtime_us);
    GeneratorsStartTimestampMonotonic "t" Const => |s, w| w.u64(s.facts().boot.generators.0.monotonic.0);
    GeneratorsFinishTimestamp "t" Const => |s, w| w.u64(s.facts().boot.generators.1.realtime_us);
    GeneratorsFinishTimestampMonotonic "t" Const => |s, w| w.u64(s.facts().boot.generators.1.monotonic.0);
    UnitsLoadStartTimestamp "t" Const => |s, w| w.u64(s.facts().boot.load.0.realtime_us);
    UnitsLoadStartTimestampMonotonic "t" Const => |s, w| w.u64(s.facts().boot.load.0.monotonic.0);
    UnitsLoadFinishTimestamp "t" Const => |s, w| w.u64(s.facts().boot.load.1.realtime_us);
    UnitsLoadFinishTimestampMonotonic "t" Const => |s, w| w.u64(s.facts().boot.load.1.monotonic.0);
    UnitsLoadTimestamp "t" Const => |s, w| w.u64(s.facts().units_load.realtime_us);
    UnitsLoadTimestampMonotonic "t" Const => |s, w| w.u64(s.facts().units_load.monotonic.0);
    InitRDSecurityStartTimestamp "t" Const = "0";
    InitRDSecurityStartTimestampMonotonic "t" Const = "0";
    InitRDSecurityFinishTimestamp "t" Const = "0";
    InitRDSecurityFinishTimestampMonotonic "t" Const = "0";
    InitRDGeneratorsStartTimestamp "t" Const = "0";
    InitRDGeneratorsStartTimestampMonotonic "t" Const = "0";
    InitRDGeneratorsFinishTimestamp "t" Const = "0";
    InitRDGeneratorsFinishTimestampMonotonic "t" Const = "0";
    InitRDUnitsLoadStartTimestamp "t" Const = "0";
    InitRDUnitsLoadStartTimestampMonotonic "t" Const = "0";
    InitRDUnitsLoadFinishTimestamp "t" Const = "0";
    InitRDUnitsLoadFinishTimestampMonotonic "t" Const = "0";
    LogLevel "s" Never => |s, w| w.str(&s.facts().log_level);
    LogTarget "s" Never => |s, w| w.str(&s.facts().log_target);
    NNames "u" Never => |s, w| w.u32(count(s.view().graph.names().count()));
    NFailedUnits "u" Value => |s, w| w.u32(s.view().totals.failed);
    NJobs "u" Never => |s, w| w.u32(s.view().totals.jobs);
    NInstalledJobs "u" Never => |s, w| w.u32(s.view().totals.jobs_ever);
    NFailedJobs "u" Never => |s, w| w.u32(s.view().totals.failed_jobs_ever);
    Progress "d" Never => |s, w| w.f64(progress(s.view()));
    Environment "as" Never => |s, w| w.strs(s.facts().environment.iter().map(|text| &**text));
    ConfirmSpawn "b" Const = "false";
    ShowStatus "b" Never => |s, w| w.bool(s.facts().show_status == Some(ShowStatus::Yes));
    UnitPath "as" Const => |s, w| w.strs(s.facts().unit_path.iter().map(|text| &**text));
    DefaultStandardOutput "s" Const => |s, w| w.str(output_word(&s.facts().defaults.standard_output));
    DefaultStandardError "s" Const => |s, w| w.str(output_word(&s.facts().defaults.standard_error));
    WatchdogDevice "s" Const => |s, w| w.str(s.facts().watchdog.device.as_deref().unwrap_or(""));
    WatchdogLastPingTimestamp "t" Never = "18446744073709551615";
    WatchdogLastPingTimestampMonotonic "t" Never = "18446744073709551615";
    RuntimeWatchdogUSec "t" Never => |s, w| w.u64(s.facts().watchdog.runtime.usec());
    RuntimeWatchdogPreUSec "t" Never => |s, w| w.u64(s.facts().watchdog.pre.usec());
    RuntimeWatchdogPreGovernor "s" Never => |s, w| w.str(s.facts().watchdog.governor.as_deref().unwrap_or(""));
    RebootWatchdogUSec "t" Never => |s, w| w.u64(s.facts().watchdog.reboot.usec());
    KExecWatchdogUSec "t" Never => |s, w| w.u64(s.facts().watchdog.kexec.usec());
    ServiceWatchdogs "b" Never => |s, w| w.bool(s.facts().service_watchdogs);
    ControlGroup "s" Never => |s, w| w.str(&s.facts().control_group);
    SystemState "s" Never => |s, w| w.str(system_state(s.view()));
    SoftRebootsCount "u" Const => |s, w| w.u32(s.facts().soft_reboots);
    ExitCode "y" Never => |s, w| w.byte(s.facts().exit_code);
    DefaultTimerAccuracyUSec "t" Const = "60000000";
    DefaultTimeoutStartUSec "t" Const => |s, w| w.u64(usec(s.facts().defaults.timeout_start));
    DefaultTimeoutStopUSec "t" Const => |s, w| w.u64(usec(s.facts().defaults.timeout_stop));
    DefaultTimeoutAbortUSec "t" Never => |s, w| w.u64(usec(s.facts().defaults.timeout_abort.unwrap_or(s.facts().defaults.timeout_stop)));
    DefaultDeviceTimeoutUSec "t" Const => |s, w| w.u64(usec(s.facts().defaults.device_timeout));
    DefaultRestartUSec "t" Const => |s, w| w.u64(micros(s.facts().defaults.restart_delay));
    DefaultStartLimitIntervalUSec "t" Const => |s, w| w.u64(micros(s.facts().defaults.start_limit_interval));
    DefaultStartLimitBurst "u" Const => |s, w| w.u32(s.facts().defaults.start_limit_burst);
    DefaultCPUAccounting "b" Const => |s, w| w.bool(s.facts().defaults.cpu_accounting);
    DefaultBlockIOAccounting "b" Const = "false";
    DefaultMemoryAccounting "b" Const => |s, w| w.bool(s.facts().defaults.memory_accounting);
    DefaultTasksAccounting "b" Const => |s, w| w.bool(s.facts().defaults.tasks_accounting);
    DefaultLimitCPU "t" Const => |s, w| s.rlimit(w, Resource::Cpu, true);
    DefaultLimitCPUSoft "t" Const => |s, w| s.rlimit(w, Resource::Cpu, false);
    DefaultLimitFSIZE "t" Const => |s, w| s.rlimit(w, Resource::Fsize, true);
    DefaultLimitFSIZESoft "t" Const => |s, w| s.rlimit(w, Resource::Fsize, false);
    DefaultLimitDATA "t" Const => |s, w| s.rlimit(w, Resource::Data, true);
    DefaultLimitDATASoft "t" Const => |s, w| s.rlimit(w, Resource::Data, false);
    DefaultLimitSTACK "t" Const => |s, w| s.rlimit(w, Resource::Stack, true);
    DefaultLimitSTACKSoft "t" Const => |s, w| s.rlimit(w, Resource::Stack, false);
    DefaultLimitCORE "t" Const => |s, w| s.rlimit(w, Resource::Core, true);
    DefaultLimitCORESoft "t" Const => |s, w| s.rlimit(w, Resource::Core, false);
    DefaultLimitRSS "t" Const => |s, w| s.rlimit(w, Resource::Rss, true);
    DefaultLimitRSSSoft "t" Const => |s, w| s.rlimit(w, Resource::Rss, false);
    DefaultLimitNOFILE "t" Const => |s, w| s.rlimit(w, Resource::Nofile, true);
    DefaultLimitNOFILESoft "t" Const => |s, w| s.rlimit(w, Resource::Nofile, false);
    DefaultLimitAS "t" Const => |s, w| s.rlimit(w, Resource::As, true);
    DefaultLimitASSoft "t" Const => |s, w| s.rlimit(w, Resource::As, false);
    DefaultLimitNPROC "t" Const => |s, w| s.rlimit(w, Resource::Nproc, true);
    DefaultLimitNPROCSoft "t" Const => |s, w| s.rlimit(w, Resource::Nproc, false);
    DefaultLimitMEMLOCK "t" Const => |s, w| s.rlimit(w, Resource::Memlock, true);
    DefaultLimitMEMLOCKSoft "t" Const => |s, w| s.rlimit(w, Resource::Memlock, false);
    DefaultLimitLOCKS "t" Const => |s, w| s.rlimit(w, Resource::Locks, true);
    DefaultLimitLOCKSSoft "t" Const => |s, w| s.rlimit(w, Resource::Locks, false);
    DefaultLimitSIGPENDING "t" Const => |s, w| s.rlimit(w, Resource::Sigpending, true);
    DefaultLimitSIGPENDINGSoft "t" Const => |s, w| s.rlimit(w, Resource::Sigpending, false);
    DefaultLimitMSGQUEUE "t" Const => |s, w| s.rlimit(w, Resource::Msgqueue, true);
    DefaultLimitMSGQUEUESoft "t" Const => |s, w| s.rlimit(w, Resource::Msgqueue, false);
    DefaultLimitNICE "t" Const => |s, w| s.rlimit(w, Resource::Nice, true);
    DefaultLimitNICESoft "t" Const => |s, w| s.rlimit(w, Resource::Nice, false);
    DefaultLimitRTPRIO "t" Const => |s, w| s.rlimit(w, Resource::Rtprio, true);
    DefaultLimitRTPRIOSoft "t" Const => |s, w| s.rlimit(w, Resource::Rtprio, false);
    DefaultLimitRTTIME "t" Const => |s, w| s.rlimit(w, Resource::Rttime, true);
    DefaultLimitRTTIMESoft "t" Const => |s, w| s.rlimit(w, Resource::Rttime, false);
    DefaultTasksMax "t" Never => |s, w| w.u64(s.tasks(s.facts().defaults.tasks_max));
    TimerSlackNSec "t" Const => |s, w| w.u64(s.facts().defaults.inherited.timer_slack_nsec.unwrap_or(50_000));
    DefaultOOMPolicy "s" Const => |s, w| w.str(s.facts().defaults.oom_policy.as_str());
    DefaultOOMScoreAdjust "i" Const => |s, w| w.i32(s.facts().defaults.oom_score_adjust.map_or(0, i32::from));
    CtrlAltDelBurstAction "s" Const => |s, w| w.str(s.facts().defaults.ctrl_alt_del_burst.as_str());
}
