//! Each step is done twice: by `systemctl --root=` on a directory, and by our plan on a listing
//! of that directory; the links and the states of all units must be the same afterwards.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::*;
use crate::context::Scope;
use crate::parse::parse;
use crate::search::SYSTEM_PATH;
use warren_testkit::Scratch;

const VENDOR: &str = "usr/lib/systemd/system";

const UNITS: &[(&str, &str)] = &[
    (
        "a.service",
        "[Install]\nWantedBy=multi-user.target b.target\nAlias=al.service al2.service\nAlso=c.socket\n",
    ),
    ("c.socket", "[Install]\nWantedBy=sockets.target\nRequiredBy=q.target\n"),
    ("t@.service", "[Install]\nWantedBy=multi-user.target\nDefaultInstance=d\n"),
    ("u@.service", "[Install]\nWantedBy=multi-user.target\n"),
    ("v@.service", "[Install]\nWantedBy=w@.target x@y.target\nAlias=va@.service\n"),
    ("y@.service", "[Install]\nAlias=ya@.service yb@%i.service\nDefaultInstance=d\n"),
    (
        "z@.service",
        "[Install]\nWantedBy=multi-user.target w@.target\nAlias=za@.service\nAlso=u@.service\n",
    ),
    ("s.service", "[Service]\nExecStart=/x\n"),
    ("o.service", "[Install]\nWantedBy=multi-user.target\nAlso=vendors.service\n"),
    ("i.service", "[Install]\nAlso=a.service\n"),
    ("bad.service", "[Install]\nAlias=bad.socket foo@.service\nWantedBy=x\n"),
    ("sp-ec.service", "[Install]\nWantedBy=%p-%j.target\nAlias=%N-x.service\n"),
    ("mach.service", "[Install]\nWantedBy=of-%m.target\n"),
    ("percent.service", "[Install]\nWantedBy=%%i.target\n"),
    ("multi-user.target", "[Unit]\nDescription=x\n"),
    ("graphical.target", "[Install]\nAlias=default.target\n"),
];

const MACHINE_ID: &str = "0123456789abcdef0123456789abcdef";

const NAMES: &[&str] = &[
    "a.service",
    "al.service",
    "al2.service",
    "c.socket",
    "t@.service",
    "t@d.service",
    "t@q.service",
    "t@z.service",
    "u@.service",
    "v@.service",
    "v@k.service",
    "y@.service",
    "z@.service",
    "s.service",
    "o.service",
    "i.service",
    "sp-ec.service",
    "mach.service",
    "percent.service",
    "multi-user.target",
    "graphical.target",
    "default.target",
    "l.service",
    "none.service",
];

/// A root directory that goes away with it.
struct Root(Scratch);

impl Root {
    fn new(label: &str) -> Root {
        let root = Root(Scratch::new(&format!("install-{label}")));
        for directory in
            [VENDOR, "etc/systemd/system", "etc/systemd/system-preset", "run/systemd/system", "opt"]
        {
            fs::create_dir_all(root.0.join(directory)).expect("a directory can be made");
        }
        root.write("etc/machine-id", &format!("{MACHINE_ID}\n"));
        for (name, text) in UNITS {
            root.write(&format!("{VENDOR}/{name}"), text);
        }
        root.write(
            "opt/l.service",
            "[Service]\nExecStart=/x\n[Install]\nWantedBy=multi-user.target\n",
        );
        root
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.0.join(path), text).expect("a file can be written");
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree {
            search_path: SYSTEM_PATH.map(str::to_owned).to_vec(),
            persistent: "/etc/systemd/system".to_owned(),
            runtime: "/run/systemd/system".to_owned(),
            context: Arc::new(Context { machine_id: MACHINE_ID.into(), ..Context::system() }),
            nodes: BTreeMap::new(),
        };
        for top in ["etc", "run", "usr", "opt"] {
            self.list(&self.0.join(top), &mut tree);
        }
        tree
    }

    fn list(&self, directory: &Path, tree: &mut Tree) {
        for entry in fs::read_dir(directory).expect("a directory can be listed") {
            let entry = entry.expect("an entry can be read");
            let path = entry.path();
            let inside =
                format!("/{}", path.strip_prefix(&self.0).expect("below the root").display());
            let kind = entry.file_type().expect("a type is known");
            if kind.is_dir() {
                self.list(&path, tree);
            } else if kind.is_symlink() {
                let target = fs::read_link(&path).expect("a link can be read");
                tree.nodes.insert(inside, Node::Link(target.display().to_string()));
            } else if let Some(unit_type) = type_of_file(&inside) {
                let bytes = fs::read(&path).expect("a file can be read");
                let (file, _) = parse(inside.as_str().into(), &bytes, unit_type);
                tree.nodes.insert(inside, Node::File(Arc::new(file)));
            }
        }
    }

    fn systemctl(&self, arguments: &[&str]) -> Option<(bool, String)> {
        let mut command = Command::new("systemctl");
        command.arg(format!("--root={}", self.0.display())).args(arguments);
        let out = command.env("LC_ALL", "C").output().ok()?;
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        Some((out.status.success(), text))
    }

    /// Does one request both ways and compares everything.
    #[track_caller]
    fn step(&self, arguments: &[&str], plan: impl Fn(&Tree) -> Plan) {
        let before = self.tree();
        let plan = plan(&before);
        let (good, _) = self.systemctl(arguments).expect("systemctl was there before");
        let is_good = plan.errors.is_empty() && plan.left_out.is_empty();
        assert_eq!(is_good, good, "{arguments:?}: {:?} {:?}", plan.errors, plan.left_out);
        let is_done = plan.errors.is_empty();
        let ours = if is_done { before.after(&plan.changes) } else { before.clone() };
        let theirs = self.tree();
        let links = |tree: &Tree| -> Vec<String> {
            let links = tree.nodes.iter().filter_map(|(path, node)| match node {
                Node::Link(target) => Some(format!("{path} -> {target}")),
                Node::File(_) => None,
            });
            links.collect()
        };
        assert_eq!(links(&ours), links(&theirs), "{arguments:?}");
        for name in NAMES {
            let (_, state) =
                self.systemctl(&["is-enabled", name]).expect("systemctl was there before");
            let parsed = UnitName::parse(name).expect("a valid name");
            let ours = theirs.state(&parsed).map_or("", UnitFileState::as_str);
            assert_eq!(ours, state, "is-enabled {name} after {arguments:?}");
        }
    }
}

/// The type of the unit that a file or drop-in is of.
fn type_of_file(path: &str) -> Option<crate::UnitType> {
    let (directory, name) = path.rsplit_once('/')?;
    let of_dropin = || directory.strip_suffix(".d").filter(|_| name.ends_with(".conf"));
    let unit = UnitName::parse(name).ok().map(|name| name.unit_type());
    unit.or_else(|| crate::UnitType::from_suffix(of_dropin()?.rsplit(['.', '/']).next()?))
}

/// A root to compare on, or a loud word that there is no systemctl.
fn root(label: &str) -> Option<Root> {
    let root = Root::new(label);
    match root.systemctl(&["is-enabled", "a.service"]) {
        Some((_, state)) if state == "disabled" => Some(root),
        _ => {
            warren_testkit::not_run("systemctl --root= does not work here");
            None
        }
    }
}

const PERSISTENT: Options = Options { runtime: false, force: false };
const RUNTIME: Options = Options { runtime: true, force: false };

#[test]
fn enable_and_disable_as_systemctl_does() {
    let Some(root) = root("enable") else { return };
    for units in [
        &["a.service"][..],
        &["t@.service"],
        &["t@q.service"],
        &["t@.service", "t@q.service"],
        &["u@.service"],
        &["y@.service"],
        &["s.service"],
        &["i.service"],
        &["v@.service", "v@k.service"],
        &["bad.service"],
        &["none.service"],
        &["sp-ec.service"],
        &["mach.service"],
        &["percent.service"],
        &["graphical.target", "c.socket"],
    ] {
        for (options, flag) in [(PERSISTENT, None), (RUNTIME, Some("--runtime"))] {
            let arguments = |verb| -> Vec<&str> {
                flag.into_iter().chain([verb]).chain(units.iter().copied()).collect()
            };
            root.step(&arguments("enable"), |tree| tree.enable(units, options));
            root.step(&arguments("enable"), |tree| tree.enable(units, options));
            // systemd 252 re-enables an instance as its template; we keep the instance.
            if !units.contains(&"t@q.service") && !units.contains(&"v@k.service") {
                root.step(&arguments("reenable"), |tree| tree.reenable(units, options));
            }
            if units != ["none.service"] {
                root.step(&arguments("disable"), |tree| tree.disable(units, options));
            }
        }
    }
}

#[test]
fn an_alias_stands_for_its_unit_when_that_is_disabled() {
    let Some(root) = root("alias") else { return };
    let link = |target: &str, path: &str| {
        symlink(target, root.0.join(path)).expect("a link can be made");
    };
    link("/usr/lib/systemd/system/c.socket", &format!("{VENDOR}/vendors.socket"));
    link("/usr/lib/systemd/system/sp-ec.service", &format!("{VENDOR}/vendors.service"));
    for (unit, alias) in [
        ("a.service", "al.service"),
        ("c.socket", "vendors.socket"),
        ("vendors.socket", "vendors.socket"),
        // Of Also=.
        ("o.service", "o.service"),
        ("graphical.target", "default.target"),
    ] {
        root.step(&["enable", unit], |t| t.enable(&[unit], PERSISTENT));
        root.step(&["reenable", alias], |t| t.reenable(&[alias], PERSISTENT));
        root.step(&["disable", alias], |t| t.disable(&[alias], PERSISTENT));
        let tree = root.tree();
        let left = tree.nodes.keys().find(|path| path.starts_with("/etc/systemd/system/"));
        assert_eq!(left, None, "{unit} by {alias}");
    }
    root.step(&["disable", "vendors.socket"], |t| t.disable(&["vendors.socket"], PERSISTENT));
    // One that leads nowhere is all that there is of its unit.
    link("/usr/lib/systemd/system/gone.service", "etc/systemd/system/left.service");
    let plan = root.tree().disable(&["left.service"], PERSISTENT);
    assert_eq!((plan.errors.len(), plan.changes.len()), (0, 1));
}

#[test]
fn a_template_is_added_to_units_with_instances_only() {
    let Some(root) = root("template-wants") else { return };
    root.write(&format!("{VENDOR}/w@.target"), "[Unit]\nDescription=x\n");
    for target in ["multi-user.target", "w@.target", "w@1.target"] {
        for unit in ["t@.service", "u@.service", "u@1.service", "s.service"] {
            for suffix in ["wants", "requires"] {
                let verb = format!("add-{suffix}");
                root.step(&[&verb, target, unit], |t| {
                    t.add_dependency(target, &[unit], suffix, PERSISTENT)
                });
            }
        }
    }
}

#[test]
fn an_instance_may_be_a_link_to_its_template_which_is_one() {
    let Some(root) = root("linked-template") else { return };
    root.write("opt/k@.service", "[Install]\nWantedBy=multi-user.target\n");
    let etc = "etc/systemd/system";
    symlink("/opt/k@.service", root.0.join(etc).join("k@.service")).expect("a link");
    symlink(format!("/{etc}/k@.service"), root.0.join(etc).join("k@i.service")).expect("a link");
    let tree = root.tree();
    for name in ["k@i.service", "k@j.service"] {
        let ours = tree.state(&UnitName::parse(name).expect("a valid name"));
        let (_, theirs) = root.systemctl(&["is-enabled", name]).expect("it was there before");
        assert_eq!(ours.map(UnitFileState::as_str), Some(theirs.as_str()), "{name}");
    }
}

#[test]
fn masks_links_defaults_and_dependencies_as_systemctl_does() {
    let Some(root) = root("mask") else { return };
    let both = ["s.service", "none.service"];
    root.step(&["mask", both[0], both[1]], |t| t.mask(&both, PERSISTENT));
    root.step(&["mask", both[0]], |t| t.mask(&both[..1], PERSISTENT));
    root.step(&["enable", both[0]], |t| t.enable(&both[..1], PERSISTENT));
    root.step(&["unmask", both[0], both[1]], |t| t.unmask(&both, PERSISTENT));
    root.step(&["--runtime", "mask", both[0]], |t| t.mask(&both[..1], RUNTIME));
    root.step(&["unmask", both[0]], |t| t.unmask(&both[..1], PERSISTENT));
    root.step(&["--runtime", "unmask", both[0]], |t| t.unmask(&both[..1], RUNTIME));
    // An empty file is a mask too.
    root.write("etc/systemd/system/a.service", "");
    let full =
        |t: &Tree| t.preset(&["a.service"], &PresetRules::default(), PresetMode::Full, PERSISTENT);
    root.step(&["preset", "a.service"], full);
    root.step(&["unmask", "a.service"], |t| t.unmask(&["a.service"], PERSISTENT));
    assert!(!root.0.join("etc/systemd/system/a.service").exists());
    root.step(&["link", "/opt/l.service"], |t| t.link(&["/opt/l.service"], PERSISTENT));
    root.step(&["link", "/opt/none.service"], |t| t.link(&["/opt/none.service"], PERSISTENT));
    root.step(&["enable", "l.service"], |t| t.enable(&["l.service"], PERSISTENT));
    root.step(&["disable", "l.service"], |t| t.disable(&["l.service"], PERSISTENT));
    root.step(&["enable", "/opt/l.service"], |t| t.enable(&["/opt/l.service"], PERSISTENT));
    root.step(&["disable", "l.service"], |t| t.disable(&["l.service"], PERSISTENT));
    root.step(&["set-default", "multi-user.target"], |t| t.set_default("multi-user.target"));
    root.step(&["set-default", "graphical.target"], |t| t.set_default("graphical.target"));
    root.step(&["set-default", "nope.target"], |t| t.set_default("nope.target"));
    root.step(&["set-default", "s.service"], |t| t.set_default("s.service"));
    for masked in ["graphical.target", "default.target"] {
        let mask = root.0.join("etc/systemd/system").join(masked);
        let _ = fs::remove_file(&mask);
        symlink("/dev/null", &mask).expect("a link");
        let (_, theirs) = root.systemctl(&["get-default"]).expect("it was there before");
        assert_eq!(root.tree().default_target().map(|name| name.to_string()), Some(theirs));
        fs::remove_file(mask).expect("it was made");
    }
    let add = |suffix| {
        move |t: &Tree| t.add_dependency("multi-user.target", &["s.service"], suffix, PERSISTENT)
    };
    root.step(&["add-wants", "multi-user.target", "s.service"], add("wants"));
    root.step(&["add-requires", "multi-user.target", "s.service"], add("requires"));
    root.step(&["disable", "s.service"], |t| t.disable(&["s.service"], PERSISTENT));
}

/// Links of one directory, and what they lead to. `#` is different for each directory, and for files
/// with and without something to install.
const LINKS: &[(&str, &str)] = &[
    ("x.target.wants/wanted#.service", "/usr/lib/systemd/system/wanted#.service"),
    ("x.target.wants/hooked#@a.service", "/usr/lib/systemd/system/hooked#@.service"),
    ("other#.service", "/usr/lib/systemd/system/named#.service"),
    ("other#@.service", "/usr/lib/systemd/system/template#@.service"),
    ("template#@own.service", "/usr/lib/systemd/system/template#@.service"),
    ("linked#.service", "/opt/linked#.service"),
    ("linked#@.service", "/opt/linked#@.service"),
    ("masked#.service", "/dev/null"),
    ("masked#@.service", "/dev/null"),
    ("of-masked#.service", "/usr/lib/systemd/system/masked#.service"),
];

/// Files that they lead to or that they stand before, and one of the directory itself.
const FILES: &[&str] = &[
    "/usr/lib/systemd/system/wanted#.service",
    "/usr/lib/systemd/system/hooked#@.service",
    "/usr/lib/systemd/system/named#.service",
    "/usr/lib/systemd/system/template#@.service",
    "/opt/linked#.service",
    "/opt/linked#@.service",
    "/usr/lib/systemd/system/masked#.service",
    "/usr/lib/systemd/system/masked#@.service",
    "own#.service",
];

#[test]
fn states_are_systemctl_s_whichever_directory_a_link_is_in() {
    let Some(root) = root("states") else { return };
    // A link in the weakest one is behind its template; /lib is /usr/lib on most machines.
    let directories = SYSTEM_PATH.iter().filter(|directory| {
        !["/lib/systemd/system", "/run/systemd/generator.late"].contains(directory)
    });
    let installs = ["", "[Install]\nWantedBy=multi-user.target\n"];
    let mut names = Vec::new();
    for (index, directory) in directories.enumerate() {
        for (with, install) in installs.iter().enumerate() {
            let mark = format!("{index}x{with}");
            let path = |text: &str| {
                let text = text.replace('#', &mark);
                let text = if text.starts_with('/') { text } else { format!("{directory}/{text}") };
                let path = root.0.join(text.trim_start_matches('/'));
                fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
                path
            };
            for file in FILES {
                fs::write(path(file), format!("[Service]\nExecStart=/x\n{install}"))
                    .expect("a file can be written");
            }
            for (link, target) in LINKS {
                let made = symlink(target.replace('#', &mark), path(link));
                // In the directory of the files themselves there is no place for some.
                assert!(made.is_ok() || *directory == "/usr/lib/systemd/system", "{link}");
            }
            let last = |path: &str| plan::last_part(path).replace('#', &mark);
            let of_links = LINKS.iter().map(|(link, _)| last(link));
            let all: Vec<String> = FILES.iter().map(|file| last(file)).chain(of_links).collect();
            let new_instance =
                |name: &String| name.contains("@.").then(|| name.replace("@.", "@n."));
            names.extend(all.iter().filter_map(new_instance).collect::<Vec<_>>());
            names.extend(all);
        }
    }
    let arguments: Vec<&str> =
        std::iter::once("is-enabled").chain(names.iter().map(String::as_str)).collect();
    let (_, theirs) = root.systemctl(&arguments).expect("systemctl was there before");
    let tree = root.tree();
    let parsed = |name: &String| UnitName::parse(name).expect("a valid name");
    let state = |name| tree.state(&parsed(name)).map_or("", UnitFileState::as_str);
    // 252 calls an instance `static` that only a distribution's .wants has, whatever its template says.
    let is_odd = |name: &String, theirs: &str| name.contains("@a.") && theirs == "static";
    let wrong: Vec<String> = names
        .iter()
        .zip(theirs.lines())
        .filter(|(name, theirs)| state(name) != *theirs && !is_odd(name, theirs))
        .map(|(name, theirs)| format!("{name}: {} here, {theirs} there", state(name)))
        .collect();
    assert_eq!((wrong, theirs.lines().count()), (vec![], names.len()));
    for name in names.iter().filter(|name| name.contains("@n.")) {
        let template = parsed(name).template().expect("an instance has one");
        assert_eq!(tree.state_of_any_instance(&template), tree.state(&parsed(name)), "{name}");
    }
}

/// What `systemctl --global enable` makes counts for the manager of each user (252 says so with
/// `systemctl --user is-enabled` of the same files).
#[test]
fn users_have_enabled_what_is_enabled_for_all() {
    let file = Node::File(Arc::new(parse("a".into(), b"[Unit]\n", crate::UnitType::Service).0));
    let check = |directory: &str, want: UnitFileState| {
        let link = Node::Link("/usr/lib/systemd/user/a.service".to_owned());
        let tree = Tree {
            search_path: [
                "/h/.config/systemd/user",
                "/etc/systemd/user",
                "/r/systemd/user",
                "/r/systemd/generator",
                "/usr/lib/systemd/user",
            ]
            .map(str::to_owned)
            .to_vec(),
            persistent: "/h/.config/systemd/user".to_owned(),
            runtime: "/r/systemd/user".to_owned(),
            context: Arc::new(Context { scope: Scope::User, ..Context::system() }),
            nodes: BTreeMap::from([
                ("/usr/lib/systemd/user/a.service".to_owned(), file.clone()),
                (format!("{directory}/x.target.wants/a.service"), link),
            ]),
        };
        let name = UnitName::parse("a.service").expect("a valid name");
        assert_eq!(tree.state(&name), Some(want), "{directory}");
    };
    check("/h/.config/systemd/user", UnitFileState::Enabled);
    check("/etc/systemd/user", UnitFileState::Enabled);
    check("/r/systemd/user", UnitFileState::EnabledRuntime);
    check("/r/systemd/generator", UnitFileState::EnabledRuntime);
    check("/usr/lib/systemd/user", UnitFileState::Static);
}

#[test]
fn what_is_nowhere_is_said() {
    let root = Root::new("missing");
    let tree = root.tree();
    let said = [
        tree.enable(&["no.service"], PERSISTENT),
        tree.disable(&["no.service"], PERSISTENT),
        tree.preset(&["no.service"], &PresetRules::default(), PresetMode::Full, PERSISTENT),
        tree.add_dependency("multi-user.target", &["no.service"], "wants", PERSISTENT),
        tree.add_dependency("no.service", &["s.service"], "wants", PERSISTENT),
    ];
    for plan in said {
        assert_eq!(
            (plan.errors, plan.changes),
            (vec![PlanError::Missing { file: "no.service".to_owned() }], vec![])
        );
    }
    // What is left of a unit that was taken away goes all the same.
    let link = root.0.join("etc/systemd/system/multi-user.target.wants/no.service");
    std::fs::create_dir_all(link.parent().expect("it has one")).expect("it can be made");
    symlink("/usr/lib/systemd/system/no.service", link).expect("a link can be made");
    let plan = root.tree().disable(&["no.service"], PERSISTENT);
    assert_eq!((plan.errors.len(), plan.changes.len()), (0, 1));
}

/// The other links are made all the same.
#[test]
fn what_is_in_the_way_is_kept() {
    let root = Root::new("conflict");
    let link = root.0.join("etc/systemd/system/al.service");
    symlink("/usr/lib/systemd/system/s.service", link).expect("a link can be made");
    let plan = root.tree().enable(&["a.service"], PERSISTENT);
    let [path, target] =
        ["/etc/systemd/system/al.service", "/usr/lib/systemd/system/s.service"].map(str::to_owned);
    let error = PlanError::InTheWay { path: path.clone(), target: Some(target.clone()) };
    assert_eq!(
        error.to_string(),
        format!("File {path} already exists and is a symlink to {target}.")
    );
    assert_eq!(plan.left_out, [error]);
    let force = Options { force: true, ..PERSISTENT };
    let forced = root.tree().enable(&["a.service"], force);
    assert_eq!((forced.errors.len(), forced.changes.len()), (0, 6));
}

/// In a directory of dependencies the name says all; of an alias a link to the same name in another directory of
/// units is that link.
#[test]
fn links_that_lead_elsewhere_are_replaced_as_systemctl_does() {
    let elsewhere = [
        "/lib/systemd/system/a.service",
        "/run/systemd/system/a.service",
        "/usr/lib/systemd/system/multi-user.target.wants/a.service",
        "/lib/systemd/user/a.service",
        "/opt/a.service",
        "/usr/lib/systemd/system/b.service",
        "/dev/null",
    ];
    for (at, target) in elsewhere.into_iter().enumerate() {
        for force in [false, true] {
            let Some(root) = root(&format!("elsewhere-{at}-{force}")) else { return };
            let lines = "[Install]\nAlias=moved.service\nWantedBy=multi-user.target\n";
            root.write(&format!("{VENDOR}/a.service"), lines);
            root.write(&format!("{VENDOR}/b.service"), "");
            for link in ["moved.service", "multi-user.target.wants/a.service"] {
                let link = root.0.join("etc/systemd/system").join(link);
                std::fs::create_dir_all(link.parent().expect("it has one"))
                    .expect("it can be made");
                symlink(target, link).expect("a link can be made");
            }
            let options = Options { force, ..PERSISTENT };
            let args: &[&str] = match force {
                true => &["enable", "--force", "a.service"],
                false => &["enable", "a.service"],
            };
            root.step(args, |t| t.enable(&["a.service"], options));
        }
    }
}

#[test]
fn presets_as_systemctl_does() {
    let Some(root) = root("preset") else { return };
    let text = "enable a.service\nenable t@.service p q\nenable u@.service\nenable v@.service\nenable z@.service\ndisable *\n";
    root.write("etc/systemd/system-preset/10.preset", text);
    let (rules, bad) = PresetRules::parse([text]);
    assert_eq!(bad, Vec::<String>::new());
    let preset = |units: &'static [&'static str], mode| {
        let rules = &rules;
        move |t: &Tree| t.preset(units, rules, mode, PERSISTENT)
    };
    root.step(&["enable", "sp-ec.service"], |t| t.enable(&["sp-ec.service"], PERSISTENT));
    root.step(
        &["preset", "a.service", "sp-ec.service"],
        preset(&["a.service", "sp-ec.service"], PresetMode::Full),
    );
    root.step(&["disable", "a.service"], |t| t.disable(&["a.service"], PERSISTENT));
    root.step(&["preset", "t@.service"], preset(&["t@.service"], PresetMode::Full));
    root.step(
        &["preset", "--preset-mode=disable-only", "a.service"],
        preset(&["a.service"], PresetMode::DisableOnly),
    );
    root.step(&["preset", "s.service"], preset(&["s.service"], PresetMode::Full));
    root.step(&["preset", "v@.service"], preset(&["v@.service"], PresetMode::Full));
    // What needs an instance is left out.
    root.step(&["preset", "z@.service"], preset(&["z@.service"], PresetMode::Full));
    root.step(
        &["preset", "u@.service", "sp-ec.service"],
        preset(&["u@.service", "sp-ec.service"], PresetMode::Full),
    );
    // Of a template those instances that the policy lists.
    root.step(&["enable", "t@p.service"], |t| t.enable(&["t@p.service"], PERSISTENT));
    root.step(&["enable", "t@z.service"], |t| t.enable(&["t@z.service"], PERSISTENT));
    root.step(&["preset", "t@p.service"], preset(&["t@p.service"], PresetMode::Full));
    root.step(&["preset", "t@z.service"], preset(&["t@z.service"], PresetMode::Full));
    root.step(&["preset-all"], |t| t.preset_all(&rules, PresetMode::Full, PERSISTENT));
}

#[test]
fn a_unit_is_generated_by_where_it_lies_and_not_by_its_name() {
    for (directory, want) in [
        ("/run/systemd/generator", UnitFileState::Generated),
        ("/run/systemd/generator.late", UnitFileState::Generated),
        ("/run/systemd/transient", UnitFileState::Transient),
        ("/etc/systemd/system", UnitFileState::Static),
        ("/srv/transient/generators", UnitFileState::Static),
    ] {
        let name = UnitName::parse("generator-power.service").expect("a valid name");
        let file = parse("a".into(), b"[Unit]\n", crate::UnitType::Service).0;
        let tree = Tree {
            search_path: vec![directory.to_owned()],
            nodes: BTreeMap::from([(format!("{directory}/{name}"), Node::File(Arc::new(file)))]),
            ..tree_of(std::iter::empty())
        };
        assert_eq!(tree.state(&name), Some(want), "{directory}");
    }
}

#[test]
fn drop_ins_add_to_what_is_installed_and_empty_assignments_drop_it() {
    let Some(root) = root("dropins") else { return };
    let etc = "etc/systemd/system";
    let dropins = [
        (format!("{VENDOR}/s.service.d/x.conf"), "[Install]\nWantedBy=b.target\n"),
        (format!("{VENDOR}/a.service.d/x.conf"), "[Install]\nWantedBy=hidden.target\n"),
        (format!("{etc}/a.service.d/x.conf"), "[Install]\nWantedBy=\nAlias=\nAlso=\n"),
        (format!("{etc}/a.service.d/y.conf"), "[Install]\nRequiredBy=own.target\n"),
        (format!("{VENDOR}/t@.service.d/x.conf"), "[Install]\nDefaultInstance=z\n"),
        (format!("{VENDOR}/t@q.service.d/x.conf"), "[Install]\nWantedBy=q.target\n"),
        (format!("{etc}/c.socket.d/x.conf"), "[Install]\nWantedBy=\nRequiredBy=\n"),
        // Neither a type's nor a prefix's count.
        (format!("{VENDOR}/service.d/x.conf"), "[Install]\nWantedBy=type.target\n"),
        (format!("{VENDOR}/sp-.service.d/x.conf"), "[Install]\nWantedBy=prefix.target\n"),
    ];
    for (path, text) in &dropins {
        let directory = root.0.join(path);
        fs::create_dir_all(directory.parent().expect("it is below")).expect("mkdir");
        root.write(path, text);
    }
    for unit in ["s.service", "a.service", "t@.service", "t@q.service", "c.socket", "sp-ec.service"]
    {
        root.step(&["enable", unit], |t| t.enable(&[unit], PERSISTENT));
    }
    root.step(&["disable", "a.service"], |t| t.disable(&["a.service"], PERSISTENT));
}

#[test]
fn of_two_units_with_one_alias_the_second_stands_back() {
    let Some(root) = root("one-alias") else { return };
    for unit in ["e1.service", "e2.service"] {
        root.write(&format!("{VENDOR}/{unit}"), "[Install]\nAlias=one.service\n");
    }
    let both = root.tree().enable(&["e1.service", "e2.service"], PERSISTENT);
    let [path, target] = ["/etc/systemd/system/one.service", "/usr/lib/systemd/system/e1.service"]
        .map(str::to_owned);
    assert_eq!(both.left_out, [PlanError::InTheWay { path, target: Some(target) }]);
    let forced = Options { force: true, ..PERSISTENT };
    let both = ["e1.service", "e2.service"];
    root.step(&["enable", "--force", "e1.service", "e2.service"], |t| t.enable(&both, forced));
    root.step(&["disable", "e1.service", "e2.service"], |t| t.disable(&both, PERSISTENT));
    // All the others are done.
    let plan = root.tree().preset_all(&PresetRules::default(), PresetMode::Full, PERSISTENT);
    assert!(plan.errors.is_empty());
    assert!(plan.left_out.iter().any(|error| error.to_string().contains("e1.service")));
    let makes = |part: &str| {
        plan.changes
            .iter()
            .any(|c| matches!(c, Change::Symlink { path, .. } if path.contains(part)))
    };
    assert!(makes("one.service") && makes("/c.socket") && makes("default.target"), "{plan:?}");
}

#[test]
fn what_cannot_be_done_keeps_nothing_else_from_being_done() {
    let Some(root) = root("left-out") else { return };
    let etc = "etc/systemd/system";
    for unit in ["e1", "e2", "e3"] {
        let text = "[Install]\nWantedBy=multi-user.target\nAlias=one.service\n";
        root.write(&format!("{VENDOR}/{unit}.service"), text);
    }
    for (unit, install) in [
        ("over", "Alias=taken.service\nWantedBy=q.target"),
        ("kind", "Alias=other.socket\nWantedBy=q.target"),
        ("name", "WantedBy=q.target bad/name multi-user.target"),
    ] {
        root.write(&format!("{VENDOR}/{unit}.service"), &format!("[Install]\n{install}\n"));
    }
    root.write(&format!("{etc}/taken.service"), "[Service]\n");
    root.write("opt/taken.service", "[Service]\n");
    root.write("opt/r.service", "[Service]\n");
    let step = |arguments: &[&str]| {
        let (verb, names) = arguments.split_first().expect("a verb");
        root.step(arguments, |tree| match *verb {
            "enable" => tree.enable(names, PERSISTENT),
            "reenable" => tree.reenable(names, PERSISTENT),
            "mask" => tree.mask(names, PERSISTENT),
            "link" => tree.link(names, PERSISTENT),
            "preset" => tree.preset(names, &PresetRules::default(), PresetMode::Full, PERSISTENT),
            _ => tree.add_dependency(names[0], &names[1..], "wants", PERSISTENT),
        });
    };
    step(&["enable", "e1.service"]);
    for arguments in [
        &["enable", "e2.service"][..],
        &["preset", "e3.service"],
        &["enable", "over.service"],
        &["enable", "kind.service"],
        &["enable", "name.service"],
        &["enable", "mach.service", "u@.service", "sp-ec.service"],
        &["reenable", "mach.service", "e2.service", "graphical.target"],
        &["enable", "/opt/l.service", "/opt/taken.service", "c.socket"],
        &["link", "/opt/taken.service", "/opt/r.service"],
        &["add-wants", "multi-user.target", "u@.service", "s.service"],
        &["mask", "r.service", "taken.service", "t@.service"],
        // Who asks for what is not there, or must not be, has nothing done.
        &["enable", "a.service", "none.service"],
        &["enable", "a.service", "t@.service"],
        &["preset", "a.service", "none.service"],
        &["link", "/opt/none.service", "/opt/l.service"],
        &["add-wants", "multi-user.target", "a.service", "none.service"],
    ] {
        step(arguments);
    }
}

#[test]
fn a_link_by_hand_is_no_name_to_enable_a_unit_by() {
    let Some(root) = root("by-hand") else { return };
    let etc = "etc/systemd/system";
    let link = |target: &str, path: &str| {
        symlink(target, root.0.join(path)).expect("a link can be made");
    };
    root.write(&format!("{etc}/own.service"), "[Install]\nWantedBy=multi-user.target\n");
    root.write(&format!("{VENDOR}/same.service"), "[Install]\nWantedBy=multi-user.target\n");
    root.write(
        &format!("{VENDOR}/b.service"),
        "[Install]\nWantedBy=multi-user.target\nAlso=by.service\n",
    );
    for (name, target) in [
        ("by.service", "sp-ec.service"),
        ("by@.service", "t@.service"),
        ("by@j.service", "t@.service"),
        ("same.service", "same.service"),
        ("t@j.service", "t@.service"),
        ("by.target", "multi-user.target"),
    ] {
        link(&format!("/{VENDOR}/{target}"), &format!("{etc}/{name}"));
    }
    link(&format!("/{etc}/own.service"), &format!("{etc}/by-own.service"));
    link(&format!("/{VENDOR}/percent.service"), "run/systemd/system/by-run.service");
    link(&format!("/{VENDOR}/i.service"), &format!("{VENDOR}/vendors.service"));
    link(&format!("/{etc}/by.service"), &format!("{VENDOR}/far.service"));
    link("/opt/l.service", &format!("{etc}/l.service"));
    let names = [
        "by", "by@k", "by@", "by@j", "same", "by-own", "by-run", "far", "vendors", "t@j", "l", "b",
    ];
    for name in names {
        let name = &*format!("{name}.service");
        root.step(&["enable", name], |tree| tree.enable(&[name], PERSISTENT));
    }
    let forced = Options { force: true, ..RUNTIME };
    for name in ["by", "by-run", "vendors"] {
        let name = &*format!("{name}.service");
        root.step(&["enable", "--runtime", "--force", name], |tree| tree.enable(&[name], forced));
    }
    root.step(&["set-default", "by.target"], |tree| tree.set_default("by.target"));
    root.step(&["reenable", "by.service"], |tree| tree.reenable(&["by.service"], PERSISTENT));
    root.step(&["disable", "by-own.service"], |tree| tree.disable(&["by-own.service"], PERSISTENT));
}

/// A tree of these files without a directory.
fn tree_of(files: impl Iterator<Item = (String, String)>) -> Tree {
    let node = |(name, text): (String, String)| {
        let path = format!("/{VENDOR}/{name}");
        let file = parse(path.as_str().into(), text.as_bytes(), crate::UnitType::Service).0;
        (path, Node::File(Arc::new(file)))
    };
    Tree {
        search_path: SYSTEM_PATH.map(str::to_owned).to_vec(),
        persistent: "/etc/systemd/system".to_owned(),
        runtime: "/run/systemd/system".to_owned(),
        context: Arc::new(Context::system()),
        nodes: files.map(node).collect(),
    }
}

#[test]
fn all_units_that_are_asked_for_are_done_and_only_what_also_drags_along_is_bounded() {
    let count = 2 * ALSO_MAX;
    let install = "[Install]\nWantedBy=multi-user.target\n";
    let name = |at: usize| format!("n{at}.service");
    let tree = tree_of((0..count).map(|at| (name(at), install.to_owned())));
    let names: Vec<String> = (0..count).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let enabled = tree.enable(&names, PERSISTENT);
    assert_eq!((enabled.changes.len(), enabled.errors.len()), (count, 0));
    let preset = tree.preset_all(&PresetRules::default(), PresetMode::Full, PERSISTENT);
    assert_eq!((preset.changes.len(), preset.errors.len()), (count, 0));
    let after = tree.after(&enabled.changes);
    let disabled = after.disable(&names, PERSISTENT);
    assert_eq!((disabled.changes.len(), disabled.errors.len()), (count, 0));
    // Each drags the next along.
    let next = |at: usize| format!("{install}Also={}\n", name((at + 1) % count));
    let chain = tree_of((0..count).map(|at| (name(at), next(at))));
    for plan in
        [chain.enable(&["n0.service"], PERSISTENT), chain.disable(&["n0.service"], PERSISTENT)]
    {
        assert!(
            plan.errors.iter().any(|error| error.to_string().contains("Also=")),
            "{:?}",
            plan.errors
        );
    }
    assert_eq!(chain.enable(&names, PERSISTENT).errors, []);
    assert_eq!(chain.disable(&names, PERSISTENT).errors, []);
}

#[test]
fn what_is_passed_over_is_said_as_systemctl_does() {
    let Some(root) = root("remarks") else { return };
    let install = "[Install]\nWantedBy=multi-uesr.target\nAlso=nosuch.service masked.service\n";
    root.write("etc/systemd/system/x.service", install);
    symlink("/dev/null", root.0.join("etc/systemd/system/masked.service")).expect("a mask");
    let ours = root.tree().enable(&["x.service"], PERSISTENT);
    let mut command = Command::new("systemctl");
    command.arg(format!("--root={}", root.0.display())).args(["enable", "x.service"]);
    let said = command.env("LC_ALL", "C").output().expect("systemctl was there before").stderr;
    let said = String::from_utf8_lossy(&said).replace(&*root.0.to_string_lossy(), "");
    assert_eq!(ours.remarks.len(), 3);
    for remark in &ours.remarks {
        assert!(said.lines().any(|line| line == remark.to_string()), "{remark}: {said}");
    }
}

#[test]
fn reverting_removes_the_administrators_files() {
    let file = |path: &str| {
        Node::File(Arc::new(parse(path.into(), b"[Unit]\n", crate::UnitType::Service).0))
    };
    let paths = [
        "/etc/systemd/system/a.service",
        "/etc/systemd/system/a.service.d/x.conf",
        "/etc/systemd/system/b.service",
        "/run/systemd/system/a.service.d/y.conf",
        "/usr/lib/systemd/system/a.service",
    ];
    let mut nodes: BTreeMap<String, Node> = paths.map(|p| (p.to_owned(), file(p))).into();
    nodes.insert("/etc/systemd/system/c.service".to_owned(), Node::Link("/dev/null".to_owned()));
    let tree = Tree {
        search_path: SYSTEM_PATH.map(str::to_owned).to_vec(),
        persistent: "/etc/systemd/system".to_owned(),
        runtime: "/run/systemd/system".to_owned(),
        context: Arc::new(Context::system()),
        nodes,
    };
    let after = tree.after(&tree.revert(&["a.service", "b.service", "c.service"]).changes);
    let left: Vec<&String> = after.nodes.keys().collect();
    assert_eq!(left, ["/etc/systemd/system/b.service", "/usr/lib/systemd/system/a.service"]);
}
