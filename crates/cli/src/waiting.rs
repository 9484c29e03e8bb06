//! What a command that waits for jobs says on a terminal: for which job, of which unit, since when, and for whom that
//! waits in turn. In a pipe it says nothing, and asks nothing.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use warren_sys::progress::{Shared, beside};
use warren_wire::control::{JobType, Why, WhyStep};

use crate::client::Client;
use crate::output::clean;
use crate::render;

/// Between two questions to the manager: of 40,000 jobs the answer costs something.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Units that are asked for on the way to the one that is at work.
const STEPS_MAX: usize = 8;

/// How long the manager has for an answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// Jobs that are waited for.
pub(crate) struct Waiting {
    kind: JobType,
    total: usize,
    /// Units whose jobs are not over, in the order in which they were named.
    left: Mutex<Vec<String>>,
    /// The manager's control socket.
    control: PathBuf,
    progress: Shared,
}

impl Waiting {
    /// Begins now. With `quiet` nothing is shown.
    pub fn begin(kind: JobType, units: &[String], control: PathBuf, quiet: bool) -> Waiting {
        let left = Mutex::new(units.to_vec());
        Waiting { kind, total: units.len(), left, control, progress: Shared::begin(quiet) }
    }

    /// Waits; meanwhile a thread says for what.
    pub fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let (mut asked, mut steps): (Option<(Instant, String)>, _) = (None, Vec::new());
        let text = || {
            let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(unit) = left.first() else { return String::new() };
            let is_fresh =
                asked.as_ref().is_some_and(|(when, of)| of == unit && when.elapsed() < ASK_EVERY);
            if !is_fresh {
                steps = self.ask(unit);
                asked = Some((Instant::now(), unit.clone()));
            }
            line(&self.kind, &left, self.total, begun.elapsed(), &steps)
        };
        beside(&self.progress, text, wait)
    }

    /// The job of a unit is over; room is made for what is said of it.
    pub fn is_over(&self, unit: &str) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other != unit);
        self.progress.clear();
    }

    /// What the manager says of a unit, and of the one at the end of those that its job waits for. That it says nothing is
    /// no failure of the wait.
    fn ask(&self, unit: &str) -> Vec<WhyStep> {
        let Ok(mut client) = Client::connect(&self.control) else { return Vec::new() };
        if client.answers_within(ANSWERS_WITHIN).is_err() {
            return Vec::new();
        }
        let mut steps = Vec::<WhyStep>::new();
        let mut next = Some(unit.to_owned());
        for _ in 0..STEPS_MAX {
            let Some(unit) = next.take() else { break };
            let Ok(answer) = client.call(&Why { unit: Some(unit) }) else { break };
            let Some(step) = answer.units.into_iter().flat_map(|why| why.path).next() else {
                break;
            };
            next.clone_from(&step.waits_for);
            steps.truncate(1);
            steps.push(step);
        }
        steps
    }
}

/// What is waited for, as one line. `left` are the units whose jobs are not known to be over, of `total`: the manager tells
/// of them in their order. `steps` are what is known of the first, and of whom it waits for in the end.
fn line(
    kind: &JobType,
    left: &[String],
    total: usize,
    waited: Duration,
    steps: &[WhyStep],
) -> String {
    let Some(unit) = left.first() else { return String::new() };
    let place = match total {
        0 | 1 => String::new(),
        _ => format!("{} of {total}, ", total - left.len() + 1),
    };
    let mut out = format!("{} s: {place}{kind} of {}", waited.as_secs(), clean(unit));
    out += &steps.first().map(waits_for).unwrap_or_default();
    // Of one that waits for others there is more to say than that.
    if let Some((step, words)) =
        steps.last().and_then(|step| Some((step, render::under_way(step)?)))
    {
        let of = match steps.len() {
            1 => String::new(),
            _ => format!("{}: ", clean(&step.row.name)),
        };
        out += &format!(". {of}{}", clean(&words));
    }
    out
}

/// The units that a job waits for.
fn waits_for(step: &WhyStep) -> String {
    let Some(first) = &step.waits_for else { return String::new() };
    let more = step.waits_for_also.len() + step.waits_for_more;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(", which waits for {}{more}", clean(first))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A unit on the way to a root cause.
    fn step(name: &str, more: Value) -> Value {
        let mut step = json!({
            "name": name, "active": "inactive", "sub": "dead",
            "reason": {"code": "WR-0010", "text": "started by a start job"},
        });
        let own = step.as_object_mut().expect("it is one");
        own.extend(more.as_object().expect("it is one").clone());
        step
    }

    #[track_caller]
    fn check(left: &[&str], total: usize, steps: Value, expected: &str) {
        let steps: Vec<WhyStep> =
            serde_json::from_value(steps).expect("what is left out has a default");
        let left: Vec<String> = left.iter().map(|unit| (*unit).to_owned()).collect();
        let got = line(&JobType::Start, &left, total, Duration::from_secs(12), &steps);
        assert_eq!(got, expected);
    }

    #[test]
    fn a_line_says_what_is_waited_for_since_when_and_for_whom_that_waits() {
        let going = |more: Value| {
            let mut going = json!({"so_far_us": 9_000_000, "left_us": 81_000_000});
            let more = more.as_object().cloned().unwrap_or_default();
            going.as_object_mut().expect("it is one").extend(more);
            json!({"active": "activating", "under_way": going})
        };
        let own = step("a.service", going(json!({"process": "pid 7 migrate"})));
        let expected =
            "12 s: start of a.service. Starting for 9.00 s (pid 7 migrate); gives up in 1min 21s";
        check(&["a.service"], 1, json!([own]), expected);
        let waits = step(
            "a.service",
            json!({"waits_for": "x.service", "waits_for_also": ["y.service"], "waits_for_more": 3}),
        );
        let steps = json!([waits, step("db.service", going(Value::Null))]);
        let expected = "12 s: 6 of 7, start of a.service, which waits for x.service and 4 more. \
             db.service: Starting for 9.00 s; gives up in 1min 21s";
        check(&["a.service", "b.service"], 7, steps, expected);
        check(&["a.service"], 1, json!([step("a.service", json!({}))]), "12 s: start of a.service");
        check(&["a.service"], 1, json!([]), "12 s: start of a.service");
        check(&[], 1, json!([]), "");
    }
}
