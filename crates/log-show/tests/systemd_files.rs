//! Files that the installed systemd-journald writes here, read by ours and by its journalctl.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

/// Runs journald in namespaces of its own, sends it messages, and leaves its files in `$1`.
const SCRIPT: &str = r#"
    set -e
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /var/log
    mkdir -p /run/systemd/journal /var/log/journal
    M=$(cat /etc/machine-id)
    mkdir -p "$1/$M"
    mount --bind "$1" /var/log/journal
    touch /run/systemd/journal/flushed
    printf '[Journal]\nStorage=persistent\nRateLimitIntervalSec=0\nReadKMsg=no\nAudit=no\n' > /run/c
    printf 'ForwardToWall=no\nForwardToSyslog=no\nSystemMaxFileSize=1M\n' >> /run/c
    mount --bind /run/c /etc/systemd/journald.conf
    /lib/systemd/systemd-journald 2>/dev/null & P=$!
    for i in $(seq 100); do test -S /run/systemd/journal/socket && break; sleep 0.1; done
    journalctl --sync
    "$2" --exact --ignored --nocapture sender >/dev/null
    journalctl --sync
    kill $P
    wait $P || true
    mv "$1/$M"/* "$1"
"#;

/// The part of the script that sends; run by it alone, in its namespaces.
#[test]
#[ignore = "only of use in the namespaces of the test below"]
fn sender() {
    let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
    socket.connect("/run/systemd/journal/socket").expect("journald listens");
    for number in 0..3000_usize {
        let mut message = format!(
            "MESSAGE=number {number}\nPRIORITY={}\nSYSLOG_IDENTIFIER=id{}\nN={number}\n",
            number % 8,
            number % 7
        );
        if number % 11 == 0 {
            message += "DOUBLE=a\nDOUBLE=b\n";
        }
        let mut message = message.into_bytes();
        if number % 50 == 0 {
            let value = [&vec![b'x'; number * 3][..], &[b'\n', number as u8]].concat();
            message.extend_from_slice(b"BIG\n");
            message.extend_from_slice(&(value.len() as u64).to_le_bytes());
            message.extend_from_slice(&value);
            message.push(b'\n');
        }
        socket.send(&message).expect("sent");
    }
}

/// All entries as JSON, without cursors and in one order of doubled values.
fn entries(program: &Path, directory: &Path, args: &str) -> Vec<Map<String, Value>> {
    let mut command = Command::new(program);
    command.arg("-D").arg(directory).args(["-q", "-a", "-o", "json"]).args(args.split_whitespace());
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let one = |line: &str| -> Map<String, Value> {
        let mut entry: Map<String, Value> = serde_json::from_str(line).expect("it is JSON");
        entry.remove("__CURSOR");
        if let Some(Value::Array(values)) = entry.get_mut("DOUBLE") {
            values.sort_by_key(ToString::to_string);
        }
        entry
    };
    text.lines().map(one).collect()
}

/// What is printed, and the exit status; times in a zone that is not UTC.
fn printed(program: &Path, place: &[&str], args: &str) -> (String, Option<i32>) {
    let mut command = Command::new(program);
    command.args(place).args(args.split_whitespace()).env("TZ", "America/New_York");
    let output = command.output().expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if args == "--verify" || args.starts_with("-N") || args.starts_with("-F") {
        // systemd has files, fields and values in the order of a hash.
        text = text.lines().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("\n");
    }
    (text, output.status.code())
}

/// Options whose output must be the same to the byte.
const PRINTED: [&str; 20] = [
    "-N",
    "-F PRIORITY",
    "-F N",
    "-F _BOOT_ID",
    "-F NOSUCH",
    "-u nosuch",
    "--since 2100-01-01",
    "-b -p crit N=8 + N=16 + N=2999 -o short-precise",
    "-o short-precise -n 50",
    "-o short-unix -r -n 50",
    "-o short-monotonic -n 50",
    "-o short-delta -n 50",
    "-o short-iso-precise -p err -n 50",
    "-q -g NUMBER.1 --case-sensitive=no -n 7",
    "--disk-usage",
    "--list-boots",
    "--verify",
    "--verify -q",
    "-o cat -t nosuch",
    "-t nosuch",
];

/// Prints with both programs, from a directory, from one that has it in it, and by patterns.
fn check_printed(ours: &Path, theirs: &Path, directory: &Path) {
    let sender = std::env::current_exe().expect("this program").display().to_string();
    let name = directory.display().to_string();
    for args in PRINTED.into_iter().chain([&*format!("{sender} -n 9"), "/dev/null"]) {
        let place = ["-D", &name];
        assert_eq!(printed(ours, &place, args), printed(theirs, &place, args), "{args}");
    }
    let holder = directory.with_extension("holder");
    let inner = holder.join("0123456789abcdef0123456789abcdef");
    std::fs::create_dir_all(&holder).expect("a directory");
    std::fs::rename(directory, &inner).expect("it is moved");
    let holder_name = holder.display().to_string();
    let pattern = format!("{}*/?123456789*/*.journal", directory.display());
    for place in [["-D", &*holder_name], ["--file", &*pattern]] {
        let found = printed(ours, &place, "-n 5");
        assert_eq!(found, printed(theirs, &place, "-n 5"), "{place:?}");
        assert_eq!(found.0.lines().count(), 5, "{place:?}: {}", found.0);
    }
    std::fs::rename(&inner, directory).expect("it is moved back");
    std::fs::remove_dir_all(&holder).expect("ours to remove");
}

fn check(compact: &str, keyed: &str) {
    let name = format!("warren-files-{compact}-{keyed}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&directory).expect("a directory");
    let made = Command::new("unshare")
        .args(["-m", "-n", "--propagation", "private", "sh", "-c", SCRIPT, "sh"])
        .arg(&directory)
        .arg(std::env::current_exe().expect("this program"))
        .env("SYSTEMD_JOURNAL_COMPACT", compact)
        .env("SYSTEMD_JOURNAL_KEYED_HASH", keyed)
        .status();
    let theirs = PathBuf::from("journalctl");
    let all = match made {
        Ok(status) if status.success() => entries(&theirs, &directory, ""),
        _ => Vec::new(),
    };
    if all.len() < 3000 {
        warren_testkit::not_run("needs root, namespaces and systemd-journald");
        let _ = std::fs::remove_dir_all(&directory);
        return;
    }
    let ours = PathBuf::from(env!("CARGO_BIN_EXE_warren-journalctl"));
    for args in ["", "-n 20", "-r -n 5", "-t id3 -p err", "-g 9[05]$", "N=77", "-b", "PRIORITY=3"] {
        let expected = entries(&theirs, &directory, args);
        assert_eq!(entries(&ours, &directory, args), expected, "compact={compact} {args}");
    }
    check_printed(&ours, &theirs, &directory);
    std::fs::remove_dir_all(&directory).expect("it was made");
}

#[test]
fn what_journald_wrote_is_read_like_its_own_reader_does() {
    check("1", "1");
    check("0", "1");
    check("0", "0");
}
