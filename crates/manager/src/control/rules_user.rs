//! The user who may put rules into force without being root, and do what follows from that: `warren-agent`.
//!
//! He is no boundary against himself: who writes rules makes services, and services run as whoever rules say. He keeps
//! the agent from what it does by mistake.

use std::sync::Arc;

use warren_bus::backend::Backend as _;
use warren_core::protocol::request::Asker;
use warren_sys::passwd::Database;
use warren_unit::{LoadState, UnitName, UnitType};
use warren_wire::control::{JobType, Request};

use crate::control::answer::rules_of;
use crate::published::shared::Shared;

/// His name.
const USER: &str = "warren-agent";

/// What a unit is to him.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Rules make it, and no file hides that.
    MadeByRules,
    /// It has no file: rules made it before, or nobody did.
    WithoutFile,
    /// A target that others bring.
    Target,
    /// What is not his.
    Other,
}

/// Whether this user may have a request served that changes something.
pub(crate) fn may(asker: Asker, request: &Request, shared: &Arc<Shared>) -> bool {
    is_for_him(request, |unit| kind(unit, shared)) && is_he(asker)
}

/// Whether a user may read the last lines of the logs of units that rules make: he reports why they failed.
pub(crate) fn reads_logs_of_rules(asker: Asker) -> bool {
    is_he(asker)
}

fn is_he(asker: Asker) -> bool {
    Database::read().is_ok_and(|users| users.user(USER).is_some_and(|user| user.uid == asker.uid))
}

fn kind(unit: &str, shared: &Shared) -> Kind {
    let Ok(name) = UnitName::parse(unit) else { return Kind::Other };
    let view = shared.view();
    let Some(unit) = view.lookup(&name) else { return Kind::WithoutFile };
    let definition = view.definition(unit);
    match () {
        () if !rules_of(shared, definition).is_empty() => Kind::MadeByRules,
        () if definition.load_state == LoadState::NotFound => Kind::WithoutFile,
        () if name.unit_type() == UnitType::Target => Kind::Target,
        () => Kind::Other,
    }
}

fn is_for_him(request: &Request, kind: impl Fn(&str) -> Kind) -> bool {
    match request {
        Request::ReloadConfiguration(reload) => {
            reload.rules_only && !reload.full && reload.unit.is_none() && reload.rollback.is_none()
        }
        Request::Clear(clear) => {
            clear.unit.as_deref().is_some_and(|unit| kind(unit) == Kind::MadeByRules)
        }
        Request::Jobs(jobs) => {
            let may = |unit: &String| {
                matches!(
                    (&jobs.job_type, kind(unit)),
                    (Some(JobType::Start | JobType::TryRestart | JobType::Stop), Kind::MadeByRules)
                        | (Some(JobType::Start), Kind::Target)
                        | (Some(JobType::Stop), Kind::WithoutFile)
                )
            };
            jobs.mode.is_none() && jobs.comment.is_none() && jobs.units.iter().all(may)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use warren_wire::control::Method;

    use super::*;

    #[track_caller]
    fn check(method: Method, parameters: Value, expected: bool) {
        let request = Request::read(method, parameters.clone()).expect("a request");
        let kind = |unit: &str| match unit {
            "rule.service" => Kind::MadeByRules,
            "gone.service" => Kind::WithoutFile,
            "up.target" => Kind::Target,
            _ => Kind::Other,
        };
        assert_eq!(is_for_him(&request, kind), expected, "{parameters}");
    }

    #[test]
    fn he_may_put_rules_into_force_and_do_what_follows() {
        check(Method::ReloadConfiguration, json!({"rules_only": true, "texts": true}), true);
        check(Method::ReloadConfiguration, json!({"rules_only": true, "dry_run": true}), true);
        check(Method::ReloadConfiguration, json!({}), false);
        check(Method::ReloadConfiguration, json!({"rules_only": true, "full": true}), false);
        check(Method::ReloadConfiguration, json!({"rules_only": true, "rollback": 3}), false);
        let jobs = |job: &str, units: &[&str], expected| {
            check(Method::Jobs, json!({"type": job, "units": units}), expected);
        };
        jobs("start", &["rule.service", "up.target"], true);
        jobs("start", &["rule.service", "ssh.service"], false);
        jobs("start", &["gone.service"], false);
        jobs("stop", &["gone.service", "rule.service"], true);
        jobs("stop", &["up.target"], false);
        jobs("try-restart", &["rule.service"], true);
        jobs("restart", &["rule.service"], false);
        check(Method::Jobs, json!({"units": ["rule.service"]}), false);
        check(
            Method::Jobs,
            json!({"type": "stop", "units": ["rule.service"], "mode": "isolate"}),
            false,
        );
        check(Method::Clear, json!({"unit": "rule.service"}), true);
        check(Method::Clear, json!({"unit": "ssh.service"}), false);
        check(Method::Clear, json!({}), false);
        check(Method::Job, json!({"type": "start", "unit": "rule.service"}), false);
    }
}
