//! The page in a real browser, with 5,000 containers of 8 units: it is painted and updated in time, all of it can be
//! reached with the keyboard, at 800 and 1,500 pixels, light and dark, and axe finds no fault.
//!
//! Prints `NOT RUN` where no Chromium is installed, and of axe where `AXE` does not name a file (scripts/axe has it).
//! `WEB_SCREENSHOTS=DIRECTORY` keeps pictures, `WEB_PROGRAM=PROGRAM` looks at another warren-web.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "charts use all of it")]
#[path = "../../../trace/tests/browser/devtools.rs"]
mod devtools;

use common::Web;
use devtools::Browser;
use serde_json::{Value, json};
use warren_testkit::{Scratch, wait_for, wait_until};

/// Of 8 units each.
const CONTAINERS: usize = 5_000;

/// Widths of windows, in pixels.
const WIDTHS: [u32; 2] = [800, 1500];

const TOKEN: &str = "0123456789abcdefghijklmnop";

/// What is shown of each view.
const VIEWS: [&str; 13] = [
    "overview",
    "trouble",
    "jobs",
    "units",
    "containers",
    "slices",
    "templates",
    "timers",
    "sessions",
    "charts",
    "plan",
    "questions",
    "unit/c0003-db.service",
];

struct Page<'a> {
    browser: &'a mut Browser,
    web: &'a Web,
}

impl Page<'_> {
    fn size(&mut self, width: u32) {
        let metrics =
            json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.browser.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    fn media(&mut self, scheme: &str, motion: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": motion}]);
        self.browser.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Forces the system's colours, for who needs a high contrast.
    fn force_colors(&mut self) {
        let features = json!([{"name": "forced-colors", "value": "active"}]);
        self.browser.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Loads a view anew, and waits until it is painted.
    fn load(&mut self, view: &str) {
        self.browser.call("Page.navigate", json!({"url": "about:blank"}));
        self.wait("location.href === 'about:blank'");
        let url = format!("http://{}/#/{view}", self.web.address);
        self.browser.call("Page.navigate", json!({ "url": url }));
        self.wait("window.page && page.painted !== null");
        self.browser.frame();
    }

    /// Goes to a view of the loaded page.
    fn go(&mut self, view: &str) {
        self.browser.eval(&format!("location.hash = '#/{view}'; true"));
        self.browser.frame();
    }

    /// Waits until an expression is true; the page may be another one meanwhile.
    #[track_caller]
    fn wait(&mut self, expression: &str) {
        let browser = &mut self.browser;
        let asked = json!({"expression": format!("Boolean({expression})"), "returnByValue": true});
        wait_until(expression, || {
            let told = browser.try_call("Runtime.evaluate", asked.clone());
            told.is_ok_and(|told| told["result"]["value"] == true)
        });
    }

    /// Presses a key that is no character.
    fn press(&mut self, key: &str, code: u32, shift: bool) {
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
                "modifiers": if shift { 8 } else { 0 }});
            self.browser.call("Input.dispatchKeyEvent", key);
        }
    }

    fn tab(&mut self) {
        self.press("Tab", 9, false);
    }

    fn enter(&mut self) {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
            self.browser.call("Input.dispatchKeyEvent", key);
        }
    }

    /// What has the focus, as its tag and text or label.
    fn focused(&mut self) -> String {
        let text = self.browser.eval(
            "(() => { const n = document.activeElement; return `${n.tagName} ${n.getAttribute('aria-label') || \
             n.innerText || n.id}`; })()",
        );
        text.as_str().expect("a text").trim().to_owned()
    }

    /// Goes on by the tabulator until something has the focus.
    fn tab_to(&mut self, what: &str) {
        let mut seen = Vec::new();
        for _ in 0..400 {
            self.tab();
            let focused = self.focused();
            if focused.contains(what) {
                return;
            }
            seen.push(focused);
        }
        panic!("{what} cannot be reached by the keyboard: {seen:#?}");
    }

    fn picture(&mut self, name: &str) {
        let Some(directory) = std::env::var_os("WEB_SCREENSHOTS") else { return };
        self.browser.frame();
        let answer = self.browser.call("Page.captureScreenshot", json!({"format": "png"}));
        let bytes = warren_trace::base64::decode(answer["data"].as_str().expect("base64"));
        std::fs::write(std::path::Path::new(&directory).join(name), bytes.expect("base64"))
            .expect("written");
    }
}

/// Runs `test` with a browser beside a daemon; complains of what the console complains of.
fn in_browser(name: &str, arguments: &[&str], test: impl FnOnce(&mut Page<'_>)) {
    let Some(program) = devtools::installed() else {
        warren_testkit::not_run("no Chromium is installed");
        return;
    };
    let scratch = Scratch::new(&format!("web-browser-{name}"));
    let web = Web::start(&format!("web-page-{name}"), CONTAINERS, arguments);
    let mut browser = Browser::start(&program, &scratch.0);
    // A window that nobody sees has no focus by itself.
    browser.call("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
    test(&mut Page { browser: &mut browser, web: &web });
    let complaints = std::mem::take(&mut browser.complaints);
    drop(browser);
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// The median, and the largest.
fn spread(numbers: &Value) -> (f64, f64) {
    let mut numbers: Vec<f64> =
        numbers.as_array().expect("numbers").iter().filter_map(Value::as_f64).collect();
    numbers.sort_by(f64::total_cmp);
    (numbers[numbers.len() / 2], numbers[numbers.len() - 1])
}

#[test]
fn forty_thousand_units_are_painted_and_updated() {
    in_browser("size", &[], |page| {
        page.web.world().changing = 200;
        for (by, cells) in [("containers", CONTAINERS), ("units", CONTAINERS * 8)] {
            page.load(&format!("overview?by={by}"));
            assert_eq!(page.browser.eval("page.names.length"), cells);
            let painted = page.browser.eval("page.painted").as_f64().expect("a time");
            page.browser.eval("page.took = []; true");
            page.wait("page.took.length >= 6");
            let (median, most) = spread(&page.browser.eval("page.took"));
            println!(
                "{cells} cells: painted after {painted:.0} ms, an update took {median:.1} ms, at most {most:.1} ms"
            );
            let colors = page.browser.eval(
                "(() => { const c = document.querySelector('.strip canvas'); const d = c.getContext('2d')\
                 .getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size; })()",
            );
            assert!(colors.as_u64() > Some(3), "states have colours: {colors}");
        }
        page.load("units?sort=state");
        let painted = page.browser.eval("page.painted").as_f64().expect("a time");
        page.browser.eval("page.took = []; true");
        page.wait("page.took.length >= 6");
        let (median, most) = spread(&page.browser.eval("page.took"));
        println!(
            "a table: painted after {painted:.0} ms, an update took {median:.1} ms, at most {most:.1} ms"
        );
    });
}

#[test]
fn all_of_it_is_reached_with_the_keyboard() {
    let scratch = Scratch::new("web-keys-token");
    let file = scratch.write("token", TOKEN);
    in_browser("keys", &["--token-file", &file, "--allow-actions"], |page| {
        // The form of a page that asks for a token.
        page.browser.call(
            "Page.navigate",
            json!({"url": format!("http://{}/#/overview", page.web.address)}),
        );
        page.wait("document.getElementById('token') === document.activeElement");
        page.browser.frame();
        page.browser.write("wrong");
        page.wait("document.getElementById('token').value === 'wrong'");
        page.enter();
        page.wait("document.getElementById('said').textContent.includes('not the token')");
        page.browser.complaints.clear();
        page.browser.eval("document.getElementById('token').value = ''; true");
        page.browser.write(TOKEN);
        page.wait("document.getElementById('token').value.length > 20");
        page.enter();
        page.wait("window.page && page.painted !== null");
        page.browser.complaints.clear();

        // The strip: to the failed container, and into it.
        page.tab();
        assert!(
            page.focused().contains("Skip to the content"),
            "the first stop: {}",
            page.focused()
        );
        page.tab_to("Heat strip of 5000 containers");
        page.browser.key("n");
        page.wait("document.getElementById('strip-under').textContent.startsWith(\"Container 'c0003': failed\")");
        page.press("ArrowLeft", 37, false);
        page.press("ArrowLeft", 37, false);
        page.wait("document.getElementById('live').textContent.startsWith(\"Container 'c0001': starting\")");
        page.press("End", 35, false);
        page.wait("document.getElementById('live').textContent.includes('5,000 of 5,000')");
        page.press("Home", 36, false);
        page.browser.key("n");
        page.enter();
        page.wait("document.querySelector('h1').textContent === \"Container 'c0003'\"");
        page.wait("document.querySelectorAll('tbody tr').length === 8");

        // The unit, by a link in the table; its page says why.
        page.tab_to("A c0003-db.service");
        page.enter();
        page.wait("document.querySelector('h1').textContent === 'c0003-db.service'");
        page.wait("document.querySelector('main').innerText.includes('the main process ended with a status')");
        page.wait("document.querySelector('main').innerText.includes('No line yet.')");

        // An action is asked for, refused by Escape and by Cancel, then done.
        page.tab_to("BUTTON Restart");
        page.enter();
        page.wait("document.getElementById('question').open");
        page.press("Escape", 27, false);
        page.wait("!document.getElementById('question').open");
        page.enter();
        page.wait("document.getElementById('question').open");
        assert!(page.focused().contains("Cancel"), "the harmless answer has the focus");
        page.enter();
        page.wait("!document.getElementById('question').open");
        assert!(page.web.world().done.is_empty());
        page.enter();
        page.wait("document.getElementById('question').open");
        page.tab();
        assert_eq!(page.focused(), "BUTTON Restart");
        page.enter();
        page.wait("document.getElementById('notice')?.innerText.includes('asked for 1 of 1')");
        assert_eq!(page.web.world().done, ["restart c0003-db.service"]);

        // A filter that is typed, and a page further.
        page.go("units");
        page.wait("document.querySelectorAll('tbody tr').length === 100");
        page.tab_to("filter");
        page.browser.write("-web.service active");
        page.wait("document.querySelector('caption').textContent === 'Units: 1 to 100 of 4,999'");
        page.tab_to("BUTTON Next");
        page.enter();
        page.wait("document.querySelector('caption').textContent === 'Units: 101 to 200 of 4,999'");
        // What changes under the focus leaves it where it is.
        page.tab_to("A c0103-web.service");
        page.web.world().set("c0103-web.service", "active", "reloaded", "WR-0041");
        page.wait("document.querySelector('main').innerText.includes('reloaded')");
        assert_eq!(page.focused(), "A c0103-web.service");

        // Other cells; who chose them may choose on.
        page.go("overview");
        page.tab_to("SELECT");
        page.press("ArrowDown", 40, false);
        page.wait("page.route.params.get('by') === 'slices' && page.names[0].endsWith('.slice')");
        page.wait("document.activeElement.id === 'cells'");

        // A timer of an hour, a chart, a plan.
        page.go("timers");
        page.wait("document.querySelector('.calendar button')");
        page.tab_to(":00");
        page.enter();
        page.wait("document.querySelector('[aria-pressed=true]')");
        page.go("charts");
        page.tab_to("Draw the shutdown");
        page.enter();
        page.wait("document.querySelector('iframe')");
        page.go("plan");
        page.tab_to("Make the plan");
        page.enter();
        page.wait("document.querySelector('.diff .plus')?.textContent === '+MemoryMax=2G'");
        // A question in two steps: the view, and its button.
        page.go("questions");
        page.wait("document.querySelectorAll('.questions button').length === 15");
        page.tab_to("What is restarted most?");
        page.enter();
        page.wait("document.querySelector('[aria-label=Answer]')?.textContent.includes('c0001-php.service')");
        page.tab_to("Log out");
    });
}

#[test]
fn it_fits_both_widths_and_looks_right_in_both_schemes() {
    let scratch = Scratch::new("web-looks-token");
    let file = scratch.write("token", TOKEN);
    in_browser("looks", &["--token-file", &file, "--allow-actions"], |page| {
        {
            let mut world = page.web.world();
            world.changing = 6;
            for container in [212, 480, 481, 482, 1733, 3120, 4404] {
                world.set(&format!("c{container:04}-web.service"), "failed", "failed", "WR-0041");
            }
        }
        log_in(page);
        for width in WIDTHS {
            for scheme in ["light", "dark"] {
                page.size(width);
                page.media(scheme, "no-preference");
                for view in VIEWS {
                    open(page, view);
                    let over =
                        page.browser.eval("document.documentElement.scrollWidth - innerWidth");
                    assert!(
                        over.as_i64() <= Some(0),
                        "{view} is {over} pixels too wide for {width}"
                    );
                    page.picture(&format!(
                        "{}-{width}-{scheme}.png",
                        view.split('/').next().unwrap_or(view)
                    ));
                }
            }
        }
    });
}

/// Of each two states, which part of a cell differs though all colours are one, and the contrast of each with what is behind
/// it (WCAG 2.2, 1.4.11), at each size of a cell.
const CELLS: &str = r"
(async () => {
  const strip = await import('/strip.js');
  const style = getComputedStyle(document.documentElement);
  const color = (text) => {
    const context = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    context.fillStyle = text;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = (rgb) => {
    const [r, g, b] = Array.from(rgb).slice(0, 3).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const back = color(style.getPropertyValue('--back').trim());
  const contrasts = Object.values(strip.STATES).map((state) => contrast(color(style.getPropertyValue(state.color).trim()), back));
  const shares = [];
  for (const side of strip.SIDES) {
    const letters = Object.keys(strip.STATES);
    const masks = letters.map((letter) => {
      const canvas = document.createElement('canvas');
      canvas.width = canvas.height = side;
      const context = canvas.getContext('2d', { willReadFrequently: true });
      strip.paintCell(context, letter, side, style);
      const { data } = context.getImageData(0, 0, side, side);
      return Array.from({ length: side * side }, (_, at) => data[at * 4 + 3] > 127 && contrast(data.slice(at * 4, at * 4 + 3), back) > 2);
    });
    masks.forEach((a, n) => masks.slice(n + 1).forEach((b, m) => {
      const share = a.filter((one, at) => one !== b[at]).length / a.length;
      shares.push([`${letters[n]} and ${letters[n + 1 + m]} at ${side} pixels`, share]);
    }));
  }
  return { contrasts, shares };
})()";

/// A state is told by its word and its mark, too.
const STATES: &str =
    "[...document.querySelectorAll('tbody span.whole')].map((one) => one.innerText.trim())";

#[test]
fn states_are_told_apart_without_colours() {
    in_browser("colours", &[], |page| {
        for scheme in ["light", "dark", "forced"] {
            match scheme {
                "forced" => page.force_colors(),
                scheme => page.media(scheme, "no-preference"),
            }
            page.load("overview?by=units");
            let is_forced = page.browser.eval("matchMedia('(forced-colors: active)').matches");
            assert_eq!(is_forced, scheme == "forced");
            let cells = page.browser.eval(CELLS);
            let contrasts = cells["contrasts"].as_array().expect("numbers");
            let is_seen = |contrast: &Value| contrast.as_f64() >= Some(3.0);
            assert!(contrasts.iter().all(is_seen), "{scheme}: {contrasts:?}");
            let shares = cells["shares"].as_array().expect("pairs");
            assert_eq!(shares.len(), 12 * 6, "of each size each pair");
            let is_distinct = |pair: &&Value| pair[1].as_f64() >= Some(0.15);
            let alike: Vec<_> = shares.iter().filter(|pair| !is_distinct(pair)).collect();
            assert!(alike.is_empty(), "{scheme}: sides and shares: {alike:?}");
            page.picture(&format!("strip-{scheme}.png"));
            // As many colours as there are, and no other: what is painted follows the system.
            if scheme == "forced" {
                let colors = page.browser.eval(
                    "(() => { const c = document.querySelector('.strip canvas'); const d = c.getContext('2d')\
                     .getImageData(0, 0, c.width, c.height).data; return new Set(new Uint32Array(d.buffer)).size; })()",
                );
                assert_eq!(colors, 2, "the text's colour and nothing");
            }
            page.load("units?sort=state");
            let told = page.browser.eval(STATES);
            let told: Vec<&str> =
                told.as_array().expect("texts").iter().filter_map(Value::as_str).collect();
            for (word, mark) in [("failed", "✖"), ("activating", "◤"), ("active", "■")] {
                assert!(told.contains(&&*format!("{mark} {word}")), "{scheme}: {told:?}");
            }
            // The other way round those that are down come first.
            page.load("units?sort=state&inverted=1");
            let first = page.browser.eval(&format!("{STATES}[0]"));
            assert_eq!(first, "▁ inactive");
        }
    });
}

#[test]
fn what_moves_stands_still_where_the_system_asks_for_that() {
    in_browser("motion", &[], |page| {
        page.web.world().changing = 50;
        // The pictures of the last minutes, after one and after four more samples.
        let pictures = "[...document.querySelectorAll('.minutes canvas')].map((one) => one.toDataURL()).join()";
        let moves = |page: &mut Page<'_>| {
            page.load("overview");
            page.wait("page.took.length >= 2");
            page.browser.eval(&format!("window.before = {pictures}; page.took = []; true"));
            page.wait("page.took.length >= 4");
            page.browser.eval(&format!("window.before !== {pictures}"))
        };
        page.media("light", "no-preference");
        assert_eq!(moves(page), true, "they move otherwise");
        page.media("light", "reduce");
        assert_eq!(moves(page), false);
        for view in VIEWS {
            page.load(view);
            let animated = page.browser.eval("document.getAnimations().length");
            assert_eq!(animated, 0, "{view}");
            let durations = page.browser.eval(
                "[...document.querySelectorAll('*')].map((one) => getComputedStyle(one)).filter((style) => \
                 style.transitionDuration !== '0s' || style.animationName !== 'none' || style.scrollBehavior === 'smooth').length",
            );
            assert_eq!(durations, 0, "{view}");
        }
    });
}

#[test]
fn tables_show_what_units_use_and_a_head_sorts_by_it() {
    in_browser("usage", &[], |page| {
        let root = page.web.scratch.0.join("cgroup");
        for (name, memory) in [("c0002-web", 3_u64 << 20), ("c0004-db", 900 << 20)] {
            let group = root.join(format!("customer-{}.slice/{name}.service", &name[..5]));
            std::fs::create_dir_all(&group).expect("a directory");
            for (file, text) in [
                ("cpu.stat", "usage_usec 5\n".to_owned()),
                ("memory.current", format!("{memory}\n")),
                ("pids.current", "4\n".to_owned()),
            ] {
                std::fs::write(group.join(file), text).expect("it can be written");
            }
        }
        page.web.world().cgroup_root = Some(root.display().to_string());
        page.size(1500);
        page.load("units");
        page.browser.eval("[...document.querySelectorAll('th button')].find((one) => one.innerText === 'Memory').click(); true");
        page.wait("document.querySelector('tbody tr').innerText.includes('c0004-db.service')");
        page.wait("document.querySelector('tbody tr').innerText.includes('900M')");
        let head = "document.querySelector('th[aria-sort=ascending]').innerText";
        assert_eq!(page.browser.eval(head), "Memory ▼");
        let second = page.browser.eval("document.querySelectorAll('tbody tr')[1].innerText");
        assert!(second.as_str().is_some_and(|row| row.contains("3.0M")), "{second}");
        page.picture("usage.png");
    });
}

fn log_in(page: &mut Page<'_>) {
    // From the form it would be the same page.
    page.browser.call("Page.navigate", json!({"url": "about:blank"}));
    page.wait("location.href === 'about:blank'");
    let url = format!("http://{}/#token={TOKEN}", page.web.address);
    page.browser.call("Page.navigate", json!({ "url": url }));
    page.wait("window.page && page.painted !== null");
    page.browser.complaints.clear();
}

/// Opens a view with all that comes late.
fn open(page: &mut Page<'_>, view: &str) {
    page.load(view);
    match view {
        "timers" => page.wait("document.querySelectorAll('tbody tr').length > 20"),
        "sessions" => page.wait("document.querySelectorAll('tbody tr').length === 2"),
        "charts" => {
            page.wait("document.querySelectorAll('tbody tr').length === 3");
            page.browser.eval("document.querySelector('tbody button').click(); true");
            page.wait("document.querySelector('iframe')");
            let browser = &mut *page.browser;
            wait_for("the chart", || {
                browser.eval("new Promise((d) => setTimeout(() => d(true), 300))").as_bool()
            });
            page.browser.eval("scrollTo(0, 0); true");
        }
        "plan" => {
            page.browser.eval("document.querySelector('main button').click(); true");
            page.wait("document.querySelector('.diff')");
        }
        "questions" => {
            page.wait("document.querySelectorAll('.questions button').length === 15");
            page.browser.eval("document.querySelector('.questions button').click(); true");
            page.wait("document.querySelector('[aria-label=Answer]')?.textContent.length > 9");
        }
        "unit/c0003-db.service" => page.wait("document.querySelector('dl.facts')"),
        "overview" => page.wait("page.took.length >= 8"),
        _ => {}
    }
}

/// What axe checks: roles, names, labels, contrast, order of headings.
#[test]
fn axe_finds_no_fault() {
    let Some(axe) = std::env::var_os("AXE") else {
        warren_testkit::not_run("AXE names no axe.min.js (scripts/axe)");
        return;
    };
    let axe = std::fs::read_to_string(axe).expect("AXE names a file");
    let scratch = Scratch::new("web-axe-token");
    let file = scratch.write("token", TOKEN);
    in_browser("axe", &["--token-file", &file, "--allow-actions"], |page| {
        let check = |page: &mut Page<'_>, what: &str| {
            page.browser.eval(&format!("{axe}; true"));
            let found = page.browser.eval(
                "axe.run(document, {iframes: false}).then((all) => [all.passes.length, all.violations.map((one) => \
                 [one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + \
                 (node.any[0] ? node.any[0].message : ''))])])",
            );
            assert!(found[0].as_u64() > Some(10), "{what}: axe has looked at it: {found}");
            assert_eq!(found[1], json!([]), "{what}");
        };
        page.browser.call("Page.navigate", json!({"url": format!("http://{}/", page.web.address)}));
        page.wait("document.getElementById('token')");
        check(page, "login");
        log_in(page);
        for width in WIDTHS {
            for scheme in ["light", "dark"] {
                page.size(width);
                page.media(scheme, "reduce");
                for view in VIEWS {
                    open(page, view);
                    check(page, &format!("{view} at {width}, {scheme}"));
                }
                page.load("unit/c0003-db.service");
                page.wait("document.querySelector('main button')");
                page.browser.eval("document.querySelector('main button').click(); true");
                page.wait("document.getElementById('question').open");
                check(page, &format!("a question at {width}, {scheme}"));
            }
        }
        page.browser.complaints.clear();
    });
}
