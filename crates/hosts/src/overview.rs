//! One place that says what is wrong where: hosts by their state, and root causes put together over hosts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::apps::MeantOn;
use crate::digest::Digest;
use crate::follower::Assignment;
use crate::host::{Host, Outcome, Restarted};
use crate::names::HostId;

/// How a host stands to what it is assigned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Its lease is over.
    Away,
    /// Two machines have its name.
    Doubled,
    /// It does not do what it is assigned to.
    Refuses,
    /// Its rules have faults, or the manager did not take them.
    Failed,
    /// It has not reported what it is assigned to.
    Behind,
    /// It has what it is to have, and units failed, or are started again and again.
    Degraded,
    /// It has what it was assigned to, and that is another revision than the site's: a rollout was stopped.
    Differs,
    /// It has what it is to have.
    #[serde(rename = "ok")]
    Fine,
}

impl Standing {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Standing::Away => "away",
            Standing::Doubled => "doubled",
            Standing::Refuses => "refuses",
            Standing::Failed => "failed",
            Standing::Behind => "behind",
            Standing::Degraded => "degraded",
            Standing::Differs => "differs",
            Standing::Fine => "ok",
        }
    }
}

/// How a host stands.
pub fn standing(host: &Host, assigned: Option<Assignment>) -> Standing {
    if !host.is_there() {
        return Standing::Away;
    }
    if host.double.is_some() {
        return Standing::Doubled;
    }
    let Some(report) = &host.report else {
        return if assigned.is_some() { Standing::Behind } else { Standing::Fine };
    };
    match &report.outcome {
        Outcome::Refused(_) => Standing::Refuses,
        Outcome::Failed(_) => Standing::Failed,
        Outcome::Working | Outcome::Held(_) => Standing::Behind,
        Outcome::Applied => {
            let is_current =
                assigned.is_none_or(|a| (a.release, a.back) == (report.release, report.back));
            match (is_current, report.failed.saturating_add(report.restarted_units())) {
                (false, _) => Standing::Behind,
                (true, 0) => Standing::Fine,
                (true, _) => Standing::Degraded,
            }
        }
    }
}

/// Whether somebody has to look at a host. That one which an operator has taken out of service is away, or has not
/// followed, is no news.
pub fn is_bad(stands: Standing, host: &Host) -> bool {
    match stands {
        Standing::Fine => false,
        Standing::Away | Standing::Behind | Standing::Differs => host.drained.is_none(),
        Standing::Doubled | Standing::Refuses | Standing::Failed | Standing::Degraded => true,
    }
}

/// Whether a host has another revision in force than the site, which has this one.
pub fn differs(host: &Host, revision: Option<Digest>) -> bool {
    host.report.as_ref().is_some_and(|report| report.applied != revision)
}

/// One root cause over all hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// The reason's code; empty for what a host does not take.
    pub code: String,
    /// The application, or what the host says.
    pub app: String,
    /// On which hosts.
    pub hosts: BTreeSet<HostId>,
    /// How many units in all.
    pub units: u64,
    /// The units are started again and again; else they failed, and stay so.
    pub is_restarted: bool,
    /// One of the units, on the first host that says so, and what happened to it: for people.
    pub example: String,
    /// Since when, µs since 1970; none of what a host does not take.
    pub since: Option<u64>,
    /// Revisions that these hosts have in force.
    pub revisions: BTreeSet<String>,
}

/// Root causes, those on most hosts first; of what is meant if that is given.
pub fn causes<'h>(
    hosts: impl IntoIterator<Item = &'h Host>,
    meant: Option<&MeantOn>,
) -> Vec<Cause> {
    // What failed and what is started again are told apart: one waits for somebody.
    let mut all: BTreeMap<(bool, String, String), Cause> = BTreeMap::new();
    for host in hosts {
        let Some(report) = &host.report else { continue };
        let mut note = |is_restarted: bool,
                        (code, app_name): (&str, &str),
                        units: u32,
                        since: Option<u64>,
                        words: String| {
            if meant.is_some_and(|meant| !meant.on(&host.id).has(app_name)) {
                return;
            }
            let key = (is_restarted, code.to_owned(), app_name.to_owned());
            let cause = all.entry(key).or_insert_with(|| Cause {
                code: code.to_owned(),
                app: app_name.to_owned(),
                hosts: BTreeSet::new(),
                units: 0,
                is_restarted,
                example: match words.is_empty() {
                    true => String::new(),
                    false => format!("{}: {words}", host.id),
                },
                since: None,
                revisions: BTreeSet::new(),
            });
            cause.hosts.insert(host.id.clone());
            cause.units += u64::from(units);
            cause.since = cause.since.into_iter().chain(since).min();
            cause.revisions.extend(report.applied.map(|revision| revision.short()));
        };
        for cause in &report.causes {
            note(false, (&cause.code, &cause.app), cause.units, Some(cause.since), cause.words());
        }
        for restarted in &report.restarted {
            let Restarted { code, app, last, .. } = restarted;
            note(true, (code, app), 1, Some(*last), restarted.words());
        }
        if let Outcome::Held(why) | Outcome::Failed(why) | Outcome::Refused(why) = &report.outcome {
            note(false, ("", why), 0, None, String::new());
        }
    }
    let mut all: Vec<Cause> = all.into_values().collect();
    all.sort_by(|a, b| b.hosts.len().cmp(&a.hosts.len()).then(b.units.cmp(&a.units)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apps::Meant;
    use crate::host::{self, Drain, Facts, Registration, Report};

    fn host(n: usize, outcome: Outcome, failed: u32) -> Host {
        let cause = |code: &str, app: &str| host::Cause {
            code: code.into(),
            app: app.into(),
            units: failed,
            example: "shop-web.service".into(),
            why: "not ready".into(),
            log: String::new(),
            since: 100 - n as u64,
        };
        let report = Report {
            release: 3,
            back: false,
            outcome,
            applied: Some(Digest::of(b"r")),
            units: 10,
            failed,
            causes: if failed > 0 { vec![cause("WR-0051", "shop")] } else { Vec::new() },
            more_causes: 0,
            restarted: Vec::new(),
            more_restarted: 0,
            hidden: Vec::new(),
            more_hidden: 0,
            highest: 0,
        };
        let registration = Registration { facts: Facts::default(), instance: Digest::of(b"") };
        let id = format!("h{n}").parse().expect("a name");
        Host { registration: Some(registration), report: Some(report), ..Host::new(id) }
    }

    fn restarted() -> Restarted {
        Restarted {
            unit: "shop-web.service".into(),
            app: "shop".into(),
            times: 7,
            code: "WR-0051".into(),
            ended: "exited with code 7".into(),
            log: String::new(),
            last: 9,
        }
    }

    #[test]
    fn a_host_stands_as_the_worst_that_it_says() {
        let at = |release| Some(Assignment { release, back: false });
        let fine = host(0, Outcome::Applied, 0);
        assert_eq!(standing(&fine, at(3)), Standing::Fine);
        assert_eq!(standing(&fine, at(4)), Standing::Behind);
        assert!(!differs(&fine, Some(Digest::of(b"r"))) && differs(&fine, None));
        assert_eq!(standing(&fine, Some(Assignment { release: 3, back: true })), Standing::Behind);
        assert_eq!(standing(&host(0, Outcome::Applied, 2), at(3)), Standing::Degraded);
        assert_eq!(standing(&host(0, Outcome::Failed("x".into()), 0), at(3)), Standing::Failed);
        assert_eq!(standing(&host(0, Outcome::Refused("x".into()), 0), at(3)), Standing::Refuses);
        let mut loops = fine.clone();
        loops.report.as_mut().expect("a report").restarted = vec![restarted()];
        assert_eq!(standing(&loops, at(3)), Standing::Degraded);
        let away = Host { registration: None, ..fine.clone() };
        assert_eq!(standing(&away, at(3)), Standing::Away);
        let drained = Some(Drain { author: "op".into(), reason: String::new(), at: 0 });
        let drained = Host { drained, ..away.clone() };
        assert!(is_bad(Standing::Away, &away) && !is_bad(Standing::Away, &drained));
        assert!(is_bad(Standing::Degraded, &drained) && !is_bad(Standing::Fine, &away));
        let new = Host { report: None, ..fine };
        assert_eq!(
            (standing(&new, None), standing(&new, at(1))),
            (Standing::Fine, Standing::Behind)
        );
    }

    #[test]
    fn causes_are_put_together_over_hosts() {
        let mut hosts: Vec<Host> = (0..37).map(|n| host(n, Outcome::Applied, 2)).collect();
        hosts.push(host(50, Outcome::Refused("an old store".into()), 0));
        let all = causes(&hosts, None);
        assert_eq!((all[0].hosts.len(), all[0].units, all[0].since), (37, 74, Some(64)));
        assert_eq!((&*all[0].code, all[0].revisions.len()), ("WR-0051", 1));
        assert_eq!(&*all[1].app, "an old store");
        let of = |hosts: &[Host], app: &str| causes(hosts, Some(&MeantOn::alone(app)));
        assert_eq!(of(&hosts, "shop").len(), 1);
        assert!(of(&hosts, "blog").is_empty());
        // On some hosts the shop is in a group of this name.
        let group = Meant::by("all", &[("Container 'shop'".into(), vec!["all".into()])].into());
        let mut meant = MeantOn::alone("all");
        meant.set(hosts.iter().take(3).map(|host| host.id.clone()), &group);
        meant.set(hosts.iter().skip(3).map(|host| host.id.clone()), &Meant::alone("all"));
        let some = causes(&hosts, Some(&meant));
        assert_eq!((some.len(), &*some[0].app, some[0].hosts.len()), (1, "shop", 3));
        // What is started again is another thing than what failed and stays so.
        hosts[3].report.as_mut().expect("a report").restarted = vec![restarted(), restarted()];
        let shop = of(&hosts, "shop");
        assert_eq!(
            (shop.len(), shop[1].units, shop[1].hosts.len(), shop[1].since),
            (2, 2, 1, Some(9))
        );
        let words =
            "h3: shop-web.service was restarted 7 times since, last: exited with code 7 (WR-0051)";
        assert_eq!((shop[1].is_restarted, &*shop[1].example), (true, words));
        assert_eq!(shop[0].example, "h0: shop-web.service: not ready (WR-0051 of shop)");
    }
}
