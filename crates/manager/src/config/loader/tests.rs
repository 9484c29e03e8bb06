//! What links in the unit directories make, as the installed systemd 252 makes it of the same
//! directories (asked by `systemctl show`).

use std::fs;
use std::os::unix::fs::symlink;

use warren_core::graph::Edge;
use warren_unit::install::PresetRules;
use warren_unit::{Defaults, Relation, UnitType};

use super::*;
use crate::base::scratch::Scratch;
use crate::config::changed_on_disk::OnDisk;
use crate::config::snapshot::Entry;

/// `etc` and `usr` are searched, `opt` is not.
const FILES: [&str; 3] = ["usr/in.service", "usr/t@.service", "opt/out.service"];

const LINKS: [(&str, &str); 11] = [
    ("etc/ta@.service", "../usr/t@.service"),
    ("etc/alias.service", "../usr/in.service"),
    ("etc/same-name/../out.service", "../opt/out.service"),
    ("etc/other-name.service", "../opt/out.service"),
    ("etc/gone.service", "../opt/gone.service"),
    // To the name of a unit, but not in a directory where that unit is.
    ("etc/elsewhere.service", "../opt/in.service"),
    ("etc/t@x.service", "../usr/t@.service"),
    ("etc/masked.service", "/dev/null"),
    ("etc/wrong-type.socket", "../usr/in.service"),
    ("etc/chain.service", "alias.service"),
    ("etc/late.service", "../opt/late.service"),
];

/// Name, main name, load state, path of the fragment.
const MADE: [(&str, &str, LoadState, &str); 10] = [
    ("ta@w.service", "t@w.service", LoadState::Loaded, "usr/t@.service"),
    ("alias.service", "in.service", LoadState::Loaded, "usr/in.service"),
    ("chain.service", "in.service", LoadState::Loaded, "usr/in.service"),
    ("out.service", "out.service", LoadState::Loaded, "etc/out.service"),
    ("other-name.service", "other-name.service", LoadState::Loaded, "etc/other-name.service"),
    ("gone.service", "gone.service", LoadState::NotFound, ""),
    ("elsewhere.service", "elsewhere.service", LoadState::NotFound, ""),
    ("t@x.service", "t@x.service", LoadState::Loaded, "usr/t@.service"),
    ("masked.service", "masked.service", LoadState::Masked, ""),
    ("late.service", "late.service", LoadState::NotFound, ""),
];

#[track_caller]
fn check(graph: &Graph, scratch: &Scratch, made: &(&str, &str, LoadState, &str)) {
    let (name, main, load_state, path) = made;
    let parsed = UnitName::parse(name).expect("a valid name");
    let Some(unit) = graph.lookup(&parsed) else {
        // Nothing refers to it: it is not kept.
        return assert_eq!(*load_state, LoadState::NotFound, "{name}");
    };
    let definition = graph.definition(unit);
    let fragment = definition.files.fragment.as_ref().map(|file| file.path().to_string());
    let below = fragment.as_deref().unwrap_or_default();
    let below = below.strip_prefix(&format!("{}/", scratch.0.display())).unwrap_or(below);
    let got = (definition.name.as_str(), &definition.load_state, below);
    assert_eq!(got, (*main, load_state, *path), "{name}");
}

#[test]
fn links_are_aliases_inside_and_units_of_their_own_outside() {
    let scratch = Scratch::new("links");
    let text = "[Service]\nExecStart=/bin/true\n";
    for directory in ["etc/same-name", "usr", "opt"] {
        fs::create_dir_all(scratch.0.join(directory)).expect("a directory");
    }
    for file in FILES {
        fs::write(scratch.0.join(file), text).expect("a file");
    }
    for (path, target) in LINKS {
        symlink(target, scratch.0.join(path)).expect("a link");
    }
    let settings =
        Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) };
    let paths = ["etc", "usr"].map(|name| scratch.0.join(name)).to_vec();
    let mut loader = Loader::new(paths, settings, None, FoundMounts::default());
    let Loading { mut graph, .. } = loader.load_all(&Arc::new(Graph::default()));
    for (name, ..) in MADE {
        let name = UnitName::parse(name).expect("a valid name");
        graph = loader.load_one(&graph, &name).graph;
    }
    MADE.iter().for_each(|made| check(&graph, &scratch, made));
    // What a link leads to may come later, in a directory that nobody watches.
    fs::write(scratch.0.join("opt/late.service"), text).expect("a file");
    // Instances have the names that their template has.
    symlink("../usr/t@.service", scratch.0.join("etc/tb@.service")).expect("a link");
    loader.look(false);
    let graph = loader.reload(&graph, false).graph;
    for also in ["ta@w.service", "tb@w.service"] {
        check(&graph, &scratch, &(also, "t@w.service", LoadState::Loaded, "usr/t@.service"));
    }
    check(
        &graph,
        &scratch,
        &("late.service", "late.service", LoadState::Loaded, "etc/late.service"),
    );
}

/// As those of update-alternatives(1).
#[test]
fn a_link_that_leads_back_in_by_another_name_is_a_unit_of_its_own() {
    let scratch = Scratch::new("links-back");
    for directory in ["etc", "usr", "alternatives"] {
        fs::create_dir(scratch.0.join(directory)).expect("a directory");
    }
    for file in ["usr/foo-a.service", "usr/foo-b.service", "usr/same.service", "usr/t@.service"] {
        let text = format!("[Unit]\nDescription={file}\n[Service]\nExecStart=/bin/true\n");
        fs::write(scratch.0.join(file), text).expect("a file");
    }
    let link = |path: &str, target: &str| {
        let _ = fs::remove_file(scratch.0.join(path));
        symlink(target, scratch.0.join(path)).expect("a link");
    };
    for (name, file) in [
        ("foo.service", "foo-a.service"),
        ("same.service", "same.service"),
        ("t@x.service", "t@.service"),
    ] {
        let hop = if name == "t@x.service" { "t@.service" } else { name };
        link(&format!("etc/{name}"), &format!("../alternatives/{hop}"));
        link(&format!("alternatives/{hop}"), &format!("../usr/{file}"));
    }
    let settings =
        Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) };
    let paths = || ["etc", "usr"].map(|name| scratch.0.join(name)).to_vec();
    let mut loader = Loader::new(paths(), settings.clone(), None, FoundMounts::default());
    let Loading { graph, .. } = loader.load_all(&Arc::new(Graph::default()));
    let foo = ("foo.service", "foo.service", LoadState::Loaded, "etc/foo.service");
    check(&graph, &scratch, &foo);
    check(
        &graph,
        &scratch,
        &("same.service", "same.service", LoadState::Loaded, "etc/same.service"),
    );
    let graph = loader.load_one(&graph, &name("t@x.service")).graph;
    check(&graph, &scratch, &("t@x.service", "t@x.service", LoadState::Loaded, "etc/t@x.service"));
    // What leads back elsewhere is seen, as a fresh look sees it.
    link("alternatives/foo.service", "../usr/foo-b.service");
    loader.look(false);
    let graph = loader.reload(&graph, false).graph;
    let mut fresh = Loader::new(paths(), settings, None, FoundMounts::default());
    let fresh = fresh.load_all(&Arc::new(Graph::default())).graph;
    for graph in [&graph, &fresh] {
        check(graph, &scratch, &foo);
        let unit = graph.lookup(&name("foo.service")).expect("it is there");
        assert_eq!(&*graph.definition(unit).description, "usr/foo-b.service");
    }
}

/// 252 takes the next entry of that name, whatever that is; of an instance that leads to its template, the
/// template's.
#[test]
fn a_link_to_its_own_name_elsewhere_stands_for_what_is_there() {
    let scratch = Scratch::new("same-name");
    let text = "[Service]\nExecStart=/bin/true";
    let mut loader = loader_of(
        &scratch,
        &[
            ("opt/out.service", text),
            ("usr/out.service", "-> ../opt/out.service"),
            ("etc/out.service", "-> ../usr/out.service"),
            ("usr/main.service", text),
            ("usr/alias.service", "-> main.service"),
            ("etc/alias.service", "-> ../usr/alias.service"),
            ("usr/masked.service", "-> /dev/null"),
            ("etc/masked.service", "-> ../usr/masked.service"),
            ("usr/gone.service", "-> ../opt/gone.service"),
            ("etc/gone.service", "-> ../usr/gone.service"),
            ("usr/circle.service", "-> ../etc/circle.service"),
            ("etc/circle.service", "-> ../usr/circle.service"),
            ("usr/no-file.service/x", ""),
            ("etc/no-file.service", "-> ../usr/no-file.service"),
            ("opt/t@.service", text),
            ("etc/t@.service", "-> ../opt/t@.service"),
            ("etc/t@i.service", "-> t@.service"),
            ("usr/u@.service", text),
            ("usr/u@i.service", text),
            ("etc/u@i.service", "-> ../usr/u@.service"),
            ("etc/u@j.service", "-> ../usr/u@j.service"),
            ("usr/v@.service", "-> u@.service"),
            ("etc/v@.service", "-> ../usr/v@.service"),
        ],
    );
    let mut graph = loader.load_all(&Arc::new(Graph::default())).graph;
    for made in [
        ("out.service", "out.service", LoadState::Loaded, "usr/out.service"),
        ("alias.service", "main.service", LoadState::Loaded, "usr/main.service"),
        ("masked.service", "masked.service", LoadState::Masked, ""),
        ("gone.service", "gone.service", LoadState::NotFound, ""),
        ("circle.service", "circle.service", LoadState::NotFound, ""),
        ("no-file.service", "no-file.service", LoadState::NotFound, ""),
        ("t@i.service", "t@i.service", LoadState::Loaded, "etc/t@.service"),
        ("u@i.service", "u@i.service", LoadState::Loaded, "usr/u@.service"),
        ("u@j.service", "u@j.service", LoadState::Loaded, "usr/u@.service"),
        ("v@k.service", "u@k.service", LoadState::Loaded, "usr/u@.service"),
    ] {
        graph = loader.load_one(&graph, &name(made.0)).graph;
        check(&graph, &scratch, &made);
    }
}

/// 252 passes over them.
#[test]
fn what_is_no_file_hides_none_in_a_weaker_directory() {
    let scratch = Scratch::new("no-files");
    for directory in ["etc/a.service", "etc/t@x.service", "etc/only.service", "usr"] {
        fs::create_dir_all(scratch.0.join(directory)).expect("a directory");
    }
    for file in ["usr/a.service", "usr/t@.service"] {
        fs::write(scratch.0.join(file), "[Service]\nExecStart=/bin/true\n").expect("a file");
    }
    let settings =
        Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) };
    let paths = ["etc", "usr"].map(|name| scratch.0.join(name)).to_vec();
    let mut loader = Loader::new(paths, settings, None, FoundMounts::default());
    let Loading { graph, .. } = loader.load_all(&Arc::new(Graph::default()));
    let graph = loader.load_one(&graph, &name("t@x.service")).graph;
    check(&graph, &scratch, &("a.service", "a.service", LoadState::Loaded, "usr/a.service"));
    check(&graph, &scratch, &("t@x.service", "t@x.service", LoadState::Loaded, "usr/t@.service"));
    check(&graph, &scratch, &("only.service", "only.service", LoadState::Error, ""));
    let context = Arc::new(Context::system());
    let states = crate::config::install::states(
        loader.snapshot(),
        &context,
        std::iter::empty(),
        PresetRules::default(),
    );
    let path = states.path(&name("a.service"));
    assert_eq!(path, Some(scratch.0.join("usr/a.service").display().to_string()));
}

#[test]
fn instances_have_an_installation_state_of_their_own() {
    let scratch = Scratch::new("instances");
    fs::create_dir_all(scratch.0.join("x.target.wants")).expect("a directory");
    let text = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=x.target\n";
    fs::write(scratch.0.join("t@.service"), text).expect("a file");
    symlink("../t@.service", scratch.0.join("x.target.wants/t@on.service")).expect("a link");
    let snapshot = Snapshot::read_unwatched(vec![scratch.0.clone()]);
    let name = |text: &str| UnitName::parse(text).expect("a valid name");
    let instances = ["t@on.service", "t@off.service", "u@x.service"].map(name).into_iter();
    let (presets, _) = PresetRules::parse(["disable t@*.service"]);
    let context = Arc::new(Context::system());
    let states = crate::config::install::states(&snapshot, &context, instances, presets);
    for (unit, state) in [
        ("t@on.service", Some("enabled")),
        ("t@off.service", Some("disabled")),
        ("t@later.service", Some("disabled")),
        ("u@x.service", None),
    ] {
        assert_eq!(states.get(&name(unit)).map(|state| state.as_str()), state, "{unit}");
    }
    assert_eq!(states.preset(&name("t@on.service")), "disabled");
    assert_eq!(states.files().count(), 1, "instances have no files");
}

/// As systemd 252 has it: `cargo xtask beside files/drop-ins-of-one-name`.
#[test]
fn of_drop_ins_with_one_name_the_search_path_decides_before_the_directorys_name() {
    let scratch = Scratch::new("dropins");
    let mut loader = loader_of(
        &scratch,
        &[
            ("usr/a-b.service", "[Service]\nExecStart=/bin/true"),
            ("etc/x-y.service", "-> ../usr/a-b.service"),
            ("usr/a-b.service.d/1.conf", ""),
            ("etc/a-.service.d/1.conf", "[Unit]"),
            ("etc/a-.service.d/2.conf", "[Unit]"),
            ("etc/a-b.service.d/2.conf", "[Unit]"),
            ("etc/service.d/3.conf", "[Unit]"),
            ("usr/x-.service.d/3.conf", "[Unit]"),
            ("etc/x-y.service.d/4.conf", "[Unit]"),
            ("usr/a-.service.d/4.conf", "[Unit]"),
            ("etc/a-.service.d/5.conf", ""),
            ("usr/a-b.service.d/5.conf", "[Unit]"),
        ],
    );
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let dropins = |graph: &Graph| -> Vec<String> {
        let unit = graph.lookup(&name("a-b.service")).expect("it is loaded");
        let files = graph.definition(unit).files.dropins().iter();
        let below = |path: &str| path.strip_prefix(scratch.0.to_str()?).map(str::to_owned);
        files.filter_map(|file| below(file.path())).collect()
    };
    let want = [
        "/etc/a-.service.d/1.conf",
        "/etc/a-b.service.d/2.conf",
        "/usr/x-.service.d/3.conf",
        "/usr/a-.service.d/4.conf",
    ];
    assert_eq!(dropins(&graph), want);
    // What is for a prefix of an alias is for the unit.
    fs::remove_file(scratch.0.join("usr/x-.service.d/3.conf")).expect("it is there");
    loader.look(false);
    let graph = loader.reload(&graph, false).graph;
    assert_eq!(dropins(&graph)[2], "/etc/service.d/3.conf");
}

#[test]
fn instances_see_edits_of_what_is_for_templates_with_their_prefix() {
    let scratch = Scratch::new("template-prefix");
    let instance = "a-b@x.service";
    let mut loader = loader_of(
        &scratch,
        &[
            ("usr/a-b@.service", "[Service]\nExecStart=/bin/true"),
            ("usr/names.service", "[Unit]\nWants=a-b@x.service\n[Service]\nExecStart=/bin/true"),
            ("etc/a-@.service.d/1.conf", "[Unit]\nDescription=before"),
        ],
    );
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let description = |graph: &Graph| {
        let unit = graph.lookup(&name(instance)).expect("it is named");
        graph.definition(unit).description.to_string()
    };
    assert_eq!(description(&graph), "before");
    write_files(&scratch, &[("etc/a-@.service.d/1.conf", "[Unit]\nDescription=afterwards")]);
    loader.look(false);
    let graph = loader.reload(&graph, false).graph;
    assert_eq!(description(&graph), "afterwards");
}

#[test]
fn drop_ins_alone_make_no_unit() {
    let scratch = Scratch::new("drop-ins-alone");
    let user = ("usr/user.service", "[Service]\nExecStart=/bin/true\nSlice=foo-a.slice");
    let mut loader = loader_of(&scratch, &[user]);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let text = "[Unit]\nDescription=of a drop-in";
    let dropins = ["etc/foo-.slice.d/1.conf", "etc/bar.slice.d/1.conf", "etc/no.service.d/1.conf"];
    write_files(&scratch, &dropins.map(|path| (path, text)));
    loader.look(false);
    let loading = loader.reload(&graph, false);
    let names = |units: &[warren_core::model::ids::UnitId]| -> Vec<String> {
        units.iter().map(|&unit| loading.graph.name(unit).to_string()).collect()
    };
    assert_eq!(
        (names(&loading.delta.added), names(&loading.delta.changed)),
        (vec![], vec!["foo-a.slice".to_owned()])
    );
    let graph = loader.load_one(&loading.graph, &name("bar.slice")).graph;
    let bar = graph.lookup(&name("bar.slice")).expect("it was asked for");
    assert_eq!(&*graph.definition(bar).description, "of a drop-in");
}

/// What lies in `X.d/` alone is no unit, and is not told as one that has changed.
#[test]
fn a_unit_whose_file_is_gone_is_removed_though_drop_ins_stay() {
    let scratch = Scratch::new("drop-ins-stay");
    let mut loader = loader_of(
        &scratch,
        &[
            ("usr/b.service", "[Service]\nExecStart=/bin/true"),
            ("etc/b.service.d/1.conf", "[Unit]\nDescription=b"),
        ],
    );
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let unit = graph.lookup(&name("b.service")).expect("it is loaded");
    fs::remove_file(scratch.0.join("usr/b.service")).expect("it is there");
    loader.look(false);
    let Loading { delta, .. } = loader.reload(&graph, false);
    assert_eq!((delta.removed, delta.changed), (vec![unit], vec![]));
}

/// They were loaded for whoever asked, and no file names them.
#[test]
fn names_that_are_taken_over_are_units_where_that_needs_no_file() {
    let scratch = Scratch::new("taken-over");
    let names = ["asked.slice", "dev-asked.device", "t@asked.service", "gone.service"];
    let names = names.map(name);
    let mut loader = loader_of(&scratch, &[("usr/t@.service", "[Service]\nExecStart=/bin/true")]);
    let before = Graph::with_names(names.iter().cloned().map(Some).collect());
    let graph = loader.load_all(&Arc::new(before)).graph;
    let states = names.map(|name| {
        let unit = graph.lookup(&name).expect("it was taken over");
        graph.definition(unit).load_state.clone()
    });
    let loaded = LoadState::Loaded;
    assert_eq!(states, [loaded.clone(), loaded.clone(), loaded, LoadState::NotFound]);
}

fn name(text: &str) -> UnitName {
    UnitName::parse(text).expect("a valid name")
}

/// Files with a text, or links (`-> TARGET`). `etc` and `usr` are searched.
fn write_files(scratch: &Scratch, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = scratch.0.join(path);
        fs::create_dir_all(path.parent().expect("below")).expect("a directory");
        match text.strip_prefix("-> ") {
            Some(target) => symlink(target, path).expect("a link"),
            None => fs::write(path, text).expect("a file"),
        }
    }
}

fn loader_of(scratch: &Scratch, files: &[(&str, &str)]) -> Loader {
    write_files(scratch, files);
    let settings =
        Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) };
    let paths = ["etc", "usr"].map(|name| scratch.0.join(name)).to_vec();
    Loader::new(paths, settings, None, FoundMounts::default())
}

/// What a seed draws.
struct Draw(warren_testkit::Dice);

impl Draw {
    fn roll(&mut self, below: usize) -> usize {
        self.0.roll(below as u64) as usize
    }

    fn any<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const UNITS: [&str; 7] = [
    "a.service",
    "a-b.service",
    "c.service",
    "t@.service",
    "u@.service",
    "t@1.service",
    "u@1.service",
];

/// Changes one file, link or directory; no two texts of one file are as long as each other.
fn edit(scratch: &Scratch, dice: &mut Draw, step: usize) {
    let (directory, unit, other) = (dice.any(&["etc", "usr"]), dice.any(&UNITS), dice.any(&UNITS));
    let path = scratch.0.join(directory);
    let text = |section: &str| format!("{section}Description={}\n", "x".repeat(step + 1));
    let clear = |path: PathBuf| drop(fs::remove_file(&path).or_else(|_| fs::remove_dir_all(path)));
    match dice.roll(18) {
        0 | 1 => {
            clear(path.join(unit));
            let wants =
                format!("[Service]\nExecStart=/bin/true\n[Unit]\nWants={other}\nAfter={other}\n");
            write_files(scratch, &[(&format!("{directory}/{unit}"), &text(&wants))]);
        }
        2 | 3 => {
            clear(path.join(unit));
            symlink(format!("../{}/{other}", dice.any(&["etc", "usr"])), path.join(unit))
                .expect("a link");
        }
        4 => clear(path.join(unit)),
        5 => {
            let owner = dice.any(&["a-.service", "service", unit]);
            let dropin = format!("{directory}/{owner}.d/1.conf");
            if path.join(format!("{owner}.d")).is_symlink() {
                clear(path.join(format!("{owner}.d")));
            }
            write_files(scratch, &[(&dropin, &text("[Unit]\n"))]);
        }
        6 | 15 => {
            let link = format!("{directory}/{unit}.wants/{other}");
            let _ = fs::remove_file(scratch.0.join(&link));
            let target = match dice.roll(3) {
                0 => "-> nowhere".to_owned(),
                1 => format!("-> ../{other}"),
                _ => format!("-> ../../usr/{}", dice.any(&UNITS)),
            };
            write_files(scratch, &[(&link, &target)]);
        }
        // By a link elsewhere that leads back in, or will.
        7 => {
            clear(path.join(unit));
            write_files(
                scratch,
                &[(&format!("{directory}/{unit}"), &format!("-> ../opt/{other}"))],
            );
        }
        8 => {
            clear(scratch.0.join("opt").join(other));
            let target = format!("-> ../{}/{unit}", dice.any(&["etc", "usr"]));
            write_files(scratch, &[(&format!("opt/{other}"), &target)]);
        }
        // Drop-ins of a release, and the release.
        9 => {
            clear(path.join(format!("{unit}.d")));
            write_files(scratch, &[(&format!("{directory}/{unit}.d"), "-> ../opt/current/x.d")]);
        }
        10 | 11 => {
            let release = dice.any(&["v1", "v2", "v3"]);
            let dropin = format!("opt/{}/x.d/1.conf", dice.any(&["v1", "v2"]));
            clear(scratch.0.join("opt/current"));
            let files = [(&*dropin, &*text("[Unit]\n")), ("opt/current", &format!("-> {release}"))];
            write_files(scratch, &files);
        }
        // One file with two names.
        12 => {
            let file = format!("opt/file-of-{unit}");
            write_files(scratch, &[(&file, &text("[Unit]\n"))]);
            clear(path.join(unit));
            fs::hard_link(scratch.0.join(file), path.join(unit)).expect("a name");
        }
        // No file.
        13 => drop(fs::create_dir(path.join(unit))),
        14 | 16 => {
            clear(path.join(unit));
            let mask = dice.any(&["-> /dev/null", ""]);
            write_files(scratch, &[(&format!("{directory}/{unit}"), mask)]);
        }
        _ => {
            let kind = dice.any(&["d", "wants"]);
            let _ = fs::remove_dir_all(path.join(format!("{unit}.{kind}")));
        }
    }
}

/// What is loaded, but for instances and their slices, which stay as long as somebody knows them.
fn in_words(graph: &Graph) -> Vec<String> {
    let stays = |name: &UnitName| name.is_instance() || name.unit_type() == UnitType::Slice;
    let loaded = graph.definitions().filter(|d| d.load_state != LoadState::NotFound);
    let words = loaded.filter(|d| !stays(&d.name)).map(|d| {
        let aliases = d.aliases.iter().map(|alias| (alias, graph.lookup(alias) == Some(d.id)));
        let aliases: Vec<_> = aliases.collect();
        let relation = |edge: &Edge| format!("{:?} {}", edge.relation, graph.name(edge.other));
        let mut relations: Vec<String> = d.edges.iter().map(relation).collect();
        relations.sort_unstable();
        let files = d.file_paths();
        format!("{} {aliases:?} {:?} {files:?} {relations:?}", d.description, d.load_state)
            + d.name.as_str()
    });
    let mut words: Vec<String> = words.collect();
    words.sort_unstable();
    words
}

#[test]
fn a_reload_comes_to_what_a_fresh_load_does_whatever_was_tried_before() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let (first, seeds) = (number("WARREN_SEED").unwrap_or(0), number("WARREN_SEEDS").unwrap_or(20));
    for seed in first..first + seeds {
        let (scratch, mut dice) = (Scratch::new("tried"), Draw(warren_testkit::Dice(seed)));
        let mut loader = loader_of(&scratch, &[("usr/a.service", ""), ("etc/c.service", "[Unit]")]);
        let mut graph = loader.load_all(&Arc::new(Graph::default())).graph;
        for step in 0..40 {
            (0..1 + dice.roll(3)).for_each(|_| edit(&scratch, &mut dice, step));
            for _ in 0..dice.roll(4) {
                let unit = name(dice.any(&["a.service", "a-b.service", "c.service"]));
                loader.look(dice.roll(2) == 0);
                match dice.roll(4) {
                    0 => drop(loader.reload(&graph, true)),
                    1 => drop(loader.refresh(&graph, &unit, true)),
                    2 => graph = loader.refresh(&graph, &unit, false).graph,
                    _ => graph = loader.load_one(&graph, &unit).graph,
                }
            }
            loader.look(false);
            graph = loader.reload(&graph, false).graph;
            let fresh = loader_of(&scratch, &[]).load_all(&Arc::new(Graph::default())).graph;
            assert_eq!(in_words(&graph), in_words(&fresh), "seed {seed}, step {step}");
            loader.look(false);
            let again = loader.reload(&graph, false);
            assert!(again.delta.is_empty() && again.work.parsed == 0, "seed {seed}, step {step}");
        }
    }
}

/// Whom `m.service` requires of the services that there are.
fn required(graph: &Graph) -> Vec<String> {
    let m = graph.lookup(&name("m.service")).expect("it is loaded");
    let others = graph.related(m, Relation::Requires).map(|other| graph.name(other).to_string());
    others.filter(|other| other.ends_with(".service")).collect()
}

#[test]
fn whoever_names_an_alias_follows_it_wherever_it_leads_after_a_reload() {
    let text = "[Service]\nExecStart=/bin/true";
    let check =
        |named: &str, files: &[(&str, &str)], edit: &[(&str, &str)], before: &str, after: &str| {
            let scratch = Scratch::new("follows");
            let m = format!("[Unit]\nRequires={named}\n[Service]\nExecStart=/bin/true");
            write_files(&scratch, &[("usr/m.service", &m)]);
            let mut loader = loader_of(&scratch, files);
            let graph = loader.load_all(&Arc::new(Graph::default())).graph;
            assert_eq!(required(&graph), [before], "{named}, before {edit:?}");
            for (path, _) in edit {
                let _ = fs::remove_file(scratch.0.join(path));
            }
            let there = edit.iter().filter(|(_, text)| !text.is_empty()).copied();
            write_files(&scratch, &there.collect::<Vec<_>>());
            loader.look(false);
            let graph = loader.reload(&graph, false).graph;
            assert_eq!(required(&graph), [after], "{named}, after {edit:?}");
            let fresh = loader_of(&scratch, &[]).load_all(&Arc::new(Graph::default())).graph;
            assert_eq!(required(&fresh), [after], "{named}, anew after {edit:?}");
        };
    let (x, y, z) = ("x.service", "y.service", "z.service");
    let dangling = ("usr/x.service", "-> y.service");
    check(x, &[dangling], &[("usr/y.service", text)], x, y);
    check(x, &[dangling, ("usr/y.service", text)], &[("usr/y.service", "")], y, x);
    check(x, &[dangling], &[("usr/y.service", "-> z.service"), ("usr/z.service", text)], x, z);
    let (t, t1, u1) = (("usr/t@.service", text), "t@1.service", "u@1.service");
    let u = ("usr/u@.service", "-> t@.service");
    check(u1, &[t], &[u], u1, t1);
    check(u1, &[u], &[t], u1, t1);
    check(u1, &[t, u], &[("usr/u@.service", "")], t1, u1);
    check(u1, &[t, u], &[("usr/u@.service", text)], t1, u1);
    check(u1, &[t, u], &[("etc/u@1.service", text)], t1, u1);
    check(u1, &[t, u, ("etc/u@1.service", text)], &[("etc/u@1.service", "")], u1, t1);
    let v = ("usr/v@.service", text);
    check(u1, &[t, u, v], &[("usr/u@.service", "-> v@.service")], t1, "v@1.service");
    check(u1, &[("usr/u@1.service", "-> t@1.service")], &[t], u1, t1);
    // A name of what has drop-ins alone.
    let dropin = ("usr/y.service.d/1.conf", "[Unit]");
    check(x, &[dangling, dropin, ("usr/y.service", text)], &[dangling], y, y);
    check(x, &[dangling, dropin], &[("usr/x.service", text)], y, x);
}

/// As it is in force, but for the names.
#[test]
fn a_refresh_of_a_unit_that_was_an_alias_takes_along_who_names_it() {
    let scratch = Scratch::new("refresh-alias");
    let text = "[Service]\nExecStart=/bin/true";
    let m = "[Unit]\nRequires=x.service\n[Service]\nExecStart=/bin/true";
    let files = [("usr/y.service", text), ("usr/x.service", "-> y.service"), ("usr/m.service", m)];
    let mut loader = loader_of(&scratch, &files);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    assert_eq!(required(&graph), ["y.service"]);
    fs::remove_file(scratch.0.join("usr/x.service")).expect("it is there");
    let edited = m.replace("[Unit]", "[Unit]\nDescription=edited");
    write_files(&scratch, &[("usr/x.service", text), ("usr/m.service", &edited)]);
    let description = |graph: &Graph| {
        let m = graph.lookup(&name("m.service")).expect("it is loaded");
        graph.definition(m).description.to_string()
    };
    loader.look(false);
    let graph = loader.refresh(&graph, &name("x.service"), false).graph;
    assert_eq!(
        (required(&graph), &*description(&graph)),
        (vec!["x.service".to_owned()], "m.service")
    );
    let graph = loader.reload(&graph, false).graph;
    assert_eq!((required(&graph), &*description(&graph)), (vec!["x.service".to_owned()], "edited"));
    let y = graph.lookup(&name("y.service")).expect("it is loaded");
    assert!(graph.definition(y).aliases.is_empty());
}

#[test]
fn an_edit_after_a_rollback_brings_the_names_back_that_it_is_about() {
    let scratch = Scratch::new("rollback-alias");
    let text = "[Service]\nExecStart=/bin/true";
    let m = "[Unit]\nRequires=x.service\n[Service]\nExecStart=/bin/true";
    let files = [("usr/y.service", text), ("usr/x.service", "-> y.service"), ("usr/m.service", m)];
    let mut loader = loader_of(&scratch, &files);
    let first = loader.load_all(&Arc::new(Graph::default())).graph;
    fs::remove_file(scratch.0.join("usr/x.service")).expect("it is there");
    write_files(&scratch, &[("usr/x.service", text)]);
    loader.look(false);
    let second = loader.reload(&first, false).graph;
    assert_eq!(required(&second), ["x.service"]);
    let edited = format!("[Unit]\nDescription=edited\n{text}");
    write_files(&scratch, &[("usr/y.service", &edited)]);
    loader.look(false);
    let back = Arc::new(second.restored_to(&first).0);
    assert_eq!(required(&back), ["y.service"]);
    let graph = loader.reload(&back, false).graph;
    assert_eq!(required(&graph), ["x.service"]);
    check(&graph, &scratch, &("x.service", "x.service", LoadState::Loaded, "usr/x.service"));
}

/// systemctl(1) of 252 shows such a unit as not found, and goes on with the next.
#[test]
fn a_link_to_nothing_is_a_unit_that_is_not_found_for_whoever_asks() {
    let scratch = Scratch::new("dangling");
    let mut loader = loader_of(&scratch, &[("usr/x.service", "-> y.service")]);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    assert_eq!(graph.lookup(&name("x.service")), None);
    let graph = loader.load_one(&graph, &name("x.service")).graph;
    let x = graph.lookup(&name("x.service")).expect("it was asked for");
    assert_eq!(graph.definition(x).load_state, LoadState::NotFound);
    write_files(&scratch, &[("usr/y.service", "[Service]\nExecStart=/bin/true")]);
    loader.look(false);
    let graph = loader.load_one(&graph, &name("x.service")).graph;
    check(&graph, &scratch, &("x.service", "y.service", LoadState::Loaded, "usr/y.service"));
}

/// As systemd 252 has it, which passes over them.
#[test]
fn a_link_to_what_it_cannot_be_an_alias_of_is_no_entry() {
    let scratch = Scratch::new("no-alias");
    let text = "[Service]\nExecStart=/bin/true";
    let mount = "[Mount]\nWhat=tmpfs\nType=tmpfs\nWhere=/run/mb";
    let mut loader = loader_of(
        &scratch,
        &[
            ("usr/run-mb.mount", mount),
            ("etc/run-ma.mount", "-> ../usr/run-mb.mount"),
            ("usr/sa.slice", "[Unit]"),
            ("etc/sb.slice", "-> ../usr/sa.slice"),
            ("usr/tt@.service", text),
            ("usr/plain.service", text),
            ("etc/solo.service", "-> ../usr/tt@x.service"),
            ("etc/whole.service", "-> ../usr/tt@.service"),
            ("etc/one@x.service", "-> ../usr/plain.service"),
            ("etc/other@x.service", "-> ../usr/tt@y.service"),
            ("etc/wrong.socket", "-> ../usr/plain.service"),
            ("usr/README", text),
            ("etc/readme.service", "-> ../usr/README"),
            ("usr/weak.service", text),
            ("etc/weak.service", "-> ../usr/tt@x.service"),
            ("usr/wt@.service", text),
            ("etc/wt@q.service", "-> ../usr/plain.service"),
            ("etc/tx@x.service", "-> ../usr/tt@x.service"),
            ("usr/m.service", "[Unit]\nRequiresMountsFor=/run/ma\n[Service]\nExecStart=/bin/true"),
        ],
    );
    let loading = loader.load_all(&Arc::new(Graph::default()));
    let said: Vec<String> = loading.diagnostics.iter().map(|d| d.message.clone()).collect();
    assert!(said.iter().any(|said| said.starts_with("run-ma.mount is a link")), "{said:?}");
    let mut graph = loading.graph;
    let not_found = |name| (name, name, LoadState::NotFound, "");
    for made in [
        not_found("run-ma.mount"),
        ("sb.slice", "sb.slice", LoadState::Loaded, ""),
        not_found("solo.service"),
        not_found("whole.service"),
        not_found("one@x.service"),
        not_found("other@x.service"),
        not_found("wrong.socket"),
        not_found("readme.service"),
        ("weak.service", "weak.service", LoadState::Loaded, "usr/weak.service"),
        ("wt@q.service", "wt@q.service", LoadState::Loaded, "usr/wt@.service"),
        ("tx@x.service", "tt@x.service", LoadState::Loaded, "usr/tt@.service"),
    ] {
        graph = loader.load_one(&graph, &name(made.0)).graph;
        check(&graph, &scratch, &made);
    }
    let m = graph.lookup(&name("m.service")).expect("it is loaded");
    let mb = graph.lookup(&name("run-mb.mount")).expect("it is loaded");
    assert!(!graph.is_related(m, Relation::MountsFor, mb));
}

#[test]
fn drop_ins_of_a_template_without_a_file_are_for_its_instances() {
    let scratch = Scratch::new("template-dropins");
    let unit = ("usr/u@1.service", "[Service]\nExecStart=/bin/true");
    let mut loader = loader_of(&scratch, &[unit]);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    write_files(&scratch, &[("etc/u@.service.d/1.conf", "[Unit]\nDescription=of a drop-in")]);
    loader.look(false);
    let graph = loader.reload(&graph, false).graph;
    let unit = graph.lookup(&name("u@1.service")).expect("it is loaded");
    assert_eq!(&*graph.definition(unit).description, "of a drop-in");
}

#[test]
fn a_dry_run_leaves_an_alias_that_goes_to_the_reload() {
    let scratch = Scratch::new("dry-alias");
    let text = "[Service]\nExecStart=/bin/true";
    let mut loader =
        loader_of(&scratch, &[("usr/a.service", text), ("etc/b.service", "-> ../usr/a.service")]);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    fs::remove_file(scratch.0.join("etc/b.service")).expect("it is there");
    loader.look(false);
    for _ in 0..2 {
        let Loading { graph: next, delta, .. } = loader.reload(&graph, true);
        let unit = next.lookup(&name("a.service")).expect("it stays");
        assert_eq!((delta.changed.as_slice(), delta.removed.len()), ([unit].as_slice(), 0));
    }
    let next = loader.reload(&graph, false).graph;
    let unit = next.lookup(&name("a.service")).expect("it stays");
    assert!(next.definition(unit).aliases.is_empty() && next.lookup(&name("b.service")).is_none());
}

/// Many units refer to a name that leads elsewhere from now on, and their definitions are made in pieces.
#[test]
fn who_refers_to_an_alias_that_goes_refers_to_nothing_in_whatever_piece_it_is() {
    let scratch = Scratch::new("pieces");
    let mut loader = loader_of(
        &scratch,
        &[
            ("usr/z.service", "[Service]\nExecStart=/bin/true"),
            ("etc/b.service", "-> ../usr/z.service"),
        ],
    );
    for n in 0..1500 {
        let text = "[Unit]\nWants=b.service\n[Service]\nExecStart=/bin/true";
        write_files(&scratch, &[(&format!("usr/m{n}.service"), text)]);
    }
    loader.look(true);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let wanted = |graph: &Graph| {
        let unit = graph.lookup(&name("z.service")).expect("it is loaded");
        graph.related(unit, Relation::WantedBy).count()
    };
    assert_eq!(wanted(&graph), 1500);
    fs::remove_file(scratch.0.join("etc/b.service")).expect("it is there");
    loader.look(false);
    let Loading { graph, delta, .. } = loader.reload(&graph, false);
    assert_eq!((wanted(&graph), delta.removed.len()), (0, 0));
    let gone = graph.lookup(&name("b.service")).expect("it is named");
    assert_eq!(graph.related(gone, Relation::WantedBy).count(), 1500);
}

#[test]
fn a_unit_that_is_new_is_loaded_with_all_that_came_with_it() {
    let scratch = Scratch::new("new-unit");
    let text = "[Service]\nExecStart=/bin/true";
    let wants = "[Unit]\nWants=second.service\n[Service]\nExecStart=/bin/true";
    let mut loader = loader_of(&scratch, &[("usr/a.service", text), ("usr/w.service", wants)]);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    write_files(
        &scratch,
        &[
            ("etc/new.service", text),
            ("etc/new.service.d/1.conf", "[Unit]\nDescription=with a drop-in"),
            ("etc/new.service.wants/a.service", "-> ../../usr/a.service"),
            ("etc/second.service", "-> ../usr/a.service"),
            ("etc/a.service.d/1.conf", "[Unit]\nDescription=edited"),
        ],
    );
    loader.look(false);
    let graph = loader.load_one(&graph, &name("new.service")).graph;
    let new = graph.lookup(&name("new.service")).expect("it is loaded");
    let a = graph.lookup(&name("a.service")).expect("it is loaded");
    assert_eq!(&*graph.definition(new).description, "with a drop-in");
    assert!(graph.is_related(new, Relation::Wants, a));
    // A new name of a unit that is loaded changes nothing else of it.
    let graph = loader.load_one(&graph, &name("second.service")).graph;
    let wanter = graph.lookup(&name("w.service")).expect("it is loaded");
    assert_eq!(graph.lookup(&name("second.service")), Some(a));
    assert!(graph.is_related(wanter, Relation::Wants, a));
    assert_eq!(&*graph.definition(a).description, "a.service");
    let graph = loader.reload(&graph, false).graph;
    assert_eq!(graph.lookup(&name("second.service")), Some(a));
    assert_eq!(&*graph.definition(a).description, "edited");
}

/// Whoever asks waits for no server: a scratch directory lies where no configuration is.
#[test]
fn a_link_to_no_configuration_is_not_followed_to_say_whether_a_unit_differs() {
    let scratch = Scratch::new("far-link");
    let text = "[Service]\nExecStart=/bin/true";
    let files = [("far/a.service", text), ("usr/a.service", "-> ../far/a.service")];
    let mut loader = loader_of(&scratch, &files);
    let graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let unit = graph.lookup(&name("a.service")).expect("it is loaded");
    fs::remove_file(scratch.0.join("far/a.service")).expect("it is there");
    write_files(&scratch, &[("usr/other.service", text)]);
    // Later than all changes: only what is gone counts.
    let disk = OnDisk { looked_at_ns: u64::MAX, ..loader.on_disk(&graph, 0) };
    assert!(disk.watch.as_ref().is_some_and(|watch| watch.has_news()));
    assert!(!disk.differs(graph.definition(unit), &loader.paths()));
}

/// As systemd 252, which compares with the time at which a unit was loaded.
#[test]
fn what_is_loaded_of_an_edit_differs_no_more_and_what_was_before_does() {
    let scratch = Scratch::new("current");
    let text = "[Service]\nExecStart=/bin/true";
    let mut loader = loader_of(&scratch, &[("usr/a.service", text), ("usr/t@.service", text)]);
    let mut graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let load = |loader: &mut Loader, graph: &mut Arc<Graph>, unit: &str| {
        loader.look_nearby(&[name(unit)]);
        *graph = loader.load_one(graph, &name(unit)).graph;
    };
    let check = |loader: &mut Loader, graph: &Graph, expected: &[&str]| {
        let pending = loader.on_disk(graph, 0).pending;
        let loaded = pending.iter().filter(|unit| graph.lookup(unit).is_some());
        assert_eq!(loaded.map(UnitName::as_str).collect::<Vec<_>>(), expected);
    };
    load(&mut loader, &mut graph, "t@old.service");
    write_files(&scratch, &[("usr/new.service", text)]);
    load(&mut loader, &mut graph, "new.service");
    check(&mut loader, &graph, &[]);
    let edited = "[Unit]\nDescription=edited\n[Service]\nExecStart=/bin/true";
    write_files(&scratch, &[("usr/t@.service", edited), ("usr/a.service", edited)]);
    load(&mut loader, &mut graph, "t@new.service");
    check(&mut loader, &graph, &["a.service", "t@old.service"]);
    let units = loader.on_disk(&graph, 0).pending;
    graph = loader.load_one(&graph, &name("t@newer.service")).graph;
    let same = loader.on_disk(&graph, 0).pending;
    assert!(Arc::ptr_eq(&units, &same), "it is not found out again for each instance");
    // An edit after that concerns it again.
    write_files(&scratch, &[("etc/new.service.d/1.conf", "[Unit]\nDescription=later")]);
    loader.look(false);
    check(&mut loader, &graph, &["a.service", "new.service", "t@old.service"]);
    graph = loader.refresh(&graph, &name("new.service"), false).graph;
    check(&mut loader, &graph, &["a.service", "t@old.service"]);
    graph = loader.reload(&graph, false).graph;
    check(&mut loader, &graph, &[]);
}

/// As 252 has it, which looks where the link leads and not at which file the unit is made of.
#[test]
fn a_link_to_a_mask_asks_for_nothing() {
    let scratch = Scratch::new("links-to-masks");
    let text = "[Service]\nExecStart=/bin/true";
    let required = [
        ("etc-mask", "../etc-mask.service"),
        ("etc-empty", "../etc-empty.service"),
        ("of-usr", "../../usr/of-usr.service"),
        ("in-usr", "../../usr/in-usr.service"),
        ("alias", "../alias.service"),
        ("empty-far", "../empty-far.service"),
        ("other", "../../usr/elsewhere.service"),
        ("to-mask", "../etc-mask.service"),
        ("nowhere", "../nowhere.service"),
        ("t@i", "../t@.service"),
        ("u@i", "../u@.service"),
        ("u@j", "../u@j.service"),
        ("null", "/dev/null"),
        ("hides", "../etc-mask.service"),
    ];
    let links = |kind: &str| {
        let link = |(name, target): &(&str, &str)| {
            (format!("etc/a.service.{kind}/{name}.service"), format!("-> {target}"))
        };
        required.iter().map(link).collect::<Vec<_>>()
    };
    let [requires, wants] = ["requires", "wants"].map(links);
    let links = requires.iter().chain(&wants).map(|(path, link)| (path.as_str(), link.as_str()));
    let files = [
        ("etc/a.service", text),
        ("etc/etc-mask.service", "-> /dev/null"),
        ("etc/etc-empty.service", ""),
        ("etc/of-usr.service", "-> /dev/null"),
        ("usr/of-usr.service", text),
        ("etc/in-usr.service", text),
        ("usr/in-usr.service", "-> /dev/null"),
        ("etc/alias.service", "-> etc-mask.service"),
        ("etc/empty-far.service", "-> ../opt/empty-far.service"),
        ("opt/empty-far.service", ""),
        ("usr/elsewhere.service", text),
        ("etc/to-mask.service", text),
        ("etc/other.service", "-> /dev/null"),
        ("etc/t@.service", "-> /dev/null"),
        ("etc/u@.service", text),
        ("etc/u@i.service", "-> /dev/null"),
        ("etc/u@j.service", "-> /dev/null"),
        ("usr/hides.service", text),
        ("usr/a.service.requires/hides.service", "-> ../hides.service"),
    ];
    let files: Vec<(&str, &str)> = files.into_iter().chain(links).collect();
    let mut loader = loader_of(&scratch, &files);
    let mut graph = loader.load_all(&Arc::new(Graph::default())).graph;
    let related = |graph: &Graph, relation| {
        let a = graph.lookup(&name("a.service")).expect("it is loaded");
        let others = graph.related(a, relation).map(|other| graph.name(other).as_str());
        let others = others.filter(|name| name.ends_with(".service"));
        let mut others: Vec<String> = others.map(str::to_owned).collect();
        others.sort_unstable();
        others
    };
    let left = ["nowhere.service", "of-usr.service", "other.service", "u@i.service"];
    assert_eq!(related(&graph, Relation::Requires), left);
    assert_eq!(related(&graph, Relation::Wants), left);
    // Whoever has the links is concerned when a mask goes or comes.
    let mut change = |path: &str, text: &str| {
        fs::remove_file(scratch.0.join(path)).expect("it is there");
        write_files(&scratch, &[(path, text)]);
        loader.look(false);
        graph = loader.reload(&graph, false).graph;
        related(&graph, Relation::Requires)
    };
    let all = change("etc/etc-mask.service", text);
    let got = ["etc-mask.service", "hides.service", "to-mask.service"];
    assert!(got.iter().all(|name| all.contains(&(*name).to_owned())), "{all:?}");
    assert!(change("etc/etc-empty.service", "[Unit]").contains(&"etc-empty.service".to_owned()));
    assert!(change("usr/in-usr.service", text).contains(&"in-usr.service".to_owned()));
    assert_eq!(change("etc/t@.service", text).len(), all.len() + 3);
    assert_eq!(change("usr/of-usr.service", "").len(), all.len() + 2);
}

/// Regular files in `.wants` directories are no links, and say nothing.
#[test]
fn only_links_count_in_directories_of_links() {
    let scratch = Scratch::new("link-directories");
    let wants = scratch.0.join("x.target.wants");
    fs::create_dir_all(&wants).expect("a directory");
    fs::write(scratch.0.join("x.target"), "[Unit]\nDescription=x\n").expect("a file");
    fs::write(wants.join("file.service"), "").expect("a file");
    symlink("../gone.service", wants.join("link.service")).expect("a link");
    let snapshot = Snapshot::read_unwatched(vec![scratch.0.clone()]);
    let directory = &snapshot.directories[0].entries["x.target.wants"];
    let Entry::Directory(entries) = directory else { panic!("it is a directory") };
    assert_eq!(entries.keys().map(|name| &**name).collect::<Vec<_>>(), ["link.service"]);
}

/// What has a file is found whoever is loaded first; of the rest there is no more than the bound.
#[test]
fn names_of_all_files_together_are_bounded() {
    const NAMES_MAX: usize = 50;
    let scratch = Scratch::new("names");
    let absent = |unit: &str| -> String {
        let wants =
            (0..40).map(|n| format!("Wants={unit}-{n}.service\nAfter={unit}-{n}.service\n"));
        format!(
            "[Unit]\n{}After=z.service\n[Service]\nExecStart=/bin/true\n",
            wants.collect::<String>()
        )
    };
    for unit in ["a", "b", "c", "z"] {
        fs::write(scratch.0.join(format!("{unit}.service")), absent(unit)).expect("a file");
    }
    let settings =
        Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) };
    let paths = vec![scratch.0.clone()];
    let mut loader = Loader::new(paths, settings, None, FoundMounts::default());
    loader.names_max = NAMES_MAX;
    let loading = loader.load_all(&Arc::new(Graph::default()));
    let graph = loading.graph;
    // Those that files are for are on top.
    assert!(graph.names_count() <= NAMES_MAX + 8, "{}", graph.names_count());
    let errors = loading.diagnostics.iter().filter(|d| d.severity == warren_unit::Severity::Error);
    let said: Vec<String> = errors.map(|d| d.to_string()).collect();
    let left_out =
        |unit: &str| said.iter().any(|line| line.contains(&format!(" of {unit}.service ")));
    assert!(!left_out("a") && left_out("b") && left_out("c") && left_out("z"), "{said:#?}");
    assert!(said.iter().all(|line| line.contains("name more than 50 units")), "{said:#?}");
    let unit = |name: &str| graph.lookup(&UnitName::parse(name).expect("a name")).expect("known");
    for other in ["a.service", "b.service", "c.service"] {
        let after: Vec<_> = graph.related(unit(other), Relation::After).collect();
        assert!(after.contains(&unit("z.service")), "{other}");
    }
    assert!(graph.definition(unit("z.service")).load_state == LoadState::Loaded);
}

/// As in a cgroup with as many processes as it may have.
#[test]
fn many_files_are_loaded_where_no_thread_can_be_had() {
    const FILES: usize = 3000;
    let scratch = Scratch::new("no-threads");
    for number in 0..FILES {
        let text = "[Service]\nExecStart=/bin/true\n";
        fs::write(scratch.0.join(format!("a{number}.service")), text).expect("a file");
    }
    fs::create_dir(scratch.0.join("rules")).expect("a directory");
    let rule = "object Service \"b\" { ExecStart = \"/bin/true\" }\n";
    fs::write(scratch.0.join("rules/1.conf"), rule).expect("a file");
    let settings =
        Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) };
    let context = settings.context.clone();
    let fleet = Fleet::new(scratch.0.join("rules"), scratch.0.join("made"), context);
    let loaded = crate::base::parallel::shortage::during(|| {
        let paths = vec![scratch.0.clone()];
        let mut loader = Loader::new(paths, settings, Some(fleet), FoundMounts::default());
        let graph = loader.load_all(&Arc::new(Graph::default())).graph;
        for number in 0..FILES {
            let text = "[Service]\nExecStart=/bin/false\n";
            fs::write(scratch.0.join(format!("a{number}.service")), text).expect("a file");
        }
        loader.look(true);
        assert_eq!(loader.reload(&graph, false).delta.changed.len(), FILES);
        graph
    });
    for name in ["a0.service", "a2999.service", "b.service"] {
        let unit = loaded.lookup(&UnitName::parse(name).expect("a name")).expect(name);
        assert_eq!(loaded.definition(unit).load_state, LoadState::Loaded, "{name}");
    }
}
