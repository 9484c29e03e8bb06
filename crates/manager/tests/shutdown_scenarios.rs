//! How machines end that make it hard, judged by what they recorded: who was stopped when, released
//! by whom, and who was killed. Times that are asserted are those that nothing may undercut; how
//! long it took is for the bench.

mod lab;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use lab::recordings::{bar, recording};
use lab::{Machine, until};
use serde_json::json;
use warren_trace::analysis::Analysis;
use warren_trace::analysis::timeline::{Bar, Mark};
use warren_trace::event::What;
use warren_trace::export::show;
use warren_trace::record::Recording;
use warren_trace::words::{Counter, Ending, Release, Work};

const SIGTERM: u8 = 15;
const SIGKILL: u8 = 9;

/// A reason code: a stop took longer than it may.
const STOP_TIMEOUT: u16 = 44;

type Units = Vec<(String, String)>;

/// A machine with all of these units up.
fn up(name: &str, units: &Units) -> Option<Machine> {
    let units: Vec<(&str, &str)> = units.iter().map(|(name, text)| (&**name, &**text)).collect();
    let m = Machine::start(name, &units)?;
    for (unit, _) in units.iter().filter(|(unit, _)| unit.ends_with(".service")) {
        m.expect_job("start", unit, "done");
    }
    Some(m)
}

/// Ends the machine; what it said and what it recorded.
fn end(m: &mut Machine) -> (String, Recording) {
    m.leave("poweroff");
    let console = m.wait_for_end();
    let shutdown = recording(m, "shutdown").unwrap_or_else(|| panic!("no recording: {console}"));
    (console, shutdown)
}

fn service(name: &str, text: &str) -> (String, String) {
    (format!("{name}.service"), text.to_owned())
}

/// The stop bars by the name of their unit, without the suffix of services.
fn stops<'a>(analysis: &'a Analysis<'_>) -> BTreeMap<&'a str, &'a Bar> {
    let bars = analysis.timeline.bars.iter().filter(|bar| bar.work == Work::Stop);
    let named = bars.map(|bar| {
        let name = analysis.name(bar.row);
        (name.strip_suffix(".service").unwrap_or(name), bar)
    });
    let out: BTreeMap<&str, &Bar> = named.collect();
    let count = analysis.timeline.bars.iter().filter(|bar| bar.work == Work::Stop).count();
    assert_eq!(out.len(), count, "a unit was stopped twice");
    out
}

fn began(bar: &Bar) -> Mark {
    bar.start.unwrap_or_else(|| panic!("it never ran: {bar:?}")).at
}

fn ended(bar: &Bar) -> Mark {
    bar.end.unwrap_or_else(|| panic!("it never ended: {bar:?}")).at
}

/// A socket listens again when its service is gone, before its own stop has its turn: that is not what let it go.
#[test]
fn a_socket_is_let_go_by_the_end_of_its_service() {
    let units = vec![
        ("slow.socket".to_owned(), "[Socket]\nListenStream=/run/slow".to_owned()),
        service(
            "slow",
            "[Unit]\nRequires=slow.socket\n[Service]\nExecStart=@P stay\nExecStop=/bin/sleep 0.2",
        ),
    ];
    let Some(mut m) = up("released", &units) else { return };
    let (console, recording) = end(&mut m);
    let analysis = Analysis::of(&recording);
    let slow = bar(&analysis, "slow.service", Work::Stop);
    let socket = bar(&analysis, "slow.socket", Work::Stop).start.expect("it ran");
    assert_eq!((socket.by, socket.edge), (Release::Unit, Some(slow.row)), "{console}");
    assert!(ended(slow) <= socket.at);
    assert!(analysis.path.parts.units_us >= 200_000, "{:?}\n{console}", analysis.path);
}

/// The signals that a unit was sent, in order.
fn signals(recording: &Recording, unit: &str) -> Vec<u8> {
    let id = recording.units.iter().find(|u| u.name == unit).expect("it is named").id;
    let of_unit = recording.events.iter().filter(|event| event.unit == id);
    let signal = |what| match what {
        Some(What::Signal { signal, .. }) => Some(signal),
        _ => None,
    };
    of_unit.filter_map(|event| signal(event.what())).collect()
}

// ---- graphs ----

/// A graph of services in layers: each with its stop time and those it is ordered after.
struct Graph {
    nodes: Vec<Node>,
}

struct Node {
    name: String,
    stop_ms: u64,
    after: Vec<usize>,
}

/// A row of numbers that is always the same (Knuth's constants).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

impl Graph {
    /// 83 services in 9 layers, three in four of which go in 2 to 20 ms, one in five in up to
    /// 150 ms, and the rest in 300 to 700 ms, as on a machine whose shutdown was once looked at
    /// closely.
    fn of_83() -> Graph {
        const LAYERS: usize = 9;
        let mut numbers = Numbers(1);
        let layer = |node: usize| node * LAYERS / 83;
        let mut nodes: Vec<Node> = Vec::new();
        for node in 0..83 {
            let below: Vec<usize> = (0..node).filter(|n| layer(*n) + 1 == layer(node)).collect();
            let wanted = 1 + numbers.below(3);
            let after: BTreeSet<usize> = (0..wanted)
                .filter_map(|_| below.get(numbers.below(below.len().max(1) as u64) as usize))
                .copied()
                .collect();
            let stop_ms = match numbers.below(20) {
                0 => 300 + numbers.below(400),
                1..=4 => 20 + numbers.below(130),
                _ => 2 + numbers.below(18),
            };
            let after = after.into_iter().collect();
            nodes.push(Node { name: format!("n{node}"), stop_ms, after });
        }
        Graph { nodes }
    }

    /// Three more, each over a service of its own and long in going.
    fn with_sleepers(mut self) -> Graph {
        for (name, over) in [("sleeper0", 3), ("sleeper1", 11), ("sleeper2", 27)] {
            self.nodes.push(Node { name: name.into(), stop_ms: 2_000, after: vec![over] });
        }
        self
    }

    fn units(&self) -> Units {
        let text = |node: &Node| {
            let after: Vec<String> =
                node.after.iter().map(|n| format!("{}.service", self.nodes[*n].name)).collect();
            format!(
                "[Unit]\nAfter={}\n[Service]\nExecStart=@P stay\nExecStop=@P wait:{}\n",
                after.join(" "),
                node.stop_ms
            )
        };
        self.nodes.iter().map(|node| service(&node.name, &text(node))).collect()
    }

    /// Those that must be down before a node may go: it is ordered before them.
    fn waits_for(&self, node: usize) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(move |&other| self.nodes[other].after.contains(&node))
    }

    /// The longest chain of the times that the units took, computed from the graph alone.
    fn longest_us(&self, own_us: &[u64]) -> u64 {
        let mut until = vec![0; self.nodes.len()];
        // A node is only ordered after earlier ones.
        for node in (0..self.nodes.len()).rev() {
            let before = self.waits_for(node).map(|other| until[other]).max().unwrap_or(0);
            until[node] = before + own_us[node];
        }
        until.into_iter().max().unwrap_or(0)
    }

    /// Every unit was stopped once, began as soon as the last that it waits for was down, and not
    /// before; and the critical path is the longest one.
    fn check(&self, recording: &Recording) {
        let analysis = Analysis::of(recording);
        let stops = stops(&analysis);
        let bars: Vec<&Bar> = self.nodes.iter().map(|node| stops[&*node.name]).collect();
        for (node, bar) in bars.iter().enumerate() {
            let name = &self.nodes[node].name;
            assert_eq!(bar.end.map(|end| end.ending), Some(Ending::Done), "{name}");
            assert!(bar.own_us() >= self.nodes[node].stop_ms * 1000, "{name}: {bar:?}");
            let last = self.waits_for(node).max_by_key(|&other| ended(bars[other]));
            let start = bar.start.expect("it ran");
            let edge = last.map(|other| bars[other].row);
            assert_eq!(start.edge, edge, "{name} was let go by another than the last");
            assert_eq!(start.by == Release::Unit, last.is_some(), "{name}");
            assert!(last.is_none_or(|other| ended(bars[other]) <= start.at), "{name}");
        }
        let own: Vec<u64> = bars.iter().map(|bar| bar.own_us()).collect();
        let (longest, parts) = (self.longest_us(&own), analysis.path.parts);
        let total = analysis.timeline.end_us - analysis.timeline.begin_us;
        assert!(parts.units_us <= longest && longest <= total, "{parts:?}: {longest} of {total}");
        // What is not on the longest chain is the manager's; so it cannot hide in the units.
        assert!(longest - parts.units_us <= parts.manager_us, "{parts:?}: {longest}");
        println!("{total} us in all, the longest chain {longest} us: {parts:?}");
    }
}

#[test]
fn the_83_services_go_as_fast_as_their_longest_chain() {
    let graph = Graph::of_83();
    let Some(mut m) = up("graph83", &graph.units()) else { return };
    let (console, recording) = end(&mut m);
    graph.check(&recording);
    // The console and the chart say the same of the same.
    let words = show::words(&Analysis::of(&recording));
    assert!(console.contains(&format!(" {words}.")), "{console}\n{words}");
}

#[test]
fn three_sleepers_hold_up_their_own_chains_only() {
    let graph = Graph::of_83().with_sleepers();
    let Some(mut m) = up("sleepers", &graph.units()) else { return };
    m.leave("poweroff");
    let named = until("a sleeper is named", || {
        let answer = m.call("Shutdown", &json!({}));
        let waits = answer["waits"].as_array()?.clone();
        waits.into_iter().find(|w| w["unit"].as_str().is_some_and(|u| u.starts_with("sleeper")))
    });
    assert_eq!(named["phase"], "stop");
    assert!(named["process"].as_str().is_some_and(|p| p.ends_with("player")), "{named}");
    assert!(named["left_us"].as_u64().is_some(), "{named}");
    m.wait_for_end();
    let recording = recording(&m, "shutdown").expect("it is kept");
    graph.check(&recording);
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    let sleepers: Vec<&Bar> = (0..3).map(|n| stops[&*format!("sleeper{n}")]).collect();
    let last_began = sleepers.iter().map(|bar| began(bar)).max();
    let first_ended = sleepers.iter().map(|bar| ended(bar)).min();
    assert!(last_began < first_ended, "side by side");
    let on_path = |bar: &&&Bar| {
        analysis
            .timeline
            .bars
            .iter()
            .zip(0..)
            .any(|(b, index)| b.row == bar.row && analysis.path.has(index))
    };
    assert_eq!(sleepers.iter().filter(on_path).count(), 1, "the critical path names one");
}

#[test]
fn fifty_that_ignore_sigterm_take_one_budget_together() {
    let deaf = "[Service]\nType=notify\nTimeoutStopSec=2\nExecStart=@P deaf:ready";
    let units: Units = (0..50).map(|n| service(&format!("deaf{n}"), deaf)).collect();
    let Some(mut m) = up("fifty", &units) else { return };
    let (console, recording) = end(&mut m);
    assert!(console.contains(", 50 killed."), "{console}");
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    let deaf: Vec<&Bar> = (0..50).map(|n| stops[&*format!("deaf{n}")]).collect();
    assert!(deaf.iter().map(|bar| began(bar)).max() < deaf.iter().map(|bar| ended(bar)).min());
    for (bar, (name, _)) in deaf.iter().zip(&units) {
        assert_eq!(bar.end.map(|end| end.reason), Some(STOP_TIMEOUT), "{bar:?}");
        assert!(bar.own_us() >= 2_000_000, "killed before its time: {bar:?}");
        assert_eq!(signals(&recording, name), [SIGTERM, SIGKILL]);
    }
}

#[test]
fn wedged_stop_commands_share_one_budget() {
    let wedged = "[Service]\nTimeoutStopSec=2\nExecStart=@P stay\n\
                  ExecStop=@P deaf\nExecStopPost=@P deaf";
    let units = vec![service("wedged", wedged)];
    let Some(mut m) = up("wedged", &units) else { return };
    let main = m.main_pid("wedged.service");
    m.leave("poweroff");
    // Whatever it is at, the time that it has and the time that it had are one budget.
    let mut phases = BTreeSet::new();
    while let Some(answer) = m.call_while_up("Shutdown", &json!({})) {
        let wait = &answer["waits"][0];
        let (Some(phase), Some(so_far)) = (wait["phase"].as_str(), wait["so_far_us"].as_u64())
        else {
            continue;
        };
        let left = wait["left_us"].as_u64().expect("there is always a bound");
        // The time of a command begins when its process is there.
        let is_to_come = !phase.contains("sig")
            && matches!(wait["pid"].as_u64(), pid if pid.is_none() || pid == main);
        if is_to_come {
            assert!(left <= 5_000_000, "{wait}");
            continue;
        }
        // A machine that is late leaves a phase its share, a tenth, beyond the end of all.
        let (budget_us, share_us) = (2_000_010, 200_000);
        let is_bounded = so_far + left <= budget_us || left <= share_us;
        assert!(phase.ends_with("sigkill") || is_bounded, "{wait}");
        phases.insert(phase.to_owned());
    }
    let phases: Vec<&str> = phases.iter().map(String::as_str).collect();
    assert!(phases.contains(&"stop") && phases.contains(&"stop-post"), "{phases:?}");
    m.wait_for_end();
    let recording = recording(&m, "shutdown").expect("it is kept");
    // ExecStop= and the main process are asked, what is left of them is killed, and so is
    // ExecStopPost=, for which nobody has time any more.
    assert_eq!(signals(&recording, "wedged.service"), [SIGTERM, SIGKILL, SIGKILL]);
}

#[test]
fn what_comes_after_sigkill_still_runs() {
    // A tenth of it is left for ExecStopPost=.
    let deaf = "[Service]\nType=notify\nTimeoutStopSec=4\nExecStart=@P deaf:ready\n\
                ExecStopPost=@P append:@D/out/post:$SERVICE_RESULT";
    let mixed = "[Service]\nKillMode=mixed\nExecStart=@P stay\nExecStartPost=@P fork: deaf\n\
                 ExecStopPost=@P append:@D/out/post:$SERVICE_RESULT";
    let units = vec![service("deaf", deaf), service("mixed", mixed)];
    let Some(mut m) = up("after-kill", &units) else { return };
    let (console, _) = end(&mut m);
    let mut results = m.lines("post");
    results.sort();
    assert_eq!(results, ["success", "timeout"], "{console}");
}

#[test]
fn a_stop_command_that_is_a_fork_bomb_goes_at_once() {
    // Each process starts the next and is gone before a signal finds it.
    let bomb = "[Service]\nTimeoutStopSec=2\nExecStart=@P stay\nExecStop=/bin/sh @D/bomb";
    let script = "trap '' TERM\nhop() { (hop) & exit; }\n\
                  for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do (hop) & done\nsleep 60\n";
    let units = vec![service("bomb", bomb), service("bystander", "[Service]\nExecStart=@P stay")];
    let Some(mut m) = up("stop-bomb", &units) else { return };
    std::fs::write(m.directory.join("bomb"), script).expect("a file can be written");
    let own_pid = || m.run(&["sh", "-c", "echo $$"]).ok()?.trim().parse::<u32>().ok();
    let before = own_pid();
    m.leave("poweroff");
    until("it goes off", || (own_pid()? > before? + 200).then_some(()));
    let mut answered = 0;
    while m.call_while_up("Shutdown", &json!({})).is_some() {
        answered += 1;
    }
    let console = m.wait_for_end();
    assert!(answered > 0, "the manager answers while it bombs");
    assert!(
        !console.contains("leftover process") && !console.contains("processes left"),
        "{console}"
    );
    let recording = recording(&m, "shutdown").expect("it is kept");
    assert_eq!(signals(&recording, "bomb.service"), [SIGTERM, SIGKILL], "{console}");
}

#[test]
fn a_unit_is_down_when_its_last_process_is() {
    let top = "[Unit]\nAfter=base.service\n[Service]\nExecStart=@P stay\n\
               ExecStartPost=@P fork: hold append:@D/out/holds:it lingers:300";
    let units = vec![service("base", "[Service]\nExecStart=@P stay"), service("lingers", top)];
    let Some(mut m) = up("lingers", &units) else { return };
    until("it holds", || m.out("holds").exists().then_some(()));
    let (console, recording) = end(&mut m);
    assert!(console.contains(", 0 killed."), "{console}");
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    assert!(stops["lingers"].own_us() >= 300_000, "{:?}", stops["lingers"]);
    assert_eq!(began(stops["base"]).time_us, ended(stops["lingers"]).time_us);
}

#[test]
fn a_stopped_process_is_waked_to_end() {
    let units = vec![service("stopped", "[Service]\nType=notify\nExecStart=@P ready lingers:0")];
    let Some(mut m) = up("stopped", &units) else { return };
    let pid = m.main_pid("stopped.service").expect("it runs").to_string();
    m.stop_server(&pid);
    let (console, recording) = end(&mut m);
    assert!(console.contains(", 0 killed."), "{console}");
    assert_eq!(signals(&recording, "stopped.service"), [SIGTERM]);
}

#[test]
fn who_waits_for_a_server_that_does_not_answer_holds_nothing_up() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("silent-server", "/dev/fuse");
    }
    let server = "[Service]\nType=notify\nExecStart=@P fuse:/run/silent";
    let client = "[Unit]\nAfter=server.service\nRequiresMountsFor=/run/silent\n[Service]\n\
                  TimeoutStopSec=1\nExecStart=@P stay\nExecStop=/bin/ls /run/silent";
    let units = vec![
        service("server", server),
        service("client", client),
        ("run-silent.mount.d/order.conf".to_owned(), "[Unit]\nAfter=server.service".to_owned()),
    ];
    let Some(mut m) = up("silent", &units) else { return };
    m.wait_for("run-silent.mount", "active/mounted");
    let (console, recording) = end(&mut m);
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    assert!(stops["client"].own_us() >= 900_000, "{console}");
    assert!(ended(stops["client"]) <= began(stops["run-silent.mount"]), "{console}");
    assert!(ended(stops["run-silent.mount"]) <= began(stops["server"]), "{console}");
    assert!(console.contains("The system is down."), "{console}");
}

/// Who has a file of a server that was stopped cannot end, killed or not: closing the file asks the
/// server, and so does the way to what is mounted on one of its directories. Who cannot end is named
/// with what it holds, nobody waits for it who does not want to, and others go.
#[test]
fn who_has_a_file_of_a_stopped_server_holds_up_nobody_else() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("stopped-server", "/dev/fuse");
    }
    let client = "[Unit]\nAfter=server.service\nRequiresMountsFor=/run/files\n[Service]\n\
                  Type=notify\nTimeoutStopSec=1\nWorkingDirectory=/run/files\n\
                  ExecStart=@P opens:/run/files/file ready stay";
    let after = "[Unit]\nAfter=server.service";
    let units = vec![
        service("server", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        service("client", client),
        ("run-files.mount.d/order.conf".to_owned(), after.to_owned()),
        tmpfs("/run/other"),
        service("other", "[Unit]\nRequiresMountsFor=/run/other\n[Service]\nExecStart=@P stay"),
    ];
    // More than there are threads that unmount.
    let below: Units = (0..4).map(|n| tmpfs(&format!("/run/files/d{n}"))).collect();
    let units = [units, below.clone()].concat();
    let Some(mut m) = up("stopped-server", &units) else { return };
    m.wait_for("run-files.mount", "active/mounted");
    below.iter().for_each(|(name, _)| m.expect_job("start", name, "done"));
    let pid = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&pid);
    m.leave("poweroff");
    let is_waited_for = |unit: &str| {
        let answer = m.call_while_up("Shutdown", &json!({})).unwrap_or_default();
        answer["waits"].as_array().is_some_and(|waits| waits.iter().any(|w| w["unit"] == unit))
    };
    let skip = |unit: &str| {
        until("it is not waited for", || {
            m.skip(unit);
            (!is_waited_for(unit)).then_some(())
        });
    };
    let held: Vec<&str> = below.iter().map(|(name, _)| &**name).chain(["client.service"]).collect();
    until("all are waited for", || held.iter().all(|unit| is_waited_for(unit)).then_some(()));
    let answer = m.call("Shutdown", &json!({}));
    let waits = answer["waits"].as_array().expect("a list");
    let server = |unit: &str| waits.iter().find(|w| w["unit"] == unit).map(|w| &w["server"]);
    assert_eq!(server(held[0]), Some(&json!("/run/files (fuse of files)")), "{answer}");
    let why = m.call("Why", &json!({"unit": held[0]}));
    assert_eq!(&why["units"][0]["path"][0]["under_way"]["server"], server(held[0]).expect("it"));
    until("others are down", || (m.state("run-other.mount") == "inactive/dead").then_some(()));
    held.into_iter().for_each(skip);
    let console = m.wait_for_end();
    let recording = recording(&m, "shutdown").unwrap_or_else(|| panic!("no recording: {console}"));
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    assert!(ended(stops["run-other.mount"]) <= ended(stops["client"]), "{console}");
    // A second round would meet nobody.
    assert_eq!(signals(&recording, "client.service"), [SIGTERM, SIGKILL], "{console}");
    assert!(console.contains("client.service: 1 leftover process: player"), "{console}");
    let mount = console.lines().find(|line| line.contains("run-files.mount: WR-0055"));
    assert!(mount.is_some_and(|line| line.contains("player (pid ")), "{console}");
    assert!(console.contains("The system is down."), "{console}");
}

/// Where recordings lie may be on a server that does not answer. The end goes on without them, and so
/// does a manager that comes back meanwhile.
#[test]
fn recordings_on_a_stopped_server_are_not_waited_for() {
    if !std::path::Path::new("/dev/fuse").exists() {
        return lab::not_run("stopped-records", "/dev/fuse");
    }
    let units =
        vec![service("one", "[Service]\nExecStart=@P stay\nExecStop=/bin/touch @D/out/stopped")];
    let Some(mut m) = up("stopped-records", &units) else { return };
    // No service, which would be waked to be stopped.
    let place = m.directory.join("records").display().to_string();
    std::fs::create_dir_all(&place).expect("it can be made");
    let script = format!(
        "{} files:{place} </dev/null >/dev/null 2>&1 & until mountpoint -q {place}; do :; done; echo $!",
        lab::player()
    );
    let server = m.run(&["sh", "-c", &script]).expect("it mounts");
    m.stop_server(server.trim());
    assert!(m.kill_manager());
    m.wait_for("one.service", "active/running");
    m.leave("poweroff");
    let console = m.wait_for_end();
    assert!(m.out("stopped").exists(), "{console}");
    let lost = "lost the recording of the shutdown: ";
    let lost = console.lines().find(|line| line.contains(lost)).map(|line| line.contains(&place));
    assert_eq!(lost, Some(true), "{console}");
    assert!(console.contains("The system is down."), "{console}");
}

/// Nobody who is forked while all are being asked is left to be killed.
#[test]
fn a_child_that_comes_while_all_are_asked_is_asked_too() {
    const ROUNDS: usize = 8;
    // The last of many in the list goes on forking until its own signal comes.
    let many = "i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i + 1)); done";
    let forks = "i=0; while [ $i -lt 600 ]; do sleep 1000 & i=$((i + 1)); done; wait";
    let text = format!(
        "[Unit]\nStartLimitIntervalSec=0\n[Service]\nTimeoutStopSec=30\n\
         ExecStart=/bin/sh -c '{many}; (echo > @D/out/forks; {forks}) & wait'"
    );
    let units = vec![service("forks", &text)];
    let Some(mut m) = up("forkers", &units) else { return };
    for _ in 0..ROUNDS {
        until("it forks", || std::fs::remove_file(m.out("forks")).ok());
        assert_eq!(m.job("restart", "forks.service"), lab::Ended::Said("done".to_owned()));
    }
    until("it forks", || m.out("forks").exists().then_some(()));
    let (console, recording) = end(&mut m);
    assert!(console.contains(", 0 killed."), "{console}");
    assert!(!console.contains("WR-0044"), "{console}");
    for (name, _) in &units {
        assert!(!signals(&recording, name).contains(&SIGKILL), "{name}: {console}");
    }
}

/// Neither process 1 nor the manager, nor what they start, waits for a time to be over.
#[test]
fn an_empty_machine_ends_without_a_sleep() {
    let is_there = Command::new("strace").arg("-V").output().is_ok();
    if !is_there {
        return lab::not_run("asleep", "strace");
    }
    let Some(mut m) = Machine::start("asleep", &[]) else { return };
    m.wait_until_it_listens();
    let manager = until("a manager", || m.manager_pid());
    let calls = m.directory.join("calls");
    let traced = "trace=nanosleep,clock_nanosleep,select,exit_group,reboot";
    let mut processes = vec![m.init_pid, manager];
    processes.extend(m.all_helpers());
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-e", traced, "-o"])
        .arg(&calls)
        .args(processes.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]))
        .spawn()
        .expect("it was there just now");
    for pid in processes {
        until("it is traced", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status
                .lines()
                .any(|line| {
                    line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0")
                })
                .then_some(())
        });
    }
    let (console, _) = end(&mut m);
    let _ = strace.wait();
    let calls = std::fs::read_to_string(&calls).expect("it was written");
    // Process 1 ends the machine: that it was seen says that calls are.
    let ends = ["exit_group(", "reboot("].iter().any(|call| calls.contains(call));
    assert!(ends, "{calls}{console}");
    assert!(!calls.contains("sleep("), "{calls}");
    assert!(!calls.contains("select("), "{calls}");
}

// ---- file systems ----

fn tmpfs(path: &str) -> (String, String) {
    let name = format!("{}.mount", path.trim_start_matches('/').replace('/', "-"));
    (name, format!("[Mount]\nWhat=tmpfs\nWhere={path}\nType=tmpfs"))
}

/// The first is let go by the last that uses it, and is tried once.
#[test]
fn a_mount_waits_for_the_last_process_that_uses_it() {
    let uses = "[Unit]\nRequiresMountsFor=/run/held\n[Service]\nWorkingDirectory=/run/held\n\
                Type=notify\nExecStart=@P ready lingers:";
    let units = vec![
        tmpfs("/run/held"),
        tmpfs("/run/held/below"),
        service("brief", &format!("{uses}50")),
        service("late", &format!("{uses}400")),
        service("top", "[Unit]\nRequiresMountsFor=/run/held/below\n[Service]\nExecStart=@P stay"),
    ];
    let Some(mut m) = up("held", &units) else { return };
    let (console, recording) = end(&mut m);
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    let (held, below) = (stops["run-held.mount"], stops["run-held-below.mount"]);
    assert_eq!(began(held).time_us, ended(stops["late"]).time_us, "{console}");
    assert_eq!(began(below).time_us, ended(stops["top"]).time_us, "{console}");
    assert!(ended(below) <= began(held), "{console}");
    assert!(!console.contains("WR-0055"), "no unmount failed: {console}");
}

/// An automount point goes before what it is mounted on, though nobody waits for it to be away.
#[test]
fn an_automount_point_does_not_hold_the_mount_below_it() {
    if !std::path::Path::new("/dev/autofs").exists() {
        return lab::not_run("trapped", "/dev/autofs");
    }
    const TRAPS: usize = 40;
    let trap = |n| format!("run-trapped-{n}");
    let mut units: Units = vec![tmpfs("/run/trapped")];
    for n in 0..TRAPS {
        units.push(tmpfs(&format!("/run/trapped/{n}")));
        let text = format!("[Automount]\nWhere=/run/trapped/{n}");
        units.push((format!("{}.automount", trap(n)), text));
    }
    let Some(mut m) = up("trapped", &units) else { return };
    let traps = || (0..TRAPS).map(|n| format!("{}.automount", trap(n)));
    traps().for_each(|name| m.expect_job("start", &name, "done"));
    // Again while it is being taken away, and somebody is caught as before.
    let last = format!("{}.automount", trap(0));
    m.expect_job("restart", &last, "done");
    m.run(&["ls", "/run/trapped/0"]).expect("it is mounted");
    m.wait_for(&format!("{}.mount", trap(0)), "active/mounted");
    let (console, recording) = end(&mut m);
    assert!(!console.contains("WR-0055"), "no unmount failed: {console}");
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    let below = stops["run-trapped.mount"];
    assert!(ended(stops[&*format!("{}.mount", trap(0))]) <= began(below), "{console}");
    for name in traps() {
        assert!(ended(stops[&*name]) <= began(below), "{name}: {console}");
    }
}

/// The way to an automount point may lead past a server that does not answer. It is left behind after a
/// time of its own, by the next manager too, and what must not come before it goes then.
#[test]
fn an_automount_point_on_a_stopped_server_is_left_behind() {
    for missing in ["/dev/fuse", "/dev/autofs"] {
        if !std::path::Path::new(missing).exists() {
            return lab::not_run("stopped-traps", missing);
        }
    }
    // More than there are threads that take them away.
    const TRAPS: usize = 9;
    let trap = |n| format!("run-files-d{n}.automount");
    let mut units = vec![
        service("server", "[Service]\nType=notify\nExecStart=@P files:/run/files"),
        ("run-files.mount.d/order.conf".to_owned(), "[Unit]\nAfter=server.service".to_owned()),
        tmpfs("/run/other"),
        tmpfs("/run/late"),
        service("other", "[Unit]\nRequiresMountsFor=/run/other\n[Service]\nExecStart=@P stay"),
    ];
    for n in 0..TRAPS {
        let early = "[Unit]\nAfter=server.service\n";
        units.push((trap(n), format!("{early}[Automount]\nWhere=/run/files/d{n}")));
        units.push(tmpfs(&format!("/run/files/d{n}")));
    }
    let Some(mut m) = up("stopped-traps", &units) else { return };
    m.wait_for("run-files.mount", "active/mounted");
    (0..TRAPS).for_each(|n| m.expect_job("start", &trap(n), "done"));
    let pid = m.main_pid("server.service").expect("it runs").to_string();
    m.stop_server(&pid);
    // With everything running: others come and go when its time is over.
    m.expect_job("stop", &trap(0), "done");
    m.expect_job("start", "run-late.mount", "done");
    let is_left = |m: &Machine, n| {
        let left = format!("{}: could not remove automount point /run/files/d{n} within ", trap(n));
        m.console().contains(&left)
    };
    assert!(is_left(&m, 0), "nothing is mounted while it may go: {}", m.console());
    m.expect_job("stop", &trap(1), "done");
    assert!(m.kill_manager());
    until("it is left by the next manager", || is_left(&m, 1).then_some(()));
    let (console, recording) = end(&mut m);
    for n in 2..TRAPS {
        assert!(is_left(&m, n), "{n}: {console}");
    }
    let waits = console.lines().find(|line| line.contains("waiting for"));
    assert!(
        waits.is_some_and(|line| line.contains("run-files-d2.automount (unmounting, ")),
        "{console}"
    );
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    assert!(ended(stops["other"]) <= began(stops["run-other.mount"]), "{console}");
    assert!(console.contains("The system is down."), "{console}");
}

/// Of thousands not each is asked of the kernel what it used; their slice is.
#[test]
fn counters_of_many_are_read_of_their_slice() {
    const COUNT: usize = 150;
    let mut units: Units = vec![("many.slice".to_owned(), "[Slice]".to_owned())];
    units
        .extend((0..COUNT).map(|n| {
            service(&format!("one{n}"), "[Service]\nSlice=many.slice\nExecStart=@P stay")
        }));
    let Some(mut m) = up("counted", &units) else { return };
    let (console, recording) = end(&mut m);
    let name = |id| recording.units.iter().find(|unit| unit.id == id).map(|unit| &*unit.name);
    let counted: Vec<&str> = recording
        .events
        .iter()
        .filter(|event| matches!(event.what(), Some(What::Counter { counter: Counter::CpuUs, .. })))
        .filter_map(|event| name(event.unit))
        .collect();
    let services = counted.iter().filter(|name| name.starts_with("one")).count();
    assert!((1..=128).contains(&services), "{services} of {COUNT}: {console}");
    assert_eq!(counted.iter().filter(|&&name| name == "many.slice").count(), 1, "{counted:?}");
}

/// Trees of mounts go side by side, in each of them the child first.
#[test]
fn mounts_go_by_trees_and_children_first() {
    const TREES: usize = 10;
    const DEEP: usize = 6;
    let path = |tree: usize, deep: usize| {
        let below: String = (1..=deep).map(|level| format!("/m{level}")).collect();
        format!("/run/t{tree}{below}")
    };
    let mut units: Units = Vec::new();
    for tree in 0..TREES {
        units.extend((0..DEEP).map(|deep| tmpfs(&path(tree, deep))));
    }
    let leaves: Vec<String> = (0..TREES).map(|tree| path(tree, DEEP - 1)).collect();
    let all =
        format!("[Unit]\nRequiresMountsFor={}\n[Service]\nExecStart=@P stay", leaves.join(" "));
    units.push(service("all", &all));
    let Some(mut m) = up("trees", &units) else { return };
    let (console, recording) = end(&mut m);
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    let stop = |tree, deep| stops[&*tmpfs(&path(tree, deep)).0];
    for tree in 0..TREES {
        assert!(ended(stops["all"]) <= began(stop(tree, DEEP - 1)), "{console}");
        for deep in 1..DEEP {
            assert!(ended(stop(tree, deep)) <= began(stop(tree, deep - 1)), "{tree} {deep}");
        }
    }
    // None waits for another tree: all that is innermost begins when its user is gone.
    let first: BTreeSet<u64> = (0..TREES).map(|tree| began(stop(tree, DEEP - 1)).time_us).collect();
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(!console.contains("WR-0055"), "no unmount failed: {console}");
}

/// Neither a client, nor `Restart=`, nor somebody's wish starts what is to stop.
#[test]
fn what_would_start_something_does_not_any_more() {
    let slow = "[Unit]\nAfter=again.service asked.socket\n[Service]\nExecStart=@P stay\n\
                ExecStop=@P append:@D/out/stopping:it wait:60000\nTimeoutStopSec=120";
    let units = vec![
        service("again", "[Service]\nRestart=always\nRestartSec=0\nExecStart=@P stay"),
        ("asked.socket".to_owned(), "[Socket]\nListenStream=/run/asked".to_owned()),
        service("slow", slow),
    ];
    let Some(mut m) = up("triggers", &units) else { return };
    m.write("asked.service", "[Service]\nExecStart=@P serve");
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "asked.socket", "done");
    let pid = m.main_pid("again.service").expect("it runs").to_string();
    m.leave("poweroff");
    until("it is being stopped", || m.out("stopping").exists().then_some(()));
    m.run(&["kill", "-KILL", &pid]).expect("it runs");
    let client = std::os::unix::net::UnixStream::connect(m.inside("/run/asked"));
    let client = client.expect("it listens still");
    m.skip("slow.service");
    let console = m.wait_for_end();
    drop(client);
    let recording = recording(&m, "shutdown").expect("it is kept");
    let started = recording.events.iter().filter(|event| {
        let name = recording.units.iter().find(|unit| unit.id == event.unit);
        let name = name.map_or("", |unit| unit.name.as_str());
        matches!(event.what(), Some(What::Exec { .. }))
            && matches!(name, "again.service" | "asked.service")
    });
    assert_eq!(started.count(), 0, "{console}");
}

/// Init keeps sockets until it ends itself; who connects to one that was stopped is refused all the same.
#[test]
fn a_stopped_socket_refuses_while_others_are_waited_for() {
    let slow = "[Service]\nExecStart=@P stay\nTimeoutStopSec=120\n\
                ExecStop=@P append:@D/out/stopping:it wait:60000";
    let socket = ("asked.socket".to_owned(), "[Socket]\nListenStream=/run/asked".to_owned());
    let units = vec![service("slow", slow), socket];
    let Some(mut m) = up("refusing", &units) else { return };
    m.write("asked.service", "[Service]\nExecStart=@P serve");
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "asked.socket", "done");
    let connect = || std::os::unix::net::UnixStream::connect(m.inside("/run/asked"));
    drop(connect().expect("it listens"));
    m.leave("poweroff");
    until("it is being stopped", || m.out("stopping").exists().then_some(()));
    let refused = std::io::ErrorKind::ConnectionRefused;
    until("it refuses", || connect().err().filter(|error| error.kind() == refused));
    m.skip("slow.service");
    m.wait_for_end();
}

#[test]
fn orders_that_go_in_a_circle_hold_nothing_up() {
    let text = |other: &str| {
        format!("[Unit]\nAfter={other}.service\n[Service]\nExecStart=@P stay\nExecStop=@P wait:20")
    };
    let units = vec![service("a", &text("b")), service("b", &text("c")), service("c", &text("a"))];
    let Some(mut m) = up("circle", &units) else { return };
    let (console, recording) = end(&mut m);
    let analysis = Analysis::of(&recording);
    let stops = stops(&analysis);
    assert!(["a", "b", "c"].iter().all(|name| stops[name].end.is_some()), "{console}");
    assert!(console.contains("ordering cycle a.service"), "the circle is told: {console}");
}

#[test]
fn a_shutdown_that_is_cancelled_is_none() {
    let slow = "[Service]\nExecStart=@P stay\nExecStop=@P append:@D/out/asked:slow wait:300";
    let units = vec![service("slow", slow), service("other", "[Service]\nExecStart=@P stay")];
    let Some(mut m) = up("cancelled", &units) else { return };
    m.call("Job", &json!({"type": "start", "unit": "shutdown.target", "wait": false}));
    until("it is asked", || m.out("asked").exists().then_some(()));
    m.expect_job("stop", "shutdown.target", "done");
    until("it is over", || (m.totals()["jobs"] == 0).then_some(()));
    assert!(recording(&m, "shutdown").is_none(), "nothing was shut down");
    m.wait_for("slow.service", "inactive/dead");
    m.expect_job("start", "slow.service", "done");
    m.expect_job("start", "other.service", "done");
    let (console, recording) = end(&mut m);
    assert_eq!(console.matches("The system is down.").count(), 1, "{console}");
    assert_eq!(console.matches("The shutdown was cancelled.").count(), 1, "{console}");
    let analysis = Analysis::of(&recording);
    assert!(stops(&analysis).contains_key("slow"));
}

// ---- locks and plans ----

fn call_error(m: &Machine, method: &str, parameters: &serde_json::Value) -> String {
    let answer = m.try_call(method, parameters).expect("it is answered");
    assert!(answer["error"].is_string(), "{answer}");
    answer["parameters"]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_lock_holds_until_its_holder_is_gone() {
    let Some(mut m) = up("locks", &vec![service("a", "[Service]\nExecStart=@P stay")]) else {
        return;
    };
    let warren = lab::program_of("warren-cli", "warren");
    let gate = m.out("gate");
    let wait = format!("while ! test -e {}; do :; done; exit 7", gate.display());
    let inhibit = [&warren, "inhibit", "--who=backup", "--why=half done", "--", "sh", "-c", &wait];
    let holder = m.spawn(&inhibit);
    let locks = |m: &Machine| m.call("Shutdown", &json!({}))["inhibitors"].clone();
    until("the lock is held", || (locks(&m)[0]["who"] == "backup").then_some(()));
    let refused = call_error(&m, "Leave", &json!({"how": "poweroff"}));
    assert!(refused.contains("backup") && refused.contains("half done"), "{refused}");
    // It is taken again from the next manager.
    m.kill_manager();
    until("the lock is held again", || (locks(&m)[0]["why"] == "half done").then_some(()));
    // What is planned waits for it.
    m.call("Leave", &json!({"how": "poweroff", "after": "1ms", "message": "new disks"}));
    until("it waits", || m.console().contains("shutdown is waiting for backup").then_some(()));
    assert_eq!(m.state("a.service"), "active/running");
    let why = m.call("Why", &json!({}));
    let holds_up = (&why["planned"]["left_us"], &why["inhibitors"][0]["who"]);
    assert_eq!(holds_up, (&json!(0), &json!("backup")), "{why}");
    // Another manager does not begin it before the holder has come back.
    for _ in 0..3 {
        let old = m.manager_pid();
        m.kill_manager();
        until("the next manager answers", || {
            m.try_call("Shutdown", &json!({})).filter(|_| m.manager_pid() != old)
        });
        assert_eq!(m.state("a.service"), "active/running");
    }
    until("the lock is held again", || (locks(&m)[0]["why"] == "half done").then_some(()));
    std::fs::write(&gate, "").expect("a file can be made");
    let console = m.wait_for_end();
    assert!(console.contains("The system is down."), "{console}");
    assert!(console.contains("is shutting down (power off): new disks"), "{console}");
    assert_eq!(holder.wait_with_output().expect("it ended").status.code(), Some(7));
}

#[test]
fn what_is_planned_can_be_taken_back_and_outlives_the_manager() {
    let Some(mut m) = up("plans", &vec![service("a", "[Service]\nExecStart=@P stay")]) else {
        return;
    };
    let planned = |m: &Machine| m.call("Shutdown", &json!({}))["planned"].clone();
    let none = call_error(&m, "CancelLeave", &json!({}));
    assert_eq!(none, "no shutdown is scheduled");
    for wrong in [json!({"after": "soon"}), json!({"at": "25:00"}), json!({"after": "9years"})] {
        call_error(&m, "Leave", &wrong);
    }
    m.call("Leave", &json!({"how": "reboot", "after": "1h"}));
    assert_eq!(planned(&m)["what"], "reboot");
    let warning = "System shutdown in 60 minutes (reboot)";
    until("all are warned", || m.console().contains(warning).then_some(()));
    m.kill_manager();
    until("the next manager knows", || planned(&m)["left_us"].as_u64());
    assert!(planned(&m)["left_us"].as_u64().is_some_and(|us| us <= 3_600_000_000));
    // One that cannot be written is refused, and the one before stays.
    let in_the_way = m.inside("/run/warren/scheduled.new");
    std::fs::create_dir(&in_the_way).expect("a directory can be made");
    let unwritten = call_error(&m, "Leave", &json!({"how": "poweroff", "after": "2h"}));
    assert!(unwritten.contains("cannot schedule the shutdown: "), "{unwritten}");
    assert_eq!(planned(&m)["what"], "reboot");
    std::fs::remove_dir(&in_the_way).expect("it is empty");
    m.call("CancelLeave", &json!({}));
    assert!(planned(&m).is_null());
    let no_kernel = call_error(&m, "Leave", &json!({"how": "kexec", "after": "1h"}));
    assert!(no_kernel.contains("No kernel is loaded"), "{no_kernel}");
    let no_kernel = call_error(&m, "Leave", &json!({"how": "kexec"}));
    assert!(no_kernel.contains("No kernel is loaded"), "{no_kernel}");
    m.call("Leave", &json!({"how": "exit", "after": "200ms"}));
    let console = m.wait_for_end();
    assert!(console.contains("The shutdown was cancelled."), "{console}");
    assert!(console.contains("The system is shutting down: exit of the manager."), "{console}");
}

/// An end that is due begins when it is due, not when something happens next: that would be the line
/// that tells who is waited for.
#[test]
fn what_was_planned_begins_at_once() {
    let units =
        vec![service("lingers", "[Service]\nType=notify\nExecStart=@P hold ready lingers:50")];
    let Some(mut m) = up("due", &units) else { return };
    m.call("Leave", &json!({"how": "poweroff", "after": "50ms"}));
    let console = m.wait_for_end();
    assert!(console.contains("The system is down."), "{console}");
    assert!(!console.contains("waiting for"), "{console}");
}
