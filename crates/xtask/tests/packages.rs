//! Packages: the table of what is installed where, what is made of it, and what becomes of a root file system that they
//! are installed in. Programs are small ones in the place of ours: what is looked at is the packages.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use warren_testkit::{Scratch, not_run};

/// What two builds share: seconds since 1970.
const EPOCH: &str = "1764000000";

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Rows of the table: package, kind, destination, source.
fn table() -> Vec<[String; 4]> {
    let text = fs::read_to_string(top().join("packaging/files.txt")).expect("it is there");
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        words.try_into().unwrap_or_else(|_| panic!("not four words: {line}"))
    })
    .collect()
}

/// The packages.
fn packages() -> BTreeSet<String> {
    table().into_iter().map(|[package, ..]| package).collect()
}

/// Programs that write pages.
const WITH_PAGES: [&str; 2] = ["warren", "warren-hosts"];

/// A directory with programs of all names, which do nothing but what the stage asks of those.
fn programs(scratch: &Scratch) -> String {
    // Pages of the second go to two sections.
    let warren = "#!/bin/sh\ncase $1 in\nman) cp \"$0.1\" \"$2/${0##*/}.1\"\n\
        case $0 in *-hosts) sed 's/WARREN 1/WARREN 8/' \"$0.1\" > \"$2/warren-agent.8\" ;; esac ;;\n\
        completion) echo \"# $2\" ;;\nesac\n";
    for name in WITH_PAGES {
        let page = format!(".TH WARREN 1\n.SH NAME\n{name} \\- a test\n");
        scratch.write(&format!("programs/{name}.1"), &page);
    }
    for [_, kind, _, name] in table() {
        if kind == "program" {
            let text = if WITH_PAGES.contains(&&*name) {
                warren.to_owned()
            } else {
                format!("#!/bin/sh\n: {name}\n")
            };
            let path = scratch.write(&format!("programs/{name}"), &text);
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("a file of ours");
        }
    }
    scratch.text_path("programs")
}

fn script(name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.arg(top().join("scripts").join(name)).args(arguments).env("SOURCE_DATE_EPOCH", EPOCH);
    command.output().expect("there is a shell")
}

#[track_caller]
fn expect(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Whether packages can be made and looked at here.
fn has(programs: &[&str]) -> bool {
    for program in programs {
        if Command::new(program).arg("--version").output().is_err() {
            not_run(&format!("needs {program}, not installed"));
            return false;
        }
    }
    true
}

fn debs(scratch: &Scratch, out: &str) -> Vec<PathBuf> {
    let programs = programs(scratch);
    expect(&script("deb.sh", &[&programs, &scratch.text_path(out)]));
    let entries = fs::read_dir(scratch.path(out)).expect("a directory");
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// All files below a directory of the repository.
fn files_below(directory: &str) -> Vec<String> {
    let mut out = Vec::new();
    for file in fs::read_dir(top().join(directory)).expect("it is there").flatten() {
        let source = format!("{directory}/{}", file.file_name().to_string_lossy());
        match file.path().is_dir() {
            true => out.extend(files_below(&source)),
            false => out.push(source),
        }
    }
    out
}

#[test]
fn every_file_of_ours_is_in_one_package_and_everything_in_a_package_is_there() {
    let table = table();
    for directory in
        ["units", "presets", "sysusers", "share/man", "share/prometheus", "share/grafana", "bus"]
    {
        for source in files_below(directory) {
            let count = table.iter().filter(|row| row[3] == source).count();
            assert_eq!(count, 1, "{source} is in so many packages");
        }
    }
    let mut places = BTreeSet::new();
    for [package, kind, destination, source] in &table {
        let control = top().join("packaging/deb").join(package).join("control");
        assert!(control.is_file(), "{} is not there", control.display());
        if ["unit", "file", "script"].contains(&&**kind) {
            assert!(top().join(source).is_file(), "{source}");
            // What names a program or a page names one that the packages have.
            let text = fs::read_to_string(top().join(source)).expect("text");
            for path in text.split(|c: char| c.is_whitespace() || "=;:\"'".contains(c)) {
                let Some(name) = path.strip_prefix("/usr/lib/warren/warren") else { continue };
                let name = format!("warren{name}");
                let is_program = |row: &[String; 4]| {
                    let is_link = row[1] == "link" && row[2] == format!("lib/warren/{name}");
                    row[1] == "program" && row[3] == name || is_link
                };
                assert!(table.iter().any(is_program), "{source} names {path}");
            }
        }
        let name = if kind == "link" { "" } else { source.rsplit('/').next().unwrap_or_default() };
        assert!(
            places.insert((destination, name.to_owned())),
            "{destination} {name} is there twice"
        );
    }
}

#[test]
fn what_is_staged_is_what_the_table_says_with_its_prefix() {
    let scratch = Scratch::new("stage");
    let programs = programs(&scratch);
    let root = scratch.text_path("root");
    let output = Command::new("sh")
        .arg(top().join("scripts/stage.sh"))
        .args([&root, "/opt/w", &programs])
        .env("SYMBOLS", "no")
        .output()
        .expect("there is a shell");
    expect(&output);
    let unit =
        fs::read_to_string(scratch.path("root/opt/w/lib/warren/system/warren-exporter.service"));
    assert!(
        unit.expect("it is staged").contains("\nExecStart=/opt/w/lib/warren/warren-exporter\n")
    );
    let mode = |path: &str| {
        let found = fs::metadata(scratch.path(&format!("root{path}"))).expect(path);
        found.permissions().mode() & 0o777
    };
    assert_eq!((mode("/opt/w/bin/warren"), mode("/opt/w/share/man/man1/warren.1")), (0o755, 0o644));
    assert_eq!(mode("/var/log/warren"), 0o755);
    let link = "root/opt/w/lib/warren/system/sysinit.target.wants/systemd-journald.service";
    assert!(scratch.path(link).exists(), "the link leads somewhere");
    // What changes what a machine boots is asked for by name.
    assert!(!scratch.path("root/etc").exists());
}

#[test]
fn two_builds_give_the_same_bytes_and_each_package_says_what_it_has() {
    if !has(&["dpkg-deb"]) {
        return;
    }
    let scratch = Scratch::new("deb");
    let (first, second) = (debs(&scratch, "first"), debs(&scratch, "second"));
    assert_eq!(first.len(), packages().len(), "{first:?}");
    for (one, two) in first.iter().zip(&second) {
        assert!(fs::read(one).expect("made") == fs::read(two).expect("made"), "{}", one.display());
        let ask = |what: &str| {
            expect(&Command::new("dpkg-deb").arg(what).arg(one).output().expect("it runs"))
        };
        let (control, contents) = (ask("--field"), ask("--contents"));
        for field in
            ["Version: 0.", "Maintainer: ", "Installed-Size: ", "Depends: ", "Description: "]
        {
            assert!(control.contains(field), "{field} is not in:\n{control}");
        }
        assert!(!control.contains('@') || control.matches('@').count() == 1, "{control}");
        assert!(contents.lines().all(|line| line.contains(" root/root ")), "{contents}");
        let package =
            control.lines().find_map(|line| line.strip_prefix("Package: ")).expect("a name");
        for [of, kind, destination, source] in table().iter().filter(|row| row[0] == package) {
            let name = source.rsplit('/').next().unwrap_or_default();
            let place = destination.trim_start_matches('/');
            let path = match &**kind {
                "program" | "unit" | "file" | "script" => format!("{place}/{name}"),
                _ => place.to_owned(),
            };
            assert!(contents.contains(&path), "{of}: {path} is not in\n{contents}");
        }
    }
}

#[test]
fn two_builds_of_rpms_and_tarballs_are_alike_and_have_what_the_table_says() {
    if !has(&["rpmbuild", "rpm"]) {
        return;
    }
    let scratch = Scratch::new("rpm");
    let programs = programs(&scratch);
    let build = |out: &str| {
        let out = scratch.text_path(out);
        expect(&script("rpm.sh", &[&programs, &out]));
        expect(&script("tarball.sh", &[&programs, &out]));
        let entries = fs::read_dir(out).expect("a directory");
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.sort();
        found
    };
    let (first, second) = (build("first"), build("second"));
    // All but warrener-init, and the tarball.
    assert_eq!(first.len(), packages().len(), "{first:?}");
    for (one, two) in first.iter().zip(&second) {
        assert!(fs::read(one).expect("made") == fs::read(two).expect("made"), "{}", one.display());
        let name = one.file_name().expect("a name").to_string_lossy().into_owned();
        let (program, arguments) = if name.ends_with(".rpm") {
            ("rpm", ["--query", "--list", "--package"])
        } else {
            ("tar", ["--list", "--gzip", "--file"])
        };
        let output = Command::new(program).args(arguments).arg(one).output();
        let contents = expect(&output.expect("it runs"));
        let is_of_it = |row: &&[String; 4]| {
            row[0] != "warrener-init"
                && (program == "tar" || name.starts_with(&format!("{}-0", row[0])))
        };
        let mut count = 0;
        for [_, kind, destination, source] in table().iter().filter(is_of_it) {
            let file = source.rsplit('/').next().unwrap_or_default();
            let path = match &**kind {
                "program" | "unit" | "file" | "script" => format!("{destination}/{file}"),
                _ => destination.clone(),
            };
            assert!(
                contents.contains(path.trim_start_matches('/')),
                "{name}: {path} is not in\n{contents}"
            );
            count += 1;
        }
        assert!(count > 4, "{name}: {count}");
    }
}

#[test]
fn a_container_has_the_targets_that_units_name_by_default() {
    let scratch = Scratch::new("container");
    let root = scratch.text_path("root");
    expect(&script("container.sh", &[&programs(&scratch), &root]));
    let target = |name: &str| {
        fs::read_to_string(scratch.path(&format!("root/usr/lib/systemd/system/{name}.target")))
    };
    for name in ["default", "basic", "sysinit", "sockets", "timers", "paths", "shutdown"] {
        assert!(
            target(name).expect(name).contains("\n[Unit]\n")
                || target(name).expect(name).starts_with("[Unit]\n")
        );
    }
    // Nothing that a script of a distribution needs is in it, and nothing is missing that the manager starts.
    assert!(!scratch.path("root/usr/share").exists() && !scratch.path("root/etc").exists());
    for name in ["warren-init", "warrend", "warren-exec", "warren-journald"] {
        assert!(scratch.path(&format!("root/usr/lib/warren/{name}")).exists(), "{name}");
    }
}

#[test]
fn lintian_finds_nothing() {
    if !has(&["dpkg-deb", "lintian"]) {
        return;
    }
    let scratch = Scratch::new("lintian");
    let debs = debs(&scratch, "debs");
    let mut command = Command::new("lintian");
    command.args(["--allow-root", "--fail-on", "error,warning"]).args(debs);
    expect(&command.output().expect("it runs"));
}

#[test]
fn an_index_that_is_signed_is_taken_by_apt() {
    if !has(&["dpkg-scanpackages", "gpg", "apt-get"]) {
        return;
    }
    let scratch = Scratch::new("repo");
    debs(&scratch, "debs");
    let home = scratch.text_path("gnupg");
    fs::create_dir(&home).expect("a scratch directory");
    fs::set_permissions(&home, PermissionsExt::from_mode(0o700)).expect("a directory of ours");
    let gpg = |arguments: &[&str]| {
        let output =
            Command::new("gpg").args(["--batch", "--homedir", &home]).args(arguments).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    // A key for this test, without a passphrase.
    gpg(&[
        "--passphrase",
        "",
        "--quick-generate-key",
        "repo@test.example",
        "rsa2048",
        "sign",
        "never",
    ]);
    fs::write(scratch.path("key.gpg"), gpg(&["--export", "repo@test.example"]))
        .expect("a scratch directory");
    let output = Command::new("sh")
        .arg(top().join("scripts/repo.sh"))
        .args([
            scratch.text_path("debs"),
            scratch.text_path("repo"),
            "repo@test.example".to_owned(),
        ])
        .env("GNUPGHOME", &home)
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .output()
        .expect("there is a shell");
    expect(&output);
    let _ = Command::new("gpgconf").args(["--homedir", &home, "--kill", "all"]).output();
    for directory in
        ["state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"]
    {
        fs::create_dir_all(scratch.path(directory)).expect("a scratch directory");
    }
    fs::write(scratch.path("status"), "").expect("a scratch directory");
    let apt = |arguments: &[&str]| {
        let source = format!(
            "deb [signed-by={}] file:{} ./\n",
            scratch.text_path("key.gpg"),
            scratch.text_path("repo")
        );
        scratch.write("sources.list", &source);
        let set = |key: &str, path: &str| format!("-o{key}={}", scratch.text_path(path));
        let output = Command::new("apt-get")
            .args([set("Dir::State", "state"), set("Dir::Cache", "cache"), set("Dir::Etc", "etc")])
            .args([
                set("Dir::State::status", "status"),
                set("Dir::Etc::sourcelist", "sources.list"),
            ])
            .args(["-oAPT::Sandbox::User=root", "-oAcquire::Languages=none"])
            .args(arguments)
            .output()
            .expect("it runs");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (
            output.status.success() && !said.contains("\nW:") && !said.contains("\nE:"),
            said.into_owned(),
        )
    };
    let (is_well, said) = apt(&["update"]);
    assert!(is_well, "{said}");
    let (is_well, said) = apt(&["--print-uris", "download", "warrener", "warrener-init"]);
    assert!(is_well && said.contains("warrener-init_"), "{said}");
    // An index that somebody changed is not.
    let index = scratch.path("repo/InRelease");
    let text = fs::read_to_string(&index).expect("it is signed");
    fs::write(&index, text.replace("Origin: Warrener", "Origin: Somebody"))
        .expect("a scratch directory");
    assert!(!apt(&["update"]).0);
}

#[test]
fn they_are_installed_upgraded_removed_and_purged_without_a_trace() {
    if !has(&["dpkg-deb", "dpkg", "unshare"]) {
        return;
    }
    let output =
        Command::new("unshare").args(["--mount", "--pid", "--fork", "--net", "true"]).output();
    if !output.expect("it runs").status.success() {
        return not_run("needs root, and mount and pid namespaces");
    }
    let scratch = Scratch::new("try");
    debs(&scratch, "debs");
    let said = expect(&script("try-packages.sh", &[&scratch.text_path("debs")]));
    assert!(said.contains("nothing is left"), "{said}");
}

#[test]
fn maintainer_scripts_are_sound() {
    let mut count = 0;
    for package in packages() {
        for file in
            fs::read_dir(top().join("packaging/deb").join(&package)).expect("it is there").flatten()
        {
            let name = file.file_name().to_string_lossy().into_owned();
            if ["control", "conffiles"].contains(&&*name) {
                continue;
            }
            count += 1;
            let text = fs::read_to_string(file.path()).expect("text");
            assert!(text.starts_with("#!/bin/sh\nset -e\n"), "{package} {name}");
            let status =
                Command::new("sh").arg("-n").arg(file.path()).status().expect("there is a shell");
            assert!(status.success(), "{package} {name}");
        }
    }
    assert!(count >= 9, "{count}");
}
