//! What happens, in order, in small scenarios: each file of `scripts/` is a plan, a line `==`, and
//! the transcript that follows from it.
//!
//! The transcript has the requests and what the core does about them; what the kernel tells in
//! between is left out. `UPDATE_SCRIPTS=1 cargo test -p warren-sim --test scripts` writes the
//! transcripts anew: read the difference before you believe it.

use std::fs;
use std::path::{Path, PathBuf};

use warren_sim::run::run;
use warren_sim::script::Plan;

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// The lines that count: requests, effects, the end.
fn transcript(plan: &Plan) -> String {
    let verdict = run(plan);
    assert!(verdict.wrong.is_empty(), "{:#?}\n{:#?}", verdict.wrong, verdict.log);
    let told = |line: &&String| {
        let event = line.split_once('>').filter(|(time, _)| time.trim().parse::<f64>().is_ok());
        let request = |(_, text): (&str, &str)| {
            [" replace", " fail", " isolate", " flush", " triggering", "irreversibly", "ignore-"]
                .iter()
                .any(|mode| text.contains(mode))
        };
        event.is_none() || event.is_some_and(request)
    };
    let lines: Vec<String> =
        verdict.log.iter().filter(told).map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

fn check(path: &Path, update: bool) {
    let text = fs::read_to_string(path).expect("a script can be read");
    let (head, tail) = text.split_once("\n==\n").expect("a plan has actions");
    let (actions, wanted) = tail.split_once("==\n").unwrap_or((tail, ""));
    let plan = Plan::parse(&format!("{head}\n==\n{actions}"));
    let plan = plan.unwrap_or_else(|line| panic!("{path:?}: means nothing: {line}"));
    let got = transcript(&plan);
    if update {
        let text = format!("{head}\n==\n{actions}==\n{got}");
        return fs::write(path, text).expect("a script can be written");
    }
    assert_eq!(got, wanted, "{path:?}");
}

#[test]
fn scripts_give_their_transcripts() {
    let update = std::env::var_os("UPDATE_SCRIPTS").is_some();
    let mut paths: Vec<PathBuf> = fs::read_dir(directory())
        .expect("the scripts are there")
        .map(|entry| entry.expect("an entry can be read").path())
        .collect();
    paths.sort();
    assert!(paths.len() > 20, "scripts are missing");
    paths.iter().for_each(|path| check(path, update));
}
