//! `drain` and `undrain`: an operator takes a host out of service, and puts it into service again.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use warren_hosts::host::Drain;
use warren_hosts::names::HostId;
use warren_hosts::placement::left_on;

use super::text::print;
use crate::site::{Site, now};

/// Characters of a reason.
const REASON_CHARS_MAX: usize = 200;

/// How often it is looked at whether copies are left, while somebody waits for that.
const LOOKED_EVERY: Duration = Duration::from_millis(500);

pub(super) fn drain(
    site: &Site,
    author: &str,
    host: &HostId,
    reason: &str,
    wait: Option<u64>,
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
        0 => format!("{host} is drained. It has no copies; units that rules assign to it stay.\n"),
        n => format!(
            "{host} is drained. {} to other hosts, one of each container after the other; `warren-hosts list` shows how \
             many are left. Units that rules assign to it stay.\n",
            if n == 1 { "1 copy moves".to_owned() } else { format!("{n} copies move") }
        ),
    });
    wait.map_or(Ok(0), |seconds| wait_until_empty(site, host, seconds))
}

fn wait_until_empty(site: &Site, host: &HostId, seconds: u64) -> Result<i32> {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        let (left, unclaimed) = left_on(host, &site.claims()?);
        if left == 0 {
            print(&format!("{host} has no copies any more.\n"));
            return Ok(0);
        }
        if Instant::now() > end {
            let advice = match unclaimed {
                0 => "; `warren-hosts why` says what is wrong on those that take them".to_owned(),
                n => format!(
                    ", and no other host has claimed {n} of them: raise Capacity= of hosts, or undrain one"
                ),
            };
            bail!("after {seconds} s {host} still has {}{advice}", copies(left));
        }
        std::thread::park_timeout(LOOKED_EVERY);
    }
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
    use super::*;

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
