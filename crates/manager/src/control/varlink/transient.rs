//! What `StartTransient` takes, as a unit file. Pure.
//!
//! Fields become properties of D-Bus, which `warren_bus` writes as settings: what a value looks like in a file is said
//! there alone. Taken is what systemd 262 takes, but for file descriptors; every other field is refused by its name.

use base64::Engine as _;
use serde_json::{Map, Value, json};
use warren_bus::refusals;
use warren_bus::transient::{self, Properties, Written};
use warren_bus::wire::{Reader, Writer};
use warren_unit::{UnitName, UnitType};

use super::call::Refusal;
use super::interfaces;

/// How a field is written.
#[derive(Clone, Copy)]
enum Kind {
    /// `s`
    Text,
    /// `s`, with `-` where varlink has `_`.
    Word,
    /// `s`, absolute.
    Path,
    /// `b`
    Bool,
    /// `i`, within these.
    Signed(i64, i64),
    /// `u`, at most this.
    Number(u64),
    /// `as`
    Texts,
    /// `as` of `NAME=value`.
    Assignments,
    /// `a(sasb)`
    Commands,
    /// `s` of a `WorkingDirectory`.
    Directory,
    /// `a(say)` of a `SetCredential`, in base64.
    Credentials,
}

/// Field, property, how it is written.
type Row = (&'static str, &'static str, Kind);

/// Of a context itself.
const UNIT: [Row; 2] =
    [("Description", "Description", Kind::Text), ("CollectMode", "CollectMode", Kind::Word)];

/// Of its `Service`.
const SERVICE: [Row; 3] = [
    ("Type", "Type", Kind::Word),
    ("RemainAfterExit", "RemainAfterExit", Kind::Bool),
    ("ExecStart", "ExecStart", Kind::Commands),
];

/// Of its `Exec`.
const EXEC: [Row; 27] = [
    ("WorkingDirectory", "WorkingDirectory", Kind::Directory),
    ("RootDirectory", "RootDirectory", Kind::Path),
    ("RootImage", "RootImage", Kind::Path),
    ("RootEphemeral", "RootEphemeral", Kind::Bool),
    ("RootHashPath", "RootHash", Kind::Path),
    ("RootHashSignaturePath", "RootHashSignature", Kind::Path),
    ("RootVerity", "RootVerity", Kind::Path),
    ("User", "User", Kind::Text),
    ("Group", "Group", Kind::Text),
    ("DynamicUser", "DynamicUser", Kind::Bool),
    ("SupplementaryGroups", "SupplementaryGroups", Kind::Texts),
    ("NoNewPrivileges", "NoNewPrivileges", Kind::Bool),
    ("UMask", "UMask", Kind::Number(0o7777)),
    ("OOMScoreAdjust", "OOMScoreAdjust", Kind::Signed(-1000, 1000)),
    ("IgnoreSIGPIPE", "IgnoreSIGPIPE", Kind::Bool),
    ("Nice", "Nice", Kind::Signed(-20, 19)),
    ("NetworkNamespacePath", "NetworkNamespacePath", Kind::Path),
    ("IPCNamespacePath", "IPCNamespacePath", Kind::Path),
    ("UserNamespacePath", "UserNamespacePath", Kind::Path),
    ("LockPersonality", "LockPersonality", Kind::Bool),
    ("MemoryDenyWriteExecute", "MemoryDenyWriteExecute", Kind::Bool),
    ("RestrictRealtime", "RestrictRealtime", Kind::Bool),
    ("RestrictSUIDSGID", "RestrictSUIDSGID", Kind::Bool),
    ("RemoveIPC", "RemoveIPC", Kind::Bool),
    ("Environment", "Environment", Kind::Assignments),
    ("SetCredential", "SetCredential", Kind::Credentials),
    ("SetCredentialEncrypted", "SetCredentialEncrypted", Kind::Credentials),
];

/// The parts of a context, in the order in which they are written; what is before their fields in errors.
const PARTS: [(&str, &[Row]); 3] = [("", &UNIT), ("Exec", &EXEC), ("Service", &SERVICE)];

/// The unit of a context, and its file.
///
/// # Errors
/// What the client gets: a field that is not taken, or whose value makes no sense.
pub(crate) fn read(context: &Map<String, Value>) -> Result<(UnitName, String), Refusal> {
    let whole = || Refusal::parameter("context");
    let name = context.get("ID").and_then(Value::as_str).ok_or_else(whole)?;
    let unit = refusals::unit_name(name).map_err(|_| whole())?;
    if let Some(field) = unknown_field(context) {
        let parameters = json!({"property": field});
        let refusal = Refusal::plain(interfaces::UNIT, "PropertyNotSupported");
        return Err(Refusal { parameters, ..refusal });
    }
    if !transient::can_be_transient(&unit) {
        return Err(Refusal::plain(interfaces::UNIT, "UnitTypeNotSupported"));
    }
    let mut properties = Properties::default();
    for (part, rows) in PARTS {
        for row in rows {
            let (path, value) = match part {
                "" => (row.0.to_owned(), context.get(row.0)),
                part => {
                    (format!("{part}.{}", row.0), context.get(part).and_then(|of| of.get(row.0)))
                }
            };
            if let Some(value) = value.filter(|value| !value.is_null()) {
                let written = property(unit.unit_type(), row, value);
                properties.written.extend(written.ok_or_else(|| Refusal::parameter(&path))?);
            }
        }
    }
    let has_command = properties.written.iter().any(|written| written.name == "ExecStart");
    match unit.unit_type() {
        UnitType::Service if !has_command => Err(whole()),
        // It is made with processes, which cannot be named here.
        UnitType::Scope => Err(Refusal::system(2, "ENOENT")),
        _ => Ok((unit, properties.file())),
    }
}

/// The first field that is not taken. Being named is enough: that it is null does not say that it is meant so.
fn unknown_field(context: &Map<String, Value>) -> Option<String> {
    let is_known = |rows: &[Row], field: &str| rows.iter().any(|row| row.0 == field);
    for (field, value) in context {
        let part = PARTS.iter().find(|(part, _)| !part.is_empty() && part == field);
        match (part, value) {
            (Some((part, rows)), Value::Object(fields)) => {
                let unknown = fields.iter().find(|(field, value)| {
                    !is_known(rows, field) || **field == *"ExecStart" && has_flags(value)
                });
                if let Some((unknown, _)) = unknown {
                    return Some(format!("{part}.{unknown}"));
                }
            }
            (Some(_), _) => {}
            (None, _) if field == "ID" || is_known(&UNIT, field) => {}
            (None, _) => return Some(field.clone()),
        }
    }
    None
}

/// Whether one of the commands is to be run in another way than plainly.
fn has_flags(commands: &Value) -> bool {
    let fields = commands.as_array().into_iter().flatten().filter_map(Value::as_object);
    fields.flatten().any(|(field, value)| field != "path" && field != "arguments" && *value == true)
}

/// The lines that a field writes; nothing if its value makes no sense.
fn property(unit_type: UnitType, row: &Row, value: &Value) -> Option<Vec<Written>> {
    let (_, name, kind) = *row;
    let mut body = Writer::new();
    let mut is_sound = Some(());
    body.array(b'(', |w| {
        w.structure().str(name);
        is_sound = write(w, kind, value);
    });
    is_sound?;
    let bytes = body.finish();
    transient::read(unit_type, &mut Reader::new(&bytes, false)).ok().map(|read| read.written)
}

/// Writes the variant of a value; nothing if it makes no sense, and what is written then is of no use.
fn write(w: &mut Writer, kind: Kind, value: &Value) -> Option<()> {
    match kind {
        Kind::Text => _ = w.variant("s").str(line(value)?),
        Kind::Word => _ = w.variant("s").str(&line(value)?.replace('_', "-")),
        Kind::Path => {
            let path = line(value)?;
            path.starts_with('/').then(|| _ = w.variant("s").str(path))?;
        }
        Kind::Bool => _ = w.variant("b").bool(value.as_bool()?),
        Kind::Signed(least, most) => {
            let number = value.as_i64().filter(|number| (least..=most).contains(number))?;
            w.variant("i").i32(i32::try_from(number).ok()?);
        }
        Kind::Number(most) => {
            let number = value.as_u64().filter(|number| *number <= most)?;
            w.variant("u").u32(u32::try_from(number).ok()?);
        }
        Kind::Texts => _ = w.variant("as").strs(lines(value)?),
        Kind::Assignments => {
            let all: Vec<&str> = texts(value)?;
            let is_assignment =
                |text: &&str| text.split_once('=').is_some_and(|(name, _)| is_variable(name));
            all.iter().all(is_assignment).then(|| _ = w.variant("as").strs(all))?;
        }
        Kind::Commands => write_commands(w, value)?,
        Kind::Directory => _ = w.variant("s").str(&directory(value)?),
        Kind::Credentials => write_credentials(w, value)?,
    }
    Some(())
}

/// A text that is one line of a file, and not several settings.
fn line(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.contains(|c: char| c.is_control()))
}

fn lines(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(line).collect()
}

fn texts(value: &Value) -> Option<Vec<&str>> {
    let texts = value.as_array()?.iter().map(Value::as_str);
    texts.map(|text| text.filter(|text| !text.contains('\0'))).collect()
}

fn is_variable(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The arguments begin with the program's name; without any that is its path.
fn write_commands(w: &mut Writer, value: &Value) -> Option<()> {
    let mut commands = Vec::new();
    for command in value.as_array()? {
        let path = line(&command["path"]).filter(|path| !path.is_empty())?;
        let arguments = match &command["arguments"] {
            Value::Null => vec![path],
            arguments => texts(arguments)?,
        };
        let arguments = if arguments.is_empty() { vec![path] } else { arguments };
        commands.push((path, arguments));
    }
    if commands.is_empty() {
        return None;
    }
    w.variant("a(sasb)").array(b'(', |w| {
        for (path, arguments) in commands {
            w.structure().str(path).strs(arguments).bool(false);
        }
    });
    Some(())
}

fn directory(value: &Value) -> Option<String> {
    let dash = if value["missingOK"] == true { "-" } else { "" };
    match (&value["home"], &value["path"]) {
        (Value::Bool(true), Value::Null) => Some(format!("{dash}~")),
        (Value::Null | Value::Bool(false), path) => {
            let path = line(path).filter(|path| path.starts_with('/'))?;
            Some(format!("{dash}{path}"))
        }
        _ => None,
    }
}

fn write_credentials(w: &mut Writer, value: &Value) -> Option<()> {
    let mut all = Vec::new();
    for credential in value.as_array()? {
        let id = line(&credential["id"]).filter(|id| !id.is_empty() && !id.contains([':', '/']))?;
        let data = credential["value"].as_str()?;
        all.push((id, base64::engine::general_purpose::STANDARD.decode(data).ok()?));
    }
    w.variant("a(say)").array(b'(', |w| {
        for (id, data) in &all {
            w.structure().str(id).bytes(data);
        }
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(context: Value, expected: &str) {
        let found = match read(context.as_object().expect("an object")) {
            Ok((unit, text)) => {
                let lines: Vec<&str> =
                    text.lines().skip(1).filter(|line| !line.is_empty()).collect();
                format!("{unit}: {}", lines.join("; "))
            }
            Err(refusal) => {
                let name = refusal.error.rsplit('.').next().unwrap_or_default();
                format!("{name} {}", refusal.parameters)
            }
        };
        assert_eq!(found, expected, "{context}");
    }

    fn service(more: Value) -> Value {
        let mut context =
            json!({"ID": "a.service", "Service": {"ExecStart": [{"path": "/bin/a"}]}});
        for (field, value) in more.as_object().expect("an object") {
            context[field] = value.clone();
        }
        context
    }

    #[test]
    fn a_context_becomes_a_unit_file() {
        check(service(json!({})), "a.service: [Service]; ExecStart=\"/bin/a\"");
        let exec = json!({
            "Environment": ["A=b c%", "B=$X"], "WorkingDirectory": {"path": "/tmp", "missingOK": true},
            "User": "daemon", "SupplementaryGroups": ["adm", "tty"], "UMask": 18, "Nice": -5,
            "SetCredential": [{"id": "a", "value": "eHg="}], "DynamicUser": null,
        });
        let commands = json!([{"path": "/bin/a", "arguments": ["a", "1 2"], "viaShell": false}]);
        let whole = json!({
            "ID": "a.service", "Description": "x y", "CollectMode": "inactive_or_failed", "Exec": exec,
            "Service": {"Type": "notify_reload", "RemainAfterExit": true, "ExecStart": commands},
        });
        check(
            whole,
            "a.service: [Unit]; Description=x y; CollectMode=inactive-or-failed; [Service]; \
             WorkingDirectory=-/tmp; User=daemon; SupplementaryGroups=adm tty; UMask=0022; Nice=-5; \
             Environment=\"A=b c%%\" \"B=$X\"; SetCredential=a:xx; Type=notify-reload; \
             RemainAfterExit=yes; ExecStart=@\"/bin/a\" \"a\" \"1 2\"",
        );
        check(json!({"ID": "a.slice", "Description": "x"}), "a.slice: [Unit]; Description=x");
    }

    #[test]
    fn what_is_not_taken_is_refused_by_its_name() {
        let unsupported =
            |field: &str| format!("PropertyNotSupported {{\"property\":\"{field}\"}}");
        check(service(json!({"Wants": ["b.service"]})), &unsupported("Wants"));
        check(service(json!({"Wants": null})), &unsupported("Wants"));
        check(service(json!({"Exec": {"PrivateTmp": "yes"}})), &unsupported("Exec.PrivateTmp"));
        check(service(json!({"CGroup": {}})), &unsupported("CGroup"));
        let flagged = json!([{"path": "/bin/a", "ignoreFailure": true}]);
        let context = json!({"ID": "a.service", "Service": {"ExecStart": flagged}});
        check(context, &unsupported("Service.ExecStart"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_place() {
        let invalid = |place: &str| format!("InvalidParameter {{\"parameter\":\"{place}\"}}");
        check(json!({}), &invalid("context"));
        check(json!({"ID": "bad name"}), &invalid("context"));
        check(json!({"ID": "a@.service"}), &invalid("context"));
        check(json!({"ID": "a.service"}), &invalid("context"));
        check(json!({"ID": "a.target"}), "UnitTypeNotSupported {}");
        for (field, value) in [
            ("WorkingDirectory", json!({"path": "relative"})),
            ("WorkingDirectory", json!({"path": "/a", "home": true})),
            ("RootDirectory", json!("relative")),
            ("Environment", json!(["bad"])),
            ("Nice", json!(100)),
            ("UMask", json!(100_000)),
            ("OOMScoreAdjust", json!(-1001)),
            ("SetCredential", json!([{"id": "a", "value": "?"}])),
            ("SetCredential", json!([{"id": "a/b", "value": ""}])),
            ("User", json!("a\nExecStartPre=/bin/b")),
        ] {
            let place = invalid(&format!("Exec.{field}"));
            check(service(json!({"Exec": {field: value}})), &place);
        }
        check(service(json!({"Description": "a\n[Service]"})), &invalid("Description"));
        let two = json!([{"path": "/bin/a\nUser=b"}]);
        let context = json!({"ID": "a.service", "Service": {"ExecStart": two}});
        check(context, &invalid("Service.ExecStart"));
    }
}
