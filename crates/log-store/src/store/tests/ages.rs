//! What is removed for its age by a clock that was wrong, or is.

use super::*;
use crate::store::age::{Clock, Uptime};
use crate::store::upkeep::seal;
use crate::store::vacuum::{Limits, vacuum};

const HOUR: u64 = 3_600_000_000;
/// 2024-01-05.
const NOW: u64 = 1_704_447_000_000_000;
const YEAR: u64 = 8766 * HOUR;

/// A segment for each word `BOOT:UPTIME:WALL`, hours, the wall clock counted from now; `zero`: 1970.
fn write(segments: &str) -> Memory {
    let memory = Memory::new();
    let (mut store, _) = Store::open(Arc::new(memory.clone()), setup(7)).expect("empty");
    for (number, segment) in (0..).zip(segments.split(' ')) {
        let words: Vec<&str> = segment.split(':').collect();
        let hours = |text: &str| text.parse::<i64>().expect("a number") * HOUR as i64;
        let realtime_us = match words[2] {
            "zero" => 5_000_000,
            text => NOW.saturating_add_signed(hours(text)),
        };
        let boot = Id128([words[0].parse().expect("a number"); 16]);
        let stamp = Stamp { realtime_us, monotonic_us: hours(words[1]) as u64, boot };
        let fields = [("MESSAGE", segment)].into_iter().collect();
        store.append("system", &stamp, &Arc::default(), &fields).expect("in bounds");
        store.rotate().expect("no faults");
        for log in store.take_sealable() {
            seal(&memory, &log, Id128::default(), Id128([number; 16])).expect("no faults");
        }
    }
    memory
}

/// What stays where 10 hours are kept and boot 3 runs for so long, hours.
fn check(segments: &str, (uptime, off_us, is_trusted): (u64, i64, bool), expected: &str) {
    let memory = write(segments);
    let mut limits = Limits::default();
    limits.other.age_max_us = Some(10 * HOUR);
    let boot = Id128([3; 16]);
    let uptime = Uptime { boot, monotonic_us: uptime * HOUR, asleep_us: 0 };
    let realtime_us = NOW.saturating_add_signed(off_us);
    let clock = Clock { realtime_us, is_trusted, uptime: Some(uptime) };
    vacuum(&memory, &limits, &clock).expect("no faults");
    let left: Vec<String> =
        read_all(&memory).into_values().flatten().map(|(_, text)| text).collect();
    assert_eq!(left.join(" "), expected, "{segments} {clock:?}");
}

#[test]
fn a_clock_that_has_just_jumped_removes_nothing() {
    const ALL: &str = "2:1:-9 3:1:-5 3:5:-1";
    let year = YEAR as i64;
    check(ALL, (6, year, false), ALL);
    check(ALL, (6, 0, false), ALL);
    check(ALL, (6, 0, true), ALL);
    check("2:1:-11 3:1:-5", (6, 0, true), "3:1:-5");
    check("2:1:-11 3:1:-5", (6, 0, false), "2:1:-11 3:1:-5");
    // What came in this boot has an age whatever the wall clock says.
    check("3:1:-29 3:25:-5", (30, year, false), "3:25:-5");
}

#[test]
fn what_came_while_the_clock_was_wrong_is_as_old_as_it_is() {
    // A machine without a clock of its own: the beginning of its first boot, and of a later one.
    check("3:0:zero 3:1:-5", (6, 0, true), "3:0:zero 3:1:-5");
    check("2:0:zero 2:1:-8 3:0:zero", (6, 0, true), "2:0:zero 2:1:-8 3:0:zero");
    check("2:0:zero 2:9:-8 3:0:zero", (6, 0, true), "2:9:-8 3:0:zero");
    check("3:0:zero 3:19:-1", (20, 0, true), "3:19:-1");
    // A clock that was a year ahead keeps nothing for a year.
    check("3:1:8766 3:19:-1", (20, 0, true), "3:19:-1");
    check("2:1:8766 2:2:-20 3:19:-1", (20, 0, true), "3:19:-1");
    check("3:15:8766 3:19:-1", (20, 0, true), "3:15:8766 3:19:-1");
}
