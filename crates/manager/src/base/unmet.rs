//! Conditions and assertions that stood in the way of a start, in the words of unit files. Pure.

use warren_core::model::ids::UnitId;
use warren_core::model::state::Tested;
use warren_core::settings::Settings;
use warren_core::view::View;
use warren_unit::config::Condition;

/// Begins the name of a condition, and of an assertion.
pub const CONDITION: &str = "Condition";
/// The same of an assertion.
pub const ASSERT: &str = "Assert";

/// The conditions that stood in the way: of those with `|` none if one of them was met.
fn those_unmet<'c>(
    list: &'c [Condition],
    tested: &'c [Tested],
) -> impl Iterator<Item = &'c Condition> {
    let each = || list.iter().zip(tested);
    let one_will_do = each().any(|(condition, tested)| condition.trigger && *tested == Tested::Met);
    each()
        .filter(move |(condition, _)| !(condition.trigger && one_will_do))
        .filter(|(_, tested)| **tested == Tested::Unmet)
        .map(|(condition, _)| condition)
}

/// Those of `list` that stood in the way, as `PREFIXPathExists=/file`.
pub fn words(prefix: &str, list: &[Condition], tested: &[Tested]) -> Vec<String> {
    those_unmet(list, tested).map(|condition| word(prefix, condition)).collect()
}

fn word(prefix: &str, condition: &Condition) -> String {
    let Condition { kind, trigger, negate, parameter } = condition;
    let (any, not) = (if *trigger { "|" } else { "" }, if *negate { "!" } else { "" });
    format!("{prefix}{}={any}{not}{parameter}", kind.as_str())
}

/// Why the log says that a unit was skipped: the condition that decided, or those of which one would have done.
/// `None` if no condition was looked at that was not met.
pub fn why_skipped(view: &View, settings: &Settings, unit: UnitId) -> Option<String> {
    let history = view.run(unit).history.as_deref()?;
    let tested = &history.account.as_deref()?.conditions;
    let compiled = settings.compile(view.definition(unit));
    let list = &compiled.section.conditions;
    skip_words(list, tested)
}

fn skip_words(list: &[Condition], tested: &[Tested]) -> Option<String> {
    let decided = those_unmet(list, tested).find(|condition| !condition.trigger);
    if let Some(condition) = decided {
        return Some(format!("of an unmet condition check ({})", word(CONDITION, condition)));
    }
    let any = words(CONDITION, list, tested);
    (!any.is_empty()).then(|| format!("no trigger condition checks were met ({})", any.join(", ")))
}

/// The assertions that were not met at the last start.
pub fn asserts(view: &View, settings: &Settings, unit: UnitId) -> Vec<String> {
    let account = view.run(unit).history.as_ref().and_then(|history| history.account.as_deref());
    let Some(account) = account else { return Vec::new() };
    let compiled = settings.compile(view.definition(unit));
    words(ASSERT, &compiled.section.asserts, &account.asserts)
}

#[cfg(test)]
mod tests {
    use warren_unit::config::ConditionKind;

    use super::*;

    /// Conditions as `!` and `|` before a path, and what came of each as a letter.
    fn check(list: &[&str], tested: &str, expected: &str) {
        let condition = |text: &&str| Condition {
            kind: ConditionKind::PathExists,
            trigger: text.contains('|'),
            negate: text.contains('!'),
            parameter: text.trim_start_matches(['|', '!']).into(),
        };
        let list: Vec<Condition> = list.iter().map(condition).collect();
        let tested: Vec<Tested> = tested
            .chars()
            .map(|letter| match letter {
                'y' => Tested::Met,
                'n' => Tested::Unmet,
                _ => Tested::Untested,
            })
            .collect();
        assert_eq!(skip_words(&list, &tested).unwrap_or_default(), expected, "{list:?}");
    }

    #[test]
    fn the_condition_that_decided_is_named() {
        check(&["/a", "/b"], "yn", "of an unmet condition check (ConditionPathExists=/b)");
        check(&["!/a", "/b"], "n-", "of an unmet condition check (ConditionPathExists=!/a)");
        check(&["|/a", "/b"], "nn", "of an unmet condition check (ConditionPathExists=/b)");
        check(
            &["|/a", "|!/b"],
            "nn",
            "no trigger condition checks were met (ConditionPathExists=|/a, ConditionPathExists=|!/b)",
        );
        check(&["|/a", "|/b"], "ny", "");
        check(&[], "", "");
    }
}
