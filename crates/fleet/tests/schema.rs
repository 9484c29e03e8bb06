//! What attributes of Icinga's objects take, and what becomes of it.
//!
//! `tests/data/schema.txt` has one object a line and whether the installed program takes or refuses
//! it. Each attribute of each type with values of every kind, and made-up days and hours, are
//! compared where icinga2 is installed: which it takes, and what they are afterwards.

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{Objects, Scratch, is_installed, ours, theirs};
use serde_json::{Value, json};
use warren_fleet::Source;
use warren_fleet::engine::{self, Options};
use warren_fleet::modules::Modules;
use warren_fleet::outside::Nothing;
use warren_fleet::schema::icinga;
use warren_fleet::types::Types;

/// What the objects of the cases name.
const HEAD: &str = "\
object CheckCommand \"d\" { command = [ \"/bin/true\" ] }
object EventCommand \"e\" { command = [ \"/bin/true\" ] }
object NotificationCommand \"n\" { command = [ \"/bin/true\" ] }
object Host \"h\" { check_command = \"d\" }
object Host \"h2\" { check_command = \"d\" }
object Service \"s\" { host_name = \"h\"; check_command = \"d\" }
object User \"u\" { }
object UserGroup \"ug\" { }
object HostGroup \"hg\" { }
object ServiceGroup \"sg\" { }
object TimePeriod \"tp\" { }
object Endpoint \"ep\" { }
object Zone \"z\" { endpoints = [\"ep\"] }
";

fn load(text: &str) -> Objects {
    let source = Source::new("case.conf", text.as_bytes());
    ours(source, &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

/// Whether an object of this type and given name is there.
fn find<'o>(objects: &'o Objects, of_type: &str, name: &str) -> Option<&'o Value> {
    let is_it = |key: &&String| {
        key.strip_prefix(of_type)
            .and_then(|rest| rest.strip_prefix(' '))
            .is_some_and(|full| full.rsplit('!').next() == Some(name))
    };
    objects.keys().find(is_it).map(|key| &objects[key])
}

#[test]
fn objects_are_taken_and_refused() {
    let mut wrong = Vec::new();
    let lines = include_str!("data/schema.txt").lines();
    for line in lines {
        let (expected, object) = line.split_once(' ').expect("takes or refuses");
        let (of_type, body) = object.trim().split_once(' ').expect("a type and a body");
        let text = format!("{HEAD}object {of_type} \"x\" ignore_on_error {body}\n");
        let is_there = find(&load(&text), of_type, "x").is_some();
        if is_there != (expected == "takes") {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Values of every kind.
const VALUES: [&str; 14] = [
    "\"x\"",
    "\"5\"",
    "5",
    "-1",
    "0",
    "\"\"",
    "true",
    "[]",
    "[ \"x\" ]",
    "[ 5 ]",
    "{}",
    "{ a = 1 }",
    "null",
    "\"$a\"",
];

/// The least that an object of a type needs. Types that look at the host, and those whose objects
/// the program refuses to forgive, are left out.
const LEAST: &[(&str, &str)] = &[
    ("ApiUser", ""),
    ("CheckResultReader", ""),
    ("CheckerComponent", ""),
    ("Comment", "host_name = \"h\"; author = \"a\"; text = \"t\""),
    ("CompatLogger", ""),
    ("Dependency", "child_host_name = \"h\"; parent_host_name = \"h2\""),
    (
        "Downtime",
        "host_name = \"h\"; author = \"a\"; comment = \"c\"; start_time = 5; end_time = 9",
    ),
    ("ElasticsearchWriter", ""),
    ("ExternalCommandListener", ""),
    ("FileLogger", "path = \"/dev/null\""),
    ("GraphiteWriter", ""),
    ("Host", "check_command = \"d\""),
    ("HostGroup", ""),
    ("InfluxdbWriter", ""),
    ("Influxdb2Writer", "organization = \"o\"; bucket = \"b\"; auth_token = \"t\""),
    ("LivestatusListener", ""),
    ("Notification", "host_name = \"h\"; command = \"n\"; users = [ \"u\" ]"),
    ("NotificationComponent", ""),
    ("PerfdataWriter", ""),
    (
        "ScheduledDowntime",
        "host_name = \"h\"; author = \"a\"; comment = \"c\"; ranges = { monday = \"00:00-24:00\" }",
    ),
    ("Service", "host_name = \"h\"; check_command = \"d\""),
    ("ServiceGroup", ""),
    ("StatusDataWriter", ""),
    ("SyslogLogger", ""),
    ("TimePeriod", ""),
    ("User", ""),
    ("UserGroup", ""),
    ("Zone", ""),
];

/// Attributes that name a service: the program finds out too late to forgive.
const LATE: [&str; 3] = ["service_name", "child_service_name", "parent_service_name"];

/// Each attribute of each type with each value; the type, the attribute and the name.
fn attributes() -> (String, Vec<(String, String, String)>) {
    let (mut text, mut names) = (HEAD.to_owned(), Vec::new());
    for of_type in icinga::types(Default::default()) {
        let Some((_, least)) = LEAST.iter().find(|(name, _)| *name == of_type.name) else {
            continue;
        };
        let is_common =
            |name: &str| ["__name", "name", "package", "templates", "type"].contains(&name);
        let fields = of_type.fields.iter().filter(|field| {
            !field.is_state && !is_common(&field.name) && !LATE.contains(&field.name.as_str())
        });
        for field in fields {
            for (number, value) in VALUES.iter().enumerate() {
                let name = format!("{}-{number}", field.name);
                writeln!(
                    text,
                    "object {} \"{name}\" ignore_on_error {{ {least}\n{} = {value} }}",
                    of_type.name, field.name
                )
                .expect("a string grows");
                names.push((of_type.name.clone(), field.name.clone(), name));
            }
        }
    }
    (text, names)
}

#[test]
fn attributes_take_the_same_values() {
    let (text, names) = attributes();
    let ours = load(&text);
    assert!(names.len() > 3000, "{} values", names.len());
    if !is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let scratch = Scratch::new("schema");
    let theirs =
        theirs(&scratch, Path::new("case.conf"), Some(&text)).expect("faults are forgiven");
    let mut wrong = Vec::new();
    for (of_type, attribute, name) in names {
        let value = |objects: &Objects| {
            Some(find(objects, &of_type, &name)?["properties"][&attribute].clone())
        };
        let (ours, theirs) = (value(&ours), value(&theirs));
        if ours != theirs {
            let number = name.rsplit('-').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(0);
            wrong.push(format!(
                "{of_type}.{attribute} = {}: ours {ours:?}, theirs {theirs:?}",
                VALUES[number]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// What a type extends, and what that does, up to `Object`; nothing of a type that is not there.
const CHAIN: &str = "\
globals.chain = function(name) {
  var names = []
  if (!globals.Types.contains(name)) { return names }
  var of_type = globals.Types[name]
  while (of_type) {
    names.add(of_type.name)
    of_type = of_type.base
  }
  return names
}
";

#[test]
fn types_extend_the_same_types() {
    let names: Vec<String> =
        icinga::types(Default::default()).into_iter().map(|of_type| of_type.name).collect();
    let mut text = HEAD.to_owned() + CHAIN;
    for name in &names {
        let host = "check_command = \"d\"; vars.chain = globals.chain";
        writeln!(text, "object Host \"x-{name}\" {{ {host}(\"{name}\") }}")
            .expect("a string grows");
    }
    let chain = |objects: &Objects, name: &str| {
        let host = find(objects, "Host", &format!("x-{name}")).expect("all are made");
        host["properties"]["vars"]["chain"].clone()
    };
    let ours = load(&text);
    let host = json!(["Host", "Checkable", "CustomVarObject", "ConfigObject", "Object"]);
    assert_eq!(chain(&ours, "Host"), host);
    assert_eq!(chain(&ours, "ApiUser"), json!(["ApiUser", "ConfigObject", "Object"]));
    if !is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let scratch = Scratch::new("bases");
    let theirs = theirs(&scratch, Path::new("case.conf"), Some(&text)).expect("it is taken");
    // Debian has some types in packages of their own.
    let there = names.iter().filter(|name| chain(&theirs, name) != json!([]));
    let wrong: Vec<_> = there.filter(|name| chain(&ours, name) != chain(&theirs, name)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

// Days and hours made up.

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

/// What days are written with.
const WORDS: [&str; 18] = [
    "monday",
    "sunday",
    "february",
    "december",
    "day",
    "1",
    "-1",
    "15",
    "2024-02-03",
    "2024-13-01",
    "-",
    "/",
    " ",
    " ",
    " - ",
    " / ",
    "x",
    "99",
];

/// What hours are written with.
const HOURS: [&str; 9] = ["09:00", "-", "17:00", ",", "24:00", ":30", "0", " ", "x"];

fn made_up(numbers: &mut Numbers, words: &[&str]) -> String {
    let count = 1 + numbers.below(7);
    (0..count).map(|_| words[numbers.below(words.len())]).collect()
}

#[test]
fn made_up_times_are_read_the_same() {
    let seed = std::env::var("FLEET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut numbers, mut text, mut all) = (Numbers(seed), HEAD.to_owned(), Vec::new());
    for number in 0..1500 {
        let (days, hours) = match number % 3 {
            0 => ("monday".to_owned(), made_up(&mut numbers, &HOURS)),
            _ => (made_up(&mut numbers, &WORDS), "09:00-17:00".to_owned()),
        };
        writeln!(
            text,
            "object TimePeriod \"x{number}\" ignore_on_error {{ ranges = {{ {} = {} }} }}",
            json!(days),
            json!(hours)
        )
        .expect("a string grows");
        all.push(format!("{days:?} = {hours:?}"));
    }
    let ours = load(&text);
    if !is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let scratch = Scratch::new("times");
    let theirs =
        theirs(&scratch, Path::new("case.conf"), Some(&text)).expect("faults are forgiven");
    let mut wrong = Vec::new();
    for (number, times) in all.iter().enumerate() {
        let is_there =
            |objects: &Objects| find(objects, "TimePeriod", &format!("x{number}")).is_some();
        if is_there(&ours) != is_there(&theirs) {
            wrong.push(format!("{times}: ours takes it: {}", is_there(&ours)));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// What newer versions have is not known to the version that is compared.
#[test]
fn newer_attributes_and_types_are_of_the_newer_version_alone() {
    let configuration = "object CheckCommand \"c\" { import \"ifw-api-check-command\"\n command = [ \"x\" ] }\n\
         object Host \"a\" { check_command = \"c\" }\n\
         object Host \"b\" { check_command = \"c\" }\n\
         object Dependency \"d\" { parent_host_name = \"a\"; child_host_name = \"b\"; redundancy_group = \"g\" }\n\
         object ElasticsearchWriter \"e\" { host_tags_template = { a = \"$host.name$\" } }\n\
         object JournaldLogger \"j\" { severity = \"notice\"; identifier = \"x\" }\n\
         object WindowsEventLogLogger \"w\" { severity = \"warning\" }\n\
         object OTLPMetricsWriter \"o\" { anything = 1 }\n";
    let faults = |version, text: &str| {
        let (types, modules) = (Types::new(icinga::types(version)), Modules::default());
        let before = icinga::before(version);
        let options = Options { before: Some(&before), ..Options::default() };
        let source = Source::new("t", text.as_bytes());
        let fleet = engine::load(source, &types, &modules, Box::new(Nothing::default()), &options);
        fleet.faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>()
    };
    assert_eq!(faults(icinga::Version::V2_16, configuration), [""; 0]);
    for line in
        configuration.lines().filter(|line| line.contains("ter \"") || line.contains("ger \""))
    {
        assert_ne!(faults(icinga::Version::V2_13, line), [""; 0], "{line}");
    }
    let wrong = "object JournaldLogger \"j\" { severity = \"loud\" }\n";
    assert_ne!(faults(icinga::Version::V2_16, wrong), [""; 0]);
}

/// Public report A44: each level of two parents doubles the ways to the top, not the work.
#[test]
fn dependencies_of_forty_levels_with_two_parents_each_are_loaded() {
    const LEVELS: usize = 40;
    let mut text = HEAD.to_owned();
    for level in 0..=LEVELS {
        for side in ["a", "b"] {
            let _ = writeln!(text, "object Host \"h{level}{side}\" {{ check_command = \"d\" }}");
            for parent in ["a", "b"].into_iter().filter(|_| level > 0) {
                let above = level - 1;
                let _ = writeln!(
                    text,
                    "object Dependency \"d{level}{side}{parent}\" {{ \
                     child_host_name = \"h{level}{side}\"; parent_host_name = \"h{above}{parent}\" }}"
                );
            }
        }
    }
    let objects = load(&text);
    let count = |of_type: &str| objects.keys().filter(|key| key.starts_with(of_type)).count();
    assert_eq!((count("Host "), count("Dependency ")), (2 + 2 * (LEVELS + 1), 4 * LEVELS));
}

/// Public report A44: not in a debug log alone.
#[test]
fn a_dependency_whose_parent_is_missing_is_an_error_with_its_place() {
    let rule = "apply Dependency \"up\" to Host {\n  parent_host_name = \"nowhere\"\n  \
                assign where host.name == \"h\"\n}\n";
    let source = Source::new("case.conf", format!("{HEAD}{rule}").as_bytes());
    let faults = ours(source, &[]).expect_err("its parent is missing");
    let line = HEAD.lines().count() + 2;
    for expected in
        ["Object 'nowhere' of type 'Host' does not exist", &format!("case.conf:{line}:")]
    {
        assert!(faults.contains(expected), "{faults}");
    }
}
