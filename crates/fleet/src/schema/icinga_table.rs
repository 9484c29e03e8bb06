//! The object types and attributes of Icinga 2 ("Object Types"): what each attribute takes, what it
//! is when nobody sets it, and what it must be. What a program can be asked was asked of 2.13.6:
//! the attributes of an object of each type, and which values it refuses
//! (`tests/schema.rs` asks again). Types that need a database or certificates to be checked
//! are from the documentation alone.

use super::check::Check;
use super::shape::{BASIC_AUTH, ENVIRONMENT, METRICS, PERMISSIONS, POINTS};
use crate::types::{Kind, Unset};

/// An attribute.
#[derive(Clone, Copy)]
pub(super) struct Attribute {
    pub name: &'static str,
    pub kind: Kind,
    pub required: bool,
    pub unset: Unset,
    pub check: Check,
}

const fn of(name: &'static str, kind: Kind, unset: Unset) -> Attribute {
    Attribute { name, kind, required: false, unset, check: Check::Nothing }
}

const fn text(name: &'static str) -> Attribute {
    of(name, Kind::Text, Unset::Text(""))
}

const fn number(name: &'static str, unset: f64) -> Attribute {
    of(name, Kind::Number, Unset::Number(unset))
}

const fn boolean(name: &'static str, unset: bool) -> Attribute {
    of(name, Kind::Boolean, Unset::Boolean(unset))
}

const fn array(name: &'static str) -> Attribute {
    of(name, Kind::Array, Unset::Null)
}

const fn dictionary(name: &'static str) -> Attribute {
    of(name, Kind::Dictionary, Unset::Null)
}

const fn any(name: &'static str) -> Attribute {
    of(name, Kind::Any, Unset::Null)
}

const fn function(name: &'static str) -> Attribute {
    Attribute { required: true, ..of(name, Kind::Function, Unset::Own) }
}

/// The name of an object.
const fn name(name: &'static str, of_type: &'static str) -> Attribute {
    of(name, Kind::Name(of_type), Unset::Text(""))
}

/// Names of objects.
const fn names(name: &'static str, of_type: &'static str) -> Attribute {
    of(name, Kind::Names(of_type), Unset::Null)
}

impl Attribute {
    const fn required(self) -> Attribute {
        Attribute { required: true, ..self }
    }

    /// What it is when nobody sets it.
    const fn or(self, text: &'static str) -> Attribute {
        Attribute { unset: Unset::Text(text), ..self }
    }

    /// It is the object's name when nobody sets it.
    const fn or_name(self) -> Attribute {
        Attribute { unset: Unset::ItsName, ..self }
    }

    /// It is something of the program's own when nobody sets it.
    const fn or_own(self) -> Attribute {
        Attribute { unset: Unset::Own, required: true, ..self }
    }

    /// It is an empty array when nobody sets it.
    const fn or_none(self) -> Attribute {
        Attribute { unset: Unset::NoItems, ..self }
    }

    const fn check(self, check: Check) -> Attribute {
        Attribute { check, ..self }
    }
}

const SEVERITIES: (&str, &[&str]) =
    ("Invalid severity specified: $", &["debug", "notice", "information", "warning", "critical"]);

const FACILITIES: (&str, &[&str]) = (
    "Invalid facility specified.",
    &[
        "LOG_AUTH",
        "LOG_AUTHPRIV",
        "LOG_CRON",
        "LOG_DAEMON",
        "LOG_FTP",
        "LOG_KERN",
        "LOG_LOCAL0",
        "LOG_LOCAL1",
        "LOG_LOCAL2",
        "LOG_LOCAL3",
        "LOG_LOCAL4",
        "LOG_LOCAL5",
        "LOG_LOCAL6",
        "LOG_LOCAL7",
        "LOG_LPR",
        "LOG_MAIL",
        "LOG_NEWS",
        "LOG_SYSLOG",
        "LOG_USER",
        "LOG_UUCP",
    ],
);

const ROTATIONS: (&str, &[&str]) =
    ("Rotation method '$' is invalid.", &["HOURLY", "DAILY", "WEEKLY", "MONTHLY"]);

const SOCKETS: (&str, &[&str]) = ("Socket type '$' is invalid.", &["unix", "tcp"]);

/// Of all objects.
pub(super) const COMMON: &[Attribute] = &[
    of("__name", Kind::ReadOnly, Unset::FullName),
    of("name", Kind::Text, Unset::ItsName),
    of("package", Kind::Text, Unset::Text("_etc")),
    of("templates", Kind::Array, Unset::Null),
    of("type", Kind::ReadOnly, Unset::Null),
    of("zone", Kind::Name("Zone"), Unset::Text("")),
];

/// What hosts and services have in common.
const CHECKABLE: &[Attribute] = &[
    text("action_url"),
    name("check_command", "CheckCommand").required(),
    number("check_interval", 300.0).check(Check::AboveZero),
    name("check_period", "TimePeriod"),
    any("check_timeout"),
    name("command_endpoint", "Endpoint").check(Check::Endpoint),
    text("display_name").or_name(),
    boolean("enable_active_checks", true),
    boolean("enable_event_handler", true),
    boolean("enable_flapping", false),
    boolean("enable_notifications", true),
    boolean("enable_passive_checks", true),
    boolean("enable_perfdata", true),
    name("event_command", "EventCommand"),
    array("flapping_ignore_states"),
    number("flapping_threshold", 0.0),
    number("flapping_threshold_high", 30.0),
    number("flapping_threshold_low", 25.0),
    text("icon_image"),
    text("icon_image_alt"),
    number("max_check_attempts", 3.0).check(Check::AboveZero),
    text("notes"),
    text("notes_url"),
    number("retry_interval", 60.0).check(Check::AboveZero),
    boolean("volatile", false),
];

/// What commands have in common.
const COMMAND: &[Attribute] = &[
    dictionary("arguments").check(Check::Arguments),
    any("command").check(Check::Command),
    dictionary("env").check(Check::Shape(&ENVIRONMENT)),
    function("execute"),
    number("timeout", 60.0),
    dictionary("vars").check(Check::Vars),
];

/// What connections to databases have in common.
const DATABASE: &[Attribute] = &[
    text("host"),
    number("port", 0.0),
    text("user"),
    text("password"),
    text("database"),
    text("ssl_key"),
    text("ssl_cert"),
    text("ssl_ca"),
    text("table_prefix"),
    text("instance_name"),
    text("instance_description"),
    boolean("enable_ha", false),
    number("failover_timeout", 0.0),
    dictionary("cleanup"),
    array("categories"),
    number("acknowledgements_age", 0.0),
    number("commenthistory_age", 0.0),
    number("contactnotifications_age", 0.0),
    number("contactnotificationmethods_age", 0.0),
    number("downtimehistory_age", 0.0),
    number("eventhandlers_age", 0.0),
    number("externalcommands_age", 0.0),
    number("flappinghistory_age", 0.0),
    number("hostchecks_age", 0.0),
    number("logentries_age", 0.0),
    number("notifications_age", 0.0),
    number("processevents_age", 0.0),
    number("statehistory_age", 0.0),
    number("servicechecks_age", 0.0),
    number("systemcommands_age", 0.0),
];

/// What writers for InfluxDB have in common.
const POINTS_WRITER: &[Attribute] = &[
    boolean("enable_ha", false),
    boolean("enable_send_metadata", false),
    boolean("enable_send_thresholds", false),
    number("flush_interval", 10.0),
    number("flush_threshold", 1024.0),
    text("host").or("127.0.0.1").required(),
    dictionary("host_template").or_own().check(Check::Shape(&POINTS)),
    text("port").or("8086").required(),
    dictionary("service_template").or_own().check(Check::Shape(&POINTS)),
    text("ssl_ca_cert"),
    text("ssl_cert"),
    boolean("ssl_enable", false),
    boolean("ssl_insecure_noverify", false),
    text("ssl_key"),
];

/// The types and their attributes, in the order in which objects are made.
pub(super) const TYPES: &[(&str, &[&[Attribute]])] = &[
    (
        "ApiUser",
        &[&[
            text("client_cn"),
            text("password"),
            text("password_hash"),
            array("permissions").check(Check::Shape(&PERMISSIONS)),
        ]],
    ),
    ("CheckCommand", &[COMMAND]),
    (
        "Dependency",
        &[&[
            name("child_host_name", "Host").required(),
            text("child_service_name").check(Check::Service),
            boolean("disable_checks", false),
            boolean("disable_notifications", true),
            boolean("ignore_soft_states", true),
            name("parent_host_name", "Host").required(),
            text("parent_service_name").check(Check::Service),
            name("period", "TimePeriod"),
            array("states").check(Check::States),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    (
        "Endpoint",
        &[&[text("host"), number("log_duration", 86400.0), text("port").or("5665").required()]],
    ),
    ("EventCommand", &[COMMAND]),
    (
        "Host",
        &[
            CHECKABLE,
            &[
                text("address"),
                text("address6"),
                names("groups", "HostGroup").or_none().required(),
                dictionary("vars").check(Check::Vars),
            ],
        ],
    ),
    (
        "HostGroup",
        &[&[
            text("action_url"),
            text("display_name").or_name(),
            names("groups", "HostGroup"),
            text("notes"),
            text("notes_url"),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    (
        "Notification",
        &[&[
            name("command", "NotificationCommand").required(),
            name("command_endpoint", "Endpoint").check(Check::Endpoint),
            name("host_name", "Host").required(),
            number("interval", 1800.0),
            name("period", "TimePeriod"),
            text("service_name").check(Check::Service),
            array("states").check(Check::States),
            dictionary("times").check(Check::Times),
            array("types").check(Check::Kinds),
            names("user_groups", "UserGroup"),
            names("users", "User"),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    ("NotificationCommand", &[COMMAND]),
    (
        "ScheduledDowntime",
        &[&[
            text("author").required(),
            any("child_options").or("DowntimeNoChildren").check(Check::ChildOptions),
            text("comment").required(),
            number("duration", 0.0),
            boolean("fixed", true),
            name("host_name", "Host").required(),
            dictionary("ranges").required().check(Check::Ranges),
            text("service_name").check(Check::Service),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    (
        "Service",
        &[
            CHECKABLE,
            &[
                names("groups", "ServiceGroup").or_none().required(),
                name("host_name", "Host").required(),
                dictionary("vars").check(Check::Vars),
            ],
        ],
    ),
    (
        "ServiceGroup",
        &[&[
            text("action_url"),
            text("display_name").or_name(),
            names("groups", "ServiceGroup"),
            text("notes"),
            text("notes_url"),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    (
        "TimePeriod",
        &[&[
            text("display_name").or_name(),
            names("excludes", "TimePeriod").or_none().required(),
            names("includes", "TimePeriod").or_none().required(),
            boolean("prefer_includes", true),
            dictionary("ranges").check(Check::Ranges),
            function("update"),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    (
        "User",
        &[&[
            text("display_name").or_name(),
            text("email"),
            boolean("enable_notifications", true),
            names("groups", "UserGroup").or_none().required(),
            text("pager"),
            name("period", "TimePeriod"),
            array("states").check(Check::States),
            array("types").check(Check::Kinds),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    (
        "UserGroup",
        &[&[
            text("display_name").or_name(),
            names("groups", "UserGroup"),
            dictionary("vars").check(Check::Vars),
        ]],
    ),
    (
        "Zone",
        &[&[names("endpoints", "Endpoint"), boolean("global", false), name("parent", "Zone")]],
    ),
    (
        "Comment",
        &[&[
            text("author").required(),
            number("entry_time", 0.0),
            number("entry_type", 1.0),
            number("expire_time", 0.0),
            name("host_name", "Host").required(),
            boolean("persistent", false),
            text("service_name").check(Check::Service),
            boolean("sticky", false),
            text("text").required(),
        ]],
    ),
    (
        "Downtime",
        &[&[
            text("author").required(),
            text("authoritative_zone"),
            text("comment").required(),
            text("config_owner"),
            text("config_owner_hash"),
            number("duration", 0.0),
            number("end_time", 0.0).required().check(Check::AboveZero),
            number("entry_time", 0.0),
            boolean("fixed", false),
            name("host_name", "Host").required(),
            text("parent"),
            text("scheduled_by"),
            text("service_name").check(Check::Service),
            number("start_time", 0.0).check(Check::AboveZero),
            text("triggered_by"),
        ]],
    ),
    (
        "ApiListener",
        &[&[
            text("cert_path"),
            text("key_path"),
            text("ca_path"),
            text("ticket_salt"),
            text("crl_path"),
            text("bind_host"),
            number("bind_port", 0.0),
            boolean("accept_config", false),
            boolean("accept_commands", false),
            number("max_anonymous_clients", 0.0),
            text("cipher_list"),
            text("tls_protocolmin"),
            number("tls_handshake_timeout", 0.0),
            number("connect_timeout", 0.0),
            array("access_control_allow_origin"),
            boolean("access_control_allow_credentials", false),
            text("access_control_allow_headers"),
            text("access_control_allow_methods"),
            text("environment"),
        ]],
    ),
    ("CheckerComponent", &[&[number("concurrent_checks", 0.0)]]),
    ("CheckResultReader", &[&[text("spool_dir")]]),
    (
        "CompatLogger",
        &[&[text("log_dir"), text("rotation_method").or("HOURLY").check(Check::OneOf(&ROTATIONS))]],
    ),
    (
        "ElasticsearchWriter",
        &[&[
            text("ca_path"),
            text("cert_path"),
            boolean("enable_ha", false),
            boolean("enable_send_perfdata", false),
            boolean("enable_tls", false),
            number("flush_interval", 10.0),
            number("flush_threshold", 1024.0),
            text("host").or("127.0.0.1").required(),
            text("index").or("icinga2").required(),
            boolean("insecure_noverify", false),
            text("key_path"),
            text("password"),
            text("port").or("9200").required(),
            text("username"),
        ]],
    ),
    ("ExternalCommandListener", &[&[text("command_path")]]),
    (
        "FileLogger",
        &[&[
            text("path").required(),
            text("severity").or("information").check(Check::OneOf(&SEVERITIES)),
        ]],
    ),
    (
        "GelfWriter",
        &[&[
            text("ca_path"),
            text("cert_path"),
            boolean("enable_ha", false),
            boolean("enable_send_perfdata", false),
            boolean("enable_tls", false),
            text("host").or("127.0.0.1"),
            boolean("insecure_noverify", false),
            text("key_path"),
            text("port").or("12201"),
            text("source").or("icinga2"),
        ]],
    ),
    (
        "GraphiteWriter",
        &[&[
            boolean("enable_ha", false),
            boolean("enable_send_metadata", false),
            boolean("enable_send_thresholds", false),
            text("host").or("127.0.0.1"),
            text("host_name_template")
                .or("icinga2.$host.name$.host.$host.check_command$")
                .check(Check::Macros),
            text("port").or("2003"),
            text("service_name_template")
                .or("icinga2.$host.name$.services.$service.name$.$service.check_command$")
                .check(Check::Macros),
        ]],
    ),
    (
        "IcingaApplication",
        &[&[
            boolean("enable_notifications", true),
            boolean("enable_event_handlers", true),
            boolean("enable_flapping", true),
            boolean("enable_host_checks", true),
            boolean("enable_service_checks", true),
            boolean("enable_perfdata", true),
            dictionary("vars").check(Check::Vars),
            text("environment"),
        ]],
    ),
    (
        "IcingaDB",
        &[&[
            text("host"),
            number("port", 0.0),
            text("path"),
            text("password"),
            boolean("enable_tls", false),
            text("cert_path"),
            text("key_path"),
            text("ca_path"),
            text("crl_path"),
            text("cipher_list"),
            text("tls_protocolmin"),
            boolean("insecure_noverify", false),
            number("connect_timeout", 0.0),
        ]],
    ),
    (
        "IdoMysqlConnection",
        &[
            DATABASE,
            &[
                text("socket_path"),
                boolean("enable_ssl", false),
                text("ssl_capath"),
                text("ssl_cipher"),
            ],
        ],
    ),
    ("IdoPgsqlConnection", &[DATABASE, &[text("ssl_mode")]]),
    (
        "InfluxdbWriter",
        &[
            POINTS_WRITER,
            &[
                dictionary("basic_auth").check(Check::Shape(&BASIC_AUTH)),
                text("database").or("icinga2").required(),
                text("password"),
                text("username"),
            ],
        ],
    ),
    (
        "Influxdb2Writer",
        &[
            POINTS_WRITER,
            &[
                text("auth_token").required(),
                text("bucket").required(),
                text("organization").required(),
            ],
        ],
    ),
    (
        "LivestatusListener",
        &[&[
            text("bind_host").or("127.0.0.1"),
            text("bind_port").or("6558"),
            text("compat_log_path"),
            text("socket_path"),
            text("socket_type").or("unix").check(Check::OneOf(&SOCKETS)),
        ]],
    ),
    ("NotificationComponent", &[&[boolean("enable_ha", true)]]),
    (
        "OpenTsdbWriter",
        &[&[
            boolean("enable_generic_metrics", false),
            boolean("enable_ha", false),
            text("host").or("127.0.0.1"),
            dictionary("host_template").check(Check::Shape(&METRICS)),
            text("port").or("4242"),
            dictionary("service_template").check(Check::Shape(&METRICS)),
        ]],
    ),
    (
        "PerfdataWriter",
        &[&[
            boolean("enable_ha", false),
            text("host_format_template").check(Check::Macros),
            text("host_perfdata_path"),
            text("host_temp_path"),
            number("rotation_interval", 30.0),
            text("service_format_template").check(Check::Macros),
            text("service_perfdata_path"),
            text("service_temp_path"),
        ]],
    ),
    (
        "StatusDataWriter",
        &[&[text("objects_path"), text("status_path"), number("update_interval", 15.0)]],
    ),
    (
        "SyslogLogger",
        &[&[
            text("facility").or("LOG_USER").check(Check::OneOrNumber(&FACILITIES)),
            text("severity").or("information").check(Check::OneOf(&SEVERITIES)),
        ]],
    ),
];

/// Of all objects: how they are, not how they are to be.
pub(super) const STATE: &[Attribute] = &[
    boolean("active", false),
    any("extensions"),
    number("ha_mode", 0.0),
    any("original_attributes"),
    boolean("paused", true),
    boolean("pause_called", false),
    boolean("resume_called", false),
    boolean("start_called", false),
    boolean("state_loaded", false),
    boolean("stop_called", false),
    number("version", 0.0),
];

/// The same, of objects of some types.
pub(super) const STATES: &[(&[&str], &[Attribute])] = &[
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
            any("host"),
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
