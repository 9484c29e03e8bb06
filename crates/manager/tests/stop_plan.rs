//! What a stop would take with it, said before and compared with what it takes; what the last reloads changed; which
//! services ask for no protection.

mod lab;

use std::collections::BTreeSet;

use lab::Machine;
use serde_json::{Value, json};

const STAYS: &str = "[Service]\nExecStart=@P stay\n";

fn needs(relations: &str) -> String {
    format!("[Unit]\n{relations}\n{STAYS}")
}

fn names(rows: &Value) -> BTreeSet<String> {
    let rows = rows.as_array().expect("rows").iter();
    rows.filter_map(|row| row["name"].as_str().map(str::to_owned)).collect()
}

/// Services that are up.
fn up(m: &Machine) -> BTreeSet<String> {
    let told = m.call("List", &json!({"state": ["active"], "type": ["service"]}));
    names(&told["units"])
}

#[test]
fn a_stop_takes_with_it_what_was_said_before() {
    let [requires, binds, part, wants] = [
        "Requires=base.service\nAfter=base.service",
        "BindsTo=requires.service\nAfter=requires.service",
        "PartOf=base.service",
        "Wants=base.service\nAfter=base.service",
    ]
    .map(needs);
    let units = [
        ("base.service", STAYS),
        ("requires.service", &*requires),
        ("binds.service", &*binds),
        ("part.service", &*part),
        ("wants.service", &*wants),
        ("apart.service", STAYS),
        ("base.socket", "[Socket]\nListenStream=@D/base.socket\n"),
    ];
    let Some(m) = Machine::start("stop-plan", &units) else { return };
    m.expect_job("start", "base.socket", "done");
    let services = ["base", "requires", "binds", "part", "wants", "apart"];
    for service in services {
        m.expect_job("start", &format!("{service}.service"), "done");
    }
    let plan = |unit: &str| m.call("StopPlan", &json!({"unit": unit}));
    // Nothing is done by asking.
    let before = up(&m);
    for service in services {
        let unit = format!("{service}.service");
        let said = plan(&unit);
        assert_eq!(said["stops"][0]["name"], unit, "{said}");
        assert_eq!(up(&m), before);
    }
    let because = |unit: &str| {
        let rows = plan("base.service")["stops"].clone();
        let row = rows.as_array().expect("rows").iter().find(|row| row["name"] == unit).cloned();
        row.map(|row| row["because_of"].clone())
    };
    assert_eq!(because("base.service"), Some(Value::Null));
    assert_eq!(because("binds.service"), Some(json!("requires.service")));
    assert_eq!(because("wants.service"), None);
    assert_eq!(
        names(&plan("base.service")["started_by"]),
        BTreeSet::from(["base.socket".to_owned()])
    );
    // What is said is what a stop does, from the leaves to the root.
    for service in ["wants", "binds", "base"] {
        let unit = format!("{service}.service");
        let (said, before) = (names(&plan(&unit)["stops"]), up(&m));
        m.expect_job("stop", &unit, "done");
        let gone: BTreeSet<String> = before.difference(&up(&m)).cloned().collect();
        assert_eq!(said, gone, "{unit}");
    }
    // It is stopped with it, and nobody waits for that.
    m.wait_for("part.service", "inactive/dead");
    let down = plan("base.service");
    assert_eq!((&down["stops"], names(&down["started_by"]).len()), (&json!([]), 1), "{down}");
    let none = m.try_call("StopPlan", &json!({"unit": "nothing.service"})).expect("an answer");
    assert_eq!(none["error"], "io.warrener.NoSuchUnit");
}

#[test]
fn the_last_reloads_say_what_they_changed() {
    let units = [("a.service", STAYS), ("b.service", STAYS)];
    let Some(m) = Machine::start("last-reloads", &units) else { return };
    let reloads = || m.call("Reloads", &json!({}))["reloads"].as_array().cloned().expect("rows");
    assert_eq!(reloads(), Vec::<Value>::new());
    m.call("ReloadConfiguration", &json!({}));
    assert_eq!(reloads(), Vec::<Value>::new(), "it changed nothing");
    m.write("c.service", STAYS);
    m.write("a.service", &needs("Description=another"));
    m.call("ReloadConfiguration", &json!({"dry_run": true}));
    assert_eq!(reloads(), Vec::<Value>::new(), "nothing was put in force");
    m.call("ReloadConfiguration", &json!({}));
    std::fs::remove_file(m.own("units/b.service")).expect("it is there");
    m.call("ReloadConfiguration", &json!({}));
    let [last, first] = &reloads()[..] else { panic!("{:?}", reloads()) };
    let units = |names: &[&str]| json!({"total": names.len(), "names": names});
    let of = |reload: &Value| {
        [&reload["added"], &reload["changed"], &reload["removed"]].map(Value::clone)
    };
    assert_eq!(of(first), [units(&["c.service"]), units(&["a.service"]), units(&[])]);
    assert_eq!(of(last), [units(&[]), units(&[]), units(&["b.service"])]);
    assert!(last["generation"].as_u64() > first["generation"].as_u64());
}

#[test]
fn services_that_ask_for_no_protection_are_named() {
    let protected = format!("{STAYS}ProtectSystem=yes\n");
    let units =
        [("bare.service", STAYS), ("protected.service", &*protected), ("down.service", STAYS)];
    let Some(m) = Machine::start("unprotected", &units) else { return };
    for unit in ["bare.service", "protected.service"] {
        m.expect_job("start", unit, "done");
    }
    let told = m.call("Unprotected", &json!({}));
    let named = names(&told["services"]);
    assert!(named.contains("bare.service"), "{told}");
    assert!(!named.contains("protected.service") && !named.contains("down.service"), "{told}");
    // Everybody may ask.
    let other = m.connect_as_other();
    let asked = lab::ask(&other, "Unprotected", &json!({})).expect("an answer");
    assert_eq!(asked["parameters"]["total"], told["total"]);
}
