//! Random cases: a few units of common kinds with relations drawn by lot, and orders to them; after each
//! order, what has become of all of them.
//!
//! A seed is one case. What differs is made smaller by leaving out lines as long as it still differs.

use anyhow::Result;

use super::cases::Group;

/// Units of a case.
const UNITS_MAX: u64 = 5;

/// Orders of a case.
const ORDERS: u64 = 6;

/// What a unit does. `NAME` is its letter.
const KINDS: [(&str, &[&str]); 18] = [
    ("service", &["ExecStart=/bin/sleep 1000"]),
    ("service", &["ExecStart=/bin/sleep 1000"]),
    (
        "service",
        &[
            "ExecStartPre=/run/tell CASE NAME before",
            "ExecStart=/bin/sleep 1000",
            "ExecStopPost=/run/tell CASE NAME after",
        ],
    ),
    ("service", &["ExecStart=/bin/sleep 1000", "ExecReload=/run/tell CASE NAME reload"]),
    ("service", &["Type=oneshot", "ExecStart=/run/tell CASE NAME"]),
    (
        "service",
        &[
            "Type=oneshot",
            "RemainAfterExit=yes",
            "ExecStart=/run/tell CASE NAME",
            "ExecStop=/run/tell CASE NAME stop",
        ],
    ),
    ("service", &["Type=oneshot", "ExecStart=/bin/false"]),
    ("service", &["Type=oneshot", "RemainAfterExit=yes", "ExecStart=/bin/sleep .3"]),
    ("service", &["ExecStart=/bin/sleep 1000", "ExecStop=/bin/sleep .3"]),
    ("service", &["ExecCondition=/bin/false", "ExecStart=/bin/sleep 1000"]),
    ("service", &["ExecStartPre=/bin/false", "ExecStart=/bin/sleep 1000"]),
    ("service", &["ExecStart=/bin/sh -c 'sleep .2; exit 1'"]),
    ("service", &["ExecStart=/bin/sleep .2"]),
    (
        "service",
        &[
            "ExecStart=/bin/sh -c 'sleep .1; exit 1'",
            "Type=exec",
            "Restart=on-failure",
            "RestartSec=.1",
        ],
    ),
    ("service", &["ExecStart=/bin/sleep 1000", "Restart=always", "RestartSec=.1"]),
    ("target", &[]),
    ("target", &[]),
    ("socket", &["ListenStream=/run/CASE-NAME.sock"]),
];

/// Relations of two units, the commoner ones more often.
const RELATIONS: [&str; 26] = [
    "After",
    "After",
    "After",
    "After",
    "After",
    "Before",
    "Before",
    "Wants",
    "Wants",
    "Wants",
    "Requires",
    "Requires",
    "Requires",
    "BindsTo",
    "BindsTo",
    "PartOf",
    "PartOf",
    "Requisite",
    "Conflicts",
    "OnFailure",
    "OnSuccess",
    "PropagatesStopTo",
    "StopPropagatedFrom",
    "PropagatesReloadTo",
    "ReloadPropagatedFrom",
    "Upholds",
];

/// Other lines of a unit's first section.
const SWITCHES: [&str; 5] = [
    "StopWhenUnneeded=yes",
    "RefuseManualStop=yes",
    "RefuseManualStart=yes",
    "ConditionPathExists=/nowhere",
    "AssertPathExists=/nowhere",
];

/// Orders to one unit, the commoner ones more often.
const VERBS: [&str; 20] = [
    "start",
    "start",
    "start",
    "start",
    "start",
    "stop",
    "stop",
    "stop",
    "restart",
    "restart",
    "try-restart",
    "reload",
    "reload-or-restart",
    "try-reload-or-restart",
    "kill --signal=KILL",
    "kill --signal=KILL",
    "reset-failed",
    "start --job-mode=ignore-dependencies",
    "stop --job-mode=ignore-requirements",
    "start --job-mode=fail",
];

/// The cases of these seeds.
pub fn group(seeds: std::ops::Range<u64>) -> Result<Group> {
    let texts: Vec<(String, String)> = seeds.map(|seed| (format!("r{seed}"), text(seed))).collect();
    Group::of_texts("random", &texts)
}

/// What the case of a seed is, without its name.
pub fn text(seed: u64) -> String {
    let mut dice = Dice(seed);
    let count = 2 + dice.below(UNITS_MAX - 1);
    let units: Vec<Unit> = (0..count).flat_map(|number| unit(number, &mut dice)).collect();
    let mut relations = vec![Vec::new(); units.len()];
    let conflicts = dice.below(3) == 0;
    for _ in 0..(units.len() as u64 + dice.below(6)) {
        let (one, other) = (dice.below(units.len() as u64), dice.below(units.len() as u64));
        let relation = dice.any(&RELATIONS);
        // What goes in a circle is no common case: 252 waits for ever, or drops jobs by chance.
        let (from, to) = match *relation {
            "After" | "Requires" | "Requisite" | "BindsTo" | "OnFailure" | "OnSuccess"
            | "Upholds" => (one.max(other), one.min(other)),
            "Before" => (one.min(other), one.max(other)),
            _ => (one, other),
        };
        // 252 stops who follows a conflicting unit though that is down.
        let follows = ["PartOf", "PropagatesStopTo", "StopPropagatedFrom", "Upholds"];
        if !conflicts && *relation == "Conflicts" || conflicts && follows.contains(relation) {
            continue;
        }
        let stands = units[to as usize].stands;
        // What is upheld and ends is started until its limit is reached, and then once more. What is bound to
        // something that ends at once is not started here (`binds-to-a-oneshot`).
        let rests = !matches!(*relation, "Upholds" | "BindsTo") || stands;
        if from != to && rests {
            let other = &units[to as usize].name;
            relations[from as usize].push(format!("{relation}={other}"));
            // Without an order it is chance which of the two begins.
            if matches!(*relation, "Requires" | "Requisite" | "BindsTo") {
                relations[from as usize].push(format!("After={other}"));
            }
        }
    }
    let mut text = String::new();
    for (unit, relations) in units.iter().zip(relations) {
        text += &format!("# {}\n[Unit]\n", unit.name);
        relations.iter().for_each(|line| text += &format!("{line}\n"));
        text += &unit.own;
    }
    let names: Vec<&str> = units.iter().map(|unit| unit.name.as_str()).collect();
    text += &format!("> UNITS='{}'\n", names.join(" "));
    for _ in 0..ORDERS {
        text += &format!("> order {}\n", order(&names, &mut dice));
    }
    text
}

/// A unit: with its section, but for what it is to others.
struct Unit {
    name: String,
    own: String,
    /// Once it is up it does not go down by itself.
    stands: bool,
}

/// The units of one kind: sockets have a service.
fn unit(number: u64, dice: &mut Dice) -> Vec<Unit> {
    let letter = char::from(b'a' + number as u8).to_string();
    let (suffix, lines) = dice.any(&KINDS);
    let section = match *suffix {
        "service" => "[Service]\n",
        "socket" => "[Socket]\n",
        _ => "",
    };
    let switch = if dice.below(6) == 0 { dice.any(&SWITCHES) } else { "" };
    let mut own = format!("{switch}\n{section}").trim_start().to_owned();
    for line in *lines {
        own += &format!("{}\n", line.replace("NAME", &letter));
    }
    let is_long = lines.iter().any(|line| line.contains("sleep 1000"));
    let is_false = |line: &str| line.contains("/bin/false") || line.contains("/nowhere");
    let can_start = !lines.iter().any(|line| is_false(line)) && !is_false(switch);
    let stays = *suffix != "service" || is_long || lines.contains(&"RemainAfterExit=yes");
    let stands = can_start && stays;
    let mut units = vec![Unit { name: format!("CASE-{letter}.{suffix}"), own, stands }];
    if *suffix == "socket" {
        let own = "[Service]\nExecStart=/bin/sleep 1000\n".to_owned();
        units.push(Unit { name: format!("CASE-{letter}.service"), own, stands: true });
    }
    units
}

fn order(names: &[&str], dice: &mut Dice) -> String {
    let (one, other) = (dice.any(names), dice.any(names));
    let socket = names.iter().find(|name| name.ends_with("socket"));
    match (dice.below(10), socket) {
        (0, _) => format!("stop {one} {other}"),
        (1, Some(socket)) => format!("connect /run/{}", socket.replace(".socket", ".sock")),
        _ => format!("{} {one}", dice.any(&VERBS)),
    }
}

/// Numbers of a seed, always the same (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    fn any<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// All that the case comes to with one thing less: a unit, a line of one, or an order.
pub fn smaller(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let without = |from: usize, until: usize| {
        let kept = lines[..from].iter().chain(&lines[until..]);
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    let mut all = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if let Some(unit) = line.strip_prefix("# ") {
            let is_next = |line: &&str| line.starts_with(['#', '>']);
            let length = lines[number + 1..].iter().take_while(|line| !is_next(line)).count();
            let rest = without(number, number + 1 + length);
            let forget = |line: &str| line.starts_with('>') || !line.contains(unit);
            let rest = rest.lines().filter(|line| forget(line));
            all.push(rest.map(|line| strike(line, unit)).collect::<Vec<_>>().join("\n") + "\n");
        } else if line.starts_with("> order") || line.contains('=') && !line.starts_with('>') {
            all.push(without(number, number + 1));
        }
    }
    all
}

/// A line of the script without a unit.
fn strike(line: &str, unit: &str) -> String {
    match line.strip_prefix("> UNITS='") {
        Some(rest) => {
            let left = rest.trim_end_matches('\'').split(' ').filter(|name| *name != unit);
            format!("> UNITS='{}'", left.collect::<Vec<_>>().join(" "))
        }
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_case_that_can_be_read_and_always_the_same() {
        assert_eq!(text(7), text(7));
        assert!((0..500).all(|seed| group(seed..seed + 1).is_ok_and(|g| g.cases.len() == 1)));
    }

    #[test]
    fn what_is_smaller_has_less_and_can_be_read() {
        let whole = text(3);
        let all = smaller(&whole);
        assert!(all.len() > 6 && all.iter().all(|less| less.len() < whole.len()));
        let named: Vec<_> =
            all.into_iter().enumerate().map(|(n, t)| (format!("v{n}"), t)).collect();
        assert!(Group::of_texts("random", &named).is_ok());
    }
}
