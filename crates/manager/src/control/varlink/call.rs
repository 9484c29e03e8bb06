//! Calls and answers of varlink (varlink.org, 'Protocol'). Pure.

use serde_json::{Map, Value, json};

use super::interfaces;

/// A call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The interface's name.
    pub interface: String,
    /// The method's name in it.
    pub method: String,
    /// What is said with it.
    pub parameters: Map<String, Value>,
    /// Several answers may come.
    pub more: bool,
    /// Nobody waits for an answer.
    pub oneway: bool,
}

/// Why a call gets an error: its name, and what is said with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The error's full name.
    pub error: String,
    /// What is said with it.
    pub parameters: Value,
}

impl Refusal {
    /// An error that says nothing but its name.
    pub(crate) fn plain(interface: &str, error: &str) -> Refusal {
        Refusal { error: format!("{interface}.{error}"), parameters: json!({}) }
    }

    /// An error about one parameter.
    pub(crate) fn about(interface: &str, error: &str, parameter: &str) -> Refusal {
        let parameters = json!({"parameter": parameter});
        Refusal { parameters, ..Refusal::plain(interface, error) }
    }

    /// A parameter that is not there, unknown, of another type or of no use.
    pub(crate) fn parameter(name: &str) -> Refusal {
        Refusal::about(interfaces::OWN, "InvalidParameter", name)
    }

    /// The caller may not do it.
    pub(crate) fn denied() -> Refusal {
        Refusal::plain(interfaces::OWN, "PermissionDenied")
    }

    /// The method has many answers, which the caller does not take.
    pub(crate) fn expected_more() -> Refusal {
        Refusal::plain(interfaces::OWN, "ExpectedMore")
    }

    /// There is no such method.
    pub(crate) fn method(name: &str) -> Refusal {
        let parameters = json!({"method": name});
        Refusal { parameters, ..Refusal::plain(interfaces::OWN, "MethodNotFound") }
    }

    /// An error of the system, by number and name (errno(3)).
    pub(crate) fn system(errno: i32, name: &str) -> Refusal {
        let parameters = json!({"origin": "linux", "errno": errno, "errnoName": name});
        Refusal { parameters, ..Refusal::plain("io.systemd", "System") }
    }

    /// As a message.
    pub(crate) fn message(&self) -> Value {
        json!({"error": self.error, "parameters": self.parameters})
    }
}

/// An answer as a message; where it `continues` another one follows.
pub(crate) fn answer(parameters: &Value, continues: bool) -> Value {
    match continues {
        true => json!({"parameters": parameters, "continues": true}),
        false => json!({"parameters": parameters}),
    }
}

/// Reads a message; nothing if it is no call, who sends such is dropped.
pub(crate) fn parse(message: &[u8]) -> Option<Call> {
    let mut message: Map<String, Value> = serde_json::from_slice(message).ok()?;
    let is_set = |name: &str| message.get(name).and_then(Value::as_bool).unwrap_or(false);
    let (more, oneway) = (is_set("more"), is_set("oneway"));
    let name = message.get("method")?.as_str()?;
    let (interface, method) = name.rsplit_once('.').unwrap_or(("", name));
    let (interface, method) = (interface.to_owned(), method.to_owned());
    let parameters = match message.remove("parameters") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(parameters)) => parameters,
        Some(_) => return None,
    };
    Some(Call { interface, method, parameters, more, oneway })
}

impl Call {
    /// The method's full name.
    pub(crate) fn full_name(&self) -> String {
        match &*self.interface {
            "" => self.method.clone(),
            interface => format!("{interface}.{}", self.method),
        }
    }

    /// A parameter that may be left out, as a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).and_then(Value::as_str)
    }

    /// A parameter that is a switch.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.parameters.get(name) == Some(&Value::Bool(true))
    }

    /// Holds it against the descriptions.
    ///
    /// # Errors
    /// There is no such method, or a parameter is not what it takes.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let interface = interfaces::find(&self.interface);
        let interface = interface.filter(|interface| interface.has_method(&self.method));
        let interface = interface.ok_or_else(|| Refusal::method(&self.full_name()))?;
        let checked = interface.check_call(&self.method, &self.parameters);
        checked.map_err(|parameter| Refusal::parameter(&parameter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        let found = match parse(message.as_bytes()) {
            None => "dropped".to_owned(),
            Some(call) => match call.check() {
                Err(refusal) => {
                    let name = refusal.error.rsplit('.').next().unwrap_or_default();
                    format!("{name} {}", refusal.parameters)
                }
                Ok(()) => format!("{} {}{}", call.full_name(), call.more, call.oneway),
            },
        };
        assert_eq!(found, expected, "{message}");
    }

    #[test]
    fn calls_are_read_and_held_against_what_is_described() {
        check("", "dropped");
        check("[]", "dropped");
        check("{}", "dropped");
        check(r#"{"method":3}"#, "dropped");
        check(r#"{"method":"io.systemd.Unit.List","parameters":3}"#, "dropped");
        check(r#"{"method":"NoDots"}"#, r#"MethodNotFound {"method":"NoDots"}"#);
        check(
            r#"{"method":"io.systemd.No.No"}"#,
            r#"MethodNotFound {"method":"io.systemd.No.No"}"#,
        );
        check(r#"{"method":"io.systemd.Unit.List"}"#, "io.systemd.Unit.List falsefalse");
        let more =
            r#"{"method":"io.systemd.Unit.List","more":true,"oneway":true,"parameters":null}"#;
        check(more, "io.systemd.Unit.List truetrue");
        let list = |parameters: &str| {
            format!(r#"{{"method":"io.systemd.Unit.List","parameters":{parameters}}}"#)
        };
        check(&list(r#"{"name":3}"#), r#"InvalidParameter {"parameter":"name"}"#);
        check(&list(r#"{"nam":"x"}"#), r#"InvalidParameter {"parameter":"nam"}"#);
        check(&list(r#"{"pid":3}"#), r#"InvalidParameter {"parameter":"pid"}"#);
        check(&list(r#"{"pid":{"pid":3},"name":null}"#), "io.systemd.Unit.List falsefalse");
        let cancel = r#"{"method":"io.systemd.Job.Cancel"}"#;
        check(cancel, r#"InvalidParameter {"parameter":"id"}"#);
    }

    #[test]
    fn errors_are_what_their_interfaces_describe() {
        for refusal in [
            Refusal::parameter("x"),
            Refusal::denied(),
            Refusal::expected_more(),
            Refusal::method("x"),
            Refusal::system(2, "ENOENT"),
            Refusal::about(interfaces::UNIT, "NoSuchUnit", "pid"),
            Refusal::plain(interfaces::UNIT, "UnitExists"),
            Refusal::about(interfaces::JOB, "NoSuchJob", "id"),
        ] {
            let (interface, error) = refusal.error.rsplit_once('.').expect("a full name");
            let interface = interfaces::find(interface).expect("it is described");
            let parameters = refusal.parameters.as_object().expect("an object");
            assert_eq!(interface.check_error(error, parameters), Ok(()), "{}", refusal.error);
        }
    }
}
