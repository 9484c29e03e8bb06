//! `warren fleet lsp`: a language server for rules, over standard input and output (Language Server
//! Protocol 3.17).
//!
//! Faults of syntax are told with every change of a text, faults of evaluation when a file is opened
//! or saved; the texts that are open in the editor count, not those on the disk. `documents` is what
//! is open; `answers`, `completion`, `symbols` and `actions` are the questions.

mod actions;
mod answers;
mod completion;
mod documents;
mod symbols;
mod wire;

use std::io::{BufReader, stdin, stdout};
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use documents::Documents;
use wire::Wire;

/// JSON-RPC: a message is no JSON.
const PARSE_ERROR: i64 = -32700;

/// JSON-RPC: the method is not known.
const METHOD_NOT_FOUND: i64 = -32601;

/// LSP: what was asked for cannot be done.
const REQUEST_FAILED: i64 = -32803;

/// LSP: nothing may be asked after `shutdown`.
const INVALID_REQUEST: i64 = -32600;

/// Serves until the client says `exit`; 1 if it did so, or went away, without `shutdown`.
pub(super) fn run(root: Option<PathBuf>) -> Result<i32> {
    let mut wire = Wire { input: BufReader::new(stdin().lock()), output: stdout().lock() };
    let mut documents = Documents::new(root);
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
            for (uri, diagnostics) in documents.take(method, parameters) {
                let parameters = json!({"uri": uri, "diagnostics": diagnostics});
                wire.write(&json!({"jsonrpc": "2.0",
                    "method": "textDocument/publishDiagnostics", "params": parameters}))?;
            }
            continue;
        };
        let answer = match is_down {
            true => Err((INVALID_REQUEST, "the server is shut down".to_owned())),
            false => answer(&documents, method, parameters),
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

type Answer = Result<Value, (i64, String)>;

fn answer(documents: &Documents, method: &str, parameters: &Value) -> Answer {
    match method {
        "initialize" => Ok(json!({
            "capabilities": {
                // Changes of ranges; told when a text was saved.
                "textDocumentSync": {"openClose": true, "change": 2, "save": {}},
                "hoverProvider": true,
                "definitionProvider": true,
                "completionProvider": {"triggerCharacters": ["\"", "."]},
                "referencesProvider": true,
                "renameProvider": true,
                "documentSymbolProvider": true,
                "workspaceSymbolProvider": true,
                "codeActionProvider": {"codeActionKinds": ["quickfix"]},
                "documentFormattingProvider": true,
            },
            "serverInfo": {"name": "warren", "version": env!("CARGO_PKG_VERSION")},
        })),
        "shutdown" => Ok(Value::Null),
        "textDocument/hover" => Ok(answers::hover(documents, parameters)),
        "textDocument/definition" => Ok(answers::definition(documents, parameters)),
        "textDocument/completion" => Ok(completion::completion(documents, parameters)),
        "textDocument/references" => Ok(symbols::references(documents, parameters)),
        "textDocument/rename" => {
            symbols::rename(documents, parameters).map_err(|what| (REQUEST_FAILED, what))
        }
        "textDocument/documentSymbol" => Ok(symbols::of_document(documents, parameters)),
        "workspace/symbol" => Ok(symbols::of_all(documents, parameters)),
        "textDocument/codeAction" => Ok(actions::actions(documents, parameters)),
        "textDocument/formatting" => Ok(answers::formatting(documents, parameters)),
        _ => Err((METHOD_NOT_FOUND, method.to_owned())),
    }
}
