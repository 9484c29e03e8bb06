//! A language server as an editor uses it.

#![allow(dead_code, reason = "each test program has some of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use warren_testkit::Scratch;

/// A server over a directory, and the editor's end of it.
pub struct Editor {
    pub server: Child,
    pub input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub directory: Scratch,
    next: u64,
}

impl Editor {
    /// Starts `warren` with these words over a directory with these files.
    pub fn start(test: &str, words: &[&str], files: &[(&str, &str)]) -> Editor {
        // A path with a space.
        let directory = Scratch::new(&format!("lsp {test}"));
        for (file, text) in files {
            std::fs::write(directory.join(file), text).expect("written");
        }
        let mut server = Command::new(env!("CARGO_BIN_EXE_warren"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = server.stdin.take().expect("piped");
        let output = BufReader::new(server.stdout.take().expect("piped"));
        let mut editor = Editor { server, input, output, directory, next: 1 };
        let capabilities =
            json!({"workspace": {"workspaceEdit": {"resourceOperations": ["rename"]}}});
        let root = format!("file://{}", editor.directory.display()).replace(' ', "%20");
        let answer =
            editor.ask("initialize", json!({"capabilities": capabilities, "rootUri": root}));
        assert_eq!(answer["capabilities"]["hoverProvider"], true, "{answer}");
        editor.tell("initialized", json!({}));
        editor
    }

    pub fn uri(&self, file: &str) -> String {
        format!("file://{}/{file}", self.directory.display()).replace(' ', "%20")
    }

    pub fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let message = format!("Content-Length: {}\r\n\r\n{text}", text.len());
        self.input.write_all(message.as_bytes()).expect("the server reads");
    }

    pub fn tell(&mut self, method: &str, parameters: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}));
    }

    pub fn receive(&mut self) -> Value {
        let (mut line, mut length) = (String::new(), 0);
        while self.output.read_line(&mut line).expect("it answers") > 2 {
            let number = line.trim_end().strip_prefix("Content-Length: ").expect("a length");
            length = number.parse().expect("a number");
            line.clear();
        }
        let mut bytes = vec![0; length];
        self.output.read_exact(&mut bytes).expect("it answers");
        serde_json::from_slice(&bytes).expect("it is JSON")
    }

    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        if answer["result"].is_null() { answer["error"].clone() } else { answer["result"].clone() }
    }

    /// Opens a text; the diagnostics of each file: `a.conf 3:5 message`.
    pub fn open(&mut self, file: &str, text: &str, files: usize) -> Vec<String> {
        let uri = self.uri(file);
        let document = json!({"uri": uri, "languageId": "warren", "version": 1, "text": text});
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
        self.diagnostics(files)
    }

    pub fn diagnostics(&mut self, files: usize) -> Vec<String> {
        let mut out = Vec::new();
        for _ in 0..files {
            let told = self.receive();
            assert_eq!(told["method"], "textDocument/publishDiagnostics", "{told}");
            let uri = told["params"]["uri"].as_str().unwrap_or_default();
            let file = uri.rsplit('/').next().unwrap_or_default();
            for fault in told["params"]["diagnostics"].as_array().expect("a list") {
                let start = &fault["range"]["start"];
                let message = fault["message"].as_str().unwrap_or_default();
                let message = message.lines().next().unwrap_or_default();
                out.push(format!("{file} {}:{} {message}", start["line"], start["character"]));
            }
        }
        out
    }

    /// Asks about the place where a part of a text begins.
    pub fn about(&mut self, method: &str, file: &str, text: &str, part: &str) -> Value {
        let at = text.find(part).expect("it is there");
        let line = text[..at].matches('\n').count();
        let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let character = text[start..at].encode_utf16().count();
        let document = json!({"uri": self.uri(file)});
        let position = json!({"line": line, "character": character});
        self.ask(method, json!({"textDocument": document, "position": position}))
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The labels of what can stand at a place that a `^` marks, which is taken out of the text.
pub fn labels(editor: &mut Editor, file: &str, marked: &str) -> Vec<String> {
    let at = marked.find('^').expect("a place is marked");
    let text = marked.replacen('^', "", 1);
    let uri = editor.uri(file);
    let change =
        json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]});
    editor.tell("textDocument/didChange", change);
    editor.diagnostics(1);
    let before = &text[..at];
    let line = before.matches('\n').count();
    let character = before.rsplit('\n').next().unwrap_or_default().encode_utf16().count();
    let place =
        json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}});
    let answer = editor.ask("textDocument/completion", place);
    let items = if answer.is_array() { &answer } else { &answer["items"] };
    let label = |item: &Value| item["label"].as_str().unwrap_or_default().to_owned();
    items.as_array().into_iter().flatten().map(label).collect()
}
