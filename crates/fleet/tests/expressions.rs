//! What expressions come to, compared with the installed program.
//!
//! `tests/data/expressions.txt` has one expression a line, and after ` ==> ` its value as JSON or
//! `error`, as the installed program says. A line of `tests/data/differences.txt` with the same
//! expression has our own answer and the reason. Expressions made by a seeded grammar are compared
//! where icinga2 is installed.

mod common;

use std::collections::BTreeMap;

use warren_fleet::Source;
use warren_fleet::console;
use warren_fleet::modules::Modules;
use warren_fleet::outside::Nothing;
use warren_fleet::types::Types;

const STEPS_MAX: u64 = 1_000_000;

/// Wrapped so that nothing is left over for the next one.
fn wrap(expression: &str) -> String {
    format!("Json.encode((function() {{ {expression} }})())")
}

fn ours(expression: &str) -> String {
    let (types, modules) = (Types::new(Vec::new()), Modules::default());
    let source = Source::new("test", wrap(expression).as_bytes());
    let answer =
        console::evaluate(source, &types, &modules, Box::new(Nothing::default()), STEPS_MAX);
    match answer.value {
        Ok(json) => unquote(&json),
        Err(_) => "error".to_owned(),
    }
}

/// The text of a JSON string.
fn unquote(json: &str) -> String {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json);
    let (mut out, mut characters) = (String::new(), inner.chars());
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('u') => {
                    let digits: String = characters.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).unwrap_or(0);
                    out.push(char::from_u32(code).unwrap_or('?'));
                }
                Some(other) => out.push(other),
                None => {}
            },
            (plain, _) => out.push(plain),
        }
    }
    out
}

fn table(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(" ==> ")).collect()
}

#[test]
fn expressions_come_to_what_the_table_says() {
    let differences = table(include_str!("data/differences.txt"));
    let mut wrong = Vec::new();
    for (expression, theirs) in table(include_str!("data/expressions.txt")) {
        let difference = differences.get(expression).and_then(|line| line.split_once(" # "));
        let expected = difference.map_or(theirs, |(answer, _reason)| answer);
        let found = ours(expression);
        if found != expected {
            wrong.push(format!("{expression}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn known_differences_are_of_the_table() {
    let all = table(include_str!("data/expressions.txt"));
    for (expression, line) in table(include_str!("data/differences.txt")) {
        assert!(all.contains_key(expression), "{expression}");
        let (answer, reason) = line.split_once(" # ").unwrap_or((line, ""));
        assert!(!reason.is_empty() && Some(&answer) != all.get(expression), "{expression}");
    }
}

// Expressions made up.

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }

    fn pick(&mut self, words: &[&str]) -> String {
        words[self.below(words.len())].to_owned()
    }
}

const LEAVES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "1",
    "2",
    "-3",
    "7.5",
    "0.1",
    "1000000000000",
    "\"\"",
    "\"a\"",
    "\"ab\"",
    "\"A\"",
    "\"5\"",
    "\"1.5\"",
    "\"x y\"",
    "[]",
    "[1]",
    "[1, 2]",
    "[\"a\", \"b\"]",
    "[null]",
    "[true, \"a\"]",
    "[[1], [2]]",
    "{}",
    "{ a = 1 }",
    "{ a = { b = \"x\" } }",
    "{ b = 2, c = [1] }",
    "Number",
    "len",
    "DateTime(5)",
    "(x => x)",
    "\"\\001\\377\"",
];

const INFIX: &[&str] = &[
    "+", "-", "*", "/", "<<", ">>", "<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||",
    "in", "!in",
];

const CALLS: &[&str] = &[
    "len($)",
    "string($)",
    "number($)",
    "bool($)",
    "typeof($).name",
    "keys($)",
    "union($, $)",
    "intersection($, $)",
    "match($, $)",
    "match($, $, MatchAny)",
    "range($)",
    "Math.max($, $)",
    "Math.min($, $)",
    "Math.abs($)",
    "Math.floor($)",
    "Math.sign($)",
    "Json.encode($)",
    "basename($)",
    "dirname($)",
    "escape_shell_arg($)",
    "cidr_match(\"10.0.0.0/8\", $)",
    "($).to_string()",
    "($).len()",
    "($).contains($)",
    "($).join($)",
    "($).reverse()",
    "($).unique()",
    "($).sort()",
    "($).upper()",
    "($).trim()",
    "($).split($)",
    "($).replace($, $)",
    "($).find($)",
    "($).get($)",
    "($).keys()",
    "($).values()",
    "($).shallow_clone()",
    "($).a",
    "($).a.b",
    "($)[0]",
    "($)[1]",
    "($)[\"a\"]",
    "($)[$]",
    "($) ? ($) : ($)",
    "!($)",
    "-($)",
    "~($)",
    "+($)",
    "($).map(x => x)",
    "($).filter(x => x)",
    "($).any(x => x == ($))",
    "($).reduce((a, b) => a + b)",
    "[$, $]",
    "{ a = $, b = $ }",
    "if ($) { $ } else { $ }",
    "(function(a) { a })($)",
    "(() use(q = $) => q)()",
    "($).clone()",
    "($) + ($)",
    "($) == ($)",
    "(function() { var s = 0; for (v in $) { s += 1; if (s > 2) { break } }; return s })()",
    "(function() { var r = []; for (k => v in $) { r.add(k); r.add(v) }; return r })()",
    "(function() { var n = 0; while (n < 3) { n += 1; if (n == 2) { continue } }; return n })()",
    "(function() { try { throw string($) } except { return 7 }; return 8 })()",
    "(function() { try { return $ } except { return 9 } })()",
    "(function() { try { var x = $ } except { return 9 }; return x })()",
    "(function(x) use(y = $) { return x + y })($)",
    "(function() { var d = {}; d.a = $; d.b.c = $; d[\"k\"] += $; return d })()",
    "(function() { var a = [ 1, 2 ]; a[1] = $; a.add($); a.remove(0); return a })()",
    "(function() { var x = 5; var y = &x; *y = $; return x })()",
    "(function() { var x = $; x += $; x -= $; return x })()",
    "(function() { if ($) { return 1 } else if ($) { return 2 }; 3 })()",
    "(function() { var f = (a, b) => a + b; return f($, $) })()",
    "(function() { var i = 1; var f = () use(i) => { i + 1 }; i = 5; return f() })()",
    "regex(\"a(b|c)*\", $)",
    "regex(\"[0-9]+\", $, MatchAny)",
    "regex($, $)",
    "DateTime(2020, 2, 30).format(\"%Y-%m-%d %H:%M\")",
    "DateTime($).format(\"%s %C %G %V %U|%-e %^8a %_5d %#p %Q\")",
    "DateTime($) - DateTime($)",
    "Json.decode(Json.encode($))",
    "Json.decode($)",
    "Array.prototype.len.call($)",
    "String.prototype.upper.call($)",
    "Array.prototype.join.callv($, [ $ ])",
    "typeof(typeof($)).name",
    "typeof($).base.name",
    "($).substr(1)",
    "($).substr(0, 1)",
    "($).set(\"a\", $)",
    "($).add($)",
    "($).remove($)",
    "($).contains(\"a\")",
    "($).all(x => x)",
    "($).lower().replace(\"a\", $)",
    "(function() { var a = $; a.freeze(); a.add(1); return a })()",
    "(function() { var a = $; var b = a; b += [ 1 ]; return [ a, b ] })()",
    "{ a = $ } + { a = $ }",
    "({ a = $ }).a",
    "[ $, $ ] + [ $ ] - [ $ ]",
    "string($) + string($)",
    "len(keys($))",
    "Math.round($)",
    "Math.pow($, 2)",
    "cidr_match($, \"10.1.2.3\")",
];

fn expression(numbers: &mut Numbers, depth: usize) -> String {
    match numbers.below(3) {
        _ if depth == 0 => numbers.pick(LEAVES),
        0 => {
            let (a, b) = (expression(numbers, depth - 1), expression(numbers, depth - 1));
            format!("({a}) {} ({b})", numbers.pick(INFIX))
        }
        _ => {
            let pattern = numbers.pick(CALLS);
            let mut out = String::new();
            for (at, part) in pattern.split('$').enumerate() {
                if at > 0 {
                    out.push_str(&expression(numbers, depth - 1));
                }
                out.push_str(part);
            }
            out
        }
    }
}

/// How many expressions one process of icinga2 is asked.
const BATCH: usize = 150;

/// How long it may take over them; it takes less than one.
const ASK_SECONDS_MAX: &str = "20";

#[test]
fn made_up_expressions_come_to_the_same() {
    if !common::is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let seed = std::env::var("FLEET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let batches = std::env::var("FLEET_BATCHES").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let (mut numbers, mut wrong, mut values) = (Numbers(seed), Vec::new(), 0);
    for _ in 0..batches {
        let depth = 1 + numbers.below(2);
        let batch: Vec<String> = (0..BATCH).map(|_| expression(&mut numbers, depth)).collect();
        for (expression, theirs) in batch.iter().zip(ask(&batch)) {
            let Some(theirs) = theirs else {
                println!("no answer of icinga2: {expression}");
                continue;
            };
            let found = ours(expression);
            values += usize::from(theirs != "error");
            // Some results with functions in them have no JSON there, here all have.
            let is_shown = theirs == "error" && found.contains("Object of type 'Function'");
            if found != theirs && !is_shown && !crashes_there(expression) {
                wrong.push(format!("{expression}\n  theirs {theirs}\n  ours   {found}"));
            }
        }
    }
    println!("{values} values compared");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// An array less null ends the installed program; ours is the array.
fn crashes_there(expression: &str) -> bool {
    expression.contains("- (null)")
}

/// The answers of icinga2; none to what it crashes of or finds no end to, which is found by halves.
fn ask(batch: &[String]) -> Vec<Option<String>> {
    match (answers(batch), batch) {
        (Some(answers), _) => answers.into_iter().map(Some).collect(),
        (None, [] | [_]) => vec![None; batch.len()],
        (None, _) => {
            let (left, right) = batch.split_at(batch.len() / 2);
            [ask(left), ask(right)].concat()
        }
    }
}

/// The answers of one icinga2; none if it ended without any.
fn answers(batch: &[String]) -> Option<Vec<String>> {
    let mut text = String::from("var r = []\n");
    for expression in batch {
        let wrapped = wrap(expression);
        text.push_str(&format!("try {{ r.add({wrapped}) }} except {{ r.add(\"error\") }}\n"));
    }
    text.push_str("r.join(\"\\001\")");
    let output =
        common::icinga2(ASK_SECONDS_MAX, &["console", "-e", &text]).output().expect("sh starts");
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = answer.lines().last()?.to_owned();
    if line.starts_with("critical/Application:") {
        return None;
    }
    let parts: Vec<String> = unquote(&line).split('\u{1}').map(str::to_owned).collect();
    (parts.len() == batch.len()).then_some(parts)
}

#[test]
fn what_never_ends_there_costs_no_other_answer() {
    if !common::is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let batch = ["1 + 1", "var a = []; a.add(a); a", "\"a\" + \"b\""].map(str::to_owned);
    let known = |answer: &str| Some(answer.to_owned());
    assert_eq!(ask(&batch), [known("2"), None, known("\"ab\"")]);
}
