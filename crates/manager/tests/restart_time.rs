//! How long the manager is away when it is killed: a measurement, not a promise kept by a clock.
//!
//! `cargo test --release -p warren-manager --test restart_time -- --ignored --nocapture`, with
//! `SETS` (default 4000) sets of socket, service, mount and automount.

mod lab;

use std::fmt::Write;
use std::time::Instant;

use lab::Machine;
use serde_json::json;

/// Restarts that are measured.
const ROUNDS: usize = 5;

fn units(sets: usize) -> Vec<(String, String)> {
    let mut units = Vec::new();
    let mut target = String::from("[Unit]\nRequires=basic.target\n");
    for n in 0..sets {
        let _ = writeln!(target, "Wants=t-{n}.socket run-t{n}.automount");
        let mut add = |name: String, text: String| units.push((name, text));
        add(format!("t-{n}.socket"), format!("[Socket]\nListenStream=/run/t-{n}.sock"));
        add(format!("t-{n}.service"), "[Service]\nExecStart=@P serve".into());
        let head = "[Unit]\nDefaultDependencies=no\n";
        let mount = format!("{head}[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/t{n}");
        add(format!("run-t{n}.mount"), mount);
        add(format!("run-t{n}.automount"), format!("{head}[Automount]\nWhere=/run/t{n}"));
    }
    units.push(("default.target".into(), target));
    units
}

#[test]
#[ignore = "a measurement"]
fn time_from_the_kill_to_the_first_answer() {
    let sets = std::env::var("SETS").ok().and_then(|n| n.parse().ok()).unwrap_or(4000);
    let units = units(sets);
    let units: Vec<(&str, &str)> = units.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let Some(m) = Machine::start("restart-time", &units) else { return };
    lab::until("everything is up", || (m.totals()["jobs"] == 0).then_some(()));
    println!("{}", m.totals());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        assert!(m.kill_manager());
        let totals = m.call("Totals", &json!({}));
        println!(
            "{:.3} s, of which loading {} us",
            began.elapsed().as_secs_f64(),
            totals["load_us"]
        );
    }
    println!("{}", m.console());
}
