//! Units of every type in a real machine: what a day of theirs looks like.

mod lab;

use lab::Machine;

/// Runs `check` over a machine with these units, where that can be.
fn with(name: &str, units: &[(&str, &str)], check: impl FnOnce(&Machine)) {
    if let Some(machine) = Machine::start(name, units) {
        check(&machine);
    }
}

#[test]
fn simple_oneshot_and_notify_services_start_and_stop() {
    let units = [
        ("a.service", "[Service]\nExecStart=@P stay"),
        (
            "o.service",
            "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=@P append:@D/out/o:1\nExecStart=@P append:@D/out/o:2",
        ),
        ("n.service", "[Service]\nType=notify\nExecStart=@P status:hello ready stay"),
        ("r.service", "[Service]\nType=notify-reload\nExecStart=@P reloads ready stay"),
        (
            "f.service",
            "[Service]\nType=forking\nPIDFile=/run/f.pid\nExecStart=@P fork:/run/f.pid stay",
        ),
    ];
    with("kinds", &units, |m| {
        for (unit, state) in [
            ("a", "active/running"),
            ("o", "active/exited"),
            ("n", "active/running"),
            ("r", "active/running"),
            ("f", "active/running"),
        ] {
            let unit = format!("{unit}.service");
            m.expect_job("start", &unit, "done");
            assert_eq!(m.state(&unit), state, "{unit}");
        }
        assert_eq!(m.lines("o"), ["1", "2"]);
        assert_eq!(m.status("n.service")["status_text"], "hello");
        let file = std::fs::read_to_string(m.inside("/run/f.pid")).unwrap_or_default();
        assert_eq!(m.main_pid("f.service").map(|p| p.to_string()).as_deref(), Some(file.trim()));
        m.expect_job("reload", "r.service", "done");
        for unit in ["a", "o", "n", "r", "f"] {
            let unit = format!("{unit}.service");
            m.expect_job("stop", &unit, "done");
            assert_eq!(m.state(&unit), "inactive/dead", "{unit}");
        }
    });
}
