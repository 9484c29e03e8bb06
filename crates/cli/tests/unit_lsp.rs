//! `warren lsp` as an editor uses it.

mod editor;

use std::io::Write;

use serde_json::{Value, json};

use editor::{Editor, labels};

const WEB: &str = "\
[Unit]
Description=A site
After=db.service network.target

[Service]
ExecStart=/bin/sleep 1000
Restart=always
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
";

const DB: &str = "\
[Unit]
Description=A store of ä𝄞

[Service]
ExecStart=/bin/sleep 1000
";

fn start(test: &str) -> Editor {
    Editor::start(test, &["lsp"], &[("web.service", WEB), ("db.service", DB)])
}

#[test]
fn faults_are_told_as_they_are_typed() {
    let mut editor = start("unit faults");
    assert_eq!(editor.open("web.service", WEB, 1), [""; 0]);
    let uri = editor.uri("web.service");
    let mut tell = |text: String| {
        let document = json!({"uri": uri, "version": 2});
        let change = json!({"textDocument": document, "contentChanges": [{"text": text}]});
        editor.tell("textDocument/didChange", change);
        editor.diagnostics(1)
    };
    let told = tell(WEB.replace("Restart=always", "Restrat=always\nRestart=sometimes"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("web.service 6:0 "), "{told:?}");
    assert!(told[1].starts_with("web.service 7:8 ") && told[1].contains("sometimes"), "{told:?}");
    let told = tell(WEB.replace("ExecStart=/bin/sleep 1000\n", ""));
    assert!(told.iter().any(|fault| fault.contains("ExecStart")), "{told:?}");
    assert_eq!(tell(WEB.to_owned()), [""; 0]);
}

#[test]
fn a_drop_in_is_checked_with_its_unit_as_it_is_in_the_editor() {
    let mut editor = start("unit drop-ins");
    std::fs::create_dir(editor.directory.join("db.service.d")).expect("made");
    let dropin = "[Service]\nType=oneshot\nRestart=always\n";
    std::fs::write(editor.directory.join("db.service.d/a.conf"), dropin).expect("written");
    let told = editor.open("db.service.d/a.conf", dropin, 1);
    assert_eq!(
        told,
        ["a.conf 0:0 db.service: Type=oneshot excludes Restart=always and on-success"]
    );
    // The unit that is being written has it, too; what is wrong is of both.
    let told = editor.open("db.service", &DB.replace("ExecStart=", "Nonsense="), 2);
    assert!(
        told.iter().any(|fault| fault.starts_with("a.conf 0:0 ") && fault.contains("ExecStart")),
        "{told:?}"
    );
    let uri = editor.uri("db.service.d/a.conf");
    let text = "[Service]\nExecStart=/bin/true\n";
    let change =
        json!({"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": text}]});
    editor.tell("textDocument/didChange", change);
    assert_eq!(editor.diagnostics(1), [""; 0]);
}

#[test]
fn what_completes_belongs_to_its_place() {
    let mut editor = start("unit completion");
    assert_eq!(editor.open("web.service", WEB, 1), [""; 0]);
    let mut check = |text: &str, has: &[&str], has_not: &[&str]| {
        let labels = labels(&mut editor, "web.service", text);
        let is_there = |name: &&str| labels.iter().any(|label| label == *name);
        let missing: Vec<_> = has.iter().filter(|name| !is_there(name)).collect();
        let wrong: Vec<_> = has_not.iter().filter(|name| is_there(name)).collect();
        assert!(
            missing.is_empty() && wrong.is_empty(),
            "{text:?}: {missing:?} {wrong:?} {labels:?}"
        );
    };
    check("^", &["[Unit]", "[Service]", "[Install]"], &["[Socket]"]);
    check("[^", &["[Unit]", "[Service]", "[X-Warren]"], &["[Timer]"]);
    check("[Service]\nRes^", &["Restart", "ExecStart", "PrivateTmp"], &["After", "OnCalendar"]);
    check("[Unit]\n^\n", &["After", "[Service]"], &["Restart"]);
    check("[Service]\nRestart=^", &["always", "on-failure"], &["yes"]);
    check("[Service]\nProtectSystem=^", &["yes", "no", "full", "strict"], &["always"]);
    check("[Unit]\nAfter=d^", &["db.service"], &["web.service"]);
    check("[Unit]\nAfter=x.service db^\n", &["db.service"], &["yes"]);
    check("[Service]\nKillSignal=^", &["SIGTERM", "SIGHUP"], &[]);
    check("[Service]\nSystemCallFilter=~^", &["~@mount"], &[]);
    check("[Service]\nCapabilityBoundingSet=^", &["CAP_NET_BIND_SERVICE"], &[]);
    check("[Service]\nEnvironment=A=%^", &["A=%i", "A=%n"], &[]);
    check("[Service]\nExecStart=/bin/^", &["/bin/sh"], &["/bin/"]);
    check("[Service]\n# Res^", &[], &["Restart"]);
}

#[test]
fn questions_are_answered() {
    let mut editor = start("unit questions");
    assert_eq!(editor.open("web.service", WEB, 1), [""; 0]);
    let value = |hover: &Value| hover["contents"]["value"].as_str().unwrap_or_default().to_owned();
    let hover = editor.about("textDocument/hover", "web.service", WEB, "Restart=always");
    let text = value(&hover);
    assert!(
        text.contains("When the service is started again") && text.contains("systemd.service(5)"),
        "{text}"
    );
    let hover = editor.about("textDocument/hover", "web.service", WEB, "db.service");
    assert!(value(&hover).starts_with("`db.service` A store of ä𝄞"), "{hover}");
    let found = editor.about("textDocument/definition", "web.service", WEB, "db.service");
    assert_eq!(found[0]["uri"], editor.uri("db.service"), "{found}");
    assert_eq!(editor.about("textDocument/hover", "web.service", WEB, "[Install]"), Value::Null);
    let uri = editor.uri("web.service");
    let symbols = editor.ask("textDocument/documentSymbol", json!({"textDocument": {"uri": uri}}));
    assert_eq!(symbols[1]["name"], "Service", "{symbols}");
    assert_eq!(symbols[1]["children"][0]["detail"], "/bin/sleep 1000", "{symbols}");
    let found = editor.ask("workspace/symbol", json!({"query": "DB.serv"}));
    assert_eq!(found[0]["location"]["uri"], editor.uri("db.service"), "{found}");
}

#[test]
fn the_next_times_of_a_timer_are_shown() {
    let timer = "[Timer]\nOnCalendar=Mon *-*-* 08:30 UTC\n";
    let mut editor = Editor::start("unit timer", &["lsp"], &[("x.timer", timer)]);
    editor.open("x.timer", timer, 1);
    let hover = editor.about("textDocument/hover", "x.timer", timer, "*-*-*");
    let text = hover["contents"]["value"].as_str().unwrap_or_default();
    assert!(text.contains("`Mon *-*-* 08:30:00 UTC`"), "{text}");
    assert_eq!(text.matches(" 08:30:00 UTC").count(), 4, "{text}");
}

#[test]
fn a_unit_gets_another_name_with_its_files_and_all_who_name_it() {
    let mut editor = start("unit rename");
    std::fs::create_dir(editor.directory.join("db.service.d")).expect("made");
    std::fs::write(editor.directory.join("db.service.d/a.conf"), "[Service]\nNice=1\n")
        .expect("written");
    std::fs::create_dir(editor.directory.join("multi-user.target.wants")).expect("made");
    let link = editor.directory.join("multi-user.target.wants/db.service");
    std::os::unix::fs::symlink("../db.service", link).expect("made");
    // Another name that has this one in it stays.
    std::fs::write(editor.directory.join("x.timer"), "[Timer]\nUnit=db.service\nOnBootSec=1\n")
        .expect("written");
    std::fs::write(editor.directory.join("y.target"), "[Unit]\nAfter=my-db.service\n")
        .expect("written");
    assert_eq!(editor.open("web.service", WEB, 1), [""; 0]);
    let uri = editor.uri("web.service");
    let mut rename = |new: &str| {
        let position = json!({"line": 2, "character": 8});
        let parameters =
            json!({"textDocument": {"uri": uri}, "position": position, "newName": new});
        editor.ask("textDocument/rename", parameters)
    };
    let of = |answer: &Value| answer["message"].as_str().unwrap_or_default().to_owned();
    assert_eq!(of(&rename("store.socket")), "store.socket is of another type than db.service");
    assert_eq!(of(&rename("web.service")), "there is a unit web.service");
    assert!(of(&rename("a b")).starts_with("a b: "));
    let answer = rename("store.service");
    let changes = answer["documentChanges"].as_array().expect("there are some");
    let edited = |change: &&Value| {
        change["textDocument"]["uri"]
            .as_str()
            .map(|uri| uri.rsplit('/').next().unwrap_or_default().to_owned())
    };
    let mut files: Vec<String> = changes.iter().filter_map(|change| edited(&change)).collect();
    files.sort();
    assert_eq!(files, ["web.service", "x.timer"], "{answer}");
    let moved = |change: &Value| {
        let [from, to] = ["oldUri", "newUri"].map(|key| change[key].as_str().map(str::to_owned));
        Some((from?.rsplit_once("/")?.1.to_owned(), to?.rsplit_once("/")?.1.to_owned()))
    };
    let moved: Vec<(String, String)> = changes.iter().filter_map(moved).collect();
    let names = [("db.service", "store.service"); 2].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(moved[..2], names, "{answer}");
    assert_eq!(moved[2], ("db.service.d".to_owned(), "store.service.d".to_owned()), "{answer}");
    let found = editor.about("textDocument/references", "web.service", WEB, "db.service");
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
}

#[test]
fn a_misspelt_name_is_put_right() {
    let mut editor = start("unit actions");
    let text = WEB.replace("Restart=", "Restrat=").replace("[Install]", "[Instal]");
    let uri = editor.uri("web.service");
    let document = json!({"uri": uri, "languageId": "systemd", "version": 1, "text": text});
    editor.tell("textDocument/didOpen", json!({"textDocument": document}));
    let told = editor.receive();
    let context = json!({"diagnostics": told["params"]["diagnostics"]});
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 20, "character": 0}});
    let parameters = json!({"textDocument": {"uri": uri}, "range": range, "context": context});
    let actions = editor.ask("textDocument/codeAction", parameters);
    let titles: Vec<&str> = actions
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|action| action["title"].as_str())
        .collect();
    assert_eq!(titles, ["Write `Restart`", "Write `Install`"], "{actions} {told}");
    assert_eq!(actions[0]["edit"]["changes"][&uri][0]["newText"], "Restart", "{actions}");
}

#[test]
fn rubbish_is_borne() {
    let mut editor = start("unit rubbish");
    // Files that are no units, and texts without a name.
    for (others, file) in ["notes.txt", "a.conf", "x.service.d/README"].into_iter().enumerate() {
        assert_eq!(editor.open(file, "[Unit]\nAfter=\0\n", others + 1), [""; 0], "{file}");
    }
    let told = editor.open("b.service", "\u{1}=\\\n[[\n=x\n[Service\nExecStart=\n", 4);
    assert!(told.iter().all(|fault| fault.starts_with("b.service ")), "{told:?}");
    assert_eq!(editor.ask("textDocument/hover", json!({})), Value::Null);
    editor.send(&json!({"jsonrpc": "2.0", "id": 900, "method": "no/such", "params": null}));
    assert_eq!(editor.receive()["error"]["code"], -32601);
    editor.input.write_all(b"Content-Length: 2\r\n\r\n{{").expect("the server reads");
    assert_eq!(editor.receive()["error"]["code"], -32700);
}
