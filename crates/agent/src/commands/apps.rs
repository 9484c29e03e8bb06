//! What an application's name means on each host, and which units are of it: rules are asked, each as the host has them.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use warren_hosts::apps::{Meant, MeantOn};
use warren_hosts::digest::Digest;
use warren_hosts::host::{Facts, Host};
use warren_hosts::names::HostId;
use warren_hosts::placement::{Claim, Copies, held};
use warren_hosts::plan::{Rules as _, made};
use warren_sys::progress::during;
use warren_sys::tell;

use super::revisions::{Temporary, known_files};
use crate::rules::{Evaluated, may_have_groups};
use crate::site::Site;

/// Hosts for each of which the rules are asked for their groups though they are not alike. Further ones count as those do:
/// seldom is a container in a group on some hosts alone, and an answer is not to take minutes.
const ASKED_MAX: usize = 16;

/// Units of an application by host; hosts that have none are left out.
pub(super) type Units = BTreeMap<HostId, Vec<Box<str>>>;

/// Hosts by the revision whose rules they have in force, with what rules see of each.
type ByRevision = BTreeMap<Digest, BTreeMap<HostId, Facts>>;

fn by_revision<'h>(hosts: impl Iterator<Item = &'h Host>) -> ByRevision {
    let mut out = ByRevision::new();
    for host in hosts {
        let applied = host.report.as_ref().and_then(|report| report.applied);
        let facts = host.registration.as_ref().map(|registration| registration.facts.clone());
        if let (Some(revision), Some(facts)) = (applied, facts) {
            out.entry(revision).or_default().insert(host.id.clone(), facts);
        }
    }
    out
}

/// What a name means on hosts: itself, and the containers of a group of this name.
pub(super) fn meant<'h>(
    site: &Site,
    app: &str,
    hosts: impl Iterator<Item = &'h Host>,
) -> Result<MeantOn> {
    let mut out = MeantOn::alone(app);
    for (revision, hosts) in by_revision(hosts) {
        let Some(files) = known_files(site, revision, "groups there are not known")? else {
            continue;
        };
        if !may_have_groups(&files) {
            out.set(hosts.into_keys(), &Meant::alone(app));
            continue;
        }
        let directory = Temporary::new("rules", &files)?;
        let rules = Evaluated::new(directory.path(), &files, 1);
        // Copies that a host has change no group.
        let mut alike: BTreeMap<String, Vec<HostId>> = BTreeMap::new();
        for (id, facts) in hosts {
            let prelude = rules.named().prelude(&facts, &Copies::new());
            alike.entry(prelude).or_default().push(id);
        }
        let left: usize = alike.values().skip(ASKED_MAX).map(Vec::len).sum();
        if left > 0 {
            tell!("groups on {left} hosts are taken for those of others: all of them differ");
        }
        for (prelude, hosts) in alike.into_iter().take(ASKED_MAX) {
            match rules.membership(&prelude) {
                Ok(membership) => out.set(hosts, &Meant::by(app, &membership)),
                Err(why) => tell!("groups on {} are not known: {why}", hosts[0]),
            }
        }
    }
    Ok(out)
}

/// The units of an application on hosts, and hosts of which that is not known.
///
/// # Errors
/// The store does not answer.
pub(super) fn units<'h>(
    site: &Site,
    app: &str,
    hosts: impl Iterator<Item = &'h Host> + Clone,
) -> Result<(Units, Vec<HostId>)> {
    let claims = site.claims()?;
    let (mut units, mut unknown) = (Units::new(), Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    for (revision, hosts) in by_revision(hosts) {
        let Some(files) = known_files(site, revision, "units there are not known")? else {
            unknown.extend(hosts.into_keys());
            continue;
        };
        let directory = Temporary::new("rules", &files)?;
        let rules = Evaluated::new(directory.path(), &files, 1);
        let what = format!("Asking the rules of {} hosts for units of {app}", hosts.len());
        let hosts = with_copies(hosts, &claims);
        let is_of = |apps: &[std::sync::Arc<str>]| apps.iter().any(|one| **one == *app);
        let made = during(&what, false, || {
            made(&rules, &hosts, threads, |made| {
                let own = made.into_iter().filter(|(path, file)| {
                    // Drop-ins are of a unit that others bring.
                    !path.contains('/') && is_of(&file.apps)
                });
                own.map(|(path, _)| path).collect::<Vec<_>>()
            })
        });
        for (hosts, made) in made {
            match made {
                Ok(made) if made.is_empty() => {}
                Ok(made) => units.extend(hosts.into_iter().map(|id| (id, made.clone()))),
                Err(why) => {
                    tell!("units on {} are not known: {why}", hosts[0]);
                    unknown.extend(hosts);
                }
            }
        }
    }
    Ok((units, unknown))
}

/// As [`units`], for commands that have nothing to do where there are none.
///
/// # Errors
/// The store does not answer, or no host has any.
pub(super) fn some_units<'h>(
    site: &Site,
    app: &str,
    hosts: impl Iterator<Item = &'h Host> + Clone,
) -> Result<(Units, Vec<HostId>)> {
    let (units, unknown) = units(site, app, hosts)?;
    ensure!(!units.is_empty() || !unknown.is_empty(), "{}", no_units(app));
    Ok((units, unknown))
}

/// That a name is none of an application, for people.
pub(super) fn no_units(app: &str) -> String {
    format!(
        "no rules in force on these hosts make units of {app}: it is no container that has units there, and no group of such \
         containers"
    )
}

fn with_copies(
    hosts: BTreeMap<HostId, Facts>,
    claims: &[Claim],
) -> BTreeMap<HostId, (Facts, Copies)> {
    let with = |(id, facts): (HostId, Facts)| {
        let copies = held(&id, claims);
        (id, (facts, copies))
    };
    hosts.into_iter().map(with).collect()
}
