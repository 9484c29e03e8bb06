//! Specifiers: `%n`, `%i`, `%t`, ... (systemd.unit(5), "SPECIFIERS").
//!
//! A `%` before a letter or digit that is no specifier makes the value unusable; before anything
//! else it stands for itself, as systemd 252 does it.

use std::borrow::Cow;

use crate::context::Context;
use crate::escape;
use crate::name::UnitName;
use crate::value::Fault;

/// What specifiers refer to.
#[derive(Clone, Copy, Debug)]
pub struct Specifiers<'a> {
    /// The unit.
    pub name: &'a UnitName,
    /// The host and the user.
    pub context: &'a Context,
    /// The unit's fragment, for `%y` and `%Y`.
    pub fragment: Option<&'a str>,
}

/// Every specifier with its meaning, for the documentation.
pub const SPECIFIERS: &[(char, &str)] = &[
    ('a', "architecture"),
    ('A', "IMAGE_VERSION= of os-release"),
    ('b', "boot id"),
    ('B', "BUILD_ID= of os-release"),
    ('C', "cache directory root"),
    ('d', "credentials directory"),
    ('E', "configuration directory root"),
    ('f', "instance, or prefix, as a path"),
    ('g', "group name of the manager"),
    ('G', "group id of the manager"),
    ('h', "home directory of the manager's user"),
    ('H', "host name"),
    ('i', "instance, escaped"),
    ('I', "instance, unescaped"),
    ('j', "last component of the prefix, escaped"),
    ('J', "last component of the prefix, unescaped"),
    ('l', "short host name"),
    ('L', "log directory root"),
    ('m', "machine id"),
    ('M', "IMAGE_ID= of os-release"),
    ('n', "unit name"),
    ('N', "unit name without its type"),
    ('o', "ID= of os-release"),
    ('p', "prefix, escaped"),
    ('P', "prefix, unescaped"),
    ('q', "pretty host name"),
    ('s', "shell of the manager's user"),
    ('S', "state directory root"),
    ('t', "runtime directory root"),
    ('T', "directory for temporary files"),
    ('u', "user name of the manager"),
    ('U', "user id of the manager"),
    ('v', "kernel release"),
    ('V', "directory for larger temporary files"),
    ('w', "VERSION_ID= of os-release"),
    ('W', "VARIANT_ID= of os-release"),
    ('y', "path of the unit file"),
    ('Y', "directory of the unit file"),
    ('%', "a percent sign"),
];

/// The longest text that replacing specifiers may give, in bytes.
pub const EXPANDED_BYTES_MAX: usize = 1 << 20;

impl Specifiers<'_> {
    /// Replaces all specifiers; borrows where there are none.
    pub fn expand<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, Fault> {
        let Some(first) = memchr::memchr(b'%', text.as_bytes()) else {
            return Ok(Cow::Borrowed(text));
        };
        let mut out = String::with_capacity(text.len() + 32);
        out.push_str(&text[..first]);
        let mut rest = &text[first..];
        while let Some(after) = rest.strip_prefix('%') {
            let at = text.len() - rest.len();
            let used = self.one(after, &mut out).map_err(|m| Fault::new(at, m))?;
            let tail = &after[used..];
            let next = memchr::memchr(b'%', tail.as_bytes()).unwrap_or(tail.len());
            out.push_str(&tail[..next]);
            rest = &tail[next..];
            if out.len() > EXPANDED_BYTES_MAX {
                return Err(Fault::new(
                    at,
                    "the value is too long once its specifiers are expanded",
                ));
            }
        }
        Ok(Cow::Owned(out))
    }

    /// Replaces the specifier whose letter `text` starts with; returns the bytes it took.
    fn one(&self, text: &str, out: &mut String) -> Result<usize, String> {
        let Some(letter) = text.chars().next() else {
            out.push('%');
            return Ok(0);
        };
        if letter == '%' {
            out.push('%');
            return Ok(1);
        }
        if !letter.is_ascii_alphanumeric() {
            out.push('%');
            return Ok(0);
        }
        match self.value(letter) {
            Some(value) => out.push_str(&value),
            None if SPECIFIERS.iter().any(|(c, _)| *c == letter) => {
                return Err(format!("%{letter} has no value here"));
            }
            None => return Err(format!("there is no specifier %{letter}")),
        }
        Ok(1)
    }

    fn value(&self, letter: char) -> Option<Cow<'_, str>> {
        let c = self.context;
        let plain: &str = match letter {
            'a' => &c.architecture,
            'A' => &c.os_image_version,
            'b' => &c.boot_id,
            'B' => &c.os_build_id,
            'C' => &c.cache_dir,
            'E' => &c.config_dir,
            'g' => &c.group_name,
            'h' => &c.home,
            'H' => &c.hostname,
            'i' => self.name.instance().unwrap_or_default(),
            'j' => self.last_component(),
            'l' => c.hostname.split('.').next().unwrap_or_default(),
            'L' => &c.log_dir,
            'm' => &c.machine_id,
            'M' => &c.os_image_id,
            'n' => self.name.as_str(),
            'N' => self.name.stem(),
            'o' => &c.os_id,
            'p' => self.name.prefix(),
            'q' => &c.pretty_hostname,
            's' => &c.shell,
            'S' => &c.state_dir,
            't' => &c.runtime_dir,
            'T' => &c.tmp_dir,
            'u' => &c.user_name,
            'v' => &c.kernel_release,
            'V' => &c.var_tmp_dir,
            'w' => &c.os_version_id,
            'W' => &c.os_variant_id,
            'y' => self.fragment?,
            'Y' => self.fragment?.rsplit_once('/')?.0,
            _ => return self.computed(letter),
        };
        Some(Cow::Borrowed(plain))
    }

    /// The specifiers whose text must be made.
    fn computed(&self, letter: char) -> Option<Cow<'_, str>> {
        let owned = match letter {
            'd' => format!("{}/{}", self.context.credentials_dir, self.name),
            'f' => self.as_path()?,
            'G' => self.context.gid.to_string(),
            'I' => escape::unescape(self.name.instance().unwrap_or_default()).ok()?,
            'J' => escape::unescape(self.last_component()).ok()?,
            'P' => escape::unescape(self.name.prefix()).ok()?,
            'U' => self.context.uid.to_string(),
            _ => return None,
        };
        Some(Cow::Owned(owned))
    }

    fn last_component(&self) -> &str {
        let prefix = self.name.prefix();
        prefix.rsplit_once('-').map_or(prefix, |(_, last)| last)
    }

    fn as_path(&self) -> Option<String> {
        match self.name.instance() {
            Some(instance) => escape::path_unescape(instance).ok(),
            None => Some(format!("/{}", escape::unescape(self.name.prefix()).ok()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unit: &str, text: &str, want: &str) {
        let mut context = Context::system();
        context.hostname = "vm.example".into();
        let name = UnitName::parse(unit).expect("a valid name");
        let fragment = Some("/etc/systemd/system/x.service");
        let specifiers = Specifiers { name: &name, context: &context, fragment };
        let got = match specifiers.expand(text) {
            Ok(text) => text.into_owned(),
            Err(fault) => format!("! {} {}", fault.offset, fault.message),
        };
        assert_eq!(got, want, "{unit} {text}");
    }

    #[test]
    fn specifiers_are_replaced() {
        let unit = r"foo-bar\x20b@dev-sd\x2da.service";
        check(unit, "a", "a");
        check(unit, "%n|%N", r"foo-bar\x20b@dev-sd\x2da.service|foo-bar\x20b@dev-sd\x2da");
        check(unit, "%p|%P|%i|%I|%f", r"foo-bar\x20b|foo/bar b|dev-sd\x2da|dev/sd-a|/dev/sd-a");
        check(unit, "%j|%J", r"bar\x20b|bar b");
        check("a-b.service", "%f|%i|%I|%p", "/a/b|||a-b");
        check("a.service", "%t/%S %H %l %u %U %h", "/run//var/lib vm.example vm root 0 /root");
        check("a.service", "%y %Y", "/etc/systemd/system/x.service /etc/systemd/system");
        check("a.service", "100%% 5% %! %", "100% 5% %! %");
        check("a.service", "x%z", "! 1 there is no specifier %z");
        check("a.service", "%n %é", "a.service %é");
    }

    #[test]
    fn every_listed_specifier_is_known() {
        for (letter, _) in SPECIFIERS {
            let context = Context::system();
            let name = UnitName::parse("a@b.service").expect("a valid name");
            let specifiers = Specifiers { name: &name, context: &context, fragment: Some("/x/y") };
            assert!(specifiers.expand(&format!("%{letter}")).is_ok(), "%{letter}");
        }
    }
}
