//! Who users are that were made for a run (`DynamicUser=`): the varlink interface `io.systemd.UserDatabase`
//! (systemd.io/USER_GROUP_API), which nss-systemd and userdbctl ask at a socket of this service's name.
//!
//! Everybody may ask, as everybody may read /etc/passwd. A call says nothing that changes anything, and is answered
//! from the published view.

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use warren_bus::Backend as _;
use warren_core::model::dynamic_user::Numbers;
use warren_core::protocol::request::Asker;
use warren_wire::frame;

use crate::control::careful_reader::CarefulReader;
use crate::control::quota::Place;
use crate::control::server::reply;
use crate::published::shared::Shared;

/// The service's name, which is that of its socket.
const SERVICE: &str = "io.systemd.DynamicUser";

/// Bytes of a call.
const CALL_BYTES_MAX: usize = 4096;

/// A call. What it says besides is not looked at.
#[derive(Deserialize)]
struct Call {
    method: String,
    #[serde(default)]
    parameters: Parameters,
    #[serde(default)]
    more: bool,
    #[serde(default)]
    oneway: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameters {
    uid: Option<u32>,
    gid: Option<u32>,
    user_name: Option<String>,
    group_name: Option<String>,
    service: Option<String>,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    User,
    Group,
}

/// Serves one client until it goes.
pub(crate) fn serve(stream: &UnixStream, _: Asker, place: &Place, shared: &Arc<Shared>) {
    let Some(reader) = CarefulReader::new(stream) else { return };
    let mut reader = BufReader::new(reader);
    loop {
        let Ok(bytes) = frame::read(&mut reader, CALL_BYTES_MAX) else { return };
        let _answering = place.answering();
        let Ok(call) = serde_json::from_slice::<Call>(&bytes) else { return };
        let numbers = shared.view().dynamic_users.clone();
        for message in answers(&call, &numbers) {
            let mut bytes = message.to_string().into_bytes();
            bytes.push(0);
            if !call.oneway && reply(stream, bytes).is_err() {
                return;
            }
        }
    }
}

/// The messages that answer a call that was read elsewhere.
pub(crate) fn answers_to(call: &super::varlink::Call, numbers: &Numbers) -> Vec<Value> {
    let parameters = Value::Object(call.parameters.clone());
    let Ok(parameters) = serde_json::from_value(parameters) else {
        let parameters = json!({ "parameter": "parameters" });
        let name = "org.varlink.service.InvalidParameter";
        return vec![json!({ "error": name, "parameters": parameters })];
    };
    let (method, more, oneway) = (call.full_name(), call.more, call.oneway);
    answers(&Call { method, parameters, more, oneway }, numbers)
}

/// The messages that answer a call.
fn answers(call: &Call, numbers: &Numbers) -> Vec<Value> {
    let kind = match &*call.method {
        "io.systemd.UserDatabase.GetUserRecord" => Kind::User,
        "io.systemd.UserDatabase.GetGroupRecord" => Kind::Group,
        "io.systemd.UserDatabase.GetMemberships" if is_for_us(call) => {
            return vec![error("io.systemd.UserDatabase.NoRecordFound")];
        }
        "io.systemd.UserDatabase.GetMemberships" => {
            return vec![error("io.systemd.UserDatabase.BadService")];
        }
        method => {
            let parameters = json!({ "method": method });
            let name = "org.varlink.service.MethodNotFound";
            return vec![json!({ "error": name, "parameters": parameters })];
        }
    };
    if !is_for_us(call) {
        return vec![error("io.systemd.UserDatabase.BadService")];
    }
    let found = find(kind, &call.parameters, numbers);
    let Some((last, others)) = found.split_last() else {
        return vec![error("io.systemd.UserDatabase.NoRecordFound")];
    };
    if !others.is_empty() && !call.more {
        return vec![error("org.varlink.service.ExpectedMore")];
    }
    let record = |&(name, number): &(&str, u32), continues: bool| {
        let mut message = json!({ "parameters": { "record": record(kind, name, number) } });
        if continues {
            message["continues"] = true.into();
        }
        message
    };
    let before = others.iter().map(|one| record(one, true));
    before.chain([record(last, false)]).collect()
}

fn is_for_us(call: &Call) -> bool {
    call.parameters.service.as_deref() == Some(SERVICE)
}

/// Names and numbers that are asked for: all of them, if none is stated.
fn find<'a>(kind: Kind, asked: &Parameters, numbers: &'a Numbers) -> Vec<(&'a str, u32)> {
    let (name, number) = match kind {
        Kind::User => (&asked.user_name, asked.uid),
        Kind::Group => (&asked.group_name, asked.gid),
    };
    let by_number = |number| numbers.name(number).map(|name| (name, number));
    let by_name = |name: &str| numbers.number(name).and_then(by_number);
    match (name, number) {
        (None, None) => numbers.all().collect(),
        (Some(name), None) => by_name(name).into_iter().collect(),
        (None, Some(number)) => by_number(number).into_iter().collect(),
        (Some(name), Some(number)) => {
            by_name(name).filter(|(_, found)| *found == number).into_iter().collect()
        }
    }
}

fn record(kind: Kind, name: &str, number: u32) -> Value {
    match kind {
        Kind::User => json!({
            "userName": name,
            "uid": number,
            "gid": number,
            "realName": "Dynamic User",
            "homeDirectory": "/",
            "shell": "/usr/sbin/nologin",
            "locked": true,
            "service": SERVICE,
            "disposition": "dynamic",
        }),
        Kind::Group => json!({
            "groupName": name,
            "description": "Dynamic Group",
            "gid": number,
            "service": SERVICE,
            "disposition": "dynamic",
        }),
    }
}

fn error(name: &str) -> Value {
    json!({ "error": name, "parameters": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, parameters: Value, more: bool, expected: &[&str]) {
        let numbers: Numbers = [("db", 61200), ("web", 61300)].into_iter().collect();
        let method = format!("io.systemd.UserDatabase.{method}");
        let call = json!({ "method": method, "parameters": parameters, "more": more });
        let call = serde_json::from_value(call).expect("a call");
        let brief = |message: &Value| {
            let record = &message["parameters"]["record"];
            let name = record["userName"].as_str().or(record["groupName"].as_str());
            let number = record["uid"].as_u64().or(record["gid"].as_u64());
            match message["error"].as_str() {
                Some(error) => error.rsplit('.').next().unwrap_or_default().to_owned(),
                None => format!(
                    "{} {}{}",
                    name.unwrap_or("?"),
                    number.unwrap_or(0),
                    if message["continues"] == true { " +" } else { "" }
                ),
            }
        };
        let told: Vec<String> = answers(&call, &numbers).iter().map(brief).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn users_and_groups_are_found_as_systemd_252_does() {
        let of = |mut parameters: Value| {
            parameters["service"] = SERVICE.into();
            parameters
        };
        check("GetUserRecord", of(json!({ "userName": "web" })), false, &["web 61300"]);
        check("GetUserRecord", of(json!({ "uid": 61200 })), true, &["db 61200"]);
        check("GetGroupRecord", of(json!({ "gid": 61200 })), false, &["db 61200"]);
        check("GetGroupRecord", of(json!({ "groupName": "web" })), false, &["web 61300"]);
        check("GetUserRecord", of(json!({ "userName": "no" })), false, &["NoRecordFound"]);
        let both = json!({ "userName": "web", "uid": 61200 });
        check("GetUserRecord", of(both), false, &["NoRecordFound"]);
        check("GetUserRecord", of(json!({})), true, &["db 61200 +", "web 61300"]);
        check("GetUserRecord", of(json!({})), false, &["ExpectedMore"]);
        check("GetMemberships", of(json!({})), true, &["NoRecordFound"]);
        check("GetUserRecord", json!({ "userName": "web" }), false, &["BadService"]);
        check("GetMemberships", json!({ "service": "other" }), false, &["BadService"]);
        check("Nothing", json!({}), false, &["MethodNotFound"]);
    }
}
