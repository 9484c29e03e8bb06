//! Commands that change something.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use warren_hosts::digest::Digest;
use warren_hosts::host::Host;
use warren_hosts::keys;
use warren_hosts::names::HostId;
use warren_hosts::policy::{EACH_APP, Policy};
use warren_hosts::release::{Release, way_back};
use warren_hosts::revision::{Files, Manifest, cut};
use warren_hosts::rollout::{AppLimit, Rollout};
use warren_hosts::secrets;
use warren_hosts::waves::{check_labels, waves};
use warren_sys::tell;

use super::plans::Before;
use super::revisions::find_revision;
use super::text::{clean, print};
use super::{RolloutArgs, author};
use crate::rules::read_directory;
use crate::signing::SigningKey;
use crate::site::{Site, now};
use crate::store::{Compare, Write};

/// Keys of one request that removes.
const REMOVED_AT_ONCE: usize = 100;

/// Releases that a store may have lost that was restored from a backup.
const LOST_MAX: u64 = 1_000_000;

/// Writes a file that is not there yet, for its owner alone.
fn write_secret(file: &Path, text: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(file);
    let written = opened.and_then(|mut out| {
        out.write_all(text.as_bytes())?;
        out.sync_all()
    });
    written.with_context(|| file.display().to_string())
}

pub(super) fn keygen(file: &Path, show: bool) -> Result<i32> {
    if !show {
        let text = SigningKey::generate().map_err(|why| anyhow!(why))?;
        write_secret(file, &text)?;
    }
    let key = SigningKey::read(file).map_err(|why| anyhow!(why))?;
    print(&format!("{} {}\n", key.public_line(), author()));
    Ok(0)
}

pub(super) fn push(site: &Site, dir: &Path, message: &str, allow_secrets: bool) -> Result<i32> {
    let files = read_directory(dir).map_err(|why| anyhow!(why))?;
    if let Some(secret) = secrets::first(&files).filter(|_| !allow_secrets) {
        bail!(
            "{secret}. Whoever may read the store could read it: bring it to the hosts by other means and name it by \
             LoadCredential=. If it is no secret: --allow-secrets"
        );
    }
    check_rules(site, &files)?;
    let author = author();
    let parent = site.revisions()?.first().map(|(name, _)| *name);
    let cut = cut(&files, parent, &author, message, now() / 1_000_000)?;
    let name = site.push(&cut)?;
    site.note(&author, "push", &format!("{} {message}", name.short()))?;
    print(&format!("{name}\n"));
    Ok(0)
}

/// Rules with faults are neither stored nor released: each host would refuse them.
fn check_rules(site: &Site, files: &Files) -> Result<()> {
    match super::plans::first_fault(site, files)? {
        Some(why) => bail!("the rules have faults: {why}"),
        None => Ok(()),
    }
}

/// Lets a host in, and writes what it needs for that to a file.
pub(super) fn admit(site: &Site, host: &HostId, file: &Path, again: bool) -> Result<i32> {
    if !again && site.is_admitted(host)? {
        bail!("{host} was let in before; --again gives it another password");
    }
    let password = crate::signing::random_text().map_err(|why| anyhow!(why))?;
    if !again && file.exists() {
        bail!("{}: it exists already", file.display());
    }
    // An old password stays what it is until there is a new one.
    let fresh = file.with_added_extension("new");
    write_secret(&fresh, &format!("{password}\n"))?;
    let user = site.admit(host, &password).inspect_err(|_| {
        // The store does not know this password.
        let _ = std::fs::remove_file(&fresh);
    })?;
    std::fs::rename(&fresh, file).with_context(|| file.display().to_string())?;
    site.note(&author(), "admit", host.as_str())?;
    print(&format!(
        "# For the settings of {host}, with the file {} copied there:\nUser={user}\nPasswordFile=/etc/warren/hosts.password\n",
        file.display()
    ));
    Ok(0)
}

pub(super) fn expel(site: &Site, host: &HostId) -> Result<i32> {
    let is_known = site.hosts()?.contains_key(host);
    site.expel(host)?;
    site.note(&author(), "expel", host.as_str())?;
    print(&match is_known {
        true => format!("{host} is expelled\n"),
        false => format!("{host} is let in no more; it had not been seen\n"),
    });
    Ok(0)
}

/// A number that no host has followed yet, also after the store went back.
fn next_number(site: &Site, hosts: &BTreeMap<HostId, Host>) -> Result<u64> {
    let releases = site.releases()?;
    let current = site.current()?.map(|current| current.release);
    let known = releases.into_keys().chain(current).max().unwrap_or_default();
    let reported = hosts.iter().filter_map(|(id, host)| {
        host.report.as_ref().map(|report| (report.highest.max(report.release), id))
    });
    number_after(known, reported.max())
}

/// The number after what the store knows and what a host says that it has followed. A host must not use numbers up.
fn number_after(known: u64, reported: Option<(u64, &HostId)>) -> Result<u64> {
    let highest = match reported {
        Some((number, id)) if number > known.saturating_add(LOST_MAX) => bail!(
            "{id} says that it has followed release {number}, but the store's last one is {known}: that host or the \
             store is not to be trusted. Without that host: warren-hosts expel {id}"
        ),
        Some((number, _)) => known.max(number),
        None => known,
    };
    highest.checked_add(1).context("there is no higher number for a release")
}

pub(super) fn release(site: &Site, revision: &str, how: &RolloutArgs) -> Result<i32> {
    let revision = find_revision(site, revision)?;
    begin(site, revision, how, "release")
}

pub(super) fn rollback(site: &Site, how: &RolloutArgs) -> Result<i32> {
    let current = site.current()?.context("no release has reached all hosts yet")?;
    if current.back {
        bail!(
            "release {} went back: all hosts have the revision of before already",
            current.release
        );
    }
    if let Some((_, rollout)) = site.rollout()?
        && rollout.is_half_way()
        && rollout.release > current.release
    {
        bail!(
            "release {} {}, and some hosts have it: `warren-hosts back` has them go back",
            rollout.release,
            rollout.words()
        );
    }
    let releases = site.releases()?;
    let release =
        releases.get(&current.release).context("the current release is not in the store")?;
    release.previous.context("the current release is the first one")?;
    let previous = way_back(release, &releases).context(
        "all that hosts had before was gone back from; warren-hosts log lists the revisions, warren-hosts release \
         REVISION releases one",
    )?;
    begin(site, previous, how, "rollback")
}

fn begin(site: &Site, revision: Digest, how: &RolloutArgs, what: &str) -> Result<i32> {
    let key = SigningKey::read(&how.key).map_err(|why| anyhow!(why))?;
    let before = site.rollout()?;
    if let Some((_, rollout)) = before.as_ref().filter(|(_, rollout)| !rollout.is_over()) {
        bail!("release {} {}; end it first: warren-hosts stop", rollout.release, rollout.words());
    }
    // Half of a revision is not released.
    let files = site.files(revision)?;
    let hosts = site.hosts()?;
    if hosts.is_empty() {
        bail!("no host is registered");
    }
    check_rules(site, &files)?;
    let number = next_number(site, &hosts)?;
    let current = site.current()?;
    let releases = site.releases()?;
    let previous = current.and_then(|current| releases.get(&current.release)?.meant(current.back));
    let steps = match how.waves.is_empty() {
        true => Policy::default().steps,
        false => how.waves.clone(),
    };
    let policy = Policy {
        steps,
        max_unavailable: how.max_unavailable,
        max_unavailable_of: how.max_unavailable_of.iter().cloned().collect(),
        soak: how.soak,
        patience: how.patience,
        failures_max: how.failures,
        failed_units_max: how.failed_units,
        goes_back: !how.stay,
    };
    policy.check().map_err(|why| anyhow!(why))?;
    let apps = match policy.max_unavailable_of.is_empty() {
        true => BTreeMap::new(),
        false => bounded_apps(site, &files, &policy)?,
    };
    let author = author();
    let release = Release::new(
        number,
        (revision, previous),
        (&author, &how.message),
        now() / 1_000_000,
        policy.clone(),
    );
    let labels = |host: &Host| {
        host.registration.as_ref().map_or_else(BTreeMap::new, |r| r.facts.labels.clone())
    };
    let labels = hosts.iter().map(|(id, host)| (id.clone(), labels(host))).collect();
    check_labels(&labels, &policy.steps).map_err(|why| anyhow!(why))?;
    let waves = waves(&labels, &policy.steps);
    let sizes: Vec<String> = waves.iter().map(|wave| wave.len().to_string()).collect();
    let rollout = Rollout::new(number, previous.is_some(), policy, waves, &hosts).within(apps);
    let written = site.store.transact(
        &[
            Compare::Modified(keys::ROLLOUT.to_owned(), before.map_or(0, |(modified, _)| modified)),
            Compare::Modified(keys::release(number), 0),
        ],
        &[
            Write::Put(keys::release(number), key.sign(&release), 0),
            Write::Put(keys::ROLLOUT.to_owned(), serde_json::to_vec(&rollout)?, 0),
        ],
    )?;
    if !written {
        bail!("somebody else began a rollout at the same time: warren-hosts status");
    }
    site.note(&author, what, &format!("{number}: {} {}", revision.short(), how.message))?;
    let pushed = site.revisions()?.into_iter().find(|(name, _)| *name == revision);
    let message = pushed.map(|(_, manifest)| manifest.message).filter(|text| !text.is_empty());
    let message = message.map_or_else(String::new, |text| format!(" ({})", clean(&text)));
    print(&format!(
        "release {number}: revision {}{message} in waves of {}\n",
        revision.short(),
        sizes.join(", ")
    ));
    print(&super::progress::driver_line(&rollout, site.driver()?.as_deref()));
    Ok(0)
}

/// What of bounded applications is restarted where.
fn bounded_apps(site: &Site, files: &Files, policy: &Policy) -> Result<BTreeMap<String, AppLimit>> {
    let (plan, ..) = super::plans::over_all_hosts(site, Before::Each, files)?;
    if let Some((id, why)) = plan.fault() {
        bail!("what it changes cannot be told, so that no application can be bounded: {id}: {why}");
    }
    let apps = plan.limits(policy).map_err(|why| anyhow!(why))?;
    for app in policy.max_unavailable_of.keys().filter(|app| *app != EACH_APP) {
        if !apps.contains_key(app) {
            tell!("no unit of {app} is restarted by this release");
        }
    }
    Ok(apps)
}

/// Changes the rollout, unless somebody else does at the same time; then again.
pub(super) fn rollout(
    site: &Site,
    what: &str,
    message: &str,
    change: impl Fn(&mut Rollout),
) -> Result<i32> {
    loop {
        let (modified, before) = site.rollout()?.context("there was no rollout yet")?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            if what == "back" && !before.has_way_back {
                bail!(
                    "release {} names no revision to go back to: it was the first",
                    before.release
                );
            }
            bail!("release {} {}; `{what}` changes nothing now", before.release, before.words());
        }
        let compare = [Compare::Modified(keys::ROLLOUT.to_owned(), modified)];
        let write = Write::Put(keys::ROLLOUT.to_owned(), serde_json::to_vec(&after)?, 0);
        let writes: Vec<Write> = [write].into_iter().chain(Site::write_of_end(&after)).collect();
        if site.store.transact(&compare, &writes)? {
            site.note(&author(), what, &format!("{}: {message}", after.release))?;
            print(&format!("release {} {}\n", after.release, after.words()));
            return Ok(0);
        }
    }
}

pub(super) fn prune(site: &Site, keep: usize) -> Result<i32> {
    // What is being pushed has chunks that nothing names yet.
    let writer = site.become_writer()?;
    let revisions = site.revisions()?;
    let releases = site.releases()?;
    let hosts = site.hosts()?;
    let mut numbers: BTreeSet<u64> = site.assigned(&hosts)?.values().map(|a| a.release).collect();
    numbers.extend(site.current()?.map(|current| current.release));
    numbers.extend(site.rollout()?.map(|(_, rollout)| rollout.release));
    numbers.extend(releases.keys().next_back());
    let named = numbers.iter().filter_map(|number| releases.get(number));
    let mut kept: BTreeSet<Digest> =
        named.flat_map(|r| [Some(r.revision), r.previous]).flatten().collect();
    kept.extend(revisions.iter().take(keep).map(|(name, _)| *name));
    kept.extend(hosts.values().filter_map(|host| host.report.as_ref()?.applied));
    let stays = |(name, _): &&(Digest, Manifest)| kept.contains(name);
    let chunks: BTreeSet<Digest> =
        revisions.iter().filter(stays).flat_map(|(_, m)| m.chunks()).collect();
    let (_, stored) = site.store.list(keys::CHUNKS)?;
    let gone = |key: &str| {
        let name = keys::last(key, keys::CHUNKS).and_then(|name| name.parse().ok());
        name.is_none_or(|name| !chunks.contains(&name))
    };
    let mut writes: Vec<Write> = revisions
        .iter()
        .filter(|(name, _)| !kept.contains(name))
        .map(|(name, _)| Write::Delete(keys::revision(*name)))
        .collect();
    writes.extend(stored.iter().filter(|v| gone(&v.key)).map(|v| Write::Delete(v.key.clone())));
    let old = releases.keys().filter(|number| !numbers.contains(number));
    writes.extend(old.flat_map(|number| {
        [Write::Delete(keys::release(*number)), Write::Delete(keys::ended(*number))]
    }));
    for some in writes.chunks(REMOVED_AT_ONCE) {
        writer.transact(&[], some)?;
    }
    site.note(&author(), "prune", &format!("{} keys", writes.len()))?;
    print(&format!(
        "removed {} keys; etcd frees the space when it is compacted and defragmented\n",
        writes.len()
    ));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_cannot_use_up_the_numbers_of_releases() {
        let liar: HostId = "liar".parse().expect("a name");
        assert_eq!(number_after(0, None).expect("a number"), 1);
        assert_eq!(number_after(4, Some((2, &liar))).expect("a number"), 5);
        // The store went back: hosts know better.
        assert_eq!(number_after(4, Some((9, &liar))).expect("a number"), 10);
        for number in [4 + LOST_MAX + 1, u64::MAX] {
            let why = number_after(4, Some((number, &liar))).expect_err("a lie").to_string();
            assert!(why.contains("warren-hosts expel liar"), "{why}");
        }
        assert!(number_after(u64::MAX, None).is_err());
    }
}
