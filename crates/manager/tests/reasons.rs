//! Why units are as they are, as the manager tells it.

mod lab;

use lab::Machine;
use serde_json::json;

#[test]
fn what_was_wanted_in_vain_tells_whose_fault_it_is() {
    let units = [
        ("main.target", "[Unit]\nWants=top.service"),
        ("top.service", "[Unit]\nRequires=middle.service\n[Service]\nExecStart=@P stay"),
        ("middle.service", "[Unit]\nRequires=gone.service\n[Service]\nExecStart=@P stay"),
    ];
    let Some(m) = Machine::start("in-vain", &units) else { return };
    m.expect_job("start", "main.target", "done");
    let path = |unit: &str| {
        let why = m.call("Why", &json!({"unit": unit}));
        let steps = why["units"][0]["path"].as_array().expect("a path").clone();
        let step =
            |step: &serde_json::Value| format!("{} {}", step["name"], step["reason"]["code"]);
        steps.iter().map(step).collect::<Vec<_>>()
    };
    assert_eq!(
        path("top.service"),
        ["\"top.service\" \"WR-0062\"", "\"gone.service\" \"WR-0080\""],
        "{}",
        m.console()
    );
    let told = "top.service: WR-0062 it was wanted and not started";
    assert!(m.console().contains(told), "{}", m.console());
    assert!(m.console().contains("Unit gone.service not found."), "{}", m.console());
    let all = m.call("Why", &json!({}))["units"].to_string();
    assert!(all.contains("gone.service") && all.contains("top.service"), "{all}");

    // Once it can be, it is, and nothing is told any more.
    m.write("gone.service", "[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));
    m.expect_job("start", "main.target", "done");
    m.wait_for("top.service", "active/running");
    assert_eq!(m.call("Why", &json!({}))["units"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_restart_may_have_a_dump_first() {
    let Some(m) = Machine::start("dump", &[("a.service", "[Service]\nExecStart=@P stay")]) else {
        return;
    };
    m.expect_job("start", "a.service", "done");
    let before = m.main_pid("a.service");
    m.call("Kill", &json!({"unit": "a.service", "whom": "main", "signal": 6}));
    m.expect_job("restart", "a.service", "done");
    m.wait_for("a.service", "active/running");
    assert_ne!(m.main_pid("a.service"), before);
    assert!(m.console().contains("SIGABRT"), "{}", m.console());
    let wrong = m.try_call("Kill", &json!({"unit": "a.service", "signal": 99}));
    assert!(wrong.is_some_and(|answer| answer["error"].is_string()));
}
