//! Where to send to: `http://HOST[:PORT][/PATH]`, or `https://` with TLS. Pure.

/// Port of receivers; systemd-journal-upload(8).
const PORT_DEFAULT: u16 = 19532;

/// What is sent to is below the URL's path; systemd-journal-remote(8).
const LAST_PART: &str = "/upload";

/// A receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// With TLS.
    pub is_https: bool,
    /// A name or an address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path, with a `/` first and `upload` last.
    pub path: String,
}

/// Reads a URL, or says what is wrong with it.
pub fn parse(text: &str) -> Result<Url, String> {
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
        Some(port) => port.parse().map_err(|_| bad())?,
        None if port.is_empty() => PORT_DEFAULT,
        None => return Err(bad()),
    };
    let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !printable(host) || !printable(path) {
        return Err(bad());
    }
    let path = path.trim_end_matches('/');
    let path =
        if path.ends_with(LAST_PART) { path.to_owned() } else { format!("{path}{LAST_PART}") };
    Ok(Url { is_https, host: host.to_owned(), port, path })
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
            let url = parse(text).expect(text);
            assert_eq!(url.authority() + &url.path, expected);
            assert_eq!(url.is_https, text.starts_with("https"));
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
