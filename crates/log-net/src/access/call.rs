//! What a call means: JSON objects of varlink.org's protocol, their methods and parameters. Pure.

use serde_json::{Map, Value, json};

use warren_log_show::Args;
use warren_log_store::places;

/// The interfaces, and what they are.
const INTERFACES: [(&str, &str); 3] = [
    ("org.varlink.service", include_str!("org.varlink.service.varlink")),
    (SYSTEMD, include_str!("io.systemd.JournalAccess.varlink")),
    (OWN, include_str!("io.warrener.JournalAccess.varlink")),
];
const SYSTEMD: &str = "io.systemd.JournalAccess";
const OWN: &str = "io.warrener.JournalAccess";

/// Most items of a list.
const ITEMS_MAX: usize = 256;

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What to do.
    pub what: Result<What, Refusal>,
    /// Nobody waits for an answer.
    pub oneway: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Answer with these parameters.
    Say(Value),
    /// Answer with entries.
    Entries(Box<Selection>),
}

/// Which entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// As the options of the command say it, beside where the log is.
    pub args: CallOptions,
    /// Whose error says that there are none.
    pub interface: &'static str,
}

/// The options of the command that a call may set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallOptions {
    units: Vec<String>,
    user_units: Vec<String>,
    uid: Option<u32>,
    identifiers: Vec<String>,
    facilities: Vec<String>,
    priority: Option<String>,
    grep: Option<String>,
    case_sensitive: Option<bool>,
    boot: Option<String>,
    kernel: bool,
    since: Option<String>,
    until: Option<String>,
    cursor: Option<String>,
    after_cursor: Option<String>,
    matches: Vec<String>,
    fields: Vec<String>,
    all_values: bool,
    namespace: Option<String>,
    limit: Option<u64>,
    reverse: bool,
    /// Go on with what comes.
    pub follow: bool,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such interface.
    Interface(String),
    /// There is no such method.
    Method(String),
    /// This parameter is not there, or of another type.
    Parameter(String),
    /// The method answers with many replies, which the caller does not take.
    ExpectedMore,
}

impl Refusal {
    /// The error's name and its parameters.
    pub fn error(&self) -> (String, Value) {
        let (name, parameters) = match self {
            Refusal::Interface(name) => ("InterfaceNotFound", json!({"interface": name})),
            Refusal::Method(name) => ("MethodNotFound", json!({"method": name})),
            Refusal::Parameter(name) => ("InvalidParameter", json!({"parameter": name})),
            Refusal::ExpectedMore => ("ExpectedMore", json!({})),
        };
        (format!("org.varlink.service.{name}"), parameters)
    }
}

/// Reads a call; `None`: it is none.
pub fn parse(text: &[u8]) -> Option<Call> {
    let call: Map<String, Value> = serde_json::from_slice(text).ok()?;
    let method = call.get("method")?.as_str()?;
    let is_set = |name: &str| call.get(name).and_then(Value::as_bool).unwrap_or(false);
    let empty = Map::new();
    let parameters = match call.get("parameters") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(parameters)) => parameters,
        Some(_) => return None,
    };
    let what = understand(method, parameters, is_set("more"));
    Some(Call { what, oneway: is_set("oneway") })
}

fn understand(method: &str, parameters: &Map<String, Value>, more: bool) -> Result<What, Refusal> {
    let unknown = || Refusal::Method(method.to_owned());
    let (interface, name) = method.rsplit_once('.').ok_or_else(unknown)?;
    let known = INTERFACES.iter().find(|known| known.0 == interface);
    let (interface, _) = known.ok_or_else(|| Refusal::Interface(interface.to_owned()))?;
    match (*interface, name) {
        ("org.varlink.service", "GetInfo") => Ok(What::Say(info())),
        ("org.varlink.service", "GetInterfaceDescription") => describe(parameters),
        (SYSTEMD | OWN, "GetEntries") => {
            if !more {
                return Err(Refusal::ExpectedMore);
            }
            let args = CallOptions::read(interface, parameters)?;
            Ok(What::Entries(Box::new(Selection { args, interface })))
        }
        _ => Err(unknown()),
    }
}

fn info() -> Value {
    json!({
        "vendor": "Warrener",
        "product": "warren-journal-access",
        "version": env!("CARGO_PKG_VERSION"),
        "url": env!("CARGO_PKG_REPOSITORY"),
        "interfaces": INTERFACES.map(|(name, _)| name),
    })
}

fn describe(parameters: &Map<String, Value>) -> Result<What, Refusal> {
    let bad = || Refusal::Parameter("interface".to_owned());
    let wanted = parameters.get("interface").and_then(Value::as_str).ok_or_else(bad)?;
    let known = INTERFACES.iter().find(|(name, _)| *name == wanted);
    let (_, text) = known.ok_or_else(|| Refusal::Interface(wanted.to_owned()))?;
    Ok(What::Say(json!({"description": text})))
}

impl CallOptions {
    fn read(interface: &str, parameters: &Map<String, Value>) -> Result<CallOptions, Refusal> {
        let mut asked = CallOptions::default();
        for (name, value) in parameters.iter().filter(|(_, value)| !value.is_null()) {
            let done = match interface {
                SYSTEMD => asked.set_like_systemd(name, value),
                _ => asked.set(name, value),
            };
            done.ok_or_else(|| Refusal::Parameter(name.clone()))?;
        }
        Ok(asked)
    }

    /// The parameters that systemd's interface has; `None` for others, and other types.
    fn set_like_systemd(&mut self, name: &str, value: &Value) -> Option<()> {
        match name {
            "priority" => {
                self.priority = Some(value.as_u64().filter(|&level| level < 8)?.to_string());
                Some(())
            }
            "units" | "userUnits" | "uid" | "namespace" | "limit" | "follow" => {
                self.set(name, value)
            }
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: &Value) -> Option<()> {
        match name {
            "units" => self.units = texts(value)?,
            "userUnits" => self.user_units = texts(value)?,
            "uid" => self.uid = Some(u32::try_from(value.as_u64()?).ok()?),
            "identifiers" => self.identifiers = texts(value)?,
            "facilities" => self.facilities = texts(value)?,
            "priority" => self.priority = Some(text(value)?),
            "grep" => self.grep = Some(text(value)?),
            "caseSensitive" => self.case_sensitive = Some(value.as_bool()?),
            "boot" => self.boot = Some(text(value)?),
            "kernel" => self.kernel = value.as_bool()?,
            "since" => self.since = Some(text(value)?),
            "until" => self.until = Some(text(value)?),
            "cursor" => self.cursor = Some(text(value)?),
            "afterCursor" => self.after_cursor = Some(text(value)?),
            "matches" => self.matches = texts(value)?,
            "fields" => self.fields = texts(value)?,
            "allValues" => self.all_values = value.as_bool()?,
            "namespace" => self.namespace = Some(namespace(value)?),
            "limit" => self.limit = Some(value.as_u64()?),
            "reverse" => self.reverse = value.as_bool()?,
            "follow" => self.follow = value.as_bool()?,
            _ => return None,
        }
        Some(())
    }

    /// As options of the command, over those that say where the log is. `caller` is the user whose
    /// units are meant where none is named.
    pub fn over(self, place: &Args, caller: Option<u32>) -> Args {
        let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        Args {
            unit: self.units,
            user_unit: self.user_units,
            user: self.uid.or(caller),
            identifier: self.identifiers,
            facility: self.facilities,
            priority: self.priority,
            grep: self.grep,
            case_sensitive: self.case_sensitive.map(yes_or_no),
            boot: self.boot,
            dmesg: self.kernel,
            since: self.since,
            until: self.until,
            cursor: self.cursor,
            after_cursor: self.after_cursor,
            matches: self.matches,
            output_fields: self.fields,
            all: self.all_values,
            namespace: self.namespace.or_else(|| place.namespace.clone()),
            // Without a number, all: also of what is followed.
            lines: Some(self.limit.map_or_else(|| "all".to_owned(), |limit| limit.to_string())),
            reverse: self.reverse,
            follow: self.follow,
            ..place.clone()
        }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array().filter(|items| items.len() <= ITEMS_MAX)?;
    items.iter().map(text).collect()
}

/// A namespace is a part of a path.
fn namespace(value: &Value) -> Option<String> {
    let name = value.as_str()?;
    let plain = name.strip_prefix('+').unwrap_or(name);
    let good = name.is_empty() || name == "*" || places::is_namespace(plain);
    good.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse(text.as_bytes()) {
            None => "none".to_owned(),
            Some(Call { what: Err(refusal), .. }) => {
                let (name, parameters) = refusal.error();
                format!("{} {parameters}", name.rsplit('.').next().unwrap_or_default())
            }
            Some(Call { what: Ok(What::Say(_)), oneway }) => format!("say {oneway}"),
            Some(Call { what: Ok(What::Entries(wanted)), .. }) => {
                let asked = format!("{:?}", wanted.args);
                asked.matches("Some").count().to_string() + &format!(" {}", wanted.interface)
            }
        };
        assert_eq!(found, expected, "{text}");
    }

    /// A call of `GetEntries` with `more`.
    fn entries(interface: &str, parameters: &str, expected: &str) {
        let method = format!("{interface}.GetEntries");
        let call = format!(r#"{{"method":"{method}","more":true,"parameters":{parameters}}}"#);
        check(&call, expected);
    }

    #[test]
    fn calls() {
        for none in ["", "{", "[]", "1", "{}", r#"{"method":1}"#] {
            check(none, "none");
        }
        check(r#"{"method":"org.varlink.service.GetInfo","parameters":[]}"#, "none");
        check(r#"{"method":"org.varlink.service.GetInfo"}"#, "say false");
        check(r#"{"method":"org.varlink.service.GetInfo","oneway":true}"#, "say true");
        check(r#"{"method":"GetInfo"}"#, r#"MethodNotFound {"method":"GetInfo"}"#);
        check(r#"{"method":"a.b.C"}"#, r#"InterfaceNotFound {"interface":"a.b"}"#);
        let describe = r#"{"method":"org.varlink.service.GetInterfaceDescription""#;
        check(&format!("{describe}}}"), r#"InvalidParameter {"parameter":"interface"}"#);
        let known = format!(r#"{describe},"parameters":{{"interface":"{OWN}"}}}}"#);
        check(&known, "say false");
        check(r#"{"method":"io.systemd.JournalAccess.GetEntries"}"#, "ExpectedMore {}");
    }

    #[test]
    fn parameters() {
        entries(SYSTEMD, r#"{"units":["a"],"priority":3,"limit":5,"uid":null}"#, {
            "2 io.systemd.JournalAccess"
        });
        entries(OWN, r#"{"priority":"err..crit","grep":"x","namespace":"+a"}"#, {
            "3 io.warrener.JournalAccess"
        });
        let bad = [
            (SYSTEMD, "priority", r#""err""#),
            (SYSTEMD, "priority", "8"),
            (SYSTEMD, "grep", r#""x""#),
            (OWN, "nosuch", "1"),
            (OWN, "units", r#""a""#),
            (OWN, "units", "[1]"),
            (OWN, "limit", "-1"),
            (OWN, "uid", "4294967296"),
            (OWN, "namespace", r#""../../x""#),
            (OWN, "namespace", r#""+""#),
        ];
        for (interface, name, value) in bad {
            let refused = format!(r#"InvalidParameter {{"parameter":"{name}"}}"#);
            entries(interface, &format!(r#"{{"{name}":{value}}}"#), &refused);
        }
        let many = vec!["\"a\""; ITEMS_MAX + 1].join(",");
        let refused = r#"InvalidParameter {"parameter":"matches"}"#;
        entries(OWN, &format!(r#"{{"matches":[{many}]}}"#), refused);
    }

    #[test]
    fn what_is_described_is_what_is_taken() {
        for (interface, text) in &INTERFACES[1..] {
            let inner = text.split_once("GetEntries(").and_then(|(_, rest)| rest.split_once(')'));
            for line in inner.expect("a list").0.split(',') {
                let (name, kind) = line.trim().split_once(": ?").expect("a parameter");
                let value = match kind {
                    "bool" => json!(true),
                    "int" => json!(1),
                    "string" => json!("a"),
                    "[]string" => json!(["a"]),
                    other => panic!("{other}"),
                };
                let parameters = Map::from_iter([(name.to_owned(), value)]);
                assert!(CallOptions::read(interface, &parameters).is_ok(), "{interface} {name}");
            }
        }
    }
}
