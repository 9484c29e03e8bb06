//! Screens as text, at three sizes. `UPDATE_GOLDEN=1 cargo test` writes the golden files.

mod common;

use std::path::Path;

use common::{press, screen, state};
use warren_console::draw::target;
use warren_console::manager::{Start, UnitPage};
use warren_console::questions::Subject;
use warren_console::state::{Event, Key, Mode, Order, State, Target, Verb};
use warren_console::table::{Sort, Tab};
use warren_wire::control::{JobType, ProcessRow, ShutdownWait};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

#[track_caller]
fn check(name: &str, prepare: impl Fn(&mut State)) {
    for size in SIZES {
        let mut state = state(size);
        prepare(&mut state);
        let shown = screen(&mut state);
        let (columns, rows) = size;
        assert!(shown.lines().all(|line| line.chars().count() <= usize::from(columns)), "{shown}");
        let file = format!("tests/golden/{name}-{columns}x{rows}.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &shown).expect("the golden file can be written");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(shown == expected, "{name} is not what its golden file has:\n{shown}");
    }
}

fn keys(keys: &'static str) -> impl Fn(&mut State) {
    move |state| drop(press(state, keys))
}

#[test]
fn what_has_failed_comes_first_and_unfolds_to_what_it_holds_back() {
    check("trouble", keys("→"));
}

#[test]
fn jobs_say_for_whom_they_wait() {
    check("jobs", keys("2"));
}

#[test]
fn units_are_sorted_by_what_they_use() {
    check("units", keys("3 "));
}

#[test]
fn containers_slices_and_templates_are_groups_of_units() {
    check("containers", keys("4→"));
    check("slices", keys("5"));
    check("templates", keys("6t"));
}

#[test]
fn a_tree_has_units_below_their_slices() {
    check("tree", keys("3t"));
}

#[test]
fn a_filter_narrows_as_it_is_typed() {
    check("filter", keys("3/bert s"));
}

#[test]
fn a_question_names_the_units() {
    check("question", keys("3/anna\n*R"));
}

#[test]
fn the_keys_are_shown() {
    check("help", keys("?"));
}

#[test]
fn a_manager_that_does_not_answer_is_said() {
    check("silent", |state| {
        for _ in 0..12 {
            state.update(Event::Silent(Some("the manager does not respond".to_owned())));
            state.update(Event::Tick(common::NOW_US));
        }
    });
}

#[test]
fn a_shutdown_says_what_it_waits_for() {
    check("shutdown", |state| {
        let wait = ShutdownWait {
            unit: Some("anna-db.service".to_owned()),
            phase: "stop-sigterm".to_owned(),
            process: Some("pid 4711 postgres".to_owned()),
            so_far_us: 21_000_000,
            left_us: Some(69_000_000),
            ..ShutdownWait::default()
        };
        let mut top = common::top(12);
        (top.stopping, top.waits_total, top.waits) = (true, 1, vec![wait]);
        state.update(Event::Top(Box::new(top)));
        press(state, "2");
    });
}

fn open(state: &mut State) {
    assert_eq!(press(state, "\n"), [Order::Open("bert-db.service".into())]);
    let told = UnitPage {
        status: "× bert-db.service - Database of bert\n     Loaded: loaded (/etc/x)\n     Active: failed".into(),
        why: "× bert-db.service is failed: the main process ended with a status that is no success, and a line that is \
              longer than a terminal of 80 columns has room for\n   Blocks 1 units: bert-web.service\n"
            .into(),
        processes: vec![ProcessRow { pid: 4711, command: "post\x1b]0;gres -D /srv".into() }],
    };
    state.update(Event::Page("bert-db.service".into(), Ok(told)));
}

#[test]
fn the_page_of_a_unit_has_parts() {
    check("page-status", open);
    check("page-log", |state| {
        open(state);
        press(state, "2");
        let lines = (1..=70).map(|n| format!("line {n} \x1b[2J\u{202e}evil\r")).collect();
        state.update(Event::Log("bert-db.service".into(), lines));
        state.update(Event::Key(Key::Up));
    });
    check("page-processes", |state| {
        open(state);
        press(state, "3");
    });
    check("page-starts", |state| {
        open(state);
        assert_eq!(press(state, "4"), [Order::ReadStarts("bert-db.service".into())]);
        let start = |n: u64, result: &str| Start {
            when: format!("2026-11-29 10:00:0{n} UTC"),
            took_us: Some(n * 300_000),
            result: result.to_owned(),
            is_stop: false,
        };
        let stop = Start { is_stop: true, took_us: None, ..start(4, "done") };
        let starts = vec![start(7, "failed"), stop, start(2, "done"), start(1, "timeout")];
        state.update(Event::Starts("bert-db.service".into(), Ok(starts)));
    });
    check("page-files", |state| {
        open(state);
        assert_eq!(press(state, "5"), [Order::ReadFiles("bert-db.service".into())]);
        let files = "# /etc/x.service\n[Service]\n\tExecStart=/bin/\x07true\n".to_owned();
        state.update(Event::Files("bert-db.service".into(), Ok(files)));
    });
}

#[test]
fn questions_are_listed_asked_and_answered() {
    check("questions", keys("a↓↓"));
    check("question-about", keys("ai10:"));
    check("answer", |state| {
        let subject = Subject { unit: Some("bert-db.service".to_owned()), ..Subject::default() };
        let orders = press(state, "ao");
        assert_eq!(orders, [Order::Ask(14, subject.clone())], "about the one under the cursor");
        let text = "A stop of bert-db.service would stop 2 units:\n  bert-db.service   active\n";
        state.update(Event::Answer(3, subject.clone(), Ok("of another question".to_owned())));
        state.update(Event::Answer(14, subject, Ok(text.to_owned())));
    });
    let mut state = state((80, 24));
    press(&mut state, "a\x1b");
    assert!(state.asking.is_none(), "Esc leads back");
    press(&mut state, "ad");
    press(&mut state, "q");
    assert!(state.asking.is_none() && state.page.is_none());
}

#[test]
fn a_tiny_terminal_has_what_counts_most() {
    for (size, expected) in [((10, 3), "  ROOT CA~\n> + bert-~\n? keys  a~\n"), ((1, 1), "~\n")] {
        let shown = screen(&mut state(size));
        let rows = usize::from(size.1);
        assert_eq!(shown.lines().count(), rows, "{shown}");
        assert_eq!(shown, expected);
    }
}

#[test]
fn five_units_are_restarted_after_a_question() {
    let mut state = state((80, 24));
    let orders = press(&mut state, "3     R");
    assert_eq!(orders, []);
    assert!(
        matches!(&state.mode, Mode::Question(_, units) if units.len() == 5),
        "{:?}",
        state.mode
    );
    assert_eq!(press(&mut state, "x"), [], "only an answer is one");
    let orders = press(&mut state, "y");
    let [Order::Act(verb, units)] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((verb, units.len()), (&Verb::Job(JobType::Restart), 5));
    assert!(state.marked.is_empty());
    assert_eq!(press(&mut state, "Xn"), []);
    assert_eq!(state.mode, Mode::Browse);
}

#[test]
fn of_a_group_a_restart_is_for_those_that_are_up_and_a_start_for_the_others() {
    let units = |keys: &str| {
        let mut state = state((80, 24));
        // The container of cleo is the first: it uses most.
        press(&mut state, &format!("4{keys}"));
        match state.mode {
            Mode::Question(_, units) => {
                units.iter().map(|unit| unit.to_string()).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        }
    };
    assert_eq!(units("R"), "cleo-db.service cleo-web.service");
    assert_eq!(units("X"), "cleo-db.service cleo-web.service");
    assert_eq!(units("S"), "cleo-cron.service");
    assert_eq!(units("C"), "", "none of it has failed");
    assert_eq!(units("\u{2193}\u{2193}C"), "bert-db.service");
}

#[test]
fn an_action_is_for_a_bounded_number_of_units() {
    let mut state = state((80, 24));
    let mut many = common::overview();
    many.rows =
        (0..500).map(|n| common::unit(&format!("u{n}.service"), "active", "running")).collect();
    state.update(Event::Overview(many, true));
    assert_eq!(press(&mut state, "3*R"), []);
    assert!(screen(&mut state).contains("500 units are too many at once; at most 200."));
}

#[test]
fn the_cursor_stays_with_its_unit_when_rows_change_places() {
    let mut state = state((80, 24));
    press(&mut state, "3↓↓");
    let at = |state: &State| state.current().map(|row| row.name.to_string());
    let before = at(&state);
    let mut usage = common::usage();
    usage.get_mut("anna-db.service").expect("it is there").cpu = Some(900.0);
    state.update(Event::Usage(usage, true));
    state.settle();
    assert_eq!(at(&state), before);
    assert_eq!(state.rows[0].name.as_ref(), "anna-db.service");
    let mut fewer = common::overview();
    fewer.rows.retain(|row| row.name == "anna-cron.service");
    state.update(Event::Overview(fewer, true));
    state.settle();
    assert_eq!(at(&state).as_deref(), Some("anna-cron.service"), "it is gone: another is there");
}

#[test]
fn paused_rows_stay_as_they_are() {
    let mut state = state((80, 24));
    press(&mut state, "3p");
    let before = state.rows.clone();
    state.update(Event::Usage(std::collections::BTreeMap::new(), true));
    state.settle();
    assert_eq!(state.rows, before);
    press(&mut state, "p");
    assert_ne!(state.rows, before);
}

#[test]
fn what_is_open_is_left_step_by_step() {
    let mut state = state((80, 24));
    press(&mut state, "4\n");
    assert_eq!((state.wish.tab, state.wish.within.is_some()), (Tab::Units, true));
    press(&mut state, "/db\n");
    state.settle();
    assert_eq!(state.rows.len(), 1);
    press(&mut state, "\x1b\x1b");
    assert_eq!((state.wish.tab, state.wish.within.is_some()), (Tab::Sets, false));
    assert_eq!(press(&mut state, "q"), [Order::Quit]);
}

/// Clicks on the first place on the screen where this text is, in the line that has the other.
#[track_caller]
fn click(state: &mut State, line: &str, text: &str) -> Vec<Order> {
    let shown = screen(state);
    let found = shown.lines().enumerate().find(|(_, own)| own.contains(line));
    let (y, own) = found.unwrap_or_else(|| panic!("no {line:?} in\n{shown}"));
    let before = own.split_once(text).unwrap_or_else(|| panic!("no {text:?} in {own:?}")).0;
    let at = target(state, before.chars().count(), y);
    state.update(Event::Click(at))
}

#[test]
fn a_click_chooses_what_is_under_it() {
    for size in SIZES.into_iter().chain([(80, 10), (60, 5)]) {
        let mut state = state(size);
        if size.1 > 5 {
            click(&mut state, "4 Containers", "Containers");
            assert_eq!(state.wish.tab, Tab::Sets, "{size:?}");
            click(&mut state, "3 Units", "3 Units");
        } else {
            press(&mut state, "3");
        }
        assert_eq!(state.wish.tab, Tab::Units, "{size:?}");
        for (heading, sort) in [("MEMORY", Sort::Memory), ("NAME", Sort::Name), ("CPU%", Sort::Cpu)]
        {
            click(&mut state, "NAME", heading);
            assert_eq!((state.wish.sort, state.wish.is_inverted), (sort, false), "{size:?}");
        }
        click(&mut state, "NAME", "CPU%");
        assert!(state.wish.is_inverted, "again: the other way round");
        click(&mut state, "NAME", "CPU%");
        let second = state.rows[1].name.clone();
        assert_eq!(click(&mut state, &second, &second), []);
        assert_eq!((state.cursor, state.page.is_some()), (1, false), "{size:?}");
        let opened = click(&mut state, &second, &second);
        assert_eq!(opened, [Order::Open(second.clone())], "again: it is opened");
        assert!(state.page.is_some());
        // On the page there is nothing to click on.
        assert_eq!(target(&state, 3, 2), Target::Nothing);
    }
}

#[test]
fn no_click_answers_a_question_and_any_closes_the_help() {
    let mut state = state((80, 24));
    press(&mut state, "3R");
    assert!(matches!(state.mode, Mode::Question(..)));
    for target in [Target::Row(0), Target::Row(1), Target::Tab(Tab::Jobs), Target::Nothing] {
        assert_eq!(state.update(Event::Click(target)), []);
        assert!(matches!(state.mode, Mode::Question(..)), "{target:?}");
    }
    state.update(Event::Wheel(true));
    assert!(matches!(state.mode, Mode::Question(..)));
    press(&mut state, "n?");
    assert_eq!(state.mode, Mode::Help);
    state.update(Event::Click(Target::Row(3)));
    assert_eq!((&state.mode, state.cursor), (&Mode::Browse, 0), "it chooses nothing below");
}

#[test]
fn the_wheel_moves_the_rows_and_stops_at_their_ends() {
    let mut state = state((80, 10));
    press(&mut state, "3");
    screen(&mut state);
    let rows = state.rows.len();
    let shown = state.table_rows();
    assert!(rows > shown + 3, "{rows} rows, {shown} shown");
    state.update(Event::Wheel(true));
    assert_eq!((state.first, state.cursor), (3, 3));
    for _ in 0..rows {
        state.update(Event::Wheel(true));
    }
    assert_eq!((state.first, state.cursor), (rows - shown, rows - 1));
    for _ in 0..rows {
        state.update(Event::Wheel(false));
    }
    assert_eq!((state.first, state.cursor), (0, 0));
}
