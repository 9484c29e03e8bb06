//! `status` and `log`: what a rollout is at and whom it waits for, and what came of releases.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use warren_hosts::digest::Digest;
use warren_hosts::host::Host;
use warren_hosts::names::HostId;
use warren_hosts::release::Release;
use warren_hosts::revision::Manifest;
use warren_hosts::rollout::{End, Phase, Rollout, Tally};

use super::text::{JSON_VERSION, clean, count_of, print, time};
use crate::site::Site;

/// Hosts of many that are named with what is waited for.
const WAITS_SHOWN: usize = 5;

/// Hosts of many that are named with why they are not healthy.
const SICK_SHOWN: usize = 10;

/// A rollout with what is known of its release, and the hosts.
pub(super) struct Progress<'h> {
    hosts: &'h BTreeMap<HostId, Host>,
    rollout: Rollout,
    release: Option<Release>,
    /// The release's revision; none if it is not in the store any more.
    manifest: Option<Manifest>,
    driver: Option<String>,
}

impl<'h> Progress<'h> {
    /// That of the rollout that is under way, or was last.
    pub(super) fn read(
        site: &Site,
        hosts: &'h BTreeMap<HostId, Host>,
    ) -> Result<Option<Progress<'h>>> {
        let Some((_, rollout)) = site.rollout()? else { return Ok(None) };
        let release = site.releases()?.remove(&rollout.release);
        let manifest = match &release {
            Some(release) => {
                let all = site.revisions()?;
                all.into_iter().find(|(name, _)| *name == release.revision).map(|(_, m)| m)
            }
            None => None,
        };
        Ok(Some(Progress { hosts, rollout, release, manifest, driver: site.driver()? }))
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let rollout = &self.rollout;
        let reason = match rollout.reason.is_empty() {
            true => String::new(),
            false => format!(": {}", clean(&rollout.reason)),
        };
        let mut out = format!("release {} {}{reason}\n", rollout.release, rollout.words());
        out += &self.release.as_ref().map_or_else(String::new, |release| self.about(release));
        out += &driver_line(rollout, self.driver.as_deref());
        for at in 0..rollout.waves.len() {
            out += &self.wave(at);
        }
        out += &self.waits();
        for (id, trouble) in rollout.sick.iter().take(SICK_SHOWN) {
            out += &format!("! {id}: {}\n", clean(&trouble.why));
        }
        if rollout.sick.len() > SICK_SHOWN {
            out += &format!("! and {} more\n", count_of(rollout.sick.len() - SICK_SHOWN, "host"));
        }
        out
    }

    /// What is released, by whom and since when.
    fn about(&self, release: &Release) -> String {
        let said = |text: &str| match text.is_empty() {
            true => String::new(),
            false => format!(": {}", clean(text)),
        };
        let pushed = self.manifest.as_ref().map_or_else(String::new, |manifest| {
            format!(" by {}{}", clean(&manifest.author), said(&manifest.message))
        });
        format!(
            "  revision {}{pushed}\n  released {} by {}{}\n",
            release.revision.short(),
            time(release.at.saturating_mul(1_000_000)),
            clean(&release.author),
            said(&release.message)
        )
    }

    fn wave(&self, at: usize) -> String {
        let rollout = &self.rollout;
        let wave = &rollout.waves[at];
        let (number, hosts) = (at + 1, count_of(wave.len(), "host"));
        let tally = rollout.tally(wave);
        let bad = bad_hosts(tally);
        let settled = self.settled(wave);
        match at.cmp(&rollout.wave) {
            _ if rollout.is_back => format!("  {settled} of {hosts} went back{bad}\n"),
            std::cmp::Ordering::Less if bad.is_empty() => {
                format!("  wave {number}: {hosts}, healthy\n")
            }
            std::cmp::Ordering::Less => {
                format!("  wave {number}: {} of {hosts} healthy{bad}\n", healthy(wave, tally))
            }
            std::cmp::Ordering::Equal => {
                let mark = if rollout.is_over() { " " } else { ">" };
                format!("{mark} wave {number}: {settled} of {hosts} healthy{bad}\n")
            }
            std::cmp::Ordering::Greater => format!("  wave {number}: {hosts}, not begun{bad}\n"),
        }
    }

    /// Hosts of a wave that are healthy, or went back.
    fn settled(&self, wave: &[HostId]) -> usize {
        let progress = &self.rollout.progress;
        let is_settled =
            |id: &&HostId| progress.get(*id).is_some_and(|one| one.healthy_since.is_some());
        wave.iter().filter(is_settled).count()
    }

    /// Whom the wave waits for, the first few of them.
    fn waits(&self) -> String {
        let all = self.rollout.waits(self.hosts);
        let is_at_gate = all.is_empty() && self.rollout.phase == Phase::Forward;
        if is_at_gate && self.driver.is_some() {
            return "  nothing but the driver's gate is waited for, if it has one\n".to_owned();
        }
        let line = |(id, wait): &(HostId, warren_hosts::rollout::Wait)| {
            format!("  waits for {id}: {}\n", clean(&wait.words()))
        };
        let mut out: String = all.iter().take(WAITS_SHOWN).map(line).collect();
        if all.len() > WAITS_SHOWN {
            let more = count_of(all.len() - WAITS_SHOWN, "more host");
            out += &format!("  and for {more}\n");
        }
        out
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let rollout = &self.rollout;
        let release = self.release.as_ref();
        let wave = |at: usize| {
            let wave = &rollout.waves[at];
            let Tally { absent, drained, away, late, sick } = rollout.tally(wave);
            let healthy = match at < rollout.wave && !rollout.is_back {
                true => healthy(wave, rollout.tally(wave)),
                false => self.settled(wave),
            };
            json!({
                "hosts": wave, "healthy": healthy, "away_when_it_began": absent, "out_of_service": drained,
                "away": away, "not_done": late, "sick": sick,
            })
        };
        let waits = rollout.waits(self.hosts).into_iter();
        let waits = waits
            .map(|(host, wait)| json!({"host": host, "for": wait.word(), "text": wait.words()}));
        let sick = rollout.sick.iter();
        let sick = sick
            .map(|(host, trouble)| json!({"host": host, "kind": trouble.kind, "why": trouble.why}));
        json!({
            "format": JSON_VERSION, "release": rollout.release, "state": rollout.words(),
            "phase": rollout.phase, "back": rollout.is_back, "reason": rollout.reason,
            "revision": release.map(|release| release.revision),
            "message": release.map(|release| &release.message),
            "author": release.map(|release| &release.author),
            "released_us": release.map(|release| release.at.saturating_mul(1_000_000)),
            "revision_message": self.manifest.as_ref().map(|manifest| &manifest.message),
            "revision_author": self.manifest.as_ref().map(|manifest| &manifest.author),
            "driver": self.driver, "wave": rollout.wave,
            "waves": (0..rollout.waves.len()).map(wave).collect::<Vec<_>>(),
            "waits": waits.collect::<Vec<_>>(), "sick": sick.collect::<Vec<_>>(),
            "policy": rollout.policy, "apps": rollout.apps,
        })
    }
}

pub(super) fn status(site: &Site, is_json: bool) -> Result<i32> {
    let hosts = site.hosts()?;
    let progress = Progress::read(site, &hosts)?.context("there was no rollout yet")?;
    print(&match is_json {
        true => format!("{}\n", progress.json()),
        false => progress.text(),
    });
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

/// Hosts of a wave that is over and that nothing is said against.
fn healthy(wave: &[HostId], tally: Tally) -> usize {
    let Tally { absent, drained, away, late, sick } = tally;
    wave.len().saturating_sub(absent + drained + away + late + sick)
}

/// Which machine drives a rollout that is under way, or that none does: then nothing goes on.
pub(super) fn driver_line(rollout: &Rollout, driver: Option<&str>) -> String {
    match driver {
        _ if rollout.is_over() => String::new(),
        Some(machine) => format!("  driven by {}\n", clean(machine)),
        None => "! no driver is running, so nothing advances: systemctl start warren-hosts.service, or warren-hosts drive\n"
            .to_owned(),
    }
}

pub(super) fn log(site: &Site, is_json: bool) -> Result<i32> {
    let releases = site.releases()?;
    let ends = site.ends()?;
    let rollout = site.rollout()?.map(|(_, rollout)| rollout);
    let current = site.current()?.and_then(|c| releases.get(&c.release)?.meant(c.back));
    for (name, manifest) in site.revisions()? {
        let of = releases.values().filter(|release| release.revision == name);
        let of: Vec<Released<'_>> =
            of.map(|release| released(release, &ends, rollout.as_ref())).collect();
        print(&match is_json {
            true => format!("{}\n", revision_json((name, &manifest), &of, current)),
            false => revision_text((name, &manifest), &of, current),
        });
    }
    Ok(0)
}

/// A release of a revision, and what came of it: words, the reason, and when it was over, seconds since 1970.
struct Released<'r> {
    number: u64,
    words: &'r str,
    reason: &'r str,
    ended: Option<u64>,
}

fn released<'r>(
    release: &Release,
    ends: &'r BTreeMap<u64, End>,
    rollout: Option<&'r Rollout>,
) -> Released<'r> {
    let number = release.number;
    let rollout = rollout.filter(|rollout| rollout.release == number);
    match (ends.get(&number), rollout) {
        (Some(End { words, reason, at }), None) => {
            Released { number, words, reason, ended: Some(*at) }
        }
        // One that was over may be under way again: it goes back, or on.
        (end, Some(rollout)) => Released {
            number,
            words: rollout.words(),
            reason: &rollout.reason,
            ended: end.map(|end| end.at).filter(|_| rollout.is_over()),
        },
        // Of one that is older than what is kept of them nothing is known.
        (None, None) => Released { number, words: "", reason: "", ended: None },
    }
}

fn revision_text(
    (name, manifest): (Digest, &Manifest),
    releases: &[Released<'_>],
    current: Option<Digest>,
) -> String {
    let mark = if current == Some(name) { "*" } else { " " };
    let numbers: Vec<String> = releases.iter().map(|release| release.number.to_string()).collect();
    let numbers = match numbers.is_empty() {
        true => String::new(),
        false => format!(" [release {}]", numbers.join(", ")),
    };
    let mut out = format!(
        "{mark} {} {} {}{numbers} {}\n",
        name.short(),
        time(manifest.at.saturating_mul(1_000_000)),
        clean(&manifest.author),
        clean(&manifest.message)
    );
    for Released { number, words, reason, ended } in releases {
        // That it is on all hosts is what is expected.
        if words.is_empty() || reason.is_empty() && ended.is_some() {
            continue;
        }
        let when = ended.map_or_else(String::new, |at| format!(" {}", time(at * 1_000_000)));
        let why = if reason.is_empty() { String::new() } else { format!(": {}", clean(reason)) };
        out += &format!("    release {number} {words}{when}{why}\n");
    }
    out
}

fn revision_json(
    (name, manifest): (Digest, &Manifest),
    releases: &[Released<'_>],
    current: Option<Digest>,
) -> Value {
    let releases = releases.iter().map(|Released { number, words, reason, ended }| {
        json!({
            "number": number, "state": words, "reason": reason,
            "ended_us": ended.map(|at| at.saturating_mul(1_000_000)),
        })
    });
    json!({
        "format": JSON_VERSION, "revision": name, "parent": manifest.parent, "author": manifest.author,
        "message": manifest.message, "at_us": manifest.at.saturating_mul(1_000_000),
        "files": manifest.files.len(), "current": current == Some(name),
        "releases": releases.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use warren_hosts::policy::Policy;
    use warren_hosts::rollout::{Trouble, TroubleKind};

    use super::*;

    fn id(name: &str) -> HostId {
        name.parse().expect("a name")
    }

    fn rollout(waves: &[&[&str]]) -> Rollout {
        let waves = waves.iter().map(|wave| wave.iter().map(|name| id(name)).collect()).collect();
        Rollout::new(7, true, Policy::default(), waves, &BTreeMap::new())
    }

    fn text(rollout: Rollout, release: Option<Release>) -> String {
        let (hosts, driver) = (BTreeMap::new(), Some("op-1".to_owned()));
        Progress { hosts: &hosts, rollout, release, manifest: None, driver }.text()
    }

    fn release(message: &str) -> Release {
        let revisions = (Digest::of(b"new"), None);
        Release::new(7, revisions, ("op@m", message), u64::MAX / 2_000_000, Policy::default())
    }

    #[test]
    fn who_drives_is_said_while_there_is_something_to_drive() {
        let mut rollout = rollout(&[&["a"]]);
        assert_eq!(driver_line(&rollout, Some("op-1")), "  driven by op-1\n");
        assert!(driver_line(&rollout, None).starts_with("! no driver is running, so nothing"));
        rollout.stop(String::new());
        assert_eq!(driver_line(&rollout, None), "");
    }

    /// Whoever is away or sick has nothing of it.
    #[test]
    fn hosts_that_are_not_healthy_are_counted_apart() {
        let mut rollout = rollout(&[&["a"], &["b", "c", "d", "e", "f"]]);
        rollout.absent = BTreeSet::from([id("e")]);
        rollout.drained = BTreeSet::from([id("f")]);
        let away = Trouble::new(TroubleKind::Away, "it is away after 300 s");
        let sick = Trouble::new(TroubleKind::Sick, "no");
        rollout.sick = [(id("c"), away), (id("d"), sick)].into();
        (rollout.phase, rollout.wave) = (Phase::Done, 2);
        assert_eq!(
            text(rollout, None),
            "release 7 is on the hosts that are healthy\n  wave 1: 1 host, healthy\n  \
             wave 2: 1 of 5 hosts healthy, 1 away when it began, 1 out of service, 1 away, 1 sick\n\
             ! c: it is away after 300 s\n! d: no\n"
        );
    }

    #[test]
    fn what_is_released_and_whom_it_waits_for_is_said_of_the_first_few() {
        let mut rollout = rollout(&[&["a", "b", "c", "d", "e", "f", "g", "h"]]);
        rollout.absent.clear();
        let waits: String = ["a", "b", "c", "d", "e"]
            .map(|host| format!("  waits for {host}: its turn has not come\n"))
            .concat();
        let revision = Digest::of(b"new").short();
        assert_eq!(
            text(rollout.clone(), Some(release("shop 4.2"))),
            format!(
                "release 7 is being rolled out\n  revision {revision}\n  released in the future by op@m: shop 4.2\n  \
                 driven by op-1\n> wave 1: 0 of 8 hosts healthy\n{waits}  and for 3 more hosts\n"
            )
        );
        rollout.drained = rollout.waves[0].iter().cloned().collect();
        assert!(text(rollout, None).ends_with("is waited for, if it has one\n"));
    }

    #[test]
    fn what_came_of_a_release_is_known_after_others_have_begun() {
        let end = |words: &str, reason: &str| End {
            words: words.to_owned(),
            reason: reason.to_owned(),
            at: u64::MAX / 2_000_000,
        };
        let manifest = Manifest {
            author: "op@m".into(),
            message: "shop".into(),
            ..warren_hosts::revision::cut(
                &BTreeMap::from([("a".to_owned(), Vec::new())]),
                None,
                "",
                "",
                u64::MAX / 2_000_000,
            )
            .expect("a manifest")
            .manifest
        };
        let ends = BTreeMap::from([(7, end("went back", "h1: it failed"))]);
        let shown = |ends: &BTreeMap<u64, End>, rollout: Option<&Rollout>| {
            let release = release("");
            let of = [released(&release, ends, rollout)];
            let text = revision_text((release.revision, &manifest), &of, None);
            text.split_once('\n').expect("a line").1.to_owned()
        };
        let went_back = "    release 7 went back in the future: h1: it failed\n";
        assert_eq!(shown(&ends, None), went_back);
        let under_way = rollout(&[&["a"]]);
        assert_eq!(shown(&ends, Some(&under_way)), "    release 7 is being rolled out\n");
        assert_eq!(shown(&BTreeMap::from([(7, end("is on all hosts", ""))]), None), "");
        assert_eq!(shown(&BTreeMap::new(), None), "");
    }
}
