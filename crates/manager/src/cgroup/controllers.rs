//! Controllers of cgroups: turned on for a unit whose settings take them, and what the settings say written
//! to its group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use warren_sys::Error;
use warren_sys::cgroup::Tree;

use crate::cgroup::limits::Attribute;

/// A setting that is not applied.
#[derive(Debug, PartialEq, Eq)]
pub struct NotApplied {
    /// Which.
    pub setting: String,
    /// Why not.
    pub why: String,
}

/// A controller that was refused is asked for again after this time, as what stood against it may be over.
const ASKED_APART: Duration = Duration::from_secs(1);

/// Controllers that are on for the children of groups, by the groups' paths: of thousands of units in a
/// slice the first asks.
#[derive(Debug, Default)]
pub struct Enabled(BTreeMap<String, ControllerRequest>);

/// What a group was asked for.
#[derive(Debug, Default)]
struct ControllerRequest {
    on: BTreeSet<String>,
    refused: BTreeMap<String, (Instant, Error)>,
}

/// Controllers that a group can have.
#[derive(Debug, Default)]
pub struct Usable {
    on: Vec<String>,
    refused: BTreeMap<String, Error>,
}

impl Enabled {
    /// Turns controllers on, from the root down to the group's parent, where they are not yet.
    pub fn enable(
        &mut self,
        tree: &Tree,
        path: &str,
        controllers: &[&str],
        now: Instant,
    ) -> Usable {
        let mut usable = Usable {
            on: controllers.iter().map(|name| (*name).to_owned()).collect(),
            refused: BTreeMap::new(),
        };
        let parents = std::iter::once("").chain(path.match_indices('/').map(|(at, _)| &path[..at]));
        for parent in parents {
            if usable.on.is_empty() {
                break;
            }
            let asked = self.0.entry(parent.to_owned()).or_default();
            asked.ask_for(tree, parent, &usable.on, now);
            for (name, (_, error)) in &asked.refused {
                if usable.on.contains(name) {
                    usable.refused.insert(name.clone(), error.clone());
                }
            }
            usable.on.retain(|name| asked.on.contains(name));
        }
        usable
    }

    /// The group is gone.
    pub fn forget(&mut self, path: &str) {
        self.0.remove(path);
    }
}

impl ControllerRequest {
    /// Turns on what is not on yet and was not refused just now.
    fn ask_for(&mut self, tree: &Tree, group: &str, controllers: &[String], now: Instant) {
        self.refused.retain(|_, (at, _)| now.duration_since(*at) < ASKED_APART);
        let is_new = |name: &&str| !self.on.contains(*name) && !self.refused.contains_key(*name);
        let new: Vec<&str> = controllers.iter().map(String::as_str).filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        let refused = match tree.make(group) {
            Ok(_) => tree.enable_controllers(group, &new),
            Err(e) => new.iter().map(|name| ((*name).to_owned(), e.clone())).collect(),
        };
        self.refused.extend(refused.into_iter().map(|(name, error)| (name, (now, error))));
        let is_on = |name: &&str| !self.refused.contains_key(*name);
        self.on.extend(new.into_iter().filter(is_on).map(str::to_owned));
    }
}

impl Usable {
    /// Those that are on.
    pub fn on(&self) -> &[String] {
        &self.on
    }

    /// A setting that takes a controller which is not on.
    pub fn lacks(&self, setting: &str, controller: &str) -> NotApplied {
        let why = match self.refused.get(controller) {
            Some(error) => format!("cannot enable the cgroup controller {controller}: {error}"),
            None => format!("this machine has no cgroup controller {controller}"),
        };
        NotApplied { setting: setting.to_owned(), why }
    }

    /// Writes the attributes of a group; returns the settings that could not be applied.
    pub fn apply(&self, tree: &Tree, path: &str, attributes: &[Attribute]) -> Vec<NotApplied> {
        attributes.iter().filter_map(|attribute| self.apply_one(tree, path, attribute)).collect()
    }

    fn apply_one(&self, tree: &Tree, path: &str, attribute: &Attribute) -> Option<NotApplied> {
        let Attribute { setting, controller, file, value } = attribute;
        if !self.on.iter().any(|name| name == controller) {
            // The default TasksMax= of every unit would be reported.
            return (*setting != "TasksMax").then(|| self.lacks(setting, controller));
        }
        let why = match value {
            None => "its device does not exist or is not a disk".to_owned(),
            Some(value) => tree.write(path, file, value).err()?.to_string(),
        };
        Some(NotApplied { setting: (*setting).to_owned(), why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file of each group as if the kernel had made it; one that lacks it refuses.
    #[test]
    fn controllers_are_asked_for_until_they_are_on_but_not_all_the_time() {
        let scratch = crate::base::scratch::Scratch::new("controllers");
        let control = |group: &str| scratch.0.join(group).join("cgroup.subtree_control");
        let make = |group: &str| {
            std::fs::create_dir_all(scratch.0.join(group)).expect("a directory");
            std::fs::write(control(group), "").expect("a file");
        };
        let asked = |group: &str| !std::fs::read(control(group)).expect("a file").is_empty();
        let tree = Tree::open(&scratch.0).expect("a directory");
        let mut enabled = Enabled::default();
        let start = Instant::now();
        let mut on_after = |seconds: u64, path: &str| {
            enabled.enable(&tree, path, &["memory", "pids"], start + Duration::from_secs(seconds))
        };
        let mut on = |path: &str| on_after(0, path);
        let none: [&str; 0] = [];
        make("");
        make("a.slice");
        assert_eq!(on("a.slice/x.service").on(), ["memory", "pids"]);
        assert!(asked("a.slice"));
        make("a.slice");
        assert_eq!(on("a.slice/y.service").on(), ["memory", "pids"]);
        assert!(!asked("a.slice"), "they are on");
        let refused = on("b.slice/x.service");
        assert_eq!(refused.on(), none);
        let why = refused.lacks("MemoryMax", "memory").why;
        assert!(why.starts_with("cannot enable the cgroup controller memory: "), "{why}");
        assert_eq!(refused.lacks("IOWeight", "io").why, "this machine has no cgroup controller io");
        make("b.slice");
        let still = on("b.slice/y.service");
        assert_eq!((still.on(), asked("b.slice")), (&[][..], false), "it was asked just now");
        assert_eq!(still.lacks("MemoryMax", "memory").why, why);
        assert_eq!(on("z.service").on(), ["memory", "pids"]);
        let later = on_after(1, "b.slice/x.service");
        assert_eq!(later.on(), ["memory", "pids"], "what was in the way is over");
    }

    #[test]
    fn what_is_not_applied_says_why() {
        let scratch = crate::base::scratch::Scratch::new("attributes");
        std::fs::create_dir(scratch.0.join("a.service")).expect("a directory");
        let there = scratch.0.join("a.service/pids.max");
        std::fs::write(&there, "").expect("a file");
        let tree = Tree::open(&scratch.0).expect("a directory");
        let usable = Usable { on: vec!["io".into(), "pids".into()], refused: BTreeMap::new() };
        let attribute = |setting, controller, file, value: Option<&str>| Attribute {
            setting,
            controller,
            file,
            value: value.map(str::to_owned),
        };
        let attributes = [
            attribute("TasksMax", "pids", "pids.max", Some("7")),
            attribute("IOReadBandwidthMax", "io", "io.max", None),
            attribute("IOWeight", "io", "io.weight", Some("1")),
            attribute("CPUWeight", "cpu", "cpu.weight", Some("1")),
        ];
        let failed = usable.apply(&tree, "a.service", &attributes);
        assert_eq!(std::fs::read_to_string(there).expect("it is there"), "7");
        let settings: Vec<&str> = failed.iter().map(|failed| &*failed.setting).collect();
        assert_eq!(settings, ["IOReadBandwidthMax", "IOWeight", "CPUWeight"]);
        assert_eq!(failed[0].why, "its device does not exist or is not a disk");
        assert!(failed[1].why.contains("io.weight"), "{}", failed[1].why);
        assert_eq!(failed[2].why, "this machine has no cgroup controller cpu");
        let tasks = [attribute("TasksMax", "pids", "pids.max", Some("7"))];
        assert_eq!(Usable::default().apply(&tree, "a.service", &tasks), []);
    }
}
