//! Messages about a shutdown: what follows, and who requested it.

use crate::base::power_action;
use crate::base::process_name::client;
use warren_core::graph::Graph;
use warren_core::model::ids::UnitId;
use warren_core::model::reason::Cause;
use warren_core::protocol::request::Asker;
use warren_core::view::View;
use warren_init::protocol::control::PowerAction;

/// The first of the real-time signals (signal(7)).
const RTMIN: i32 = 34;

/// Who had an end begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AskedBy {
    /// A client.
    Client(Asker),
    /// Who sent a signal to process 1.
    Signal(i32),
    /// A setting of a unit.
    Unit(UnitId),
    /// The plan, which was told before.
    Plan,
}

impl AskedBy {
    /// `, requested by root (pid 812 warren)`; nothing where that was told before.
    pub fn text(self, graph: &Graph) -> String {
        let by = match self {
            AskedBy::Client(asker) => client(asker),
            AskedBy::Signal(number) if number < RTMIN => format!("signal {number} to process 1"),
            AskedBy::Signal(number) => format!("signal RTMIN+{} to process 1", number - RTMIN),
            AskedBy::Unit(unit) => format!("{}", graph.name(unit)),
            AskedBy::Plan => return String::new(),
        };
        format!(", requested by {by}")
    }
}

/// What follows the end that is under way, as far as it is known; none if none is under way.
pub(crate) fn follows(view: &View) -> Option<PowerAction> {
    power_action::from_code(view.totals.ending).or_else(|| {
        let goal = view.goal().filter(|_| view.is_going_down())?;
        Some(match view.graph.name(goal).as_str() {
            "poweroff.target" => PowerAction::PowerOff,
            "reboot.target" => PowerAction::Reboot,
            "halt.target" => PowerAction::Halt,
            "kexec.target" => PowerAction::Kexec,
            "soft-reboot.target" => PowerAction::SoftReboot,
            _ => PowerAction::Exit(0),
        })
    })
}

/// The client whose job an end of files comes from.
pub(crate) fn asker_of_goal(view: &View) -> Option<AskedBy> {
    match view.job(view.goal()?)?.reason.cause {
        Cause::Request { uid, pid } => Some(AskedBy::Client(Asker { uid, pid })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_named_by_user_and_process() {
        let own = std::process::id();
        let text = client(Asker { uid: 0, pid: own });
        assert!(text.starts_with(&format!("root (pid {own} ")), "{text}");
        assert_eq!(client(Asker { uid: 7, pid: Asker::OUTSIDE }), "user 7 from outside");
        assert_eq!(client(Asker::default()), "the manager");
        let signal = AskedBy::Signal(RTMIN + 4).text(&Graph::default());
        assert_eq!(signal, ", requested by signal RTMIN+4 to process 1");
        assert_eq!(AskedBy::Plan.text(&Graph::default()), "");
    }
}
