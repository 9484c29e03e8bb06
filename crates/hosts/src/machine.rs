//! What rules know of the host that they are evaluated for: the variable `machine`, and a `Machine` of its name.
//!
//! `machine.labels.role`, `machine.cpus`, `machine.copies` and so on. Only what the rules name is given to them: so
//! hosts that differ in nothing that the rules ask have the same text before their rules, and a plan over a thousand
//! hosts evaluates each different text once. What is read otherwise than by its name (`machine.labels[name]`, `var m =
//! machine`, rules for `Machine` objects) is given whole.

use std::collections::BTreeSet;

use warren_fleet::diagnostic::Sink;
use warren_fleet::lexer;
use warren_fleet::source::FileId;
use warren_fleet::text::quoted;
use warren_fleet::token::{Token, TokenKind};

use crate::host::Facts;
use crate::placement::Copies;

/// The members of `machine`.
const FIELDS: [&str; 8] =
    ["name", "labels", "cpus", "memory", "kernel", "version", "capacity", "copies"];

/// What of `machine` the rules name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Named {
    fields: BTreeSet<&'static str>,
    labels: BTreeSet<String>,
    /// All labels.
    all_labels: bool,
    /// Everything, and a `Machine` of the host's name.
    everything: bool,
}

impl Named {
    /// What these files name.
    pub fn of<'f>(files: impl IntoIterator<Item = &'f [u8]>) -> Named {
        let mut named = Named::default();
        for text in files {
            named.read(text);
        }
        named
    }

    fn read(&mut self, text: &[u8]) {
        let tokens = lexer::tokens(FileId(0), text, &mut Sink::default());
        let is_said =
            |token: &&Token| !matches!(token.kind, TokenKind::Newline | TokenKind::Comment);
        let tokens: Vec<Token> = tokens.iter().filter(is_said).copied().collect();
        let word = |at: usize| -> Option<Vec<u8>> {
            let token = tokens.get(at)?;
            let bytes = text.get(token.span.start as usize..token.span.end as usize)?;
            match token.kind {
                TokenKind::Name => Some(bytes.strip_prefix(b"@").unwrap_or(bytes).to_vec()),
                TokenKind::String => Some(lexer::string(bytes).0),
                _ => None,
            }
        };
        let is =
            |at: usize, kind: TokenKind| tokens.get(at).is_some_and(|token| token.kind == kind);
        // The member that is named after what ends before `at`, and where it ends.
        let member = |at: usize| -> Option<(Vec<u8>, usize)> {
            if is(at, TokenKind::Dot) && is(at + 1, TokenKind::Name) {
                return Some((word(at + 1)?, at + 2));
            }
            let is_index = is(at, TokenKind::OpenBracket)
                && is(at + 1, TokenKind::String)
                && is(at + 2, TokenKind::CloseBracket);
            is_index.then(|| Some((word(at + 1)?, at + 3)))?
        };
        for at in 0..tokens.len() {
            match word(at).as_deref() {
                Some(b"Machine") => self.everything = true,
                Some(b"machine") => match member(at + 1) {
                    Some((name, end)) if name == b"labels" => match member(end) {
                        Some((label, _)) => {
                            self.labels.insert(String::from_utf8_lossy(&label).into_owned());
                        }
                        None => self.all_labels = true,
                    },
                    Some((name, _)) => match FIELDS.iter().find(|f| f.as_bytes() == name) {
                        Some(field) => {
                            self.fields.insert(field);
                        }
                        None => self.everything = true,
                    },
                    None => self.everything = true,
                },
                // Containers with copies are looked up there.
                Some(b"replicas") => {
                    self.fields.insert("copies");
                }
                _ => {}
            }
        }
    }

    fn has(&self, field: &str) -> bool {
        self.everything || self.fields.contains(field)
    }

    /// The rules that come before all others on a host.
    pub fn prelude(&self, facts: &Facts, copies: &Copies) -> String {
        let mut members = Vec::new();
        let mut member = |name: &str, value: String| members.push(format!("  {name} = {value}\n"));
        for (name, value) in
            [("name", &facts.name), ("kernel", &facts.kernel), ("version", &facts.version)]
        {
            if self.has(name) {
                member(name, text(value));
            }
        }
        let numbers = [
            ("cpus", u64::from(facts.cpus)),
            ("memory", facts.memory),
            ("capacity", u64::from(facts.capacity)),
        ];
        for (name, value) in numbers.into_iter().filter(|(name, _)| self.has(name)) {
            member(name, value.to_string());
        }
        let all_labels = self.all_labels || self.everything;
        let is_named = |(name, _): &(&String, &String)| all_labels || self.labels.contains(*name);
        let labels: Vec<(&String, &String)> = facts.labels.iter().filter(is_named).collect();
        let pair = |(name, value): &(&String, &String)| format!("{} = {}", text(name), text(value));
        member("labels", table(labels.iter().map(pair)));
        if self.has("copies") {
            let pair = |(app, slots): (&String, &Vec<u32>)| format!("{} = {slots:?}", text(app));
            member("copies", table(copies.iter().map(pair)));
        }
        let mut out = format!("globals.machine = {{\n{}}}\n", members.concat());
        if self.everything {
            // In rules for machines `machine` is the object: it says the same as the variable elsewhere.
            let same: String = FIELDS
                .iter()
                .filter(|field| **field != "name")
                .map(|field| format!("  {field} = globals.machine.{field}\n"))
                .collect();
            out += &format!(
                "object Machine {} {{\n{same}  vars = globals.machine\n}}\n",
                text(&facts.name)
            );
        }
        out
    }
}

fn table(pairs: impl Iterator<Item = String>) -> String {
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
}

/// A literal of the fleet language.
fn text(text: &str) -> String {
    let mut out = Vec::new();
    quoted(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_fleet::engine::Options;
    use warren_fleet::outside::Nothing;
    use warren_fleet::session::Session;
    use warren_fleet::source::Source;
    use warren_unit::UnitType;

    fn facts() -> Facts {
        let label = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Facts {
            name: "web-1".into(),
            labels: [("role", "web"), ("rack", "r\"7\\"), ("a.b", "$x\n")].map(label).into(),
            cpus: 8,
            memory: 64 << 30,
            kernel: "6.1.0".into(),
            version: "0.1.0".into(),
            capacity: 100,
            address: String::new(),
        }
    }

    #[track_caller]
    fn check(rules: &str, prelude: &str) {
        let copies = Copies::from([("shop".to_owned(), vec![0, 7])]);
        let text = Named::of([rules.as_bytes()]).prelude(&facts(), &copies);
        let members: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(members[1..members.len() - 1].join("; "), prelude);
    }

    /// In a rule for machines the variable is the object, which says the same.
    #[test]
    fn a_rule_for_machines_sees_the_labels() {
        let rules = "apply Service \"agent\" to Machine {\n  ExecStart = \"/bin/x \" + machine.labels.role + \" \" + \
                     machine.cpus + \" \" + machine.name\n  assign where machine.labels.rack == \"r\\\"7\\\\\"\n}\n";
        let prelude = Named::of([rules.as_bytes()]).prelude(&facts(), &Copies::new());
        let (before, root) = (
            Source::new("machine.conf", prelude.as_bytes()),
            Source::new("a.conf", rules.as_bytes()),
        );
        let options = Options { before: Some(&before), ..Options::default() };
        let loaded = Session::load(root, Box::new(Nothing::default()), &options, "/run/x");
        let session = loaded.session.unwrap_or_else(|| panic!("{:?}", loaded.messages));
        let made: Vec<String> =
            session.products().values().map(|made| made.text(UnitType::Service)).collect();
        assert!(made.len() == 1 && made[0].contains("ExecStart=/bin/x web 8 web-1"), "{made:?}");
    }

    #[test]
    fn only_what_rules_name_is_given_to_them() {
        check("", "labels = {}");
        check("x = machine.labels.role", "labels = { \"role\" = \"web\" }");
        check("x = machine.labels.none", "labels = {}");
        check("x = machine.labels[\"a.b\"]", "labels = { \"a.b\" = \"$x\\n\" }");
        let numbers = "cpus = 8; memory = 68719476736; labels = {}";
        check("// machine.name\nx = machine.cpus + machine\n.memory", numbers);
        check("x = machine[\"name\"]", "name = \"web-1\"; labels = {}");
        check(
            "object Container \"shop\" { replicas = 3 }",
            "labels = {}; copies = { \"shop\" = [0, 7] }",
        );
        let all = "{ \"a.b\" = \"$x\\n\", \"rack\" = \"r\\\"7\\\\\", \"role\" = \"web\" }";
        check("x = machine.labels[name]", &format!("labels = {all}"));
        for whole in
            ["var m = machine", "get_object(Machine, x)", "globals[\"machine\"]", "machine.more"]
        {
            assert!(Named::of([whole.as_bytes()]).everything, "{whole}");
        }
    }

    #[test]
    fn rules_read_what_is_given() {
        let rules = "object Container \"shop\" {}\n\
             apply Service \"web\" to Container {\n  ExecStart = \"/bin/web \" + machine.cpus\n  \
             Description = machine.labels[\"role\"]\n  assign where machine.labels.role == \"web\"\n}\n\
             apply Service \"agent\" to Machine {\n  ExecStart = \"/bin/agent \" + machine.vars.kernel\n  \
             assign where machine.vars.labels.role\n}\n";
        let prelude = Named::of([rules.as_bytes()]).prelude(&facts(), &Copies::new());
        let source = Source::new("f.conf", [prelude, rules.to_owned()].concat().as_bytes());
        let loaded =
            Session::load(source, Box::new(Nothing::default()), &Options::default(), "/run/f");
        let messages: Vec<&String> = loaded.messages.iter().map(|m| &m.rendered).collect();
        assert!(messages.is_empty(), "{messages:#?}");
        let session = loaded.session.expect("rules without faults");
        let names: Vec<&str> = session.products().keys().map(|name| &**name).collect();
        assert_eq!(names, ["shop-web.service", "web-1-agent.service"]);
        let text = |name: &str| {
            session.products()[name].text(warren_unit::UnitType::Service).replace('\n', " ")
        };
        assert!(
            text("shop-web.service").contains("ExecStart=/bin/web 8"),
            "{}",
            text("shop-web.service")
        );
        assert!(text("shop-web.service").contains("Description=web"));
        assert!(text("web-1-agent.service").contains("ExecStart=/bin/agent 6.1.0"));
    }
}
