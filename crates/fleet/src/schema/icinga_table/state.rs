//! What objects are, not what they are to be: attributes that the program sets while it runs. A
//! dump has them as they are before anything ran.

use super::{Attribute, any, array, boolean, dictionary, number, of};
use crate::types::{Kind, Unset};

/// Of all objects: how they are, not how they are to be.
pub(in crate::schema) const STATE: &[Attribute] = &[
    boolean("active", false),
    any("extensions"),
    number("ha_mode", 0.0),
    any("original_attributes"),
    of("source_location", Kind::Dictionary, Unset::Location),
    boolean("paused", true),
    boolean("pause_called", false),
    boolean("resume_called", false),
    boolean("start_called", false),
    boolean("state_loaded", false),
    boolean("stop_called", false),
    number("version", 0.0),
];

/// The same, of objects of some types.
pub(in crate::schema) const STATES: &[(&[&str], &[Attribute])] = &[
    (
        &["Host", "Service"],
        &[
            number("acknowledgement", 0.0),
            number("acknowledgement_expiry", 0.0),
            number("acknowledgement_last_change", 0.0),
            number("check_attempt", 1.0),
            number("downtime_depth", 0.0),
            any("executions"),
            boolean("flapping", false),
            number("flapping_buffer", 0.0),
            number("flapping_current", 0.0),
            number("flapping_index", 0.0),
            number("flapping_last_change", 0.0),
            number("flapping_last_state", 3.0),
            boolean("force_next_check", false),
            boolean("force_next_notification", false),
            boolean("handled", false),
            number("last_check", -1.0),
            any("last_check_result"),
            number("last_check_started", 0.0),
            number("last_hard_state_change", 0.0),
            number("last_hard_state_raw", 3.0),
            number("last_hard_states_raw", 9999.0),
            boolean("last_reachable", true),
            number("last_soft_states_raw", 9999.0),
            number("last_state_change", 0.0),
            number("last_state_raw", 3.0),
            number("last_state_type", 0.0),
            number("last_state_unreachable", 0.0),
            number("next_check", 0.0),
            number("next_update", 300.0),
            any("pending_executions"),
            number("previous_state_change", 0.0),
            boolean("problem", false),
            number("severity", 16.0),
            number("state_before_suppression", 0.0),
            number("state_raw", 3.0),
            number("state_type", 0.0),
            number("suppressed_notifications", 0.0),
        ],
    ),
    (
        &["Host"],
        &[
            number("last_hard_state", 1.0),
            number("last_state", 1.0),
            number("last_state_down", 0.0),
            number("last_state_up", 0.0),
            number("state", 1.0),
        ],
    ),
    (
        &["Service"],
        &[
            number("last_hard_state", 3.0),
            number("last_state", 3.0),
            number("last_state_critical", 0.0),
            number("last_state_ok", 0.0),
            number("last_state_unknown", 0.0),
            number("last_state_warning", 0.0),
            number("state", 3.0),
            dictionary("host").or_owner(),
        ],
    ),
    (
        &["Notification"],
        &[
            number("last_notification", 0.0),
            number("last_problem_notification", 0.0),
            number("next_notification", 0.0),
            boolean("no_more_notifications", false),
            number("notification_number", 0.0),
            array("notified_problem_users").or_none(),
            number("suppressed_notifications", 0.0),
        ],
    ),
    (
        &["Endpoint"],
        &[
            boolean("connected", false),
            boolean("connecting", false),
            number("messages_received_per_second", 0.0),
            number("local_log_position", 0.0),
            number("remote_log_position", 0.0),
            boolean("syncing", false),
            number("capabilities", 0.0),
            number("icinga_version", 0.0),
        ],
    ),
    (
        &["Downtime"],
        &[
            number("legacy_id", 0.0),
            number("remove_time", 0.0),
            number("trigger_time", 0.0),
            array("triggers").or_none(),
            boolean("was_cancelled", false),
        ],
    ),
    (&["Comment"], &[number("legacy_id", 0.0), number("remove_time", 0.0)]),
    (
        &["TimePeriod"],
        &[boolean("is_inside", true), any("segments"), any("valid_begin"), any("valid_end")],
    ),
    (&["User"], &[number("last_notification", 0.0)]),
    (&["GelfWriter", "GraphiteWriter", "OpenTsdbWriter"], &[boolean("connected", false)]),
];
