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

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use crate::lsp::{Answer, Published, REQUEST_FAILED, Server, serve};
use documents::Documents;

/// Serves until the client says `exit`; 1 if it did so, or went away, without `shutdown`.
pub(super) fn run(root: Option<PathBuf>) -> Result<i32> {
    serve(&mut Documents::new(root))
}

impl Server for Documents {
    fn initialize(&mut self, _: &Value) -> Value {
        json!({
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
        })
    }

    fn take(&mut self, method: &str, parameters: &Value) -> Published {
        self.notified(method, parameters)
    }

    fn answer(&self, method: &str, parameters: &Value) -> Option<Answer> {
        Some(match method {
            "textDocument/hover" => Ok(answers::hover(self, parameters)),
            "textDocument/definition" => Ok(answers::definition(self, parameters)),
            "textDocument/completion" => Ok(completion::completion(self, parameters)),
            "textDocument/references" => Ok(symbols::references(self, parameters)),
            "textDocument/rename" => {
                symbols::rename(self, parameters).map_err(|what| (REQUEST_FAILED, what))
            }
            "textDocument/documentSymbol" => Ok(symbols::of_document(self, parameters)),
            "workspace/symbol" => Ok(symbols::of_all(self, parameters)),
            "textDocument/codeAction" => Ok(actions::actions(self, parameters)),
            "textDocument/formatting" => Ok(answers::formatting(self, parameters)),
            _ => return None,
        })
    }
}
