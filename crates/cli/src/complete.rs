//! Words for a shell's completion that its script cannot have in it: names of units and of machines.
//!
//! The script of bash(1) asks for them with the line that is typed (`complete-words`). Whatever goes wrong, nothing is
//! printed, and a manager that does not answer is not waited for.

use std::time::Duration;

use clap::{Arg, CommandFactory};
use clap_complete::Shell;
use warren_wire::control::{List, Texts};

use crate::args::{Cli, Global};
use crate::client::Client;
use crate::connection::control_socket;
use crate::machine;
use crate::names::is_pattern;
use crate::output::print;

/// What the generated script for bash is followed by.
const BASH: &str = include_str!("complete.bash");

/// Whoever types waits no longer than that.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// What recordings are named by.
const CHARTS: [&str; 3] = ["boot", "reload", "shutdown"];

/// What a word is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unit,
    Machine,
    Chart,
}

/// The word that is being typed.
#[derive(Debug, Default)]
struct WordAtCursor {
    /// What it may be; nothing if the script knows, or nobody does.
    kind: Option<Kind>,
    /// Which manager the words before it name.
    global: Global,
}

/// The script for a shell.
pub fn script(shell: Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut <Cli as CommandFactory>::command(), "warren", &mut bytes);
    let mut script = String::from_utf8_lossy(&bytes).into_owned();
    if shell == Shell::Bash {
        script.push_str(BASH);
    }
    script
}

/// Prints what the last of `words` may become, each on a line.
pub fn run(words: &[String]) -> i32 {
    let Some((last, before)) = words.split_last() else { return 0 };
    let typed = WordAtCursor::new(before, last);
    let all = match typed.kind {
        None => Vec::new(),
        Some(Kind::Unit) => units(last, typed.global),
        Some(Kind::Machine) => machine::all().into_iter().map(|machine| machine.name).collect(),
        Some(Kind::Chart) => CHARTS.map(str::to_owned).to_vec(),
    };
    let is_word = |word: &&String| !word.contains(|c: char| c.is_whitespace() || c.is_control());
    let fit = all.iter().filter(is_word).filter(|word| word.starts_with(&**last));
    print(&fit.map(|word| format!("{word}\n")).collect::<String>());
    0
}

fn units(beginning: &str, global: Global) -> Vec<String> {
    if is_pattern(beginning) {
        return Vec::new();
    }
    let ask = || {
        let mut client = Client::connect(&control_socket(&global).ok()?).ok()?;
        client.answers_within(ANSWERS_WITHIN).ok()?;
        let patterns = Texts(vec![format!("{beginning}*")]);
        client.call(&List { patterns, ..List::default() }).ok()
    };
    let answer = ask().unwrap_or_default();
    answer.units.into_iter().map(|row| row.name).collect()
}

impl WordAtCursor {
    fn new(before: &[String], last: &str) -> WordAtCursor {
        let mut table = <Cli as CommandFactory>::command();
        // Options that every command takes are in each from then on.
        table.build();
        let (mut command, mut place, mut awaited) = (&table, 0, None::<&Arg>);
        let mut global = Global { quiet: true, ..Global::default() };
        for word in before {
            if let Some(option) = awaited.take() {
                note(&mut global, option, word);
            } else if word == "--" {
                return WordAtCursor::default();
            } else if word.starts_with('-') {
                let (option, value) = option(command, word);
                match (option, value) {
                    (Some(option), Some(value)) => note(&mut global, option, value),
                    (Some(option), None) if takes_value(option) => awaited = Some(option),
                    (Some(option), None) => global.user |= option.get_id() == "user",
                    (None, _) => {}
                }
            } else if let Some(below) = command.find_subcommand(word) {
                (command, place) = (below, 0);
            } else {
                place += 1;
            }
        }
        let positional =
            || command.get_positionals().nth(place).or(command.get_positionals().last());
        let argument = match awaited {
            None if last.starts_with('-') => None,
            None => positional(),
            awaited => awaited,
        };
        WordAtCursor { kind: argument.and_then(kind), global }
    }
}

fn kind(argument: &Arg) -> Option<Kind> {
    let name = argument.get_value_names().and_then(|names| names.first());
    match (argument.get_id().as_str(), name.map(|name| name.as_str())) {
        ("machine", _) => Some(Kind::Machine),
        ("what" | "compare", Some("WHAT" | "A")) => Some(Kind::Chart),
        (_, Some(name)) if name.split('|').any(|one| one == "UNIT") => Some(Kind::Unit),
        // Of list, and of logs, which takes units too.
        ("patterns" | "matches", _) => Some(Kind::Unit),
        _ => None,
    }
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values() && !option.is_require_equals_set()
}

/// The option that a word is, or whose value it waits for, and its value if that is in the word.
fn option<'c, 'w>(command: &'c clap::Command, word: &'w str) -> (Option<&'c Arg>, Option<&'w str>) {
    let find = |is_it: &dyn Fn(&Arg) -> bool| command.get_arguments().find(|it| is_it(it));
    if let Some(long) = word.strip_prefix("--") {
        let (long, value) = long.split_once('=').map_or((long, None), |(l, v)| (l, Some(v)));
        return (find(&|it| it.get_long() == Some(long)), value);
    }
    // Of several letters the first that takes a value has the rest.
    let mut last = None;
    for (at, letter) in word.char_indices().skip(1) {
        last = find(&|it| it.get_short() == Some(letter));
        let rest = &word[at + letter.len_utf8()..];
        if last.is_some_and(takes_value) && !rest.is_empty() {
            return (last, Some(rest));
        }
    }
    (last, None)
}

fn note(global: &mut Global, option: &Arg, value: &str) {
    match option.get_id().as_str() {
        "machine" => global.machine = Some(value.to_owned()),
        "socket" => global.socket = Some(value.into()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<Kind>) -> Global {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (last, before) = words.split_last().expect("there is one");
        let typed = WordAtCursor::new(before, last);
        assert_eq!(typed.kind, expected, "{line}");
        typed.global
    }

    #[test]
    fn what_a_word_is_to_be_follows_from_the_words_before_it() {
        for line in [
            "start ",
            "stop a we",
            "why ",
            "list ",
            "logs ",
            "logs -u ",
            "verify x",
            "run --unit ",
            "status ",
        ] {
            check(line, Some(Kind::Unit));
        }
        for line in ["-M ", "--machine ", "status -M ", "-qM "] {
            check(line, Some(Kind::Machine));
        }
        for line in ["chart ", "chart --compare boot "] {
            check(line, Some(Kind::Chart));
        }
        for line in
            ["", "st", "start --no", "--socket ", "enter -- ", "fleet ", "mark a ", "list -t "]
        {
            check(line, None);
        }
    }

    #[test]
    fn words_that_are_units_are_known_of_every_command() {
        fn check(command: &clap::Command) {
            for argument in command.get_positionals() {
                let is_unit = matches!(argument.get_id().as_str(), "unit" | "units");
                let named = (command.get_name(), argument.get_id());
                assert!(!is_unit || kind(argument) == Some(Kind::Unit), "{named:?}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&<Cli as CommandFactory>::command());
    }

    #[test]
    fn the_manager_that_is_asked_is_the_one_of_the_line() {
        let machine = |line: &str| check(line, Some(Kind::Unit)).machine;
        for line in
            ["-M a stop ", "stop -M a ", "-qMa stop ", "--machine=a stop ", "stop --machine a b "]
        {
            assert_eq!(machine(line).as_deref(), Some("a"), "{line}");
        }
        assert!(check("--user stop ", Some(Kind::Unit)).user);
        let socket = check("stop --socket /x ", Some(Kind::Unit)).socket;
        assert_eq!(socket, Some("/x".into()));
    }
}
