//! Recordings: what happened is in them, with what was waited for, and they survive the end.

mod lab;

use std::path::PathBuf;

use lab::recordings::{bar, live, recorded_by, recording, recording_in};
use lab::{Machine, until};
use serde_json::json;
use warren_trace::analysis::Analysis;
use warren_trace::analysis::timeline::{Bar, Sample};
use warren_trace::event::What;
use warren_trace::record::Damage;
use warren_trace::words::{Phase, Release, Work};

/// A FIFO among the output files: who reads it waits until somebody writes to it.
fn gate(m: &Machine, name: &str) -> PathBuf {
    let gate = m.out(name);
    let made = std::process::Command::new("mkfifo").arg(&gate).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo(1) makes a gate");
    gate
}

fn now_us() -> u64 {
    warren_sys::time::monotonic_ns() / 1000
}

/// The name of the unit that the bar waited for last.
fn held_by<'a>(analysis: &'a Analysis<'_>, bar: &Bar) -> Option<&'a str> {
    bar.start.and_then(|start| start.edge).map(|row| analysis.name(row))
}

/// The parts of the headline are the whole, and the path's bars hold each other.
#[track_caller]
fn check_path(analysis: &Analysis<'_>) {
    let total = analysis.timeline.end_us - analysis.timeline.begin_us;
    assert_eq!(analysis.path.parts.total_us(), total);
    for pair in analysis.path.steps.windows(2) {
        assert_eq!(analysis.links.holder[pair[1].bar as usize], Some(pair[0].bar));
        assert_eq!(pair[1].by, Release::Unit);
    }
}

#[test]
fn boot_reload_and_shutdown_are_kept_with_what_was_waited_for() {
    let deaf = "[Unit]\nAfter=first.service\n[Service]\nTimeoutStopSec=200ms\n\
                ExecStart=/bin/sh -c 'trap \"\" TERM; : >@D/out/deaf; while :; do sleep 9; done'";
    let units = [
        ("first.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true"),
        ("second.service", "[Unit]\nAfter=first.service\n[Service]\nExecStart=@P stay"),
        ("deaf.service", deaf),
        (
            "default.target",
            "[Unit]\nWants=first.service second.service deaf.service\n\
             After=first.service second.service deaf.service",
        ),
    ];
    let Some(m) = Machine::start("record", &units) else { return };
    let boot = until("the boot is kept", || recording(&m, "boot"));
    let analysis = Analysis::of(&boot);
    let samples = analysis.timeline.samples.iter();
    let cpu = samples.filter(|(_, sample)| matches!(sample, Sample::OwnCpu(_)));
    assert!(cpu.count() >= 2, "what the manager cost, from the begin to the end");
    check_path(&analysis);
    let second = bar(&analysis, "second.service", Work::Start);
    assert_eq!(held_by(&analysis, second), Some("first.service"));
    assert!(analysis.path.steps.len() >= 3, "{:?}", analysis.path);
    let id = |name: &str| boot.units.iter().find(|unit| unit.name == name).expect("named").id;
    let target = (id("default.target"), id("deaf.service"));
    assert!(boot.edges.contains(&(id("second.service"), id("first.service"))));
    assert!(boot.edges.contains(&target), "also of what was not waited for last");
    assert!(boot.units.is_sorted() && boot.units.iter().any(|unit| unit.name == "system.slice"));
    let phases: Vec<Phase> = analysis.timeline.spans.iter().map(|span| span.phase).collect();
    assert!(phases.starts_with(&[Phase::Boot]) && phases.contains(&Phase::StartUnits));
    assert_eq!(boot.reason(10), "started by a start job");

    m.write("second.service", "[Unit]\nAfter=first.service deaf.service\n[Service]\nExecStart=@P");
    m.call("ReloadConfiguration", &json!({}));
    let reload = until("the reload is kept", || recording(&m, "reload"));
    let timeline = Analysis::of(&reload).timeline;
    let cpu = timeline.samples.iter().filter(|(_, sample)| matches!(sample, Sample::OwnCpu(_)));
    let times_us: Vec<u64> = cpu.map(|(time_us, _)| *time_us).collect();
    let ends_us = (times_us.first(), times_us.last());
    assert_eq!(ends_us, (Some(&timeline.begin_us), Some(&timeline.end_us)), "what it cost");
    let spans = timeline.spans;
    let scan = spans.iter().find(|span| span.phase == Phase::Scan).expect("files are looked at");
    assert_eq!((scan.detail, scan.depth), (1, 1), "one file was read: {spans:?}");
    assert!(spans.iter().any(|span| span.phase == Phase::Apply));
    let enabled = spans.iter().find(|span| span.phase == Phase::Enabled).expect("it is looked at");
    assert_eq!((enabled.detail, enabled.depth), (0, 1), "{spans:?}");

    until("the shell is deaf", || m.out("deaf").exists().then_some(()));
    m.call("Leave", &json!({"how": "exit"}));
    let shutdown = until("the shutdown is kept", || recording(&m, "shutdown"));
    let analysis = Analysis::of(&shutdown);
    check_path(&analysis);
    let deaf = bar(&analysis, "deaf.service", Work::Stop);
    assert_eq!((deaf.kills, deaf.end.map(|end| end.reason)), (1, Some(44)), "{deaf:?}");
    assert!(deaf.last_pid > 0 && deaf.own_us() >= 200_000);
    let cpu_us = analysis.timeline.rows[deaf.row as usize].counters[0];
    assert!(cpu_us.is_some_and(|us| us > 0), "a shell has used some CPU time: {cpu_us:?}");
    assert!(analysis.path.steps.iter().any(|step| analysis.path.has(step.bar)));
    let goal = analysis.path.goal().expect("something was stopped");
    let names = analysis
        .path
        .steps
        .iter()
        .map(|step| analysis.name(analysis.timeline.bars[step.bar as usize].row).to_owned());
    assert!(names.clone().any(|name| name == "deaf.service"), "{:?}", names.collect::<Vec<_>>());
    assert!(analysis.timeline.bars[goal as usize].work.is_stopping());
}

/// One start never ends. Of what failed with another unit, that one was waited for.
const STUCK: [(&str, &str); 5] = [
    ("stuck.service", "[Service]\nType=oneshot\nExecStart=@P stay"),
    ("fails.service", "[Service]\nType=oneshot\nExecStart=@P wait:50 exit:1"),
    (
        "needs.service",
        "[Unit]\nRequires=fails.service\nAfter=fails.service\n[Service]\nExecStart=@P",
    ),
    ("later.service", "[Unit]\nAfter=needs.service\n[Service]\nType=oneshot\nExecStart=@P"),
    (
        "default.target",
        "[Unit]\nWants=stuck.service needs.service later.service\n\
         After=stuck.service needs.service later.service",
    ),
];

#[test]
fn a_boot_is_looked_at_while_it_goes_on_and_is_kept_as_what_it_was() {
    let Some(m) = Machine::start("record-stuck", &STUCK) else { return };
    m.wait_for("later.service", "inactive/dead");
    until("one start is left", || {
        let boot = recorded_by(&m, &m.call("Records", &json!({}))["under_way"]);
        let analysis = Analysis::of(&boot);
        let later = analysis.timeline.bars.iter().find(|b| analysis.name(b.row) == "later.service");
        later?.end?;
        let fails = bar(&analysis, "fails.service", Work::Start);
        let needs = bar(&analysis, "needs.service", Work::Start);
        assert!(needs.start.is_none() && needs.end.is_some(), "{needs:?}");
        let holder = |bar: &Bar| {
            let index = analysis.timeline.bars.iter().position(|other| other == bar)?;
            analysis.links.holder[index].map(|holder| &analysis.timeline.bars[holder as usize])
        };
        assert_eq!(holder(needs), Some(fails));
        assert_eq!(holder(later?), Some(needs));
        Some(())
    });
    let totals = m.totals();
    assert_eq!((&totals["state"], &totals["started"]), (&json!("initializing"), &json!(false)));
    let warren = lab::program_of("warren-cli", "warren");
    let chart = m.run(&[&warren, "chart"]).expect("it goes on");
    assert!(chart.contains(" Boot was not over after "), "{chart}");
    assert!(chart.contains(" stuck.service start, still under way\n"), "{chart}");
    let before = m.run(&[&warren, "chart", "boot~1"]).expect_err("there is none before it");
    assert!(before.contains("no recording of this boot"), "{before}");

    m.call("Leave", &json!({"how": "exit"}));
    let boot = until("the boot is kept", || recording(&m, "boot"));
    let analysis = Analysis::of(&boot);
    assert!(analysis.timeline.is_given_up && !analysis.is_whole());
    let goal = analysis.path.goal().expect("one start was under way");
    let stuck = bar(&analysis, "stuck.service", Work::Start);
    assert_eq!(&analysis.timeline.bars[goal as usize], stuck);
    assert!(stuck.is_under_way() && analysis.path.parts.units_us >= stuck.own_us());
    let headline = warren_trace::export::show::headline(&analysis);
    assert!(headline.contains("The system did not come up. It was shut down after "), "{headline}");
}

/// An end that files describe is overtaken by one that was asked for: its stops go on.
#[test]
fn a_stop_is_one_bar_though_its_shutdown_is_overtaken() {
    let slow = "[Service]\nExecStart=@P stay\nExecStop=/bin/sh -c 'read x <@D/out/gate'";
    let units = [("slow.service", slow), ("off.service", OFF)];
    let Some(mut m) = Machine::start("record-overtaken", &units) else { return };
    let gate = gate(&m, "gate");
    m.expect_job("start", "slow.service", "done");
    m.call("Job", &json!({"type": "start", "unit": "off.service", "wait": false}));
    m.wait_for("slow.service", "deactivating/stop");
    m.leave("exit");
    until("it is overtaken", || (m.totals()["stopping"] == true).then_some(()));
    std::fs::write(&gate, "go\n").expect("the stop command reads");
    let console = m.wait_for_end();
    assert!(!console.contains("job: canceled"), "{console}");
    let shutdown = recording(&m, "shutdown").expect("it is kept");
    let analysis = Analysis::of(&shutdown);
    let rows = analysis.timeline.bars.iter().filter(|bar| bar.work == Work::Stop);
    let slow: Vec<&Bar> = rows.filter(|bar| analysis.name(bar.row) == "slow.service").collect();
    assert!(matches!(slow.as_slice(), [slow] if slow.has_run()), "{slow:?}");
}

#[test]
fn processes_that_outlive_their_units_are_waited_for_in_a_phase_of_their_own() {
    let left = "[Service]\nKillMode=none\nExecStart=@P stay";
    let Some(mut m) = Machine::start("record-left", &[("left.service", left)]) else { return };
    m.expect_job("start", "left.service", "done");
    m.leave("exit");
    let console = m.wait_for_end();
    assert!(console.contains("still running after all units have stopped"), "{console}");
    let shutdown = recording(&m, "shutdown").expect("it is kept");
    let analysis = Analysis::of(&shutdown);
    let spans = &analysis.timeline.spans;
    let wait = spans.iter().find(|span| span.phase == Phase::LeftOver).expect("it was waited for");
    assert_eq!((wait.detail, wait.depth), (1, 2), "{spans:?}");
    assert_eq!(analysis.path.parts.outside_us, wait.until_us - wait.from_us);
    check_path(&analysis);
}

#[test]
fn the_last_minutes_are_cut_out_while_it_runs() {
    let units = [("a.service", "[Service]\nExecStart=@P stay")];
    let Some(m) = Machine::start("live", &units) else { return };
    m.expect_job("start", "a.service", "done");
    let since_us = now_us();
    m.expect_job("restart", "a.service", "done");
    let live = live(&m, since_us);
    let analysis = Analysis::of(&live);
    let restart = bar(&analysis, "a.service", Work::Restart);
    assert!(restart.end.is_some() && restart.last_pid > 0, "{restart:?}");
    let starts = analysis.timeline.bars.iter().filter(|bar| bar.work == Work::Start);
    assert_eq!(starts.count(), 1, "the restart's second half, and nothing of what was before");
    let queue = |what| matches!(what, Some(What::BusQueue { .. })).then_some(what);
    let queue: Vec<_> = live.events.iter().filter_map(|event| queue(event.what())).collect();
    assert!(queue.len() >= 3, "the restart and the cut itself waited for the loop: {queue:?}");
    assert!(queue.contains(&Some(What::BusQueue { depth: 1 })), "{queue:?}");

    let refused = m.try_call("Record", &json!({"name": "../../etc/passwd"}));
    let refused = refused.expect("it is answered").to_string();
    assert!(refused.contains("cannot be read"), "{refused}");
}

#[test]
fn a_recording_goes_on_over_the_death_of_the_manager() {
    let units = [
        ("a.service", "[Service]\nExecStart=@P stay"),
        ("slow.service", "[Service]\nExecStart=@P stay\nExecStop=/bin/sh -c 'read x <@D/out/gate'"),
    ];
    let Some(m) = Machine::start("record-killed", &units) else { return };
    let gate = gate(&m, "gate");
    until("the boot is kept", || recording(&m, "boot"));
    let since_us = now_us();
    m.expect_job("start", "a.service", "done");
    m.expect_job("start", "slow.service", "done");
    m.kill_manager();
    let live = live(&m, since_us);
    let analysis = Analysis::of(&live);
    assert!(bar(&analysis, "a.service", Work::Start).end.is_some(), "from before the kill");
    let spans = &analysis.timeline.spans;
    let span = |phase| spans.iter().find(|span| span.phase == phase).expect("it is told");
    let (gap, new) = (span(Phase::Recover), span(Phase::Restore));
    assert!(gap.from_us < new.from_us && gap.until_us == new.until_us, "{spans:?}");
    assert_eq!(new.depth, gap.depth + 1, "{spans:?}");

    m.call("Leave", &json!({"how": "exit"}));
    m.wait_for("a.service", "inactive/dead");
    m.kill_manager();
    m.wait_for("slow.service", "deactivating/stop");
    std::fs::write(&gate, "go\n").expect("the stop command reads");
    let shutdown = until("the shutdown is kept", || recording(&m, "shutdown"));
    let analysis = Analysis::of(&shutdown);
    let stops = |unit: &str| bar(&analysis, unit, Work::Stop).end.is_some();
    assert!(stops("a.service") && stops("slow.service"), "before and after the kill");
    let began = analysis.timeline.spans.iter().filter(|span| span.phase == Phase::Shutdown);
    assert_eq!(began.count(), 1);
}

/// What lies on the last file system is complete up to its unmount: what services wrote at their stop,
/// and the recording of it.
#[test]
fn a_recording_on_a_file_system_of_its_own_is_kept_before_it_goes() {
    let Some(mut m) = Machine::start("record-mounted", &[]) else { return };
    let (disk, place) = (m.directory.join("disk"), m.directory.join("records"));
    std::fs::create_dir(&disk).expect("a directory can be made");
    let place = place.to_str().expect("the path is text").to_owned();
    let escaped = place.trim_start_matches('/').replace('-', "\\x2d").replace('/', "-");
    let mount = format!("{escaped}.mount");
    m.write(&mount, &format!("[Mount]\nWhat=@D/disk\nWhere={place}\nType=none\nOptions=bind"));
    let writer = format!(
        "[Unit]\nRequiresMountsFor={place}\n[Service]\nExecStart=@P stay\n\
         ExecStop=@P append:{place}/log:last wait:50 append:{place}/log:words"
    );
    m.write("writer.service", &writer);
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "writer.service", "done");
    assert_eq!(m.state(&mount), "active/mounted");
    m.leave("poweroff");
    let console = m.wait_for_end();
    let said = std::fs::read_to_string(disk.join("log")).unwrap_or_default();
    assert_eq!(said, "last\nwords\n", "{console}");
    let kept = recording_in(&disk, "shutdown");
    let (shutdown, damage) = kept.unwrap_or_else(|| panic!("it is lost: {console}"));
    // It was written while the shutdown went on: nothing of it is missing but its end.
    assert_eq!(Damage { cut: false, ..damage }, Damage::default());
    let analysis = Analysis::of(&shutdown);
    let stop = bar(&analysis, "writer.service", Work::Stop);
    assert!(stop.end.is_some() && stop.own_us() >= 50_000, "{stop:?}\n{console}");
    let unmount = bar(&analysis, &mount, Work::Stop);
    assert!(unmount.queued <= stop.end.expect("looked at above").at, "{unmount:?}");
}

/// The end as files describe it: its action comes from the last of their units.
const OFF: &str = "[Unit]\nDefaultDependencies=no\nRequires=shutdown.target\n\
                   After=shutdown.target\nSuccessAction=exit-force\n\
                   [Service]\nType=oneshot\nExecStart=/bin/true";

/// A stop that was asked for before the shutdown becomes that of the shutdown.
#[test]
fn jobs_that_were_under_way_before_a_recording_have_bars_in_it() {
    let slow = |gate: &str| {
        let stop = format!("ExecStop=/bin/sh -c 'read x <@D/out/{gate}'");
        format!("[Unit]\nAfter=base.service\n[Service]\nExecStart=@P stay\n{stop}")
    };
    let (first, second) = (slow("first"), slow("second"));
    let units = [
        ("base.service", "[Service]\nExecStart=@P stay"),
        ("first.service", &*first),
        ("second.service", &*second),
        ("off.service", OFF),
    ];
    let Some(m) = Machine::start("record-before", &units) else { return };
    let gates = ["first", "second"].map(|name| gate(&m, name));
    m.expect_job("start", "base.service", "done");
    for unit in ["first.service", "second.service"] {
        m.expect_job("start", unit, "done");
        m.call("Job", &json!({"type": "stop", "unit": unit, "wait": false}));
        m.wait_for(unit, "deactivating/stop");
    }
    let since_us = now_us();
    std::fs::write(&gates[0], "go\n").expect("the stop command reads");
    m.wait_for("first.service", "inactive/dead");
    let stretch = live(&m, since_us);
    let analysis = Analysis::of(&stretch);
    assert_eq!(analysis.timeline.begin_us, since_us);
    let [over, goes_on] =
        ["first.service", "second.service"].map(|unit| bar(&analysis, unit, Work::Stop));
    assert_eq!(over.start.map(|start| start.at.time_us), Some(since_us), "{over:?}");
    assert!(over.end.is_some() && goes_on.start.is_some() && goes_on.end.is_none());

    m.call("Job", &json!({"type": "start", "unit": "off.service", "wait": false}));
    std::fs::write(&gates[1], "go\n").expect("the stop command reads");
    let shutdown = until("the shutdown is kept", || recording(&m, "shutdown"));
    let analysis = Analysis::of(&shutdown);
    check_path(&analysis);
    let slow = bar(&analysis, "second.service", Work::Stop);
    assert_eq!(slow.start.map(|start| start.at.time_us), Some(analysis.timeline.begin_us));
    assert!(slow.end.is_some(), "{slow:?}");
    let base = bar(&analysis, "base.service", Work::Stop);
    assert_eq!(held_by(&analysis, base), Some("second.service"));
    let holder = analysis.timeline.bars.iter().position(|bar| bar == base);
    let holder = holder.and_then(|base| analysis.links.holder[base]);
    assert_eq!(holder.map(|bar| &analysis.timeline.bars[bar as usize]), Some(slow));
    assert!(!analysis.timeline.bars.iter().any(|bar| analysis.name(bar.row) == "first.service"));
}

/// A manager that comes back knows nothing else of it than what is recorded.
#[test]
fn a_shutdown_that_files_describe_goes_on_over_the_death_of_the_manager() {
    let slow = "[Service]\nExecStart=@P stay\nExecStop=/bin/sh -c 'read x <@D/out/gate'";
    let units = [("slow.service", slow), ("off.service", OFF)];
    let Some(mut m) = Machine::start("record-files", &units) else { return };
    let gate = gate(&m, "gate");
    m.expect_job("start", "slow.service", "done");
    let began_us = now_us();
    m.call("Job", &json!({"type": "start", "unit": "off.service", "wait": false}));
    m.wait_for("slow.service", "deactivating/stop");
    assert!(m.kill_manager());
    m.wait_for("slow.service", "deactivating/stop");
    // Given up, it is none, also for the manager that found it.
    m.expect_job("stop", "shutdown.target", "done");
    std::fs::write(&gate, "go\n").expect("the stop command reads");
    until("it is over", || (m.totals()["jobs"] == 0).then_some(()));
    m.expect_job("start", "slow.service", "done");

    let again_us = now_us();
    m.call("Job", &json!({"type": "start", "unit": "off.service", "wait": false}));
    m.wait_for("slow.service", "deactivating/stop");
    assert!(m.kill_manager());
    m.wait_for("slow.service", "deactivating/stop");
    until("it is told who is waited for", || {
        m.console().contains("waiting for slow.service").then_some(())
    });
    std::fs::write(&gate, "go\n").expect("the stop command reads");
    let console = m.wait_for_end();
    let last = console.lines().find(|line| line.contains("The system is down."));
    let last = last.unwrap_or_else(|| panic!("{console}"));
    assert!(last.contains("longest slow.service"), "{last}");
    let shutdown = recording(&m, "shutdown").expect("it is kept");
    let analysis = Analysis::of(&shutdown);
    check_path(&analysis);
    let slow = bar(&analysis, "slow.service", Work::Stop);
    assert!(slow.end.is_some(), "{slow:?}");
    assert!(began_us < again_us && again_us <= analysis.timeline.begin_us);
}

/// It had ended before there was another manager, which cannot make it have taken longer.
#[test]
fn who_ends_while_there_is_no_manager_took_until_then() {
    let slow = "[Service]\nExecStart=/bin/sh -c 'trap \"\" TERM; : >@D/out/deaf; exec sleep 99'";
    let Some(mut m) = Machine::start("record-gap", &[("slow.service", slow)]) else { return };
    m.expect_job("start", "slow.service", "done");
    until("it ignores SIGTERM", || m.out("deaf").exists().then_some(()));
    m.leave("poweroff");
    // Each time it takes longer until there is another one.
    for _ in 0..3 {
        m.wait_for("slow.service", "deactivating/stop-sigterm");
        assert!(m.kill_manager());
    }
    m.wait_for("slow.service", "deactivating/stop-sigterm");
    let pid = m.main_pid("slow.service").expect("it runs").to_string();
    assert!(m.kill_manager());
    m.run(&["kill", "-KILL", &pid]).expect("it is there");
    m.wait_for_end();
    let shutdown = recording(&m, "shutdown").expect("it is kept");
    let analysis = Analysis::of(&shutdown);
    check_path(&analysis);
    let ended_us = bar(&analysis, "slow.service", Work::Stop).end.map(|end| end.at.time_us);
    let last = analysis.timeline.spans.iter().rfind(|span| span.phase == Phase::Restore);
    let (ended_us, back_us) = (ended_us.expect("it ended"), last.expect("one came back").from_us);
    assert!(ended_us < back_us, "{ended_us} {back_us}");
    assert!(analysis.path.parts.manager_us >= back_us - ended_us, "{:?}", analysis.path.parts);
}

#[test]
fn recordings_of_one_subject_are_drawn_together() {
    let Some(m) = Machine::start("record-many", &[]) else { return };
    for name in ["a.service", "b.service"] {
        m.write(name, "[Service]\nExecStart=@P stay");
        m.call("ReloadConfiguration", &json!({}));
    }
    let warren = lab::program_of("warren-cli", "warren");
    let chart = |words: &[&str]| m.run(&[&[&warren, "chart"], words].concat());
    let text = until("both are kept", || chart(&["reload", "--repeat", "5"]).ok());
    assert!(text.contains("\nThe last reloads, 2 of them\n"), "{text}");
    let before = chart(&["reload~1", "--repeat", "5"]).expect_err("there is one alone");
    assert!(before.contains("no reload before this one is kept"), "{before}");

    let newest = until("their names are told", || chart(&["--list"]).ok());
    let newest = newest.split_whitespace().rfind(|word| word.starts_with("reload-"));
    let newest = newest.expect("it is listed");
    std::fs::write(m.directory.join("records").join(newest), "damaged").expect("it is there");
    let few = chart(&["reload", "--repeat", "5"]).expect_err("one can be read");
    assert!(few.contains(&format!("skipping {newest}: ")), "{few}");
    assert!(few.contains("fewer than two recordings of a reload can be read"), "{few}");
    m.write("c.service", "[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));
    let text = until("another is kept", || chart(&["reload", "--repeat", "5"]).ok());
    assert!(text.contains("\nThe last reloads, 2 of them\n"), "{text}");
}

/// A path with a link is no path below what is mounted, by its text.
#[test]
fn a_recording_below_a_link_is_kept_before_its_file_system_goes() {
    let Some(mut m) = Machine::start("record-link", &[]) else { return };
    let (disk, data) = (m.directory.join("disk"), m.directory.join("data"));
    [&disk, &data].iter().for_each(|path| std::fs::create_dir(path).expect("it can be made"));
    let mount = data.to_str().expect("the path is text").trim_start_matches('/');
    let mount = format!("{}.mount", mount.replace('-', "\\x2d").replace('/', "-"));
    m.write(&mount, "[Mount]\nWhat=@D/disk\nWhere=@D/data\nType=none\nOptions=bind");
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", &mount, "done");
    until("the boot is kept", || recording(&m, "boot"));
    until("the reload is kept", || recording(&m, "reload"));
    let records = m.directory.join("records");
    std::fs::rename(&records, m.directory.join("records-before")).expect("it can be moved");
    std::os::unix::fs::symlink(&data, &records).expect("a link can be made");
    m.write("new.service", "[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));
    until("another reload is kept behind the link", || recording_in(&disk, "reload"));
    m.leave("poweroff");
    let console = m.wait_for_end();
    let (_, damage) =
        recording_in(&disk, "shutdown").unwrap_or_else(|| panic!("it is lost: {console}"));
    assert_eq!(Damage { cut: false, ..damage }, Damage::default());
}
