//! Which rule made a unit, in words.

use warren_wire::control::RuleOrigin;

/// `apply Service "web" (/etc/warren/fleet.d/rules.conf:3)`; before it the setting of another unit
/// that the rule made, where that is what changes this one: `WantedBy= of shop-web.service, made by `.
pub(crate) fn rule(origin: &RuleOrigin) -> String {
    let setting = match &origin.through {
        Some(through) => format!("{}= of {}, made by ", through.setting, through.unit),
        None => String::new(),
    };
    format!("{setting}{} ({}:{})", origin.rule, origin.path, origin.line)
}

/// ` for Container 'shop' (/etc/...:7)`
pub(crate) fn target(origin: &RuleOrigin) -> String {
    match &origin.target {
        Some(target) => format!(" for {} ({}:{})", target.name, target.path, target.line),
        None => String::new(),
    }
}

/// The rule and what it made something for.
pub(crate) fn origin(origin: &RuleOrigin) -> String {
    format!("{}{}", rule(origin), target(origin))
}
