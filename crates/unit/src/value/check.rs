//! Is this a value that a setting of this kind can have? One place for all kinds, so that a
//! setting that is not acted on yet is still checked.

use super::*;
use crate::config::RestartRule;
use crate::name::UnitName;
use crate::settings::Kind;

/// Everything wrong with a value whose specifiers are replaced. An empty value is never wrong:
/// it resets.
pub fn check(kind: Kind, text: &str) -> Vec<Fault> {
    if text.is_empty() {
        return Vec::new();
    }
    match kind {
        Kind::Text | Kind::Raw | Kind::Command => Vec::new(),
        Kind::Units(_) | Kind::Names => each_word(text, |word| match UnitName::parse(word) {
            Ok(_) => None,
            Err(error) => Some(format!("'{word}' is not a unit name: {error}")),
        }),
        Kind::RestartOn => {
            let (rule, units) = text.split_once(' ').unwrap_or((text, ""));
            let mut faults = one(word(RestartRule::WORDS, rule));
            faults.extend(check(Kind::Names, units));
            faults
        }
        Kind::MountsFor => each_word(text, |word| path(word).err().map(|f| f.message)),
        Kind::Words | Kind::Environment => split(text).filter_map(Result::err).collect(),
        Kind::ExitStatus => exit_statuses(text).1,
        Kind::Capabilities => capabilities(text).2,
        Kind::Condition(kind) | Kind::Assert(kind) => one(condition(kind, text)),
        kind => one(scalar(kind, text)),
    }
}

fn one(result: Parsed<()>) -> Vec<Fault> {
    result.err().into_iter().collect()
}

fn each_word(text: &str, fault: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let words = split(text).map(|word| match word {
        Ok((at, word)) => fault(&word).map(|message| Fault::new(at, message)),
        Err(fault) => Some(fault),
    });
    words.flatten().collect()
}

/// Kinds that are one value.
fn scalar(kind: Kind, text: &str) -> Parsed<()> {
    match kind {
        Kind::Bool => boolean(text).map(drop),
        Kind::Path => path(text.strip_prefix('-').unwrap_or(text)).map(drop),
        Kind::Word(words) => word(words, text),
        Kind::BoolOr(words) => boolean(text).map(drop).or_else(|_| word(words, text)),
        Kind::Span => span(text).map(drop),
        Kind::Calendar => calendar(text).map(drop),
        Kind::Bytes => bytes(text).map(drop),
        Kind::Memory => memory(text).map(drop),
        Kind::Tasks => tasks(text).map(drop),
        Kind::CountOrInfinity => count_or_infinity(text).map(drop),
        Kind::Number(low, high) => number(text, low, high).map(drop),
        Kind::Percent => percent(text).or_else(|_| part_of_whole(text)).map(drop),
        Kind::Mode => mode(text).map(drop),
        Kind::Signal => signal(text).map(drop),
        Kind::Listen(kind) => listen_address(kind, text).map(drop),
        Kind::Rlimit(resource) => rlimit(resource, text).map(drop),
        Kind::Indexes => indexes(text).map(drop),
        Kind::CpuWeight => cpu_weight(text).map(drop),
        Kind::OpenFile => open_file(text).map(drop),
        _ => Ok(()),
    }
}

fn word(words: &[&str], text: &str) -> Parsed<()> {
    match words.contains(&text) {
        true => Ok(()),
        false => Err(Fault::new(0, format!("'{text}' is not one of: {}", words.join(", ")))),
    }
}

/// Splits `|!parameter` (systemd.unit(5), "CONDITIONS AND ASSERTS").
pub(crate) fn condition_prefixes(text: &str) -> (bool, bool, &str) {
    let (trigger, text) = match text.strip_prefix('|') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    match text.strip_prefix('!') {
        Some(rest) => (trigger, true, rest.trim_start()),
        None => (trigger, false, text),
    }
}

/// Only what systemd refuses when it reads a unit; anything else is for whoever evaluates it, as
/// dropping a condition would start what should not start.
fn condition(kind: crate::config::ConditionKind, text: &str) -> Parsed<()> {
    use crate::config::ConditionKind as C;
    let (_, _, parameter) = condition_prefixes(text);
    let at = text.len() - parameter.len();
    let result = match kind {
        C::PathExists
        | C::PathExistsGlob
        | C::PathIsDirectory
        | C::PathIsSymbolicLink
        | C::PathIsMountPoint
        | C::PathIsReadWrite
        | C::PathIsEncrypted
        | C::DirectoryNotEmpty
        | C::FileNotEmpty
        | C::FileIsExecutable
        | C::NeedsUpdate => path(parameter).map(drop),
        _ => Ok(()),
    };
    result.map_err(|fault| Fault::new(at + fault.offset, fault.message))
}
