//! What Icinga's own namespace has: objects of its types by their names.

use super::call::Call;
use crate::eval::{Interpreter, Outcome};
use crate::ops;
use crate::value::{ObjectId, Value};

/// The object of a type that is named by the first argument; null if there is none.
fn named(run: &mut Interpreter<'_>, call: &Call<'_>, of_type: &str) -> Outcome {
    let name = ops::to_key(&mut run.heap, run.types, call.argument(0));
    let found = match run.types.find(of_type.as_bytes()) {
        Some(of_type) => run.look_up(of_type, name, call.place)?,
        None => None,
    };
    Ok(found.map_or(Value::Empty, Value::Object))
}

macro_rules! getters {
    ($( $(#[$doc:meta])* $name:ident $of_type:literal, )*) => { $(
        $(#[$doc])*
        pub fn $name(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
            named(run, call, $of_type)
        }
    )* };
}

getters! {
    /// A host.
    get_host "Host",
    /// A group of hosts.
    get_host_group "HostGroup",
    /// A group of services.
    get_service_group "ServiceGroup",
    /// A user.
    get_user "User",
    /// A group of users.
    get_user_group "UserGroup",
    /// A command that checks.
    get_check_command "CheckCommand",
    /// A command that handles events.
    get_event_command "EventCommand",
    /// A command that notifies.
    get_notification_command "NotificationCommand",
    /// A time period.
    get_time_period "TimePeriod",
}

/// The name of the host that an argument is or names.
fn host_name(run: &mut Interpreter<'_>, call: &Call<'_>) -> Vec<u8> {
    match call.argument(0) {
        Value::Object(id) => run.heap.bytes(run.heap.object(id).name).to_vec(),
        value => crate::text::string(&run.heap, run.types, value),
    }
}

/// A service of a host, which is given as an object or by its name.
pub fn get_service(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let service = crate::text::string(&run.heap, run.types, call.argument(1));
    let full = [host_name(run, call), b"!".to_vec(), service].concat();
    let name = run.heap.intern(&full);
    let found = match run.types.find(b"Service") {
        Some(of_type) => run.look_up(of_type, name, call.place)?,
        None => None,
    };
    Ok(found.map_or(Value::Empty, Value::Object))
}

/// All services of a host; null if there is no such host.
pub fn get_services(run: &mut Interpreter<'_>, call: &Call<'_>) -> Outcome {
    let host = host_name(run, call);
    let host_id = run.heap.intern(&host);
    let known = run.types.find(b"Host").and_then(|of_type| run.find_object(of_type, host_id));
    let (Some(_), Some(of_type)) = (known, run.types.find(b"Service")) else {
        return Ok(Value::Empty);
    };
    let prefix = [host, b"!".to_vec()].concat();
    let is_of_host = |id: &ObjectId| run.heap.bytes(run.heap.object(*id).name).starts_with(&prefix);
    let all = run.look_up_all(of_type, call.place)?;
    let found = all.into_iter().filter(is_of_host).map(Value::Object).collect();
    Ok(run.heap.array_of(found, call.place))
}
