//! What the language servers have in common (Language Server Protocol 3.17): messages, texts that change, the loop.
//!
//! `warren fleet lsp` serves those who write rules, `warren lsp` those who write unit files.

pub(crate) mod text;
mod wire;

use std::io::{BufReader, stdin, stdout};

use anyhow::Result;
use serde_json::{Value, json};

use wire::Wire;

/// JSON-RPC: a message is no JSON.
const PARSE_ERROR: i64 = -32700;

/// JSON-RPC: the method is not known.
const METHOD_NOT_FOUND: i64 = -32601;

/// LSP: what was asked for cannot be done.
pub(crate) const REQUEST_FAILED: i64 = -32803;

/// LSP: nothing may be asked after `shutdown`.
const INVALID_REQUEST: i64 = -32600;

/// Diagnostics to publish, by URI.
pub(crate) type Published = Vec<(String, Vec<Value>)>;

/// A result, or a code and a sentence.
pub(crate) type Answer = Result<Value, (i64, String)>;

/// What knows a language.
pub(crate) trait Server {
    /// What it can do, told what the client has said of itself.
    fn initialize(&mut self, parameters: &Value) -> Value;

    /// Takes a notification; returns the diagnostics that it leads to.
    fn take(&mut self, method: &str, parameters: &Value) -> Published;

    /// Answers a request; nothing if it does not know the method.
    fn answer(&self, method: &str, parameters: &Value) -> Option<Answer>;
}

/// Serves over standard input and output until the client says `exit`; 1 if it did so, or went away, without `shutdown`.
pub(crate) fn serve(server: &mut impl Server) -> Result<i32> {
    let mut wire = Wire { input: BufReader::new(stdin().lock()), output: stdout().lock() };
    let mut is_down = false;
    while let Some(message) = wire.read()? {
        let Ok(message) = message else {
            wire.write(&json!({"jsonrpc": "2.0", "id": null,
                "error": {"code": PARSE_ERROR, "message": "this is not JSON"}}))?;
            continue;
        };
        let method = message["method"].as_str().unwrap_or_default();
        let parameters = &message["params"];
        if method == "exit" {
            return Ok(i32::from(!is_down));
        }
        let id = message.get("id").filter(|id| !id.is_null());
        let Some(id) = id else {
            for (uri, diagnostics) in server.take(method, parameters) {
                let parameters = json!({"uri": uri, "diagnostics": diagnostics});
                wire.write(&json!({"jsonrpc": "2.0",
                    "method": "textDocument/publishDiagnostics", "params": parameters}))?;
            }
            continue;
        };
        let answer = match method {
            _ if is_down => Err((INVALID_REQUEST, "the server is shut down".to_owned())),
            "initialize" => Ok(json!({
                "capabilities": server.initialize(parameters),
                "serverInfo": {"name": "warren", "version": env!("CARGO_PKG_VERSION")},
            })),
            "shutdown" => Ok(Value::Null),
            method => server
                .answer(method, parameters)
                .unwrap_or_else(|| Err((METHOD_NOT_FOUND, method.to_owned()))),
        };
        is_down |= method == "shutdown";
        wire.write(&match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => json!({"jsonrpc": "2.0", "id": id,
                "error": {"code": code, "message": message}}),
        })?;
    }
    Ok(1)
}
