//! What lies in the store, as values: hosts, revisions, releases, the rollout.
//!
//! - Owns: how values are read and written.
//! - Must not: print, or decide.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use warren_hosts::digest::Digest;
use warren_hosts::follower::{Assignment, effective};
use warren_hosts::host::{Drain, Host, Registration, Report};
use warren_hosts::keys;
use warren_hosts::names::HostId;
use warren_hosts::placement::{Claim, TAKES_OVER};
use warren_hosts::release::{Release, Signed};
use warren_hosts::revision::{Cut, Files, Manifest};
use warren_hosts::rollout::{End, Rollout};

use crate::store::{Compare, Fault, OPERATIONS_MAX, Store, Value, Write};

/// How long somebody else waits for one who stores a revision and is gone, seconds.
const WRITER_LEASE: u64 = 30;

/// How long one waits for somebody else who stores a revision.
const WRITER_PATIENCE: Duration = Duration::from_secs(45);

/// What names of users of the store begin with that are hosts.
const USERS: &str = "warren-";

/// All hosts and their desired state.
#[derive(Debug)]
pub struct Site {
    /// The store.
    pub store: Store,
}

/// A line of the record of who did what.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deed {
    /// Who.
    pub author: String,
    /// Which command.
    pub what: String,
    /// On what, and why.
    pub detail: String,
}

/// The only one who adds or removes revisions.
#[derive(Debug)]
pub struct Writer<'s> {
    store: &'s Store,
    lease: i64,
    name: Vec<u8>,
    kept: Cell<Instant>,
}

impl Writer<'_> {
    /// Writes as [`Store::transact`], if this is still the only writer.
    ///
    /// # Errors
    /// See [`Fault`]; or the lease ran out, since the store was away for too long.
    pub fn transact(&self, compare: &[Compare], writes: &[Write]) -> anyhow::Result<bool> {
        if self.kept.get().elapsed() > Duration::from_secs(WRITER_LEASE / 3) {
            self.store.keep_alive(self.lease)?;
            self.kept.set(Instant::now());
        }
        let is_writer = [Compare::Is(keys::WRITER.to_owned(), self.name.clone())];
        if self.store.transact(&[&is_writer, compare].concat(), writes)? {
            return Ok(true);
        }
        // One of the conditions does not hold: which?
        match self.store.get(keys::WRITER)?.is_some_and(|value| value.value == self.name) {
            true => Ok(false),
            false => bail!(
                "the store was away for too long, and somebody else may write by now; try again"
            ),
        }
    }
}

impl Drop for Writer<'_> {
    /// Lets others write; if the store is away, the lease ends by itself.
    fn drop(&mut self) {
        let _ = self.store.revoke(self.lease);
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_slice(&value.value).ok()
}

/// As [`read`], for keys of which there is one: to take rubbish there for nothing would be to forget what hosts have.
fn read_one<T: DeserializeOwned>(value: &Value) -> Result<T, Fault> {
    serde_json::from_slice(&value.value)
        .map_err(|e| Fault::Unreadable(value.key.clone(), e.to_string()))
}

/// µs since 1970.
pub fn now() -> u64 {
    warren_sys::time::realtime_ns() / 1000
}

/// The claim that a key says.
pub(crate) fn read_claim(value: &Value) -> Option<Claim> {
    let (host, app, slot) = keys::claimed(&value.key)?;
    let takes_over = value.value == TAKES_OVER.as_bytes();
    Some(Claim { app: app.to_owned(), slot, created: value.created, host, takes_over })
}

/// The files of a revision; chunks that are known are not asked for.
///
/// # Errors
/// See [`Fault`]; within, in words, what is wrong with the revision.
pub(crate) fn fetch(
    store: &Store,
    name: Digest,
    mut chunks: BTreeMap<Digest, Vec<u8>>,
) -> Result<Result<Files, String>, Fault> {
    let Some(value) = store.get(&keys::revision(name))? else {
        return Ok(Err(format!("revision {} is not in the store", name.short())));
    };
    let manifest = match Manifest::decode(name, &value.value) {
        Ok(manifest) => manifest,
        Err(fault) => return Ok(Err(fault.to_string())),
    };
    for name in manifest.chunks() {
        if !chunks.contains_key(&name)
            && let Some(chunk) = store.get(&keys::chunk(name))?
        {
            chunks.insert(name, chunk.value);
        }
    }
    Ok(manifest.assemble(&chunks).map_err(|fault| fault.to_string()))
}

impl Site {
    /// The site of this store.
    pub fn new(store: Store) -> Site {
        Site { store }
    }

    /// All hosts that are registered or have reported.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn hosts(&self) -> Result<BTreeMap<HostId, Host>, Fault> {
        let mut hosts: BTreeMap<HostId, Host> = BTreeMap::new();
        let (_, registrations) = self.store.list(keys::HOSTS)?;
        let (_, reports) = self.store.list(keys::REPORTS)?;
        let mut of = |value: &Value, prefix: &str, set: &dyn Fn(&mut Host)| {
            let id = keys::last(&value.key, prefix).and_then(|id| id.parse::<HostId>().ok());
            if let Some(id) = id {
                set(hosts.entry(id.clone()).or_insert_with(|| Host::new(id)));
            }
        };
        for value in &registrations {
            of(value, keys::HOSTS, &|host| host.registration = read::<Registration>(value));
        }
        let (_, doubles) = self.store.list(keys::DOUBLES)?;
        for value in &doubles {
            let words = || Some(String::from_utf8_lossy(&value.value).into_owned());
            of(value, keys::DOUBLES, &|host| host.double = words());
        }
        for value in &reports {
            of(value, keys::REPORTS, &|host| host.report = read::<Report>(value));
        }
        let (_, drained) = self.store.list(keys::DRAINED)?;
        for value in &drained {
            // Hosts go by whether there is a value.
            let unreadable = || Drain { author: "?".to_owned(), reason: String::new(), at: 0 };
            let drain = || read::<Drain>(value).unwrap_or_else(unreadable);
            of(value, keys::DRAINED, &|host| host.drained = Some(drain()));
        }
        let (_, assigned) = self.store.list(keys::ASSIGNED)?;
        for value in &assigned {
            let id = keys::last(&value.key, keys::ASSIGNED).and_then(|id| id.parse().ok());
            if let Some(host) = id.and_then(|id: HostId| hosts.get_mut(&id)) {
                host.assigned = read::<Assignment>(value);
            }
        }
        Ok(hosts)
    }

    /// What each host is assigned to.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn assigned(
        &self,
        hosts: &BTreeMap<HostId, Host>,
    ) -> Result<BTreeMap<HostId, Assignment>, Fault> {
        let current = self.current()?;
        let of =
            |(id, host): (&HostId, &Host)| Some((id.clone(), effective(host.assigned, current)?));
        Ok(hosts.iter().filter_map(of).collect())
    }

    /// What hosts are assigned to that have nothing of their own.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn current(&self) -> Result<Option<Assignment>, Fault> {
        self.store.get(keys::CURRENT)?.as_ref().map(read_one).transpose()
    }

    /// Lets a host in: a user of the store who may read what is desired, and write what belongs to this host alone.
    /// Returns his name.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn admit(&self, id: &HostId, password: &str) -> Result<String, Fault> {
        let name = format!("{USERS}{id}");
        let own = [keys::host(id), keys::report(id), keys::double(id), keys::claims(id)];
        self.store.add_user(&name, password, keys::ROOT, &own)?;
        Ok(name)
    }

    /// Lets a host in no more, and removes what it wrote.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn expel(&self, id: &HostId) -> Result<(), Fault> {
        match self.store.remove_user(&format!("{USERS}{id}")) {
            // The store lets everybody in.
            Err(Fault::Refused(why)) if why.contains("not found") => {}
            other => other?,
        }
        let (_, claims) = self.store.list(&keys::claims(id))?;
        let keys = [
            keys::host(id),
            keys::report(id),
            keys::double(id),
            keys::drained(id),
            keys::assigned(id),
        ];
        let all = keys.into_iter().chain(claims.into_iter().map(|claim| claim.key));
        let writes: Vec<Write> = all.map(Write::Delete).collect();
        for some in writes.chunks(OPERATIONS_MAX) {
            self.store.transact(&[], some)?;
        }
        Ok(())
    }

    /// All claims of copies.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn claims(&self) -> Result<Vec<Claim>, Fault> {
        let (_, claims) = self.store.list(keys::CLAIMS)?;
        Ok(claims.iter().filter_map(read_claim).collect())
    }

    /// All revisions, the newest first.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn revisions(&self) -> Result<Vec<(Digest, Manifest)>, Fault> {
        let (_, values) = self.store.list(keys::REVISIONS)?;
        let named = |value: &Value| {
            let name = keys::last(&value.key, keys::REVISIONS)?.parse().ok()?;
            Some((name, Manifest::decode(name, &value.value).ok()?))
        };
        let mut all: Vec<(Digest, Manifest)> = values.iter().filter_map(named).collect();
        all.sort_by(|(a, x), (b, y)| y.at.cmp(&x.at).then(a.cmp(b)));
        Ok(all)
    }

    /// The files of a revision.
    ///
    /// # Errors
    /// It is not there, or not all of it.
    pub fn files(&self, name: Digest) -> anyhow::Result<Files> {
        fetch(&self.store, name, BTreeMap::new())?.map_err(anyhow::Error::msg)
    }

    /// Stores a revision: chunks first, so that one that is there is whole.
    ///
    /// # Errors
    /// See [`Fault`]; or somebody else pushes or prunes.
    pub fn push(&self, cut: &Cut) -> anyhow::Result<Digest> {
        let writer = self.become_writer()?;
        for (name, bytes) in &cut.chunks {
            let key = keys::chunk(*name);
            let is_new = [Compare::Modified(key.clone(), 0)];
            writer.transact(&is_new, &[Write::Put(key, bytes.clone(), 0)])?;
        }
        let name = cut.manifest.name();
        writer.transact(&[], &[Write::Put(keys::revision(name), cut.manifest.encode(), 0)])?;
        Ok(name)
    }

    /// Becomes the only one who adds or removes revisions, or says that somebody else is.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn become_writer(&self) -> anyhow::Result<Writer<'_>> {
        let lease = self.store.grant(WRITER_LEASE)?;
        let name = format!("{} {lease}", rustix::system::uname().nodename().to_string_lossy());
        let name = name.into_bytes();
        let end = Instant::now() + WRITER_PATIENCE;
        let is_free = [Compare::Modified(keys::WRITER.to_owned(), 0)];
        let take = [Write::Put(keys::WRITER.to_owned(), name.clone(), lease)];
        while !self.store.transact(&is_free, &take)? {
            if Instant::now() > end {
                self.store.revoke(lease)?;
                bail!("somebody else pushes or prunes at this time; try again");
            }
            self.store.keep_alive(lease)?;
            std::thread::park_timeout(Duration::from_millis(200));
        }
        Ok(Writer { store: &self.store, lease, name, kept: Cell::new(Instant::now()) })
    }

    /// Takes a host out of service, or puts it into service again.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn set_drained(&self, id: &HostId, drain: Option<&Drain>) -> Result<(), Fault> {
        let key = keys::drained(id);
        let write = match drain {
            Some(drain) => Write::Put(key, serde_json::to_vec(drain).unwrap_or_default(), 0),
            None => Write::Delete(key),
        };
        self.store.transact(&[], &[write]).map(|_| ())
    }

    /// Whether a host was let in.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn is_admitted(&self, id: &HostId) -> Result<bool, Fault> {
        self.store.has_user(&format!("{USERS}{id}"))
    }

    /// All releases by number, as they are stored, without a look at their signatures: hosts do that.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn releases(&self) -> Result<BTreeMap<u64, Release>, Fault> {
        let (_, values) = self.store.list(keys::RELEASES)?;
        let named = |value: &Value| {
            let number = keys::last(&value.key, keys::RELEASES)?.parse().ok()?;
            let signed: Signed = read(value)?;
            Some((number, serde_json::from_str(&signed.release).ok()?))
        };
        Ok(values.iter().filter_map(named).collect())
    }

    /// What came of releases, by number.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn ends(&self) -> Result<BTreeMap<u64, End>, Fault> {
        let (_, values) = self.store.list(keys::ENDED)?;
        let named = |value: &Value| {
            Some((keys::last(&value.key, keys::ENDED)?.parse().ok()?, read(value)?))
        };
        Ok(values.iter().filter_map(named).collect())
    }

    /// What is to be written of a rollout that is over, so that it is known after others have begun.
    pub fn write_of_end(rollout: &Rollout) -> Option<Write> {
        let end = rollout.end(now() / 1_000_000)?;
        let bytes = serde_json::to_vec(&end).unwrap_or_default();
        Some(Write::Put(keys::ended(rollout.release), bytes, 0))
    }

    /// The rollout, and the store's revision of it.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn rollout(&self) -> Result<Option<(u64, Rollout)>, Fault> {
        let value = self.store.get(keys::ROLLOUT)?;
        value.map(|value| Ok((value.modified, read_one(&value)?))).transpose()
    }

    /// The machine whose driver drives; none if no driver has given a sign for as long as its lease lives.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn driver(&self) -> Result<Option<String>, Fault> {
        let value = self.store.get(keys::DRIVER)?;
        Ok(value.map(|value| {
            let name = String::from_utf8_lossy(&value.value).into_owned();
            name.split_once('@').map_or(name.clone(), |(_, machine)| machine.to_owned())
        }))
    }

    /// Writes down who did what.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn note(&self, author: &str, what: &str, detail: &str) -> Result<(), Fault> {
        let deed =
            Deed { author: author.to_owned(), what: what.to_owned(), detail: detail.to_owned() };
        let bytes = serde_json::to_vec(&deed).unwrap_or_default();
        self.store.put(&keys::audit(now(), std::process::id()), bytes)
    }

    /// Who did what when, µs since 1970, the oldest first.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn deeds(&self) -> Result<Vec<(u64, Deed)>, Fault> {
        let (_, values) = self.store.list(keys::AUDIT)?;
        let line = |value: &Value| {
            let (at, _) = keys::last(&value.key, keys::AUDIT)?.split_once('-')?;
            Some((at.parse().ok()?, read(value)?))
        };
        Ok(values.iter().filter_map(line).collect())
    }
}
