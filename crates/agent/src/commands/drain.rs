//! `drain` and `undrain`: an operator takes a host out of service, and puts it into service again.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use warren_hosts::host::Drain;
use warren_hosts::leaving::{Left, left};
use warren_hosts::names::HostId;
use warren_hosts::placement::{Replicated, left_on};
use warren_sys::tell;

use super::plans::{places, replicated_on};
use super::text::{JSON_VERSION, clean, is_printed, print};
use crate::site::{Site, now};

/// Characters of a reason.
const REASON_CHARS_MAX: usize = 200;

/// How often it is looked at whether copies are left, while somebody waits for that.
const LOOKED_EVERY: Duration = Duration::from_millis(500);

/// Copies of many that are named with why they are left.
const LEFT_SHOWN: usize = 5;

pub(super) fn drain(
    site: &Site,
    author: &str,
    host: &HostId,
    reason: &str,
    wait: Option<u64>,
    is_json: bool,
) -> Result<i32> {
    ensure!(
        reason.chars().count() <= REASON_CHARS_MAX,
        "a reason has at most {REASON_CHARS_MAX} characters"
    );
    let hosts = site.hosts()?;
    let Some(known) = hosts.get(host) else {
        bail!("{host} is not a host of this site; `warren-hosts list` shows all of them");
    };
    let before = known.drained.as_ref();
    let drain = Drain {
        author: author.to_owned(),
        reason: match before.filter(|_| reason.is_empty()) {
            Some(before) => before.reason.clone(),
            None => reason.to_owned(),
        },
        at: before.map_or_else(|| now() / 1_000_000, |before| before.at),
    };
    site.set_drained(host, Some(&drain))?;
    site.note(author, "drain", format!("{host} {reason}").trim_end())?;
    let (left, _) = left_on(host, &site.claims()?);
    print(&match left {
        n if is_json => format!("{}\n", line_json("drained", host, n)),
        0 => format!("{host} is drained. It has no copies; units that rules assign to it stay.\n"),
        n => format!(
            "{host} is drained. {} to other hosts, one of each container after the other; `warren-hosts list` shows how \
             many are left. Units that rules assign to it stay.\n",
            if n == 1 { "1 copy moves".to_owned() } else { format!("{n} copies move") }
        ),
    });
    let Some(seconds) = wait else { return Ok(0) };
    // If the rules cannot be evaluated, the command waits all the same, without reasons.
    let apps = replicated_on(site, known).unwrap_or_else(|why| {
        tell!("why copies are left is not known: {why:#}");
        None
    });
    wait_until_empty(site, host, apps.as_deref(), (seconds, is_json))
}

/// Waits until no copies are left, and says which are and why each time that this changes.
fn wait_until_empty(
    site: &Site,
    host: &HostId,
    apps: Option<&[Replicated]>,
    (seconds, is_json): (u64, bool),
) -> Result<i32> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut told = Vec::new();
    loop {
        let claims = site.claims()?;
        let (count, _) = left_on(host, &claims);
        if count == 0 {
            print(&match is_json {
                true => format!("{}\n", line_json("empty", host, 0)),
                false => format!("{host} has no copies any more.\n"),
            });
            return Ok(0);
        }
        let copies_left = match apps {
            Some(apps) => left(host, apps, &places(&site.hosts()?), &claims),
            None => Vec::new(),
        };
        if Instant::now() > end {
            let why = left_words(host, &copies_left);
            bail!("after {seconds} s {host} still has {}{}", copies(count), why);
        }
        if copies_left != told {
            let out = match is_json {
                true => format!("{}\n", left_json(host, &copies_left)),
                false => format!("{} left{}\n", copies(count), left_words(host, &copies_left)),
            };
            told = copies_left;
            // Nobody waits any more who does not read that.
            if !is_printed(&out) {
                return Ok(1);
            }
        }
        std::thread::park_timeout(LOOKED_EVERY);
    }
}

fn line_json(kind: &str, host: &HostId, copies_left: usize) -> Value {
    json!({"format": JSON_VERSION, "kind": kind, "host": host, "copies_left": copies_left})
}

fn left_json(host: &HostId, copies_left: &[Left]) -> Value {
    let copy = |left: &Left| {
        json!({
            "container": left.app, "copy": left.slot, "why": left.hold.word(), "to": left.hold.to(),
            "for_good": left.hold.is_for_good(), "text": left.words(host),
        })
    };
    let mut line = line_json("left", host, copies_left.len());
    line["copies"] = copies_left.iter().map(copy).collect();
    line
}

/// Why copies are left, those for which an operator has to do something first.
fn left_words(host: &HostId, copies_left: &[Left]) -> String {
    if copies_left.is_empty() {
        return String::new();
    }
    let mut copies_left: Vec<&Left> = copies_left.iter().collect();
    copies_left.sort_by_key(|left| !left.hold.is_for_good());
    let lines = copies_left.iter().take(LEFT_SHOWN);
    let lines = lines.map(|left| format!("\n  {}", clean(&left.words(host))));
    let more = match copies_left.len().saturating_sub(LEFT_SHOWN) {
        0 => String::new(),
        n => format!("\n  and {n} more"),
    };
    format!(":{}{more}", lines.collect::<String>())
}

pub(super) fn undrain(site: &Site, author: &str, host: &HostId) -> Result<i32> {
    if site.hosts()?.get(host).is_none_or(|host| host.drained.is_none()) {
        bail!("{host} is not drained");
    }
    site.set_drained(host, None)?;
    site.note(author, "undrain", host.as_str())?;
    print(&format!("{host} is in service again. Copies stay where they are now.\n"));
    Ok(0)
}

/// `1 copy`, `3 copies`
fn copies(n: usize) -> String {
    if n == 1 { "1 copy".to_owned() } else { format!("{n} copies") }
}

/// Why a host is out of service, and what is left on it, for people: copies, and those that no other host has claimed.
pub(super) fn words(drain: &Drain, since: &str, (left, unclaimed): (usize, usize)) -> String {
    let reason = match drain.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", drain.reason),
    };
    let left = match (left, unclaimed) {
        (0, _) => String::new(),
        (n, 0) => format!("; {} left", copies(n)),
        (n, m) => format!("; {} left, {m} of them claimed by no other host", copies(n)),
    };
    format!("drained by {} {since}{reason}{left}", drain.author)
}

#[cfg(test)]
mod tests {
    use warren_hosts::leaving::Hold;

    use super::*;

    #[test]
    fn what_waits_for_an_operator_is_named_first() {
        let host: HostId = "h1".parse().expect("a name");
        let copy = |slot, hold| Left { app: "shop".to_owned(), slot, hold };
        let mut all: Vec<Left> = (0..5).map(|n| copy(n, Hold::Claimed(host.clone()))).collect();
        assert_eq!(left_words(&host, &[]), "");
        all.push(copy(9, Hold::NoRoom { hosts: 1, capacity: 4 }));
        let words = left_words(&host, &all);
        let first = ":\n  copy 9 of shop: no room: the 1 host in service takes 4 in all, and no more: raise ";
        assert!(words.starts_with(first) && words.ends_with("\n  and 1 more"), "{words}");
        let line = left_json(&host, &all);
        let (one, other) = (&line["copies"][0], &line["copies"][5]);
        assert_eq!((&one["why"], &one["to"]), (&"claimed".into(), &"h1".into()));
        assert_eq!((&other["why"], &other["for_good"]), (&"no-room".into(), &true.into()));
    }

    #[test]
    fn it_says_who_took_a_host_out_and_what_is_left_there() {
        let drain = Drain { author: "op@m".into(), reason: "disk".into(), at: 0 };
        let words = |left| words(&drain, "2 min ago", left);
        assert_eq!(words((0, 0)), "drained by op@m 2 min ago: disk");
        assert_eq!(words((1, 0)), "drained by op@m 2 min ago: disk; 1 copy left");
        assert_eq!(
            words((3, 2)),
            "drained by op@m 2 min ago: disk; 3 copies left, 2 of them claimed by no other host"
        );
    }
}
