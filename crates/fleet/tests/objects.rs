//! Whole configurations, compared with the installed program's dump of objects.
//!
//! Each case of `tests/data/objects.txt` is a configuration of Icinga's types; the shipped template
//! library with the default configuration is one more. icinga2 checks them and writes the objects
//! file that `icinga2 object list` reads; ours must say the same of every attribute of every
//! object, set or not, and of the lines that set them, and both must refuse the same
//! configurations. What is known to differ is in [`without_known_differences`], with the reasons.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Objects, Scratch, is_installed, ours, theirs};
use serde_json::{Map, Value, json};
use warren_fleet::Source;

const HEAD: &str = "object CheckCommand \"d\" { command = [ \"/bin/true\" ] }\n";

fn cases() -> Vec<String> {
    let all = include_str!("data/objects.txt");
    all.split("\n---\n").map(|case| format!("{HEAD}{case}\n")).collect()
}

/// An object without what differs and may:
/// - functions of the library, types and times are shown by each in its own way;
/// - what is nowhere compared: objects of what is not installed (IDO, Icinga DB, certificates);
/// - what the program's own templates set is not known here (`execute`, `update`);
/// - membership by `assign where` is in `groups` here, and nowhere in their dump;
/// - an object that gave itself another name keeps the first as `name` there;
/// - the lines of the program's own templates; of variables, which are no attributes; and what is
///   set in loops, which only we know;
/// - times of creation.
fn without_known_differences(object: &Value) -> Value {
    let mut object = object.clone();
    let properties = object["properties"].as_object_mut().expect("objects have properties");
    for name in ["execute", "update", "entry_time", "name"] {
        properties.remove(name);
    }
    properties.values_mut().for_each(plain_functions);
    if let Some(groups) = properties.get_mut("groups") {
        *groups = Value::Null;
    }
    object["name"] = Value::Null;
    let mut places: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    places_of("", &object["debug_hints"], &mut places);
    places.retain(|path, _| !["/execute", "/update"].contains(&path.as_str()));
    object["debug_hints"] = json!(places);
    object
}

/// The places of each attribute and of all that is below it, by the keys that lead there.
fn places_of(path: &str, hints: &Value, out: &mut BTreeMap<String, Vec<Value>>) {
    const OWN: [&str; 3] = ["<icinga2>", "methods-itl.conf", "icinga-itl.conf"];
    let is_own = |message: &&Value| message[1].as_str().is_some_and(|path| OWN.contains(&path));
    let all = hints["messages"].as_array().into_iter().flatten();
    let mut messages: Vec<Value> = all.filter(|message| !is_own(message)).cloned().collect();
    messages.sort_by_key(Value::to_string);
    messages.dedup();
    if !messages.is_empty() {
        out.insert(path.to_owned(), messages);
    }
    for (key, hints) in hints["properties"].as_object().into_iter().flatten() {
        places_of(&format!("{path}/{key}"), hints, out);
    }
}

fn plain_functions(value: &mut Value) {
    let is_function = |map: &Map<String, Value>| {
        map.get("type") == Some(&json!("Function")) && map.contains_key("side_effect_free")
    };
    let is_of_library =
        |map: &Map<String, Value>| map["name"].as_str().is_some_and(|name| name.contains('#'));
    match value {
        Value::Object(map) if is_function(map) && is_of_library(map) => *value = json!("function"),
        Value::String(text) if text == "Object of type 'Function'" => *value = json!("function"),
        Value::Object(map) => map.values_mut().for_each(plain_functions),
        Value::Array(items) => items.iter_mut().for_each(plain_functions),
        _ => {}
    }
}

/// Names on one side only, and what differs of the others.
fn differences(case: &str, ours: &Objects, theirs: &Objects) -> Vec<String> {
    let mut out = Vec::new();
    let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>().join(", ");
    if names(ours) != names(theirs) {
        out.push(format!("{case}  ours   {}\n  theirs {}", names(ours), names(theirs)));
    }
    let has_loop = case.contains("for (i");
    for (name, object) in ours {
        let Some(other) = theirs.get(name) else { continue };
        let [one, two] = [object, other].map(without_known_differences);
        for (who, places) in [
            ("we", unknown_places(&one, &two)),
            ("they", if has_loop { Vec::new() } else { unknown_places(&two, &one) }),
        ] {
            out.extend(places.iter().map(|it| format!("{case}  {name}: {who} have not {it}")));
        }
        for (of, one, two) in
            [("", &one, &two), (".properties", &one["properties"], &two["properties"])]
        {
            let keys = one.as_object().into_iter().chain(two.as_object()).flat_map(Map::keys);
            for key in keys.filter(|key| !["properties", "debug_hints"].contains(&key.as_str())) {
                let (one, two) = (&one[key], &two[key]);
                if one != two {
                    out.push(format!(
                        "{case}  {name}{of}.{key}:\n    ours   {one}\n    theirs {two}"
                    ));
                }
            }
        }
    }
    out.dedup();
    out
}

/// Places that they know for an attribute, or a key in it, and we do not.
fn unknown_places(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (path, places) in theirs["debug_hints"].as_object().into_iter().flatten() {
        let attribute = path.split('/').nth(1).unwrap_or_default();
        let known = ours["debug_hints"][path].as_array().cloned().unwrap_or_default();
        let missing = places.as_array().into_iter().flatten().filter(|it| !known.contains(it));
        if ours["properties"].get(attribute).is_some() {
            out.extend(missing.map(|place| format!("{path} {place}")));
        }
    }
    out
}

#[test]
fn configurations_make_the_same_objects() {
    let scratch = Scratch::new("objects");
    let all: Vec<(String, Option<Objects>)> = cases()
        .into_iter()
        .map(|case| {
            let made = ours(Source::new("case.conf", case.as_bytes()), scratch.constants());
            (case, made.ok())
        })
        .collect();
    let accepted = all.iter().filter(|(_, made)| made.is_some()).count();
    assert!(accepted > 10 && accepted < all.len(), "{accepted} accepted");
    if !is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let mut wrong = Vec::new();
    for (case, ours) in all {
        match (ours, theirs(&scratch, Path::new("case.conf"), Some(&case))) {
            (None, None) => {}
            (Some(ours), Some(theirs)) => wrong.extend(differences(&case, &ours, &theirs)),
            (ours, theirs) => wrong.push(format!(
                "{case}  ours accepted: {}, theirs: {}",
                ours.is_some(),
                theirs.is_some()
            )),
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Objects in the files of a zone are in that zone, with what those files include.
#[test]
fn zones_are_directories() {
    if !is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let scratch = Scratch::new("zones");
    let main = format!(
        "{HEAD}object Zone \"master\" {{ }}\nobject Zone \"sat\" {{ parent = \"master\" }}\n\
         object Host \"none\" {{ check_command = \"d\" }}\ninclude_zones \"etc\", \"zones.d\"\n"
    );
    let host = |name: &str| format!("object Host \"{name}\" {{ check_command = \"d\" }}\n");
    let rule = "object User \"u\" { }\n\
                apply Service \"s\" { check_command = \"d\"; assign where true }\n";
    scratch.write("zones.d/master/a.conf", &format!("{}{rule}", host("m")));
    let other = "object Host \"other\" { check_command = \"d\"; zone = \"master\" }\n";
    let sat = format!("{}{other}include \"../../../nested.inc\"\n", host("s"));
    scratch.write("zones.d/sat/below/a.conf", &sat);
    scratch.write("zones.d/beside.conf", &host("beside"));
    scratch.write("zones.d/sat/other.inc", &host("no"));
    scratch.write("nested.inc", &host("nested"));
    let path = scratch.write("main.conf", &main);
    let theirs = theirs(&scratch, &path, None).expect("icinga2 takes it");
    let ours = ours(Source::new(&path.to_string_lossy(), main.as_bytes()), &[]);
    let ours = ours.unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(ours["Host nested"]["properties"]["zone"], "sat");
    let wrong = differences("", &ours, &theirs);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Attributes that several bodies have in common are in a file that they include.
#[test]
fn files_are_included_in_bodies() {
    if !is_installed() {
        warren_testkit::not_run("icinga2 is not installed");
        return;
    }
    let check = |name: &str, files: &[(&str, &str)], text: &str| {
        let scratch = Scratch::new(name);
        files.iter().for_each(|(path, text)| {
            scratch.write(path, text);
        });
        let text = format!("{HEAD}{text}");
        let path = scratch.write("main.conf", &text);
        let theirs = theirs(&scratch, &path, None);
        let ours = ours(Source::new(&path.to_string_lossy(), text.as_bytes()), &[]);
        match (ours, theirs) {
            (Ok(ours), Some(theirs)) => {
                let wrong = differences(&text, &ours, &theirs);
                assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
            }
            (Err(_), None) => {}
            (ours, theirs) => panic!("{text}\nours {ours:?}, theirs {}", theirs.is_some()),
        }
    };
    let host = "object Host \"h\" { check_command = \"d\"\n";
    let vars = ("in/vars.inc", "vars.a = name\nvar made = 2\nvars.l = keys(locals)\n");
    let rule = "apply Service \"s\" { check_command = \"d\"; var mine = 7\n include \"in/vars.inc\"\n \
                vars.made = made\n assign where true }\n";
    check("body-object", &[vars], &format!("{host} include \"in/vars.inc\" }}\n{rule}"));
    let each = "apply Service \"s\" for (k => v in { a = 1, b = 2 }) { check_command = \"d\"\n \
                include \"in/vars.inc\"\n assign where true }\n";
    check("body-for", &[vars], &format!("{host} }}\n{each}"));
    let below = ("in/below.inc", "vars.b = { include \"more.inc\" }\n");
    let more = ("in/more.inc", "c = 3\n");
    let template = "template Host \"t\" { include \"in/below.inc\" }\n";
    check("body-nested", &[below, more], &format!("{template}{host} import \"t\" }}\n"));
    check("body-missing", &[], &format!("{host} include \"in/vars.inc\" }}\n"));
    check("body-not-run", &[], &format!("{host} if (false) {{ include \"in/vars.inc\" }} }}\n"));
    let wrong = ("in/vars.inc", "vars.a = = 1\n");
    check("body-syntax", &[wrong], &format!("{host} include \"in/vars.inc\" }}\n"));
    let object = ("in/vars.inc", "object Host \"inner\" { check_command = \"d\" }\n");
    check("body-object-in", &[object], &format!("{host} include \"in/vars.inc\" }}\n"));
    let shared = ("in/vars.inc", "log(top)\nvar below = 2\n");
    let top = "var top = 1\ninclude \"in/vars.inc\"\nglobals.sum = top + below\n";
    check("top-variables", &[shared], &format!("{top}{host} vars.s = sum }}\n"));
}

/// The template library and the default configuration of the installed program.
#[test]
fn the_shipped_configuration_makes_the_same_objects() {
    let root = Path::new("/etc/icinga2/icinga2.conf");
    if !is_installed() || !root.exists() {
        warren_testkit::not_run("icinga2 and its default configuration are not installed");
        return;
    }
    let scratch = Scratch::new("shipped");
    let text = std::fs::read(root).expect("the default configuration can be read");
    let theirs = theirs(&scratch, root, None).expect("icinga2 takes its own configuration");
    let ours = ours(Source::new(&root.to_string_lossy(), &text), scratch.constants());
    let ours = ours.unwrap_or_else(|faults| panic!("{faults}"));
    assert!(ours.len() > 100, "{} objects", ours.len());
    let wrong = differences("", &ours, &theirs);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
