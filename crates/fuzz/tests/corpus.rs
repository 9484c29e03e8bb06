//! What was found once is tried on every run, without an engine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use warren_fuzz::{TARGETS, memory};

/// All of them lie in the repository.
const CORPUS_BYTES_MAX: u64 = 4 << 20;

#[test]
fn inputs_of_the_corpus_do_no_harm() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut bytes = 0;
    for target in TARGETS {
        let directory = corpus.join(target.name);
        let entries =
            fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{} has no inputs", target.name);
        memory::run(target, b"");
        for path in paths {
            let data = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            bytes += data.len() as u64;
            // Where a test ends in a panic, this line says which input it was.
            println!("{}", path.display());
            memory::run(target, &data);
        }
    }
    assert!(bytes <= CORPUS_BYTES_MAX, "the corpus has {bytes} bytes; minimise it");
}

#[test]
fn each_directory_of_the_corpus_is_of_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len(), "a name is of one target");
    for entry in fs::read_dir(corpus).expect("the corpus is there") {
        let name = entry.expect("an entry").file_name();
        assert!(names.contains(&*name.to_string_lossy()), "{} is of no target", name.display());
    }
}
