//! What the exporters write is read back: JSON by a JSON parser, SVG by its own coordinates.

use super::*;
use crate::analysis::Analysis;
use crate::analysis::repeat::Repeats;
use crate::event::{Event, NO_UNIT, What};
use crate::record::{Damage, Recording, Unit};
use crate::sample::host;
use crate::words::{Active, Asked, Ending, Phase, Release, Sub, Subject, Work};
use serde_json::Value;
use std::collections::BTreeMap;

fn recordings() -> Vec<Recording> {
    let subjects = [(Subject::Boot, 60), (Subject::Shutdown, 150), (Subject::Boot, 0)];
    let mut all: Vec<Recording> =
        subjects.iter().map(|(subject, sets)| host(*subject, *sets, 3).record()).collect();
    // A recording that ends in the middle: jobs without an end, phases without one.
    let mut cut = all[0].clone();
    cut.events.truncate(cut.events.len() / 2);
    all.push(cut);
    let mut nothing = all[0].clone();
    nothing.events.clear();
    all.push(nothing);
    let mut hostile = all[1].clone();
    hostile.head.host = "</script><b>\u{2028}\u{0}\"'&".into();
    hostile.units.iter_mut().for_each(|unit| unit.name.push_str("</script>\\]]>\u{1}"));
    // Clocks that never were: times far ahead, back, and all the same.
    for time_us in [|_: usize| u64::MAX, |n| n as u64 * 1_000_003 % 977, |n| u64::MAX >> (n % 64)] {
        let mut odd = all[0].clone();
        let events = odd.events.iter_mut().enumerate();
        events.for_each(|(position, event)| event.time_us = time_us(position));
        all.push(odd);
    }
    all.push(hostile);
    all
}

/// A service that is started again every 100 ms, and never runs for long, so many times; and one that
/// needs it.
fn flapping(times: u32) -> Recording {
    let mut recording = host(Subject::Boot, 0, 1).record();
    recording.head.subject = Subject::Live;
    recording.units.push(Unit { id: 100, slice: NO_UNIT, name: "flaky.service".into() });
    recording.units.push(Unit { id: 101, slice: NO_UNIT, name: "needs.service".into() });
    let mut put = |time_us, unit, what| {
        recording.events.push(Event::new(10_000_000 + time_us, unit, NO_UNIT, what));
    };
    let state = |active, sub| What::State { active, sub, reason: 10 };
    let queued = |job, asked| What::JobQueued { job, work: Work::Start, asked, uid: 0, pid: 0 };
    put(0, 101, queued(1, Asked::Request));
    put(50, 101, What::JobEnded { job: 1, ending: Ending::Dependency, reason: 10 });
    for number in 0..times {
        let (at_us, job) = (u64::from(number) * 100_000, 10 + number);
        put(at_us, 100, state(Active::Activating, Sub::AutoRestart));
        put(at_us + 90_000, 100, queued(job, Asked::Restart));
        put(at_us + 90_000, 100, What::JobReleased { job, by: Release::AtOnce });
        let ending = if number % 3 == 0 { Ending::Failed } else { Ending::Done };
        put(at_us + 95_000, 100, What::JobEnded { job, ending, reason: 10 });
    }
    recording
}

#[test]
fn a_unit_has_one_row_of_a_picture_however_often_it_was_started() {
    let few = svg::svg(&Analysis::of(&flapping(10)));
    assert_eq!(
        few.matches(">flaky.service<").count(),
        2,
        "on the path, and with all others\n{few}"
    );
    assert!(few.contains("45.0 ms in 9"), "{few}");
    let many = svg::svg(&Analysis::of(&flapping(50_000)));
    assert!(many.len() < 400_000, "{} bytes", many.len());
}

#[test]
fn units_that_failed_are_counted_and_not_how_often_they_did() {
    let recording = flapping(30);
    let headline = show::headline(&Analysis::of(&recording));
    assert!(headline.ends_with("longest database.service 0.640 s, 2 failed."), "{headline}");
}

#[test]
fn what_never_ran_is_a_wait_with_a_mark_at_its_end() {
    let recording = flapping(1);
    let text = chrome::chrome(&Analysis::of(&recording));
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    let of = |name: &str| -> Vec<Value> {
        let events = trace["traceEvents"].as_array().expect("a list").iter();
        events.filter(|event| event["name"] == name).cloned().collect()
    };
    let waits: Vec<i64> = of("needs.service waits").iter().map(|event| ns(event, "ts")).collect();
    assert_eq!(waits[1] - waits[0], 50_000, "it waited until it was given up");
    let marks = of("needs.service start");
    assert_eq!((marks.len(), ns(&marks[0], "dur"), ns(&marks[0], "ts")), (1, 0, waits[1]));
    let picture = svg::svg(&Analysis::of(&recording));
    assert!(picture.contains(">never ran<"), "{picture}");
}

/// A reader puts what is on one thread into each other.
#[test]
fn phases_that_cross_are_on_two_threads() {
    let mut recording = host(Subject::Shutdown, 0, 3).record();
    let phase = |time_us, what| Event::new(time_us, NO_UNIT, NO_UNIT, what);
    let of = |begin, phase| match begin {
        true => What::PhaseBegin { phase, detail: 0 },
        false => What::PhaseEnd { phase, detail: 0 },
    };
    recording.events = vec![
        phase(10, of(true, Phase::Reload)),
        phase(20, of(true, Phase::Shutdown)),
        phase(20, of(true, Phase::StopUnits)),
        phase(40, of(false, Phase::Reload)),
        phase(90, of(false, Phase::Shutdown)),
    ];
    let text = chrome::chrome(&Analysis::of(&recording));
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list").iter();
    let phases = events.filter(|event| event["ph"] == "X" && event["pid"] == 1);
    let threads = phases.map(|event| (event["name"].as_str(), event["tid"].as_i64()));
    let expect = [("reload", 1), ("shutdown", 2), ("stop units", 2)];
    let expect = expect.map(|(name, thread)| (Some(name), Some(thread)));
    assert_eq!(threads.collect::<Vec<_>>(), expect);
}

#[test]
fn a_picture_has_the_length_of_every_row_and_who_let_it_go() {
    let recording = host(Subject::Boot, 0, 3).record();
    let picture = svg::svg(&Analysis::of(&recording));
    for part in ["640 ms", "180 ms, after local-fs.target", "833 ms", "after network.service"] {
        assert!(picture.contains(&format!(">{part}<")), "{part}: {picture}");
    }
}

#[test]
fn what_is_missing_is_told_in_every_form() {
    let mut recording = host(Subject::Shutdown, 3, 3).record();
    recording.events.push(Event::new(9, NO_UNIT, NO_UNIT, What::Lost { count: 1_234 }));
    let file = (recording, Damage { cut: true, blocks: 2, too_many: false });
    let analysis = Analysis::of_file(&file);
    let told = [
        "1,234 events were lost",
        "The recording is incomplete: its end is missing, 2 of its blocks are damaged.",
    ];
    let data = data::data(&[&analysis], None);
    for form in [table::table(&analysis), svg::svg(&analysis), chrome::chrome(&analysis), data] {
        assert!(told.iter().all(|text| form.contains(text)), "{form}");
    }
}

#[test]
fn a_shutdown_that_is_cut_does_not_say_that_the_system_is_down() {
    let mut recording = host(Subject::Shutdown, 3, 3).record();
    recording.events.truncate(recording.events.len() / 2);
    let headline = show::headline(&Analysis::of(&recording));
    assert!(headline.contains("UTC Shutdown took at least 0."), "{headline}");
}

#[test]
fn of_very_many_phases_the_longest_are_shown() {
    let mut recording = host(Subject::Boot, 0, 3).record();
    for number in 0..5_000u64 {
        let (began_us, took_us) = (20_000_000 + number * 100, 10 + number % 50);
        for (time_us, what) in [
            (began_us, What::PhaseBegin { phase: Phase::Reload, detail: 0 }),
            (began_us + took_us, What::PhaseEnd { phase: Phase::Reload, detail: 0 }),
        ] {
            recording.events.push(Event::new(time_us, NO_UNIT, NO_UNIT, what));
        }
    }
    let analysis = Analysis::of(&recording);
    let (picture, text) = (svg::svg(&analysis), table::table(&analysis));
    assert!(picture.contains("Phases, the longest 25 of 5,003") && picture.contains(">boot<"));
    assert!(text.contains("Phases of the manager, the longest 100 of 5,003\n"));
    assert!(
        text.lines().count() < 150 && text.contains(" 59 us    reload")
            || text.contains("59 us  reload")
    );
}

#[test]
fn very_many_phases_within_each_other_are_written() {
    let mut recording = host(Subject::Boot, 0, 3).record();
    // More than the number of a width can be.
    let begin = What::PhaseBegin { phase: Phase::Reload, detail: 0 };
    let nested = std::iter::repeat_n(Event::new(20_000_000, NO_UNIT, NO_UNIT, begin), 40_000);
    recording.events.splice(1..1, nested);
    assert!(table::table(&Analysis::of(&recording)).contains("the longest 100 of 40,003\n"));
}

#[test]
fn many_boots_are_told_with_the_least_the_median_and_the_most() {
    let mut repeats = Repeats::default();
    for own_us in [100_000, 300_000, 640_000] {
        let mut sample = host(Subject::Boot, 0, 1);
        sample.units[2].own_us = own_us;
        repeats.add(&Analysis::of(&sample.record()));
    }
    let recording = host(Subject::Boot, 0, 1).record();
    let analysis = Analysis::of(&recording);
    let text = table::repeated(&analysis, &repeats);
    let expect = "
The last boots, 3 of them
       least      median        most
      293 ms      493 ms      833 ms  total
      281 ms      481 ms      821 ms  critical path
     12.1 ms     12.1 ms     12.1 ms  the manager

       least      median        most    ran in   on path  unit
      100 ms      300 ms      640 ms         3         3  database.service
      400 us      400 us      400 us         3         3  local-fs.target
      500 us      500 us      500 us         3         3  multi-user.target
      180 ms      180 ms      180 ms         3         3  network.service
      300 us      300 us      300 us         3         0  sockets.target
";
    assert_eq!(text, table::table(&analysis) + expect);

    let trace: Value = serde_json::from_str(&chrome::repeated(&analysis, &repeats)).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let bar = events.iter().find(|event| event["name"] == "database.service start");
    let args = &bar.expect("it is there")["args"];
    let columns = ["least_us", "median_us", "most_us", "ran_in", "on_path_in"];
    assert_eq!(
        columns.map(|name| args[name].as_u64()),
        [100_000, 300_000, 640_000, 3, 3].map(Some)
    );

    let data: Value =
        serde_json::from_str(&data::data(&[&analysis], Some(&repeats))).expect("JSON");
    let run = &data["runs"][0];
    assert_eq!(run["repeats"]["rows"][2], serde_json::json!([100_000, 300_000, 640_000, 3, 3]));
}

#[test]
fn how_many_of_the_last_are_not_whole_is_told_in_text_and_trace() {
    let whole = host(Subject::Shutdown, 0, 1).record();
    let mut cut = whole.clone();
    cut.events.truncate(cut.events.len() / 2);
    let (whole, cut) = (Analysis::of(&whole), Analysis::of(&cut));
    let told = |all: &[&Analysis<'_>]| {
        let mut repeats = Repeats::default();
        all.iter().for_each(|one| repeats.add(one));
        let trace: Value = serde_json::from_str(&chrome::repeated(all[0], &repeats)).expect("JSON");
        let remark = trace["otherData"]["remarks_on_all"].as_str().unwrap_or_default().to_owned();
        (table::repeated(all[0], &repeats), remark)
    };
    let (text, remark) = told(&[&whole, &whole]);
    assert!(text.contains(", 2 of them\n       least") && remark.is_empty(), "{text}");
    let (text, remark) = told(&[&cut, &whole, &whole]);
    let expect =
        "1 of them is incomplete: total, critical path and the manager are those of the others.";
    assert!(text.contains(&format!(", 3 of them\n{expect}\n       least")), "{text}");
    assert_eq!(remark, expect);
    let (text, remark) = told(&[&cut, &cut]);
    let expect = "All of them are incomplete: total, critical path and the manager are not known.";
    assert!(text.contains(&format!("{expect}\n\n       least")), "{text}");
    assert!(!text.contains(" total\n") && remark == expect, "{text}");
}

/// What the kernel holds does not end, and of others it may not be known.
#[test]
fn a_process_that_is_not_known_is_no_last_process() {
    let mut down = host(Subject::Shutdown, 0, 1).record();
    let text = table::table(&Analysis::of(&down));
    assert!(text.contains(", KILLED (last process "), "{text}");
    let tells =
        |event: &Event| matches!(event.what(), Some(What::Exit { .. } | What::GroupEmpty { .. }));
    down.events.retain(|event| !tells(event));
    let text = table::table(&Analysis::of(&down));
    assert!(text.contains(", KILLED\n") && !text.contains("last process"), "{text}");
}

#[test]
fn nobody_leaves_the_path_in_a_table_for_a_boot_that_has_none() {
    let whole = host(Subject::Boot, 0, 1).record();
    let mut cut = whole.clone();
    let is_begin = |event: &Event| matches!(event.what(), Some(What::JobReleased { .. }));
    let begin = cut.events.iter().position(is_begin);
    cut.events.truncate(begin.expect("a job begins"));
    let (whole, cut) = (Analysis::of(&whole), Analysis::of(&cut));
    assert!(cut.path.steps.is_empty());
    for text in [table::compared(&whole, &cut), table::compared(&cut, &whole)] {
        assert!(text.contains("database.service\n") && !text.contains("on the critical"), "{text}");
    }
}

fn number(event: &Value, field: &str) -> f64 {
    event[field].as_f64().unwrap_or_else(|| panic!("{field} of {event}"))
}

/// From the text of a time in µs with three digits to ns.
fn ns(event: &Value, field: &str) -> i64 {
    (number(event, field) * 1e3).round() as i64
}

#[test]
fn no_event_of_a_thread_overlaps_another_without_lying_within() {
    for recording in recordings() {
        let text = chrome::chrome(&Analysis::of(&recording));
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("a list");
        let times: Vec<i64> = events.iter().map(|event| ns(event, "ts")).collect();
        assert!(times.is_sorted(), "events come in the order of their times");
        let mut open: BTreeMap<(u64, u64), Vec<i64>> = BTreeMap::new();
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let thread = (number(event, "pid") as u64, number(event, "tid") as u64);
            let (from, length) = (ns(event, "ts"), ns(event, "dur"));
            let stack = open.entry(thread).or_default();
            while stack.last().is_some_and(|end| *end <= from) {
                stack.pop();
            }
            assert!(stack.last().is_none_or(|end| from + length <= *end), "misplaced: {event}");
            stack.push(from + length);
        }
    }
}

#[test]
fn every_wait_ends_and_every_arrow_lies_on_bars() {
    for recording in recordings() {
        let text = chrome::chrome(&Analysis::of(&recording));
        let trace: Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("a list");
        let mut begun: BTreeMap<(String, String), i64> = BTreeMap::new();
        let key = |event: &Value| (event["cat"].to_string(), event["id"].to_string());
        for event in events {
            let at = ns(event, "ts");
            match event["ph"].as_str() {
                Some("b" | "s") => assert_eq!(begun.insert(key(event), at), None, "{event}"),
                Some("e" | "f") => assert!(begun.remove(&key(event)).expect("begun") <= at),
                _ => {}
            }
            if matches!(event["ph"].as_str(), Some("s" | "f")) {
                let on_bar = |bar: &&Value| {
                    let (from, until) = (ns(bar, "ts"), ns(bar, "ts") + ns(bar, "dur"));
                    (from == at || (from..until).contains(&at)) && bar["tid"] == event["tid"]
                };
                let bars =
                    events.iter().filter(|bar| bar["ph"] == "X" && bar["pid"] == event["pid"]);
                assert!(bars.filter(on_bar).count() >= 1, "{event}");
            }
        }
        assert!(begun.is_empty(), "{begun:?}");
    }
}

/// The value of an attribute of a line of SVG.
fn attribute(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split_once('"')?.0.parse().ok()
}

#[test]
fn no_text_of_a_picture_lies_on_another_or_leaves_it() {
    for recording in recordings() {
        let picture = svg::svg(&Analysis::of(&recording));
        let mut rows: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
        for line in picture.lines().filter(|line| line.starts_with("<text")) {
            let text = line.split_once('>').expect("closed").1.trim_end_matches("</text>");
            let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            let (x, y) = (attribute(line, "x").expect("x"), attribute(line, "y").expect("y"));
            let wide = if line.contains("class=\"h\"") { 8.0 } else { 6.7 };
            let row = rows.entry((y * 10.0) as i64).or_default();
            row.push((x, x + text.chars().count() as f64 * wide));
        }
        for (y, mut row) in rows {
            row.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(row.windows(2).all(|pair| pair[0].1 <= pair[1].0), "overlap at {y}: {row:?}");
            assert!(row.iter().all(|(from, until)| *from >= 0.0 && *until <= 1_200.0), "{row:?}");
        }
    }
}

#[test]
fn a_page_has_one_program_and_nothing_from_outside() {
    let recordings = recordings();
    let hostile = Analysis::of(recordings.last().expect("the hostile one"));
    for page in [html::html(&hostile), html::compared(&hostile, &hostile)] {
        assert_eq!(page.matches("<script").count(), 2, "the data and the program");
        assert_eq!(page.matches("</script>").count(), 2);
        for word in ["http://", "https://", "src=", "{{", "<b>"] {
            assert!(!page.contains(word), "{word}");
        }
    }
}

#[test]
fn the_data_of_a_page_is_json_with_columns_of_one_length() {
    for recording in recordings() {
        let analysis = Analysis::of(&recording);
        let text = data::data(&[&analysis], None);
        let data: Value = serde_json::from_str(&text).expect("JSON");
        let run = &data["runs"][0];
        let bars = run["bars"].as_object().expect("an object");
        for (name, column) in bars.iter().filter(|(name, _)| *name != "waited") {
            let length = column.as_array().expect("a column").len();
            assert_eq!(length, analysis.timeline.bars.len(), "{name}");
        }
        assert_eq!(run["names"].as_array().expect("names").len(), recording.units.len());
        assert_eq!(data["words"]["release"][2], "a unit");
    }
}

#[test]
fn the_text_says_where_the_time_went() {
    let recordings = recordings();
    let text = table::table(&Analysis::of(&recordings[2]));
    let expect = "\
2026-11-22 00:00:03 UTC The system is up. Boot took 0.833 s (critical path 0.821 s, manager \
12.1 ms): 5 units, longest database.service 0.640 s, 0 failed.
      821 ms   98.6 %  units of the critical path
     12.1 ms    1.4 %  the manager

Phases of the manager
        0 us      833 ms  boot (5)
        0 us     12.0 ms    plan (5)
     12.0 ms      821 ms    start units (5)

Critical path
          at      before    own time  unit
     12.0 ms       15 us      400 us  local-fs.target start
     12.4 ms       15 us      180 ms  network.service start
      192 ms       15 us      640 ms  database.service start
      832 ms       15 us      500 us  multi-user.target start

Who cost most
  without it    own time       slack  released      waited  unit
     -640 ms      640 ms        0 us         1      820 ms  database.service
     -180 ms      180 ms        0 us         1      180 ms  network.service
     -500 us      500 us        0 us         0        0 us  multi-user.target
     -400 us      400 us        0 us         2      860 us  local-fs.target
           -      300 us      820 ms         0        0 us  sockets.target
";
    assert_eq!(text, expect);
}

/// The page counts with the same endings.
#[test]
fn the_page_and_the_text_take_the_same_for_failures() {
    let good = Ending::ALL.iter().filter(|&&ending| !show::is_failure(ending));
    let numbers: Vec<String> = good.map(|ending| ending.number().to_string()).collect();
    let list = format!("![0, {}].includes(", numbers.join(", "));
    assert!(include_str!("../html/rows.js").contains(&list), "rows.js has not {list}");
    assert!(show::is_failure(Ending::Failed) && !show::is_failure(Ending::Unsupported));
}

/// A reload has no units: what differs is its phases.
#[test]
fn two_reloads_are_told_and_compared_by_their_phases() {
    let reload = |scan_us: u64, units: u64| {
        let mut recording = host(Subject::Boot, 0, 1).record();
        recording.head.subject = Subject::Reload;
        let begin = |phase| What::PhaseBegin { phase, detail: 0 };
        let end = |phase| What::PhaseEnd { phase, detail: units };
        recording.events = [
            (0, begin(Phase::Reload)),
            (0, begin(Phase::Scan)),
            (scan_us, end(Phase::Scan)),
            (scan_us, begin(Phase::Apply)),
            (scan_us + 31, end(Phase::Apply)),
            (scan_us + 31, end(Phase::Reload)),
        ]
        .map(|(after_us, what)| Event::new(10_000_000 + after_us, NO_UNIT, NO_UNIT, what))
        .into();
        recording
    };
    let (a, b) = (reload(98, 1), reload(43_800, 2_222));
    let text = table::compared(&Analysis::of(&a), &Analysis::of(&b));
    let expect = "\
A: 2026-11-22 00:00:10 UTC Reload took 129 us, 31 us of it in the manager's loop: 1 unit added, \
changed or removed.
B: 2026-11-22 00:00:10 UTC Reload took 43.8 ms, 31 us of it in the manager's loop: 2,222 units added, \
changed or removed.
B took 43.7 ms longer than A.

  difference           A           B  phase
    +43.7 ms      129 us     43.8 ms  reload
    +43.7 ms       98 us     43.8 ms  look for changed files
        0 us       31 us       31 us  swap the generation
";
    assert_eq!(text, expect);
    let same = table::compared(&Analysis::of(&a), &Analysis::of(&a));
    assert!(same.contains("\nB took as long as A.\n"), "{same}");
}

#[test]
fn times_and_dates_are_shown_as_people_write_them() {
    for (us, text) in [
        (0, "0 us"),
        (999, "999 us"),
        (4_100, "4.1 ms"),
        (12_250, "12.3 ms"),
        (99_949, "99.9 ms"),
        (99_950, "100 ms"),
        (842_499, "842 ms"),
        (999_499, "999 ms"),
        (999_500, "1.000 s"),
        (1_062_500, "1.063 s"),
        (1_533_000, "1.533 s"),
        (123_000_000, "2 min 3 s"),
    ] {
        assert_eq!(show::time(us), text);
    }
    let days = [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_709_164_800, "2024-02-29")];
    for (seconds, day) in days.into_iter().chain([(4_107_542_400, "2100-03-01")]) {
        assert_eq!(show::date(seconds * 1_000_000), format!("{day} 00:00:00 UTC"));
    }
    assert_eq!(show::count(1_234_567), "1,234,567");
}
