//! Where to send to: `http://HOST[:PORT][/PATH]`, or `https://` with TLS. Pure.

/// What a receiver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The Journal Export Format, as systemd-journal-remote(8) takes it.
    Journal,
    /// The push API of Loki, as JSON.
    Loki,
    /// Logs of OpenTelemetry over HTTP, as JSON.
    Otlp,
}

impl Target {
    /// Its port where none is said; systemd-journal-upload(8), the documentation of Loki and of OTLP.
    fn port(self) -> u16 {
        match self {
            Target::Journal => 19532,
            Target::Loki => 3100,
            Target::Otlp => 4318,
        }
    }

    /// The end of its path.
    fn last_part(self) -> &'static str {
        match self {
            Target::Journal => "/upload",
            Target::Loki => "/loki/api/v1/push",
            Target::Otlp => "/v1/logs",
        }
    }
}

/// A receiver as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// With TLS.
    pub is_https: bool,
    host: String,
    port: Option<u16>,
    path: String,
}

/// A receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// With TLS.
    pub is_https: bool,
    /// A name or an address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, with a `/` first and the target's last part last.
    pub path: String,
}

/// Reads a URL, or says what is wrong with it.
pub fn parse(text: &str) -> Result<Named, String> {
    let bad = || format!("{text}: not http[s]://HOST[:PORT][/PATH]");
    let is_https = text.starts_with("https://");
    let rest = text.strip_prefix(if is_https { "https://" } else { "http://" }).ok_or_else(bad)?;
    let (place, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    // An IPv6 address has colons and stands in brackets.
    let (host, port) = match place.strip_prefix('[') {
        Some(place) => place.split_once(']').ok_or_else(bad)?,
        None => place.find(':').map_or((place, ""), |at| place.split_at(at)),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => Some(port.parse().map_err(|_| bad())?),
        None if port.is_empty() => None,
        None => return Err(bad()),
    };
    let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !printable(host) || !printable(path) {
        return Err(bad());
    }
    Ok(Named { is_https, host: host.to_owned(), port, path: path.to_owned() })
}

impl Named {
    /// Where a receiver of this kind is.
    pub fn of(self, target: Target) -> Url {
        let path = self.path.trim_end_matches('/');
        let last = target.last_part();
        let path = if path.ends_with(last) { path.to_owned() } else { format!("{path}{last}") };
        let port = self.port.unwrap_or(target.port());
        Url { is_https: self.is_https, host: self.host, port, path }
    }
}

impl Url {
    /// As `Host:` has it.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let cases = [
            ("http://a", "a:19532/upload"),
            ("https://a", "a:19532/upload"),
            ("http://a:80/", "a:80/upload"),
            ("http://a:9428/insert/journald", "a:9428/insert/journald/upload"),
            ("http://a/upload", "a:19532/upload"),
            ("http://[::1]:80", "[::1]:80/upload"),
            ("http://[fe80::1]", "[fe80::1]:19532/upload"),
        ];
        for (text, expected) in cases {
            let url = parse(text).expect(text).of(Target::Journal);
            assert_eq!(url.authority() + &url.path, expected);
            assert_eq!(url.is_https, text.starts_with("https"));
        }
        let others = [
            ("http://a", Target::Loki, "a:3100/loki/api/v1/push"),
            ("https://a:443/tenant/", Target::Loki, "a:443/tenant/loki/api/v1/push"),
            ("http://a/loki/api/v1/push", Target::Loki, "a:3100/loki/api/v1/push"),
            ("http://[::1]/otlp", Target::Otlp, "[::1]:4318/otlp/v1/logs"),
        ];
        for (text, target, expected) in others {
            let url = parse(text).expect(text).of(target);
            assert_eq!(url.authority() + &url.path, expected);
        }
        let bad = [
            "",
            "a",
            "httpss://a",
            "http://",
            "https://",
            "http://a:x",
            "http://[::1",
            "http://[::1]x",
        ];
        for text in bad.into_iter().chain(["http://a b", "http://u@a", "http://a/\r\nX: y"]) {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
