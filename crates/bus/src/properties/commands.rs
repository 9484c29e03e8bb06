//! Command lists with what is known of their last run: the `Exec` properties and their `Ex` forms.

use super::subject::Subject;
use super::values::Main;
use crate::wire::Writer;
use warren_core::state::CommandList;
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
    let last = commands.len().saturating_sub(1);
    w.array(b'(', |w| {
        for (at, command) in commands.iter().enumerate() {
            w.structure().str(&command.path).strs(command.argv.iter().map(|word| &**word));
            flags(w, command);
            let run = if at == last { last_run(subject, list) } else { Main::default() };
            w.u64(run.started.realtime_us).u64(run.started.monotonic.0);
            w.u64(run.ended.realtime_us).u64(run.ended.monotonic.0);
            w.u32(run.pid).i32(run.code).i32(run.status);
        }
    })
}

/// What is kept of the last process of a list: the main process for ExecStart=, else the last
/// control process if it was of this list. Of a list's earlier commands nothing is kept.
fn last_run(subject: &Subject<'_>, list: CommandList) -> Main {
    if list == CommandList::Start {
        return subject.main();
    }
    match subject.history().and_then(|history| history.last_control) {
        Some((of, ended)) if of == list => Main::ended(ended),
        _ => Main::default(),
    }
}
