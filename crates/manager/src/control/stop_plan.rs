//! The answers of `StopPlan` and `Unprotected`. Read from the published view by a thread of the control socket.
//! Must not: give the loop an order.

use std::sync::Arc;

use warren_bus::backend::Backend;
use warren_core::graph::Definition;
use warren_core::model::ids::UnitId;
use warren_core::settings::{Settings, TypeSettings};
use warren_core::transaction::Planned;
use warren_sandbox::credentials;
use warren_unit::config::{CapabilitySet, ExecConfig};
use warren_unit::{Relation, UnitType};
use warren_wire::control::{
    PlannedStop, RelatedUnit, StopPlan, StopPlanAnswer, UnprotectedAnswer, UnprotectedService,
};

use crate::control::answer::{Answered, active, find, name, refused};
use crate::published::shared::Shared;

/// Services that are named, at most.
const SERVICES_MAX: usize = 1000;

/// What a stop of a unit would stop, and what may start it again.
pub(crate) fn stop_plan(request: &StopPlan, shared: &Arc<Shared>) -> Answered<StopPlanAnswer> {
    let view = shared.view();
    let unit = find(&view, request.unit.as_deref())?;
    let planned = view.stop_plan(unit).map_err(|refusal| refused(refusal.to_string()))?;
    // What is down has nothing to stop, unless it is about to come up.
    let is_told =
        |job: &&Planned| !view.active_state(job.unit).is_down() || view.job(job.unit).is_some();
    let stops = planned.iter().filter(is_told).map(|job| PlannedStop {
        name: name(&view, job.unit),
        active: active(&view, job.unit),
        because_of: job.pulled_by.map(|by| name(&view, by)),
    });
    let stays = |other: &UnitId| {
        !view.active_state(*other).is_down() && planned.iter().all(|job| job.unit != *other)
    };
    let by = view.graph.related(unit, Relation::TriggeredBy).filter(stays);
    let by = by.map(|other| RelatedUnit { name: name(&view, other), active: active(&view, other) });
    Ok(StopPlanAnswer { stops: stops.collect(), started_by: by.collect() })
}

/// Services that are up and ask for no protection.
pub(crate) fn unprotected(shared: &Arc<Shared>) -> UnprotectedAnswer {
    let (view, settings) = (shared.view(), shared.settings());
    let is_up = |definition: &&Arc<Definition>| {
        definition.unit_type() == UnitType::Service && !view.active_state(definition.id).is_down()
    };
    let mut up = 0;
    let mut bare: Vec<UnprotectedService> = view
        .graph
        .definitions()
        .filter(is_up)
        .inspect(|_| up += 1)
        .filter_map(|definition| bare(&settings, definition))
        .collect();
    let total = bare.len() as u64;
    bare.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    bare.truncate(SERVICES_MAX);
    UnprotectedAnswer { up, total, services: bare }
}

/// A service without any setting that protects the host from it.
fn bare(settings: &Settings, definition: &Definition) -> Option<UnprotectedService> {
    let TypeSettings::Service(config) = settings.compile_running(definition).own else {
        return None;
    };
    asks_for_nothing(&config.exec).then(|| UnprotectedService {
        name: definition.name.to_string(),
        user: config.exec.user.as_deref().unwrap_or_default().to_owned(),
    })
}

/// Whether nothing keeps its processes from what their user may do. Credentials are handed over, they keep it from nothing.
fn asks_for_nothing(exec: &ExecConfig) -> bool {
    let mut asked = exec.protections.iter().chain(&exec.sandbox);
    asked.all(|asked| credentials::concerns(asked.setting))
        && !exec.no_new_privileges
        && !exec.dynamic_user
        && exec.root_directory.is_none()
        && exec.capability_bounding_set == CapabilitySet::ALL
}

#[cfg(test)]
mod tests {
    use warren_unit::config::SandboxSetting;

    use super::*;

    #[test]
    fn one_setting_is_some_protection_and_a_credential_is_none() {
        let asks = |setting, value: &str| {
            let asked = SandboxSetting { setting, value: value.into() };
            !asks_for_nothing(&ExecConfig { protections: vec![asked], ..ExecConfig::default() })
        };
        assert!(asks_for_nothing(&ExecConfig::default()));
        assert!(asks("ProtectSystem", "yes") && !asks("LoadCredential", "a:/b"));
        let one = ExecConfig { no_new_privileges: true, ..ExecConfig::default() };
        assert!(!asks_for_nothing(&one));
        assert!(!asks_for_nothing(&ExecConfig { dynamic_user: true, ..ExecConfig::default() }));
    }
}
