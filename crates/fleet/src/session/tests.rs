//! Sessions: what they hand out, and that an edit comes to what a load from scratch comes to.

use std::collections::BTreeMap;

use super::*;
use crate::fuzz::Numbers;
use crate::outside::Nothing;
use warren_unit::UnitType;

fn load(text: &str) -> Loaded {
    let root = Source::new("f.conf", text.as_bytes());
    Session::load(root, Box::new(Nothing::default()), &Options::default(), "/run/f")
}

#[test]
fn texts_say_why_they_are_there() {
    let loaded = load(
        "object Container \"shop\" {}\ntemplate Service \"base\" {\n  Restart = \"always\"\n  \
         Type = \"exec\"\n}\napply Service \"web\" to Container {\n  import \"base\"\n  \
         ExecStart = \"/bin/web\"\n  assign where true\n}",
    );
    assert_eq!(loaded.messages, []);
    let session = loaded.session.expect("there are no faults");
    let text = session.products()["shop-web.service"].text(UnitType::Service);
    assert_eq!(
        text,
        "# Made by apply Service \"web\" (f.conf:6) for Container 'shop' (f.conf:1)\n\
         [Service]\n# f.conf:8\nExecStart=/bin/web\n# f.conf:3\nRestart=always\n\
         # f.conf:4\nType=exec\n"
    );
}

#[test]
fn nothing_is_made_when_one_rule_fails_for_one_target() {
    let loaded = load(
        "for (n in range(100)) { object Container \"c\" + n use (n) { vars.n = n } }\n\
         apply Service \"web\" to Container {\n  ExecStart = \"/bin/web\"\n  \
         Description = 100 / (container.vars.n - 42)\n  assign where true\n}",
    );
    assert!(loaded.session.is_none());
    let [message] = &loaded.messages[..] else { panic!("{:?}", loaded.messages) };
    assert_eq!((&*message.path, message.line), ("f.conf", 4));
    assert!(message.rendered.contains("Container 'c42'"), "{}", message.rendered);
}

#[test]
fn of_a_container_with_copies_rules_make_what_runs_here() {
    let rules = "object Container \"shop\" {\n  replicas = 40\n  spread = \"rack\"\n}\n\
                 object Container \"blog\" { replicas = 2 }\nobject Container \"plain\" {}\n\
                 apply Service \"web\" to Container {\n  ExecStart = \"/bin/web \" + if (container.replicas) { copy } else { 9 }\n  assign where true\n}\n";
    let made = |machine: &str| {
        let loaded = load(&format!("{machine}{rules}"));
        assert_eq!(loaded.messages, []);
        let session = loaded.session.expect("no faults");
        let all: Vec<String> = session
            .replicated()
            .iter()
            .map(|r| format!("{} {} {:?}", r.name, r.replicas, r.spread))
            .collect();
        assert_eq!(all, ["blog 2 None", "shop 40 Some(\"rack\")"]);
        session.products().keys().map(|path| path.to_string()).collect::<Vec<_>>().join(" ")
    };
    let all = made("");
    assert!(
        all.starts_with(
            "blog-web-0.service blog-web-1.service plain-web.service shop-web-0.service"
        ),
        "{all}"
    );
    assert_eq!(all.split(' ').count(), 43);
    assert_eq!(made("globals.machine = { cpus = 4 }\n"), all);
    assert_eq!(made("globals.machine = { copies = {} }\n"), "plain-web.service");
    let some = "globals.machine = { copies = { shop = [ 3, 9 ], other = [ 1 ] } }\n";
    assert_eq!(made(some), "plain-web.service shop-web-3.service shop-web-9.service");
    let beyond = "globals.machine = { copies = { shop = [ 39, 40, -1, \"1\" ] } }\n";
    assert_eq!(made(beyond), "plain-web.service shop-web-39.service");
    for wrong in ["-1", "1.5", "10001", "\"many\"", "true"] {
        let loaded = load(&format!("object Container \"shop\" {{ replicas = {wrong} }}"));
        assert!(loaded.session.is_none(), "{wrong}");
    }
}

#[test]
fn a_session_says_which_groups_each_target_is_in() {
    let rules = "object Container \"cart\" { groups = [ \"shop\" ] }\nobject Container \"pay\" { vars.shop = true }\n\
                 object Container \"plain\" {}\nobject Container \"odd\" { groups = [ \"nothing\", 7 ] }\n\
                 object Group \"shop\" {\n  groups = [ \"all\" ]\n  assign where container.vars.shop\n}\n\
                 object Group \"all\" { groups = [ \"world\" ] }\nobject Group \"world\" {}\n";
    let loaded = load(rules);
    let session = loaded.session.unwrap_or_else(|| panic!("{:?}", loaded.messages));
    let shown: Vec<String> = session
        .membership()
        .into_iter()
        .map(|(target, groups)| format!("{target}: {}", groups.join(" ")))
        .collect();
    let expected = [
        "Container 'cart': all shop world",
        "Container 'odd': nothing",
        "Container 'pay': all shop world",
        "Group 'all': world",
        "Group 'shop': all world",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn what_stands_beside_a_fault_is_checked_for_editors() {
    let text = "const A = = 1\nvar tiers = {\nobject Container \"a\" {\n  vars.n = )\n  vars.m = 1\n}\n\
                x = nothing\napply Service \"web\" to Container {\n  ExecStart = \"/bin/web\"\n  \
                Restrat = \"always\"\n  assign where container.vars.m\n}\n";
    let lines = |goes_on: bool| {
        let options = Options { goes_on, ..Options::default() };
        let source = Source::new("f.conf", text.as_bytes());
        let loaded = Session::load(source, Box::new(Nothing::default()), &options, "/run/fleet");
        assert!(loaded.session.is_none());
        loaded.messages.iter().map(|message| message.line).collect::<Vec<_>>()
    };
    assert_eq!(lines(false), [1, 3, 4]);
    assert_eq!(lines(true), [1, 3, 4, 7, 10]);
}

/// Files by name, included by a root.
struct Texts(BTreeMap<String, String>);

impl Texts {
    fn source(&self, name: &str) -> Source {
        Source::new(name, self.0[name].as_bytes())
    }

    fn load(&self) -> Loaded {
        let root = Source::new("root", b"include \"*\"");
        Session::load(root, Box::new(Given(self)), &Options::default(), "/f")
    }
}

struct Given<'t>(&'t Texts);

impl Outside for Given<'_> {
    fn include(&mut self, _: &crate::outside::Include) -> Result<Vec<Source>, String> {
        Ok(self.0.0.keys().map(|name| self.0.source(name)).collect())
    }
}

/// Rules that read containers in every way.
const RULES: &str = "\
template Container \"base\" { vars.role = \"web\"; vars.size = 1 }
const Roles = { web = \"/bin/web\", db = \"/bin/db\" }
object Group \"big\" { assign where container.vars.size > 1 }
apply Service \"role\" to Container {
  ExecStart = Roles[container.vars.role]
  Description = container.vars.size + 1
  assign where container.vars.role in keys(Roles)
}
apply Slice \"s\" to Container { assign where \"big\" in container.groups }
apply Socket \"p-\" for (port in container.vars.ports) to Container {
  ListenStream = port
  ignore where port == 3
}
apply Mount \"m\" to Container {
  Where = \"/m/\" + container.vars.place
  What = \"/dev/x\"
  assign where container.vars.place
}
apply Service \"group\" to Group { ExecStart = \"/bin/g\"; assign where true }
";

const LOOKS_UP: &str = "\
apply Timer \"first\" to Container {
  OnActiveSec = 60
  Description = get_object(Container, \"c1\").vars.size
  assign where container.vars.role == \"db\"
}
apply Path \"all\" to Machine { PathExists = \"/\" + len(get_objects(Machine)); assign where true }
";

/// Lines of a body; the last ones are wrong now and then, and rare.
const LINES: [&str; 10] = [
    "vars.role = \"db\"",
    "vars.size = 2",
    "vars.role = \"other\"",
    "vars.size = 3",
    "vars.ports = [ 1, 2, 3 ]",
    "groups = [ \"big\" ]",
    "vars.ports = [ 3 ]",
    "vars.place = \"one\"",
    "vars.size = \"x\"",
    "name = \"c7\"",
];

/// A file of a few objects, some of which cannot be.
fn file(numbers: &mut Numbers, own: usize) -> String {
    let mut out = String::new();
    for which in [own, own + 10] {
        if numbers.below(4) == 0 {
            continue;
        }
        out.push_str(&"\n".repeat(numbers.below(2)));
        let name = if numbers.below(30) == 0 { 1 } else { which };
        match numbers.below(6) {
            0 => out.push_str(&format!("object Machine \"m{name}\" {{\n")),
            _ => out.push_str(&format!("object Container \"c{name}\" {{\n  import \"base\"\n")),
        }
        for _ in 0..numbers.below(4) {
            let mut at = || numbers.below(LINES.len());
            let rare = at().min(at()).min(at());
            out.push_str(&format!("  {}\n", LINES[rare]));
        }
        out.push_str("}\n");
    }
    out
}

/// Edits files one after another; returns how many edits were taken over without a load.
fn edits(seed: u64, rules: &str) -> usize {
    let mut numbers = Numbers(seed);
    let mut texts = Texts(BTreeMap::from([("rules".to_owned(), rules.to_owned())]));
    for own in 0..6 {
        texts.0.insert(format!("f{own}"), file(&mut numbers, own));
    }
    // Whether attributes are kept makes no difference.
    let maybe_slim =
        |session: Session| if seed.is_multiple_of(2) { session.slim() } else { session };
    let (mut session, mut taken) = (texts.load().session.map(maybe_slim), 0);
    for _ in 0..40 {
        let own = numbers.below(6);
        let name = format!("f{own}");
        texts.0.insert(name.clone(), file(&mut numbers, own));
        let scratch = texts.load();
        let changed =
            session.take().and_then(|s| s.change(&[texts.source(&name)], &Options::default()));
        if let Some((changed, _)) = changed {
            let scratch = scratch.session.as_ref().map(Session::products);
            assert_eq!(Some(changed.products()), scratch, "seed {seed}: {:#?}", texts.0);
            session = Some(changed);
            taken += 1;
        } else {
            session = scratch.session.map(maybe_slim);
        }
    }
    taken
}

#[test]
fn an_edit_comes_to_what_a_load_comes_to() {
    let taken: usize = (1..20).map(|seed| edits(seed, RULES)).sum();
    assert!(taken > 300, "only {taken} of 760 edits were taken over");
}

#[test]
fn an_edit_of_what_others_look_up_is_a_load() {
    let rules = format!("{RULES}{LOOKS_UP}");
    let taken: usize = (1..20).map(|seed| edits(seed, &rules)).sum();
    assert!(taken > 150, "only {taken} of 760 edits were taken over");
}

#[test]
fn what_an_edit_cannot_change_is_left_to_a_load() {
    let check = |before: &str, after: &str, expected: Option<&[&str]>| {
        let mut texts = Texts(BTreeMap::from([
            ("a".to_owned(), RULES.to_owned()),
            ("b".to_owned(), before.to_owned()),
        ]));
        let session = texts.load().session.expect(before);
        texts.0.insert("b".to_owned(), after.to_owned());
        let changed = session.change(&[texts.source("b")], &Options::default());
        let paths = changed.map(|(_, delta)| delta.paths.into_iter().collect::<Vec<_>>());
        let paths = paths.as_ref().map(|all| all.iter().map(|p| &**p).collect::<Vec<_>>());
        assert_eq!(paths.as_deref(), expected, "{before} => {after}");
    };
    let one = "object Container \"a\" { vars.role = \"web\"; vars.size = 1 }";
    check(
        one,
        "object Container \"a\" { vars.role = \"db\"; vars.size = 1 }",
        Some(&["a-role.service"]),
    );
    check(one, "", Some(&["a-role.service"]));
    check("", one, Some(&["a-role.service"]));
    check(one, one, Some(&[]));
    check(one, &format!("{one}\nvar x = 1"), None);
    check(one, "object Container \"a\" { vars.role = \"web\" vars", None);
    check(one, "object Container \"a\" { vars.role = \"web\"; vars.size = {} }", None);
    check(one, &one.replace("1 }", "random() }"), None);
    check(one, &one.replace("1 }", "getenv(\"SIZE\") }"), None);
    // Lines are told by a load.
    check(one, &one.replace("1 }", "2; log(name) }"), None);
    check(one, "object Group \"big\" {}", None);
    check("x = 1", one, None);
    check(
        one,
        "object Service \"alone\" { ExecStart = \"/bin/a\" }",
        Some(&["a-role.service", "alone.service"]),
    );
    check(one, "object Service \"big-group\" { ExecStart = \"/bin/a\" }", None);
}

#[test]
fn a_rule_that_fails_for_every_target_has_one_fault() {
    let loaded = load(
        "for (n in range(3000)) { object Container \"c\" + n use (n) { vars.n = n } }\n\
         apply Service \"web\" to Container {\n  ExecStart = \"/bin/web\"\n  \
         Description = 1 / (container.vars.n - container.vars.n)\n  assign where true\n}",
    );
    let [message] = &loaded.messages[..] else { panic!("{:?}", loaded.messages) };
    for part in ["f.conf:4:17", "Container 'c0'", "and 2999 more like this one"] {
        assert!(message.rendered.contains(part), "no {part} in {}", message.rendered);
    }
}

#[test]
fn copies_of_many_items_are_bounded() {
    let bounds = Bounds { steps: 200_000, items: 10_000, ..Bounds::default() };
    let options = Options { bounds, ..Options::default() };
    let said = |text: &str| {
        let root = Source::new("f.conf", text.as_bytes());
        let loaded = Session::load(root, Box::new(Nothing::default()), &options, "/f");
        loaded.messages.first().map_or(String::new(), |message| message.message.clone())
    };
    let no_room = "the rules need more memory than is allowed for values";
    let given_up = "evaluation stopped after 200000 steps, the most that are allowed";
    assert_eq!(said("var a = []\nfor (n in range(99)) { a[n] = n }"), "");
    assert_eq!(said("var a = range(5000); var b = []\nwhile (true) { b.add(a + [ 1 ]) }"), no_room);
    assert_eq!(said("var b = []\nwhile (true) { var a = []; a[9999] = 1; b.add(a) }"), no_room);
    assert_eq!(said("var a = range(5000)\nwhile (true) { a.contains(-1) }"), given_up);
    assert_eq!(said("var a = range(5000)\nwhile (true) { a.any(x => true) }"), given_up);
}
