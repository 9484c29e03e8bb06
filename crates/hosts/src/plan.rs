//! What another revision would change, over all hosts.
//!
//! Rules are evaluated by whoever asks for the plan; here hosts are put together for which they come out the same, and
//! what is made is compared. Of a unit only the digest of its text is kept.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::digest::Digest;
use crate::host::Facts;
use crate::machine::Named;
use crate::names::HostId;
use crate::placement::Copies;

/// Unit files that rules make, by path, with the digests of their texts.
pub type Made = BTreeMap<Box<str>, Digest>;

/// Rules of one revision, to be evaluated for a host: what comes before them is given, faults come back in words.
pub trait Rules: Sync {
    /// What of a host the rules name.
    fn named(&self) -> &Named;

    /// Evaluates them.
    ///
    /// # Errors
    /// The faults, for people.
    fn evaluate(&self, prelude: &str) -> Result<Made, String>;
}

/// What changes on some hosts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Unit files that are new.
    pub added: Vec<Box<str>>,
    /// Unit files whose text differs.
    pub changed: Vec<Box<str>>,
    /// Unit files that go.
    pub removed: Vec<Box<str>>,
}

impl Change {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    fn between(before: &Made, after: &Made) -> Change {
        let mut change = Change::default();
        for (path, digest) in after {
            match before.get(path) {
                None => change.added.push(path.clone()),
                Some(old) if old != digest => change.changed.push(path.clone()),
                Some(_) => {}
            }
        }
        let is_gone = |path: &&str| !after.contains_key(*path);
        change.removed = before.keys().map(|path| &**path).filter(is_gone).map(Box::from).collect();
        change
    }
}

/// Hosts on which the same changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Them.
    pub hosts: Vec<HostId>,
    /// What changes there, or why the rules cannot be evaluated for them.
    pub change: Result<Change, String>,
}

/// What would change where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// Hosts by what changes there, the largest group first; of hosts without a change there is a group too.
    pub groups: Vec<Group>,
    /// How often rules were evaluated.
    pub evaluations: usize,
}

/// A host as rules see it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Planned {
    /// What it is.
    pub facts: Facts,
    /// Copies that it runs now.
    pub now: Copies,
    /// Copies that it will run.
    pub then: Copies,
}

/// Compares two revisions over hosts, in so many threads.
pub fn plan(
    before: Option<&dyn Rules>,
    after: &dyn Rules,
    hosts: &BTreeMap<HostId, Planned>,
    threads: usize,
) -> Plan {
    let mut alike: BTreeMap<(Option<String>, String), Vec<HostId>> = BTreeMap::new();
    for (id, host) in hosts {
        let old = before.map(|rules| rules.named().prelude(&host.facts, &host.now));
        let new = after.named().prelude(&host.facts, &host.then);
        alike.entry((old, new)).or_default().push(id.clone());
    }
    let alike: Vec<_> = alike.into_iter().collect();
    let evaluations = alike.iter().map(|((old, _), _)| 1 + usize::from(old.is_some())).sum();
    let next = AtomicUsize::new(0);
    let groups: Mutex<Vec<Group>> = Mutex::default();
    let work = || {
        while let Some(((old, new), hosts)) = alike.get(next.fetch_add(1, Ordering::Relaxed)) {
            let group = Group { hosts: hosts.clone(), change: compare(before, old, after, new) };
            groups.lock().unwrap_or_else(|e| e.into_inner()).push(group);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let groups = groups.into_inner().unwrap_or_else(|e| e.into_inner());
    Plan { groups: joined(groups), evaluations }
}

fn compare(
    before: Option<&dyn Rules>,
    old: &Option<String>,
    after: &dyn Rules,
    new: &str,
) -> Result<Change, String> {
    let made = match (before, old) {
        (Some(rules), Some(prelude)) => rules
            .evaluate(prelude)
            .map_err(|why| format!("those in force now cannot be compared with: {why}"))?,
        _ => Made::new(),
    };
    after.evaluate(new).map(|after| Change::between(&made, &after))
}

/// Hosts that differ in what the rules ask may still have the same change.
fn joined(groups: Vec<Group>) -> Vec<Group> {
    let mut out: Vec<Group> = Vec::new();
    for group in groups {
        match out.iter_mut().find(|other| other.change == group.change) {
            Some(other) => other.hosts.extend(group.hosts),
            None => out.push(group),
        }
    }
    out.iter_mut().for_each(|group| group.hosts.sort());
    out.sort_by(|a, b| b.hosts.len().cmp(&a.hosts.len()).then(a.hosts.cmp(&b.hosts)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules that make what their prelude says.
    struct Fake {
        named: Named,
        text: &'static str,
    }

    impl Fake {
        fn new(text: &'static str) -> Fake {
            Fake { named: Named::of([text.as_bytes()]), text }
        }
    }

    impl Rules for Fake {
        fn named(&self) -> &Named {
            &self.named
        }

        fn evaluate(&self, prelude: &str) -> Result<Made, String> {
            if self.text.contains("fault") && prelude.contains("web") {
                return Err("a fault".to_owned());
            }
            let digest = Digest::of(prelude.as_bytes());
            Ok(Made::from([(self.text.into(), digest), ("same".into(), Digest::of(b""))]))
        }
    }

    fn hosts(count: usize) -> BTreeMap<HostId, Planned> {
        let host = |n: usize| {
            let role = if n.is_multiple_of(3) { "db" } else { "web" };
            let labels = BTreeMap::from([("role".to_owned(), role.to_owned())]);
            let name = format!("h{n:04}");
            let id = name.parse().expect("a name");
            (
                id,
                Planned { facts: Facts { name, labels, ..Facts::default() }, ..Planned::default() },
            )
        };
        (0..count).map(host).collect()
    }

    #[test]
    fn hosts_that_rules_cannot_tell_apart_are_evaluated_once() {
        let hosts = hosts(1000);
        let (old, new) = (Fake::new("a"), Fake::new("machine.labels.role"));
        let plan = plan(Some(&old), &new, &hosts, 2);
        assert_eq!(plan.evaluations, 4);
        assert_eq!(plan.groups.len(), 1);
        let change = plan.groups[0].change.as_ref().expect("a change");
        assert_eq!((change.added.len(), change.removed.len(), change.changed.len()), (1, 1, 0));
        let by_name = Fake::new("machine.name");
        assert_eq!(super::plan(None, &by_name, &hosts, 2).evaluations, 1000);
    }

    #[test]
    fn faults_belong_to_the_hosts_that_have_them() {
        let faulty = Fake::new("fault machine.labels.role");
        let plan = plan(None, &faulty, &hosts(9), 1);
        let sizes: Vec<_> = plan.groups.iter().map(|g| (g.hosts.len(), g.change.is_ok())).collect();
        assert_eq!(sizes, [(6, false), (3, true)]);
    }

    #[test]
    fn copies_that_will_run_are_planned_with() {
        let rules = Fake::new("replicas");
        let mut hosts = hosts(3);
        let some = hosts.values_mut().next().expect("a host");
        some.then = Copies::from([("shop".to_owned(), vec![1])]);
        let plan = plan(Some(&rules), &rules, &hosts, 1);
        let changes: Vec<_> =
            plan.groups.iter().map(|g| g.change.as_ref().map(Change::is_empty)).collect();
        assert_eq!(changes, [Ok(true), Ok(false)]);
    }

    #[test]
    fn rules_in_force_with_faults_are_said() {
        let (faulty, new) =
            (Fake::new("fault machine.labels.role"), Fake::new("machine.labels.role"));
        let plan = plan(Some(&faulty), &new, &hosts(3), 1);
        let why = plan.groups[0].change.as_ref().expect_err("a fault");
        assert_eq!(why, "those in force now cannot be compared with: a fault");
    }

    #[test]
    fn nothing_changes_where_texts_are_the_same() {
        let rules = Fake::new("machine.labels.role");
        let plan = plan(Some(&rules), &rules, &hosts(10), 1);
        assert_eq!(plan.groups.len(), 1);
        assert!(plan.groups[0].change.as_ref().is_ok_and(Change::is_empty));
    }
}
