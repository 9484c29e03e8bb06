//! `io.systemd.ManagedOOM`: the groups that systemd-oomd looks after, and then what changes of them, for as long as it
//! is connected.
//!
//! An answer has a bounded number of groups. What changes while the client reads is told of at once afterwards.
//! systemd-oomd of systemd 252 drops an answer with a field that it does not know: durations are told again, in answers
//! of their own, which newer ones follow.

use serde_json::{Value, json};
use warren_bus::backend::Backend;
use warren_bus::properties::per_32_bits;

use super::call::Refusal;
use super::methods::{Client, Done};
use crate::base::answers::Unanswered;
use crate::cgroup::oomd::{Change, OomdTable, Property, changes};
use crate::control::caller::is_privileged;
use crate::published::shared::Shared;

/// Groups in one answer.
const CGROUPS_MAX: usize = 1024;

/// The unit whose processes may subscribe beside root.
const OOMD: &str = "systemd-oomd.service";

/// Tells until the client goes.
pub(super) fn subscribe(client: &mut Client<'_>) -> Done {
    if !may_subscribe(client) {
        return Err(Refusal::denied());
    }
    if !client.call.more {
        return Err(Refusal::expected_more());
    }
    let shared = client.shared.clone();
    let _watch = shared.oomd.watch(&client.caller.bell);
    let mut told = OomdTable::default();
    // The first answer comes in any case: it says that there is somebody.
    let mut is_first = true;
    loop {
        let now = shared.oomd.table();
        let changes = changes(&told, &now);
        told = now;
        let rows: Vec<Value> = changes.iter().map(|change| row(change, &shared)).collect();
        let lasting: Vec<Value> =
            changes.iter().filter_map(|change| row_with_duration(change, &shared)).collect();
        if is_first && rows.is_empty() {
            client.say_more(&json!({"cgroups": []}));
        }
        is_first = false;
        for some in rows.chunks(CGROUPS_MAX).chain(lasting.chunks(CGROUPS_MAX)) {
            client.say_more(&json!({"cgroups": some}));
        }
        if client.lost {
            return Ok(());
        }
        match client.caller.bell.wait(client.caller.socket) {
            Ok(()) => {}
            Err(Unanswered::HungUp) => {
                client.lost = true;
                return Ok(());
            }
            Err(Unanswered::Dropped) => return Err(Refusal::plain("io.systemd", "Disconnected")),
        }
    }
}

/// Root, and systemd-oomd, which is a user of its own.
fn may_subscribe(client: &Client<'_>) -> bool {
    let asker = client.caller.asker;
    if is_privileged(asker) {
        return true;
    }
    let view = client.shared.view();
    let unit = client.shared.unit_of_process(asker.pid);
    unit.is_some_and(|unit| view.graph.get(unit).is_some_and(|d| d.name.as_str() == OOMD))
}

fn row(change: &Change, shared: &Shared) -> Value {
    let property = match change.property {
        Property::Swap => "ManagedOOMSwap",
        Property::MemoryPressure => "ManagedOOMMemoryPressure",
    };
    let mode = if change.rule.is_some() { "kill" } else { "auto" };
    let path = match &*change.path {
        "" => String::new(),
        path => shared.shown_path(path),
    };
    let mut row = json!({"mode": mode, "path": path, "property": property});
    let rule = change.rule.filter(|_| change.property == Property::MemoryPressure);
    if let Some(rule) = rule {
        row["limit"] = per_32_bits(rule.limit).into();
    }
    row
}

/// The same with its duration, if it has one.
fn row_with_duration(change: &Change, shared: &Shared) -> Option<Value> {
    let duration = change.rule?.duration?;
    let mut row = row(change, shared);
    row["duration"] = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).into();
    Some(row)
}
