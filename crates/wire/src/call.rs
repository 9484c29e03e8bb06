//! Calls and answers as varlink has them: `{"method": ..., "parameters": {...}}` in, `{"parameters": {...}}` or
//! `{"error": ..., "parameters": {...}}` out.
//!
//! - Owns: the objects around parameters.
//! - Must not: know a method.
//! - Runs on the thread of its caller.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::frame;

/// A request before its parameters are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// The full name of the method; empty where there is none.
    pub method: String,
    /// Its parameters.
    pub parameters: Value,
    /// Several answers may come.
    pub more: bool,
}

impl Received {
    /// Reads a message. What is JSON and no request has no method.
    ///
    /// # Errors
    /// Where it is no JSON.
    pub fn read(message: &[u8]) -> Result<Received, serde_json::Error> {
        let mut value: Value = serde_json::from_slice(message)?;
        Ok(Received {
            method: value["method"].as_str().unwrap_or_default().to_owned(),
            more: value["more"] == true,
            parameters: value.get_mut("parameters").map(Value::take).unwrap_or_default(),
        })
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A request as a message; with `more` several answers may come.
pub(crate) fn write_request(method: &str, parameters: &impl Serialize, more: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct Request<'a, P> {
        method: &'a str,
        parameters: &'a P,
        #[serde(skip_serializing_if = "is_false")]
        more: bool,
    }
    frame::write(&Request { method, parameters, more })
}

/// An answer as a message; where it `continues` another one follows.
pub(crate) fn write_answer(parameters: &impl Serialize, continues: bool) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a, P> {
        parameters: &'a P,
        #[serde(skip_serializing_if = "is_false")]
        continues: bool,
    }
    frame::write(&Answer { parameters, continues })
}

/// An error as a message.
pub(crate) fn write_error(error: &str, parameters: &Words) -> Vec<u8> {
    #[derive(Serialize)]
    struct Error<'a> {
        error: &'a str,
        parameters: &'a Words,
    }
    frame::write(&Error { error, parameters })
}

/// What an error says beside its name.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Words {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The method that there is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

impl Words {
    pub fn message(message: &str) -> Words {
        Words { message: Some(message.to_owned()), method: None }
    }
}

/// An answer before its parameters are read.
#[derive(Deserialize)]
pub(crate) struct Envelope<'a> {
    pub error: Option<String>,
    #[serde(borrow)]
    pub parameters: Option<&'a RawValue>,
    #[serde(default)]
    pub continues: bool,
}

impl Envelope<'_> {
    pub fn read(message: &[u8]) -> Result<Envelope<'_>, serde_json::Error> {
        serde_json::from_slice(message)
    }

    /// What an error says; nothing where it says it in another way.
    pub fn words(&self) -> Words {
        let text = self.parameters.map(RawValue::get);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}
