//! `cargo xtask exposure`: how much of the machine our own services could reach, in the figures of
//! `systemd-analyze security`, beside those of Debian's units for the same daemons.
//! The figures rate what a unit file asks for; `warren security UNIT` says what of it is in force.
//! Must not: judge units that are not ours.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::root;

/// Our units, and those of systemd's for the same daemon.
const UNITS: [(&str, Option<&str>); 13] = [
    ("systemd-journald.service", Some("systemd-journald.service")),
    ("systemd-journald@.service", Some("systemd-journald@.service")),
    ("systemd-journal-flush.service", Some("systemd-journal-flush.service")),
    ("warren-deviced.service", Some("systemd-udevd.service")),
    ("warren-journal-gatewayd.service", Some("systemd-journal-gatewayd.service")),
    ("warren-journal-upload.service", Some("systemd-journal-upload.service")),
    // Systemd 252 has none of these.
    ("warren-journal-access.service", None),
    ("warren-exporter.service", None),
    ("warren-web.service", None),
    ("warren-agent.service", None),
    ("warren-hosts.service", None),
    ("systemd-soft-reboot.service", None),
    ("warren-host-fallback.service", None),
];

/// Where Debian has units.
const OF_DEBIAN: &str = "/lib/systemd/system";

/// The page with the table, below the workspace.
const PAGE: &str = "docs/src/design/exposure.md";

const HEAD: &str = "\
# How exposed our own services are

Written by `cargo xtask exposure`, with the `systemd-analyze security --offline=true` of Debian 12 (systemd 252); 0 is
closed, 10 is open. A test holds that each of our units is at least as closed as Debian's for the same daemon.

The figure rates what a unit file asks for. What of it is in force on a machine says `warren security UNIT`; what a
container does not allow is named when the unit starts.

";

const FOOT: &str = "
Two protections are left out on purpose. The log daemon and the device daemon start before the root is writable and
`/var` is mounted: with mounts of their own (`ProtectSystem=`, `ProtectKernelModules=`, `PrivateMounts=`) they would go
on to see both as they were. The log daemon gives its directories to the groups that may read them, with the bit that
hands the group on to new files, which `RestrictSUIDSGID=` forbids.
";

/// Figures of one of our units and of its peer, in tenths.
struct Row {
    ours: &'static str,
    peer: Option<&'static str>,
    figure: u32,
    of_peer: Option<u32>,
}

/// Prints the table and writes the page; an error if one of ours is more open than its peer.
pub fn run() -> Result<()> {
    let rows = rows()?;
    let page = page(&rows);
    print!("{page}");
    fs::write(root().join(PAGE), page).context(PAGE)?;
    let open: Vec<&str> =
        rows.iter().filter(|row| row.is_more_open()).map(|row| row.ours).collect();
    ensure!(open.is_empty(), "more open than their peers: {}", open.join(" "));
    Ok(())
}

impl Row {
    fn is_more_open(&self) -> bool {
        self.of_peer.is_some_and(|of_peer| self.figure > of_peer)
    }
}

fn rows() -> Result<Vec<Row>> {
    let row = |(ours, peer): &(&'static str, Option<&'static str>)| {
        let figure = figure(&root().join("units").join(ours))?;
        let of_peer = peer.map(|peer| Path::new(OF_DEBIAN).join(peer)).filter(|path| path.exists());
        let of_peer = of_peer.map(|path| figure_of(&path)).transpose()?;
        Ok(Row { ours, peer: *peer, figure, of_peer })
    };
    UNITS.iter().map(row).collect()
}

fn figure(path: &Path) -> Result<u32> {
    ensure!(path.exists(), "{}: there is no such unit", path.display());
    figure_of(path)
}

/// What systemd-analyze says of a unit file, in tenths.
fn figure_of(path: &Path) -> Result<u32> {
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(path)
        .env("LC_ALL", "C")
        .output();
    let output = output.context("systemd-analyze: it is of Debian's package systemd")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    read_figure(&text).with_context(|| format!("{}: no figure in: {text}", path.display()))
}

fn read_figure(text: &str) -> Option<u32> {
    let line = text.lines().find(|line| line.contains("Overall exposure level"))?;
    let (whole, tenth) = line.split_once(": ")?.1.split_whitespace().next()?.split_once('.')?;
    Some(whole.parse::<u32>().ok()? * 10 + tenth.parse::<u32>().ok()?)
}

fn page(rows: &[Row]) -> String {
    let mut out = HEAD.to_owned();
    out.push_str("| unit | figure | Debian's unit | figure |\n|--|--|--|--|\n");
    let shown = |tenths: u32| format!("{}.{}", tenths / 10, tenths % 10);
    for row in rows {
        let of_peer = row.of_peer.map_or_else(|| "-".to_owned(), shown);
        let (ours, peer) = (row.ours, row.peer.map_or("-".to_owned(), |peer| format!("`{peer}`")));
        let _ = writeln!(out, "| `{ours}` | {} | {peer} | {of_peer} |", shown(row.figure));
    }
    out.push_str(FOOT);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> Option<u32> {
        let output = Command::new("systemd-analyze").arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace().nth(1)?.parse().ok()
    }

    #[test]
    fn figures_are_read() {
        let line = "\n→ Overall exposure level for a.service: 9.6 UNSAFE :-(\n";
        assert_eq!(read_figure(line), Some(96));
        assert_eq!(read_figure("Failed"), None);
    }

    #[test]
    fn our_units_are_as_closed_as_debians_and_the_page_says_how_much() {
        let Some(version) = version() else {
            return warren_testkit::not_run("systemd-analyze, not installed");
        };
        let rows = rows().expect("all units have a figure");
        let open = rows.iter().filter(|row| row.is_more_open());
        let open: Vec<(&str, u32, Option<u32>)> =
            open.map(|row| (row.ours, row.figure, row.of_peer)).collect();
        assert!(open.is_empty(), "{open:?}");
        if version == 252 && rows.iter().all(|row| row.peer.is_none() || row.of_peer.is_some()) {
            let committed = fs::read_to_string(root().join(PAGE)).expect("it is committed");
            assert_eq!(committed, page(&rows), "run `cargo xtask exposure`");
        }
    }

    /// What is rated is all that there is.
    #[test]
    fn every_service_has_a_row() {
        let listing = fs::read_dir(root().join("units")).expect("it is there").flatten();
        let names = listing.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut services: Vec<String> = names.filter(|name| name.ends_with(".service")).collect();
        let mut rated = UNITS.map(|(ours, _)| ours.to_owned());
        services.sort();
        rated.sort();
        assert_eq!(services, rated);
    }
}
