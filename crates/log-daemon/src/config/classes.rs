//! `[Class NAME]`: how long messages of a class are kept. Units say `[X-Warren] LogClass=NAME`.

use std::fmt::Write;

use crate::config::values::{size, span};
use warren_log_store::store::CLASSES_MAX;
use warren_log_store::store::names::is_valid_class;
use warren_log_store::store::vacuum::ClassLimits;

/// What begins the name of a section of a class.
const SECTION: &str = "Class ";

/// What is kept of a class; without a setting, what counts for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassRoom {
    /// `MaxUse=`, bytes.
    pub use_bytes_max: Option<u64>,
    /// `MinUse=`, bytes.
    pub use_bytes_min: u64,
    /// `MaxRetentionSec=`, µs; 0: no limit.
    pub retention_us: Option<u64>,
}

impl ClassRoom {
    /// What vacuum is to do, where the other classes have this retention.
    pub fn limits(&self, other_us: Option<u64>) -> ClassLimits {
        let age_max_us = match self.retention_us {
            Some(0) => None,
            Some(retention) => Some(retention),
            None => other_us,
        };
        ClassLimits { bytes_max: self.use_bytes_max, bytes_min: self.use_bytes_min, age_max_us }
    }

    /// Takes one assignment; an empty value sets the default.
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let setting = SETTINGS.iter().find(|setting| setting.name == key);
        let setting = setting.ok_or_else(|| format!("unknown setting {key}="))?;
        (setting.set)(self, value).map_err(|wanted| format!("{key}={value}: {wanted}"))
    }
}

/// The class that a section is about: `Err` says what is wrong with its name, and of other sections
/// there is none.
pub(super) fn of_section(section: &str) -> Option<Result<&str, String>> {
    let name = section.strip_prefix(SECTION)?.trim();
    Some(match is_valid_class(name) {
        true => Ok(name),
        false => Err(format!("'{name}' is not a class name: 1 to 32 of a-z, 0-9 and _")),
    })
}

/// What is wrong where there are too many.
pub(super) fn too_many() -> String {
    format!("more than {} classes", CLASSES_MAX - 1)
}

struct Setting {
    name: &'static str,
    value: &'static str,
    what: &'static str,
    set: fn(&mut ClassRoom, &str) -> Result<(), &'static str>,
}

static SETTINGS: [Setting; 3] = [
    Setting {
        name: "MaxUse",
        value: "bytes",
        what: "what the class may take",
        set: |room, text| {
            room.use_bytes_max = given(text).map(size).transpose()?;
            Ok(())
        },
    },
    Setting {
        name: "MinUse",
        value: "bytes",
        what: "what it keeps when all classes together take too much, as long as others have more",
        set: |room, text| {
            room.use_bytes_min = given(text).map_or(Ok(0), size)?;
            Ok(())
        },
    },
    Setting {
        name: "MaxRetentionSec",
        value: "time",
        what: "files of the class whose messages are all older are removed; 0: no limit",
        set: |room, text| {
            room.retention_us = given(text).map(span).transpose()?;
            Ok(())
        },
    },
];

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// The part of the page that is about classes.
pub(super) fn put_documentation(out: &mut String) {
    out.push_str(HEAD);
    for Setting { name, value, what, .. } in &SETTINGS {
        writeln!(out, "| `{name}=` | {value} | {what} |").expect("a string grows");
    }
}

const HEAD: &str = "
## `[Class NAME]`

A unit with `LogClass=NAME` in its section `[X-Warren]` has its messages kept in files of their own,
of which there is a section here for each class; `NAME` is 1 to 32 of `a` to `z`, digits and `_`, and
there are at most 15. All others are in the class `system`, which may have a section too. Limits of
the whole store count as well; the oldest files go first, whatever their class, but for `MinUse=`.
Files hold messages of a quarter of the retention, so that nothing is kept for more than five quarters
of it and a moment. The daemon's `--set` takes them as `NAME.KEY=VALUE`.

| setting | value | what |
|--|--|--|
";
