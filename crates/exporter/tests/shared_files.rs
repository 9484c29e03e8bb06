//! The alert rules and the dashboard in `share/`: they are sound, and name no metric that there is not.

mod prometheus;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use prometheus::of_prometheus;
use warren_exporter::family::{ALL, Kind};
use warren_testkit::Scratch;

fn share(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../share").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(share(file)).expect("it is there")
}

/// Expressions of the dashboard's panels, with what Grafana puts in for its variables.
fn expressions() -> Vec<String> {
    let board: serde_json::Value =
        serde_json::from_str(&read("grafana/warrener.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let text = targets.map(|target| target["expr"].as_str().expect("an expression"));
    text.map(|text| text.replace("$__rate_interval", "5m").replace("$instance", ".*")).collect()
}

fn promtool(arguments: &[&str], directory: &Path) {
    let Some(promtool) = of_prometheus("promtool") else { return };
    let output =
        Command::new(promtool).args(arguments).current_dir(directory).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn alerts_come_when_they_are_meant_to() {
    let directory = share("prometheus");
    promtool(&["check", "rules", "warrener.rules.yml"], &directory);
    promtool(&["test", "rules", "warrener.rules.test.yml"], &directory);
}

#[test]
fn the_dashboards_expressions_can_be_evaluated() {
    let scratch = Scratch::new("exporter-dashboard");
    let quoted =
        |text: &String| format!("  - {{record: \"a:b\", expr: {}}}\n", serde_json::json!(text));
    let expressions = expressions();
    assert!(expressions.len() > 20, "{expressions:?}");
    let rules: String = expressions.iter().map(quoted).collect();
    scratch.write("rules.yml", &format!("groups:\n- name: dashboard\n  rules:\n{rules}"));
    promtool(&["check", "rules", "rules.yml"], &scratch.0);
}

#[test]
fn both_name_metrics_that_there_are() {
    let samples: BTreeSet<String> = ALL
        .iter()
        .flat_map(|family| match family.kind {
            Kind::Counter => vec![format!("{}_total", family.name)],
            Kind::Gauge => vec![family.name.to_owned()],
            Kind::Histogram => vec![format!("{}_bucket", family.name)],
        })
        .collect();
    let rules = read("prometheus/warrener.rules.yml");
    let rules = rules.lines().filter(|line| !line.trim_start().starts_with('#'));
    let texts = rules.map(str::to_owned).chain(expressions());
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: Vec<String> = texts
        .flat_map(|text| text.split(|c| !is_of_name(c)).map(str::to_owned).collect::<Vec<_>>())
        .filter(|word| word.starts_with("warren_"))
        .collect();
    assert!(words.len() > 40, "{words:?}");
    for word in words {
        assert!(samples.contains(&word), "no metric is called {word}");
    }
}
