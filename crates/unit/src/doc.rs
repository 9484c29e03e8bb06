//! The documentation that comes from the tables: the compatibility list, specifiers, codes.

mod phases;

use std::fmt::Write;

use crate::diagnostic::Code;
use crate::settings::{ALIASES, Group, Kind, List, SETTINGS, Status};
use crate::specifier::SPECIFIERS;

/// Settings that are acted on and do not all that the manual says.
const OTHERWISE: [(&str, &str); 20] = [
    (
        "StandardInput=tty",
        "if another session has the terminal, the start fails (status 208), as with `tty-fail`.",
    ),
    (
        "DynamicUser=",
        "numbers and the names of units whose own is none for users come from a hash that is not systemd's. Directories \
         below `/var/lib/private` change hands once when a machine comes over, or goes back.",
    ),
    (
        "RemoveIPC=",
        "objects go by the user that owns them. Those that the group alone has in common with the unit stay, as they \
         are another user's.",
    ),
    (
        "RootEphemeral=",
        "what is mounted in the root directory is empty in its copy, and an image that is a block device is refused. Copies \
         lie in `/var/lib/systemd/ephemeral-trees`. What a machine that lost its power left there goes when the next \
         such service stops.",
    ),
    (
        "PrivatePIDs=",
        "each process that is started for the unit is the first of a namespace of its own. Together with `PAMName=` or \
         `Type=forking` the unit is not loaded.",
    ),
    (
        "TimeoutCleanSec=",
        "the caller of the cleaning is told that it timed out. The unit does not fail.",
    ),
    (
        "DisableControllers=",
        "a controller that is on for the units of a slice when it is turned off stays on until the slice has gone down.",
    ),
    (
        "OpenFile=",
        "a file that is not there is not made. The descriptors come behind those of sockets and of the store; commands beside \
         the program are given none.",
    ),
    (
        "RestartMode=debug",
        "the manager has no messages that are for debugging alone: those that `LogLevelMax=` leaves out are told.",
    ),
    (
        "ConcurrencySoftMax=",
        "of the starts that wait, the first by name is next, whatever the weights of the units. What comes up without a job, \
         as a mount that somebody made, counts and is not refused.",
    ),
    (
        "PollLimitIntervalSec=",
        "without it and `PollLimitBurst=` there is no limit, as with systemd 252. A manager that comes back begins to count anew.",
    ),
    (
        "PassFileDescriptorsToExec=",
        "commands of `ExecStopPost=` run when the sockets are closed, and are given none.",
    ),
    ("ShowStatus=", "where nothing is said, and with `auto`, the console shows what fails."),
    (
        "NFTSet=",
        "sets know a service before its first process begins. Of a user that several units have it is taken out with the last \
         of them. A manager that is killed while a unit stops may leave a number behind.",
    ),
    (
        "CrashReboot=",
        "it is about process 1 of a host, which is small: a manager that crashes is started again by it. Where nothing is said, \
         services go on when it has crashed, their sockets stay open, and Ctrl-Alt-Del restarts the machine. In a container \
         process 1 ends.",
    ),
    (
        "DumpCore=",
        "where nothing is said, no core is dumped. A signal that a process sends to process 1 is no crash.",
    ),
    (
        "LogTime=",
        "where nothing is said, lines on the console begin with the time since the kernel started, and with `no` they do not.",
    ),
    (
        "LogColor=",
        "where nothing is said, lines have no colour. What is no terminal gets none in any case.",
    ),
    (
        "BPFProgram=",
        "a program that an edit names no more stays until the unit stops where its file is gone by then. The same holds for \
         `IPIngressFilterPath=` and `IPEgressFilterPath=`.",
    ),
    (
        "RuntimeWatchdogSec=",
        "init keeps the device open, so that it stays armed while one manager follows another. In a container only a \
         device that `WatchdogDevice=` names is used.",
    ),
];

/// The compatibility list in Markdown: every setting, what its value looks like, what is done with it and which tests
/// have it.
pub fn compatibility(tested_by: &dyn Fn(&str) -> String) -> String {
    let mut out = String::from("# Settings of unit files\n\n");
    out.push_str(
        "Generated from the table of settings. \"Known, no effect yet\" is checked and reported \
         as a note, also in the log when the unit is first used; \"known, not applied, reported\" \
         protects the host, or hands over secrets, and is reported as a warning wherever it is used.\n\n\
         The last column has the tests that use the name: files of `crates/manager/tests`, and groups of `cargo xtask \
         beside`, which compare with systemd 252. Values of all settings have tests in `crates/unit`.\n\n",
    );
    summary(&mut out);
    for group in Group::ALL {
        section(&mut out, group, tested_by);
    }
    aliases(&mut out);
    out.push_str("\n## Phases of the start of a process\n\n");
    for (at, (what, _)) in phases::PHASES.iter().enumerate() {
        line(&mut out, format_args!("{}. {what}", at + 1));
    }
    out.push_str("\n## What is done otherwise\n\n");
    for (setting, what) in OTHERWISE {
        line(&mut out, format_args!("- `{setting}`: {what}"));
    }
    out.push_str("\n## Specifiers\n\n");
    for (letter, meaning) in SPECIFIERS {
        line(&mut out, format_args!("- `%{letter}`: {meaning}"));
    }
    out.push_str("\n## Codes of diagnostics\n\n");
    for code in Code::ALL {
        line(&mut out, format_args!("- `{}`", code.as_str()));
    }
    out
}

/// Writing to a String cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string grows");
}

fn summary(out: &mut String) {
    out.push_str("| | settings |\n|--|--|\n");
    for status in [Status::Acted, Status::Parsed, Status::Sandbox, Status::Obsolete] {
        let count = SETTINGS.iter().filter(|s| s.status.as_str() == status.as_str()).count();
        line(out, format_args!("| {} | {count} |", status.as_str()));
    }
    line(out, format_args!("| all | {} |", SETTINGS.len()));
}

fn section(out: &mut String, group: Group, tested_by: &dyn Fn(&str) -> String) {
    let mut rows: Vec<_> = SETTINGS.iter().filter(|s| s.group == group).collect();
    rows.sort_by_key(|s| s.name);
    line(out, format_args!("\n## {group:?}: {}\n", group.manual()));
    let has_phases = group == Group::Exec;
    let (title, rule) = if has_phases { (" phase |", "--|") } else { ("", "") };
    line(
        out,
        format_args!("| setting | meaning | value | more than one | status |{title} tested by |"),
    );
    line(out, format_args!("|--|--|--|--|--|{rule}--|"));
    for s in rows {
        let (value, list, tests) = (kind(s.kind), list(s.list), tested_by(s.name));
        let phase = match phases::phase(s.name) {
            Some(phase) if has_phases => format!(" {phase} |"),
            None if has_phases => " |".to_owned(),
            _ => String::new(),
        };
        let (status, meaning) = (s.status.as_str(), s.meaning().unwrap_or_default());
        let name = s.name;
        line(
            out,
            format_args!(
                "| `{name}=` | {meaning} | {value} | {list} | {status} |{phase} {tests} |"
            ),
        );
    }
}

fn aliases(out: &mut String) {
    out.push_str("\n## Other names\n\n| name | stands for |\n|--|--|\n");
    for a in ALIASES {
        line(out, format_args!("| {:?} `{}=` | {:?} `{}=` |", a.group, a.name, a.of.0, a.of.1));
    }
}

fn list(list: List) -> &'static str {
    match list {
        List::Last => "the last counts",
        List::Append => "all count, empty resets",
        List::Keep => "all count",
    }
}

/// What a value looks like, in a few words.
pub fn kind(kind: Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Raw => "as the manual says".to_owned(),
        Kind::Bool => "yes, no".to_owned(),
        Kind::Units(relation) => format!("units, relation {relation}"),
        Kind::RestartOn => "none, error, restart or refresh, then units".to_owned(),
        Kind::Names => "units".to_owned(),
        Kind::MountsFor => "absolute paths".to_owned(),
        Kind::Path => "absolute path".to_owned(),
        Kind::Word(words) => words.join(", "),
        Kind::BoolOr(words) => format!("yes, no, {}", words.join(", ")),
        Kind::Span => "time span".to_owned(),
        Kind::Calendar => "calendar expression".to_owned(),
        Kind::Bytes => "bytes".to_owned(),
        Kind::Memory => "bytes, percentage, infinity".to_owned(),
        Kind::Tasks => "number, percentage, infinity".to_owned(),
        Kind::CountOrInfinity => "number, infinity".to_owned(),
        Kind::Number(low, high) => format!("{low} to {high}"),
        Kind::Percent => "percentage".to_owned(),
        Kind::Mode => "octal mode".to_owned(),
        Kind::Signal => "signal".to_owned(),
        Kind::ExitStatus => "exit statuses and signals".to_owned(),
        Kind::Command => "command lines".to_owned(),
        Kind::Listen(_) => "address".to_owned(),
        Kind::Condition(_) => "condition".to_owned(),
        Kind::Assert(_) => "assertion".to_owned(),
        Kind::Environment => "NAME=value words".to_owned(),
        Kind::Rlimit(_) => "limit or soft:hard".to_owned(),
        Kind::Words => "words".to_owned(),
        Kind::Indexes => "numbers and ranges".to_owned(),
        Kind::CpuWeight => "1 to 10000, idle".to_owned(),
        Kind::Capabilities => "capabilities, ~ inverts".to_owned(),
        Kind::OpenFile => "path, path:name or path:name:options".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_listed() {
        let text = compatibility(&|_| String::new());
        for setting in SETTINGS {
            let row = format!("| `{}=` | ", setting.name);
            assert!(text.contains(&row), "{}", setting.name);
        }
    }
}
