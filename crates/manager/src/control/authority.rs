//! Whom polkit lets do with units what root may: the same questions as over the message bus, about the process that
//! connected.
//!
//! Must not: have anybody asked for a password, or ask about what is not in the table of [`wishes`]. Thread: that of the
//! client, which waits for the answer; nothing else does.

use std::os::fd::AsFd;
use std::sync::Arc;

use warren_bus::BusError;
use warren_bus::authority::{Action, Question, Verb, Who, job_verb, unit_verb};
use warren_core::protocol::request::Asker;
use warren_sys::{credentials, process};
use warren_unit::UnitName;
use warren_wire::control::{ErrorName, Job, JobType, Jobs, Request};

use crate::base::answers::AnswerTo;
use crate::control::answer::{Refused, find_or_load};
use crate::control::caller::Caller;
use crate::control::quota::Turns;
use crate::published::shared::Shared;

/// Units that are asked about for one request.
const UNITS_MAX: usize = 200;

/// What is said to who may not, and whom nobody would be asked about.
const DENIED: &str = "only root and the manager's own user may do this";

/// A unit by the name that the client gave, and what is to be done to it; none where it is about all.
type Wish = Option<(String, Verb)>;

/// What polkit would be asked about; nothing if the request is for root alone.
fn wishes(request: &Request) -> Option<Vec<Wish>> {
    let of_job = |unit: &str, job_type: &Option<JobType>, reloads: bool| {
        let word = job_type.as_ref().map_or("start", JobType::as_str);
        let word = match (word, reloads) {
            ("restart", true) => "reload-or-restart",
            ("try-restart", true) => "reload-or-try-restart",
            (word, _) => word,
        };
        job_verb(word).map(|verb| Some((unit.to_owned(), verb)))
    };
    let reset = |unit: &str| unit_verb("ResetFailed").map(|verb| Some((unit.to_owned(), verb)));
    match request {
        Request::Job(Job { unit: Some(unit), job_type, reload_if_possible, .. }) => {
            of_job(unit, job_type, *reload_if_possible).map(|wish| vec![wish])
        }
        Request::Jobs(Jobs { units, job_type, reload_if_possible, .. })
            if (1..=UNITS_MAX).contains(&units.len()) =>
        {
            units.iter().map(|unit| of_job(unit, job_type, *reload_if_possible)).collect()
        }
        Request::ResetFailed(request) => match &request.unit {
            Some(unit) => reset(unit).map(|wish| vec![wish]),
            None => Some(vec![None]),
        },
        Request::Clear(request) => reset(request.unit.as_deref()?).map(|wish| vec![wish]),
        _ => None,
    }
}

/// The questions, about units by the names that their files have: rules may not know another one.
fn questions(
    request: &Request,
    wishes: &[Wish],
    caller: &Caller<'_>,
    turns: &Turns,
    shared: &Arc<Shared>,
) -> Result<Vec<Question>, Refused> {
    // Files may be looked for, which each user has done one at a time. Nobody waits for polkit meanwhile.
    let _turn = turns.large(caller.asker.uid);
    let action = Action::ManageUnits;
    let question = |wish: &Wish| {
        let Some((named, verb)) = wish else { return Ok(Question { action, unit: None }) };
        let unit = match find_or_load(Some(named), None, caller, shared) {
            // What an administrator has put aside is not for others.
            Ok((view, unit)) if matches!(request, Request::Clear(_)) => {
                match view.run(unit).marked() {
                    Some(_) => return Err(denied()),
                    None => view.graph.name(unit).to_string(),
                }
            }
            Ok((view, unit)) => view.graph.name(unit).to_string(),
            Err(_) => UnitName::parse(named).map_or(String::new(), |name| name.to_string()),
        };
        Ok(Question { action, unit: Some((unit, *verb)) })
    };
    wishes.iter().map(question).collect()
}

/// What is said to who may not.
pub(crate) fn denied() -> Refused {
    (ErrorName::AccessDenied, DENIED.to_owned())
}

/// Asks polkit about a request of somebody who may not do this himself.
///
/// # Errors
/// Why it is refused, in one line.
pub(crate) fn check(
    request: &Request,
    caller: &Caller<'_>,
    turns: &Turns,
    shared: &Arc<Shared>,
) -> Result<(), Refused> {
    let gone = |text: &str| (ErrorName::AccessDenied, text.to_owned());
    let wishes = wishes(request).ok_or_else(denied)?;
    let asked = questions(request, &wishes, caller, turns, shared)?;
    for question in &asked {
        may(question, caller, shared)?;
    }
    // A name may mean another unit by now.
    match questions(request, &wishes, caller, turns, shared)? == asked {
        true => Ok(()),
        false => Err(gone("the names of units have changed meanwhile")),
    }
}

/// Asks polkit one question about the process that connected.
///
/// # Errors
/// Why it is refused, in one line.
pub(crate) fn may(
    question: &Question,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<(), Refused> {
    let gone = "the process that asked cannot be told from others any more";
    let who = who(caller).ok_or_else(|| (ErrorName::AccessDenied, gone.to_owned()))?;
    ask(question, &who, caller, shared)
}

fn ask(
    question: &Question,
    who: &Who,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<(), Refused> {
    let words = |why: &str| match &question.unit {
        Some((unit, verb)) => (ErrorName::AccessDenied, words(verb.word, unit, why)),
        None => (ErrorName::AccessDenied, format!("{DENIED}; {why}")),
    };
    let Some(authority) = shared.authority() else {
        return Err(words("the manager serves no message bus, so that it cannot ask polkit"));
    };
    let (reply, verdict): (AnswerTo<Result<(), BusError>>, _) = caller.awaited();
    authority.ask(who.clone(), question.clone(), Box::new(move |said| reply.send(said)));
    match caller.wait(verdict, "the message bus is gone, so that polkit does not answer")? {
        Ok(()) => Ok(()),
        Err(error) if error.name == BusError::access_denied("").name => {
            Err(words("polkit does not allow it"))
        }
        Err(error) if error.name == BusError::needs_interaction("").name => {
            Err(words("polkit wants a password for it, which systemctl asks for"))
        }
        Err(error) => Err(words(&error.text)),
    }
}

fn words(verb: &str, unit: &str, why: &str) -> String {
    format!("{verb} of {unit}: {DENIED}; {why}")
}

/// The process that connected, told from one that got its number later: its start is read while it is known to live.
/// Nothing if it has ended.
fn who(caller: &Caller<'_>) -> Option<Who> {
    let asker = caller.asker;
    let pid = Some(asker.pid).filter(|pid| *pid > 0 && *pid != Asker::OUTSIDE)?;
    let pidfd = credentials::peer_pidfd(caller.socket).ok()?;
    let start_time = process::start_ticks(pid.cast_signed()).ok()?;
    let lives = process::is_alive(pidfd.as_fd());
    lives.then_some(Who::Process { pid, start_time, uid: asker.uid })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use warren_wire::control::Method;

    use super::*;

    #[track_caller]
    fn check(method: Method, parameters: Value, expected: Option<&str>) {
        let request = Request::read(method, parameters.clone()).expect("a request");
        let shown = |wish: &Wish| match wish {
            Some((unit, verb)) => format!("{} {unit}", verb.word),
            None => "all".to_owned(),
        };
        let found =
            wishes(&request).map(|all| all.iter().map(shown).collect::<Vec<_>>().join(", "));
        assert_eq!(found.as_deref(), expected, "{method:?} {parameters}");
    }

    #[test]
    fn polkit_is_asked_about_jobs_and_failures_alone() {
        let unit = |more: Value| {
            let mut all = json!({"unit": "a.service"});
            all.as_object_mut().expect("one").extend(more.as_object().expect("one").clone());
            all
        };
        check(Method::Job, unit(json!({})), Some("start a.service"));
        check(Method::Job, unit(json!({"type": "stop"})), Some("stop a.service"));
        let reloads = json!({"type": "restart", "reload_if_possible": true});
        check(Method::Job, unit(reloads), Some("reload-or-restart a.service"));
        check(Method::Job, unit(json!({"type": "verify-active"})), None);
        check(Method::Job, json!({}), None);
        let units = json!({"units": ["a.service", "b.service"], "type": "restart"});
        check(Method::Jobs, units, Some("restart a.service, restart b.service"));
        check(Method::Jobs, json!({"units": []}), None);
        check(Method::Jobs, json!({"units": vec!["a.service"; 201]}), None);
        check(Method::ResetFailed, json!({}), Some("all"));
        check(Method::ResetFailed, unit(json!({})), Some("reset-failed a.service"));
        check(Method::Clear, unit(json!({})), Some("reset-failed a.service"));
        check(Method::Mark, unit(json!({"as": "maintenance"})), None);
        for method in [Method::Kill, Method::Hurry] {
            check(method, unit(json!({})), None);
        }
        for method in [Method::ReloadConfiguration, Method::Leave, Method::Reexecute] {
            check(method, json!({}), None);
        }
    }

    #[test]
    fn the_refusal_is_one_line_that_says_who_may() {
        let text = words("restart", "a.service", "polkit does not allow it");
        let expected = "restart of a.service: only root and the manager's own user may do this; polkit does not allow it";
        assert_eq!(text, expected);
    }
}
