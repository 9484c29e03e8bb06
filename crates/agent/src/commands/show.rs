//! Commands that only show.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::json;
use warren_hosts::follower::Assignment;
use warren_hosts::host::{Drain, Host, Outcome};
use warren_hosts::names::HostId;
use warren_hosts::overview::{Cause, Standing, causes, differs, is_bad, standing};
use warren_hosts::placement::{Claim, left_on};
use warren_hosts::rollout::{Rollout, Tally};
use warren_sys::tell;

use super::plans::copies_that_run_nowhere;
use super::text::{clean, count_of, print};
use crate::site::Site;

/// Hosts that are named of many.
const NAMED_MAX: usize = 3;

/// Root causes on a screen.
const CAUSES_SHOWN: usize = 8;

/// Hosts out of service that are told of one by one.
const DRAINED_SHOWN: usize = 8;

/// How often a screen is drawn.
const TOP_EVERY: std::time::Duration = std::time::Duration::from_secs(2);

/// The version of the JSON that is printed.
const JSON_VERSION: u32 = 1;

/// A table with columns as wide as what is in them.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or_default()).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out += cells.join("  ").trim_end();
        out.push('\n');
    }
    out
}

fn time(us: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_micros(us);
    match at.elapsed() {
        Ok(ago) => format!("{} ago", span(ago.as_secs())),
        Err(_) => "in the future".to_owned(),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

pub(super) fn has_labels(host: &Host, labels: &[String]) -> bool {
    let facts = host.registration.as_ref().map(|registration| &registration.facts);
    labels.iter().all(|label| {
        let (name, value) = label.split_once('=').unwrap_or((label, ""));
        facts
            .and_then(|facts| facts.labels.get(name))
            .is_some_and(|of| value.is_empty() || of == value)
    })
}

/// What is worth saying of a host in a line; of one that is out of service with the claims of all hosts.
fn note(host: &Host, claims: &[Claim]) -> String {
    let drained = host.drained.as_ref();
    let drained = drained.map(|drain| drain_words(host, drain, claims));
    let said = Some(said_by(host)).filter(|said| !said.is_empty());
    drained.into_iter().chain(said).collect::<Vec<_>>().join("; ")
}

fn drain_words(host: &Host, drain: &Drain, claims: &[Claim]) -> String {
    let since = time(drain.at.saturating_mul(1_000_000));
    clean(&super::drain::words(drain, &since, left_on(&host.id, claims)))
}

/// All claims, if a host is out of service: then they say what is left there.
fn claims_if_drained(site: &Site, hosts: &BTreeMap<HostId, Host>) -> Result<Vec<Claim>> {
    match hosts.values().any(|host| host.drained.is_some()) {
        true => Ok(site.claims()?),
        false => Ok(Vec::new()),
    }
}

/// What a host says of itself.
fn said_by(host: &Host) -> String {
    if let Some(name) = &host.double {
        return format!("another machine has the same name; it calls itself {}", clean(name));
    }
    let Some(report) = &host.report else { return String::new() };
    if let Outcome::Held(why) | Outcome::Failed(why) | Outcome::Refused(why) = &report.outcome {
        return clean(why);
    }
    let failed = report.causes.first();
    let failed = failed.map(|cause| format!("{} {}", clean(&cause.code), clean(&cause.app)));
    let restarted = report.restarted.first().map(|first| clean(&first.words()));
    failed.into_iter().chain(restarted).collect::<Vec<_>>().join("; ")
}

/// How each host stands. Where no rollout is under way, one with another revision than the site is not as it should be.
fn standings(
    site: &Site,
    hosts: &BTreeMap<HostId, Host>,
    assigned: &BTreeMap<HostId, Assignment>,
) -> Result<BTreeMap<HostId, Standing>> {
    let is_under_way = site.rollout()?.is_some_and(|(_, rollout)| !rollout.is_over());
    let current = site.current()?;
    let releases = site.releases()?;
    let revision = current.and_then(|current| releases.get(&current.release)?.meant(current.back));
    // A release that is not in the store any more says nothing.
    let is_known = !is_under_way && (current.is_none() || revision.is_some());
    let of = |(id, host): (&HostId, &Host)| {
        let stands = match standing(host, assigned.get(id).copied()) {
            Standing::Fine if is_known && differs(host, revision) => Standing::Differs,
            stands => stands,
        };
        (id.clone(), stands)
    };
    Ok(hosts.iter().map(of).collect())
}

/// Hosts of which no root cause tells: `2 hosts are away: h1, h2`. Those that are out of service are not among them.
fn standing_lines(
    standings: &BTreeMap<HostId, Standing>,
    hosts: &BTreeMap<HostId, Host>,
) -> String {
    let kinds = [
        (Standing::Away, "away"),
        (Standing::Doubled, "doubled: two machines have one name"),
        (Standing::Behind, "behind"),
        (
            Standing::Differs,
            "on another revision than the site: warren-hosts resume, back or release",
        ),
    ];
    let mut out = String::new();
    for (kind, words) in kinds {
        let is_it = |(id, stands): &(&HostId, &Standing)| {
            **stands == kind && hosts.get(*id).is_none_or(|host| is_bad(kind, host))
        };
        let of = standings.iter().filter(is_it).map(|(id, _)| id);
        let (count, names) = named(of);
        match count {
            0 => {}
            1 => out += &format!("1 host is {words}\n  {names}\n"),
            n => out += &format!("{n} hosts are {words}\n  {names}\n"),
        }
    }
    out
}

/// Hosts that are out of service, each with who took it out: the first few of them.
fn drained_lines(hosts: &BTreeMap<HostId, Host>, claims: &[Claim]) -> String {
    let drained: Vec<(&Host, &Drain)> =
        hosts.values().filter_map(|host| Some((host, host.drained.as_ref()?))).collect();
    let mut out = match drained.len() {
        0 => return String::new(),
        1 => "1 host is out of service\n".to_owned(),
        n => format!("{n} hosts are out of service\n"),
    };
    for (host, drain) in drained.iter().take(DRAINED_SHOWN) {
        let is_away = if host.is_there() { "" } else { "away, " };
        out += &format!("  {}: {is_away}{}\n", host.id, drain_words(host, drain, claims));
    }
    if drained.len() > DRAINED_SHOWN {
        out += &format!("  and {} more: warren-hosts list\n", drained.len() - DRAINED_SHOWN);
    }
    out
}

/// How many hosts, and the first of them: `h1, h2, h3 and 4 more`.
fn named<'h>(hosts: impl Iterator<Item = &'h HostId>) -> (usize, String) {
    let all: Vec<&str> = hosts.map(HostId::as_str).collect();
    let first = all[..all.len().min(NAMED_MAX)].join(", ");
    match all.len().saturating_sub(NAMED_MAX) {
        0 => (all.len(), first),
        n => (all.len(), format!("{first} and {n} more")),
    }
}

pub(super) fn list(site: &Site, labels: &[String], bad: bool, is_json: bool) -> Result<i32> {
    let hosts = site.hosts()?;
    let assigned = site.assigned(&hosts)?;
    let standings = standings(site, &hosts, &assigned)?;
    let claims = claims_if_drained(site, &hosts)?;
    let (mut drained, mut has_bad) = (0, false);
    let mut rows = Vec::new();
    let mut counts: BTreeMap<Standing, usize> = BTreeMap::new();
    for (id, host) in hosts.iter().filter(|(_, host)| has_labels(host, labels)) {
        let stands = standings[id];
        *counts.entry(stands).or_default() += 1;
        drained += usize::from(host.drained.is_some());
        has_bad |= is_bad(stands, host);
        if bad && !is_bad(stands, host) {
            continue;
        }
        let report = host.report.as_ref();
        if is_json {
            let left = host.drained.as_ref().map(|_| left_on(id, &claims).0);
            let line = json!({
                "format": JSON_VERSION, "host": id, "state": stands, "assigned": assigned.get(id),
                "registration": host.registration, "report": report, "double": host.double,
                "drained": host.drained, "copies_left": left,
            });
            print(&format!("{line}\n"));
            continue;
        }
        let number = |n: Option<u32>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        rows.push(vec![
            id.to_string(),
            match host.drained {
                Some(_) => format!("{},drained", stands.word()),
                None => stands.word().to_owned(),
            },
            report.map_or_else(|| "-".to_owned(), |r| r.release.to_string()),
            report
                .and_then(|r| r.applied)
                .map_or_else(|| "-".to_owned(), |revision| revision.short()),
            number(report.map(|r| r.units)),
            number(report.map(|r| r.failed)),
            note(host, &claims),
        ]);
    }
    if !is_json {
        let head = ["HOST", "STATE", "RELEASE", "REVISION", "UNITS", "FAILED", "NOTE"];
        rows.insert(0, head.map(str::to_owned).to_vec());
        let words: Vec<String> = counts.iter().map(|(s, n)| format!("{n} {}", s.word())).collect();
        let total: usize = counts.values().sum();
        let words = match words.is_empty() {
            true => String::new(),
            false => format!(": {}", words.join(", ")),
        };
        let out = match drained {
            0 => String::new(),
            n => format!("; {n} of them drained"),
        };
        print(&format!("{}{}{words}{out}.\n", table(&rows), count_of(total, "host")));
    }
    Ok(i32::from(bad && has_bad))
}

pub(super) fn why(site: &Site, app: Option<&str>, is_json: bool) -> Result<i32> {
    let hosts = site.hosts()?;
    let all = causes(hosts.values(), app);
    // Rules with faults are no reason to keep the causes back.
    let mut copies = copies_that_run_nowhere(site).unwrap_or_else(|why| {
        tell!("whether copies run nowhere is not known: {why:#}");
        BTreeMap::new()
    });
    copies.retain(|name, _| app.is_none_or(|app| app == name));
    for (name, (missing, all)) in &copies {
        print(&match is_json {
            true => format!(
                "{}\n",
                json!({"format": JSON_VERSION, "container": name, "copies": all, "missing": missing})
            ),
            false => format!(
                "{missing} of {all} copies of {} run nowhere\n  no host has claimed them; where none has room \
                 (Capacity=), `plan` says so\n",
                clean(name)
            ),
        });
    }
    let mut others = String::new();
    if app.is_none() {
        let assigned = site.assigned(&hosts)?;
        others = standing_lines(&standings(site, &hosts, &assigned)?, &hosts);
        if let Some((_, rollout)) = site.rollout()?
            && site.driver()?.is_none()
        {
            others += &driver_line(&rollout, None);
        }
    }
    if !is_json {
        print(&others);
        if app.is_none() {
            print(&drained_lines(&hosts, &claims_if_drained(site, &hosts)?));
        }
    }
    match is_json {
        true => {
            for cause in &all {
                print(&format!("{}\n", serde_json::to_string(cause)?));
            }
        }
        false if all.is_empty() && (!copies.is_empty() || !others.is_empty()) => {}
        false if all.is_empty() => print("Nothing is wrong on any host that has reported.\n"),
        false => print(&all.iter().map(cause_text).collect::<String>()),
    }
    Ok(i32::from(!all.is_empty() || !copies.is_empty() || !others.is_empty()))
}

fn cause_text(cause: &Cause) -> String {
    let (_, names) = named(cause.hosts.iter());
    let revisions: Vec<&str> = cause.revisions.iter().map(String::as_str).collect();
    let with = match revisions.is_empty() {
        true => "before any revision".to_owned(),
        false => format!("with revision {}", revisions.join(", ")),
    };
    let (what, since) = match cause.code.is_empty() {
        true => (clean(&cause.app), String::new()),
        false => {
            let units = count_of(cause.units as usize, "unit");
            let (how, when) = match cause.restarted {
                Some(_) => (" restarted again and again", "last"),
                None => ("", "since"),
            };
            (
                format!("{} {} ({units}{how})", clean(&cause.code), clean(&cause.app)),
                format!(", {when} {}", time(cause.since)),
            )
        }
    };
    let restarted = cause.restarted.as_ref();
    let restarted = restarted.map_or_else(String::new, |words| format!("  {}\n", clean(words)));
    format!(
        "{what}\n  on {}: {names}{since}\n{restarted}  {with}\n",
        count_of(cause.hosts.len(), "host"),
    )
}

/// The rollout, hosts by their state, root causes: on a terminal again and again.
pub(super) fn top(site: &Site, once: bool) -> Result<i32> {
    loop {
        let hosts = site.hosts()?;
        let assigned = site.assigned(&hosts)?;
        let mut counts: BTreeMap<Standing, usize> = BTreeMap::new();
        for stands in standings(site, &hosts, &assigned)?.into_values() {
            *counts.entry(stands).or_default() += 1;
        }
        let words: Vec<String> = counts.iter().map(|(s, n)| format!("{n} {}", s.word())).collect();
        let mut out = format!("{}: {}\n", count_of(hosts.len(), "host"), words.join(", "));
        out += &drained_lines(&hosts, &claims_if_drained(site, &hosts)?);
        let driver = site.driver()?;
        let rollout = site.rollout()?;
        out +=
            &rollout.map_or_else(String::new, |(_, rollout)| summary(&rollout, driver.as_deref()));
        let all = causes(hosts.values(), None);
        out += &all.iter().take(CAUSES_SHOWN).map(cause_text).collect::<String>();
        if all.len() > CAUSES_SHOWN {
            out += &format!(
                "and {} more: warren-hosts why\n",
                count_of(all.len() - CAUSES_SHOWN, "cause")
            );
        }
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        if once || !is_terminal {
            print(&out);
            return Ok(0);
        }
        // From the top, each line to its end, and what is left of the page.
        print(&format!("\x1b[H{}\x1b[J", out.replace('\n', "\x1b[K\r\n")));
        std::thread::park_timeout(TOP_EVERY);
    }
}

pub(super) fn log(site: &Site, is_json: bool) -> Result<i32> {
    let releases = site.releases()?;
    let current = site.current()?.and_then(|c| releases.get(&c.release)?.meant(c.back));
    for (name, manifest) in site.revisions()? {
        let numbers: Vec<String> = releases
            .iter()
            .filter(|(_, release)| release.revision == name)
            .map(|(number, _)| number.to_string())
            .collect();
        if is_json {
            let line = json!({
                "format": JSON_VERSION, "revision": name, "parent": manifest.parent, "author": manifest.author,
                "message": manifest.message, "at": manifest.at, "files": manifest.files.len(), "releases": numbers,
            });
            print(&format!("{line}\n"));
            continue;
        }
        let mark = if current == Some(name) { "*" } else { " " };
        let released = match numbers.is_empty() {
            true => String::new(),
            false => format!(" [release {}]", numbers.join(", ")),
        };
        print(&format!(
            "{mark} {} {} {}{released} {}\n",
            name.short(),
            time(manifest.at.saturating_mul(1_000_000)),
            clean(&manifest.author),
            clean(&manifest.message)
        ));
    }
    Ok(0)
}

pub(super) fn status(site: &Site, is_json: bool) -> Result<i32> {
    let (_, rollout) = site.rollout()?.context("there was no rollout yet")?;
    if is_json {
        print(&format!("{}\n", serde_json::to_string(&rollout)?));
        return Ok(0);
    }
    print(&summary(&rollout, site.driver()?.as_deref()));
    Ok(0)
}

/// `, 1 away, 2 sick`: hosts of a wave that are not healthy.
fn bad_hosts(tally: Tally) -> String {
    let Tally { absent, drained, away, late, sick } = tally;
    let words = [
        (absent, "away when it began"),
        (drained, "out of service"),
        (away, "away"),
        (late, "not done"),
        (sick, "sick"),
    ];
    let words = words.iter().filter(|(n, _)| *n > 0);
    words.map(|(n, word)| format!(", {n} {word}")).collect()
}

/// Which machine drives a rollout that is under way, or that none does: then nothing goes on.
pub(super) fn driver_line(rollout: &Rollout, driver: Option<&str>) -> String {
    match driver {
        _ if rollout.is_over() => String::new(),
        Some(machine) => format!("  driven by {}\n", clean(machine)),
        None => "! no driver is there, so nothing goes on: systemctl start warren-hosts.service, or warren-hosts drive\n"
            .to_owned(),
    }
}

fn summary(rollout: &Rollout, driver: Option<&str>) -> String {
    let reason = match rollout.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", clean(&rollout.reason)),
    };
    let mut out = format!("release {} {}{reason}\n", rollout.release, rollout.words());
    out += &driver_line(rollout, driver);
    for (at, wave) in rollout.waves.iter().enumerate() {
        let (number, hosts) = (at + 1, count_of(wave.len(), "host"));
        let tally = rollout.tally(wave);
        let bad = bad_hosts(tally);
        let is_settled = |id: &&HostId| {
            rollout.progress.get(*id).is_some_and(|progress| progress.healthy_since.is_some())
        };
        let settled = wave.iter().filter(is_settled).count();
        out += &match at.cmp(&rollout.wave) {
            _ if rollout.is_back => format!("  {settled} of {hosts} went back{bad}\n"),
            std::cmp::Ordering::Less if bad.is_empty() => {
                format!("  wave {number}: {hosts}, healthy\n")
            }
            std::cmp::Ordering::Less => {
                let Tally { absent, drained, away, late, sick } = tally;
                let healthy = wave.len().saturating_sub(absent + drained + away + late + sick);
                format!("  wave {number}: {healthy} of {hosts} healthy{bad}\n")
            }
            std::cmp::Ordering::Equal => {
                let mark = if rollout.is_over() { " " } else { ">" };
                format!("{mark} wave {number}: {settled} of {hosts} healthy{bad}\n")
            }
            std::cmp::Ordering::Greater => format!("  wave {number}: {hosts}, not begun{bad}\n"),
        };
    }
    for (id, trouble) in &rollout.sick {
        out += &format!("! {id}: {}\n", clean(&trouble.why));
    }
    out
}

pub(super) fn audit(site: &Site, is_json: bool) -> Result<i32> {
    for (at, deed) in site.deeds()? {
        if is_json {
            let line = json!({
                "format": JSON_VERSION, "at": at, "author": deed.author, "what": deed.what, "detail": deed.detail,
            });
            print(&format!("{line}\n"));
            continue;
        }
        let line = [&deed.author, &deed.what, &deed.detail].map(|text| clean(text)).join(" ");
        print(&format!("{} {line}\n", time(at)));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use warren_hosts::policy::Policy;
    use warren_hosts::rollout::{Phase, Trouble, TroubleKind};

    use super::*;

    fn id(name: &str) -> HostId {
        name.parse().expect("a name")
    }

    #[test]
    fn who_drives_is_said_while_there_is_something_to_drive() {
        let waves = vec![vec![id("a")]];
        let mut rollout = Rollout::new(7, true, Policy::default(), waves, &BTreeMap::new());
        assert_eq!(driver_line(&rollout, Some("op-1")), "  driven by op-1\n");
        assert!(driver_line(&rollout, None).starts_with("! no driver is there, so nothing goes"));
        rollout.stop(String::new());
        assert_eq!(driver_line(&rollout, None), "");
    }

    #[test]
    fn hosts_without_a_root_cause_are_named() {
        let mut standings: BTreeMap<HostId, Standing> =
            ["a", "b", "c", "d"].map(|host| (id(host), Standing::Away)).into();
        standings.extend([(id("e"), Standing::Differs), (id("f"), Standing::Fine)]);
        standings.extend([(id("g"), Standing::Degraded), (id("h"), Standing::Behind)]);
        assert_eq!(
            standing_lines(&standings, &BTreeMap::new()),
            "4 hosts are away\n  a, b, c and 1 more\n1 host is behind\n  h\n\
             1 host is on another revision than the site: warren-hosts resume, back or release\n  e\n"
        );
    }

    /// Whoever is away or sick has nothing of it.
    #[test]
    fn hosts_that_are_not_healthy_are_counted_apart() {
        let waves = vec![vec![id("a")], vec![id("b"), id("c"), id("d"), id("e")]];
        let hosts = BTreeMap::new();
        let mut rollout = Rollout::new(7, true, Policy::default(), waves, &hosts);
        rollout.absent = BTreeSet::from([id("e")]);
        let away = Trouble::new(TroubleKind::Away, "it is away after 300 s");
        let sick = Trouble::new(TroubleKind::Sick, "no");
        rollout.sick = [(id("c"), away), (id("d"), sick)].into();
        (rollout.phase, rollout.wave) = (Phase::Done, 2);
        assert_eq!(
            summary(&rollout, None),
            "release 7 is on the hosts that are healthy\n  wave 1: 1 host, healthy\n  \
             wave 2: 1 of 4 hosts healthy, 1 away when it began, 1 away, 1 sick\n\
             ! c: it is away after 300 s\n! d: no\n"
        );
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["HOST", "x"]), row(["a", ""])]), "HOST  x\na\n");
        assert_eq!(clean("a\x1b[31mb\n"), "a?[31mb?");
        assert_eq!([5, 125, 7_300, 200_000].map(span), ["5 s", "2 min", "2 h", "2 d"]);
    }
}
