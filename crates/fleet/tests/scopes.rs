//! Namespaces, `using`, `globals`, closures and imports: configurations made by a seeded grammar,
//! compared with the installed program where it is installed.
//!
//! `FLEET_SEED=N` and `FLEET_ROUNDS=N` make others, and more. A configuration notes what each of
//! its steps comes to in one array, which an object shows. Left out is what ends the installed
//! program (`using` what is null), and what is refused here on purpose: objects that write to what
//! the top level made.

mod common;

use std::path::Path;

use common::{Scratch, asked, is_installed, ours};
use warren_fleet::Source;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len())]
    }
}

// Functions call none: two that call each other twice have no end.

// In what follows `N` is a namespace, `m` a member or variable, `f` a function, `E` a value, `R`
// something that reads, `T` a template, each behind a `$`.

const NAMESPACES: &[&str] = &["One", "Two", "One.Two", "Three"];
const PLAIN_NAMESPACES: &[&str] = &["One", "Two", "Three"];
const MEMBERS: &[&str] = &["a", "b", "c", "name"];
const FUNCTIONS: &[&str] = &["f", "g"];
const TEMPLATES: &[&str] = &["\"t1\"", "\"t2\"", "\"t3\"", "\"d1\"", "\"none\""];
const VALUES: &[&str] =
    &["1", "2", "\"x\"", "[ 1 ]", "{ a = 1 }", "null", "true", "{ a = { b = 2 } }", "\"\""];

/// What the top level does.
const STEPS: &[&str] = &[
    "namespace $P { $m = $E }",
    "namespace $P { $m = $E; $m = $R }",
    "namespace $P { namespace $P { $m = $E } }",
    "namespace $P { const $m = $E }",
    "namespace $P { var $m = $E; $m = $R }",
    "namespace $P { function $f($m) { return $m } }",
    "namespace $P { $f = $m => $m }",
    "namespace globals.$P { $m = $E }",
    "namespace globals.$N.$m { $m = $E }",
    "namespace this.$P { $m = $E; $m = $R }",
    "namespace locals.$P { $m = $E }",
    "namespace ($N) { $m = $E }",
    "namespace *(&$N) { $m = $E }",
    "namespace \"$P\" { $m = $E }",
    "namespace $P { $m = contains(\"$m\"); $m = values() }",
    "namespace $P { set(\"$m\", $E); $m = get(\"$m\") }",
    "namespace $P { $m = $E; remove(\"$m\") }",
    "namespace $P { function $f($m) { return contains(\"$m\") } }",
    "using $P",
    "globals.$m = $E",
    "globals[\"$m\"] = $R",
    "$m = $E",
    "var $m = $E",
    "var $m = $R",
    "const $m = $E",
    "$N.$m = $E",
    "$N.$m = $R",
    "$N.$m += $E",
    "$N.$m.$m = $E",
    "$N[\"$m\"] = $E",
    "globals.$P.$m = $E",
    "this.$m = $E",
    "locals.$m = $E",
    "function $f($m) { return $m }",
    "function $f($m) { $m = $E; return $m }",
    "function $f() { $m = $E; return $m }",
    "function $f($m, $m) use($m, $m = $R) { return $m }",
    "var $f = $m => $m",
    "globals.$f = ($m) use($m) => $m",
    "$N.remove(\"$m\")",
    "$N.set(\"$m\", $E)",
    "globals.remove(\"$m\")",
    "for ($m in $R) { $m = $E }",
    "for ($m => $m in $R) { globals.$m = $R }",
    "if ($R) { $m = $E } else { $N.$m = $E }",
    "while (len(noted) < 3) { noted.add($R) }",
];

/// What is noted after a step.
const READS: &[&str] = &[
    "$m",
    "$N.$m",
    "$N.$N.$m",
    "$N[\"$m\"]",
    "globals.$m",
    "globals[\"$m\"]",
    "this.$m",
    "locals.$m",
    "$N.keys()",
    "$N.values()",
    "$N.contains(\"$m\")",
    "$N.get(\"$m\")",
    "$f($E)",
    "$f()",
    "$N.$f($E)",
    "$f($R)",
    "typeof($N).name",
    "typeof($m).name",
    "\"$m\" in $N",
    "keys($N)",
    "len($m)",
    "$N == $N",
    "$N == null",
    "({ $m = $E; $m = $R })",
    "({ $m = $R }).$m",
    "(function() use($m) { return $m })()",
    "(function() use($m = $R) { return $m })()",
    "(function() { var $m = $E; return $R })()",
    "(function() { locals.$m = $E; return $R })()",
    "(function($m) { return $R })($E)",
    "(() => $R)()",
    "($m => $R)($R)",
    "{{ $R }}()",
    "(function() { for ($m in [ 1, 2 ]) { var $m = $E }; return $R })()",
    "(function() { for ($m => $m in { a = 1 }) { }; return $R })()",
    "(function() { if ($E) { var $m = $R }; return $m })()",
    "(function() { try { throw \"x\" } except { var $m = $E }; return $R })()",
    "*(&$m)",
    "$m.$m",
    "$m[0]",
    "$m.$m.$m",
    "$m + $m",
    "$m || $R",
    "$m && $R",
    "!$m",
    "$m == $E",
    "$E",
    "[ $R, $R ]",
    "Json.encode($N)",
    "string($N)",
    "contains(\"$m\")",
    "get(\"$m\")",
    "({ $m = contains(\"$m\"); $m = get(\"$m\") })",
    "({ ($m) = $E; ($m).$m = $R })",
    "($N.$f)($E)",
    "(*(&$N.$f))($E)",
    "(*(&$m))",
    "(&$N.$m).get()",
    "(function() { var p = &$N.$m; return *p })()",
    "(function() { return values() }).call($N)",
    "(function() { return $m }).call($R)",
    "(function() { return get(\"$m\") }).call($R)",
    "(function() { this.$m = $E; return this }).call({ $m = $R })",
];

/// The same of the top level, where more can be written to.
const WRITES: &[&str] = &[
    "(function() { $m = $E; return $m })()",
    "(function() { this.$m = $E; return $R })()",
    "(function() { globals.$m = $E; return $R })()",
    "(function() { var p = &$m; *p = $E; return $R })()",
    "(function() { var p = &$N.$m; *p = $E; return $R })()",
    "(function() { $m = $E; return $R }).call($N)",
    "(function() { set(\"$m\", $E); return $R }).call($N)",
    "(&$N.$m).set($E)",
];

/// What objects and templates do. What the top level made is frozen then, so they leave it alone.
const BODIES: &[&str] = &[
    "vars.$m = $E",
    "vars.$m = $R",
    "vars.$m += $E",
    "vars += { $m = $E }",
    "vars.own = { b = 1 }; vars.own.$m = $E",
    "vars[\"$m\"] = vars.$m",
    "var $m = $E",
    "var $m = $R",
    "import $T",
    "import $T",
    "import $T",
    "notes = $R",
    "notes = $m",
    "this.notes = name + $R",
    "if ($R) { vars.$m = $E } else { import $T }",
    "for ($m in [ 1, 2 ]) { vars[\"$m\"] = $m }",
    "if (vars.$m) { vars.$m = $R }",
    "vars.inner = (function() use($m) { return $m })()",
    "vars.inner = (() => this.name)()",
    "groups += [ ]",
    "display_name = $R",
];

fn fill(numbers: &mut Numbers, pattern: &str, depth: usize) -> String {
    let mut out = String::new();
    let mut parts = pattern.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (kind, rest) = part.split_at(1);
        match kind {
            "N" => out.push_str(numbers.pick(NAMESPACES)),
            "P" => out.push_str(numbers.pick(PLAIN_NAMESPACES)),
            "m" => out.push_str(numbers.pick(MEMBERS)),
            "f" => out.push_str(numbers.pick(FUNCTIONS)),
            "T" => out.push_str(numbers.pick(TEMPLATES)),
            "R" if depth > 0 => {
                let read = numbers.pick(READS);
                out.push_str(&fill(numbers, read, depth - 1));
            }
            "R" => out.push_str(numbers.pick(MEMBERS)),
            _ => out.push_str(numbers.pick(VALUES)),
        }
        out.push_str(rest);
    }
    out
}

fn one(numbers: &mut Numbers, patterns: &[&str]) -> String {
    let pattern = numbers.pick(patterns);
    fill(numbers, pattern, 2)
}

/// How many steps, objects and templates there are, and how long their bodies are.
const STEPS_MAX: usize = 12;
const OBJECTS: usize = 6;
const BODY_MAX: usize = 5;

/// Whether a function of the top level is called, which may write to what is frozen.
fn calls(text: &str) -> bool {
    let is_call = |(at, _): (usize, &str)| !text[..at].ends_with(|c: char| c.is_alphanumeric());
    FUNCTIONS.iter().any(|name| text.match_indices(&format!("{name}(")).any(is_call))
}

fn statement(numbers: &mut Numbers) -> String {
    loop {
        let text = one(numbers, BODIES);
        if !calls(&text) {
            return text;
        }
    }
}

fn body(numbers: &mut Numbers) -> String {
    let length = 1 + numbers.below(BODY_MAX);
    (0..length)
        .map(|_| format!("  try {{ {} }} except {{ vars.failed += 1 }}\n", statement(numbers)))
        .collect()
}

/// A template imports later ones alone.
fn only_later(name: &str, body: &str) -> String {
    let earlier = TEMPLATES.iter().filter(|other| **other <= name || *other == &"\"d1\"");
    earlier.fold(body.to_owned(), |body, other| {
        body.replace(&format!("import {other}"), "import \"none\"")
    })
}

fn configuration(numbers: &mut Numbers) -> String {
    let mut out = String::from("globals.noted = []\n");
    for _ in 0..1 + numbers.below(STEPS_MAX) {
        let step = one(numbers, STEPS);
        out.push_str(&format!("try {{ {step} }} except {{ noted.add(\"failed\") }}\n"));
        let read = {
            let of = if numbers.below(4) == 0 { WRITES } else { READS };
            one(numbers, of)
        };
        out.push_str(&format!(
            "try {{ noted.add(Json.encode({read})) }} except {{ noted.add(\"error\") }}\n"
        ));
    }
    out.push_str("object CheckCommand \"d\" { command = [ \"x\" ] }\n");
    for name in ["\"t1\"", "\"t2\"", "\"t3\"", "\"d1\" default"] {
        let body = only_later(name, &body(numbers));
        out.push_str(&format!("template Host {name} {{\n{body}}}\n"));
    }
    for at in 0..OBJECTS {
        let body = body(numbers);
        out.push_str(&format!("object Host \"h{at}\" {{\n  check_command = \"d\"\n{body}}}\n"));
    }
    out.push_str("object CheckCommand \"noted\" { command = noted }\n");
    out
}

fn shows_function(object: &serde_json::Value) -> bool {
    object.to_string().contains("side_effect_free")
}

#[test]
fn names_mean_the_same() {
    if !is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let seed: u64 = number("FLEET_SEED").unwrap_or(1);
    let rounds: u64 = number("FLEET_ROUNDS").unwrap_or(10);
    let scratch = Scratch::new("scopes");
    let (mut wrong, mut accepted) = (Vec::new(), 0);
    for round in 0..rounds {
        let mut numbers = Numbers(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let text = configuration(&mut numbers);
        let theirs = match asked(&scratch, Path::new("case.conf"), Some(&text)) {
            Ok(theirs) => theirs,
            Err(end) => {
                println!("round {round}: icinga2 ended with {end}; left out");
                continue;
            }
        };
        let ours = ours(Source::new("case.conf", text.as_bytes()), &[]);
        match (ours, theirs) {
            (Err(_), None) => {}
            (Ok(ours), Some(theirs)) => {
                accepted += 1;
                for (name, object) in &theirs {
                    // Each shows functions in its own way.
                    if shows_function(object) {
                        continue;
                    }
                    let (one, two) =
                        (ours.get(name).map(|o| &o["properties"]), &object["properties"]);
                    for key in ["vars", "notes", "display_name", "command"] {
                        let one = one.map(|one| &one[key]);
                        if one != Some(&two[key]) && !name.ends_with(" app") {
                            wrong.push(format!(
                                "{text}{name}.{key}\n  ours   {}\n  theirs {}\n",
                                one.map(ToString::to_string).unwrap_or_default(),
                                two[key]
                            ));
                        }
                    }
                }
            }
            (Err(faults), Some(_)) => wrong.push(format!("{text}only we refuse it: {faults}")),
            (Ok(_), None) => wrong.push(format!("{text}only they refuse it")),
        }
    }
    println!("{accepted} of {rounds} accepted");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
