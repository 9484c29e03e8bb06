//! A host as the console sees it, and screens as text.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use warren_console::draw::draw;
use warren_console::model::{Resource, Usage};
use warren_console::state::{Event, Key, Look, Order, State};
use warren_wire::control::{
    OverviewAnswer, OverviewRow, TopAnswer, TopFailed, TopJob, TopRestarting,
};

/// The moment of all screens.
pub const NOW_US: u64 = 1_796_000_000_000_000;

/// What is shown, a line for each row of the terminal, without colours.
pub fn screen(state: &mut State) -> String {
    state.settle();
    let (columns, rows) = state.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns.max(1), rows.max(1)));
    draw(state, &mut buffer);
    text_of(&buffer)
}

/// The cells of a buffer as lines.
pub fn text_of(buffer: &Buffer) -> String {
    let area = *buffer.area();
    let row = |y: u16| {
        let cells = (0..area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..area.height).map(row).collect::<Vec<_>>().join("\n") + "\n"
}

pub fn press(state: &mut State, keys: &str) -> Vec<Order> {
    let key = |c: char| match c {
        '\n' => Key::Enter,
        '\x1b' => Key::Escape,
        '\t' => Key::Tab,
        '↓' => Key::Down,
        '→' => Key::Right,
        c => Key::Char(c),
    };
    keys.chars().flat_map(|c| state.update(Event::Key(key(c)))).collect()
}

pub fn unit(name: &str, active: &str, sub: &str) -> OverviewRow {
    OverviewRow {
        name: name.to_owned(),
        active: active.into(),
        sub: sub.to_owned(),
        since_us: Some(NOW_US - 3_720_000_000),
        ..OverviewRow::default()
    }
}

/// Three containers, one of which lacks its database; a job that waits, and a service that cannot stay up.
pub fn overview() -> OverviewAnswer {
    let mut rows = Vec::new();
    for (index, customer) in ["anna", "bert", "cleo"].into_iter().enumerate() {
        for (service, active, sub) in [
            ("db", "active", "running"),
            ("web", "active", "running"),
            ("cron", "inactive", "dead"),
        ] {
            rows.push(OverviewRow {
                slice: Some(index as u32),
                target: Some(index as u32),
                ..unit(&format!("{customer}-{service}.service"), active, sub)
            });
        }
        rows.push(OverviewRow {
            slice: Some(3),
            ..unit(&format!("customer-{customer}.slice"), "active", "active")
        });
    }
    rows.push(OverviewRow { slice: Some(4), ..unit("customer.slice", "active", "active") });
    rows.push(unit("-.slice", "active", "active"));
    for n in 1..=2 {
        let name = format!("getty@tty{n}.service");
        rows.push(OverviewRow { slice: Some(4), ..unit(&name, "active", "running") });
    }
    let find = |rows: &mut Vec<OverviewRow>, name: &str| {
        rows.iter().position(|row| row.name == name).expect("it is there")
    };
    let db = find(&mut rows, "bert-db.service");
    rows[db] = OverviewRow {
        code: "WR-0041".to_owned().into(),
        since_us: Some(NOW_US - 190_000_000),
        restarts: 5,
        active: "failed".into(),
        sub: "failed".to_owned(),
        ..rows[db].clone()
    };
    let web = find(&mut rows, "bert-web.service");
    rows[web] = OverviewRow {
        code: "WR-0060".to_owned().into(),
        cause: Some("bert-db.service".to_owned()),
        active: "inactive".into(),
        sub: "dead".to_owned(),
        ..rows[web].clone()
    };
    let flaky = find(&mut rows, "cleo-web.service");
    rows[flaky] = OverviewRow {
        active: "activating".into(),
        sub: "auto-restart".to_owned(),
        restarts: 17,
        ..rows[flaky].clone()
    };
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    let texts = [
        ("WR-0041", "the main process ended with a status that is no success"),
        ("WR-0060", "a unit that it requires failed to start"),
    ];
    OverviewAnswer {
        now_us: 10_000_000,
        units_total: rows.len() as u64,
        slices: [
            "customer-anna.slice",
            "customer-bert.slice",
            "customer-cleo.slice",
            "customer.slice",
            "-.slice",
        ]
        .map(str::to_owned)
        .to_vec(),
        targets: ["anna", "bert", "cleo"].map(|name| format!("Container '{name}'")).to_vec(),
        texts: texts.map(|(code, text)| (code.to_owned(), text.to_owned())).into(),
        rows,
        ..OverviewAnswer::default()
    }
}

pub fn top(seconds: u64) -> TopAnswer {
    TopAnswer {
        now_us: seconds * 1_000_000,
        cpu_us: seconds * 12_000,
        resident_bytes: 180 << 20,
        loaded: 16,
        active: 11,
        restarts: seconds,
        jobs: 2,
        jobs_running: 1,
        failed_total: 1,
        failed: vec![TopFailed { unit: "bert-db.service".into(), ..TopFailed::default() }],
        restarting: vec![TopRestarting {
            unit: "cleo-web.service".into(),
            text: "the main process was killed by a signal".into(),
            restarts: 17,
            ..TopRestarting::default()
        }],
        job_rows: vec![
            TopJob {
                unit: "backup.service".into(),
                kind: "start".into(),
                age_us: 75_000_000,
                waits_for: 3,
                waits_on: Some("srv-backup.mount".into()),
            },
            TopJob {
                unit: "srv-backup.mount".into(),
                kind: "start".into(),
                age_us: 76_000_000,
                ..TopJob::default()
            },
        ],
        ..TopAnswer::default()
    }
}

pub fn usage() -> BTreeMap<Arc<str>, Usage> {
    let of = |cpu: f32, memory: u64, tasks: u64| Usage {
        cpu: Some(cpu),
        memory: Some(memory),
        tasks: Some(tasks),
        read: Some(memory / 4096),
        written: Some(0),
        pressure: Some((cpu / 10.0, Resource::Io)),
    };
    [
        ("anna-db.service", of(3.5, 900 << 20, 31)),
        ("anna-web.service", of(12.0, 120 << 20, 9)),
        ("cleo-db.service", of(141.5, 3 << 30, 77)),
        ("customer-anna.slice", of(15.5, 1020 << 20, 40)),
        ("customer-bert.slice", of(0.0, 1 << 20, 0)),
        ("customer-cleo.slice", of(141.5, 3 << 30, 77)),
        ("customer.slice", of(157.0, 4 << 30, 117)),
        ("-.slice", of(158.0, 5 << 30, 130)),
        ("getty@tty1.service", of(0.0, 2 << 20, 1)),
    ]
    .map(|(name, usage)| (name.into(), usage))
    .into()
}

/// What the person sees some seconds after the start.
pub fn state(size: (u16, u16)) -> State {
    let mut state =
        State::new(size, Look { has_colour: false, has_unicode: true, has_mouse: true });
    state.update(Event::Tick(NOW_US));
    state.update(Event::Top(Box::new(top(8))));
    state.update(Event::Overview(overview(), true));
    state.update(Event::Top(Box::new(top(10))));
    state.update(Event::Usage(usage(), true));
    state
}
