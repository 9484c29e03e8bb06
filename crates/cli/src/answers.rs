//! Answers to the questions of operators ([`warren_console::questions`]), as the commands of the table print them: for the
//! console and for the page in a browser.
//!
//! Must not: read a log: what is in it is read by the commands of [`log_of`], and the page has its own place for it.

use std::path::Path;

use warren_console::questions::{Ask, KILLED_WORDS, Subject};
use warren_wire::control::{
    Devices, Reloads, Shutdown, Status, StopPlan, Timers, Unprotected, Why, WhyAnswer,
};

use crate::args::By;
use crate::client::{CallError, Client};
use crate::output::Style;
use crate::{chart, devices, names, ranking, render, security, timers};

/// Reloads that are shown.
const RELOADS_MAX: usize = 5;

/// Lines of the log that are shown, at most.
pub const LOG_LINES_MAX: usize = 1000;

/// What of a log answers a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOf {
    /// The unit.
    pub unit: String,
    /// Since when, as `--since` has it.
    pub since: Option<String>,
    /// A text that the lines have.
    pub grep: Option<String>,
}

/// The part of the log that answers a question; nothing if no log does.
pub fn log_of(ask: Ask, subject: &Subject) -> Option<LogOf> {
    let unit = names::unit(subject.unit.as_deref().unwrap_or_default());
    match ask {
        Ask::Logs => Some(LogOf { unit, since: subject.since.clone(), grep: None }),
        Ask::OutOfMemory => Some(LogOf { unit, since: None, grep: Some(KILLED_WORDS.to_owned()) }),
        _ => None,
    }
}

/// What is said where the log has nothing.
pub fn no_line(ask: Ask) -> &'static str {
    match ask {
        Ask::OutOfMemory => {
            "The log tells of no process of it that was killed for want of memory.\n"
        }
        _ => "The log has no line of it in that time.\n",
    }
}

/// Answers a question, but one that the log answers. `root` is the manager's file system. Lines of logs are left out
/// unless `shows_logs`.
///
/// # Errors
/// What the manager does not answer, or refuses.
pub fn answer(
    client: &mut Client,
    root: &Path,
    ask: Ask,
    subject: &Subject,
    shows_logs: bool,
) -> Result<String, CallError> {
    let style = Style::default();
    let now_us = warren_sys::time::realtime_ns() / 1000;
    let unit = subject.unit.as_deref().map(names::unit);
    Ok(match ask {
        Ask::Failed | Ask::Waits | Ask::Starter => {
            let mut answer = client.call(&Why { unit })?;
            if !shows_logs {
                let steps = answer.units.iter_mut().flat_map(|unit| &mut unit.path);
                steps.for_each(|step| step.log.clear());
            }
            render::why(&answer, style, None)
        }
        Ask::Restarts | Ask::Memory => {
            let by = if ask == Ask::Memory { By::Memory } else { By::Restarts };
            let rows = ranking::ranked(client, root, by)?;
            ranking::table(&rows, by, false, now_us, style)
        }
        Ask::Timers => timers::table(&client.call(&Timers {})?, style),
        Ask::Reload => render::past::reloads(&client.call(&Reloads {})?, RELOADS_MAX, style),
        Ask::Boot => chart::boot(client)?,
        Ask::Shutdown => render::shutdown(&client.call(&Shutdown {})?, None),
        Ask::Owner => {
            let mut status = client.call(&Status { unit: None, pid: subject.pid })?;
            if !shows_logs {
                status.log.clear();
            }
            render::status(&status, now_us, style)
        }
        Ask::Unprotected => security::unprotected(&client.call(&Unprotected {})?, style),
        Ask::Devices => {
            let answer = client.call(&Devices {})?;
            match answer.seeing {
                true => devices::tree(&answer, style),
                false => devices::nobody(why_nobody_looks(client)?.as_ref()),
            }
        }
        Ask::StopPlan => {
            let name = unit.clone().unwrap_or_default();
            render::past::stop_plan(&name, &client.call(&StopPlan { unit })?, style)
        }
        Ask::Logs | Ask::OutOfMemory => String::new(),
    })
}

/// What `Why` answers of the device daemon; nothing if it is not there.
pub(crate) fn why_nobody_looks(client: &mut Client) -> Result<Option<WhyAnswer>, CallError> {
    match client.call(&Why { unit: Some(devices::DAEMON.to_owned()) }) {
        Err(e) if e.is_no_such_unit() => Ok(None),
        other => Ok(Some(other?)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use warren_console::questions::ALL;

    use super::*;
    use crate::args::Cli;

    /// The commands of the table are commands of `warren`.
    #[test]
    fn commands_of_questions_are_taken() {
        for question in ALL {
            let typed = ["web 10:00", "web", "77", ""];
            let subject = typed.iter().find_map(|typed| question.needs.subject(typed).ok());
            let command = question.command_for(&subject.expect("something fits"));
            // What is quoted is one word.
            let parts = command.split('\'').enumerate();
            let words = parts.flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            });
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{command}: {parsed:?}");
        }
    }

    #[test]
    fn logs_answer_two_of_them() {
        let subject = Subject { unit: Some("web".to_owned()), ..Subject::default() };
        let of_log: Vec<LogOf> =
            ALL.iter().filter_map(|question| log_of(question.ask, &subject)).collect();
        assert_eq!(of_log.len(), 2);
        assert!(of_log.iter().all(|log| log.unit == "web.service"));
    }
}
