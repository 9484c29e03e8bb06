//! Commands that only show.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use warren_hosts::follower::Assignment;
use warren_hosts::host::{Drain, Host, Outcome, Report};
use warren_hosts::names::HostId;
use warren_hosts::overview::{Cause, Standing, causes, differs, is_bad, standing};
use warren_hosts::placement::{Claim, left_on};
use warren_sys::tell;

use super::apps;
use super::plans::copies_that_run_nowhere;
use super::progress::{Progress, driver_line};
use super::text::{JSON_VERSION, clean, count_of, is_printed, print, time};
use crate::site::{Site, now};

/// Hosts that are named of many.
const NAMED_MAX: usize = 3;

/// Root causes on a screen.
const CAUSES_SHOWN: usize = 8;

/// Drained hosts that are listed by name.
const DRAINED_SHOWN: usize = 8;

/// Hosts that are listed for files that hide units of rules.
const HIDDEN_SHOWN: usize = 8;

/// What `why` says if all is well.
const NOTHING: &str = "Nothing is wrong on any host that has reported.\n";

/// How often a screen is drawn.
const TOP_EVERY: std::time::Duration = std::time::Duration::from_secs(2);

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

pub(super) fn has_labels(host: &Host, labels: &[String]) -> bool {
    let facts = host.registration.as_ref().map(|registration| &registration.facts);
    labels.iter().all(|label| {
        let (name, value) = label.split_once('=').unwrap_or((label, ""));
        facts
            .and_then(|facts| facts.labels.get(name))
            .is_some_and(|of| value.is_empty() || of == value)
    })
}

/// The release that a host has said something of last: `7`, `7 back`.
fn release_cell(report: &Report) -> String {
    format!("{}{}", report.release, if report.back { " back" } else { "" })
}

/// What a host has reported. Moments are µs since 1970 wherever JSON is printed, and their names say so.
fn report_json(report: &Report) -> Value {
    let mut value = json!(report);
    let moments = [("causes", "since", "since_us"), ("restarted", "last", "last_us")];
    for (list, name, with_unit) in moments {
        for entry in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let moment = entry.as_object_mut().and_then(|entry| entry.remove(name));
            entry[with_unit] = moment.unwrap_or_default();
        }
    }
    value
}

/// Who took a host out of service, and what is left there; null of one that is in service.
fn drained_json(host: &Host, claims: &[Claim]) -> Option<Value> {
    let Drain { author, reason, at } = host.drained.as_ref()?;
    let (left, unclaimed) = left_on(&host.id, claims);
    Some(json!({
        "author": author, "reason": reason, "since_us": at.saturating_mul(1_000_000),
        "copies_left": left, "copies_unclaimed": unclaimed,
    }))
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
    let failed = report.causes.first().map(|cause| cause.words());
    let restarted = report.restarted.first().map(|first| first.words());
    let hidden = hidden_words(report);
    let all: Vec<String> = failed.into_iter().chain(restarted).chain(hidden).collect();
    clean(&all.join("; "))
}

/// Units of rules that files of the host hide: the first, and how many there are besides.
fn hidden_words(report: &Report) -> Option<String> {
    let first = report.hidden.first()?.words();
    let more = (report.hidden.len() as u64 - 1).saturating_add(u64::from(report.more_hidden));
    Some(match more {
        0 => first,
        n => format!("{first} (and {})", count_of(n as usize, "more unit")),
    })
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

/// Which hosts to list.
pub(super) struct Listed<'a> {
    /// Only those with these labels.
    pub(super) labels: &'a [String],
    /// Only those that have units of this application.
    pub(super) app: Option<&'a str>,
    /// Only those that somebody has to look at.
    pub(super) bad: bool,
}

pub(super) fn list(site: &Site, listed: &Listed<'_>, is_json: bool) -> Result<i32> {
    let Listed { labels, app, bad } = *listed;
    let hosts = site.hosts()?;
    let assigned = site.assigned(&hosts)?;
    let standings = standings(site, &hosts, &assigned)?;
    let claims = claims_if_drained(site, &hosts)?;
    let chosen = || hosts.values().filter(|host| has_labels(host, labels));
    let units = app.map(|app| apps::some_units(site, app, chosen())).transpose()?;
    let units = units.map(|(units, _)| units);
    let (mut drained, mut has_bad) = (0, false);
    let mut rows = Vec::new();
    let mut counts: BTreeMap<Standing, usize> = BTreeMap::new();
    for host in chosen() {
        let id = &host.id;
        let of_app = units.as_ref().map(|units| units.get(id));
        if of_app == Some(None) {
            continue;
        }
        let of_app = of_app.flatten();
        let stands = standings[id];
        *counts.entry(stands).or_default() += 1;
        drained += usize::from(host.drained.is_some());
        has_bad |= is_bad(stands, host);
        if bad && !is_bad(stands, host) {
            continue;
        }
        let report = host.report.as_ref();
        if is_json {
            let line = json!({
                "format": JSON_VERSION, "host": id, "state": stands, "assigned": assigned.get(id),
                "registration": host.registration, "report": report.map(report_json),
                "double": host.double, "drained": drained_json(host, &claims),
                "units_of_app": of_app,
            });
            print(&format!("{line}\n"));
            continue;
        }
        let number = |n: Option<u32>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let of_app = of_app.map(|units| units.len().to_string());
        let cells = [
            id.to_string(),
            match host.drained {
                Some(_) => format!("{},drained", stands.word()),
                None => stands.word().to_owned(),
            },
            report.map_or_else(|| "-".to_owned(), release_cell),
            report
                .and_then(|r| r.applied)
                .map_or_else(|| "-".to_owned(), |revision| revision.short()),
            number(report.map(|r| r.units)),
            number(report.map(|r| r.failed)),
        ];
        rows.push(cells.into_iter().chain(of_app).chain([note(host, &claims)]).collect());
    }
    if !is_json {
        let head = ["HOST", "STATE", "RELEASE", "REVISION", "UNITS", "FAILED"].map(str::to_owned);
        let of_app = app.map(|app| format!("OF {}", clean(app)));
        rows.insert(0, head.into_iter().chain(of_app).chain(["NOTE".to_owned()]).collect());
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

/// Nothing of it is wrong, and somebody who wonders why a host is not as others has to know it.
fn remark_lines(hosts: &BTreeMap<HostId, Host>, claims: &[Claim]) -> String {
    let mut out = drained_lines(hosts, claims);
    let hidden = |host: &Host| Some((host.id.clone(), hidden_words(host.report.as_ref()?)?));
    let hidden: Vec<(HostId, String)> = hosts.values().filter_map(hidden).collect();
    if !hidden.is_empty() {
        out += &format!("units of rules are hidden on {}\n", count_of(hidden.len(), "host"));
    }
    for (id, words) in hidden.iter().take(HIDDEN_SHOWN) {
        out += &format!("  {id}: {}\n", clean(words));
    }
    if hidden.len() > HIDDEN_SHOWN {
        out += &format!("  and {} more: warren-hosts list\n", hidden.len() - HIDDEN_SHOWN);
    }
    out
}

pub(super) fn why(site: &Site, app: Option<&str>, is_json: bool) -> Result<i32> {
    let hosts = site.hosts()?;
    // Rules with faults are no reason to keep the causes back.
    let mut copies = copies_that_run_nowhere(site).unwrap_or_else(|why| {
        tell!("whether copies run nowhere is not known: {why:#}");
        BTreeMap::new()
    });
    let is_asked = |host: &&Host| !copies.is_empty() || is_in_trouble(host);
    let asked = hosts.values().filter(is_asked);
    let meant = app.map(|app| apps::meant(site, app, asked)).transpose()?;
    copies.retain(|name, _| meant.as_ref().is_none_or(|meant| meant.anywhere().has(name)));
    let all = causes(hosts.values(), meant.as_ref());
    let is_whole = app.is_none();
    let standings = match is_whole {
        true => standings(site, &hosts, &site.assigned(&hosts)?)?,
        false => BTreeMap::new(),
    };
    let rollout = site.rollout()?.map(|(_, rollout)| rollout);
    let undriven = rollout.filter(|rollout| is_whole && !rollout.is_over());
    let undriven = if site.driver()?.is_none() { undriven } else { None };
    let claims = claims_if_drained(site, &hosts)?;
    let others = standing_lines(&standings, &hosts)
        + &undriven.as_ref().map_or_else(String::new, |rollout| driver_line(rollout, None));
    let is_wrong = !all.is_empty() || !copies.is_empty() || !others.is_empty();
    if is_json {
        let undriven = undriven.map(|rollout| rollout.release);
        let lines = copies
            .iter()
            .map(|(name, (missing, all))| {
                json!({"kind": "copies", "container": name, "copies": all, "missing": missing})
            })
            .chain(hosts.values().filter(|_| is_whole).flat_map(|host| {
                host_lines_json(host, standings.get(&host.id).copied(), &claims)
            }))
            .chain(undriven.map(|release| json!({"kind": "no-driver", "release": release})))
            .chain(all.iter().map(cause_json));
        for mut line in lines {
            line["format"] = JSON_VERSION.into();
            print(&format!("{line}\n"));
        }
        return Ok(i32::from(is_wrong));
    }
    for (name, (missing, all)) in &copies {
        print(&format!(
            "{missing} of {all} copies of {} run nowhere\n  no host has claimed them; where none has room (Capacity=), \
             `plan` says so\n",
            clean(name)
        ));
    }
    print(&others);
    print(&all.iter().map(cause_text).collect::<String>());
    if is_whole {
        print(&remark_lines(&hosts, &claims));
    }
    if !is_wrong {
        print(&app.map_or_else(|| Ok(NOTHING.to_owned()), |app| nothing_of(site, app, &hosts))?);
    }
    Ok(i32::from(is_wrong))
}

/// Whether a host has said that units failed or are restarted.
fn is_in_trouble(host: &Host) -> bool {
    let is_trouble = |report: &Report| !report.causes.is_empty() || !report.restarted.is_empty();
    host.report.as_ref().is_some_and(is_trouble)
}

/// That nothing is wrong with an application, and what there is of it: a name with a typing error has nothing.
fn nothing_of(site: &Site, app: &str, hosts: &BTreeMap<HostId, Host>) -> Result<String> {
    let (units, unknown) = apps::units(site, app, hosts.values())?;
    let count: usize = units.values().map(Vec::len).sum();
    Ok(match (count, unknown.is_empty()) {
        (0, true) => format!("{NOTHING}But {}.\n", clean(&apps::no_units(app))),
        (0, false) => NOTHING.to_owned(),
        (count, _) => format!(
            "Nothing is wrong with {}: {} on {}.\n",
            clean(app),
            count_of(count, "unit"),
            count_of(units.len(), "host")
        ),
    })
}

/// What is to be said of a host besides root causes.
fn host_lines_json(host: &Host, stands: Option<Standing>, claims: &[Claim]) -> Vec<Value> {
    let told = [Standing::Away, Standing::Doubled, Standing::Behind, Standing::Differs];
    let stands = stands.filter(|stands| told.contains(stands) && is_bad(*stands, host));
    let stands = stands.map(|state| json!({"kind": "host", "host": host.id, "state": state}));
    let drained = drained_json(host, claims).map(|mut drained| {
        (drained["kind"], drained["host"]) = ("drained".into(), json!(host.id));
        drained
    });
    let hidden = host.report.iter().flat_map(|report| &report.hidden).map(
        |hidden| json!({"kind": "hidden", "host": host.id, "unit": hidden.unit, "by": hidden.by}),
    );
    stands.into_iter().chain(drained).chain(hidden).collect()
}

fn cause_json(cause: &Cause) -> Value {
    let Cause { code, app, hosts, units, is_restarted, example, since, revisions } = cause;
    json!({
        "kind": if *is_restarted { "restarted" } else { "failed" }, "code": code, "app": app,
        "hosts": hosts, "units": units, "example": example, "since_us": since,
        "revisions": revisions,
    })
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
            let (how, when) = match cause.is_restarted {
                true => (" restarted again and again", "last"),
                false => ("", "since"),
            };
            (
                format!("{} {} ({units}{how})", clean(&cause.code), clean(&cause.app)),
                cause.since.map_or_else(String::new, |since| format!(", {when} {}", time(since))),
            )
        }
    };
    let example = match cause.example.is_empty() {
        true => String::new(),
        false => format!("  {}\n", clean(&cause.example)),
    };
    format!(
        "{what}\n  on {}: {names}{since}\n{example}  {with}\n",
        count_of(cause.hosts.len(), "host"),
    )
}

/// The rollout, hosts by their state, root causes: on a terminal, and as JSON, again and again.
pub(super) fn top(site: &Site, once: bool, is_json: bool) -> Result<i32> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let goes_on = !once && (is_json || is_terminal);
    let mut has_answered = false;
    loop {
        let shown = if is_json { top_json(site) } else { top_text(site) };
        let out = match shown {
            Ok(out) => out,
            // A store that is away for a moment does not end what somebody watches.
            Err(why) if has_answered && is_json => {
                format!(
                    "{}\n",
                    json!({"format": JSON_VERSION, "at_us": now(), "fault": format!("{why:#}")})
                )
            }
            Err(why) if has_answered => format!("! {}\n", clean(&format!("{why:#}"))),
            Err(why) => return Err(why),
        };
        has_answered = goes_on;
        let is_read = match is_json || !goes_on {
            true => is_printed(&out),
            // From the top, each line to its end, and what is left of the page.
            false => is_printed(&format!("\x1b[H{}\x1b[J", out.replace('\n', "\x1b[K\r\n"))),
        };
        if !goes_on || !is_read {
            return Ok(0);
        }
        std::thread::park_timeout(TOP_EVERY);
    }
}

/// How many hosts there are of each state.
fn counts(site: &Site, hosts: &BTreeMap<HostId, Host>) -> Result<BTreeMap<Standing, usize>> {
    let mut counts: BTreeMap<Standing, usize> = BTreeMap::new();
    for stands in standings(site, hosts, &site.assigned(hosts)?)?.into_values() {
        *counts.entry(stands).or_default() += 1;
    }
    Ok(counts)
}

fn top_text(site: &Site) -> Result<String> {
    let hosts = site.hosts()?;
    let counts = counts(site, &hosts)?;
    let words: Vec<String> = counts.iter().map(|(s, n)| format!("{n} {}", s.word())).collect();
    let mut out = format!("{}: {}\n", count_of(hosts.len(), "host"), words.join(", "));
    let progress = Progress::read(site, &hosts)?;
    out += &progress.map_or_else(String::new, |progress| progress.text());
    out += &drained_lines(&hosts, &claims_if_drained(site, &hosts)?);
    let all = causes(hosts.values(), None);
    out += &all.iter().take(CAUSES_SHOWN).map(cause_text).collect::<String>();
    if all.len() > CAUSES_SHOWN {
        let more = count_of(all.len() - CAUSES_SHOWN, "cause");
        out += &format!("and {more} more: warren-hosts why\n");
    }
    Ok(out)
}

/// The same for programs, in one line.
fn top_json(site: &Site) -> Result<String> {
    let hosts = site.hosts()?;
    let counts = counts(site, &hosts)?;
    let counts: BTreeMap<&str, usize> = counts.iter().map(|(s, n)| (s.word(), *n)).collect();
    let claims = claims_if_drained(site, &hosts)?;
    let drained = hosts.values().filter_map(|host| {
        let mut drained = drained_json(host, &claims)?;
        drained["host"] = json!(host.id);
        Some(drained)
    });
    let rollout = Progress::read(site, &hosts)?.map(|progress| progress.json());
    let all = causes(hosts.values(), None);
    let line = json!({
        "format": JSON_VERSION, "at_us": now(), "hosts": hosts.len(), "states": counts, "rollout": rollout,
        "drained": drained.collect::<Vec<_>>(),
        "causes": all.iter().take(CAUSES_SHOWN).map(cause_json).collect::<Vec<_>>(),
        "more_causes": all.len().saturating_sub(CAUSES_SHOWN),
    });
    Ok(format!("{line}\n"))
}

pub(super) fn audit(site: &Site, is_json: bool) -> Result<i32> {
    for (at, deed) in site.deeds()? {
        if is_json {
            let line = json!({
                "format": JSON_VERSION, "at_us": at, "author": deed.author, "what": deed.what, "detail": deed.detail,
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
    use super::*;

    fn id(name: &str) -> HostId {
        name.parse().expect("a name")
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

    #[test]
    fn what_a_host_reports_is_told_in_words_and_with_units() {
        let report: Report = serde_json::from_value(json!({
            "release": 1, "back": false, "outcome": {"state": "applied"}, "applied": null, "units": 3, "failed": 1,
            "causes": [{"code": "WR-0040", "app": "shop", "units": 1, "example": "shop.service", "why": "it failed",
                        "log": "no port", "since": 5}],
            "restarted": [{"unit": "u.service", "app": "u", "times": 1, "code": "WR-0041", "ended": "was killed",
                           "last": 6}],
            "hidden": [{"unit": "a.service", "by": "/etc/a"}, {"unit": "b.service", "by": ""}],
        }))
        .expect("a report");
        let value = report_json(&report);
        let moments = [&value["causes"][0], &value["restarted"][0]];
        assert_eq!((&moments[0]["since_us"], &moments[1]["last_us"]), (&json!(5), &json!(6)));
        assert!(moments.iter().all(|one| one.get("since").is_none() && one.get("last").is_none()));
        let host = Host { report: Some(report), ..Host::new(id("h1")) };
        assert_eq!(
            said_by(&host),
            "shop.service: it failed (WR-0040 of shop); its log ends with \"no port\"; u.service was restarted once \
             since, after it was killed (WR-0041); a.service is by /etc/a, and not by rules (and 1 more unit)"
        );
        // Words in JSON are those of the table.
        for stands in [Standing::Fine, Standing::Away, Standing::Degraded, Standing::Differs] {
            assert_eq!(json!(stands), json!(stands.word()));
        }
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["HOST", "x"]), row(["a", ""])]), "HOST  x\na\n");
    }
}
