//! How far the manager is on its way to readiness.

use warren_core::model::time::Moment;
use warren_unit::Scope;

/// What readiness waits for.
pub(crate) struct Startup {
    /// When this process began.
    pub(crate) began: Moment,
    /// Clients can connect: only then is readiness announced.
    pub(crate) is_serving: bool,
    /// The first transaction was requested.
    pub(crate) is_first_unit_requested: bool,
    /// Readiness was announced to whoever started this manager.
    pub(crate) is_ready_announced: bool,
}

impl Startup {
    /// It has just begun.
    pub(crate) fn new(began: Moment) -> Startup {
        Startup {
            began,
            is_serving: false,
            is_first_unit_requested: false,
            is_ready_announced: false,
        }
    }

    /// Clients can connect and the first transaction is under way: readiness waits only for units.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_serving && self.is_first_unit_requested
    }
}

/// Whether readiness is announced. That of a user's manager does not wait for all that the user wants started: a login
/// waits for it, and is not to be held up by a service of `default.target`. systemd does the same since version 236.
pub(crate) fn is_ready(scope: Scope, has_jobs: bool, is_basic_target_active: bool) -> bool {
    !has_jobs || scope == Scope::User && is_basic_target_active
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_does_not_wait_for_the_users_services() {
        for scope in [Scope::System, Scope::User] {
            assert!(is_ready(scope, false, false) && is_ready(scope, false, true));
            assert!(!is_ready(scope, true, false));
        }
        assert!(is_ready(Scope::User, true, true));
        assert!(!is_ready(Scope::System, true, true));
    }
}
