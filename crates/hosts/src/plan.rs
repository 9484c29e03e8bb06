//! What another revision would change, over all hosts.
//!
//! Rules are evaluated by whoever asks for the plan; here hosts are put together for which they come out the same, and
//! what is made is compared.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::apps::Apps;
use crate::host::Facts;
use crate::machine::Named;
use crate::names::HostId;
use crate::placement::Copies;
use crate::policy::Policy;
use crate::rollout::{AppLimit, AppUnits};

/// Bounded applications times hosts: they are written with the rollout, again and again.
pub const LIMITED_MAX: usize = 10_000;

/// A unit file that rules make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MadeFile {
    /// What it says.
    pub text: Arc<str>,
    /// The applications that the unit belongs to.
    pub apps: Apps,
}

/// Unit files that rules make, by path.
pub type Made = BTreeMap<Box<str>, MadeFile>;

/// Whether a unit that runs by one text of a file has to be restarted to run by another one.
pub type Restarts<'r> = &'r (dyn Fn(&str, &str, &str) -> bool + Sync);

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
    /// Units that are restarted where they run, with their applications.
    pub restarted: BTreeMap<Box<str>, Apps>,
}

/// How many services there are of the same applications.
pub type Services = BTreeMap<Apps, u32>;

fn services(made: &Made) -> Services {
    let mut out = Services::new();
    for (_, file) in made.iter().filter(|(path, _)| path.ends_with(".service")) {
        *out.entry(file.apps.clone()).or_default() += 1;
    }
    out
}

impl Change {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    fn between(before: &Made, after: &Made, restarts: Restarts<'_>) -> Change {
        let mut change = Change::default();
        for (path, file) in after {
            match before.get(path) {
                None => change.added.push(path.clone()),
                Some(old) if old.text != file.text => change.changed.push(path.clone()),
                Some(_) => {}
            }
        }
        change.restarted = restarted(before, after, restarts);
        let is_gone = |path: &&str| !after.contains_key(*path);
        change.removed = before.keys().map(|path| &**path).filter(is_gone).map(Box::from).collect();
        change
    }
}

/// Units that were there, and have to be restarted for what their own files or drop-ins say now.
fn restarted(before: &Made, after: &Made, restarts: Restarts<'_>) -> BTreeMap<Box<str>, Apps> {
    let mut out = BTreeMap::new();
    let paths = after.keys().chain(before.keys().filter(|path| !after.contains_key(*path)));
    for path in paths {
        let (unit, is_dropin) = match path.split_once(".d/") {
            Some((unit, _)) => (unit, true),
            None => (&**path, false),
        };
        let [old, new] = [before, after].map(|made| made.get(path).map(|file| &*file.text));
        let files = match (old, new) {
            (Some(old), Some(new)) => (old, new),
            // A unit that comes or goes is not restarted; one that gets or loses a drop-in may be.
            (old, new) if is_dropin && before.contains_key(unit) == after.contains_key(unit) => {
                (old.unwrap_or_default(), new.unwrap_or_default())
            }
            _ => continue,
        };
        if files.0 != files.1 && restarts(unit, files.0, files.1) {
            let made = after.get(unit).or_else(|| after.get(path)).or_else(|| before.get(path));
            out.extend(made.map(|file| (Box::from(unit), file.apps.clone())));
        }
    }
    out
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
    /// Services that there are afterwards, with the hosts on which there are as many.
    pub services: Vec<(Vec<HostId>, Services)>,
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

impl Plan {
    /// With what changes on other hosts.
    pub fn extend(&mut self, other: Plan) {
        self.groups.extend(other.groups);
        self.groups.sort_by_key(|group| std::cmp::Reverse(group.hosts.len()));
        self.evaluations += other.evaluations;
        self.services.extend(other.services);
    }

    /// The first fault of rules, with a host that has it.
    pub fn fault(&self) -> Option<(&HostId, &str)> {
        self.groups
            .iter()
            .find_map(|group| Some((group.hosts.first()?, &**group.change.as_ref().err()?)))
    }

    /// Units of bounded applications on each host, for a rollout that keeps to the bounds.
    ///
    /// # Errors
    /// There are more than a rollout can carry, in words.
    pub fn limits(&self, policy: &Policy) -> Result<BTreeMap<String, AppLimit>, String> {
        let mut out: BTreeMap<String, AppLimit> = BTreeMap::new();
        let mut pairs = 0;
        let mut of = |(app, most): (&str, u32), hosts: &[HostId], units: AppUnits| {
            let limit = out.entry(app.to_owned());
            let limit = limit.or_insert_with(|| AppLimit { most, hosts: BTreeMap::new() });
            for id in hosts {
                let known = limit.hosts.entry(id.clone()).or_insert_with(|| {
                    pairs += 1;
                    AppUnits::default()
                });
                known.all = known.all.max(units.all);
                known.at_work = known.at_work.max(units.at_work.min(most));
            }
        };
        for (hosts, services) in &self.services {
            let services = services.iter().map(|(apps, all)| (apps, *all));
            for (bound, all) in bounded(policy, services) {
                of(bound, hosts, AppUnits { at_work: 0, all });
            }
        }
        for group in &self.groups {
            let restarted = group.change.iter().flat_map(|change| change.restarted.values());
            for (bound, at_work) in bounded(policy, restarted.map(|apps| (apps, 1))) {
                of(bound, &group.hosts, AppUnits { at_work, all: at_work });
            }
        }
        // What is restarted nowhere bounds nothing.
        out.retain(|_, limit| limit.hosts.values().any(|units| units.at_work > 0));
        match pairs > LIMITED_MAX {
            true => Err(format!(
                "the bounds concern {pairs} pairs of application and host, at most {LIMITED_MAX}: bound fewer \
                 applications, or hosts with --max-unavailable"
            )),
            false => Ok(out),
        }
    }
}

/// How many of these units each bound is about, with how many of them may be unavailable at once.
fn bounded<'a>(
    policy: &Policy,
    units: impl Iterator<Item = (&'a Apps, u32)>,
) -> BTreeMap<(&'a str, u32), u32> {
    let mut out = BTreeMap::new();
    for (apps, count) in units {
        for bound in policy.bounds_of(apps) {
            *out.entry(bound).or_default() += count;
        }
    }
    out
}

/// Compares two revisions over hosts, in so many threads.
pub fn plan(
    before: Option<&dyn Rules>,
    after: &dyn Rules,
    hosts: &BTreeMap<HostId, Planned>,
    threads: usize,
    restarts: Restarts<'_>,
) -> Plan {
    let prelude = |host: &Planned| {
        let old = before.map(|rules| rules.named().prelude(&host.facts, &host.now));
        (old, after.named().prelude(&host.facts, &host.then))
    };
    let alike = alike(hosts, prelude);
    let evaluations = alike.iter().map(|((old, _), _)| 1 + usize::from(old.is_some())).sum();
    let mut done = Plan { evaluations, ..Plan::default() };
    let compared =
        in_threads(&alike, threads, |(old, new)| compare((before, old), (after, new), restarts));
    for ((_, hosts), compared) in alike.into_iter().zip(compared) {
        let change = compared.map(|(change, services)| {
            done.services.push((hosts.clone(), services));
            change
        });
        done.groups.push(Group { hosts, change });
    }
    Plan { groups: joined(done.groups), ..done }
}

/// What rules make on hosts, each as `of` says of what it makes there, or the faults. Hosts that rules cannot tell apart
/// stand together.
pub fn made<T: Send>(
    rules: &dyn Rules,
    hosts: &BTreeMap<HostId, (Facts, Copies)>,
    threads: usize,
    of: impl Fn(Made) -> T + Sync,
) -> Vec<(Vec<HostId>, Result<T, String>)> {
    let alike = alike(hosts, |(facts, copies)| rules.named().prelude(facts, copies));
    let made = in_threads(&alike, threads, |prelude| rules.evaluate(prelude).map(&of));
    alike.into_iter().map(|(_, hosts)| hosts).zip(made).collect()
}

/// Hosts that have the same before their rules.
fn alike<H, K: Ord>(hosts: &BTreeMap<HostId, H>, key: impl Fn(&H) -> K) -> Vec<(K, Vec<HostId>)> {
    let mut alike: BTreeMap<K, Vec<HostId>> = BTreeMap::new();
    for (id, host) in hosts {
        alike.entry(key(host)).or_default().push(id.clone());
    }
    alike.into_iter().collect()
}

/// What `work` makes of each, in so many threads.
fn in_threads<K: Sync, T: Send>(
    alike: &[(K, Vec<HostId>)],
    threads: usize,
    work: impl Fn(&K) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, T>> = Mutex::default();
    let turn = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((key, _)) = alike.get(at) else { return };
            let made = work(key);
            done.lock().unwrap_or_else(|e| e.into_inner()).insert(at, made);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(turn);
        }
        turn();
    });
    done.into_inner().unwrap_or_else(|e| e.into_inner()).into_values().collect()
}

fn compare(
    (before, old): (Option<&dyn Rules>, &Option<String>),
    (after, new): (&dyn Rules, &str),
    restarts: Restarts<'_>,
) -> Result<(Change, Services), String> {
    let made = match (before, old) {
        (Some(rules), Some(prelude)) => rules
            .evaluate(prelude)
            .map_err(|why| format!("those in force now cannot be compared with: {why}"))?,
        _ => Made::new(),
    };
    after.evaluate(new).map(|after| (Change::between(&made, &after, restarts), services(&after)))
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
    use crate::apps::apps;

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
            let file = |text: &str, app: &str| MadeFile { text: text.into(), apps: apps(app, &[]) };
            let (shop, same) = (file(prelude, "shop"), file("", "other"));
            Ok(Made::from([(self.text.into(), shop), ("same.service".into(), same)]))
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

    /// A unit has to be restarted if its file has another number of bytes.
    fn restarts(_: &str, before: &str, after: &str) -> bool {
        before.len() != after.len()
    }

    #[test]
    fn hosts_that_rules_cannot_tell_apart_are_evaluated_once() {
        let hosts = hosts(1000);
        let (old, new) = (Fake::new("a"), Fake::new("machine.labels.role"));
        let plan = plan(Some(&old), &new, &hosts, 2, &restarts);
        assert_eq!(plan.evaluations, 4);
        assert_eq!(plan.groups.len(), 1);
        let change = plan.groups[0].change.as_ref().expect("a change");
        assert_eq!((change.added.len(), change.removed.len(), change.changed.len()), (1, 1, 0));
        let by_name = Fake::new("machine.name");
        assert_eq!(super::plan(None, &by_name, &hosts, 2, &restarts).evaluations, 1000);
    }

    #[test]
    fn faults_belong_to_the_hosts_that_have_them() {
        let faulty = Fake::new("fault machine.labels.role");
        let plan = plan(None, &faulty, &hosts(9), 1, &restarts);
        let sizes: Vec<_> = plan.groups.iter().map(|g| (g.hosts.len(), g.change.is_ok())).collect();
        assert_eq!(sizes, [(6, false), (3, true)]);
    }

    #[test]
    fn copies_that_will_run_are_planned_with() {
        let rules = Fake::new("replicas");
        let mut hosts = hosts(3);
        let some = hosts.values_mut().next().expect("a host");
        some.then = Copies::from([("shop".to_owned(), vec![1])]);
        let plan = plan(Some(&rules), &rules, &hosts, 1, &restarts);
        let changes: Vec<_> =
            plan.groups.iter().map(|g| g.change.as_ref().map(Change::is_empty)).collect();
        assert_eq!(changes, [Ok(true), Ok(false)]);
    }

    #[test]
    fn rules_in_force_with_faults_are_said() {
        let (faulty, new) =
            (Fake::new("fault machine.labels.role"), Fake::new("machine.labels.role"));
        let plan = plan(Some(&faulty), &new, &hosts(3), 1, &restarts);
        let why = plan.groups[0].change.as_ref().expect_err("a fault");
        assert_eq!(why, "those in force now cannot be compared with: a fault");
    }

    #[test]
    fn nothing_changes_where_texts_are_the_same() {
        let rules = Fake::new("machine.labels.role");
        let plan = plan(Some(&rules), &rules, &hosts(10), 1, &restarts);
        assert_eq!(plan.groups.len(), 1);
        assert!(plan.groups[0].change.as_ref().is_ok_and(Change::is_empty));
    }

    #[test]
    fn what_is_restarted_is_said_and_bounded() {
        let file = |text: &str| MadeFile { text: text.into(), apps: apps("shop", &["all".into()]) };
        let made = |files: &[(&str, &str)]| -> Made {
            files.iter().map(|(path, text)| ((*path).into(), file(text))).collect()
        };
        let before = made(&[
            ("same.service", "1"),
            ("other.service", "1"),
            ("longer.service", "1"),
            ("gone.service", "1"),
            ("lost.service", "1"),
            ("lost.service.d/a.conf", "11"),
            ("gone.service.d/a.conf", "11"),
        ]);
        let after = made(&[
            ("same.service", "1"),
            ("other.service", "2"),
            ("longer.service", "11"),
            ("lost.service", "1"),
            ("longer.service.d/a.conf", "1"),
            ("new.service", "1"),
            ("new.service.d/a.conf", "11"),
            ("strange.service.d/a.conf", "11"),
        ]);
        let change = Change::between(&before, &after, &restarts);
        let units: Vec<&str> = change.restarted.keys().map(|unit| &**unit).collect();
        assert_eq!(units, ["longer.service", "lost.service", "strange.service"]);
        let groups = vec![Group { hosts: hosts(3).into_keys().collect(), change: Ok(change) }];
        let services = vec![(hosts(2).into_keys().collect(), services(&after))];
        let plan = Plan { groups, evaluations: 1, services };
        let limits = plan.limits(&policy(&[("shop", 2), ("all", 9)])).expect("few");
        let of = |app: &str| -> Vec<(u32, u32)> {
            limits[app].hosts.values().map(|units| (units.at_work, units.all)).collect()
        };
        assert_eq!(of("shop"), [(2, 5), (2, 5), (2, 3)]);
        assert_eq!(of("all"), [(3, 5), (3, 5), (3, 3)]);
        assert!(plan.limits(&policy(&[])).expect("none").is_empty());
        let hosts = hosts(LIMITED_MAX + 1).into_keys().collect();
        let plan = Plan { services: vec![(hosts, super::services(&after))], ..plan };
        assert!(plan.limits(&policy(&[("*", 1)])).is_err());
    }

    fn policy(bounds: &[(&str, u32)]) -> Policy {
        let of = bounds.iter().map(|(app, most)| ((*app).to_owned(), *most)).collect();
        Policy { max_unavailable_of: of, ..Policy::default() }
    }

    /// What a container is bounded to and what its group is, one host has both of.
    #[test]
    fn units_of_a_group_are_those_of_all_its_containers() {
        let unit = |name: &str, app: &str, groups: &[&str]| {
            let groups: Vec<Arc<str>> = groups.iter().map(|group| (*group).into()).collect();
            (Box::<str>::from(name), MadeFile { text: "1".into(), apps: apps(app, &groups) })
        };
        let before = Made::from([
            unit("cart-a.service", "cart", &["shop"]),
            unit("cart-b.service", "cart", &["shop"]),
            unit("pay-a.service", "pay", &["shop"]),
            unit("blog-a.service", "blog", &[]),
        ]);
        let mut after = before.clone();
        for name in ["cart-a.service", "pay-a.service", "blog-a.service"] {
            after.get_mut(name).expect("it").text = "11".into();
        }
        let change = Change::between(&before, &after, &restarts);
        let ids: Vec<HostId> = hosts(2).into_keys().collect();
        let plan = Plan {
            groups: vec![Group { hosts: ids.clone(), change: Ok(change) }],
            evaluations: 1,
            services: vec![(ids, services(&after))],
        };
        let shown = |bounds: &[(&str, u32)]| -> Vec<String> {
            let limits = plan.limits(&policy(bounds)).expect("few");
            let line = |(app, limit): (String, AppLimit)| {
                let AppUnits { at_work, all } = *limit.hosts.values().next().expect("a host");
                format!("{app}<={}: {at_work} of {all} on {}", limit.most, limit.hosts.len())
            };
            limits.into_iter().map(line).collect()
        };
        assert_eq!(shown(&[("shop", 9)]), ["shop<=9: 2 of 3 on 2"]);
        assert_eq!(
            shown(&[("shop", 1), ("cart", 2)]),
            ["cart<=2: 1 of 2 on 2", "shop<=1: 1 of 3 on 2"]
        );
        // A group is bounded by its name alone.
        assert_eq!(
            shown(&[("*", 4)]),
            ["blog<=4: 1 of 1 on 2", "cart<=4: 1 of 2 on 2", "pay<=4: 1 of 1 on 2"]
        );
    }

    #[test]
    fn what_rules_make_is_asked_once_for_hosts_that_are_alike() {
        let rules = Fake::new("fault machine.labels.role");
        let hosts = hosts(9).into_iter().map(|(id, host)| (id, (host.facts, host.now))).collect();
        let made = made(&rules, &hosts, 2, |made| made.len());
        let sizes: Vec<_> = made.iter().map(|(hosts, made)| (hosts.len(), made.is_ok())).collect();
        assert_eq!(sizes, [(3, true), (6, false)]);
    }
}
