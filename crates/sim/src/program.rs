//! What the processes of a simulation do: every `Exec*=` line is a small program.
//!
//! The path is a word that means nothing; each argument is a step, taken one after the other:
//!
//! | step | meaning |
//! |---|---|
//! | `run` | runs until a signal ends it |
//! | `sleep:MS` | waits |
//! | `exit:N` | leaves with code N; the end of the list is `exit:0` |
//! | `crash` | dies of SIGSEGV with a core dump |
//! | `clean` | says that it holds nothing to save (`CLEAN=1`) |
//! | `ready` `reloading` `stopping` `watchdog` | says so on the notify socket |
//! | `extend:MS` | EXTEND_TIMEOUT_USEC= |
//! | `say:FIELD+FIELD` | says several things in one datagram, see below |
//! | `mainpid` | names itself as the main process |
//! | `daemon` | forks; the parent leaves, the child takes the remaining steps |
//! | `orphan` | forks a child that runs until a signal ends it |
//! | `stubborn` | ignores SIGTERM and SIGHUP from here on |
//! | `held` | is held by the kernel from here on: no signal ends it |
//! | `reloads` | answers SIGHUP with RELOADING=1 and READY=1 from here on |
//! | `own:NAME` `disown:NAME` | takes a name on the bus, or gives it up |
//! | `stop:UNIT` `start:UNIT` | asks the manager for a job, but not for ever |
//! | `oom` | the kernel kills it for want of memory |
//!
//! The fields of a datagram are `ready`, `reloading`, `stopping`, `clean`, `watchdog`, `trigger`
//! (WATCHDOG=trigger), `extend=MS` (EXTEND_TIMEOUT_USEC=) and `interval=MS` (WATCHDOG_USEC=).
//!
//! A path of `/none` cannot be executed, and for one of `/full` there is no room for a process.

use warren_core::protocol::event::Notify;
use warren_unit::config::Command;

use crate::kernel::MS;

/// One step of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Step {
    Run,
    Sleep(u64),
    Exit(u8),
    Crash,
    Ready,
    Reloading,
    Stopping,
    Clean,
    Watchdog,
    Extend(u64),
    Say(Box<Notify>),
    MainPid,
    Daemon,
    Orphan,
    Stubborn,
    Held,
    Reloads,
    Own(String, bool),
    Stop(String),
    Start(String),
    OutOfMemory,
}

/// Whether the program can be executed at all.
pub fn can_execute(command: &Command) -> bool {
    &*command.path != "/none"
}

/// Whether a process can be made for the command.
pub fn can_begin(command: &Command) -> bool {
    &*command.path != "/full"
}

/// The steps of a command. Words that are no steps are left out.
pub fn steps(command: &Command) -> Vec<Step> {
    command.argv.iter().skip(1).filter_map(|word| step(word)).collect()
}

/// The steps of a program that words name.
pub fn steps_of(words: &str) -> Vec<Step> {
    words.split_ascii_whitespace().filter_map(step).collect()
}

fn step(word: &str) -> Option<Step> {
    let (verb, rest) = word.split_once(':').unwrap_or((word, ""));
    let number = || rest.parse::<u64>().ok();
    Some(match verb {
        "run" => Step::Run,
        "sleep" => Step::Sleep(number()?),
        "exit" => Step::Exit(rest.parse().ok()?),
        "crash" => Step::Crash,
        "ready" => Step::Ready,
        "reloading" => Step::Reloading,
        "stopping" => Step::Stopping,
        "clean" => Step::Clean,
        "watchdog" => Step::Watchdog,
        "extend" => Step::Extend(number()?),
        "say" => Step::Say(Box::new(datagram(rest)?)),
        "mainpid" => Step::MainPid,
        "daemon" => Step::Daemon,
        "orphan" => Step::Orphan,
        "stubborn" => Step::Stubborn,
        "held" => Step::Held,
        "reloads" => Step::Reloads,
        "own" => Step::Own(rest.to_owned(), true),
        "disown" => Step::Own(rest.to_owned(), false),
        "stop" => Step::Stop(rest.to_owned()),
        "start" => Step::Start(rest.to_owned()),
        "oom" => Step::OutOfMemory,
        _ => return None,
    })
}

/// A datagram of these fields (sd_notify(3)).
fn datagram(fields: &str) -> Option<Notify> {
    let mut message = Notify::default();
    for field in fields.split('+') {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let us = || value.parse::<u64>().ok().map(|ms| ms * MS);
        match name {
            "ready" => message.ready = true,
            "reloading" => message.reloading = true,
            "stopping" => message.stopping = true,
            "clean" => message.clean = Some(true),
            "watchdog" => message.watchdog = true,
            "trigger" => message.watchdog_trigger = true,
            "extend" => message.extend_timeout_us = Some(us()?),
            "interval" => message.watchdog_us = Some(us()?),
            _ => return None,
        }
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_has_all_of_its_fields_or_is_no_step() {
        let said = Notify { ready: true, watchdog_us: Some(5 * MS), ..Notify::default() };
        assert_eq!(step("say:ready+interval=5"), Some(Step::Say(Box::new(said))));
        assert_eq!(step("say:ready+interval"), None);
        assert_eq!(step("say:ready+hello"), None);
    }
}
