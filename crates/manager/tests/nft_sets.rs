//! Sets of nf_tables that are told of units, in a network of the test's own.

mod lab;

use lab::{Machine, not_run, until};
use warren_sys::namespace::{self, Namespaces};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/nft.py");

/// What the program says on both streams.
fn nft(m: &Machine, arguments: &str) -> String {
    m.run(&["sh", "-c", &format!("python3 {PROGRAM} {arguments} 2>&1; true")]).expect("sh(1) runs")
}

fn numbers(m: &Machine, set: &str) -> Vec<u64> {
    let said = nft(m, &format!("list f {set}"));
    said.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{said}"))).collect()
}

/// The kernel's number of a unit's group.
fn group(m: &Machine, path: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(m.cgroup_directory().join(path)).expect("the group is there").ino()
}

/// The machine has the network of the thread that makes it. None where there are no sets.
fn machine(name: &str, units: &[(&str, &str)]) -> Option<Machine> {
    if let Err(e) = namespace::unshare(Namespaces::NET) {
        not_run(name, &format!("a network namespace ({e})"));
        return None;
    }
    let m = Machine::start(name, units)?;
    let made = ["make f ids 8", "make f users 4", "make f groups 4"].map(|set| nft(&m, set));
    if made.iter().any(|said| !said.is_empty()) {
        not_run(name, &format!("python3 and a kernel with nf_tables ({})", made[0].trim()));
        return None;
    }
    Some(m)
}

/// Who is in a set when a process begins is told by itself.
#[test]
fn sets_know_a_unit_from_its_first_process_until_it_is_down() {
    const NAME: &str = "sets_know_a_unit_from_its_first_process_until_it_is_down";
    let all = "NFTSet=cgroup:inet:f:ids user:inet:f:users group:inet:f:groups";
    let look = format!("python3 {PROGRAM} list f ids");
    let first = format!(
        "[Service]\nUser=4242\nGroup=4343\n{all}\nExecStartPre=+/bin/sh -c '{look} >@D/out/ids'\n\
         ExecStart=@P stay\n"
    );
    let second = "[Service]\nUser=4242\nNFTSet=user:inet:f:users\nExecStart=@P stay\n";
    let made = "[Service]\nDynamicUser=yes\nNFTSet=user:inet:f:users\nNFTSet=user:inet:f:none\n\
                ExecStart=@P stay\n";
    let slice = "[Slice]\nNFTSet=cgroup:inet:f:ids\n";
    let units = [
        ("first.service", &*first),
        ("second.service", second),
        ("made.service", made),
        ("some.slice", slice),
    ];
    let Some(m) = machine(NAME, &units) else { return };
    m.expect_job("start", "first.service", "done");
    let id = group(&m, "system.slice/first.service");
    assert_eq!(m.lines("ids"), [id.to_string()], "before there was a process");
    assert_eq!([numbers(&m, "users"), numbers(&m, "groups")], [[4242], [4343]]);
    m.expect_job("start", "second.service", "done");
    m.expect_job("start", "some.slice", "done");
    assert_eq!(numbers(&m, "ids"), [id, group(&m, "some.slice")]);
    // Another unit has the same user.
    m.expect_job("stop", "first.service", "done");
    m.expect_job("stop", "some.slice", "done");
    until("nobody is in", || numbers(&m, "ids").is_empty().then_some(()));
    until("the group is out", || numbers(&m, "groups").is_empty().then_some(()));
    assert_eq!(numbers(&m, "users"), [4242]);
    m.expect_job("start", "made.service", "done");
    let uid = numbers(&m, "users").into_iter().find(|&uid| uid != 4242).expect("it was told");
    assert!((61184..=65519).contains(&uid), "{uid}");
    let missing = "made.service: started WITHOUT the protection of NFTSet";
    assert!(m.console().contains(missing), "{}", m.console());
    // Whoever made the sets anew has them filled.
    assert_eq!(nft(&m, "flush f users"), "");
    assert_eq!(numbers(&m, "users"), [0; 0]);
    m.call("ReloadConfiguration", &serde_json::json!({}));
    until("they are filled", || (numbers(&m, "users") == [4242, uid]).then_some(()));
    // Another manager knows what the first one told.
    let old = m.manager_pid();
    assert!(m.kill_manager());
    until("another manager answers", || {
        (m.manager_pid() != old).then(|| m.try_call("Totals", &serde_json::json!({})))?
    });
    m.expect_job("stop", "second.service", "done");
    m.expect_job("stop", "made.service", "done");
    until("nobody is left", || numbers(&m, "users").is_empty().then_some(()));
}

/// What leaves and comes back at once is in: the one is done by a worker, the other by a helper.
#[test]
fn who_restarts_is_in() {
    let unit = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nUser=4242\nNFTSet=user:inet:f:users cgroup:inet:f:ids\n\
                ExecStart=@P stay\n";
    let Some(m) = machine("who_restarts_is_in", &[("a.service", unit)]) else { return };
    m.expect_job("start", "a.service", "done");
    for _ in 0..20 {
        m.expect_job("restart", "a.service", "done");
    }
    let id = group(&m, "system.slice/a.service");
    until("only the last group is in", || (numbers(&m, "ids") == [id]).then_some(()));
    assert_eq!(numbers(&m, "users"), [4242]);
}
