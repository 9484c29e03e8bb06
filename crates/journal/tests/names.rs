//! The program is each of those whose names it has.

use std::process::Command;

use warren_testkit::Scratch;

const PROGRAM: &str = env!("CARGO_BIN_EXE_warren-journal");

/// What is installed as a link to the program.
fn links() -> Vec<String> {
    let table = include_str!("../../../packaging/files.txt");
    let link = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_ours =
            words.len() == 4 && words[1] == "link" && words[3].ends_with("warren-journal");
        is_ours.then(|| words[2].rsplit('/').next().unwrap_or_default().to_owned())
    };
    table.lines().filter_map(link).collect()
}

#[test]
fn it_is_what_it_is_called() {
    let links = links();
    assert_eq!(links.len(), 5, "{links:?}");
    let scratch = Scratch::new("journal-names");
    for name in links {
        let path = scratch.path(&name);
        std::os::unix::fs::symlink(PROGRAM, &path).expect("a link");
        let out = Command::new(&path).arg("--version").output().expect("it runs");
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.starts_with(&format!("{name} ")), "{said}");
    }
}

#[test]
fn by_another_name_it_says_its_names() {
    let out = Command::new(PROGRAM).arg("--version").output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(said.contains("warren-journald, warren-journal-access"), "{said}");
}
