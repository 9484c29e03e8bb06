//! Whole configurations: what is made of them, and that it is the same whichever way.

use super::{Fleet, Matching, Options, load};
use crate::diagnostic;
use crate::eval::Bounds;
use crate::fuzz::Numbers;
use crate::modules::Modules;
use crate::outside::Nothing;
use crate::schema::warrener;
use crate::source::Source;
use crate::types::Types;

/// Objects with attributes and places, or the faults.
fn shown(text: &str, options: &Options<'_>) -> String {
    let (types, modules) = (Types::new(warrener::types()), Modules::default());
    let source = Source::new("t", text.as_bytes());
    let Fleet { world, faults, .. } =
        load(source, &types, &modules, Box::new(Nothing::default()), options);
    let sources = |file| modules.source(file);
    if !faults.is_empty() {
        return faults.iter().map(|fault| diagnostic::render(fault, &sources)).collect();
    }
    let describe = |place: crate::Place| match modules.source(place.file.0) {
        Some(source) => source.line_column(place.span.start).0.to_string(),
        None => "?".to_owned(),
    };
    crate::dump::objects(&world, &types, Default::default(), &describe)
}

/// Objects without what every object has.
#[track_caller]
fn check(text: &str, expected: &str) {
    let found = shown(text, &Options::default());
    let plain = |line: &&str| !line.starts_with("  name = ") && !line.starts_with("  type = ");
    let found: Vec<&str> = found.lines().filter(plain).collect();
    let expected: Vec<&str> = expected.lines().collect();
    assert_eq!(found, expected, "{text}");
}

#[track_caller]
fn check_fault(text: &str, expected: &[&str]) {
    let found = shown(text, &Options::default());
    for part in expected {
        assert!(found.contains(part), "{text}\nno {part:?} in\n{found}");
    }
}

#[test]
fn objects_take_what_templates_say() {
    check(
        "template Container \"base\" {\n  vars.a = 1\n  vars.order = [ \"base\" ]\n}\n\
         template Container \"always\" default { vars.order += [ \"always\" ] }\n\
         object Container \"shop\" {\n  import \"base\"\n  vars.order += [ name ]\n}",
        "Container shop (6)\n  vars = {\"a\":1,\"order\":[\"base\",\"shop\"]} [5 2 3 8]",
    );
}

/// Settings of units have names that types have too.
#[test]
fn a_type_is_not_hidden_by_a_setting_that_nobody_set() {
    check(
        "object Container \"c\" { groups = [ \"g\" ] }\nobject Group \"g\" { groups = [ \"all\" ] }\n\
         object Group \"all\" { vars.n = 3 }\napply Service \"s\" to Container {\n  \
         vars.n = get_object(Group, \"all\").vars.n\n  vars.set = Slice\n  Slice = \"x.slice\"\n  \
         vars.is = Slice\n  assign where \"all\" in container.groups\n}",
        "Container c (1)\n  groups = [\"g\",\"all\"] [1]\nGroup all (3)\n  vars = {\"n\":3} [3]\n\
         Group g (2)\n  groups = [\"all\"] [2]\nService c-s (4)\n  Slice = \"x.slice\" [7]\n  \
         container = \"c\"\n  vars = {\"is\":\"x.slice\",\"n\":3,\"set\":\"type 'Slice'\"} [5 6 8]",
    );
}

/// What a loop throws away is given back, wherever the loop stands.
#[test]
fn loops_that_append_need_no_more_room_than_what_they_make() {
    let bounds = Bounds {
        items: 8_000,
        string_bytes: 1 << 20,
        unreached_bytes: 1 << 16,
        ..Bounds::default()
    };
    let check = |text: &str, expected: &str| {
        let text = format!("{text}\nobject Container \"c\" {{ vars.n = globals.n }}");
        let options = Options { bounds, ..Options::default() };
        let found = shown(&text, &options);
        assert!(found.contains(expected), "{text}\n{found}");
        let unbounded = Bounds { unreached_bytes: u64::MAX, ..bounds };
        let found = shown(&text, &Options { bounds: unbounded, ..options });
        assert!(
            found.contains("the rules need more memory than is allowed for values"),
            "{text}\n{found}"
        );
    };
    check(
        "var l = []\nfor (i in range(3000)) { l += [ i ] }\nglobals.n = l[2999] + len(l)",
        "{\"n\":5999}",
    );
    check(
        "var s = \"\"\nfor (i in range(3000)) { s += \"0123456789\" }\nglobals.n = len(s)",
        "{\"n\":30000}",
    );
    check(
        "var l = []\nvar i = 0\nwhile (i < 3000) { if (!(i in l)) { l += [ i ] }\n i += 1 }\n\
         globals.n = len(l)",
        "{\"n\":3000}",
    );
    check(
        "function build(n) { var l = []\n for (i in range(n)) { l += [ { k = i } ] }\n return l }\n\
         globals.n = len([ build(1500), build(1500) ][1]) + build(2000)[1999].k",
        "{\"n\":3499}",
    );
    check(
        "var d = {}\nfor (i in range(1500)) { var k = {}\n k[\"k\" + i] = \"v\" + i\n d += k }\nglobals.n = d.k1499",
        "{\"n\":\"v1499\"}",
    );
    check(
        "globals.n = 0\nobject Machine \"m\" { vars.l = []\n for (i in range(2000)) { vars.l += [ i ] }\n \
         vars.n = len(vars.l)\n vars.l = null }",
        "\"n\":2000",
    );
}

#[test]
fn rules_make_products() {
    let text = "object Container \"a\" { vars.role = \"web\"; vars.sites = { x = 1, y = 2 } }\n\
                object Container \"b\" { vars.role = \"db\" }\n\
                apply Service \"s\" to Container {\n  ExecStart = \"/bin/\" + container.name\n  \
                assign where container.vars.role == \"web\"\n}\n\
                apply Timer \"t-\" for (k => v in container.vars.sites) to Container {\n  \
                OnCalendar = v\n  assign where v > 1\n}";
    check(
        text,
        "Container a (1)\n  vars = {\"role\":\"web\",\"sites\":{\"x\":1,\"y\":2}} [1 1]\n\
         Container b (2)\n  vars = {\"role\":\"db\"} [2]\n\
         Service a-s (3)\n  ExecStart = \"/bin/a\" [4]\n  container = \"a\"\n\
         Timer a-t-y (7)\n  OnCalendar = 2 [8]\n  container = \"a\"",
    );
}

#[test]
fn groups_have_members_before_rules_are_asked() {
    check(
        "object Container \"a\" { vars.x = 1 }\nobject Container \"b\" { }\n\
         object Group \"g\" { assign where container.vars.x }\n\
         apply Slice \"s\" to Container { assign where \"g\" in container.groups }",
        "Container a (1)\n  groups = [\"g\"]\n  vars = {\"x\":1} [1]\nContainer b (2)\n\
         Group g (3)\nSlice a-s (4)\n  container = \"a\"",
    );
}

#[test]
fn what_is_frozen_is_not_written_and_both_places_are_named() {
    let text = "const Shared = { a = 1 }\nobject Container \"x\" {\n  vars.s = Shared\n  \
                vars.s.b = 2\n}";
    check_fault(text, &["this dictionary is frozen", "t:4:3", "t:1:16", "x.clone()"]);
    check_fault("object Container \"x\" { globals.y = 1 }", &["this namespace is frozen"]);
    let text = "const List = []\nobject Container \"x\" { List.add(1) }";
    check_fault(text, &["this array is frozen", "t:1:14"]);
    check(
        "const S = { a = 1 }\nobject Container \"x\" { vars.s = S.clone(); vars.s.b = 2 }",
        "Container x (2)\n  vars = {\"s\":{\"a\":1,\"b\":2}} [2 2]",
    );
}

#[test]
fn faults_name_the_rule_and_the_object() {
    check_fault(
        "object Container \"x\" { vars.a = \"text\" }\n\
         apply Service \"s\" to Container { assign where container.vars.a.b }",
        &["Invalid field access (for value of type 'String'): 'b'", "for Container 'x'", "t:2:47"],
    );
    check_fault(
        "object Container \"x\" { }\n\
         apply Service \"s\" to Container { ExecStrat = 1; assign where true }",
        &["Attribute 'ExecStrat' does not exist.", "did you mean `ExecStart`?"],
    );
    check_fault(
        "object Container \"x\" { }\nobject Container \"x\" { }",
        &["Object 'x' of type 'Container' re-defined", "previous definition"],
    );
    check_fault(
        "object Container \"x\" { }\napply Service \"s\" to Container { assign where true }\n\
         apply Service \"s\" to Container { assign where true }",
        &["An object with type 'Service' and name 'x-s' already exists", "the other one is here"],
    );
    check_fault(
        "object Container \"x\" { import \"bse\" }\ntemplate Container \"base\" { }",
        &["Import references unknown template: 'bse'", "did you mean `base`?"],
    );
    check_fault("object Contaner \"x\" { }", &["did you mean `Container`?"]);
    check_fault("object Container \"x\" { vars = 5 }", &["must be a dictionary"]);
}

#[test]
fn templates_that_import_themselves_are_named() {
    let object = "object Container \"x\" { import \"a\" }";
    let check = |templates: &str, circle: &str| {
        let message = format!("imports itself, more than 300 levels deep: {circle}\n");
        check_fault(&format!("{object}\n{templates}"), &["template 'a' ", &message, "t:2:"]);
    };
    check("template Container \"a\" { import \"a\" }", "'a' -> 'a'");
    check(
        "template Container \"a\" { import \"b\" }; template Container \"b\" { import \"c\" }; \
         template Container \"c\" { import \"a\" }",
        "'a' -> 'b' -> 'c' -> 'a'",
    );
    // Were the fault caught, there would be twice as many imports at each level.
    let twice = "try { import \"a\" } except { vars.x = 1 }; try { import \"a\" } except { }";
    check(&format!("template Container \"a\" {{ vars.n += 1; {twice} }}"), "'a' -> 'a'");
    let itself = "object Container \"x\" { import \"x\" }";
    check_fault(itself, &["template 'x' imports itself", "'x' -> 'x'"]);
    let ring = |at| format!("template Container \"t{at}\" {{ import \"t{}\" }}\n", (at + 1) % 12);
    let ring: String = (0..12).map(ring).collect();
    let shown = "'t0' -> 't1' -> 't2' -> 't3' -> 't4' -> 't5' -> 't6' -> 't7' -> ... -> 't0'";
    check_fault(&format!("{ring}object Container \"x\" {{ import \"t0\" }}"), &[shown]);
}

#[test]
fn a_template_may_import_itself_under_a_condition() {
    let lines = ["2"; 40].join(" ");
    check(
        "template Container \"a\" {\n  vars.n += 1\n  if (vars.n < 40) { import \"a\" }\n}\n\
         object Container \"x\" { import \"a\" }",
        &format!("Container x (5)\n  vars = {{\"n\":40}} [{lines}]"),
    );
}

#[test]
fn a_filter_may_be_statements() {
    let containers =
        "object Container \"a\" { vars.x = 1 }\nobject Container \"b\" { vars.x = 2 }\n";
    let made = |filter: &str, matching: Matching| {
        let rule = format!("apply Service \"s\" to Container {{ assign where {filter} }}");
        let options = Options { matching, ..Options::default() };
        let found = shown(&format!("{containers}{rule}"), &options);
        let of_rules =
            found.lines().filter(|line| line.starts_with("Service ") || line.contains("error"));
        of_rules.map(|line| line.split(' ').nth(1).unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    for matching in [Matching::Naive, Matching::Scan, Matching::Indexed] {
        let check = |filter: &str, expected: &[&str]| {
            assert_eq!(made(filter, matching), expected, "{filter}");
        };
        check("{ true }", &["a-s", "b-s"]);
        check("{ }", &[]);
        check("if (container.vars.x == 2) { return true }", &["b-s"]);
        check("{ container.vars.x == 2 }", &["b-s"]);
        check("{ var z = container.vars.x; z == 2 }", &["b-s"]);
        check("{ if (container.vars.x == 2) { return true }; return false }", &["b-s"]);
        // What one container's filter remembers, the next one's does not see.
        check("{ var seen = locals.contains(\"z\"); var z = [ 1 ]; !seen }", &["a-s", "b-s"]);
    }
}

// Every way of matching, every number of threads.

const PATHS: &[&str] = &[
    "container.name",
    "container.vars.role",
    "container.vars.rank",
    "container.vars.tags",
    "container.vars.address",
    "container.vars.deep.x",
    "container.vars[\"role\"]",
    "container.vars.none",
    "container.groups",
    "container.vars.mixed",
    "container.display_name",
];

const CONSTANTS: &[&str] = &[
    "\"web\"",
    "\"db\"",
    "\"\"",
    "null",
    "3",
    "0",
    "1",
    "true",
    "\"c-007\"",
    "\"10.0.0.3\"",
    "Fleet.Role",
    "[ \"web\", \"x\" ]",
    "[]",
    "\"WEB\"",
    "len(\"abc\")",
    "(\"w\" + \"eb\")",
];

const PATTERNS: &[&str] = &[
    "\"c-*\"",
    "\"*7\"",
    "\"*-01*\"",
    "\"C-00?\"",
    "\"c-003\"",
    "\"*\"",
    "\"\"",
    "\"w*b\"",
    "\"*00*5\"",
    "Fleet.Pattern",
];

fn filter(numbers: &mut Numbers, depth: usize) -> String {
    let path = numbers.pick(PATHS);
    match numbers.below(if depth == 0 { 9 } else { 13 }) {
        0 => path.to_owned(),
        1 => format!("{path} == {}", numbers.pick(CONSTANTS)),
        2 => format!("{path} != {}", numbers.pick(CONSTANTS)),
        3 => format!("{} in {path}", numbers.pick(CONSTANTS)),
        4 => format!("{path} in [ \"web\", \"db\", 3, null ]"),
        5 => format!(
            "match({}, {path}{})",
            numbers.pick(PATTERNS),
            numbers.pick(&["", ", MatchAny"])
        ),
        6 => {
            format!("regex({}, {path})", numbers.pick(&["\"^c-0\"", "\"[24]$\"", "\"e\"", "\"(\""]))
        }
        7 => format!(
            "cidr_match({}, {path})",
            numbers.pick(&["\"10.0.0.0/30\"", "\"::/0\"", "\"x\""])
        ),
        8 => format!("{path} {} {}", numbers.pick(&["<", ">=", "==", "in"]), numbers.pick(PATHS)),
        9 if numbers.below(3) == 0 => numbers
            .pick(&["container.vars.mixed.x in container.vars.none", "random() % 3 == 0"])
            .to_owned(),
        9 => format!("!({})", filter(numbers, depth - 1)),
        10 => format!("({}) && ({})", filter(numbers, depth - 1), filter(numbers, depth - 1)),
        11 => format!("({}) || ({})", filter(numbers, depth - 1), filter(numbers, depth - 1)),
        _ => format!("len({path}) > {}", numbers.below(4)),
    }
}

fn configuration(numbers: &mut Numbers, rules: usize) -> String {
    let mut out = String::from(
        "namespace Fleet {\n  const_none = 1\n  Role = \"web\"\n  Pattern = \"c-0*\"\n}\n",
    );
    for at in 0..130 {
        let role = numbers.pick(&["\"web\"", "\"db\"", "\"WEB\"", "null", "\"\"", "3"]);
        let mixed = numbers.pick(&["1", "\"c-1\"", "[ \"c-1\", 2 ]", "true", "0", "[]", "1.5"]);
        out.push_str(&format!(
            "object Container \"c-{at:03}\" {{ vars.role = {role}; vars.rank = {}; \
             vars.tags = [ \"web\", \"t{}\" ]; vars.address = \"10.0.0.{}\"; vars.mixed = {mixed}; \
             vars.deep = {{ x = {} }} }}\n",
            at % 7,
            at % 5,
            at % 9,
            at % 3
        ));
    }
    out.push_str("object Group \"big\" { assign where container.vars.rank > 3 }\n");
    for at in 0..rules {
        out.push_str(&format!("apply Service \"s{at}\" to Container {{\n"));
        out.push_str("  ExecStart = \"/bin/x \" + container.name\n  vars.r = random()\n");
        for _ in 0..=numbers.below(2) {
            out.push_str(&format!("  assign where {}\n", filter(numbers, 2)));
        }
        if numbers.below(3) == 0 {
            out.push_str(&format!("  ignore where {}\n", filter(numbers, 1)));
        }
        out.push_str("}\n");
    }
    let each = numbers.pick(&[
        "container.vars.tags",
        "range(container.vars.rank)",
        "container.vars.mixed",
    ]);
    let ask =
        numbers.pick(&["v == \"web\"", "container.vars.rank > v", "true", "len(string(v)) > 2"]);
    out.push_str(&format!(
        "apply Timer \"t-\" for (v in {each}) to Container {{ OnCalendar = v; assign where {ask} }}\n"
    ));
    out
}

#[test]
fn every_way_of_matching_makes_the_same() {
    let (mut made, mut failed) = (0, 0);
    for seed in 0..60 {
        let text = configuration(&mut Numbers(seed), 3);
        let with =
            |matching, threads| shown(&text, &Options { matching, threads, ..Options::default() });
        let naive = with(Matching::Naive, 1);
        assert_eq!(naive, with(Matching::Scan, 1), "scan, seed {seed}\n{text}");
        assert_eq!(naive, with(Matching::Indexed, 1), "indexed, seed {seed}\n{text}");
        assert_eq!(naive, with(Matching::Indexed, 3), "threads, seed {seed}\n{text}");
        let in_sequence = shown(&text, &Options { in_sequence: true, ..Options::default() });
        assert_eq!(naive, in_sequence, "in sequence, seed {seed}\n{text}");
        made += naive.matches("\nService ").count();
        failed += usize::from(naive.starts_with("error"));
    }
    assert!(made > 1000 && failed > 5 && failed < 55, "{made} made, {failed} failed");
}

#[test]
fn objects_that_write_to_what_the_top_level_made_are_made_in_sequence() {
    let text = "globals.seen = []\nglobals.count = 0\n\
                object Container \"a\" { globals.seen.add(name); vars.n = globals.seen.len() }\n\
                object Container \"b\" { globals.seen.add(name); vars.n = globals.seen.len() }\n\
                apply Service \"s\" to Container {\n  globals.count += 1\n  \
                vars.n = globals.count\n  assign where container.vars.n > 0\n}";
    check_fault(
        text,
        &["this array is frozen and cannot be changed", "t:1:16", "t:3:24", "MakeInSequence"],
    );
    let made = |matching| {
        let options = Options { in_sequence: true, matching, threads: 4, ..Options::default() };
        shown(text, &options)
    };
    let found = made(Matching::Indexed);
    for part in [
        "Container a (3)",
        "vars = {\"n\":1} [3]",
        "vars = {\"n\":2} [4]",
        "Service a-s (5)",
        "vars = {\"n\":1} [7]",
        "vars = {\"n\":2} [7]",
    ] {
        assert!(found.contains(part), "no {part:?} in\n{found}");
    }
    assert_eq!(found, made(Matching::Naive));
    let said = format!("const MakeInSequence = true\n{text}");
    assert!(shown(&said, &Options::default()).contains("Service b-s (6)"));
}

#[test]
fn a_fault_in_sequence_names_the_target() {
    let text = "const MakeInSequence = true\nobject Container \"a\" {}\n\
                apply Service \"s\" to Container { vars.x = 1 / 0; assign where true }";
    check_fault(text, &["evaluating this rule for Container 'a'"]);
}

#[test]
fn names_of_nothing_are_faults() {
    check_fault(
        "object Service \"a\" { container = \"shop\"; ExecStart = \"/bin/a\" }",
        &["attribute 'container' of Service 'a': there is no Container 'shop'", "t:1:22"],
    );
}

/// Files included together.
struct Many(Vec<Source>);

impl crate::outside::Outside for Many {
    fn include(&mut self, _: &crate::outside::Include) -> Result<Vec<Source>, String> {
        Ok(self.0.clone())
    }
}

#[test]
fn files_are_the_same_whoever_parses_them() {
    let file = |n: usize| {
        let mut text = String::new();
        for m in 0..2000 {
            text.push_str(&format!("object Container \"c{n}-{m}\" {{ vars.n = {m} }}\n"));
        }
        // The fault of the first of two files with one is told.
        text.push_str(if n > 6 { "object object\n" } else { "" });
        Source::new(&format!("{n}.conf"), text.as_bytes())
    };
    let told = |count: usize, threads: usize| {
        let (types, modules) = (Types::new(warrener::types()), Modules::default());
        let files = Many((0..count).map(file).collect());
        let root = Source::new("root", b"include \"*\"");
        let options = Options { threads, ..Options::default() };
        let fleet = load(root, &types, &modules, Box::new(files), &options);
        let faults: Vec<String> = fleet
            .faults
            .iter()
            .map(|fault| diagnostic::render(fault, &|file| modules.source(file)))
            .collect();
        let describe = |place: crate::Place| match modules.source(place.file.0) {
            Some(source) => source.describe(place.span.start),
            None => "?".to_owned(),
        };
        (crate::dump::objects(&fleet.world, &types, Default::default(), &describe), faults)
    };
    let alone = told(7, 1);
    assert!(alone.0.contains("6.conf:2000") && alone.1.is_empty());
    assert!(alone == told(7, 4), "threads make a difference");
    let (_, faults) = told(9, 1);
    assert!(faults[0].contains("7.conf:2001"), "{faults:?}");
    assert_eq!(faults, told(9, 3).1);
}

#[test]
fn objects_do_not_see_those_that_are_made_with_them() {
    let said = ["objects of type 'Container' are made at the same time as this one", "constant"];
    check_fault(
        "object Container \"a\" { }\n\
         object Container \"b\" { vars.a = get_object(Container, \"a\").vars }",
        &said,
    );
    check_fault("object Container \"b\" { vars.n = len(get_objects(Container)) }", &said);
    check(
        "object Container \"a\" { vars.x = get_object(Container, \"none\") }\n\
         object Group \"g\" { vars.all = len(get_objects(Container)) }",
        "Container a (1)\n  vars = {\"x\":null} [1]\nGroup g (2)\n  vars = {\"all\":1} [2]",
    );
}

#[test]
fn functions_that_call_each_other_without_end_are_a_fault_with_a_place() {
    check_fault(
        "function a() { b() }\nfunction b() { a() }\nobject Container \"x\" { vars.v = a() }",
        &["Stack overflow while evaluating expression", "t:"],
    );
}
