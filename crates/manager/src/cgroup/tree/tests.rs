use std::process::{Child, Command, Stdio};

use warren_core::graph::cgroup_path::defined_path;
use warren_core::settings::Settings;
use warren_unit::{Context, Defaults};

use crate::base::scratch::Scratch;
use crate::cgroup::tree::*;
use crate::config::loader::{Loader, Loading};

fn settings() -> Settings {
    Settings { context: Arc::new(Context::system()), defaults: Arc::new(Defaults::default()) }
}

/// The units of these files.
fn graph_of(scratch: &Scratch, files: &[(&str, &str)]) -> Arc<Graph> {
    for (file, text) in files {
        std::fs::write(scratch.0.join(file), text).expect("a file");
    }
    let paths = vec![scratch.0.clone()];
    let mut loader = Loader::new(paths, settings(), None, Default::default());
    let Loading { graph, .. } = loader.load_all(&Arc::new(Graph::default()));
    graph
}

fn unit(graph: &Graph, name: &str) -> UnitId {
    graph.lookup(&UnitName::parse(name).expect("a valid name")).expect("it is loaded")
}

#[test]
fn a_process_is_of_the_unit_whose_group_it_is_in_not_of_one_that_lends_the_group_its_name() {
    let scratch = Scratch::new("groups-names");
    let service = "[Service]\nExecStart=/bin/true\n";
    let graph = graph_of(
        &scratch,
        &[
            ("victim.service", service),
            ("user@1.service", &format!("{service}Slice=user-1.slice\nDelegate=yes\n")),
        ],
    );
    let own = |name: &UnitName, path: &str| {
        graph.lookup(name).filter(|&unit| defined_path(&graph, unit) == path)
    };
    let by_place =
        |name: &UnitName, path: &str| graph.lookup(name).filter(|_| lies_in_slices(path));
    for (group, of) in [
        ("/lab/system.slice/victim.service", Some("victim.service")),
        ("/lab/system.slice/victim.service/.control", Some("victim.service")),
        ("/lab/user.slice/user-1.slice/user@1.service/victim.service", Some("user@1.service")),
        ("/lab/user.slice/user-1.slice/user@1.service/a/victim.service/b", Some("user@1.service")),
        (
            "/lab/user.slice/user-1.slice/user@1.service/a.slice/victim.service",
            Some("user@1.service"),
        ),
        ("/lab/user.slice/user-1.slice/session-1.scope/victim.service", Some("user-1.slice")),
        ("/lab/x/victim.service", None),
        ("/lab/user-1.slice/x", None),
        ("/labsystem.slice/victim.service", None),
        ("/system.slice/victim.service", None),
        ("/lab", None),
    ] {
        let name = |unit: Option<UnitId>| unit.map(|unit| graph.name(unit).as_str());
        assert_eq!(name(unit_of_group("/lab", group, own)), of, "{group}");
        assert_eq!(name(unit_of_group("/lab", group, by_place)), of, "{group}");
    }
    let victim = Some(unit(&graph, "victim.service"));
    assert_eq!(unit_of_group("", "/system.slice/victim.service", own), victim);
    // A reload has changed its slice.
    let elsewhere = "/user.slice/victim.service";
    assert_eq!(unit_of_group("", elsewhere, by_place), victim);
}

/// Groups of a test's own, and a process in one of them.
struct Lab {
    top: Tree,
    name: String,
}

impl Lab {
    /// Nothing where there can be none.
    fn new(name: &str) -> Option<Lab> {
        let top = Tree::open(warren_sys::cgroup::mount_point().ok()??).ok()?;
        let name = format!("warren-groups-{name}-{}", std::process::id());
        top.make(&name).ok()?;
        Some(Lab { top, name })
    }

    fn tree(&self) -> Tree {
        Tree::open(self.top.path().join(&self.name)).expect("it is there")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.top.kill(&self.name);
        let _ = self.top.prune(&self.name);
    }
}

fn cat_in(tree: &Tree, group: &str) -> Child {
    let cat = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().expect("cat(1)");
    tree.attach(group, cat.id() as i32).expect("a child can be moved");
    cat
}

#[test]
fn a_group_that_another_manager_left_is_made_anew_or_entered_while_somebody_is_in_it() {
    let Some(lab) = Lab::new("left") else {
        return warren_testkit::not_run("needs root and cgroup2");
    };
    let scratch = Scratch::new("groups-left");
    let graph = graph_of(&scratch, &[("a.service", "[Service]\nExecStart=/bin/true\n")]);
    let unit = unit(&graph, "a.service");
    let settings = settings().compile(graph.definition(unit));
    let path = defined_path(&graph, unit);
    let tree = lab.tree();
    tree.make(&path).expect("groups can be made");
    tree.kill(&path).expect("it can be killed");
    let mut cat = cat_in(&tree, &path);
    // The unit is down, so that nothing is taken up.
    let mut groups = Groups::new(Some(lab.tree()));
    groups.make(&graph, unit, &path, &settings).expect("it is there");
    assert!(groups.is_killed(unit), "nobody knows, and somebody is in it");
    // The unit is up.
    let mut groups = Groups::new(Some(lab.tree()));
    groups.take_up(&graph, unit, &path);
    assert!(groups.is_killed(unit), "nobody knows");
    drop(cat.stdin.take());
    cat.wait().expect("it is a child");
    let old = tree.id(&path).expect("it is there");
    groups.make(&graph, unit, &path, &settings).expect("it can be made anew");
    assert!(!groups.is_killed(unit) && tree.id(&path).expect("it is there") != old);
    // The unit is down.
    let mut groups = Groups::new(Some(lab.tree()));
    let old = tree.id(&path).expect("it is there");
    groups.make(&graph, unit, &path, &settings).expect("it can be made anew");
    assert!(!groups.is_killed(unit) && tree.id(&path).expect("it is there") != old);
}

#[test]
fn a_group_that_is_gone_is_one_in_which_nobody_is() {
    let Some(lab) = Lab::new("gone") else {
        return warren_testkit::not_run("needs root and cgroup2");
    };
    let scratch = Scratch::new("groups-gone");
    let service = ("a.service", "[Service]\nExecStart=/bin/true\n");
    let graph = graph_of(&scratch, &[service, ("mnt.mount", "[Mount]\nWhat=a\nWhere=/mnt\n")]);
    let (service, mount) = (unit(&graph, "a.service"), unit(&graph, "mnt.mount"));
    let mut groups = Groups::new(Some(lab.tree()));
    groups.take_up(&graph, service, "gone.slice/a.service");
    groups.take_up(&graph, mount, "gone.slice/mnt.mount");
    assert!(groups.emptied_by_end(service), "it is told when its main process has ended");
    assert_eq!(groups.path(mount), None, "it need not have been made");
    let settings = settings().compile(graph.definition(service));
    groups.make(&graph, service, "a.service", &settings).expect("it can be made");
    assert_eq!(groups.path(service), Some("a.service"));
}

#[test]
fn a_group_whose_kill_another_manager_did_not_end_has_room_for_processes_again() {
    let lab = Lab::new("room").filter(|lab| {
        lab.top.enable_controllers("", &["pids"]);
        lab.tree().controllers("").is_ok_and(|all| all.contains(&"pids".to_owned()))
    });
    let Some(lab) = lab else {
        return warren_testkit::not_run("a_group_whose_kill... needs root and cgroup2 with pids");
    };
    let scratch = Scratch::new("groups-room");
    let service = "[Service]\nExecStart=/bin/true\n";
    let limited = format!("{service}TasksMax=7\n");
    let graph = graph_of(&scratch, &[("a.service", service), ("b.service", &limited)]);
    let tree = lab.tree();
    for name in ["a.service", "b.service"] {
        let unit = unit(&graph, name);
        let settings = settings().compile(graph.definition(unit));
        let path = defined_path(&graph, unit);
        let mut groups = Groups::new(Some(lab.tree()));
        groups.make(&graph, unit, &path, &settings).expect("it can be made");
        let mut cat = cat_in(&tree, &path);
        let room = || tree.read(&path, PIDS_MAX).expect("the controller is on").trim().to_owned();
        let limit = room();
        let close = || tree.write(&path, PIDS_MAX, NO_PIDS).expect("the controller is on");
        let limit_of = |groups: &mut Groups| {
            close();
            groups.make(&graph, unit, &path, &settings).expect("it is there");
            room()
        };
        // The unit is up.
        let mut groups = Groups::new(Some(lab.tree()));
        groups.take_up(&graph, unit, &path);
        assert_eq!(limit_of(&mut groups), limit, "{name}");
        assert_eq!(limit == "7", name == "b.service");
        let _task = groups.kill_task(unit).expect("it has a group");
        assert_eq!(limit_of(&mut groups), NO_PIDS, "it is being killed");
        // The unit is down.
        let mut groups = Groups::new(Some(lab.tree()));
        assert_eq!(limit_of(&mut groups), limit, "{name}");
        drop(cat.stdin.take());
        cat.wait().expect("it is a child");
    }
}

/// As where inotify(7) has no instance or no watch left for this user.
#[test]
fn a_group_that_cannot_be_watched_is_found_empty_when_it_is_looked_at() {
    let Some(lab) = Lab::new("unwatched") else {
        return warren_testkit::not_run("a_group_that_cannot... needs root and cgroup2");
    };
    let scratch = Scratch::new("groups-unwatched");
    let graph = graph_of(&scratch, &[("a.service", "[Service]\nExecStart=/bin/true\n")]);
    let unit = unit(&graph, "a.service");
    let settings = settings().compile(graph.definition(unit));
    let path = defined_path(&graph, unit);
    let tree = lab.tree();
    let mut groups = Groups::new(Some(lab.tree()));
    groups.watch = None;
    groups.make(&graph, unit, &path, &settings).expect("it can be made");
    let mut cat = cat_in(&tree, &path);
    assert!(!groups.has_unwatched(false), "nobody asked for a report");
    groups.note_use(unit);
    assert!(!groups.emptied_by_end(unit), "somebody is left");
    assert!(groups.has_unwatched(false));
    assert_eq!(groups.look_at_unwatched(false).empty, []);
    drop(cat.stdin.take());
    cat.wait().expect("it is a child");
    assert_eq!(groups.look_at_unwatched(false).empty, [unit]);
    assert!(!groups.has_unwatched(false), "it is told once");
    // One for which there is a watch by now is not looked at any more.
    let mut cat = cat_in(&tree, &path);
    groups.note_use(unit);
    assert!(!groups.emptied_by_end(unit) && groups.has_unwatched(false));
    groups.watch = Watch::new().ok();
    assert_eq!(groups.look_at_unwatched(false).empty, []);
    assert!(!groups.has_unwatched(false));
    drop(cat.stdin.take());
    cat.wait().expect("it is a child");
}
