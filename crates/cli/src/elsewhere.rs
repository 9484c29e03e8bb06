//! Commands that another program or another host runs: `warren hosts`, `warren web`, `warren -H HOST`.
//!
//! - Owns: what becomes of the command line on its way there.
//! - Must not: read what comes back; both take this process's place.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::args::Global;
use crate::connection::{control_socket, find_machine};

/// The program behind `warren hosts`.
const HOSTS: &str = "warren-hosts";

/// The program behind `warren web`.
const WEB: &str = "warren-web";

/// Becomes `warren-hosts`: the one beside this program, else that of the search path.
pub fn hosts(words: &[OsString], is_json: bool) -> Result<i32> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let beside = own.with_file_name(HOSTS);
    let program = if beside.exists() { beside.into_os_string() } else { HOSTS.into() };
    let mut command = Command::new(program);
    command.args(is_json.then_some("--json")).args(words);
    let error = command.exec();
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            bail!("{HOSTS} is not installed; it is in the package warrener-hosts")
        }
        _ => Err(error).context(HOSTS),
    }
}

/// Becomes `warren-web` for the manager that the flags name. Without a token it makes one, as it runs for who is at the
/// terminal.
pub fn web(words: &[OsString], global: &Global) -> Result<i32> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let here = own.parent().map(PathBuf::from).unwrap_or_default();
    let places = [here.join(WEB), here.join("../lib/warren").join(WEB)];
    let program = places.into_iter().find(|path| path.exists());
    let program =
        program.context("warren-web is not installed; it is in the package warrener-web")?;
    let mut command = Command::new(program);
    command.arg("--control").arg(control_socket(global)?);
    let says =
        |option: &str| words.iter().any(|word| word.as_bytes().starts_with(option.as_bytes()));
    if let Some(name) = global.machine.as_ref().filter(|_| !says("--root") && !says("--directory"))
    {
        command.arg(format!("--root=/proc/{}/root", find_machine(name, global)?.pid));
    }
    command.args((!says("--token-file") && !says("--new-token")).then_some("--new-token"));
    Err(command.args(words).exec()).context(WEB)
}

/// Becomes ssh(1), which runs the same command there.
pub fn on(host: &str, words: impl Iterator<Item = OsString>) -> Result<i32> {
    let (place, port) = place(host)?;
    let mut ssh = Command::new("ssh");
    ssh.arg("-x");
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    ssh.args(is_terminal.then_some("-t"));
    if let Some(port) = port {
        ssh.args(["-p", port]);
    }
    ssh.args(["--", place, "warren"]);
    ssh.args(without_host(words)?.iter().map(|word| quoted(word)));
    Err(ssh.exec()).context("ssh")
}

/// `[USER@]HOST[:PORT]`; an IPv6 address is in brackets where a port follows.
fn place(host: &str) -> Result<(&str, Option<&str>)> {
    let (place, port) = match host.rsplit_once(':') {
        Some((place, port)) if !place.contains(':') || place.ends_with(']') => (place, Some(port)),
        _ => (host, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    ensure!(port.is_none_or(is_port), "{:?} is not a port", port.unwrap_or_default());
    let bare = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(place);
    let is_plain = !bare.is_empty() && !bare.starts_with('-') && !bare.contains(['/', ' ']);
    ensure!(is_plain, "{host:?} is not a host: give [USER@]HOST[:PORT]");
    Ok((bare, port))
}

/// The words of a command line without `-H HOST`. One that stays in them would have the other host connect to itself for
/// ever: `-qH HOST` is refused.
fn without_host(words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>> {
    let (mut out, mut is_found) = (Vec::new(), false);
    let mut words = words;
    while let Some(word) = words.next() {
        match word.as_bytes() {
            b"--" => {
                out.push(word);
                out.extend(words);
                break;
            }
            b"-H" | b"--host" => {
                is_found = true;
                words.next();
            }
            bytes if bytes.starts_with(b"-H") || bytes.starts_with(b"--host=") => is_found = true,
            _ => out.push(word),
        }
    }
    ensure!(is_found, "give -H HOST by itself, not together with another option");
    Ok(out)
}

/// A word as a shell takes it for one.
fn quoted(word: &OsStr) -> OsString {
    let bytes = word.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=@,+%".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return word.to_owned();
    }
    let mut out = vec![b'\''];
    for byte in bytes {
        match byte {
            b'\'' => out.extend(br"'\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_port_or_none() {
        for (text, expected) in [
            ("web-1", ("web-1", None)),
            ("root@web-1:2222", ("root@web-1", Some("2222"))),
            ("::1", ("::1", None)),
            ("[::1]:22", ("::1", Some("22"))),
        ] {
            assert_eq!(place(text).expect("a place"), expected);
        }
        for wrong in ["", "-oProxyCommand=x", "a:b", "a:0", "a b", "host/container", ":22"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_command_is_run_there() {
        let there = |words: &str| {
            let words = without_host(words.split(' ').map(OsString::from)).expect("a host");
            words
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(there("-H a status -n 5"), "status -n 5");
        assert_eq!(there("status --host a x.service"), "status x.service");
        assert_eq!(there("--host=a -Hb logs -- -H c"), "logs -- -H c");
        for words in ["-qH a status", "logs -- -H c"] {
            assert!(without_host(words.split(' ').map(OsString::from)).is_err(), "{words}");
        }
    }

    #[test]
    fn no_word_becomes_two_in_a_shell() {
        for (word, expected) in
            [("a.service", "a.service"), ("", "''"), ("a b", "'a b'"), ("$(x)'", r"'$(x)'\'''")]
        {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
    }
}
