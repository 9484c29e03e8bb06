//! Charts of odd things: nothing, one unit with very many bars, half a shutdown, machines with
//! nothing in common, clocks that were never set, names that mean something elsewhere.

use super::{boot, devtools::Browser, in_browser, text};
use warren_trace::analysis::Analysis;
use warren_trace::analysis::repeat::Repeats;
use warren_trace::analysis::timeline::Bar;
use warren_trace::event::{Event, NO_UNIT, What};
use warren_trace::export::{html, show, svg};
use warren_trace::record::{Recording, Unit};
use warren_trace::sample::host;
use warren_trace::words::{Asked, Ending, Phase, Release, Subject, Work};

/// More bars, and more units, than a call in a browser takes arguments.
const MANY: u32 = 150_000;

/// Names as they may stand in a unit file, and worse.
const NAMES: [&str; 8] = [
    "dev-disk-by\\x2did-a\\x2d\\x2db.device",
    "</script><script>document.title='broken'</script>.service",
    "'\"quotes\"`${1}`&amp;<b>.service",
    "überall-\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{540d}\u{524d}-\u{1f407}\u{1f407}.service",
    "\u{202e}turned-around.service",
    "__proto__",
    "-1.slice",
    "{{data}}.service",
];

fn small(subject: Subject) -> Recording {
    host(subject, 20, 1).record()
}

/// Opens a chart and does with it what a reader may; the headline that it shows.
fn read(browser: &mut Browser, page: &str) -> String {
    browser.open("odd.html", page);
    let headline = text(browser, "headline");
    browser.eval("document.getElementById('scroll').focus()");
    for key in ["End", "Enter", "h", "+", "ArrowRight", "0", "g", "s", "c", "Home", "Enter"] {
        browser.key(key);
    }
    for x in [100.0, 400.0, 800.0] {
        browser.mouse("mouseMoved", (x, 400.0));
    }
    browser.eval(
        "page.model.units.slice(0, 40).forEach((unit) => { page.chooseName(unit.name); \
         page.enter(page.state.selected); page.paintNow(); })",
    );
    browser.eval("if (document.title === 'broken') throw new Error('a name became a program')");
    headline
}

/// Very many jobs, one after another, each of the unit that `unit` says.
fn many(unit: impl Fn(u32) -> u32) -> Recording {
    let mut recording = host(Subject::Boot, 0, 1).record();
    let mut time_us = recording.events.last().expect("it has some").time_us;
    for number in 0..MANY {
        let (job, asked) = (number + 1_000, Asked::Manager);
        let queued = What::JobQueued { job, work: Work::Restart, asked, uid: 0, pid: 0 };
        let ended = What::JobEnded { job, ending: Ending::Done, reason: 10 };
        let released = What::JobReleased { job, by: Release::AtOnce };
        for (after_us, what) in [(10, queued), (5, released), (40, ended)] {
            time_us += after_us;
            recording.events.push(Event::new(time_us, unit(number), NO_UNIT, what));
        }
    }
    recording
}

#[test]
fn a_unit_with_very_many_restarts_is_shown() {
    in_browser("restarts", |browser| {
        let headline = read(browser, &html::html(&Analysis::of(&many(|_| 1))));
        assert!(headline.contains("Boot took"), "{headline}");
        let bars = browser.eval("page.model.runs[0].barsOfRow[1].length");
        assert_eq!(bars, MANY + 1);
        browser.picture("restarts.png");
    });
}

/// A job that is given up before it could run, as when what its unit requires has failed.
#[test]
fn what_never_ran_is_seen_and_has_no_own_time() {
    in_browser("never", |browser| {
        let mut recording = small(Subject::Boot);
        recording.units.push(Unit { id: 900, slice: NO_UNIT, name: "needs.service".into() });
        let (job, asked) = (900, Asked::Request);
        let queued = What::JobQueued { job, work: Work::Start, asked, uid: 0, pid: 0 };
        let given_up = What::JobEnded { job, ending: Ending::Dependency, reason: 10 };
        let begin = recording.events[0];
        recording.events.insert(1, Event::new(begin.time_us + 1, 900, NO_UNIT, queued));
        recording.events.insert(9, Event::new(begin.time_us + 300_000, 900, NO_UNIT, given_up));
        browser.open("never.html", &html::html(&Analysis::of(&recording)));
        browser.eval("page.chooseName('needs.service')");
        browser.frame();
        let bad = browser.eval(
            "(() => { const at = page.state.rows.findIndex((row) => row.unit?.name === \
             'needs.service'); const probe = document.createElement('canvas').getContext('2d'); \
             probe.fillStyle = page.painter.colors.bad; probe.fillRect(0, 0, 1, 1); \
             const [r, g, b] = probe.getImageData(0, 0, 1, 1).data; const c = page.canvas; \
             const k = c.width / c.clientWidth; const row = c.getContext('2d').getImageData( \
             NAME_WIDTH * k, (page.painter.rowTop(at) + 1) * k, c.width - NAME_WIDTH * k, \
             18 * k).data; let found = 0; for (let p = 0; p < row.length; p += 4) \
             found += row[p] === r && row[p + 1] === g && row[p + 2] === b; return found; })()",
        );
        assert!(bad.as_u64() > Some(0), "its end is not marked");
        let panel = text(browser, "panel");
        assert!(panel.contains("never ran") && !panel.contains("own time"), "{panel}");
        let own = "page.model.units.find((unit) => unit.name === 'needs.service').own";
        assert_eq!(browser.eval(own), 0);
    });
}

#[test]
fn times_are_written_as_in_the_other_forms() {
    in_browser("times", |browser| {
        browser.open("times.html", &html::html(&Analysis::of(&small(Subject::Boot))));
        let times: Vec<u64> = (0..40)
            .flat_map(|power| {
                [1u64 << power, (1 << power) + 50, 10_000_050 * power, 62_500 * power]
            })
            .chain([12_250, 99_949, 99_950, 999_499, 999_500, 1_062_500, 119_999_500])
            .collect();
        let written: Vec<String> = times.iter().copied().map(show::time).collect();
        assert_eq!(browser.eval(&format!("{times:?}.map(timeText)")), serde_json::json!(written));
    });
}

#[test]
fn very_many_units_are_listed_one_by_one() {
    in_browser("units", |browser| {
        let mut recording = many(|number| number + 100);
        let named = |number| Unit { id: number, slice: NO_UNIT, name: format!("n{number}.mount") };
        recording.units.extend((100..100 + MANY).map(named));
        browser.open("units.html", &html::html(&Analysis::of(&recording)));
        browser.eval("page.open.add('n*.mount')");
        for group in ["template", "none"] {
            let rows = browser.eval(&format!(
                "document.getElementById('group').value = '{group}'; page.rebuild(); \
                 page.state.rows.length"
            ));
            assert!(rows.as_u64() > Some(MANY.into()), "{group}: {rows}");
        }
    });
}

#[test]
fn nothing_half_of_it_and_strangers_are_shown() {
    in_browser("strange", |browser| {
        let mut empty = small(Subject::Boot);
        empty.events.clear();
        let mut nobody = empty.clone();
        nobody.units.clear();
        nobody.edges.clear();
        let mut half = small(Subject::Shutdown);
        half.events.truncate(half.events.len() / 2);
        let mut tail = small(Subject::Shutdown);
        tail.events.drain(..tail.events.len() / 2);
        let mut unset = small(Subject::Boot);
        unset.head.anchor.realtime_us = 0;
        let mut late = small(Subject::Boot);
        late.head.anchor.realtime_us = u64::MAX;
        // The machine slept, or the clock of the recording went wrong, in the middle.
        let mut jumped = small(Subject::Boot);
        let middle = jumped.events.len() / 2;
        jumped.events[middle..].iter_mut().for_each(|event| event.time_us += 400_000_000_000);
        let mut back = small(Subject::Boot);
        back.events[middle..].iter_mut().for_each(|event| event.time_us /= 2);
        for recording in [&empty, &nobody, &half, &tail, &unset, &late, &jumped, &back] {
            let headline = read(browser, &html::html(&Analysis::of(recording)));
            let told =
                [" took ", " was not over after "].iter().any(|verb| headline.contains(verb));
            assert!(told, "{headline}");
        }
        let mut other = small(Subject::Boot);
        other.head.host = "another".into();
        other.units.iter_mut().for_each(|unit| unit.name.insert_str(0, "other-"));
        let one = small(Subject::Boot);
        for (a, b) in [(&one, &other), (&other, &empty), (&nobody, &one), (&half, &one)] {
            let page = html::compared(&Analysis::of(a), &Analysis::of(b));
            let headline = read(browser, &page);
            assert!(headline.contains("B: "), "{headline}");
        }
        browser.picture("strange.png");
    });
}

/// What was cut before anything began has no critical path that somebody could come onto or leave.
#[test]
fn nobody_leaves_the_path_of_a_boot_for_one_that_has_none() {
    in_browser("pathless", |browser| {
        let whole = small(Subject::Boot);
        let mut cut = whole.clone();
        let is_begin = |event: &Event| matches!(event.what(), Some(What::JobReleased { .. }));
        let begin = cut.events.iter().position(is_begin);
        cut.events.truncate(begin.expect("a job begins"));
        let (whole, cut) = (Analysis::of(&whole), Analysis::of(&cut));
        assert!(!whole.path.steps.is_empty() && cut.path.steps.is_empty());
        for (a, b) in [(&whole, &cut), (&cut, &whole)] {
            browser.open("pathless.html", &html::compared(a, b));
            let labels =
                "page.state.rows.filter((row) => row.kind === 'section').map((row) => row.label)";
            let labels = browser.eval(labels).to_string();
            assert!(!labels.contains("No longer on the critical path"), "{labels}");
            browser.eval("page.chooseName('database.service')");
            let panel = text(browser, "panel");
            assert!(
                panel.contains("against A.") && !panel.contains("the critical path."),
                "{panel}"
            );
        }
    });
}

/// The page computes of each unit what the library does.
fn check_units(browser: &mut Browser, analysis: &Analysis<'_>) {
    for row in 0..analysis.timeline.rows.len() as u32 {
        let saved = format!("savedWithout(page.model.runs[0], page.model.words, {row})");
        let saved = browser.eval(&saved).as_f64().expect("a number");
        assert_eq!(saved as u64, analysis.saved_without_us(row), "{}", analysis.name(row));
        let own = format!("ownOf(page.model.runs[0], {row})");
        let own_us = analysis.timeline.bars.iter().filter(|bar| bar.row == row);
        let own_us: u64 = own_us.map(Bar::own_us).sum();
        assert_eq!(browser.eval(&own).as_u64(), Some(own_us), "{}", analysis.name(row));
    }
}

/// The time for the end was over before the last stop was.
#[test]
fn a_shutdown_whose_time_was_over_is_computed_as_the_library_does() {
    in_browser("overdue", |browser| {
        let mut shutdown = small(Subject::Shutdown);
        let whole = Analysis::of(&shutdown);
        let last = whole.path.goal().and_then(|bar| whole.timeline.bars[bar as usize].job);
        let is_its_end = |event: &Event| matches!(event.what(), Some(What::JobEnded { job, .. }) if Some(job) == last);
        shutdown.events.retain(|event| !is_its_end(event));
        let analysis = Analysis::of(&shutdown);
        let goal = analysis.path.goal().expect("there is a path");
        assert!(analysis.timeline.is_over && analysis.timeline.bars[goal as usize].is_under_way());
        read(browser, &html::html(&analysis));
        check_units(browser, &analysis);
    });
}

/// Half of it is done when the shutdown comes, and what waits then had failed with what held it.
#[test]
fn a_boot_that_was_given_up_is_computed_as_the_library_does() {
    in_browser("given-up", |browser| {
        let mut boot = small(Subject::Boot);
        boot.events.truncate(boot.events.len() / 2);
        let last_us = boot.events.last().expect("something happened").time_us;
        let timeline = Analysis::of(&boot).timeline;
        let waiting = timeline.bars.iter().filter(|bar| bar.start.is_none()).take(5);
        let holder = timeline.bars.iter().find(|bar| bar.end.is_some()).expect("one has ended").row;
        let unit = |row: u32| boot.units[row as usize].id;
        let (ending, reason) = (Ending::Dependency, 0);
        let failed = waiting.filter_map(|bar| {
            let what = What::JobEnded { job: bar.job?, ending, reason };
            Some(Event::new(last_us, unit(bar.row), unit(holder), what))
        });
        let failed: Vec<Event> = failed.collect();
        assert!(!failed.is_empty(), "somebody waits");
        boot.events.extend(failed);
        let given_up = What::PhaseGivenUp { phase: Phase::Boot };
        boot.events.push(Event::new(last_us + 5_000_000, NO_UNIT, NO_UNIT, given_up));
        let analysis = Analysis::of(&boot);
        assert!(analysis.timeline.bars.iter().any(Bar::is_under_way));
        let headline = read(browser, &html::html(&analysis));
        assert!(headline.contains("The system did not come up. It was shut down after "));
        check_units(browser, &analysis);
        let open = analysis.path.goal().expect("it is under way");
        let name = analysis.name(analysis.timeline.bars[open as usize].row).to_owned();
        browser.eval(&format!("page.chooseName('{name}')"));
        browser.picture("given-up.png");
    });
}

#[test]
fn how_many_of_the_last_shutdowns_are_not_whole_is_told() {
    in_browser("cut", |browser| {
        let whole = small(Subject::Shutdown);
        let mut cut = whole.clone();
        cut.events.truncate(cut.events.len() / 2);
        let (whole, cut) = (Analysis::of(&whole), Analysis::of(&cut));
        for (other, total, remark) in [
            (&whole, true, "1 of them is incomplete: "),
            (&cut, false, "All of them are incomplete: "),
        ] {
            let mut repeats = Repeats::default();
            [&cut, other].into_iter().for_each(|one| repeats.add(one));
            browser.open("cut.html", &html::repeated(&cut, &repeats));
            let panel = text(browser, "panel");
            assert!(panel.contains("of 2 recordings") && panel.contains(remark), "{panel}");
            let rows = "[...document.querySelectorAll('#panel th')].map((one) => one.textContent)";
            let has_total = browser.eval(rows).to_string().contains("\"total\"");
            assert_eq!(has_total, total, "{panel}");
        }
    });
}

#[test]
fn odd_names_stay_text_and_stay_in_their_places() {
    in_browser("names", |browser| {
        let mut recording = small(Subject::Boot);
        for (unit, name) in recording.units.iter_mut().zip(NAMES) {
            unit.name = name.into();
        }
        let long = format!("{}.service", "very-long-name-".repeat(16));
        recording.units[NAMES.len()].name = long;
        recording.units[NAMES.len() + 1].name = "\u{732b}".repeat(80);
        let analysis = Analysis::of(&recording);
        read(browser, &html::html(&analysis));
        let names = browser.eval("page.model.units.map((unit) => unit.name)");
        let names = names.as_array().expect("a list");
        for name in NAMES {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        browser.picture("names.png");

        browser.show("names.svg", &svg::svg(&analysis));
        let outside = browser.eval(
            "[...document.querySelectorAll('text')].map((text) => [text.textContent, \
             text.getBBox()]).filter(([text, box]) => box.x < 0 || box.x + box.width > \
             (box.x < 330 && text.endsWith('\u{2026}') ? 330 : 1200)).map(([text]) => text)",
        );
        assert_eq!(outside, serde_json::json!([]), "names leave their place");
        browser.picture("names-svg.png");
    });
}

#[test]
fn panned_rows_keep_their_names() {
    in_browser("panned", |browser| {
        browser.open("boot.html", &html::html(&Analysis::of(&boot())));
        browser.eval(
            "(() => { document.getElementById('group').value = 'slice'; page.rebuild(); \
             page.open.add(page.state.rows.find((row) => row.kind === 'group').key); \
             page.rebuild(); page.zoom(1 / 40); })()",
        );
        browser.frame();
        browser.picture("slices.png");
        // Every text of the plot lies in it: none begins left of it, where it would lose its begin.
        let cut = browser.eval(
            "(() => { const cut = new Set(); const own = CanvasRenderingContext2D.prototype; \
             const fill = own.fillText; own.fillText = function (text, x, y) { \
             if (x < NAME_WIDTH && x + this.measureText(text).width > NAME_WIDTH) cut.add(text); \
             return fill.call(this, text, x, y); }; \
             for (let at = 0; at < 400; at++) { page.pan(0.013); page.paintNow(); } \
             own.fillText = fill; return [...cut]; })()",
        );
        assert_eq!(cut, serde_json::json!([]));
    });
}

#[test]
fn the_headline_breaks_between_words_only() {
    in_browser("headline", |browser| {
        let mut recording = boot();
        let longest = recording.units.iter_mut().find(|unit| unit.name == "database.service");
        longest.expect("the sample has it").name = "a-data-base-for-all-of-it.service".to_owned();
        browser.open("boot.html", &html::html(&Analysis::of(&recording)));
        let headline = text(browser, "headline");
        let pieces = browser.eval(
            "(() => { const broken = new Set(); const top = document.getElementById('headline'); \
             for (let width = 900; width >= 300; width -= 7) { top.style.width = `${width}px`; \
             const walker = document.createTreeWalker(top, NodeFilter.SHOW_TEXT); \
             while (walker.nextNode()) { const node = walker.currentNode; \
             for (const found of node.data.matchAll(/\\S+/g)) { const word = document.createRange(); \
             word.setStart(node, found.index); word.setEnd(node, found.index + found[0].length); \
             if (word.getClientRects().length > 1) broken.add(found[0]); } } } \
             return [...broken]; })()",
        );
        assert_eq!(pieces, serde_json::json!([]), "{headline}");
    });
}
