//! SIGKILL to the manager at random instants of a shutdown, and processes of the machine held up for
//! moments: what units run on their way down runs once, and the end comes.
//!
//! `WARREN_SHUTDOWNS` (default 10) says how many machines end like this; `WARREN_SEED` makes the dice
//! fall the same again.

mod lab;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lab::lateness::hold_up;
use lab::{Machine, pause, until};
use warren_testkit::{Dice, seed, variable};

/// The manager is killed so often in one shutdown at most: one that is never let to begin would get
/// nothing done.
const KILLS_MAX: usize = 12;

/// Kills are so far apart at most.
const APART_MAX_US: u64 = 90_000;

/// The code of a stop command whose time was over.
const COMMAND_LATE: &str = "WR-0095";

/// How long the stop commands of the chain take.
const LINK_MS: u64 = 25;

/// A service, and how often its `ExecStop=` and its `ExecStopPost=` commands are to be run in all.
struct Case {
    name: &'static str,
    unit: &'static str,
    service: &'static str,
    stops: usize,
    posts: usize,
}

const fn case(
    name: &'static str,
    unit: &'static str,
    service: &'static str,
    stops: usize,
    posts: usize,
) -> Case {
    Case { name, unit, service, stops, posts }
}

/// `@S` is a stop command that leaves a line, `@E` one of `ExecStopPost=`.
const CASES: &[Case] = &[
    case("link0", "", "ExecStart=@P stay\n@S wait:@W\n@E", 1, 1),
    case("link1", "After=link0.service", "ExecStart=@P stay\n@S wait:@W\n@E", 1, 1),
    case("link2", "After=link1.service", "ExecStart=@P stay\n@S wait:@W\n@E", 1, 1),
    case("link3", "After=link2.service", "ExecStart=@P stay\n@S wait:@W\n@E", 1, 1),
    case("link4", "After=link3.service", "ExecStart=@P stay\n@S wait:@W\n@E", 1, 1),
    case("lists", "", "ExecStart=@P stay\n@S\n@S wait:10\n@S\n@E\n@E wait:10\n@E", 3, 3),
    case("lingers", "", "Type=notify\nExecStart=@P hold ready lingers:40\n@E", 0, 1),
    case("ends", "", "Type=notify\nExecStart=@P hold ready lingers:0\n@S wait:30\n@E", 1, 1),
    // The first that fails is the last of its list.
    case("fails", "", "ExecStart=@P stay\n@S exit:3\n@S\n@E exit:3\n@E", 1, 1),
    case("ignored", "", "ExecStart=@P stay\n@-S exit:3\n@S\n@E", 2, 1),
    case("once", "", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n@S wait:5\n@E", 1, 1),
    case(
        "forks",
        "",
        "Type=forking\nPIDFile=/run/f.pid\nExecStart=@P fork:/run/f.pid stay\n@S\n@E",
        1,
        1,
    ),
    case(
        "mixed",
        "",
        "KillMode=mixed\nExecStart=@P stay\nExecStartPost=@P fork: deaf\n@S\n@E",
        1,
        1,
    ),
    case("deaf", "", "Type=notify\nTimeoutStopSec=400ms\nExecStart=@P deaf:ready\n@S\n@E", 1, 1),
    case("wedged", "", "TimeoutStopSec=400ms\nExecStart=@P stay\n@S deaf\n@E deaf", 1, 1),
    case(
        "uses",
        "RequiresMountsFor=/run/held",
        "WorkingDirectory=/run/held\nExecStart=@P stay\n@S\n@E",
        1,
        1,
    ),
];

/// These are killed without being asked, so that only what follows is run.
const SUDDEN: &str = "Type=notify\nExecStart=@P deaf:ready\n@S\n@E\n[X-Warren]\nStopPolicy=sudden";

/// A start that is under way is given up, which is no stop of what was up.
const STARTS: &str = "Type=oneshot\nTimeoutStartSec=infinity\nExecStart=@P stay\n@S\n@E";

fn cases() -> impl Iterator<Item = Case> {
    let all = CASES.iter().map(|c| case(c.name, c.unit, c.service, c.stops, c.posts));
    all.chain([case("sudden", "", SUDDEN, 0, 1), case("starts", "", STARTS, 0, 1)])
}

fn units() -> Vec<(String, String)> {
    let text = |c: &Case| {
        let service = c
            .service
            .replace("@S", "ExecStop=@P append:@D/out/stop:%N")
            .replace("@-S", "ExecStop=-@P append:@D/out/stop:%N")
            .replace("@E", "ExecStopPost=@P append:@D/out/post:%N")
            .replace("@W", &LINK_MS.to_string());
        format!("[Unit]\n{}\n[Service]\n{service}\n", c.unit)
    };
    let services = cases().map(|c| (format!("{}.service", c.name), text(&c)));
    let mount = "[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/held".to_owned();
    services.chain([("run-held.mount".to_owned(), mount)]).collect()
}

/// How often a unit left a line.
fn count(m: &Machine, file: &str, name: &str) -> usize {
    m.lines(file).iter().filter(|line| *line == name).count()
}

/// Each command once, but for one whose time was over, which may have had none to leave its line.
fn check(m: &Machine, console: &str) {
    for case in cases() {
        let is_late = console.contains(&format!("{}.service: {COMMAND_LATE}", case.name));
        for (file, wanted) in [("stop", case.stops), ("post", case.posts)] {
            let found = count(m, file, case.name);
            let is_right = found == wanted || is_late && found < wanted;
            assert!(is_right, "{}: {found} times {file}, not {wanted}: {console}", case.name);
        }
    }
    let stops = m.lines("stop");
    let chain: Vec<&String> = stops.iter().filter(|name| name.starts_with("link")).collect();
    assert!(chain.is_sorted_by(|a, b| a > b), "{chain:?}: {console}");
    assert!(console.contains("The system is down."), "{console}");
}

/// One machine, from its start to its end; how often its manager was killed, and one of its processes
/// held up.
fn shutdown(dice: &mut Dice, which: u64) -> Option<[usize; 2]> {
    let units = units();
    let units: Vec<(&str, &str)> = units.iter().map(|(n, t)| (&**n, &**t)).collect();
    let mut m = Machine::start(&format!("kills{which}"), &units)?;
    for (unit, _) in units.iter().filter(|(unit, _)| !unit.starts_with("starts.")) {
        m.expect_job("start", unit, "done");
    }
    m.call("Job", &serde_json::json!({"type": "start", "unit": "starts.service", "wait": false}));
    m.wait_for("starts.service", "activating/start");
    m.leave("poweroff");
    let (mut kills, ends, seed) = (0, AtomicBool::new(false), dice.roll(u64::MAX));
    let late = std::thread::scope(|scope| {
        let late = scope.spawn(|| hold_up(&m, &ends, seed));
        while kills < KILLS_MAX && !m.is_over() {
            pause(Duration::from_micros(dice.roll(APART_MAX_US)));
            kills += usize::from(m.kill_manager());
            let next = || m.is_over() || m.manager_pid().is_some();
            until("there is another", || next().then_some(()));
        }
        until("the machine ends", || m.is_over().then_some(()));
        ends.store(true, Ordering::Relaxed);
        late.join().expect("processes can be held up")
    });
    let console = m.wait_for_end();
    check(&m, &console);
    Some([kills, late])
}

#[test]
fn commands_run_once_and_the_end_comes_whenever_the_manager_is_killed() {
    let mut dice = Dice(seed());
    let (shutdowns, mut kills, mut late) = (variable("WARREN_SHUTDOWNS", 10), 0, 0);
    for which in 0..shutdowns {
        let Some([more_kills, more_late]) = shutdown(&mut dice, which) else { return };
        (kills, late) = (kills + more_kills, late + more_late);
    }
    println!("{shutdowns} shutdowns, {kills} kills, {late} held up");
    assert!(kills as u64 > shutdowns, "it is hardly ever killed");
}
