//! `plan` and `diff`: what a revision is against another one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use serde_json::json;
use warren_hosts::digest::Digest;
use warren_hosts::host::{Facts, Host};
use warren_hosts::names::HostId;
use warren_hosts::placement::{Claim, Copies, Place, Replicated, held, holders, settled};
use warren_hosts::plan::{Change, Plan, Planned, Rules, plan as compare};
use warren_hosts::revision::Files;
use warren_sys::progress::during;

use super::revisions::{Temporary, find_revision, known_files};
use super::text::{JSON_VERSION, count_of, print};
use crate::rules::{Evaluated, RestartCheck, may_have_copies, read_directory, write_directory};
use crate::site::Site;

/// Units that are listed of many.
const LISTED_MAX: usize = 10;

/// Hosts that are named of many.
const NAMED_MAX: usize = 5;

pub(super) fn diff(site: &Site, old: &str, new: &str) -> Result<i32> {
    let (old, new) = (find_revision(site, old)?, find_revision(site, new)?);
    if old == new {
        return Ok(0);
    }
    // Side by side, so that names are as short as those of revisions.
    let directory = Temporary::new(&old.short(), &site.files(old)?)?;
    let beside = directory.0.with_file_name(new.short());
    write_directory(&beside, &site.files(new)?).with_context(|| beside.display().to_string())?;
    let mut diff = Command::new("diff");
    diff.args(["-ruN", "--", &old.short(), &new.short()])
        .current_dir(beside.parent().unwrap_or(&beside));
    let status = diff.status().context("diff(1) is not installed")?;
    Ok(status.code().unwrap_or(2))
}

pub(super) fn plan(
    site: &Site,
    new: &str,
    against: Option<&str>,
    all: bool,
    is_json: bool,
) -> Result<i32> {
    let files = match Path::new(new).is_dir() {
        true => read_directory(Path::new(new)).map_err(|why| anyhow!(why))?,
        false => site.files(find_revision(site, new)?)?,
    };
    let before = match against {
        Some(revision) => Before::Revision(find_revision(site, revision)?),
        None => Before::Each,
    };
    let (plan, count, homeless) = over_all_hosts(site, before, &files)?;
    match is_json {
        true => print_json(&plan, &homeless),
        false => print(&(text(&plan, count, all) + &homeless_text(&homeless))),
    }
    Ok(i32::from(plan.fault().is_some()))
}

/// What is compared with.
#[derive(Clone, Copy)]
pub(super) enum Before {
    /// What each host has: after a rollout that was stopped these are several.
    Each,
    /// One revision for all.
    Revision(Digest),
}

/// What files would change on all hosts that are there, how many these are, and copies without room.
pub(super) fn over_all_hosts(
    site: &Site,
    before: Before,
    files: &Files,
) -> Result<(Plan, usize, Homeless)> {
    let new_directory = Temporary::new("after", files)?;
    let new = Evaluated::new(new_directory.0.clone(), files, 1);
    let (mut hosts, homeless) = planned(site, &new, files)?;
    let count = hosts.len();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let check = RestartCheck::default();
    let is_needed = |unit: &str, before: &str, after: &str| check.is_needed(unit, before, after);
    let what = format!("Comparing the units of {count} hosts");
    let mut plan = Plan::default();
    for (revision, ids) in by_revision(site, before, hosts.keys())? {
        let of_revision: BTreeMap<HostId, Planned> =
            ids.into_iter().filter_map(|id| hosts.remove_entry(&id)).collect();
        let known = |revision| known_files(site, revision, "all their units are shown as new");
        let files = revision.map(known).transpose()?.flatten();
        let directory = files.as_ref().map(|files| Temporary::new("before", files)).transpose()?;
        let old = directory.as_ref().zip(files.as_ref());
        let old = old.map(|(directory, files)| Evaluated::new(directory.0.clone(), files, 1));
        let old = old.as_ref().map(|old| old as &dyn Rules);
        plan.extend(during(&what, false, || compare(old, &new, &of_revision, threads, &is_needed)));
    }
    Ok((plan, count, homeless))
}

/// Hosts by the revision that each is compared with.
fn by_revision<'h>(
    site: &Site,
    before: Before,
    hosts: impl Iterator<Item = &'h HostId>,
) -> Result<BTreeMap<Option<Digest>, Vec<HostId>>> {
    let all = match before {
        Before::Each => site.hosts()?,
        Before::Revision(_) => BTreeMap::new(),
    };
    let mut out: BTreeMap<Option<Digest>, Vec<HostId>> = BTreeMap::new();
    for id in hosts {
        let revision = match before {
            Before::Each => all.get(id).and_then(|host| host.report.as_ref()?.applied),
            Before::Revision(revision) => Some(revision),
        };
        out.entry(revision).or_default().push(id.clone());
    }
    Ok(out)
}

/// What is wrong with rules, on any host that is there; where there is none, on one that nothing is known of.
pub(super) fn first_fault(site: &Site, files: &Files) -> Result<Option<String>> {
    let directory = Temporary::new("rules", files)?;
    let rules = Evaluated::new(directory.0.clone(), files, 1);
    let (mut hosts, _) = planned(site, &rules, files)?;
    if hosts.is_empty() {
        let id = rustix::system::uname().nodename().to_string_lossy().parse();
        hosts.extend(id.ok().map(|id: HostId| (id, Planned::default())));
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let what = format!("Evaluating the rules for {} hosts", hosts.len());
    let plan = during(&what, false, || compare(None, &rules, &hosts, threads, &|_, _, _| false));
    Ok(plan.fault().map(|(id, why)| format!("{why} (on {id})")))
}

/// How many copies of a container no host has room for, of how many.
pub(super) type Homeless = BTreeMap<String, (u32, u32)>;

/// The hosts that are there, with the copies that they run and will run, and copies for which there is no room.
fn planned(
    site: &Site,
    new: &Evaluated,
    files: &Files,
) -> Result<(BTreeMap<HostId, Planned>, Homeless)> {
    let hosts = site.hosts()?;
    let facts = hosts
        .iter()
        .filter_map(|(id, host)| Some((id.clone(), host.registration.as_ref()?.facts.clone())));
    let facts: BTreeMap<HostId, Facts> = facts.collect();
    let claims = site.claims()?;
    let mut then = BTreeMap::new();
    let mut homeless = Homeless::new();
    if let Some(some) = facts.values().next().filter(|_| may_have_copies(files)) {
        // What has faults is found for each host by the plan itself.
        let apps = new.replicated(&new.named().prelude(some, &Copies::new())).unwrap_or_default();
        then = settled(&apps, &places(&hosts), &claims);
        homeless = without_room(&apps, &then);
    }
    let host = |(id, facts): (HostId, Facts)| {
        let (now, then) = (held(&id, &claims), then.remove(&id).unwrap_or_default());
        (id, Planned { facts, now, then })
    };
    Ok((facts.into_iter().map(host).collect(), homeless))
}

/// Hosts that are there, as those that may take copies.
pub(super) fn places(hosts: &BTreeMap<HostId, Host>) -> BTreeMap<HostId, Place> {
    let place = |(id, host): (&HostId, &Host)| {
        let facts = &host.registration.as_ref()?.facts;
        let (capacity, labels) = (facts.capacity, facts.labels.clone());
        Some((id.clone(), Place { capacity, labels, is_drained: host.drained.is_some() }))
    };
    hosts.iter().filter_map(place).collect()
}

/// Containers with copies, by the rules that a host has in force; none if that is not known.
///
/// # Errors
/// The store does not answer, or the rules have faults.
pub(super) fn replicated_on(site: &Site, host: &Host) -> Result<Option<Vec<Replicated>>> {
    let revision = host.report.as_ref().and_then(|report| report.applied);
    let facts = host.registration.as_ref().map(|registration| &registration.facts);
    let Some((revision, facts)) = revision.zip(facts) else { return Ok(None) };
    let words = "why copies are left is not known";
    let Some(files) = known_files(site, revision, words)? else { return Ok(None) };
    replicated(&files, facts).map(Some)
}

fn replicated(files: &Files, facts: &Facts) -> Result<Vec<Replicated>> {
    if !may_have_copies(files) {
        return Ok(Vec::new());
    }
    let directory = Temporary::new("current", files)?;
    let rules = Evaluated::new(directory.path(), files, 1);
    rules
        .replicated(&rules.named().prelude(facts, &Copies::new()))
        .map_err(|why| anyhow!("the current rules have faults: {why}"))
}

/// Copies of the current revision that no host runs, of how many.
pub(super) fn copies_that_run_nowhere(site: &Site) -> Result<Homeless> {
    let releases = site.releases()?;
    let current = site.current()?;
    let revision = current.and_then(|current| releases.get(&current.release)?.meant(current.back));
    let Some(files) = revision.map(|revision| site.files(revision)).transpose()? else {
        return Ok(Homeless::new());
    };
    let hosts = site.hosts()?;
    let facts = hosts.values().find_map(|host| Some(&host.registration.as_ref()?.facts));
    let Some(facts) = facts else { return Ok(Homeless::new()) };
    let apps = replicated(&files, facts)?;
    let claims = site.claims()?;
    let there = claims.iter().filter(|claim| hosts.get(&claim.host).is_some_and(Host::is_there));
    let there: Vec<Claim> = there.cloned().collect();
    let mut run: BTreeMap<HostId, Copies> = BTreeMap::new();
    for ((app, slot), host) in holders(&there) {
        run.entry(host.clone()).or_default().entry(app.to_owned()).or_default().push(slot);
    }
    Ok(without_room(&apps, &run))
}

fn without_room(apps: &[Replicated], then: &BTreeMap<HostId, Copies>) -> Homeless {
    let missing = |app: &Replicated| {
        let placed: usize =
            then.values().filter_map(|copies| copies.get(&app.name)).map(Vec::len).sum();
        let missing = app.replicas.saturating_sub(u32::try_from(placed).unwrap_or(u32::MAX));
        (missing > 0).then(|| (app.name.clone(), (missing, app.replicas)))
    };
    apps.iter().filter_map(missing).collect()
}

fn homeless_text(homeless: &Homeless) -> String {
    let line = |(app, (missing, all)): (&String, &(u32, u32))| {
        format!(
            "No host has room for {missing} of {all} copies of {app}: raise Capacity= of hosts.\n"
        )
    };
    homeless.iter().map(line).collect()
}

fn print_json(plan: &Plan, homeless: &Homeless) {
    for (app, (missing, all)) in homeless {
        let line = json!({ "format": JSON_VERSION, "container": app, "copies": all, "without_room": missing });
        print(&format!("{line}\n"));
    }
    for group in &plan.groups {
        let line = match &group.change {
            Ok(change) => json!({
                "format": JSON_VERSION, "hosts": group.hosts, "added": change.added, "changed": change.changed,
                "removed": change.removed, "restarted": change.restarted.keys().collect::<Vec<_>>(),
            }),
            Err(why) => json!({ "format": JSON_VERSION, "hosts": group.hosts, "fault": why }),
        };
        print(&format!("{line}\n"));
    }
}

fn text(plan: &Plan, hosts: usize, all: bool) -> String {
    let mut out = String::new();
    for group in &plan.groups {
        let named: Vec<String> =
            group.hosts.iter().take(NAMED_MAX).map(|id| id.to_string()).collect();
        let more = match group.hosts.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        out += &format!("{}: {}{more}\n", count_of(group.hosts.len(), "host"), named.join(", "));
        match &group.change {
            Err(why) => out += &format!("  the rules have faults: {why}\n"),
            Ok(change) if change.is_empty() => out += "  nothing changes\n",
            Ok(change) => out += &lines(change, all),
        }
    }
    let times = if plan.evaluations == 1 { "time" } else { "times" };
    out += &format!(
        "{}; the rules were evaluated {} {times}.\n",
        count_of(hosts, "host"),
        plan.evaluations
    );
    out
}

fn lines(change: &Change, all: bool) -> String {
    let mut out = String::new();
    for (sign, files) in [('+', &change.added), ('~', &change.changed), ('-', &change.removed)] {
        let most = if all { files.len() } else { LISTED_MAX };
        for file in files.iter().take(most) {
            let unit = file.split_once(".d/").map_or(&**file, |(unit, _)| unit);
            let restarts = match change.restarted.contains_key(unit) {
                true if unit == &**file => "  (restart)".to_owned(),
                true => format!("  (restart of {unit})"),
                false => String::new(),
            };
            out += &format!("  {sign} {file}{restarts}\n");
        }
        if files.len() > most {
            out += &format!("  {sign} and {} more\n", files.len() - most);
        }
    }
    match change.restarted.len() {
        0 if change.changed.is_empty() => {}
        0 => out += "  nothing has to be restarted for that\n",
        n => out += &format!("  {} restarted where they run\n", count_of(n, "unit")),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_without_room_are_counted() {
        let app =
            |name: &str, replicas| Replicated { name: name.to_owned(), replicas, spread: None };
        let host = |name: &str, slots: &[u32]| {
            let copies = Copies::from([("cart".to_owned(), slots.to_vec())]);
            (name.parse::<HostId>().expect("a name"), copies)
        };
        let then = BTreeMap::from([host("h1", &[0, 2]), host("h2", &[1])]);
        let homeless = without_room(&[app("cart", 5), app("none", 0)], &then);
        let text = "No host has room for 2 of 5 copies of cart: raise Capacity= of hosts.\n";
        assert_eq!(homeless_text(&homeless), text);
        assert_eq!(without_room(&[app("cart", 3)], &then), Homeless::new());
    }
    #[test]
    fn a_plan_says_what_is_restarted() {
        let file = |name: &str| Box::<str>::from(name);
        let shop = warren_hosts::apps::apps("shop", &[]);
        let change = Change {
            added: vec![file("b.service.d/x.conf"), file("n.service")],
            changed: vec![file("a.service"), file("c.service")],
            removed: vec![file("o.service")],
            restarted: BTreeMap::from([
                (file("a.service"), shop.clone()),
                (file("b.service"), shop),
            ]),
        };
        let text = "  + b.service.d/x.conf  (restart of b.service)\n  + n.service\n  ~ a.service  (restart)\n  \
                    ~ c.service\n  - o.service\n  2 units restarted where they run\n";
        assert_eq!(lines(&change, false), text);
        let none = Change { changed: vec![file("a.service")], ..Change::default() };
        assert!(
            lines(&none, false).ends_with("a.service\n  nothing has to be restarted for that\n")
        );
    }
}
