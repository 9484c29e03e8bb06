//! What a table of all units is told: all of them, and later those that changed.

mod lab;

use lab::Machine;
use serde_json::{Value, json};

fn names(answer: &Value) -> Vec<&str> {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().filter_map(|row| row["name"].as_str()).collect()
}

fn row<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let rows = answer["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {answer}"))
}

/// The text that a row's field has the place of.
fn at<'a>(answer: &'a Value, list: &str, place: &Value) -> &'a Value {
    &answer[list][place.as_u64().expect("a place") as usize]
}

#[test]
fn all_units_are_told_once_and_then_those_that_changed() {
    let units = [
        ("stays.service", "[Service]\nExecStart=@P stay"),
        ("fails.service", "[Service]\nType=oneshot\nExecStart=@P exit:3"),
        (
            "needs.service",
            "[Unit]\nRequires=fails.service\nAfter=fails.service\n[Service]\nExecStart=@P stay",
        ),
        (
            "late.service",
            "[Unit]\nAfter=slow.service\nWants=slow.service\n[Service]\nExecStart=@P stay\nSlice=a-b.slice",
        ),
        ("slow.service", "[Service]\nType=notify\nExecStart=@P stay\nTimeoutStartSec=infinity"),
    ];
    let Some(m) = Machine::start("overview", &units) else { return };
    m.write_rules(
        "rules.conf",
        "apply Service \"web\" to Container {\n  ExecStart = \"@P stay\"\n  assign where true\n}\n\
         object Container \"a\" { }\n",
    );
    m.call("ReloadConfiguration", &json!({}));
    let all = m.call("Overview", &json!({}));
    assert_eq!(all["units_total"].as_u64(), Some(names(&all).len() as u64));
    assert!(names(&all).is_sorted() && names(&all).contains(&"stays.service"), "{all}");
    let web = row(&all, "a-web.service");
    assert_eq!(at(&all, "targets", &web["target"]), "Container 'a'");
    let late = row(&all, "late.service");
    assert_eq!(at(&all, "slices", &late["slice"]), "a-b.slice");
    assert_eq!(late["active"], "inactive");

    let since = |answer: &Value| json!({"changed_since_us": answer["now_us"]});
    m.expect_job("start", "stays.service", "done");
    let started = m.call("Overview", &since(&all));
    assert_eq!(row(&started, "stays.service")["active"], "active");
    assert!(!names(&started).contains(&"late.service"), "{started}");
    assert_eq!((&started["set"], &started["units_total"]), (&all["set"], &all["units_total"]));

    // Whose fault it is goes with the unit that it holds back.
    m.call("Job", &json!({"unit": "needs.service", "type": "start"}));
    let failed = m.call("Overview", &since(&started));
    let fails = row(&failed, "fails.service");
    assert_eq!((&fails["active"], &fails["cause"]), (&json!("failed"), &Value::Null));
    assert!(failed["texts"][fails["code"].as_str().expect("a code")].is_string(), "{failed}");
    let needs = row(&m.call("Overview", &json!({})), "needs.service").clone();
    assert_eq!(needs["cause"], "fails.service", "{needs}");

    // A job says for whom it waits.
    m.call("Job", &json!({"unit": "late.service", "type": "start", "wait": false}));
    m.wait_for("slow.service", "activating/start");
    m.wait_for("a-b.slice", "active/active");
    let top = m.call("Top", &json!({}));
    let jobs = top["job_rows"].as_array().expect("jobs");
    let late = jobs.iter().find(|job| job["unit"] == "late.service").expect("its job");
    assert_eq!((&late["waits_for"], &late["waits_on"]), (&json!(1), &json!("slow.service")));

    // Units that come make another set.
    m.write("new.service", "[Service]\nExecStart=@P stay");
    m.call("ReloadConfiguration", &json!({}));
    let again = m.call("Overview", &since(&failed));
    assert_ne!(again["set"], all["set"]);
    let told = names(&again).len();
    assert!(told < names(&all).len() / 2, "only those that changed: {again}");
}
