//! The manual pages warren-hosts(1) and warren-agent(8): what their command lines say, and the settings of both.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// Settings of `/etc/warren/hosts.conf`, and what they say.
pub const SETTINGS: [(&str, &str); 16] = [
    ("Endpoints=", "Where the store is: https://HOST:2379, or several such addresses. Required."),
    ("CACertificate=", "Certificates in PEM that the store's must come from. Required for https."),
    (
        "Certificate=, CertificateKey=",
        "The own certificate in PEM and its key. Its subject must have no common name: etcd's JSON gateway takes none.",
    ),
    ("User=, PasswordFile=", "A user of the store, and the file of the password."),
    ("Name=", "The host's name in the store. Default: the machine's id."),
    ("Address=", "Where others reach the host by ssh(1). Default: its hostname."),
    (
        "Labels=",
        "A file of labels, a line NAME=VALUE each. The agent does not start without it. Default: /etc/warren/labels, which \
         need not be there as long as it never was.",
    ),
    (
        "TrustedKeys=",
        "A file of keys whose releases the host follows, a line each as keygen prints it. Default: \
         /etc/warren/trusted-keys.",
    ),
    ("StateDirectory=", "What the host keeps. Default: /var/lib/warren/hosts."),
    ("ControlSocket=", "The manager's control socket. Default: /run/warren/control."),
    (
        "Capacity=",
        "How many copies of containers with replicas the host takes, 0 to 1,000,000. Default: 0.",
    ),
    (
        "LeaseSec=",
        "How long the store waits for a sign of the host before it is away, 5 to 86,400. Default: 60.",
    ),
    (
        "MaxRestarts=",
        "How many units whose files have changed are restarted at once, 1 to 100,000. Default: 10.",
    ),
    (
        "DrainCommand=",
        "Run with the word drain before rules are put into force and with undrain after that; one that fails, or takes \
         more than 5 minutes, fails the release on this host. The same when an operator drains and undrains the host: then \
         one that fails is run again.",
    ),
    (
        "ReportLogLines=",
        "Whether reports have the last line of the log of a failed unit: yes or no. All who can read the store see it. \
         Default: yes.",
    ),
    ("[Hosts]", "The section that all of them are in; it may be left out."),
];

/// Writes the pages into a directory, which is made.
///
/// # Errors
/// As open(2) and write(2).
pub fn write(directory: &Path, hosts: Command, agent: Command) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(hosts.clone(), directory)?;
    page(&directory.join("warren-hosts.1"), hosts, "1")?;
    page(&directory.join("warren-agent.8"), agent, "8")
}

fn page(path: &Path, command: Command, section: &str) -> io::Result<()> {
    let mut out = Vec::new();
    Man::new(command).section(section).render(&mut out)?;
    let mut settings = Roff::new();
    settings.control("SH", ["/etc/warren/hosts.conf"]);
    for (key, text) in SETTINGS {
        settings.control("TP", []).text([bold(key)]).text([roman(text)]);
    }
    out.extend(settings.to_roff().as_bytes());
    fs::write(path, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_page_names_each_setting() {
        let names = SETTINGS.iter().flat_map(|(names, _)| names.split(", "));
        for name in names.filter_map(|name| name.strip_suffix('=')) {
            let why = Settings::parse(&format!("{name}=\u{1}")).err();
            assert!(!why.unwrap_or_default().contains("there is no setting"), "{name}");
        }
    }
}
