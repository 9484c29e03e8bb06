//! Command lists with what is known of their last run: the `Exec` properties and their `Ex` forms.

use super::subject::Subject;
use crate::wire::Writer;
use warren_core::model::process::CommandList;
use warren_unit::config::Command;

/// `a(sasbttttuii)`: with a boolean that says whether a failure is ignored.
pub fn commands<'w>(
    w: &'w mut Writer,
    subject: &Subject<'_>,
    list: CommandList,
    commands: &[Command],
) -> &'w mut Writer {
    rows(w, subject, list, commands, |w, command| {
        w.bool(command.ignore_failure);
    })
}

/// `a(sasasttttuii)`: with the prefixes as words.
pub fn commands_ex<'w>(
    w: &'w mut Writer,
    subject: &Subject<'_>,
    list: CommandList,
    commands: &[Command],
) -> &'w mut Writer {
    rows(w, subject, list, commands, |w, command| {
        w.strs(prefix_words(command));
    })
}

fn prefix_words(command: &Command) -> impl Iterator<Item = &'static str> {
    [
        (command.ignore_failure, "ignore-failure"),
        (command.full_privileges, "privileged"),
        (command.no_setuid, "no-setuid"),
        (command.ambient_magic, "ambient"),
        (command.no_expansion, "no-env-expand"),
    ]
    .into_iter()
    .filter_map(|(on, word)| on.then_some(word))
}

fn rows<'w>(
    w: &'w mut Writer,
    subject: &Subject<'_>,
    list: CommandList,
    commands: &[Command],
    flags: impl Fn(&mut Writer, &Command),
) -> &'w mut Writer {
    w.array(b'(', |w| {
        for (at, command) in commands.iter().enumerate() {
            w.structure().str(&command.path).strs(command.argv.iter().map(|word| &**word));
            flags(w, command);
            let run = subject.command(list, at, commands);
            w.u64(run.started.realtime_us).u64(run.started.monotonic.0);
            w.u64(run.ended.realtime_us).u64(run.ended.monotonic.0);
            w.u32(run.pid).i32(run.code).i32(run.status);
        }
    })
}
