//! `cargo xtask sbom`: what the installed programs are made from, as a bill of materials in CycloneDX 1.5, on standard
//! output. The crates are those of `cargo metadata` that normal dependencies lead to from the programs' packages; the
//! same Cargo.lock gives the same bytes.
//! Must not: name what only tests and builds use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::command::{output, root};

/// Prints it.
pub fn run() -> Result<()> {
    let command = ["metadata", "--locked", "--format-version", "1", "--filter-platform"];
    let host = output("rustc", &["-vV"])?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc's host")?;
    let metadata = output("cargo", &[&command[..], &[host]].concat())?;
    let table = root().join("packaging/files.txt");
    let table = fs::read_to_string(&table).with_context(|| table.display().to_string())?;
    let bill = bill(&serde_json::from_str(&metadata)?, &programs(&table));
    let bill = bill.context("what cargo metadata says")?;
    println!("{}", serde_json::to_string_pretty(&bill)?);
    Ok(())
}

/// The programs that the table of packages names.
fn programs(table: &str) -> BTreeSet<&str> {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter_map(|row| match row[..] {
        [package, "program", _, name] if !package.starts_with('#') => Some(name),
        _ => None,
    })
    .collect()
}

/// The bill of these programs; none where a field is missing.
fn bill(metadata: &Value, programs: &BTreeSet<&str>) -> Option<Value> {
    let packages = metadata["packages"].as_array()?;
    let by_id: BTreeMap<&str, &Value> =
        packages.iter().filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let needs: BTreeMap<&str, Vec<&str>> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, normal(node)))).collect();
    let is_program = |package: &&Value| {
        let targets = package["targets"].as_array();
        let mut binaries =
            targets.into_iter().flatten().filter(|target| target["kind"] == json!(["bin"]));
        binaries.any(|target| target["name"].as_str().is_some_and(|name| programs.contains(name)))
    };
    let mut open: Vec<&str> =
        packages.iter().filter(is_program).filter_map(|package| package["id"].as_str()).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(needs.get(id).into_iter().flatten());
        }
    }
    let mut found: Vec<&Value> = seen.iter().filter_map(|id| by_id.get(id).copied()).collect();
    found.sort_by_key(|package| (package["name"].as_str(), package["version"].as_str()));
    let components: Vec<Value> = found.iter().map(|package| component(package)).collect();
    Some(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "warrener",
            "version": env!("CARGO_PKG_VERSION"), "bom-ref": "warrener"}},
        "components": components,
        "dependencies": found.iter().map(|package| dependencies(package, &needs, &by_id)).collect::<Vec<_>>(),
    }))
}

/// What a package is linked with.
fn normal(node: &Value) -> Vec<&str> {
    let is_normal = |needed: &&Value| {
        let kinds = needed["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let needed = node["deps"].as_array().into_iter().flatten().filter(is_normal);
    needed.filter_map(|needed| needed["pkg"].as_str()).collect()
}

/// The package URL, by which databases of faults know it.
fn reference(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value) -> Value {
    let mut out = json!({
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    });
    if let Some(license) = package["license"].as_str() {
        // Older packages write `/` for OR.
        out["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    out
}

fn dependencies(
    package: &Value,
    needs: &BTreeMap<&str, Vec<&str>>,
    by_id: &BTreeMap<&str, &Value>,
) -> Value {
    let id = package["id"].as_str().unwrap_or_default();
    let needed = needs.get(id).into_iter().flatten().filter_map(|id| by_id.get(id));
    let mut references: Vec<String> = needed.map(|package| reference(package)).collect();
    references.sort();
    json!({"ref": reference(package), "dependsOn": references})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_link_is_named_and_what_builds_and_tests_use_is_not() {
        let package = |name: &str| {
            let targets =
                json!([{"kind": ["bin"], "name": name.strip_suffix("-cli").unwrap_or(name)}]);
            json!({"id": name, "name": name, "version": "1.0", "license": "MIT/Apache-2.0", "targets": targets})
        };
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let packages = ["warren-cli", "a", "b", "tests", "unused"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": {"nodes": [
                {"id": "warren-cli", "deps": [dep("a", Value::Null), dep("tests", json!("dev"))]},
                {"id": "a", "deps": [dep("b", Value::Null), dep("unused", json!("build"))]},
                {"id": "b", "deps": []},
            ]},
        });
        let table = "# a program is\nwarrener program bin warren\nwarrener file share unused\n";
        let bill = bill(&metadata, &programs(table)).expect("it is whole");
        let names: Vec<&str> = bill["components"]
            .as_array()
            .expect("components")
            .iter()
            .filter_map(|component| component["name"].as_str())
            .collect();
        assert_eq!(names, ["a", "b", "warren-cli"]);
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"][2]["dependsOn"], json!(["pkg:cargo/a@1.0"]));
    }
}
