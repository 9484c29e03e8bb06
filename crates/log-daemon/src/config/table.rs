//! The one table of the daemon's settings.

use std::fmt::Write;
use std::path::PathBuf;

use crate::config::values::{boolean, level, number, size, span};
use crate::config::{Config, Storage};

/// Below this LineMax= is raised to it, bytes; journald.conf(5).
const LINE_BYTES_MIN: u64 = 79;

/// Above this LineMax= is lowered to it, bytes: a line must fit into an entry.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A setting.
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub value: &'static str,
    /// Its default, as text.
    pub default: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Why it does nothing here, where it does nothing.
    pub without_effect: Option<&'static str>,
    /// Takes a value; what is wanted when it is none.
    pub(super) set: fn(&mut Config, &str) -> Result<(), &'static str>,
    /// Takes the default.
    pub(super) reset: fn(&mut Config, &Config),
}

/// A setting that is one place in [`Config`]: how its value is read, and where it goes.
macro_rules! setting {
    ($name:literal, $value:literal, $default:literal, $($place:ident).+ = $read:expr, $what:literal) => {
        Setting {
            name: $name,
            value: $value,
            default: $default,
            what: $what,
            without_effect: None,
            set: |config, text| {
                config.$($place).+ = $read(text)?;
                Ok(())
            },
            reset: |config, default| config.$($place).+ = default.$($place).+.clone(),
        }
    };
}

/// A setting of systemd's that is read and has nothing to set here.
macro_rules! without_effect {
    ($name:literal, $value:literal, $default:literal, $why:literal) => {
        Setting {
            name: $name,
            value: $value,
            default: $default,
            what: "",
            without_effect: Some($why),
            set: |_, _| Ok(()),
            reset: |_, _| {},
        }
    };
}

/// All settings, in the order of the manual page.
pub static SETTINGS: &[Setting] = &[
    setting!(
        "Storage",
        "`volatile`, `persistent`, `auto`, `none`",
        "`auto`",
        storage = storage,
        "where messages are kept; see below"
    ),
    without_effect!(
        "Compress",
        "yes or no, or bytes",
        "`yes`",
        "blocks of messages are always compressed"
    ),
    without_effect!("Seal", "yes or no", "`no`", "files are not sealed"),
    without_effect!("SplitMode", "`uid`, `none`", "`none`", "all users' messages are in one store"),
    setting!(
        "RateLimitIntervalSec",
        "time",
        "`30s`",
        rate.interval_us = span,
        "in which a service may log a burst; 0: no limit"
    ),
    setting!(
        "RateLimitBurst",
        "number",
        "`10000`",
        rate.burst = number,
        "messages of a burst, and up to four times as many where there is room for the log, as journald.conf(5) \
         has it; root's processes of a service and those of its other users may have as many each; 0: no limit"
    ),
    setting!(
        "SystemMaxUse",
        "bytes",
        "10 % of the file system, 4G at most",
        system.use_bytes_max = some_size,
        "what the store on disk may take"
    ),
    setting!(
        "SystemKeepFree",
        "bytes",
        "15 % of the file system, 4G at most",
        system.keep_free_bytes = some_size,
        "what it leaves free"
    ),
    setting!(
        "SystemMaxFileSize",
        "bytes",
        "an eighth of `SystemMaxUse=`, 64M at most",
        system.file_bytes_max = some_size,
        "files are not joined to larger ones"
    ),
    setting!(
        "SystemMaxFiles",
        "number",
        "`100`",
        system.files_max = number,
        "closed files that are kept; 0: no limit"
    ),
    setting!(
        "RuntimeMaxUse",
        "bytes",
        "10 % of the file system, 4G at most",
        runtime.use_bytes_max = some_size,
        "as above, for the store in memory"
    ),
    setting!(
        "RuntimeKeepFree",
        "bytes",
        "15 % of the file system, 4G at most",
        runtime.keep_free_bytes = some_size,
        "as above"
    ),
    setting!(
        "RuntimeMaxFileSize",
        "bytes",
        "an eighth of `RuntimeMaxUse=`, 64M at most",
        runtime.file_bytes_max = some_size,
        "as above"
    ),
    setting!("RuntimeMaxFiles", "number", "`100`", runtime.files_max = number, "as above"),
    without_effect!(
        "MaxFileSec",
        "time",
        "none",
        "files are closed by size, after minutes or hours of messages"
    ),
    setting!(
        "MaxRetentionSec",
        "time",
        "`0`",
        retention_us = span,
        "files whose messages are all older are removed; 0: no limit"
    ),
    setting!(
        "SyncIntervalSec",
        "time",
        "`10s`",
        sync_us = span,
        "what was written is on the device so long after it at the latest; `crit` and worse at once"
    ),
    setting!(
        "DiskPatienceSec",
        "time",
        "`30s`",
        disk_patience_us = span,
        "not systemd's: a disk that does not answer is waited for, with all who send, so long at the most; then messages are kept in memory until it does"
    ),
    setting!(
        "ForwardToSyslog",
        "yes or no",
        "`yes`",
        to_syslog.on = boolean,
        "to the socket `/run/systemd/journal/syslog`, where a syslog daemon may listen; what it has no room for is counted and said"
    ),
    setting!("ForwardToKMsg", "yes or no", "`no`", to_kmsg.on = boolean, "to the kernel's log"),
    setting!(
        "ForwardToConsole",
        "yes or no",
        "`no`",
        to_console.on = boolean,
        "to `TTYPath=`; what it does not take at once is left out"
    ),
    setting!(
        "ForwardToWall",
        "yes or no",
        "`yes`",
        to_wall.on = boolean,
        "to the terminals of all users who are logged in"
    ),
    setting!(
        "MaxLevelStore",
        "level",
        "`debug`",
        store_level_max = level,
        "less urgent messages are not kept"
    ),
    setting!(
        "MaxLevelSyslog",
        "level",
        "`debug`",
        to_syslog.level_max = level,
        "less urgent messages are not forwarded there"
    ),
    setting!("MaxLevelKMsg", "level", "`notice`", to_kmsg.level_max = level, "as above"),
    setting!("MaxLevelConsole", "level", "`info`", to_console.level_max = level, "as above"),
    setting!("MaxLevelWall", "level", "`emerg`", to_wall.level_max = level, "as above"),
    setting!(
        "ReadKMsg",
        "yes or no",
        "`yes` in the default namespace",
        read_kmsg = some_boolean,
        "read the kernel's log"
    ),
    setting!(
        "Audit",
        "yes or no",
        "as `ReadKMsg=`",
        audit = some_boolean,
        "read records of the audit system; whether the kernel makes any is left as it is"
    ),
    setting!(
        "TTYPath",
        "path",
        "`/dev/console`",
        tty_path = path,
        "the terminal of `ForwardToConsole=` and of `StandardOutput=journal+console`"
    ),
    setting!(
        "LineMax",
        "bytes",
        "`48K`",
        line_bytes_max = line_max,
        "longer lines of a service's output are split; 79 to 16M"
    ),
    setting!(
        "Mirror",
        "bytes",
        "8M in the default namespace, else 0",
        mirror_bytes = some_size,
        "not systemd's: what came last is also kept as systemd's files below `/run/log/journal`, for \
         programs that read no others, in 4 files of 512K to 16M each, and fewer where `RuntimeKeepFree=` says so; 0: not"
    ),
];

fn storage(text: &str) -> Result<Storage, &'static str> {
    match text {
        "volatile" => Ok(Storage::Volatile),
        "persistent" => Ok(Storage::Persistent),
        "auto" => Ok(Storage::Auto),
        "none" => Ok(Storage::None),
        _ => Err("expected volatile, persistent, auto or none"),
    }
}

fn some_size(text: &str) -> Result<Option<u64>, &'static str> {
    size(text).map(Some)
}

fn some_boolean(text: &str) -> Result<Option<bool>, &'static str> {
    boolean(text).map(Some)
}

fn path(text: &str) -> Result<PathBuf, &'static str> {
    match text.starts_with('/') {
        true => Ok(PathBuf::from(text)),
        false => Err("expected an absolute path"),
    }
}

fn line_max(text: &str) -> Result<usize, &'static str> {
    Ok(size(text)?.clamp(LINE_BYTES_MIN, LINE_BYTES_MAX) as usize)
}

/// The page of the settings.
pub fn documentation() -> String {
    let mut out = String::from(HEAD);
    for setting in SETTINGS {
        let Setting { name, value, default, what, without_effect, .. } = setting;
        let what = match without_effect {
            Some(why) => format!("**no effect**: {why}"),
            None => (*what).to_owned(),
        };
        writeln!(out, "| `{name}=` | {value} | {default} | {what} |").expect("a string grows");
    }
    super::classes::put_documentation(&mut out);
    out
}

const HEAD: &str = "# The log daemon's settings

Generated from the table that the daemon reads by. `warren-journald` reads
`/etc/warren/journald.conf`, and over it the files `*.conf` of `journald.conf.d` in `/etc/warren`,
`/run/warren` and `/usr/lib/warren`, sorted by name; a file hides one of the same name in a later
directory. Settings stand in the section `[Journal]`, and have the names and values of
journald.conf(5). What is not understood is said in the log with file and line, and left out. An
empty value sets the default. `--set KEY=VALUE` of the daemon counts over all files.

`Storage=`: messages are kept in memory, in `/run/log/warren/journal`, until
`systemd-journal-flush.service` says that `/var` is there (`warren logs --flush`). With
`persistent`, and with `auto` if the directory `/var/log/warren` exists by then, what was kept in
memory is moved there, once, and what comes goes there; `make install` makes the directory.
With `volatile` all stays in memory, with `none` nothing is kept. `warren logs --relinquish-var`
goes back to memory until the next `--flush`.

| setting | value | default | what |
|--|--|--|--|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_what_an_empty_value_sets() {
        for setting in SETTINGS {
            let mut config = Config::default();
            let value = setting.default.trim_matches('`');
            if setting.default.starts_with('`') && !value.contains('`') {
                assert_eq!((setting.set)(&mut config, value), Ok(()), "{}", setting.name);
                assert_eq!(config, Config::default(), "{}: the default is another", setting.name);
            }
            (setting.reset)(&mut config, &Config::default());
            assert_eq!(config, Config::default(), "{}", setting.name);
        }
    }
}
