//! Keys and views drawn by lot: no panic, nothing raw on the screen, and a bound on what is kept.
//! `WARREN_SEED` and `WARREN_SEEDS` draw others.

mod common;

use std::sync::Arc;

use common::{NOW_US, screen};
use warren_console::asking::Asking;
use warren_console::draw::target;
use warren_console::manager::{Start, UnitPage};
use warren_console::model::{Resource, Usage};
use warren_console::questions::Subject;
use warren_console::state::{ACTION_UNITS_MAX, Event, Key, Look, Mode, Order, State};
use warren_console::usage::WHOLE_MAX;
use warren_testkit::{Dice, seed, variable};
use warren_wire::control::{OverviewAnswer, OverviewRow, TopAnswer, TopJob, TopRestarting};

/// Units of a large view.
const UNITS: u64 = 40_000;

/// Names that a manager would not take, and a program that answers in its place may say.
const ODD: [&str; 8] = [
    "\x1b[2J\x1b]0;x\x07.service",
    "漢字漢字漢字漢字漢字漢字漢字漢字.service",
    "שלום-עולם.service",
    "\u{202e}ecivres.gpj.service",
    "e\u{301}\u{301}\u{301}\u{301}.service",
    "👩‍👩‍👧‍👦@🦀.service",
    "",
    "@.@.\u{9b}31m",
];

const STATES: [&str; 8] =
    ["active", "inactive", "failed", "activating", "deactivating", "reloading", "of-tomorrow", ""];

fn pick<'a>(dice: &mut Dice, of: &[&'a str]) -> &'a str {
    of[dice.roll(of.len() as u64) as usize]
}

fn name(dice: &mut Dice, below: u64) -> String {
    match dice.roll(50) {
        0 => pick(dice, &ODD).to_owned(),
        1..5 => format!("web@{}.service", dice.roll(below.max(1))),
        5..7 => format!("s-{}.slice", dice.roll(below.max(1))),
        _ => format!("unit-{}.service", dice.roll(below.max(1))),
    }
}

fn overview(dice: &mut Dice, units: u64) -> OverviewAnswer {
    let place = |dice: &mut Dice| Some(dice.roll(12) as u32).filter(|place| *place > 0);
    let rows = (0..units).map(|_| OverviewRow {
        name: name(dice, UNITS),
        active: pick(dice, &STATES).into(),
        sub: pick(dice, &["running", "dead", "auto-restart", "\x1b[31m", "x"]).to_owned(),
        code: format!("WR-{:04}", dice.roll(3)).into(),
        slice: place(dice),
        target: place(dice),
        cause: (dice.roll(4) == 0).then(|| name(dice, 100)),
        since_us: Some(dice.bits()).filter(|us| us % 3 > 0),
        restarts: dice.roll(1 << 32) as u32,
        hidden_by: None,
    });
    let rows = rows.collect();
    let names = |of: &str| (0..10).map(|n| format!("{of}{n}\x1b[5m")).collect();
    OverviewAnswer {
        rows,
        slices: names("s-"),
        targets: names("Container "),
        texts: [("WR-0001".to_owned(), "left \x1b[2J\r\nbehind".to_owned())].into(),
        ..OverviewAnswer::default()
    }
}

fn top(dice: &mut Dice) -> TopAnswer {
    let job = |dice: &mut Dice| TopJob {
        unit: name(dice, 100),
        kind: pick(dice, &["start", "stop", "\x1b[2J"]).into(),
        age_us: dice.bits(),
        waits_for: dice.roll(3) as u32,
        waits_on: (dice.roll(2) == 0).then(|| name(dice, 100)),
    };
    let restarting = |dice: &mut Dice| TopRestarting {
        unit: name(dice, 100),
        text: "\x1b[2Jx".to_owned(),
        ..TopRestarting::default()
    };
    TopAnswer {
        now_us: dice.bits(),
        cpu_us: dice.bits(),
        loaded: dice.bits(),
        resident_bytes: dice.bits(),
        restarts: dice.bits(),
        jobs: dice.roll(5),
        jobs_running: dice.roll(9),
        stopping: dice.roll(4) == 0,
        job_rows: (0..dice.roll(64)).map(|_| job(dice)).collect(),
        restarting: (0..dice.roll(64)).map(|_| restarting(dice)).collect(),
        failed_total: dice.bits(),
        ..TopAnswer::default()
    }
}

fn event(dice: &mut Dice, state: &State) -> Event {
    let unit = state.page.as_ref().map_or("x".into(), |page| page.unit.clone());
    let text = || "a\x1b[2J\tb\n\n\u{202e}".repeat(40);
    match dice.roll(40) {
        0 => Event::Size(dice.roll(260) as u16, dice.roll(70) as u16),
        1 => Event::Tick(NOW_US),
        2 => Event::Top(Box::new(top(dice))),
        3..5 => {
            let units = dice.roll(2000);
            Event::Overview(overview(dice, units), false)
        }
        5 => {
            let usage = |dice: &mut Dice| Usage {
                cpu: Some(dice.roll(1_000_000) as f32),
                memory: Some(dice.bits() >> 20),
                tasks: None,
                read: Some(dice.bits() >> 20),
                written: Some(dice.bits() >> 20),
                pressure: Some((dice.roll(100) as f32, Resource::Memory)),
            };
            let usage =
                (0..dice.roll(300)).map(|_| (Arc::from(name(dice, 1000)), usage(dice))).collect();
            Event::Usage(usage, dice.roll(2) == 0)
        }
        6 => Event::Silent((dice.roll(2) == 0).then(text)),
        7 => Event::Page(unit, Ok(UnitPage { status: text(), why: text(), processes: Vec::new() })),
        8 => Event::Files(unit, if dice.roll(2) == 0 { Ok(text()) } else { Err(text()) }),
        9 => Event::Log(unit, vec![text(); dice.roll(50) as usize]),
        10 => {
            let start = Start { when: text(), took_us: Some(dice.bits()), ..Start::default() };
            Event::Starts(unit, Ok(vec![start; dice.roll(300) as usize]))
        }
        11 => Event::Done(text()),
        12 => Event::Wheel(dice.roll(2) == 0),
        16 => match &state.asking {
            Some(Asking::Answer(answer)) => {
                let told = if dice.roll(2) == 0 { Ok(text()) } else { Err(text()) };
                Event::Answer(answer.question, answer.subject.clone(), told)
            }
            _ => Event::Answer(dice.roll(15) as usize, Subject::default(), Ok(text())),
        },
        17 => Event::Key(Key::Char('a')),
        13..16 => {
            // Wherever it is, and though the state may not be settled.
            let (x, y) = (dice.roll(260) as usize, dice.roll(70) as usize);
            Event::Click(target(state, x, y))
        }
        _ => Event::Key(key(dice)),
    }
}

fn key(dice: &mut Dice) -> Key {
    const KEYS: &str = "123456789/<>,.it *uSXRCynjkgGplw?h漢\u{202e}";
    const OTHERS: [Key; 16] = [
        Key::Enter,
        Key::Enter,
        Key::Escape,
        Key::Backspace,
        Key::Tab,
        Key::BackTab,
        Key::Up,
        Key::Down,
        Key::Left,
        Key::Right,
        Key::Right,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::Control('u'),
    ];
    let chars: Vec<char> = KEYS.chars().collect();
    match dice.roll(2) {
        0 => Key::Char(chars[dice.roll(chars.len() as u64) as usize]),
        _ => OTHERS[dice.roll(16) as usize],
    }
}

fn check_screen(state: &mut State) {
    let shown = screen(state);
    let is_raw = |c: char| {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (c.is_control() && c != '\n') || turns
    };
    assert!(!shown.contains(is_raw), "{shown:?}");
    assert_eq!(shown.lines().count(), usize::from(state.size.1.max(1)));
    assert!(state.wanted().len() <= WHOLE_MAX);
    // A row for each unit and one for what it is in, for each job, and for each service that is started again. Rows
    // may be older than the units: nobody looks at them, or they are to stay.
    let is_old = state.is_paused || state.page.is_some();
    let units = if is_old { 2 * UNITS as usize } else { state.model.units.len() };
    assert!(state.rows.len() <= 2 * units + 64 + 64);
    if let Mode::Question(_, units) = &state.mode {
        assert!((1..=ACTION_UNITS_MAX).contains(&units.len()));
    }
}

#[test]
fn whatever_is_pressed_and_told_the_screen_holds() {
    for seed in seed()..seed() + variable("WARREN_SEEDS", 2) {
        let mut dice = Dice(seed);
        let (has_colour, has_unicode) = (dice.roll(2) == 0, dice.roll(2) == 0);
        let look = Look { has_colour, has_unicode, has_mouse: true };
        let mut state = State::new((80, 24), look);
        // Every second one is large, and its units vanish between two screens.
        let units = if seed % 2 == 0 { UNITS } else { 300 };
        let all = overview(&mut dice, units);
        state.update(Event::Overview(all, true));
        for step in 0..600 {
            let next = match step % 150 {
                149 => {
                    let left = dice.roll(units);
                    Event::Overview(overview(&mut dice, left), true)
                }
                _ => event(&mut dice, &state),
            };
            let orders = state.update(next);
            assert!(orders.len() <= 1, "seed {seed}: {orders:?}");
            // A person types several keys before a screen.
            if dice.roll(4) == 0 {
                check_screen(&mut state);
            }
            if let Some(Order::Act(_, units)) = orders.first() {
                assert!(units.len() <= ACTION_UNITS_MAX);
            }
        }
        check_screen(&mut state);
    }
}
