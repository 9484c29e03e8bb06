//! `/etc/warren/hosts.conf`: where the store is, who this host is, whom it trusts.
//!
//! Lines `Name=value` below `[Hosts]`, as in the other files of `/etc/warren`; an unknown name is a fault.

use std::path::{Path, PathBuf};

use ureq::tls::{Certificate, PemItem, PrivateKey, parse_pem};
use warren_hosts::names::HostId;

/// Where the file is.
pub const PATH: &str = "/etc/warren/hosts.conf";

/// Bytes of a file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the store is, and how it is spoken to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Endpoints {
    /// `https://HOST:2379`
    pub urls: Vec<String>,
    /// Certificates that the store's must come from.
    pub ca: Option<PathBuf>,
    /// The own certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A user of the store, and the file of the password.
    pub user: Option<(String, PathBuf)>,
}

/// What the files of [`Endpoints`] hold.
pub struct Secrets {
    pub(crate) roots: Option<Vec<Certificate<'static>>>,
    pub(crate) own: Option<(Vec<Certificate<'static>>, PrivateKey<'static>)>,
}

/// The settings of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The store.
    pub endpoints: Endpoints,
    /// The host's name in it.
    pub name: Option<HostId>,
    /// Where others reach it by ssh(1).
    pub address: Option<String>,
    /// Lines of labels.
    pub labels: PathBuf,
    /// The file of labels is named: it has to be there.
    pub needs_labels: bool,
    /// Lines of keys that are trusted.
    pub trusted: PathBuf,
    /// What is remembered, and the rules that are in force.
    pub state: PathBuf,
    /// The manager's control socket.
    pub control: PathBuf,
    /// How many copies of replicated containers this host takes.
    pub capacity: u32,
    /// How long the store waits for a sign of this host before it is away, seconds.
    pub lease: u64,
    /// Units of rules that may be restarted at once when their files have changed.
    pub restarts: u32,
    /// Run before rules are applied, and again after it with `undrain`.
    pub drain: Option<Vec<String>>,
    /// A report has the last line of the log of a unit that failed.
    pub tells_logs: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            endpoints: Endpoints::default(),
            name: None,
            address: None,
            labels: "/etc/warren/labels".into(),
            needs_labels: false,
            trusted: "/etc/warren/trusted-keys".into(),
            state: "/var/lib/warren/hosts".into(),
            control: "/run/warren/control".into(),
            capacity: 0,
            lease: 60,
            restarts: 10,
            drain: None,
            tells_logs: true,
        }
    }
}

/// Reads a file that is not larger than it should be.
///
/// # Errors
/// In words, with the path.
pub fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read as _;
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(wrong)?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("{}: larger than {FILE_BYTES_MAX} bytes", path.display())),
        false => Ok(bytes),
    }
}

impl Settings {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or a line means nothing; in words.
    pub fn read(path: &Path) -> Result<Settings, String> {
        let text = String::from_utf8(read_file(path)?)
            .map_err(|_| format!("{}: not UTF-8", path.display()))?;
        Settings::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    pub(crate) fn parse(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let (mut certificate, mut key, mut user, mut password) = (None, None, None, None);
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) || line == "[Hosts]" {
                continue;
            }
            let wrong = |what: &str| format!("line {}: {what}", at + 1);
            let (name, value) = line.split_once('=').ok_or_else(|| wrong("no '=' in it"))?;
            let value = value.trim();
            let number = |least: u64, most: u64| {
                let number = value.parse().ok().filter(|n| (least..=most).contains(n));
                number.ok_or_else(|| {
                    wrong(&format!("{value:?} is not a number from {least} to {most}"))
                })
            };
            match name.trim() {
                "Endpoints" => {
                    let urls = value.split_ascii_whitespace().map(|url| endpoint(url).ok_or(url));
                    let urls: Result<Vec<String>, &str> = urls.collect();
                    settings.endpoints.urls = urls.map_err(|url| {
                        wrong(&format!("{url:?} is not an address such as https://HOST:2379"))
                    })?;
                }
                "CACertificate" => settings.endpoints.ca = Some(value.into()),
                "Certificate" => certificate = Some(PathBuf::from(value)),
                "CertificateKey" => key = Some(PathBuf::from(value)),
                "User" => user = Some(value.to_owned()),
                "PasswordFile" => password = Some(PathBuf::from(value)),
                "Name" => settings.name = Some(value.parse().map_err(|e| wrong(&format!("{e}")))?),
                "Address" => settings.address = Some(value.to_owned()),
                "Labels" => (settings.labels, settings.needs_labels) = (value.into(), true),
                "TrustedKeys" => settings.trusted = value.into(),
                "StateDirectory" => settings.state = value.into(),
                "ControlSocket" => settings.control = value.into(),
                "Capacity" => settings.capacity = number(0, 1_000_000)? as u32,
                "LeaseSec" => settings.lease = number(5, 86_400)?,
                "MaxRestarts" => settings.restarts = number(1, 100_000)? as u32,
                "DrainCommand" => {
                    let words: Vec<String> =
                        value.split_ascii_whitespace().map(str::to_owned).collect();
                    settings.drain = Some(words).filter(|words| !words.is_empty());
                }
                "ReportLogLines" => {
                    settings.tells_logs = match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(wrong(&format!("{value:?} is neither yes nor no"))),
                    }
                }
                other => return Err(wrong(&format!("there is no setting {other:?}"))),
            }
        }
        settings.endpoints.certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("Certificate= and CertificateKey= go together".to_owned()),
        };
        settings.endpoints.user = match (user, password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err("User= and PasswordFile= go together".to_owned()),
        };
        if settings.endpoints.urls.is_empty() {
            return Err("Endpoints= is missing".to_owned());
        }
        Ok(settings)
    }
}

/// An address without what may follow it.
fn endpoint(url: &str) -> Option<String> {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = host.strip_suffix('/').unwrap_or(host);
    let is_plain = !host.is_empty() && !host.contains(['/', '?', '#', '@']);
    is_plain.then(|| url.strip_suffix('/').unwrap_or(url).to_owned())
}

impl Endpoints {
    pub(crate) fn read_secrets(&self) -> Result<Secrets, String> {
        let roots = self.ca.as_deref().map(certificates).transpose()?;
        if roots.is_none() && self.urls.iter().any(|url| url.starts_with("https:")) {
            return Err(
                "CACertificate= is missing: it says whose certificate the store has to have"
                    .to_owned(),
            );
        }
        let own = match &self.certificate {
            Some((chain, key)) => {
                let pem = read_file(key)?;
                let key =
                    PrivateKey::from_pem(&pem).map_err(|e| format!("{}: {e}", key.display()))?;
                Some((certificates(chain)?, key))
            }
            None => None,
        };
        if let Some((_, file)) = &self.user {
            read_password(file)?;
        }
        Ok(Secrets { roots, own })
    }
}

/// The password that a file has.
///
/// # Errors
/// It cannot be read, in words.
pub(crate) fn read_password(file: &Path) -> Result<String, String> {
    let text = String::from_utf8_lossy(&read_file(file)?).into_owned();
    Ok(text.trim_end_matches('\n').to_owned())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let pem = read_file(path)?;
    let mut out = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) =
            item.map_err(|e| format!("{}: {e}", path.display()))?
        {
            out.push(certificate);
        }
    }
    match out.is_empty() {
        true => Err(format!("{}: no certificate in it", path.display())),
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let text = "# a comment\n[Hosts]\nEndpoints=https://a:2379 http://[::1]:2379/\nName=web-1\nCapacity=40\n\
                    CACertificate=/ca\nCertificate=/c\nCertificateKey=/k\nDrainCommand=/bin/drain --now\n\
                    ReportLogLines=no\n";
        let settings = Settings::parse(text).expect("settings");
        assert_eq!(settings.endpoints.urls, ["https://a:2379", "http://[::1]:2379"]);
        assert_eq!(settings.endpoints.certificate, Some(("/c".into(), "/k".into())));
        assert_eq!(settings.name.map(|name| name.to_string()).as_deref(), Some("web-1"));
        assert_eq!(settings.drain, Some(vec!["/bin/drain".to_owned(), "--now".to_owned()]));
        assert_eq!((settings.capacity, settings.lease, settings.tells_logs), (40, 60, false));
    }

    #[test]
    fn what_means_nothing_is_said() {
        for (text, why) in [
            ("", "Endpoints= is missing"),
            ("Endpoints=a:2379", "line 1: \"a:2379\" is not an address such as https://HOST:2379"),
            (
                "Endpoints=http://a/x",
                "line 1: \"http://a/x\" is not an address such as https://HOST:2379",
            ),
            ("Endpoint=http://a", "line 1: there is no setting \"Endpoint\""),
            (
                "Name=a/b",
                "line 1: \"a/b\" is not a valid host name: letters, digits, '-', '_' and '.', at most 128",
            ),
            ("LeaseSec=1", "line 1: \"1\" is not a number from 5 to 86400"),
            ("Endpoints=http://a\nCertificate=/x", "Certificate= and CertificateKey= go together"),
            ("ReportLogLines=1", "line 1: \"1\" is neither yes nor no"),
            ("x", "line 1: no '=' in it"),
        ] {
            assert_eq!(Settings::parse(text), Err(why.to_owned()));
        }
        let endpoints = Endpoints { urls: vec!["https://a".into()], ..Endpoints::default() };
        assert!(
            endpoints.read_secrets().is_err_and(|why| why.starts_with("CACertificate= is missing"))
        );
    }
}
