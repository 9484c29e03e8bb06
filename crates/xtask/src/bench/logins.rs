//! `cargo xtask bench logins [--again] [USERS [UNITS]]`: what the managers of users take, beside systemd 252, in one machine under
//! QEMU after the other. Default: 200 users with ten units each.
//!
//! The users linger, so their managers are part of the boot; then ten others log in by su and out again. The machine
//! measures itself (`logins/measure.py`) and says it once. QEMU works without help of the hardware, so seconds are for
//! comparing only. With `--again` systemd's figures are those of the last time. Needs what `vm::host` needs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::write;
use crate::command::root;
use crate::vm::host::{self, Host, Limits, REPORT, SIDES, Side};

/// Below `target`.
const NAME: &str = "bench-logins";

const LIMITS: Limits = Limits { seconds_max: 3600, memory_mib: 6144 };

/// A row of the table: what it is, how it is found, its unit.
type Row = (&'static str, fn(&Value) -> Option<f64>, &'static str);

const ROWS: [Row; 17] = [
    ("all services started after", |v| v["services_up_s"].as_f64(), "s"),
    ("all managers up after", |v| v["up_s"].as_f64(), "s"),
    ("CPU of the machine until rest", |v| v["machine_cpu_s"].as_f64(), "s"),
    ("CPU of the users' managers", |v| v["managers_cpu_s"].as_f64(), "s"),
    ("CPU of them and their services", |v| v["users_cpu_s"].as_f64(), "s"),
    ("CPU of the system's manager", |v| v["system_manager_cpu_s"].as_f64(), "s"),
    ("CPU of logind", |v| v["logind_cpu_s"].as_f64(), "s"),
    ("CPU of all managers in an idle minute", |v| v["idle_cpu_s_a_minute"].as_f64(), "s"),
    ("processes of the managers", |v| of_managers(v, 0), ""),
    ("threads of the managers", |v| of_managers(v, 3), ""),
    ("memory of the managers (PSS)", |v| Some(of_managers(v, 1)? / 1e6), "MB"),
    ("memory that is theirs alone", |v| Some(of_managers(v, 2)? / 1e6), "MB"),
    ("memory of their groups", |v| Some(v["group_bytes"].as_f64()? / 1e6), "MB"),
    ("memory of the machine in use", |v| Some(v["memory_used_bytes"].as_f64()? / 1e6), "MB"),
    ("a login: CPU of the machine", |v| median(v, &["machine_cpu_s"]), "s"),
    (
        "a login: CPU of both managers",
        |v| median(v, &["system_manager_cpu_s", "user_manager_cpu_s"]),
        "s",
    ),
    ("a login: until it is over", |v| median(v, &["wall_s"]), "s"),
];

/// Measures both, prints the table, writes `bench/results/logins.json`.
pub fn run(args: &[&str]) -> Result<()> {
    let (again, args) = match args {
        ["--again", rest @ ..] => (true, rest),
        _ => (false, args),
    };
    ensure!(args.len() <= 2, "USERS and UNITS");
    let users = args.first().copied().unwrap_or("200");
    let units = args.get(1).copied().unwrap_or("10");
    let [users_count, units_count]: [Option<u64>; 2] = [users, units].map(|text| text.parse().ok());
    let within = |count: Option<u64>, max| count.is_some_and(|count| (1..=max).contains(&count));
    ensure!(
        within(users_count, 1000) && within(units_count, 100),
        "1 to 1000 users, 1 to 100 units"
    );
    let [theirs, ours] = SIDES;
    let before = again.then(|| read(&root().join("target").join(NAME).join(theirs.name)));
    let command = format!("/usr/bin/python3 /trial/measure.py {users} {units}");
    let host = Host::make(NAME, &[&command, users, units])?;
    let measure = |side: Side| {
        println!("booting {}", side.name);
        measured(&host.boot(side, LIMITS, &[])?).context(side.name)
    };
    let theirs = match before.transpose()? {
        Some(report) => {
            let directory = root().join("target").join(NAME).join(theirs.name);
            fs::create_dir_all(&directory)?;
            fs::write(directory.join(REPORT), &report)?;
            measured(&report)?
        }
        None => measure(theirs)?,
    };
    let is_same =
        theirs["users"].as_u64() == users_count && theirs["units"].as_u64() == units_count;
    ensure!(
        is_same,
        "systemd was measured with {} users and {} units",
        theirs["users"],
        theirs["units"]
    );
    let results = [
        json!({"manager": SIDES[0].name, "measured": theirs}),
        json!({"manager": ours.name, "measured": measure(ours)?}),
    ];
    write("logins.json", &results)?;
    print(&results);
    Ok(())
}

fn read(directory: &Path) -> Result<String> {
    let path = directory.join(REPORT);
    Ok(host::text(&fs::read(&path).with_context(|| format!("{}", path.display()))?))
}

/// What a machine said of itself.
fn measured(report: &str) -> Result<Value> {
    let line = report.lines().find(|line| line.starts_with('{')).context("no result")?;
    let said: Value = serde_json::from_str(line)?;
    ensure!(said["why"].is_null(), "{}", said["why"]);
    Ok(said)
}

fn print(results: &[Value]) {
    println!("  {:<40} {:>12} {:>12} {:>8}", "", "systemd 252", "here", "ratio");
    for (name, value, unit) in ROWS {
        let [theirs, ours] = [0, 1].map(|side| value(&results[side]["measured"]));
        let text =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2} {unit}"));
        let ratio = match (theirs, ours) {
            (Some(theirs), Some(ours)) if theirs > 0.0 => format!("{:.2}x", ours / theirs),
            _ => String::new(),
        };
        println!("  {name:<40} {:>12} {:>12} {ratio:>8}", text(theirs), text(ours));
    }
}

/// The sum of a column over all programs in the groups of managers: processes, PSS, bytes of their own, threads.
fn of_managers(measured: &Value, column: usize) -> Option<f64> {
    measured["managers"].as_object()?.values().map(|program| program[column].as_f64()).sum()
}

/// The middle one of the sums of these figures of each login.
fn median(measured: &Value, names: &[&str]) -> Option<f64> {
    let of_one =
        |login: &Value| names.iter().map(|name| login[*name].as_f64()).sum::<Option<f64>>();
    let mut all: Vec<f64> = measured["logins"].as_array()?.iter().filter_map(of_one).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_could_not_measure_says_why() {
        assert_eq!(measured("noise\n{\"users\": 2}\n").expect("a result")["users"], 2);
        let why = |report: &str| measured(report).map_err(|why| why.to_string());
        assert_eq!(why("{\"why\": \"late\"}"), Err("\"late\"".to_owned()));
        assert_eq!(why("noise\n"), Err("no result".to_owned()));
    }

    #[test]
    fn rows_are_sums_of_programs_and_middles_of_logins() {
        let login = |a: f64, b: f64| json!({"system_manager_cpu_s": a, "user_manager_cpu_s": b});
        let measured = json!({
            "managers": {"a": [2, 30, 20, 9], "b": [1, 4, 1, 1]},
            "logins": [login(1.0, 2.0), login(9.0, 9.0), login(0.5, 0.5), {"system_manager_cpu_s": 1.0}],
        });
        assert_eq!(of_managers(&measured, 0), Some(3.0));
        assert_eq!(of_managers(&measured, 1), Some(34.0));
        assert_eq!(median(&measured, &["system_manager_cpu_s", "user_manager_cpu_s"]), Some(3.0));
        assert_eq!(median(&json!({}), &["wall_s"]), None);
    }
}
