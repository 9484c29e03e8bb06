//! `warren fleet lsp` as an editor uses it.

mod editor;

use serde_json::{Value, json};

use editor::Editor;

const RULES: &str = "\
template Service \"base\" {
  Restart = \"always\"
}
const Limit = 3
apply Service \"web\" to Container {
  import \"base\"
  ExecStart = \"/bin/ä\" + Limit
  assign where container.vars.web
}
object Container \"own\" { vars.web = 1 }
";

/// A server over a directory with [`RULES`].
fn start(test: &str) -> Editor {
    Editor::start(test, &["fleet", "lsp"], &[("a.conf", RULES)])
}

#[test]
fn faults_are_told_where_they_are() {
    let mut editor = start("faults");
    assert_eq!(editor.open("a.conf", RULES, 1), [""; 0]);
    // What is open counts, not what is on the disk; another file's fault is told for that file.
    let containers = "object Container \"c\" { vars.web = Nowhere }\n";
    std::fs::write(editor.directory.join("b.conf"), "").expect("written");
    let told = editor.open("b.conf", containers, 1);
    assert_eq!(told, ["b.conf 0:34 Tried to access undefined script variable 'Nowhere'"]);
    let uri = editor.uri("b.conf");
    let change = |text: &str| json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]});
    editor.tell("textDocument/didChange", change("x = \n"));
    assert_eq!(
        editor.diagnostics(1),
        ["b.conf 0:4 expected an expression, found the end of the line"]
    );
    editor.tell("textDocument/didChange", change("object Container \"c\" { vars.web = 1 }\n"));
    assert_eq!(editor.diagnostics(1), [""; 0]);
    editor.tell("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    assert_eq!(editor.diagnostics(1), [""; 0]);
    let bad = RULES.replace("\"always\"", "\"sometimes\"");
    let uri = editor.uri("a.conf");
    editor.tell(
        "textDocument/didChange",
        json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": bad}]}),
    );
    assert_eq!(editor.diagnostics(1), [""; 0]);
    editor.tell("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    let told = editor.diagnostics(1);
    assert!(told[0].starts_with("a.conf 1:2 own-web.service: Restart=: 'sometimes'"), "{told:?}");
}

#[test]
fn what_stands_beside_a_fault_of_syntax_is_checked_too() {
    let mut editor = start("beside");
    assert_eq!(editor.open("a.conf", RULES, 1), [""; 0]);
    std::fs::write(editor.directory.join("b.conf"), "object Container \"d\" { vars.web = Nope }\n")
        .expect("written");
    let text = "object Container \"c\" {\n  vars.other = )\n  vars.web = 1\n}\n\
                apply Service \"x\" to Container {\n  ExecStrat = \"/bin/true\"\n  \
                assign where container.vars.web\n}\n";
    std::fs::write(editor.directory.join("c ö.conf"), "").expect("written");
    let told = editor.open("c ö.conf", text, 2);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("b.conf 0:34 Tried to access undefined"), "{told:?}");
    assert!(told[1].ends_with("1:15 expected an expression, found `)`"), "{told:?}");
    assert!(told[2].contains(" 5:2 Attribute 'ExecStrat' does not exist"), "{told:?}");
}

#[test]
fn questions_are_answered() {
    let mut editor = start("questions");
    editor.open("a.conf", RULES, 1);
    let hover = editor.about("textDocument/hover", "a.conf", RULES, "ExecStart");
    let text = hover["contents"]["value"].as_str().unwrap_or_default();
    assert!(text.starts_with("`ExecStart=` command lines") && text.contains("acted on"), "{text}");
    let hover = editor.about("textDocument/hover", "a.conf", RULES, "base\"\n  Exec");
    let text = hover["contents"]["value"].as_str().unwrap_or_default();
    assert!(text.contains("`template Service \"base\"`") && text.contains("a.conf:1:1"), "{text}");
    assert_eq!(editor.about("textDocument/hover", "a.conf", RULES, "= 3"), Value::Null);

    let found = editor.about("textDocument/definition", "a.conf", RULES, "base\"\n  Exec");
    assert_eq!(found[0]["range"]["start"], json!({"line": 0, "character": 0}), "{found}");
    assert_eq!(found[0]["uri"], editor.uri("a.conf"));
    // Behind a letter of two bytes.
    let found = editor.about("textDocument/definition", "a.conf", RULES, "Limit\n  assign");
    assert_eq!(found[0]["range"]["start"], json!({"line": 3, "character": 0}), "{found}");

    let items = editor.about("textDocument/completion", "a.conf", RULES, "assign");
    let labels: Vec<&str> =
        items.as_array().expect("a list").iter().filter_map(|i| i["label"].as_str()).collect();
    assert!(labels.contains(&"MemoryMax") && labels.contains(&"drop_in_of"), "{labels:?}");
    assert!(!labels.contains(&"ListenStream") && !labels.contains(&"type"), "{labels:?}");
    let items = editor.about("textDocument/completion", "a.conf", RULES, "base\"\n  Exec");
    assert_eq!(items, json!([{"label": "base", "kind": 7}]));
}

/// The labels of completions where the text has a `|`.
fn labels(editor: &mut Editor, text: &str) -> Vec<String> {
    let at = text.find('|').expect("a place");
    let text = text.replace('|', "");
    let uri = editor.uri("a.conf");
    let change =
        json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]});
    editor.tell("textDocument/didChange", change);
    editor.diagnostics(1);
    let items = editor.about("textDocument/completion", "a.conf", &text, &text[at..]);
    let items = items.as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["label"].as_str().map(str::to_owned)).collect()
}

#[test]
fn what_completes_belongs_to_its_place() {
    let mut editor = start("completion");
    editor.open("a.conf", RULES, 1);
    let mut check = |text: &str, there: &[&str], not: &[&str]| {
        let found = labels(&mut editor, &format!("{text}\nconst End = 1\n"));
        let has = |name: &&str| found.iter().any(|label| label == name);
        assert!(there.iter().all(has), "{text}: {found:?}");
        assert!(!not.iter().any(has), "{text}: {found:?}");
    };
    check("|", &["object", "apply", "const"], &["MemoryMax", "Service"]);
    check("object |", &["Service", "Container"], &["MemoryMax", "object"]);
    check("apply |", &["Service"], &["Container", "MemoryMax"]);
    check("apply Service \"x\" to |", &["Container", "Machine"], &["Service"]);
    check("object Service \"x\" {\n  |\n}", &["MemoryMax", "import"], &["ListenStream", "object"]);
    check("object Service \"x\" {\n  Restart = |\n}", &["always", "on-failure"], &["MemoryMax"]);
    check("object Service \"x\" {\n  PrivateTmp = |\n}", &["true"], &["always"]);
    let own = "object Target \"all\" { }\nobject Container \"c\" { vars.tier = 1 }\n";
    check(
        &format!("{own}object Service \"x\" {{\n  After = |\n}}"),
        &["all.target"],
        &["c.container"],
    );
    check(
        &format!("{own}apply Service \"x\" to Container {{\n  assign where container.|\n}}"),
        &["vars", "name"],
        &["tier", "MemoryMax"],
    );
    check(
        &format!("{own}apply Service \"x\" to Container {{\n  assign where container.vars.|\n}}"),
        &["tier"],
        &["vars", "MemoryMax"],
    );
    check(
        "object Service \"x\" {\n  ExecStart = |\n}",
        &["End", "match", "unit_argument"],
        &["MemoryMax"],
    );
}

#[test]
fn words_are_found_and_renamed_in_all_rules() {
    let mut editor = start("rename");
    std::fs::write(editor.directory.join("b.conf"), "object Slice \"x\" { TasksMax = Limit }\n")
        .expect("written");
    editor.open("a.conf", RULES, 1);
    let lines = |found: &Value| -> Vec<String> {
        let all = found.as_array().cloned().unwrap_or_default();
        let one = |place: &Value| {
            let file = place["uri"]
                .as_str()
                .unwrap_or_default()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            format!("{file} {}", place["range"]["start"]["line"])
        };
        all.iter().map(one).collect()
    };
    let found = editor.about("textDocument/references", "a.conf", RULES, "Limit");
    assert_eq!(lines(&found), ["a.conf 3", "a.conf 6", "b.conf 0"], "{found}");
    let rename = |editor: &mut Editor, part: &str, new: &str| {
        let at = RULES.find(part).expect("it is there");
        let line = RULES[..at].matches('\n').count();
        let start = RULES[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let position = json!({"line": line, "character": RULES[start..at].encode_utf16().count()});
        let document = json!({"uri": editor.uri("a.conf")});
        editor.ask(
            "textDocument/rename",
            json!({"textDocument": document, "position": position, "newName": new}),
        )
    };
    let edits = rename(&mut editor, "Limit", "Most");
    let [a, b] = ["a.conf", "b.conf"].map(|file| edits["changes"][editor.uri(file)].clone());
    assert_eq!(a.as_array().map(Vec::len), Some(2), "{edits}");
    let range = json!({"start": {"line": 0, "character": 30}, "end": {"line": 0, "character": 35}});
    assert_eq!(b, json!([{"range": range, "newText": "Most"}]));
    // A template, with the texts that name it, without their quotes.
    let edits = rename(&mut editor, "base\"\n  Exec", "common");
    let edits = &edits["changes"][editor.uri("a.conf")];
    assert_eq!(edits.as_array().map(Vec::len), Some(2), "{edits}");
    assert_eq!(edits[0]["range"]["start"], json!({"line": 0, "character": 18}));
    for (part, new) in
        [("Limit", "1x"), ("ExecStart", "Other"), ("always", "x"), ("Container", "y")]
    {
        assert_eq!(rename(&mut editor, part, new)["code"], -32803, "{part}");
    }
    let document = json!({"textDocument": {"uri": editor.uri("a.conf")}});
    let symbols = editor.ask("textDocument/documentSymbol", document);
    let names: Vec<&str> =
        symbols.as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(
        names,
        [
            "template Service \"base\"",
            "const Limit",
            "apply Service \"web\"",
            "object Container \"own\""
        ]
    );
    let found = editor.ask("workspace/symbol", json!({"query": "slice"}));
    assert_eq!(found[0]["name"], "object Slice \"x\"", "{found}");
}

#[test]
fn a_misspelt_name_is_put_right() {
    let mut editor = start("meant");
    let text = "object Service \"ä\" { ExecStrat = \"/bin/x\" }\n";
    let uri = editor.uri("a.conf");
    let document = json!({"uri": uri, "languageId": "warren", "version": 1, "text": text});
    editor.tell("textDocument/didOpen", json!({"textDocument": document}));
    let told = editor.receive();
    let fault = &told["params"]["diagnostics"][0];
    assert_eq!(
        fault["range"],
        json!({"start": {"line": 0, "character": 21}, "end": {"line": 0, "character": 41}}),
        "{fault}"
    );
    let message = fault["message"].as_str().unwrap_or_default();
    assert_eq!(message, "Attribute 'ExecStrat' does not exist.\ndid you mean `ExecStart`?");
    let actions = editor.ask(
        "textDocument/codeAction",
        json!({"textDocument": {"uri": uri}, "range": fault["range"], "context": {"diagnostics": [fault]}}),
    );
    assert_eq!(actions[0]["title"], "Write `ExecStart`", "{actions}");
    let range = json!({"start": {"line": 0, "character": 21}, "end": {"line": 0, "character": 30}});
    assert_eq!(
        actions[0]["edit"]["changes"][&uri],
        json!([{"range": range, "newText": "ExecStart"}])
    );
}

#[test]
fn texts_are_laid_out_and_rubbish_is_borne() {
    let mut editor = start("layout");
    let untidy = "const  A=1 // kept\n";
    editor.open("a.conf", untidy, 1);
    let document = json!({"textDocument": {"uri": editor.uri("a.conf")}});
    let edits = editor.ask("textDocument/formatting", document.clone());
    assert_eq!(edits[0]["newText"], "const A = 1 // kept\n");
    assert_eq!(edits[0]["range"]["end"], json!({"line": 1, "character": 0}));
    assert_eq!(editor.ask("workspace/nonsense", json!(null))["code"], -32601);
    editor.tell("$/nonsense", json!({}));
    editor.tell("textDocument/didOpen", json!({}));
    assert_eq!(editor.ask("textDocument/hover", json!({"position": 7})), Value::Null);
    editor.open("a.conf", "object Container \"", 1);
    assert_eq!(editor.ask("textDocument/formatting", document), Value::Null);
    editor.ask("shutdown", json!(null));
    assert_eq!(editor.ask("textDocument/hover", json!({}))["code"], -32600);
    editor.tell("exit", json!(null));
    assert_eq!(editor.server.wait().expect("it ends").code(), Some(0));
}
