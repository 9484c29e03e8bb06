//! What objects are made of reaches the host: functions that ask it, lines that are logged.

use std::cell::RefCell;

use super::{Options, load};
use crate::modules::Modules;
use crate::outside::{Facts, Outside};
use crate::schema::warrener;
use crate::source::Source;
use crate::types::Types;

/// A host with one variable, one file and one match for every pattern.
#[derive(Debug)]
struct Small;

impl Facts for Small {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "SITE").then(|| "north".to_owned())
    }

    fn path_exists(&self, path: &str) -> bool {
        path == "/there"
    }

    fn glob(&self, pattern: &str, below: Option<&str>, _: bool, _: bool) -> Vec<String> {
        vec![format!("{}:{pattern}", below.unwrap_or("-"))]
    }
}

struct Told<'t>(&'t RefCell<Vec<String>>);

impl Outside for Told<'_> {
    fn log(&mut self, severity: u8, facility: &str, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.0.borrow_mut().push(format!("{severity} {facility} {text}"));
    }
}

/// What is logged, line by line.
fn logged(text: &str, options: &Options<'_>) -> Vec<String> {
    let (types, modules) = (Types::new(warrener::types()), Modules::default());
    let lines = RefCell::new(Vec::new());
    let source = Source::new("t", text.as_bytes());
    let options = Options { facts: &Small, ..*options };
    let fleet = load(source, &types, &modules, Box::new(Told(&lines)), &options);
    assert_eq!(fleet.faults.len(), 0, "{:?}", fleet.faults);
    lines.into_inner()
}

const ASKS: &str = "getenv(\"SITE\") + string(path_exists(\"/there\")) + string(path_exists(\"/not\")) \
                    + glob(\"*.x\")[0] + glob_recursive(\"/d\", \"*.y\")[0]";

#[test]
fn functions_say_the_same_everywhere() {
    let said = "2 config northtruefalse-:*.x/d:*.y";
    let places = [
        format!("log({ASKS})"),
        format!("object Container \"c\" {{ log({ASKS}) }}"),
        format!(
            "template Container \"t\" {{ log({ASKS}) }}\nobject Container \"c\" {{ import \"t\" }}"
        ),
        format!(
            "object Container \"c\" {{ }}\n\
             apply Slice \"s\" to Container {{ log({ASKS})\n assign where true }}"
        ),
        format!(
            "object Container \"c\" {{ }}\napply Slice \"s\" to Container {{\n  \
             assign where {{{{ log({ASKS})\n return true }}}}()\n}}"
        ),
        format!(
            "object Container \"c\" {{ }}\nobject Group \"g\" {{\n  \
             assign where {{{{ log({ASKS})\n return true }}}}()\n}}"
        ),
    ];
    for text in places {
        for in_sequence in [false, true] {
            let options = Options { in_sequence, ..Options::default() };
            assert_eq!(logged(&text, &options), [said], "{text}");
        }
    }
}

#[test]
fn lines_come_in_the_order_of_the_plan() {
    let mut text = "log(\"top\")\n".to_owned();
    for number in 0..1_000 {
        text += &format!("object Container \"c{number}\" {{ log(LogNotice, \"f\", name) }}\n");
    }
    text += "apply Slice \"s\" to Container { log(container.name)\n assign where true }";
    let alone = logged(&text, &Options::default());
    assert_eq!(alone.len(), 2_001);
    assert_eq!(alone[..3], ["2 config top", "1 f c0", "1 f c1"]);
    assert_eq!(alone[1_001], "2 config c0");
    assert_eq!(logged(&text, &Options { threads: 4, ..Options::default() }), alone);
}
