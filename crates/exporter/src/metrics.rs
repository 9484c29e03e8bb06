//! A snapshot as metrics. Pure.

use std::collections::BTreeMap;

use warren_wire::control::{LogCounts, MetricsAnswer, TimerRow, UnitMetrics};

use crate::exposition::{Exposition, Format, seconds};
use crate::family::*;
use crate::snapshot::{Groups, Snapshot, Usage};

/// States of a host, as `systemctl is-system-running` has them.
const HOST_STATES: [&str; 6] =
    ["initializing", "starting", "running", "degraded", "maintenance", "stopping"];

/// The text, and how many series it has.
pub fn write(snapshot: &Snapshot, format: Format) -> (String, usize) {
    let mut out = Exposition::new(format);
    out.one(&UP, u8::from(snapshot.manager.is_some()));
    if let Some(answer) = &snapshot.manager {
        manager(&mut out, answer);
        units(&mut out, answer);
        ends(&mut out, answer, snapshot.shutdown_us);
        timers(&mut out, answer.timers_total, &answer.timers);
    }
    if let Some(groups) = &snapshot.groups {
        slices(&mut out, &groups.slices);
        top(&mut out, &groups.units);
    }
    if let Some(answer) = &snapshot.manager {
        selected(&mut out, &answer.rows);
        log(&mut out, answer.log.as_ref());
    }
    exporter(&mut out, snapshot);
    let series = out.series();
    (out.finish(), series)
}

fn manager(out: &mut Exposition, answer: &MetricsAnswer) {
    let (manager, reloads, jobs) = (&answer.manager, &answer.reloads, &answer.jobs);
    out.family(&BUILD, [([&*answer.version], 1)]);
    let is = |state: &&'static str| ([*state], u8::from(answer.state == *state));
    out.family(&HOST, HOST_STATES.iter().map(is));
    out.one(&STOPPING, u8::from(manager.stopping));
    out.one(&MANAGER_RESTARTS, manager.restarts);
    out.one(&MANAGER_CPU, seconds(manager.cpu_us));
    out.one(&MANAGER_MEMORY, manager.resident_bytes);
    manager.descriptors.iter().for_each(|count| out.one(&MANAGER_FDS, count));
    out.one(&MANAGER_FDS_MAX, manager.descriptors_max);
    let turns = &answer.turns;
    out.histogram(&TURNS, &turns.bounds_us, &turns.counts, turns.sum_us);
    out.one(&GENERATION, manager.generation);
    out.one(&RELOADS, reloads.count);
    out.one(&RELOADS_SECONDS, seconds(reloads.took_us));
    out.one(&RELOADS_LOOP, seconds(reloads.loop_us));
    out.one(&RELOAD_LAST, seconds(reloads.last_took_us));
    out.one(&RELOAD_LAST_LOOP, seconds(reloads.last_loop_us));
    out.one(&RELOAD_NOW, seconds(reloads.under_way_us.unwrap_or(0)));
    out.family(&JOBS, [(["running"], jobs.running), (["waiting"], jobs.waiting)]);
    let ages = [(["running"], seconds(jobs.running_us)), (["waiting"], seconds(jobs.waiting_us))];
    out.family(&JOB_AGE, ages);
    out.one(&JOBS_MADE, jobs.ever);
    out.one(&JOBS_FAILED, jobs.failed_ever);
}

fn units(out: &mut Exposition, answer: &MetricsAnswer) {
    out.one(&LOADED, answer.manager.loaded);
    let count = |row: &'_ _| -> ([String; 2], u64) {
        let warren_wire::control::UnitCount { kind, state, count } = row;
        ([kind.clone(), state.to_string()], *count)
    };
    let counts: Vec<([String; 2], u64)> = answer.units.iter().map(count).collect();
    out.family(&UNITS, counts.iter().map(|([kind, state], count)| ([&**kind, &**state], count)));
    by_label(out, &FAILURES, &answer.failures);
    by_label(out, &RESTARTS, &answer.restarts);
    out.one(&DEVICES_SEEN, u8::from(answer.devices_seen));
    out.one(&DEVICES_WAITING, answer.devices_waiting);
    out.one(&DEVICE_WAIT, seconds(answer.device_wait_us));
}

fn by_label(out: &mut Exposition, family: &Family, counts: &BTreeMap<String, u64>) {
    out.family(family, counts.iter().map(|(label, count)| ([&**label], count)));
}

fn ends(out: &mut Exposition, answer: &MetricsAnswer, shutdown_us: Option<u64>) {
    out.one(&BOOT_LOAD, seconds(answer.boot.load_us));
    if answer.boot.startup_us > 0 {
        out.one(&BOOT, seconds(answer.boot.startup_us));
        out.one(&BOOT_AT, seconds(answer.boot.finished_us));
    }
    shutdown_us.iter().for_each(|us| out.one(&SHUTDOWN, seconds(*us)));
}

fn timers(out: &mut Exposition, total: u64, rows: &[TimerRow]) {
    out.one(&TIMERS, total);
    let at = |timer: &'_ TimerRow, at: Option<u64>| Some((timer.name.clone(), seconds(at?)));
    let next: Vec<_> = rows.iter().filter_map(|timer| at(timer, timer.next_us)).collect();
    let last: Vec<_> = rows.iter().filter_map(|timer| at(timer, timer.last_us)).collect();
    out.family(&TIMER_NEXT, next.iter().map(|(name, at)| ([&**name], at)));
    out.family(&TIMER_LAST, last.iter().map(|(name, at)| ([&**name], at)));
    out.family(&TIMER_MISSED, rows.iter().map(|timer| ([&*timer.name], timer.missed)));
}

/// One series for each group of which that is known.
fn each(
    out: &mut Exposition,
    family: &Family,
    groups: &[(String, Usage)],
    value: impl Fn(&Usage) -> Option<String>,
) {
    let series = groups.iter().filter_map(|(name, usage)| Some(([&**name], value(usage)?)));
    out.family(family, series);
}

fn plain(value: Option<u64>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn slices(out: &mut Exposition, slices: &[(String, Usage)]) {
    each(out, &SLICE_CPU, slices, |usage| usage.cpu_us.map(seconds));
    each(out, &SLICE_MEMORY, slices, |usage| plain(usage.memory_bytes));
    each(out, &SLICE_TASKS, slices, |usage| plain(usage.tasks));
    each(out, &SLICE_READ, slices, |usage| plain(usage.read_bytes));
    each(out, &SLICE_WRITTEN, slices, |usage| plain(usage.written_bytes));
    let pressures = slices.iter().flat_map(|(name, usage)| {
        let of_slice = usage.pressure_us.iter();
        of_slice.map(move |((resource, kind), us)| ([&**name, resource, kind], seconds(*us)))
    });
    out.family(&SLICE_PRESSURE, pressures);
}

fn top(out: &mut Exposition, units: &[(String, Usage)]) {
    each(out, &TOP_CPU, units, |usage| usage.cpu_us.map(seconds));
    each(out, &TOP_MEMORY, units, |usage| plain(usage.memory_bytes));
    each(out, &TOP_TASKS, units, |usage| plain(usage.tasks));
    each(out, &TOP_READ, units, |usage| plain(usage.read_bytes));
    each(out, &TOP_WRITTEN, units, |usage| plain(usage.written_bytes));
}

fn selected(out: &mut Exposition, rows: &[UnitMetrics]) {
    let state =
        |row: &'_ UnitMetrics| [row.name.clone(), row.active.to_string(), row.code.to_string()];
    let states: Vec<[String; 3]> = rows.iter().map(state).collect();
    out.family(
        &UNIT_STATE,
        states.iter().map(|[unit, state, code]| ([&**unit, &**state, &**code], 1)),
    );
    let since = rows.iter().filter_map(|row| Some(([&*row.name], seconds(row.since_us?))));
    out.family(&UNIT_SINCE, since);
    out.family(&UNIT_RESTARTS, rows.iter().map(|row| ([&*row.name], row.restarts)));
}

fn log(out: &mut Exposition, counts: Option<&LogCounts>) {
    out.one(&LOG_UP, u8::from(counts.is_some()));
    let Some(counts) = counts else { return };
    out.one(&LOG_ENTRIES, counts.entries);
    out.one(&LOG_BYTES, counts.bytes);
    out.one(&LOG_SUPPRESSED, counts.suppressed);
    out.one(&LOG_UNKEPT, counts.unkept);
    by_label(out, &LOG_LOST, &counts.lost);
    out.one(&LOG_STREAMS, counts.streams);
    out.one(&LOG_IN_MEMORY, u8::from(counts.refuge));
}

fn exporter(out: &mut Exposition, snapshot: &Snapshot) {
    let left = |total: u64, shown: usize| total.saturating_sub(shown as u64);
    let of_manager = snapshot.manager.iter().flat_map(|answer| {
        [
            (["timers"], left(answer.timers_total, answer.timers.len())),
            (["units"], left(answer.rows_total, answer.rows.len())),
        ]
    });
    let of_groups = snapshot.groups.iter();
    let of_groups = of_groups
        .map(|groups: &Groups| (["slices"], left(groups.slices_total, groups.slices.len())));
    out.family(&LEFT_OUT, of_manager.chain(of_groups));
    if let Some(groups) = &snapshot.groups {
        out.one(&SWEEP_AGE, seconds(groups.age_us));
        out.one(&SWEEP, seconds(groups.took_us));
    }
    out.one(&COLLECT, seconds(snapshot.took_us));
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_wire::control::*;

    /// What a manager of 40,000 units can tell at most where nothing is selected: each type in each state, each code,
    /// and as many timers, slices and units as are shown by default.
    fn full() -> Snapshot {
        let kinds = ["service", "socket", "mount", "automount", "swap", "device", "timer", "path"];
        let kinds = kinds.into_iter().chain(["slice", "scope", "target"]);
        let states = ["active", "reloading", "inactive", "failed", "activating", "deactivating"];
        let units = kinds.flat_map(|kind| {
            states.map(|state| UnitCount { kind: kind.into(), state: state.into(), count: 606 })
        });
        let codes: BTreeMap<String, u64> =
            (1..100).map(|code| (format!("WR-{code:04}"), 1)).collect();
        let timer = |at: usize| TimerRow {
            name: format!("t{at}.timer"),
            next_us: Some(1),
            last_us: Some(1),
            ..TimerRow::default()
        };
        let kinds = ["some", "full"];
        let pressures = ["cpu", "io", "memory"]
            .into_iter()
            .flat_map(|resource| kinds.map(|kind| (resource, kind)));
        let usage = Usage {
            cpu_us: Some(1),
            memory_bytes: Some(1),
            tasks: Some(1),
            read_bytes: Some(1),
            written_bytes: Some(1),
            pressure_us: pressures.map(|pressure| (pressure, 1)).collect(),
        };
        let group = |at: usize| (format!("g{at}"), usage.clone());
        let manager = MetricsAnswer {
            manager: ManagerMetrics { descriptors: Some(9), ..ManagerMetrics::default() },
            turns: Histogram { bounds_us: vec![1; 11], counts: vec![1; 12], sum_us: 9 },
            units: units.collect(),
            failures: codes.clone(),
            restarts: codes,
            boot: BootMetrics { startup_us: 1, ..BootMetrics::default() },
            timers_total: 8_000,
            timers: (0..50).map(timer).collect(),
            log: Some(LogCounts {
                lost: (0..14).map(|kind| (format!("k{kind}"), 1)).collect(),
                ..LogCounts::default()
            }),
            ..MetricsAnswer::default()
        };
        Snapshot {
            manager: Some(manager),
            groups: Some(Groups {
                slices: (0..40).map(group).collect(),
                slices_total: 8_000,
                units: (0..40).map(group).collect(),
                ..Groups::default()
            }),
            shutdown_us: Some(1),
            took_us: 1,
        }
    }

    #[test]
    fn there_are_less_than_2000_series_whatever_there_is() {
        let (text, series) = write(&full(), Format::Text);
        assert_eq!(series, text.lines().filter(|line| !line.starts_with('#')).count());
        assert!(series < 2_000, "{series}");
        // Nothing is left out of the account.
        let selected = [UNIT_STATE.name, UNIT_SINCE.name, UNIT_RESTARTS.name];
        for family in ALL.iter().filter(|family| !selected.contains(&family.name)) {
            assert!(
                text.contains(&format!("\n# TYPE {}", family.name)) || family.name == UP.name,
                "{family:?}"
            );
        }
        assert!(text.contains("warren_exporter_left_out{kind=\"timers\"} 7950\n"), "{text}");
    }

    #[test]
    fn a_manager_that_is_away_is_said_to_be_and_the_kernels_counts_go_on() {
        let away = Snapshot { manager: None, ..full() };
        let (text, _) = write(&away, Format::Text);
        assert!(text.contains("\nwarren_up 0\n") && text.contains("warren_slice_tasks{"), "{text}");
        assert!(!text.contains("warren_jobs") && !text.contains("warren_log_up"), "{text}");
        let nothing = write(&Snapshot::default(), Format::OpenMetrics);
        assert!(nothing.0.ends_with("# EOF\n") && nothing.1 == 2, "{nothing:?}");
    }

    #[test]
    fn a_selected_unit_has_its_state_and_why() {
        let row = UnitMetrics {
            name: "web@\"1\".service".into(),
            active: "failed".into(),
            code: "WR-0030".to_owned().into(),
            since_us: None,
            restarts: 2,
        };
        let manager = MetricsAnswer { rows_total: 3, rows: vec![row], ..MetricsAnswer::default() };
        let (text, _) =
            write(&Snapshot { manager: Some(manager), ..Snapshot::default() }, Format::Text);
        let state = "warren_unit_state{unit=\"web@\\\"1\\\".service\",state=\"failed\",code=\"WR-0030\"} 1\n";
        assert!(text.contains(state), "{text}");
        assert!(text.contains("warren_exporter_left_out{kind=\"units\"} 2\n"), "{text}");
        assert!(!text.contains("warren_unit_state_since"), "{text}");
    }
}
