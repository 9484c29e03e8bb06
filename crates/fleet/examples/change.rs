//! Changes one attribute of one container again and again, and says how long each took: the figures
//! of the fleet language for edits.
//!
//! ```sh
//! cargo run --release -p warren-fleet --example change -- [CONTAINERS] [RULES] [CONTAINERS_PER_FILE]
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use warren_fleet::Source;
use warren_fleet::engine::Options;
use warren_fleet::outside::{Include, Outside};
use warren_fleet::session::Session;

/// How many edits are made.
const EDITS: usize = 200;

struct Given<'t>(&'t BTreeMap<String, String>);

impl Outside for Given<'_> {
    fn include(&mut self, _: &Include) -> Result<Vec<Source>, String> {
        Ok(self.0.iter().map(|(name, text)| Source::new(name, text.as_bytes())).collect())
    }
}

fn main() {
    let words: Vec<usize> =
        std::env::args().skip(1).map(|word| word.parse().expect("a number")).collect();
    let at = |index: usize, usual| words.get(index).copied().unwrap_or(usual);
    let (containers, rules, per_file) = (at(0, 5000), at(1, 20), at(2, 1));
    let files = containers.div_ceil(per_file);
    let file = |file: usize, edit: usize| -> String {
        let numbers = file * per_file..((file + 1) * per_file).min(containers);
        numbers.map(|n| container(n, if n % per_file == 0 { edit } else { 0 })).collect()
    };
    let mut texts: BTreeMap<String, String> =
        (0..files).map(|n| (format!("c{n:05}"), file(n, 0))).collect();
    texts.insert("rules".to_owned(), (0..rules).map(rule).collect());
    let start = Instant::now();
    let root = Source::new("root", b"include \"*\"");
    let loaded = Session::load(root, Box::new(Given(&texts)), &Options::default(), "/f");
    let mut session = loaded.session.expect("no faults");
    println!("{} units in {:.1?}", session.products().len(), start.elapsed());
    let (mut all, mut most, mut units) = (Duration::ZERO, Duration::ZERO, 0);
    for edit in 1..=EDITS {
        let which = edit * 7919 % files;
        let source = Source::new(&format!("c{which:05}"), file(which, edit).as_bytes());
        let start = Instant::now();
        let (next, delta) = session.change(&[source], &Options::default()).expect("no faults");
        let took = start.elapsed();
        session = next;
        (all, most, units) = (all + took, most.max(took), units + delta.paths.len());
    }
    println!(
        "{EDITS} edits: {:.3} ms each, {:.3} ms at most, {} units each",
        all.as_secs_f64() * 1e3 / EDITS as f64,
        most.as_secs_f64() * 1e3,
        units / EDITS
    );
}

/// A container of which half the rules make something.
fn container(n: usize, edit: usize) -> String {
    format!(
        "object Container \"c{n:05}\" {{\n  vars.role = \"r{}\"\n  vars.edit = {edit}\n  \
         vars.tags = [ \"a\", \"t{}\" ]\n}}\n",
        n % 2,
        n % 10
    )
}

fn rule(n: usize) -> String {
    format!(
        "apply Service \"s{n}\" to Container {{\n  ExecStart = \"/bin/s {n}\"\n  \
         Description = container.name + \" \" + container.vars.edit\n  \
         assign where container.vars.role == \"r{}\" && \"a\" in container.vars.tags\n}}\n",
        n % 2
    )
}
