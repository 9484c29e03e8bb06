//! Object paths: which object a path means, and which path an object has
//! (org.freedesktop.systemd1(5)).

/// The manager's object.
pub const MANAGER: &str = "/org/freedesktop/systemd1";
const UNITS: &str = "/org/freedesktop/systemd1/unit";
const JOBS: &str = "/org/freedesktop/systemd1/job";

/// What a path leads to. Whether the unit or job exists is another question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    /// `/` and `/org`: only introspected, with the one child named.
    Above(&'static str),
    /// `/org/freedesktop`: only introspected, with its two children.
    Freedesktop,
    /// The manager's log level and target (org.freedesktop.LogControl1(5)).
    LogControl,
    /// The manager.
    Manager,
    /// The parent of all units.
    Units,
    /// The parent of all jobs.
    Jobs,
    /// A unit, by the text that its path stands for: mostly its name.
    Unit(String),
    /// A job.
    Job(u32),
    /// Nothing.
    Unknown,
}

/// The object at `path`.
pub fn parse(path: &str) -> Object {
    match path {
        "/" => return Object::Above("org"),
        "/org" => return Object::Above("freedesktop"),
        "/org/freedesktop" => return Object::Freedesktop,
        "/org/freedesktop/LogControl1" => return Object::LogControl,
        MANAGER => return Object::Manager,
        UNITS => return Object::Units,
        JOBS => return Object::Jobs,
        _ => {}
    }
    if let Some(label) = path.strip_prefix(UNITS).and_then(|rest| rest.strip_prefix('/')) {
        return unescape(label).map_or(Object::Unknown, Object::Unit);
    }
    let number = path.strip_prefix(JOBS).and_then(|rest| rest.strip_prefix('/'));
    match number.and_then(|digits| digits.parse().ok()) {
        Some(id) => Object::Job(id),
        None => Object::Unknown,
    }
}

/// The path of the unit with this name.
pub fn unit(name: &str) -> String {
    let mut out = String::with_capacity(UNITS.len() + 1 + name.len() + 16);
    out.push_str(UNITS);
    out.push('/');
    push_escaped(&mut out, name);
    out
}

/// The last part of the path of the unit with this name.
pub fn unit_label(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 16);
    push_escaped(&mut out, name);
    out
}

/// The path of a job. Number 0 is no job, whose path is `/`.
pub fn job(id: u32) -> String {
    if id == 0 { "/".to_owned() } else { format!("{JOBS}/{id}") }
}

/// Every byte but ASCII letters and digits becomes `_` and two hexadecimal digits; a digit in
/// front too, and nothing at all becomes `_`.
fn push_escaped(out: &mut String, name: &str) {
    if name.is_empty() {
        out.push('_');
    }
    for (at, byte) in name.bytes().enumerate() {
        if byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit()) {
            out.push(char::from(byte));
        } else {
            out.extend(escape_byte(byte).map(char::from));
        }
    }
}

/// `_` and two hexadecimal digits.
pub(crate) fn escape_byte(byte: u8) -> [u8; 3] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    [b'_', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

/// What a label stands for. An escape that is none is kept as it is, as systemd does; bytes that
/// are not text are nothing.
fn unescape(label: &str) -> Option<String> {
    if label == "_" {
        return Some(String::new());
    }
    let bytes = label.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| byte == b'_').and_then(hex_byte);
        out.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).ok()
}

fn hex_byte(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_paths_and_paths_have_units() {
        for (name, label) in [
            ("a.service", "a_2eservice"),
            ("-.slice", "_2d_2eslice"),
            ("1@x_y.socket", "_31_40x_5fy_2esocket"),
            ("dev-sda1.device", "dev_2dsda1_2edevice"),
            ("", "_"),
        ] {
            assert_eq!(unit_label(name), label);
            assert_eq!(parse(&unit(name)), Object::Unit(name.to_owned()));
        }
    }

    #[test]
    fn other_objects() {
        assert_eq!(parse("/org/freedesktop/systemd1"), Object::Manager);
        assert_eq!(parse("/org/freedesktop/systemd1/job/12"), Object::Job(12));
        assert_eq!(parse("/"), Object::Above("org"));
        for path in ["/x", "/org/freedesktop/systemd1/job/x", "/org/freedesktop/systemd1/unit/_ff"]
        {
            assert_eq!(parse(path), Object::Unknown, "{path}");
        }
        assert_eq!(parse("/org/freedesktop/systemd1/unit/a_zz"), Object::Unit("a_zz".to_owned()));
        assert_eq!((job(0), job(7)), ("/".into(), "/org/freedesktop/systemd1/job/7".into()));
    }
}
