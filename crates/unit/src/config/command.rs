//! A command line of ExecStart= and its relatives, and the expansion of `$VARIABLE` in it
//! (systemd.service(5), "COMMAND LINES").

use std::collections::BTreeMap;

/// One command. Specifiers are replaced already; variables are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program; absolute, or a bare name to be searched for.
    pub path: Box<str>,
    /// All arguments, the zeroth first, as written after unquoting: `$FOO` and `${FOO}` stand
    /// in them until [`expand`].
    pub argv: Box<[Box<str>]>,
    /// `-`: a failure is noted and counts as success.
    pub ignore_failure: bool,
    /// `+`: runs with full privileges, untouched by User=, capabilities and namespaces.
    pub full_privileges: bool,
    /// `!`: as `+`, for User=, Group= and the capability settings only.
    pub no_setuid: bool,
    /// `!!`: as `!` where the kernel lacks ambient capabilities, else without effect.
    pub ambient_magic: bool,
    /// `:`: variables are left alone.
    pub no_expansion: bool,
    /// `@`: the second word was given as `argv[0]`.
    pub explicit_argv0: bool,
}

/// The arguments with variables replaced. A word that starts with `$NAME` is that variable and
/// nothing else: it becomes zero or more words, the value split at whitespace with quotes and
/// backslashes respected. `${NAME}` anywhere in a word becomes exactly the value; `$$` becomes
/// `$`. Variables that are not set are empty. Quotes around a word in the file make no
/// difference. The zeroth argument and the program are never changed. The corners (`$NAME-x` is
/// a variable of that odd name, a lone `$` disappears) are those of systemd 252.
pub fn expand(command: &Command, environment: &BTreeMap<Box<str>, Box<str>>) -> Vec<String> {
    if command.no_expansion {
        return command.argv.iter().map(|w| w.to_string()).collect();
    }
    let mut out = Vec::with_capacity(command.argv.len());
    let mut words = command.argv.iter();
    out.extend(words.next().map(|w| w.to_string()));
    for word in words {
        match whole_variable(word) {
            Some(name) => out.extend(split_value(environment.get(name).map_or("", |v| v))),
            None => out.push(expand_word(word, environment)),
        }
    }
    out
}

/// The name, if the whole word is a variable.
fn whole_variable(word: &str) -> Option<&str> {
    word.strip_prefix('$').filter(|name| !name.starts_with(['$', '{']))
}

/// Whether this can be the name of an environment variable.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn expand_word(word: &str, environment: &BTreeMap<Box<str>, Box<str>>) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = match braced(rest) {
            // Shells have `${NAME:-word}`; here that is text.
            Some((name, _)) if name.contains(':') => {
                let (text, after) = rest.split_once(':').expect("it has one");
                out.push_str(text);
                out.push(':');
                after
            }
            Some((name, after)) => {
                out.push_str(environment.get(name).map_or("", |v| v));
                after
            }
            None => {
                out.push('$');
                rest.strip_prefix("$$").unwrap_or(&rest[1..])
            }
        };
    }
    out.push_str(rest);
    out
}

/// Splits `${NAME}rest`.
fn braced(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("${")?.split_once('}')
}

/// Splits a variable's value at whitespace. Quotes group and are removed; a backslash is removed
/// and keeps what follows it.
fn split_value(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (Some(q), c) if q == c => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_ascii_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expands words, separated by `|`.
    fn check(words: &str, want: &str) {
        let environment = [
            ("ONE", "one"),
            ("TWO", "two two"),
            ("Q", "\"a b\" c''"),
            ("Q2", r"x\ y 'p q'z"),
            ("EMPTY", ""),
            ("S", "a $ONE b"),
        ];
        let environment = environment.map(|(k, v)| (Box::from(k), Box::from(v))).into();
        let command = Command {
            path: "/bin/echo".into(),
            argv: std::iter::once("echo").chain(words.split('|')).map(Box::from).collect(),
            ignore_failure: false,
            full_privileges: false,
            no_setuid: false,
            ambient_magic: false,
            no_expansion: false,
            explicit_argv0: false,
        };
        assert_eq!(expand(&command, &environment)[1..].join("|"), want, "{words}");
        let literal = Command { no_expansion: true, ..command };
        assert_eq!(expand(&literal, &environment)[1..].join("|"), words);
    }

    /// What systemd 252 passed to a program for the same words and variables.
    #[test]
    fn variables_are_expanded_as_by_systemd() {
        check("$ONE|$TWO|${TWO}", "one|two|two|two two");
        check("a$ONE|a${ONE}b|a $TWO b|${ONE}$TWO", "a$ONE|aoneb|a $TWO b|one$TWO");
        check("$Q|$Q2|${Q}", "a b|c|x y|p qz|\"a b\" c''");
        check("$EMPTY|${EMPTY}|$NONE|${NONE}|a", "||a");
        check("$$ONE|$$|$|a$$b", "$ONE|$|a$b");
        check("${ONE|$1|${1}|x${}y", "${ONE||xy");
        check("$S|${S}", "a|$ONE|b|a $ONE b");
        check("$ONE-x|$Q$Q|a", "a");
        check("${ONE:+x}|${NO:-x}y|${ONE:1}|${NO-x}", "${ONE:+x}|${NO:-x}y|${ONE:1}|");
        check("${ONE:+${TWO}}${ONE}", "${ONE:+two two}one");
    }
}
