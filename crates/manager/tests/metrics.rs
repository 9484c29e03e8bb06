//! What a monitoring program is told of a manager.

mod lab;

use lab::Machine;
use serde_json::{Value, json};

#[test]
fn what_happened_is_counted_by_its_reason() {
    let units = [
        ("stays.service", "[Service]\nExecStart=@P stay"),
        ("fails.service", "[Service]\nExecStart=@P exit:3"),
        (
            "again.service",
            "[Unit]\nStartLimitBurst=3\nStartLimitIntervalSec=1h\n\
             [Service]\nExecStart=@P exit:4\nRestart=always\nRestartSec=10ms",
        ),
        ("late.timer", "[Timer]\nOnActiveSec=1h\nUnit=stays.service"),
    ];
    let Some(m) = Machine::start("metrics", &units) else { return };
    let metrics = |more: Value| m.call("Metrics", &more);
    let before = metrics(json!({}));
    assert_eq!((&before["failures"], &before["restarts"]), (&json!({}), &json!({})));
    m.expect_job("start", "stays.service", "done");
    m.expect_job("start", "late.timer", "done");
    m.call("Job", &json!({"unit": "fails.service", "type": "start"}));
    m.wait_for("fails.service", "failed/failed");
    m.call("Job", &json!({"unit": "again.service", "type": "start"}));
    m.wait_for("again.service", "failed/failed");
    m.write("new.service", "[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));

    let after = metrics(json!({"units": ["*s.service"], "units_max": 1, "timers_max": 9}));
    let sum = |counts: &Value| -> u64 {
        let counts = counts.as_object().expect("counts by code");
        assert!(counts.keys().all(|code| code.starts_with("WR-")), "{counts:?}");
        counts.values().filter_map(Value::as_u64).sum()
    };
    assert_eq!((sum(&after["failures"]), sum(&after["restarts"])), (2, 3), "{after}");
    let of = |kind: &str, state: &str| {
        let units = after["units"].as_array().expect("units");
        let row = units.iter().find(|row| row["type"] == kind && row["state"] == state);
        row.map_or(0, |row| row["count"].as_u64().expect("a count"))
    };
    assert_eq!(of("service", "failed"), 2);
    assert!(of("service", "active") >= 1 && of("timer", "active") >= 1, "{after}");
    assert_eq!(after["reloads"]["count"], 1);
    assert!(after["reloads"]["last_took_us"].as_u64() > Some(0), "{after}");
    let turns = |answer: &Value| -> u64 {
        let counts = answer["turns"]["counts"].as_array().expect("counts");
        assert_eq!(
            counts.len(),
            answer["turns"]["bounds_us"].as_array().expect("bounds").len() + 1
        );
        counts.iter().filter_map(Value::as_u64).sum()
    };
    assert!(turns(&after) > turns(&before), "{after}");
    // Of those that are asked for as many as are asked for, and how many there are.
    assert_eq!(
        (&after["rows_total"], &after["rows"].as_array().map(Vec::len)),
        (&json!(2), &Some(1))
    );
    assert_eq!(after["rows"][0]["name"], "fails.service");
    assert_eq!(
        (&after["rows"][0]["active"], &after["timers_total"]),
        (&json!("failed"), &json!(1))
    );
    assert_eq!(after["timers"][0]["name"], "late.timer");
    assert_eq!(metrics(json!({}))["timers"], json!([]));
    assert_eq!(after["manager"]["restarts"], 0);

    // A manager that comes back says so, and counts anew.
    m.kill_manager();
    let again = metrics(json!({}));
    assert_eq!((&again["manager"]["restarts"], &again["failures"]), (&json!(1), &json!({})));
}
