//! The page in a real browser, with 32,000 rows: it opens, pans, zooms, filters, explains and
//! compares without an error in the console, and its program computes what the library computes.
//!
//! Prints `NOT RUN` where no Chromium is installed. `CHART_SCREENSHOTS=DIRECTORY` keeps pictures.

mod devtools;
mod odd;

use devtools::Browser;
use serde_json::Value;
use warren_trace::analysis::Analysis;
use warren_trace::analysis::repeat::Repeats;
use warren_trace::export::{html, svg};
use warren_trace::record::Recording;
use warren_trace::sample::{Sample, SampleUnit, host};
use warren_trace::words::Subject;

/// Four units each, and some more: 32,085 rows.
const SETS: usize = 8_000;

/// A point of the plot, in pixels.
const PLOT: (f64, f64) = (800.0, 600.0);

/// A point of the names of units.
const NAMES: (f64, f64) = (100.0, 600.0);

/// Runs `test` with a browser; complains of what the console complains of.
fn in_browser(name: &str, test: impl FnOnce(&mut Browser)) {
    let Some(program) = devtools::installed() else {
        warren_testkit::not_run("no Chromium is installed");
        return;
    };
    let directory =
        std::env::temp_dir().join(format!("warren-chart-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let mut browser = Browser::start(&program, &directory);
    test(&mut browser);
    let complaints = std::mem::take(&mut browser.complaints);
    drop(browser);
    std::fs::remove_dir_all(&directory).expect("it is removed");
    assert!(complaints.is_empty(), "{complaints:#?}");
}

fn boot() -> Recording {
    host(Subject::Boot, SETS, 1).record()
}

/// From and until of the view, in µs.
fn view(browser: &mut Browser) -> (f64, f64) {
    let view = browser.eval("[page.state.view.from, page.state.view.until]");
    (view[0].as_f64().expect("a number"), view[1].as_f64().expect("a number"))
}

fn text(browser: &mut Browser, id: &str) -> String {
    let text = browser.eval(&format!("document.getElementById('{id}').innerText"));
    text.as_str().expect("a text").to_owned()
}

/// Whether something is painted: the canvas has more than a few colours.
fn colors(browser: &mut Browser) -> u64 {
    let count = browser.eval(
        "(() => { const c = document.getElementById('rows'); \
         const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
         return new Set(new Uint32Array(d.buffer)).size; })()",
    );
    count.as_u64().expect("a count")
}

#[test]
fn opens_pans_zooms_and_filters_32_000_rows() {
    in_browser("moves", |browser| {
        let recording = boot();
        browser.open("boot.html", &html::html(&Analysis::of(&recording)));
        assert!(text(browser, "headline").contains("Boot took 0.833 s"));
        assert!(text(browser, "count").contains("32,085 of 32,085"));
        assert!(colors(browser) > 8, "nothing is painted");
        browser.picture("boot.png");

        let whole = view(browser);
        browser.zoom_wheel(PLOT, -400.0);
        let near = view(browser);
        assert!(near.0 > whole.0 && near.1 < whole.1, "{whole:?} {near:?}");
        browser.eval("document.getElementById('scroll').focus()");
        browser.key("ArrowRight");
        let right = view(browser);
        assert!(right.0 > near.0 && (right.1 - right.0 - (near.1 - near.0)).abs() < 1.0);
        browser.mouse("mousePressed", PLOT);
        browser.mouse("mouseMoved", (PLOT.0 + 100.0, PLOT.1));
        browser.mouse("mouseReleased", (PLOT.0 + 100.0, PLOT.1));
        let dragged = view(browser);
        assert!(dragged.0 < right.0, "dragging to the right shows what was before");
        browser.key("0");
        assert_eq!(view(browser), whole);
        for delta in [-400.0, -4_000.0, 400.0] {
            browser.zoom_wheel(NAMES, delta);
            let (from, until) = view(browser);
            assert!(
                (from - whole.0).abs() < 0.01 && until != whole.1,
                "over the names: {from} to {until}"
            );
        }
        browser.key("0");

        browser.key("/");
        browser.write("nginx-77 service");
        let found = browser.eval(
            "makeRows(page.model, {search: 'nginx-77 service', \
            show: 'all', group: 'none', sort: 'name'}, page.open).found",
        );
        assert!(text(browser, "count").starts_with(&format!("{found} of")), "{found}");
        assert_eq!(found, 111, "77, 770 to 779 and 7700 to 7799");
        browser.key("Escape");
        browser.eval(
            "(() => { const g = document.getElementById('group'); g.value = 'none'; \
            const s = document.getElementById('search'); s.value = ''; \
            g.dispatchEvent(new Event('input')); })()",
        );
        assert!(browser.eval("page.state.rows.length").as_u64() > Some(32_085));
        browser.key("End");
        assert!(browser.eval("page.scroll.scrollTop").as_f64() > Some(600_000.0));
        assert!(colors(browser) > 3, "the last rows are painted");
        let took = browser.eval(
            "(() => { const t = performance.now(); \
            for (let n = 0; n < 50; n++) { page.state.view.from += 1; page.paintNow(); } \
            return (performance.now() - t) / 50; })()",
        );
        let groups = browser.eval(
            "(() => { document.getElementById('group').value = 'template'; \
            page.rebuild(); page.scroll.scrollTop = 0; const t = performance.now(); \
            for (let n = 0; n < 50; n++) { page.state.view.from += 1; page.paintNow(); } \
            return (performance.now() - t) / 50; })()",
        );
        println!("a frame took {took} ms with single rows, {groups} ms with all groups");
    });
}

/// What is painted of a chain, each unit after the one before, does not look as if all ran side by side,
/// however many of them lie in one column.
#[test]
fn how_many_run_at_once_is_no_matter_of_the_windows_width() {
    in_browser("at-once", |browser| {
        let unit = |number: usize, own_us, after: &[usize]| SampleUnit {
            name: format!("chain-{number}.service"),
            own_us,
            after: after.into(),
            ..SampleUnit::default()
        };
        let chain = |number: usize| match number {
            0 => unit(0, 25_000_000, &[]),
            // In between, some that take no time.
            _ => unit(number, [9, 0, 200][number % 3], &[number - 1]),
        };
        let mut units: Vec<SampleUnit> = (0..2_000).map(chain).collect();
        let (plan_us, latency_us, begin_us, subject) = (0, 0, 0, Subject::Boot);
        units.extend([2_000, 2_001].map(|number| unit(number, 25_000_100, &[])));
        let recording = Sample { subject, units, plan_us, latency_us, begin_us }.record();
        let analysis = Analysis::of(&recording);
        browser.open("at-once.html", &html::html(&analysis));
        let counts = browser.eval(
            "[150, 433, 1140, 5000].map((columns) => { const run = page.model.runs[0]; \
             const counts = density(run, 0, page.model.units, page.whole(), columns); \
             const some = density(run, 0, page.model.units, { from: 25000000, until: 25000200 }, columns); \
             const late = density(run, 0, page.model.units, { from: 25000101, until: 25090000 }, columns); \
             return [counts, some, late].map((all) => [all[0], largest(all, 0)]); })",
        );
        let at_each_width = serde_json::json!([[3, 3], [3, 3], [1, 1]]);
        assert_eq!(counts, Value::from(vec![at_each_width; 4]));
        browser.picture("at-once.png");
        let picture = svg::svg(&analysis);
        assert!(picture.contains("how many ran (at most 1 at once)"), "{picture}");
    });
}

#[test]
fn explains_a_unit_and_computes_what_the_library_computes() {
    in_browser("explains", |browser| {
        let recording = boot();
        let analysis = Analysis::of(&recording);
        browser.open("boot.html", &html::html(&analysis));
        let mut rows: Vec<u32> = (0..40).map(|n| n * 800).collect();
        rows.extend(analysis.path.steps.iter().map(|s| analysis.timeline.bars[s.bar as usize].row));
        for row in rows {
            let expression = format!("savedWithout(page.model.runs[0], page.model.words, {row})");
            let saved = browser.eval(&expression).as_f64().expect("a number");
            assert_eq!(saved as u64, analysis.saved_without_us(row), "{}", analysis.name(row));
        }
        browser.eval("page.chooseName('database.service')");
        let panel = text(browser, "panel");
        for part in [
            "Without it: \u{2212}321 ms",
            "network.service",
            "WR-0010 started by a start job",
            "slack",
        ] {
            assert!(panel.contains(part), "{part} in {panel}");
        }
        browser.eval("document.getElementById('scroll').focus()");
        browser.key("h");
        assert!(text(browser, "panel").starts_with("network.service"), "to what held it");
        browser.key("Enter");
        browser.picture("unit.png");
        let at = browser.eval(
            "(() => { const r = page.canvas.getBoundingClientRect(); const at = \
            page.state.rows.findIndex((row) => row.unit?.name === 'multi-user.target'); \
            return [r.left + NAME_WIDTH + 40, r.top + page.painter.rowTop(at) + 10]; })()",
        );
        let at = (at[0].as_f64().expect("x"), at[1].as_f64().expect("y"));
        browser.mouse("mouseMoved", at);
        let tip = text(browser, "tip");
        assert!(tip.contains("at last for database.service"), "{tip}");
        assert!(tip.contains("which waited for network.service"), "{tip}");
    });
}

#[test]
fn the_lane_above_the_rows_tells_what_the_manager_did() {
    in_browser("lane", |browser| {
        let recording = boot();
        browser.open("boot.html", &html::html(&Analysis::of(&recording)));
        let lane = browser.eval(
            "(() => { const { cpu, queue, away, most } = page.model.runs[0].lane; \
             return [cpu.length > 3, queue.length, most, away.length > 0]; })()",
        );
        assert_eq!(lane, serde_json::json!([true, 1, 3, true]));
        let panel = text(browser, "panel");
        for part in ["The manager itself", "CPU time", "3 at most", "the path waited"] {
            assert!(panel.contains(part), "{part} in {panel}");
        }
        let legend = text(browser, "legend");
        for part in ["the manager's CPU", "clients that wait for it", "the path waits for it"] {
            assert!(legend.contains(part), "{part} in {legend}");
        }
        let at = browser.eval(
            "(() => { const r = page.canvas.getBoundingClientRect(); const { lane } = page.model.runs[0]; \
             return [r.left + page.painter.x(lane.away[0][1]), r.top + TIMES_HEIGHT + 10]; })()",
        );
        let at = (at[0].as_f64().expect("x"), at[1].as_f64().expect("y"));
        browser.mouse("mouseMoved", at);
        let tip = text(browser, "tip");
        for part in
            ["The manager\n", "away for ", "could run", "3 waiting for ", "of one processor"]
        {
            assert!(tip.contains(part), "{part} in {tip}");
        }
        browser.picture("lane.png");
    });
}

#[test]
fn what_would_be_saved_is_computed_once() {
    in_browser("once", |browser| {
        browser.open("boot.html", &html::html(&Analysis::of(&boot())));
        let before = text(browser, "panel");
        browser.eval("savedWithout = () => { throw new Error('it is computed again'); }");
        browser.eval("document.getElementById('scroll').focus()");
        for key in ["Escape", "ArrowDown", "Escape"] {
            browser.key(key);
        }
        assert!(before.contains("What would be saved"), "{before}");
        assert_eq!(text(browser, "panel"), before);
    });
}

#[test]
fn phases_of_two_boots_are_aligned_and_changes_of_the_path_are_told() {
    in_browser("aligns", |browser| {
        let before = boot();
        let mut after = host(Subject::Boot, SETS, 1);
        (after.plan_us, after.units[2].own_us) = (30_000, 40_000);
        let slow = after.units.iter().position(|unit| unit.name == "test-nginx-7.service");
        after.units[slow.expect("it is there")].own_us = 500_000;
        let after = after.record();
        let (a, b) = (Analysis::of(&before), Analysis::of(&after));
        browser.open("align.html", &html::compared(&a, &b));
        let panel = text(browser, "panel");
        let (_, came) = panel.split_once("Came onto the critical path").expect("somebody came");
        let (came, left) = came.split_once("Left the critical path").expect("somebody left");
        assert!(
            came.contains("test-nginx-7.service") && left.contains("database.service"),
            "{panel}"
        );
        let begins = "page.model.runs.map((run) => run.at(run.spans.find(([text]) => text === 'start units')[2]))";
        assert_eq!(browser.eval(begins), serde_json::json!([12_000, 30_000]));
        let total = browser.eval("page.model.total");
        browser.eval("document.getElementById('scroll').focus()");
        browser.key("a");
        assert_eq!(browser.eval(begins), serde_json::json!([30_000, 30_000]));
        assert!(colors(browser) > 8, "nothing is painted");
        browser.picture("align.png");
        browser.eval("document.getElementById('align').click()");
        assert_eq!(browser.eval(begins), serde_json::json!([12_000, 30_000]));
        assert_eq!(browser.eval("page.model.total"), total);
        browser.eval("page.chooseName('database.service')");
        assert!(text(browser, "panel").contains("It left the critical path."));
    });
}

#[test]
fn many_boots_are_shown_by_whiskers() {
    in_browser("repeats", |browser| {
        let mut repeats = Repeats::default();
        for (seed, own_us) in [(1, 640_000), (2, 300_000), (3, 100_000)] {
            let mut sample = host(Subject::Boot, 200, seed);
            sample.units[2].own_us = own_us;
            repeats.add(&Analysis::of(&sample.record()));
        }
        let recording = host(Subject::Boot, 200, 1).record();
        let analysis = Analysis::of(&recording);
        browser.open("repeat.html", &html::repeated(&analysis, &repeats));
        let panel = text(browser, "panel");
        assert!(panel.contains("Least, median, most of 3 recordings"), "{panel}");
        assert!(panel.contains("Their times lie furthest apart"), "{panel}");
        browser.eval(
            "(() => { const sort = document.getElementById('sort'); sort.value = 'range'; \
             sort.dispatchEvent(new Event('input')); })()",
        );
        let first = browser.eval(
            "page.state.rows.slice(page.state.rows.findIndex((r) => r.label?.startsWith('All'))) \
             .find((r) => r.kind === 'unit').unit.name",
        );
        assert_eq!(first, Value::from("database.service"));
        browser.eval("page.chooseName('database.service')");
        let panel = text(browser, "panel");
        assert!(panel.contains("100 ms / 300 ms / 640 ms") && panel.contains("in 2"), "{panel}");
        browser.picture("repeat.png");
        // Of one recording there is nothing to be sorted by.
        browser.open("boot.html", &html::html(&analysis));
        assert_eq!(browser.eval("document.getElementById('range').hidden"), true);
        assert_eq!(browser.eval("document.getElementById('align').hidden"), true);
    });
}

#[test]
fn compares_two_boots_and_shows_kills_in_both_themes() {
    in_browser("compares", |browser| {
        let before = boot();
        let mut after = host(Subject::Boot, SETS + 1, 2);
        after.units[2].own_us /= 3;
        let after = after.record();
        let (a, b) = (Analysis::of(&before), Analysis::of(&after));
        browser.open("compare.html", &html::compared(&a, &b));
        let first = browser.eval(
            "page.state.rows.slice(page.state.rows.findIndex((r) => r.label?.startsWith('All'))) \
             .find((r) => r.kind === 'unit').unit.name",
        );
        assert_eq!(first, Value::from("database.service"), "the largest difference is first");
        browser.picture("compare.png");
        let broken = browser.eval(
            "[...document.querySelectorAll('#panel button.link')].map((link) => \
             [link.textContent, link.offsetHeight]).filter(([, height]) => height > 30)",
        );
        assert_eq!(broken, serde_json::json!([]), "names of this length fit in one line");
        browser.eval("page.chooseName('test-nginx-8000.service')");
        assert!(text(browser, "panel").contains("New: it is not in A."));

        let shutdown = host(Subject::Shutdown, SETS, 1).record();
        browser.open("shutdown.html", &html::html(&Analysis::of(&shutdown)));
        let killed = browser.eval("page.model.units.filter((unit) => unit.killed).length");
        assert!(text(browser, "headline").contains(&format!("{killed} killed")));
        browser.theme("dark");
        browser.eval("page.chooseName('database.service')");
        assert!(text(browser, "panel").contains("KILLED"));
        browser.picture("shutdown.png");
    });
}
