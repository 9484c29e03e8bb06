//! Every unit file that is installed on this machine must parse, load and compile without an
//! error, and load to the state that systemd gives it: `loaded`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use warren_unit::{
    Code, Compiler, Context, Defaults, Diagnostic, LoadState, Scope, Severity, Sources, UnitName,
    load, parse,
};

/// Files by name; links are other names of files that are there too.
fn unit_files(directory: &Path) -> BTreeMap<UnitName, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_file = entry.file_type().is_ok_and(|t| t.is_file());
        if let (true, Some(Ok(name))) = (is_file, name.to_str().map(UnitName::parse)) {
            out.insert(name, fs::read(entry.path()).expect("an installed unit file is readable"));
        }
    }
    out
}

fn check_directory(directory: &str, scope: Scope) {
    let files = unit_files(Path::new(directory));
    if files.is_empty() {
        warren_testkit::not_run(&format!("no unit files in {directory}"));
        return;
    }
    let context = Context { scope, ..Context::system() };
    for (name, bytes) in &files {
        check_file(directory, name, bytes, &context);
    }
    println!("{directory}: {} unit files", files.len());
}

fn check_file(directory: &str, name: &UnitName, bytes: &[u8], context: &Context) {
    let path = format!("{directory}/{name}");
    let (file, mut all) = parse::parse(path.into(), bytes, name.unit_type());
    let file = Arc::new(file);
    let instance = name.with_instance("x").ok().filter(|_| name.is_template());
    let name = instance.as_ref().unwrap_or(name);
    let sources = Sources { fragment: Some(&file), ..Sources::default() };
    let defaults = Defaults::default();
    let (loaded, more) = load(name, &sources, context, &defaults);
    all.extend(more);
    let compiler = Compiler { name, sources: &sources, context, defaults: &defaults };
    all.extend(compiler.check());
    let is_lack = |code| matches!(code, Code::SandboxNotApplied | Code::NotActedOn);
    let is_fault = |d: &&Diagnostic| {
        d.severity == Severity::Error || (d.severity == Severity::Warning && !is_lack(d.code))
    };
    let faults: Vec<String> = all.iter().filter(is_fault).map(Diagnostic::to_string).collect();
    assert_eq!(faults, Vec::<String>::new(), "{name}");
    let want = if bytes.is_empty() { LoadState::Masked } else { LoadState::Loaded };
    assert_eq!(loaded.load_state, want, "{name}");
}

#[test]
fn installed_system_units_are_understood() {
    check_directory("/lib/systemd/system", Scope::System);
}

#[test]
fn installed_user_units_are_understood() {
    check_directory("/usr/lib/systemd/user", Scope::User);
}
