use serde_json::json;

use super::*;
use crate::call::Received;

#[test]
fn what_is_of_another_type_is_refused_and_not_taken_for_left_out() {
    for (method, parameters, refusal) in [
        (Method::Leave, json!({"how": "poweroff", "after": 300}), "after: not a text"),
        (Method::Leave, json!({"how": 1}), "how: not a text"),
        (
            Method::Leave,
            json!({"how": "reboot", "aftr": "5min"}),
            "aftr: Leave has no such parameter",
        ),
        (Method::Leave, json!({"how": "reboot", "after": null, "at": "12:00"}), ""),
        (Method::Leave, json!({"aftr": null}), "aftr: Leave has no such parameter"),
        (Method::ResetFailed, json!({"unit": ["x.service"]}), "unit: not a text"),
        (Method::ReloadConfiguration, json!({"unit": 5}), "unit: not a text"),
        (
            Method::ReloadConfiguration,
            json!({"rollback": -1}),
            "rollback: not a whole number that is not negative",
        ),
        (Method::ReloadConfiguration, json!({"dry_run": "yes"}), "dry_run: not true or false"),
        (Method::List, json!({"patterns": 5}), "patterns: not a text, or a list of them"),
        (Method::List, json!({"patterns": ["a", 5]}), "patterns: not a text, or a list of them"),
        (Method::List, json!({"patterns": "a", "state": ["active"], "later": 1}), ""),
        (Method::Jobs, json!({"units": "a.service"}), "units: not a list of texts"),
        (Method::Jobs, json!({"units": ["a.service", 1]}), "units: not a list of texts"),
        (Method::Job, json!({"unit": "a.service", "wait": 0}), "wait: not true or false"),
        (Method::Kill, json!({"unit": "a.service", "signal": -1}), ""),
        (Method::Kill, json!({"unit": "a.service", "signal": 9.5}), "signal: not a whole number"),
        (Method::Reexecute, json!({"unit": "a.service"}), "unit: Reexecute has no such parameter"),
        (Method::Clear, json!([]), "the parameters are not an object"),
        (Method::Totals, Value::Null, ""),
        (Method::Status, json!({"pid": "7"}), "pid: not a whole number that is not negative"),
    ] {
        let read = Request::read(method, parameters.clone()).err().unwrap_or_default();
        assert_eq!(read, refusal, "{method:?} {parameters}");
    }
}

#[test]
fn parameters_arrive_and_what_is_left_out_has_its_default() {
    let read = |method, parameters| Request::read(method, parameters).expect("it fits");
    let texts = |texts: &[&str]| Texts(texts.iter().map(|&text| text.to_owned()).collect());
    let list = List { patterns: texts(&["a*"]), state: texts(&["failed", "x"]), ..List::default() };
    let given = json!({"patterns": "a*", "state": ["failed", "x"], "type": null});
    assert_eq!(read(Method::List, given), Request::List(list));
    let job = Job {
        unit: Some("a.service".to_owned()),
        job_type: Some("polish".into()),
        wait: Some(false),
        ..Job::default()
    };
    let given = json!({"unit": "a.service", "type": "polish", "wait": false});
    assert_eq!(read(Method::Job, given), Request::Job(job));
    assert_eq!(read(Method::Why, Value::Null), Request::Why(Why::default()));
}

#[test]
fn methods_are_found_by_their_full_names() {
    for &method in Method::ALL {
        assert_eq!(Method::from_full_name(&method.full_name()), Some(method));
    }
    assert_eq!(Method::from_full_name("Status"), None);
    assert_eq!(Method::from_full_name("io.warrener.Manager.Nothing"), None);
}

#[test]
fn a_request_is_read_and_what_is_none_has_no_method() {
    let kill = Kill { unit: Some("a.service".to_owned()), signal: Some(9), ..Kill::default() };
    let bytes = write_request(&kill, true);
    let received = Received::read(bytes.strip_suffix(b"\0").expect("its end")).expect("JSON");
    assert!(received.more);
    let method = Method::from_full_name(&received.method).expect("a method");
    assert_eq!(Request::read(method, received.parameters), Ok(Request::Kill(kill)));
    for (message, method) in [("[]", ""), ("{\"method\": 5}", ""), ("{\"method\": \"x\"}", "x")] {
        let received = Received::read(message.as_bytes()).expect("JSON");
        assert_eq!((received.method.as_str(), received.parameters), (method, Value::Null));
    }
    assert!(Received::read(b"{").is_err());
}

#[test]
fn replies_are_told_apart() {
    let read = |message: &str| Reply::<FileStateAnswer>::read(message.as_bytes());
    let state = |state: &str| FileStateAnswer { state: Some(state.to_owned()) };
    let answer = |answer, continues| Some(Reply::Answer { answer, continues });
    assert_eq!(read(r#"{"parameters": {"state": "static"}}"#).ok(), answer(state("static"), false));
    let more = r#"{"parameters": {"state": "static", "newer": {}}, "continues": true, "newer": 1}"#;
    assert_eq!(read(more).ok(), answer(state("static"), true));
    assert_eq!(read(r#"{"parameters": {}}"#).ok(), answer(FileStateAnswer::default(), false));
    let refused = |error: &str, message: &str| {
        Some(Reply::Refused { error: error.into(), message: message.to_owned() })
    };
    let no = r#"{"error": "io.warrener.Busy", "parameters": {"message": "later"}}"#;
    assert_eq!(read(no).ok(), refused("io.warrener.Busy", "later"));
    for bare in [r#"{"error": "x.Y"}"#, r#"{"error": "x.Y", "parameters": 5}"#] {
        assert_eq!(read(bare).ok(), refused("x.Y", "x.Y"));
    }
    for none in ["{}", r#"{"parameters": []}"#, r#"{"parameters": null}"#] {
        assert!(matches!(read(none), Err(ReplyError::NoParameters)), "{none}");
    }
    for wrong in ["", "{", "[]", r#"{"parameters": {"state": 5}}"#] {
        assert!(matches!(read(wrong), Err(ReplyError::Malformed(_))), "{wrong}");
    }
    let written = write_error(&ErrorName::Busy, "later");
    assert_eq!(
        written,
        b"{\"error\":\"io.warrener.Busy\",\"parameters\":{\"message\":\"later\"}}\0"
    );
}

/// A newer manager may say more, and an older one less.
#[test]
fn an_answer_of_another_version_is_read() {
    let text = r#"{"name": "a.service", "active": "hibernating", "colour": "blue",
        "reason": {"code": "WR-9999", "cause": {"kind": "moon", "unit": null}}}"#;
    let status: StatusAnswer = serde_json::from_str(text).expect("it is read");
    assert_eq!(status.row.active, ActiveState::Other("hibernating".into()));
    assert_eq!(status.reason.code.as_str(), "WR-9999");
    let cause = status.reason.cause.expect("there is one");
    assert_eq!((cause.kind.as_str(), cause.unit, cause.pid), ("moon", Some(None), None));
    assert!(status.files.is_empty() && status.main_pid.is_none());
}
