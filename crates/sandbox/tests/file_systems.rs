//! The sets of `RestrictFileSystems=` beside those of systemd's own program: `SYSTEMD_ANALYZE`, or the one that is
//! installed, if it knows any (Debian 12's does not).

use std::collections::BTreeMap;
use std::process::Command;

use warren_sandbox::bpf::file_system::{members, numbers_of, sets};

/// What `systemd-analyze filesystems` prints: names and numbers by set.
fn printed(text: &str) -> BTreeMap<String, BTreeMap<String, Vec<u32>>> {
    let mut out: BTreeMap<String, BTreeMap<String, Vec<u32>>> = BTreeMap::new();
    let mut set = None;
    for line in text.lines() {
        if line.starts_with('@') {
            set = Some(line.trim().to_owned());
            continue;
        }
        let Some((name, rest)) = line.trim().split_once(" (magic: ") else { continue };
        let Some(set) = &set else { continue };
        let words = rest.trim_end_matches(')').split([',', ' ', '[']);
        let numbers = words.filter_map(|word| word.strip_prefix("0x"));
        let numbers = numbers.map(|digits| u32::from_str_radix(digits, 16).expect("a number"));
        out.entry(set.clone()).or_default().insert(name.to_owned(), numbers.collect());
    }
    out
}

#[test]
fn sets_and_numbers_are_those_of_systemd() {
    let program = std::env::var("SYSTEMD_ANALYZE").unwrap_or("systemd-analyze".to_owned());
    let output = Command::new(program).args(["--no-pager", "filesystems"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let theirs = text.map(|text| printed(&text)).unwrap_or_default();
    if theirs.is_empty() {
        return warren_testkit::not_run("a systemd-analyze that prints sets of file systems");
    }
    let mut wrong = Vec::new();
    for (set, names) in &theirs {
        let own = members(set).unwrap_or_default();
        // Kernels have more than it knows.
        let more: Vec<_> = own.iter().filter(|name| !names.contains_key(**name)).collect();
        if !more.is_empty() && set != "@known" {
            wrong.push(format!("{set}: {more:?} besides"));
        }
        for (name, numbers) in names {
            if !own.contains(&&**name) || numbers.iter().any(|n| !numbers_of(name).contains(n)) {
                wrong.push(format!("{set}: {name} {numbers:x?}, here {:x?}", numbers_of(name)));
            }
        }
    }
    let theirs = |set: &&str| theirs.contains_key(*set);
    wrong.extend(sets().filter(|set| !theirs(set)).map(|set| format!("{set} is not theirs")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
