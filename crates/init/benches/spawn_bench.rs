//! What a spawn through the helpers costs, beside a plain vfork-and-exec loop of the same
//! program in the same run.
//!
//! `cargo build --release -p warren-init --examples && cargo bench -p warren-init [-- N]`

#[allow(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../tests/lab/mod.rs"]
mod lab;

use std::os::fd::AsFd;
use std::time::Instant;

use lab::{Lab, Session};
use warren_init::protocol::exec::{CgroupPlace, ExecSpec};
use warren_sys::child::{self, ExecStrings};
use warren_sys::clone::{self, Options, Stack};
use warren_sys::process::{self, Wait};

/// Requests under way at one helper.
const WINDOW: usize = 16;

fn main() {
    let given = std::env::args().skip(1).find_map(|a| a.parse().ok());
    let spawns: usize = given.unwrap_or(2000);
    for round in 1..=3 {
        println!("round {round}, {spawns} spawns of /bin/true, microseconds of wall time each:");
        report("vfork + exec + wait, plain loop", spawns, || plain(spawns));
        report("std::process::Command, plain loop", spawns, || command(spawns));
        for helpers in [1, 2] {
            let lab = Lab::start("bench", &[&format!("--helpers={helpers}")]);
            let session = lab.hello();
            report(&format!("{helpers} helper(s), no cgroup"), spawns, || {
                through_helpers(&session, spawns, |_| CgroupPlace::Inherit)
            });
        }
        with_cgroups(spawns);
    }
}

fn report(name: &str, spawns: usize, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    let each = start.elapsed().as_secs_f64() * 1e6 / spawns as f64;
    println!("  {name:<40} {each:8.1}");
}

fn plain(spawns: usize) {
    let mut stack = Stack::new().expect("memory");
    let (mut argv, mut env) = (ExecStrings::default(), ExecStrings::default());
    argv.push("true").expect("no NUL");
    argv.finish();
    env.finish();
    for _ in 0..spawns {
        let mut body = |_| {
            let _ = child::exec(c"/bin/true", &argv, &env);
            127
        };
        let child = clone::spawn(&Options::default(), &mut stack, &mut body).expect("clone");
        process::wait(Wait::PidFd(child.pidfd.as_fd()), true).expect("our child");
    }
}

fn command(spawns: usize) {
    for _ in 0..spawns {
        let status = std::process::Command::new("/bin/true").status();
        assert!(status.expect("it runs").success());
    }
}

/// Keeps every helper's window full; ends when every exit record was read.
fn through_helpers(session: &Session, spawns: usize, place: impl Fn(usize) -> CgroupPlace) {
    let helpers = session.helpers.len();
    let request = |n: usize| {
        let exec = ExecSpec { path: "/bin/true".into(), cgroup: place(n), ..ExecSpec::default() };
        session.request(n % helpers, n as u64, exec, &[]);
    };
    let first = spawns.min(WINDOW * helpers);
    (0..first).for_each(request);
    for n in 0..spawns {
        let (reply, _) = session.spawn_reply(n % helpers);
        reply.result.expect("/bin/true can be run");
        if first + n < spawns {
            request(first + n);
        }
        session.discard_exits();
    }
    while session.ring.read_position() < spawns as u64 {
        lab::wait_readable(session.wake.as_fd());
        session.wake.clear();
        session.discard_exits();
    }
}

fn with_cgroups(spawns: usize) {
    let Some(lab) = Lab::start_with_cgroup("bench") else { return };
    let session = lab.hello();
    let (top, group) = lab.tree.as_ref().expect("it was started with one");
    let name = |n: usize| format!("{group}/g{n}.service");
    report("make a cgroup each", spawns, || {
        (0..spawns).for_each(|n| _ = top.make(name(n)).expect("made"));
    });
    let helpers = session.helpers.len();
    report(&format!("{helpers} helpers, each into its cgroup"), spawns, || {
        through_helpers(&session, spawns, |n| CgroupPlace::Path(format!("g{n}.service")));
    });
    report("remove a cgroup each", spawns, || {
        (0..spawns).for_each(|n| assert_eq!(top.remove(name(n)), Ok(true)));
    });
}
