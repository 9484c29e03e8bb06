//! Swaps, slices, timers, paths, devices, and scopes, which this version loads but does not run. Of those settings are shown
//! with their defaults.

use super::property::properties;
use super::subject::Subject;
use super::values::*;
use crate::wire::Writer;
use warren_core::model::state::TimerRun;
use warren_unit::config::{TimerBase, TimerEvent};

properties! {
    /// Swaps.
    SWAP:
    What "s" Value => |s, w| w.str(&s.mount().what);
    Priority "i" Value => |s, w| w.i32(s.swap_priority());
    Options "s" Value => |s, w| w.str(text(&s.mount().options));
    TimeoutUSec "t" Const => |s, w| w.u64(usec(s.mount().timeout));
    ControlPID "u" Value => |s, w| w.u32(s.run().control_pid().unwrap_or(0));
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    UID "u" Value => |s, w| w.u32(s.identity().0);
    GID "u" Value => |s, w| w.u32(s.identity().1);
    ExecActivate "a(sasbttttuii)" Invalidates = "0";
    ExecDeactivate "a(sasbttttuii)" Invalidates = "0";
}

properties! {
    /// Scopes.
    SCOPE:
    Controller "s" Value = "\"\"";
    TimeoutStopUSec "t" Const = "90000000";
    Result "s" Value = "success";
    RuntimeMaxUSec "t" Const = "18446744073709551615";
    RuntimeRandomizedExtraUSec "t" Const = "0";
    OOMPolicy "s" Const = "stop";
}

properties! {
    /// Slices, but for their groups.
    SLICE:
    ConcurrencyHardMax "u" Const => |s, w| w.u32(s.concurrency()[0].unwrap_or(u32::MAX));
    ConcurrencySoftMax "u" Const => |s, w| w.u32(s.concurrency()[1].unwrap_or(u32::MAX));
    NCurrentlyActive "u" Never => |s, w| w.u32(s.active_members());
}

properties! {
    /// Devices.
    DEVICE:
    SysFSPath "s" Value => |s, w| w.str(&s.device().sysfs_path);
}

properties! {
    /// Timers.
    TIMER:
    Unit "s" Const => |s, w| w.str(s.triggered());
    TimersMonotonic "a(stt)" Invalidates => monotonic;
    TimersCalendar "a(sst)" Invalidates => calendar;
    OnClockChange "b" Const => |s, w| w.bool(s.timer().on_clock_change);
    OnTimezoneChange "b" Const => |s, w| w.bool(s.timer().on_timezone_change);
    NextElapseUSecRealtime "t" Value => |s, w| w.u64(next_realtime(s));
    NextElapseUSecMonotonic "t" Value => |s, w| w.u64(next_monotonic(s));
    LastTriggerUSec "t" Value => |s, w| w.u64(s.timer_memory().last_trigger.realtime_us);
    LastTriggerUSecMonotonic "t" Value => |s, w| w.u64(s.timer_memory().last_trigger.monotonic.0);
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    AccuracyUSec "t" Const => |s, w| w.u64(micros(s.timer().accuracy));
    RandomizedDelayUSec "t" Const => |s, w| w.u64(micros(s.timer().randomized_delay));
    FixedRandomDelay "b" Const => |s, w| w.bool(s.timer().fixed_random_delay);
    Persistent "b" Const => |s, w| w.bool(s.timer().persistent);
    WakeSystem "b" Const => |s, w| w.bool(s.timer().wake_system);
    RemainAfterElapse "b" Const => |s, w| w.bool(s.timer().remain_after_elapse);
}

properties! {
    /// Paths.
    PATH:
    Unit "s" Const => |s, w| w.str(s.triggered());
    Paths "a(ss)" Const => paths;
    MakeDirectory "b" Const => |s, w| w.bool(s.path().make_directory);
    DirectoryMode "u" Const => |s, w| w.u32(s.path().directory_mode);
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    TriggerLimitIntervalUSec "t" Const => |s, w| w.u64(micros(s.path().trigger_limit.interval));
    TriggerLimitBurst "u" Const => |s, w| w.u32(s.path().trigger_limit.burst);
}

/// What is to come never.
const NEVER: u64 = u64::MAX;

fn next_realtime(subject: &Subject<'_>) -> u64 {
    subject.timer_run().and_then(|run| run.next_realtime_us).unwrap_or(NEVER)
}

fn next_monotonic(subject: &Subject<'_>) -> u64 {
    subject.timer_run().and_then(|run| run.next_monotonic).map_or(NEVER, |at| at.0)
}

/// The same without the random delay, which is a property of its own.
fn undelayed(run: Option<&TimerRun>, next: impl Fn(&TimerRun) -> Option<u64>) -> u64 {
    let at = run.and_then(|run| Some(next(run)?.saturating_sub(run.delay_us.unwrap_or(0))));
    at.unwrap_or(0)
}

fn monotonic<'w>(subject: &Subject<'_>, w: &'w mut Writer) -> &'w mut Writer {
    let next = undelayed(subject.timer_run(), |run| run.next_monotonic.map(|at| at.0));
    w.array(b'(', |w| {
        // systemd shows the last one first.
        for event in subject.timer().events.iter().rev() {
            if let TimerEvent::After(base, span) = event {
                w.structure().str(base_word(*base)).u64(micros(*span)).u64(next);
            }
        }
    })
}

/// The name of the setting, as the bus has it.
fn base_word(base: TimerBase) -> &'static str {
    match base {
        TimerBase::Active => "OnActiveUSec",
        TimerBase::Boot => "OnBootUSec",
        TimerBase::Startup => "OnStartupUSec",
        TimerBase::UnitActive => "OnUnitActiveUSec",
        TimerBase::UnitInactive => "OnUnitInactiveUSec",
    }
}

fn calendar<'w>(subject: &Subject<'_>, w: &'w mut Writer) -> &'w mut Writer {
    let next = undelayed(subject.timer_run(), |run| run.next_realtime_us);
    w.array(b'(', |w| {
        // systemd shows the last one first.
        for event in subject.timer().events.iter().rev() {
            if let TimerEvent::Calendar(calendar) = event {
                w.structure().str("OnCalendar").str(&calendar.to_string()).u64(next);
            }
        }
    })
}

fn paths<'w>(subject: &Subject<'_>, w: &'w mut Writer) -> &'w mut Writer {
    w.array(b'(', |w| {
        for spec in &subject.path().paths {
            w.structure().str(spec.kind.as_str()).str(&spec.path);
        }
    })
}
