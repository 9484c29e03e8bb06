//! Matches as journalctl(1) takes them: `FIELD=value`, `+` between alternatives.

use std::collections::BTreeMap;

use crate::entry::is_valid_name;
use crate::query::expr::Expr;

/// Reads a list of matches: the same field twice means one of the values, different fields mean
/// all of them, `+` separates alternatives. Gives the word that is not a match as error.
pub fn parse(words: &[&str]) -> Result<Expr, String> {
    let mut alternatives = Vec::new();
    for group in words.split(|word| *word == "+") {
        if group.is_empty() && !words.is_empty() {
            return Err("+".to_owned());
        }
        alternatives.push(parse_group(group)?);
    }
    Ok(match alternatives.len() {
        1 => alternatives.remove(0),
        _ => Expr::Any(alternatives),
    })
}

fn parse_group(words: &[&str]) -> Result<Expr, String> {
    let mut fields: BTreeMap<&str, Vec<Expr>> = BTreeMap::new();
    for word in words {
        let (name, value) = word.split_once('=').ok_or_else(|| (*word).to_owned())?;
        if !is_valid_name(name.as_bytes()) {
            return Err((*word).to_owned());
        }
        fields.entry(name).or_default().push(Expr::field(name, value));
    }
    let one_of = |mut values: Vec<Expr>| match values.len() {
        1 => values.remove(0),
        _ => Expr::Any(values),
    };
    Ok(Expr::All(fields.into_values().map(one_of).collect()))
}

/// Everything about a system unit: what it logs, and what the manager and privileged programs
/// say of it; journalctl(1), `--unit=`.
pub fn unit(name: &str) -> Expr {
    let both = |a: Expr, b: Expr| Expr::All(vec![a, b]);
    let mut any = vec![
        Expr::field("_SYSTEMD_UNIT", name),
        both(Expr::field("UNIT", name), Expr::field("_PID", "1")),
        // Our manager is not process 1; it and its like alone are in that scope.
        both(Expr::field("UNIT", name), Expr::field("_SYSTEMD_UNIT", "init.scope")),
        both(Expr::field("OBJECT_SYSTEMD_UNIT", name), Expr::field("_UID", "0")),
        both(Expr::field("COREDUMP_UNIT", name), Expr::field("_UID", "0")),
    ];
    if name.ends_with(".slice") {
        any.push(Expr::field("_SYSTEMD_SLICE", name));
    }
    Expr::Any(any)
}

/// Everything about a unit of a user's manager; journalctl(1), `--user-unit=`.
pub fn user_unit(name: &str, uid: &str) -> Expr {
    let of_user = |field: &str| Expr::All(vec![Expr::field(field, name), Expr::field("_UID", uid)]);
    let fields =
        ["_SYSTEMD_USER_UNIT", "USER_UNIT", "COREDUMP_USER_UNIT", "OBJECT_SYSTEMD_USER_UNIT"];
    let mut any: Vec<Expr> = fields.into_iter().map(of_user).collect();
    if name.ends_with(".slice") {
        any.push(of_user("_SYSTEMD_USER_SLICE"));
    }
    Expr::Any(any)
}

/// Entries of these priorities, 0 (`emerg`) to 7 (`debug`). All of them are no condition, as for systemd 252: many
/// programs give their messages no priority.
pub fn priorities(range: std::ops::RangeInclusive<u8>) -> Expr {
    if range == (0..=7) {
        return Expr::default();
    }
    Expr::Any(range.map(|priority| Expr::field("PRIORITY", priority.to_string())).collect())
}
