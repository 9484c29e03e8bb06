//! What a request means: systemd-journal-gatewayd(8), `SUPPORTED URLS`. Pure.
//!
//! Where the manual page says nothing, systemd 252's program was asked: one number behind a cursor
//! is how many, a range of another unit is ignored, and an `Accept:` that is no format is the first
//! one. A method that is not GET or HEAD is answered 405 as HTTP has it, not 406.

use warren_http::request::{Refusal, Request};
use warren_log_show::format::{Clock, Mode};
use warren_log_store::entry::is_valid_name;
use warren_log_store::query::{Cursor, Expr, matches};
use warren_log_store::time;

/// Most arguments of a URL.
const ARGUMENTS_MAX: usize = 256;

/// What is to be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `/`: it is at another place.
    Root,
    /// `/browse`.
    Browse,
    /// `/machine`.
    Machine,
    /// `/fields/NAME`.
    Values {
        /// The field.
        name: String,
        /// `Accept: application/json`.
        json: bool,
    },
    /// `/entries`.
    Entries(Selection),
}

/// Which entries, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The format.
    pub format: Format,
    /// The range.
    pub range: Range,
    /// Of these fields.
    pub expr: Expr,
    /// Of this boot.
    pub boot: bool,
    /// Go on with what comes.
    pub follow: bool,
    /// The entry of the cursor alone.
    pub discrete: bool,
}

/// How entries are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Its name.
    pub mime: &'static str,
    /// How each one is printed.
    pub mode: Mode,
}

/// Formats; what is not here is the first one.
const FORMATS: [Format; 5] = [
    Format { mime: "text/plain", mode: Mode::Short(Clock::Syslog) },
    Format { mime: "application/json", mode: Mode::Json },
    Format { mime: "text/event-stream", mode: Mode::JsonSse },
    Format { mime: "application/json-seq", mode: Mode::JsonSeq },
    Format { mime: "application/vnd.fdo.journal", mode: Mode::Export },
];

/// `Range: entries=CURSOR[[:SKIP]:COUNT]`, or `realtime=[SINCE]:[UNTIL][[:SKIP]:COUNT]` with seconds since 1970, as systemd
/// 256 and later take it. An empty count is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Range {
    /// Not before this time, µs since 1970.
    pub since_us: Option<u64>,
    /// Not after this time, µs since 1970.
    pub until_us: Option<u64>,
    /// From there; without, from the first entry, or with a negative `skip` from the last.
    pub cursor: Option<Cursor>,
    /// So many entries further, or back.
    pub skip: i64,
    /// So many entries; `None`: all.
    pub count: Option<u64>,
}

/// What a request means.
pub fn route(request: &Request) -> Result<Route, Refusal> {
    if !["GET", "HEAD"].contains(&request.method.as_str()) {
        return Err(Refusal(405, "Unsupported method."));
    }
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    match path {
        "/" => Ok(Route::Root),
        "/browse" => Ok(Route::Browse),
        "/machine" => Ok(Route::Machine),
        "/entries" => entries(request, query).map(Route::Entries),
        path => match path.strip_prefix("/fields/") {
            Some(name) if is_valid_name(name.as_bytes()) => {
                let json = format(&request.accept).mode == Mode::Json;
                Ok(Route::Values { name: name.to_owned(), json })
            }
            Some(_) => Err(Refusal(400, "Failed to query unique fields.")),
            None => Err(Refusal(404, "Not found.")),
        },
    }
}

fn format(accept: &str) -> Format {
    FORMATS.into_iter().find(|format| format.mime == accept).unwrap_or(FORMATS[0])
}

fn entries(request: &Request, query: &str) -> Result<Selection, Refusal> {
    const BAD: Refusal = Refusal(400, "Failed to parse URL arguments.");
    let mut wanted = Selection {
        format: format(&request.accept),
        range: request.range.as_deref().map_or(Ok(Range::default()), parse_range)?,
        expr: Expr::default(),
        boot: false,
        follow: false,
        discrete: false,
    };
    let mut fields = Vec::new();
    for argument in query.split('&').filter(|argument| !argument.is_empty()) {
        let argument = decode(argument).ok_or(BAD)?;
        let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
        match name {
            "boot" => wanted.boot = truth(value).ok_or(BAD)?,
            "follow" => wanted.follow = truth(value).ok_or(BAD)?,
            "discrete" => wanted.discrete = truth(value).ok_or(BAD)?,
            _ => fields.push(format!("{name}={value}")),
        }
    }
    if fields.len() > ARGUMENTS_MAX {
        return Err(BAD);
    }
    let words: Vec<&str> = fields.iter().map(String::as_str).collect();
    wanted.expr = matches::parse(&words).map_err(|_| BAD)?;
    match wanted.discrete && wanted.range.cursor.is_none() {
        true => Err(Refusal(400, "Discrete seeks require a cursor specification.")),
        false => Ok(wanted),
    }
}

/// A switch of a URL is on when it is there.
fn truth(value: &str) -> Option<bool> {
    match value {
        "" | "1" | "yes" | "true" | "on" | "y" | "t" => Some(true),
        "0" | "no" | "false" | "off" | "n" | "f" => Some(false),
        _ => None,
    }
}

/// A range of another unit is ignored.
fn parse_range(text: &str) -> Result<Range, Refusal> {
    if let Some(text) = text.strip_prefix("entries=") {
        let (cursor, rest) = text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b)));
        let parse = |text| Cursor::parse(text).ok_or(Refusal(400, "Failed to seek in journal."));
        let (skip, count) = parse_counts(rest)?;
        let cursor = Some(cursor.trim()).filter(|text| !text.is_empty()).map(parse).transpose()?;
        return Ok(Range { cursor, skip, count, ..Range::default() });
    }
    let Some(text) = text.strip_prefix("realtime=") else { return Ok(Range::default()) };
    let (since, rest) = text.split_once(':').ok_or(BAD_RANGE)?;
    let (until, rest) = rest.split_once(':').map_or((rest, None), |(a, b)| (a, Some(b)));
    let time = |text: &str| {
        let text = Some(text.trim()).filter(|text| !text.is_empty());
        text.map(|text| parse_seconds(text).ok_or(BAD_RANGE)).transpose()
    };
    let (skip, count) = parse_counts(rest)?;
    Ok(Range { since_us: time(since)?, until_us: time(until)?, skip, count, ..Range::default() })
}

const BAD_RANGE: Refusal = Refusal(400, "Failed to parse Range header.");

fn parse_seconds(text: &str) -> Option<u64> {
    text.starts_with(|c: char| c.is_ascii_digit()).then(|| time::parse_seconds(text))?
}

/// `[SKIP:]COUNT`.
fn parse_counts(text: Option<&str>) -> Result<(i64, Option<u64>), Refusal> {
    let Some(text) = text else { return Ok((0, None)) };
    let (skip, count) = match text.split_once(':') {
        Some((skip, count)) => (skip.trim().parse().map_err(|_| BAD_RANGE)?, count),
        None => (0, text),
    };
    let count = Some(count.trim()).filter(|count| !count.is_empty());
    let count: Option<u64> = count.map(str::parse).transpose().map_err(|_| BAD_RANGE)?;
    if count == Some(0) { Err(BAD_RANGE) } else { Ok((skip, count)) }
}

/// Undoes `%XX` and `+`; `None` where what comes out is no text.
fn decode(text: &str) -> Option<String> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let (mut bytes, mut decoded) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => (digit(bytes.next())? << 4 | digit(bytes.next())?) as u8,
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `[METHOD ]TARGET [ACCEPT [RANGE]]` and what it means, or its refusal.
    fn check(line: &str, expected: &str) {
        let mut words = line.split(' ');
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (method, target, accept, range) = (next(), next(), next(), words.next());
        // A number is one of a sequence.
        let sequence = format!("entries=s={:032};i=", 1);
        let range = range.map(|range| range.replace("entries=i=", &sequence));
        let found = match route(&Request {
            method,
            target,
            is_1_1: true,
            accept,
            range,
            ..Request::default()
        }) {
            Ok(Route::Entries(wanted)) => shown(&wanted),
            Ok(Route::Values { name, json }) => format!("values {name} {json}"),
            Ok(other) => format!("{other:?}"),
            Err(Refusal(status, _)) => status.to_string(),
        };
        assert_eq!(found, expected, "{line}");
    }

    fn shown(wanted: &Selection) -> String {
        let Range { since_us, until_us, cursor, skip, count } = &wanted.range;
        let mut text = wanted.format.mime.to_owned();
        let mut say = |on: bool, what: &str| text += if on { what } else { "" };
        say(wanted.boot, " boot");
        say(wanted.follow, " follow");
        say(wanted.discrete, " discrete");
        say(cursor.is_some(), &format!(" from {}", cursor.map_or(0, |cursor| cursor.seqnum)));
        say(*skip != 0, &format!(" skip {skip}"));
        say(since_us.is_some(), &format!(" since {}", since_us.unwrap_or(0)));
        say(until_us.is_some(), &format!(" until {}", until_us.unwrap_or(0)));
        say(count.is_some(), &format!(" count {}", count.unwrap_or(0)));
        say(wanted.expr != Expr::All(Vec::new()), " some");
        text
    }

    #[test]
    fn urls() {
        check("GET /", "Root");
        check("HEAD /browse", "Browse");
        check("GET /machine", "Machine");
        check("GET /fields/_PID", "values _PID false");
        check("GET /fields/_PID application/json", "values _PID true");
        for bad in ["/fields/", "/fields/A=b", "/fields/nosuch", "/fields/A/B"] {
            check(&format!("GET {bad}"), "400");
        }
        check("GET /nosuch", "404");
        check("GET /fields", "404");
        check("GET entries", "404");
        check("POST /entries", "405");
    }

    #[test]
    fn arguments() {
        check("GET /entries", "text/plain");
        check("GET /entries?boot", "text/plain boot");
        check("GET /entries?boot=0&follow=yes&&A=b", "text/plain follow some");
        check("GET /entries?MESSAGE=a%20b%3D", "text/plain some");
        check("GET /entries text/event-stream", "text/event-stream");
        check("GET /entries application/json-seq", "application/json-seq");
        check("GET /entries text/html", "text/plain");
        for bad in ["bogus", "bogus=1", "boot=x", "A=%", "A=%zz", "A=%ff", "=x", "+=x"] {
            check(&format!("GET /entries?{bad}"), "400");
        }
        let many: String = (0..=ARGUMENTS_MAX).map(|number| format!("A={number}&")).collect();
        check(&format!("GET /entries?{many}"), "400");
    }

    #[test]
    fn ranges() {
        let check = |range: &str, expected: &str| {
            check(&format!("GET /entries text/plain {range}"), expected);
        };
        check("entries=i=10", "text/plain from 16");
        check("entries=i=10:3", "text/plain from 16 count 3");
        check("entries=i=10:-2:3", "text/plain from 16 skip -2 count 3");
        check("entries=:3", "text/plain count 3");
        check("entries=", "text/plain");
        check("bytes=0-5", "text/plain");
        // Home Assistant sends the first one.
        check("entries=:-9:", "text/plain skip -9");
        check("entries=i=10:1:", "text/plain from 16 skip 1");
        check("entries=i=10:", "text/plain from 16");
        for bad in ["::3", "i=1:0:0", "i=1:x:3", "i=1::", ":1:2:3", "garbage:0:3", ":-1"] {
            check(&format!("entries={bad}"), "400");
        }
        check("realtime=100:200", "text/plain since 100000000 until 200000000");
        check("realtime=:200:-3:4", "text/plain skip -3 until 200000000 count 4");
        check("realtime=1.5::7", "text/plain since 1500000 count 7");
        check("realtime=1::2:", "text/plain skip 2 since 1000000");
        check("realtime=:", "text/plain");
        for bad in ["", "5", "x:", "1:x", "-1:", "1:2:0", "1:2:x:3", "1:2:3:4:5"] {
            check(&format!("realtime={bad}"), "400");
        }
    }

    #[test]
    fn discrete_needs_a_cursor() {
        check("GET /entries?discrete", "400");
        check("GET /entries?discrete text/plain entries=i=10", "text/plain discrete from 16");
    }

    #[test]
    fn escapes() {
        assert_eq!(decode("a+b%2B%c3%a4").as_deref(), Some("a b+ä"));
        assert_eq!(decode("%2"), None);
    }
}
