//! org.freedesktop.systemd1.Service, without the groups that it shares with other types.

use super::commands::{commands, commands_ex};
use super::property::properties;
use super::subject::Subject;
use super::values::*;
use crate::wire::Writer;
use warren_core::model::process::CommandList;

properties! {
    /// The table of the interface.
    SERVICE:
    Type "s" Const => |s, w| w.str(if s.has_settings() { s.service().service_type.as_str() } else { "" });
    ExitType "s" Const => |s, w| w.str(s.service().exit_type.as_str());
    Restart "s" Const => |s, w| w.str(s.service().restart.as_str());
    RestartMode "s" Const => |s, w| w.str(s.service().restart_mode.as_str());
    PIDFile "s" Const => |s, w| w.str(text(&s.service().pid_file));
    NotifyAccess "s" Const => |s, w| w.str(s.service().notify_access.as_str());
    RestartUSec "t" Const => |s, w| w.u64(micros(s.service().restart_delay));
    TimeoutStartUSec "t" Const => |s, w| w.u64(s.timeout_start());
    TimeoutStopUSec "t" Const => |s, w| w.u64(usec(s.service().timeout_stop));
    TimeoutAbortUSec "t" Never => |s, w| w.u64(usec(s.service().timeout_abort));
    TimeoutStartFailureMode "s" Const => |s, w| w.str(s.service().timeout_start_failure_mode.as_str());
    TimeoutStopFailureMode "s" Const => |s, w| w.str(s.service().timeout_stop_failure_mode.as_str());
    RuntimeMaxUSec "t" Const => |s, w| w.u64(usec(s.service().runtime_max));
    RuntimeRandomizedExtraUSec "t" Const => |s, w| w.u64(micros(s.service().runtime_randomized_extra));
    WatchdogUSec "t" Never => |s, w| w.u64(s.watchdog());
    WatchdogTimestamp "t" Never => |s, w| w.u64(s.watchdog_fed().map_or(0, |at| at.realtime_us));
    WatchdogTimestampMonotonic "t" Never => |s, w| w.u64(s.watchdog_fed().map_or(0, |at| at.monotonic.0));
    RootDirectoryStartOnly "b" Const => |s, w| w.bool(s.service().root_directory_start_only);
    RemainAfterExit "b" Const => |s, w| w.bool(s.service().remain_after_exit);
    GuessMainPID "b" Const => |s, w| w.bool(s.service().guess_main_pid);
    RestartPreventExitStatus "(aiai)" Const => |s, w| exit_statuses(w, &s.service().restart_prevent_exit_status);
    RestartForceExitStatus "(aiai)" Const => |s, w| exit_statuses(w, &s.service().restart_force_exit_status);
    SuccessExitStatus "(aiai)" Const => |s, w| exit_statuses(w, &s.service().success_exit_status);
    MainPID "u" Value => |s, w| w.u32(s.run().main_process().map_or(0, |main| main.pid));
    ControlPID "u" Value => |s, w| w.u32(s.run().control_pid().unwrap_or(0));
    BusName "s" Const => |s, w| w.str(text(&s.service().bus_name));
    FileDescriptorStoreMax "u" Const => |s, w| w.u32(s.service().fd_store_max);
    OpenFile "a(sst)" Const => open_files;
    NFileDescriptorStore "u" Never => |s, w| w.u32(s.service_run().map_or(0, |run| run.fds_stored));
    StatusText "s" Value => |s, w| w.str(s.history().map_or("", |h| &h.status_text));
    StatusErrno "i" Value => |s, w| w.i32(s.history().map_or(0, |h| h.status_errno));
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    ReloadResult "s" Value => |s, w| w.str(s.reload_outcome().as_str());
    CleanResult "s" Value = "success";
    USBFunctionDescriptors "s" Const = "\"\"";
    USBFunctionStrings "s" Const = "\"\"";
    UID "u" Value => |s, w| w.u32(s.identity().0);
    GID "u" Value => |s, w| w.u32(s.identity().1);
    NRestarts "u" Value => |s, w| w.u32(s.history().map_or(0, |h| h.restarts));
    OOMPolicy "s" Const => |s, w| w.str(if s.has_settings() { s.service().oom_policy.as_str() } else { "" });
    ExecMainStartTimestamp "t" Value => |s, w| w.u64(s.main().started.realtime_us);
    ExecMainStartTimestampMonotonic "t" Value => |s, w| w.u64(s.main().started.monotonic.0);
    ExecMainExitTimestamp "t" Value => |s, w| w.u64(s.main().ended.realtime_us);
    ExecMainExitTimestampMonotonic "t" Value => |s, w| w.u64(s.main().ended.monotonic.0);
    ExecMainPID "u" Value => |s, w| w.u32(s.main().pid);
    ExecMainCode "i" Value => |s, w| w.i32(s.main().code);
    ExecMainStatus "i" Value => |s, w| w.i32(s.main().status);
    ExecCondition "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::Condition, &s.service().exec_condition);
    ExecConditionEx "a(sasasttttuii)" Invalidates => |s, w| commands_ex(w, s, CommandList::Condition, &s.service().exec_condition);
    ExecStartPre "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::StartPre, &s.service().exec_start_pre);
    ExecStartPreEx "a(sasasttttuii)" Invalidates => |s, w| commands_ex(w, s, CommandList::StartPre, &s.service().exec_start_pre);
    ExecStart "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::Start, &s.service().exec_start);
    ExecStartEx "a(sasasttttuii)" Invalidates => |s, w| commands_ex(w, s, CommandList::Start, &s.service().exec_start);
    ExecStartPost "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::StartPost, &s.service().exec_start_post);
    ExecStartPostEx "a(sasasttttuii)" Invalidates => |s, w| commands_ex(w, s, CommandList::StartPost, &s.service().exec_start_post);
    ExecReload "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::Reload, &s.service().exec_reload);
    ExecReloadEx "a(sasasttttuii)" Invalidates => |s, w| commands_ex(w, s, CommandList::Reload, &s.service().exec_reload);
    ExecStop "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::Stop, &s.service().exec_stop);
    ExecStopEx "a(sasasttttuii)" Invalidates => |s, w| commands_ex(w, s, CommandList::Stop, &s.service().exec_stop);
    ExecStopPost "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::StopPost, &s.service().exec_stop_post);
    ExecStopPostEx "a(sasasttttuii)" Invalidates => |s, w| commands_ex(w, s, CommandList::StopPost, &s.service().exec_stop_post);
}

fn open_files<'w>(subject: &Subject<'_>, w: &'w mut Writer) -> &'w mut Writer {
    w.array(b'(', |w| {
        for file in &subject.service().open_files {
            w.structure().str(&file.path).str(&file.name).u64(file.options.bits());
        }
    })
}
