//! Trees and faults of small texts.

use super::parse;
use crate::source::{FileId, Source};

/// `line:column message` of every fault.
fn faults(text: &str) -> Vec<String> {
    let source = Source::new("t", text.as_bytes());
    let (_, diagnostics) = parse(FileId(0), source.clone());
    let show = |d: &crate::Diagnostic| {
        let (line, column) = source.line_column(d.place.span.start);
        format!("{line}:{column} {}", d.message)
    };
    diagnostics.iter().map(show).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(faults(text), expected, "{text}");
}

#[test]
fn what_is_not_understood_is_said_where_it_is() {
    check("globals.a = 1 +\n2", &["1:16 expected an expression, found the end of the line"]);
    check("a = (1\n+\n2)", &[]);
    check("a = 1 b = 2", &["1:7 expected the end of the statement, found `b`"]);
    check("if (true)\n{ }", &["1:10 expected `{` on this line, found the end of the line"]);
    check("a = { b = { c = 1 }}", &[]);
    check("a = {{ { c = 1 }}}", &[]);
    check("a = {{ 1 } }", &["1:10 expected `}}`"]);
    check("1 == 2 == 3", &["1:8 comparisons cannot be chained; use && or parentheses"]);
    check("5 = 6", &["1:1 this expression cannot be assigned to"]);
    check("a == 5\nb = 1", &["1:1 the result of this expression is not used"]);
    check("a = { 1 }", &["1:7 the result of this expression is not used"]);
    check("}", &["1:1 this `}` closes nothing"]);
    check("apply Service \"s\" { }", &["1:1 `apply` needs an `assign where` or a `for`"]);
    check("assign where 1", &["1:1 `assign where` can only stand in a rule"]);
    check("object Host \"h\" default { }", &["1:17 only templates can be `default`"]);
    check("x = \"\\x\"", &["1:6 unknown escape; a backslash itself is written \\\\"]);
    check(
        "vars.include = 1",
        &["1:6 expected the name of a member, found the keyword `include`; \
           a reserved word is used as a name by writing @ before it"],
    );
}

#[test]
fn one_run_reports_several_faults() {
    let text = "a = \nb = 1\nc = [1 2]\nobject Host \"h\" {\n x = )\n y = 1\n}\nd = *";
    assert_eq!(faults(text).len(), 4, "{:?}", faults(text));
}

/// The statements that are in the tree of a text with faults, laid out.
fn understood(text: &str) -> String {
    let (module, faults) = parse(FileId(0), Source::new("t", text.as_bytes()));
    assert!(!faults.is_empty(), "{text}");
    let text = |id: &crate::ast::NodeId| {
        let span = module.node(*id).span;
        let bytes = &module.source.text[span.start as usize..span.end as usize];
        String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let all = module.root.iter().map(text).collect::<Vec<_>>();
    let bodies = module.definitions().map(|it| it.body.len().to_string());
    format!("{}; bodies of {}", all.join(" | "), bodies.collect::<Vec<_>>().join(", "))
}

#[test]
fn what_is_not_understood_is_not_in_the_tree() {
    let check = |text: &str, expected: &str| assert_eq!(understood(text), expected, "{text}");
    check("a = 1\nb = = 2\nc = 3", "a = 1 | c = 3; bodies of ");
    // Nobody is to miss the variable.
    check("var a = )\nb = \"\\x\"", "var a =; bodies of ");
    check(
        "object Host \"a\" {\n x = )\n y = 1\n}\nobject Host \"c\"\nobject Host \"b\" { }",
        "object Host \"a\" { x = ) y = 1 } | object Host \"b\" { }; bodies of 1, 0, 0",
    );
    // A brace that is missing costs what it is missing from.
    check(
        "object Host \"a\" {\n vars.x = {\n y = 1\nobject Host \"b\" {\n x = 1\n}\na = 1",
        "object Host \"a\" { vars.x = { y = 1 | object Host \"b\" { x = 1 } | a = 1; bodies of 0, 1",
    );
    // Nobody knows what a rule is for whose filter was not understood.
    check(
        "apply Slice \"s\" to Container {\n assign where true\n ignore where = 1\n}\na = 1",
        "a = 1; bodies of 1",
    );
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("[", "]"), ("(", ")"), ("{ a = ", " }"), ("!", ""), ("x => ", "")] {
        let text = format!("v = {}1{}", open.repeat(100_000), close.repeat(100_000));
        let found = faults(&text);
        assert!(found.iter().any(|f| f.contains("nested more than")), "{open}: {found:?}");
    }
    let long = format!("v = {}1", "1 && ".repeat(100_000));
    check(&long, &[]);
}
