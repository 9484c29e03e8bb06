//! A bounded fuzzer in this process, for machines without cargo-fuzz: mutates texts made from the
//! settings table against the properties of `warren_unit::fuzz`, and rules made of the example's
//! lines against those of `warren_fleet::fuzz`, in turns. It has no coverage feedback.
//!
//! A failing input is written to the temporary directory before it is run, so that a crash or a
//! hang leaves it behind.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use warren_unit::settings::SETTINGS;

/// How long it runs when not told otherwise, in seconds.
pub const SECONDS_DEFAULT: u64 = 60;

/// Largest input, in bytes.
const INPUT_BYTES_MAX: usize = 16 << 10;

/// Pieces that parsers stumble over.
const PIECES: &[&str] = &[
    "\\\n",
    "\"",
    "'",
    "%",
    "%i",
    "%%",
    "\0",
    "\u{feff}",
    "=",
    "\n[",
    "]\n",
    "\\x",
    "\\u12",
    ";",
    "#",
    "${A}",
    "$",
    "-",
    "!!",
    "@",
    ":",
    "..",
    "//",
    "infinity",
    "99999999999999999999",
    "é",
    "\r\n",
];

/// Rules to begin with.
const RULES: &str = concat!(
    include_str!("../../../examples/hosting/10-tiers.conf"),
    include_str!("../../../examples/hosting/20-rules.conf"),
    include_str!("../../../examples/hosting/40-exceptions.conf"),
    include_str!("../../fleet/tests/data/sample.conf"),
);

/// Largest rules, in bytes: each are loaded four times.
const RULES_BYTES_MAX: usize = 2 << 10;

/// Rules take longer: so many unit files for each.
const UNITS_PER_RULES: u64 = 200;

/// Pieces that the parser and the evaluator of rules stumble over.
const RULE_PIECES: &[&str] = &[
    "{",
    "}",
    "{{",
    "}}",
    "(",
    ")",
    "[",
    "]",
    "\"",
    "{{{",
    "}}}",
    "=>",
    "=",
    "+=",
    "==",
    " in ",
    "&",
    "*",
    "!",
    "&&",
    "||",
    "?",
    ":",
    ".",
    ",",
    ";",
    "\n",
    "/*",
    "*/",
    "//",
    "@",
    "null",
    "this",
    "1.5h",
    "-1",
    "0",
    "99999999999",
    "object ",
    "apply ",
    "template ",
    "assign where ",
    "import ",
    " for (k => v in ",
    " to Container ",
    " use (x) ",
    "function ",
    "if (",
    " else ",
    "while (",
    "try ",
    "throw ",
    "return ",
    "var x = ",
    "const X = ",
    "namespace N ",
    "globals.",
    "locals",
    "container",
    "vars",
    "name",
    ".map(x => x)",
    ".call(",
    "match(",
    "regex(",
    "get_objects(Container)",
    "Json.",
    "range(9)",
    "DateTime(",
    "string(",
    "\\",
    "\u{0}",
    "\u{e9}",
];

/// The same sequence for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// Runs for so long, starting from a seed that is printed.
pub fn run(seconds: u64) -> Result<()> {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = seed.unwrap_or_else(warren_sys::time::realtime_ns);
    println!("fuzzing units and rules in this process for {seconds} s, SEED={seed}");
    let kept = std::env::temp_dir().join(format!("warren-fuzz-{}", std::process::id()));
    let (began, mut numbers, mut runs) = (Instant::now(), Numbers(seed), 0u64);
    let (mut input, mut rules) = (Vec::new(), Vec::new());
    while began.elapsed() < Duration::from_secs(seconds) {
        next_input(&mut input, &mut numbers);
        std::fs::write(&kept, &input).with_context(|| format!("{}", kept.display()))?;
        warren_unit::fuzz::unit_file(&input);
        warren_unit::fuzz::name(&String::from_utf8_lossy(&input));
        runs += 1;
        if runs % UNITS_PER_RULES != 0 {
            continue;
        }
        next_rules(&mut rules, &mut numbers);
        std::fs::write(&kept, &rules).with_context(|| format!("{}", kept.display()))?;
        warren_fleet::fuzz::file(&rules);
        warren_fleet::fuzz::configuration(&rules);
    }
    std::fs::remove_file(&kept)?;
    println!("{runs} inputs, no property broken");
    Ok(())
}

/// Mutates the last input; now and then a new one is made.
fn next_input(input: &mut Vec<u8>, numbers: &mut Numbers) {
    if input.len() > INPUT_BYTES_MAX || numbers.below(16) == 0 {
        input.clear();
    }
    match numbers.below(5) {
        0 => {
            let sections = ["Unit", "Service", "Socket", "Mount", "Automount", "Slice", "Install"];
            let section = sections[numbers.below(sections.len())];
            input.extend_from_slice(format!("[{section}]\n").as_bytes());
        }
        1 | 2 => {
            let setting = SETTINGS[numbers.below(SETTINGS.len())].name;
            let piece = PIECES[numbers.below(PIECES.len())];
            input.extend_from_slice(format!("{setting}=a{piece}b\n").as_bytes());
        }
        3 => {
            let at = numbers.below(input.len() + 1);
            let piece = PIECES[numbers.below(PIECES.len())].bytes();
            input.splice(at..at, piece);
        }
        _ if input.is_empty() => {}
        _ => {
            let at = numbers.below(input.len());
            input[at] ^= 1 << numbers.below(8);
        }
    }
}

/// Mutates the last rules; now and then new ones are begun with.
fn next_rules(rules: &mut Vec<u8>, numbers: &mut Numbers) {
    if rules.len() > RULES_BYTES_MAX || numbers.below(24) == 0 {
        rules.clear();
    }
    let lines: Vec<&str> = RULES.lines().collect();
    match numbers.below(6) {
        0 | 1 => {
            let from = numbers.below(lines.len());
            let some = &lines[from..(from + 1 + numbers.below(16)).min(lines.len())];
            rules.extend_from_slice(format!("{}\n", some.join("\n")).as_bytes());
        }
        2 | 3 => {
            let at = numbers.below(rules.len() + 1);
            rules.splice(at..at, RULE_PIECES[numbers.below(RULE_PIECES.len())].bytes());
        }
        4 => {
            let from = numbers.below(rules.len() + 1);
            let end = (from + numbers.below(40)).min(rules.len());
            rules.drain(from..end);
        }
        _ if rules.is_empty() => {}
        _ => {
            let at = numbers.below(rules.len());
            rules[at] ^= 1 << numbers.below(8);
        }
    }
}
