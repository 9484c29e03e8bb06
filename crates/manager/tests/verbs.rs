//! `warren start`, `stop` and the like of several units at once, as a user types them.

mod lab;

use lab::{Machine, program_of};

/// What `warren` prints on both streams, and its exit status.
fn warren(m: &Machine, arguments: &str) -> String {
    let command = program_of("warren-cli", "warren");
    let line = format!("{command} {arguments} 2>&1; echo \"= $?\"");
    m.run(&["sh", "-c", &line]).expect("sh(1) runs")
}

/// Each stop ends only when the other has begun: opening a FIFO waits for its other side.
#[test]
fn several_units_are_stopped_together() {
    let one = "[Service]\nExecStart=@P stay\nTimeoutStopSec=40\n\
               ExecStop=/bin/sh -c 'echo > /run/meeting'";
    let other = "[Service]\nExecStart=@P stay\nTimeoutStopSec=40\n\
                 ExecStop=/bin/sh -c 'read line < /run/meeting'";
    let units = [("meet-a.service", one), ("meet-b.service", other)];
    let Some(m) = Machine::start("verbs-together", &units) else { return };
    m.run(&["mkfifo", "/run/meeting"]).expect("a FIFO can be made");
    assert_eq!(warren(&m, "start meet-a meet-b"), "= 0\n");
    assert_eq!(warren(&m, "stop meet-a meet-b"), "= 0\n");
    assert_eq!(m.state("meet-a.service"), "inactive/dead");
    assert_eq!(m.state("meet-b.service"), "inactive/dead");
}

#[test]
fn each_of_several_units_is_answered_for() {
    let units = [
        ("good-1.service", "[Service]\nExecStart=@P stay"),
        ("good-2.service", "[Service]\nExecStart=@P stay"),
        ("bad.service", "[Service]\nType=oneshot\nExecStart=/bin/false"),
        ("no.service", "[Unit]\nRefuseManualStart=yes\n[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("verbs-answers", &units) else { return };
    let said = warren(&m, "start good-1 bad no missing good-2");
    let expected = "Job for bad.service failed. See 'warren why bad.service'.\n\
                    Failed to start no.service: ";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("Failed to start missing.service: Unit missing.service not found."));
    assert!(said.ends_with("= 5\n"), "the highest status of all: {said}");
    for unit in ["good-1.service", "good-2.service"] {
        assert_eq!(m.state(unit), "active/running");
    }
    assert_eq!(warren(&m, "stop 'good-*'"), "= 0\n");
    assert_eq!(m.state("good-1.service"), "inactive/dead");
    assert_eq!(m.state("good-2.service"), "inactive/dead");
    assert_eq!(warren(&m, "stop 'nobody-*'"), "No unit matches nobody-*.\n= 0\n");
    let rows = warren(&m, "--json start good-2 good-1");
    let rows: Vec<&str> = rows.lines().collect();
    assert!(rows[0].contains("good-2.service") && rows[1].contains("good-1.service"), "{rows:?}");
    let before = m.main_pid("good-1.service");
    assert_eq!(warren(&m, "restart --dump 'good-*'"), "= 0\n");
    assert_eq!(m.state("good-1.service"), "active/running");
    assert_ne!(m.main_pid("good-1.service"), before);
    let before = m.main_pid("good-1.service");
    assert_eq!(warren(&m, "stop good-2"), "= 0\n");
    assert_eq!(warren(&m, "restart --dump good-2 good-1"), "= 0\n", "one is down");
    assert_eq!(m.state("good-2.service"), "active/running");
    assert_ne!(m.main_pid("good-1.service"), before);
}
