//! The object types and attributes of Icinga 2 ("Object Types"): what each attribute takes, what it
//! is when nobody sets it, and what it must be. What a program can be asked was asked of 2.13.6:
//! the attributes of an object of each type, and which values it refuses
//! (`tests/schema.rs` asks again). Types that need a database or certificates to be checked
//! are from the documentation alone.

mod bases;
mod defaults;
mod state;

pub(super) use bases::{BASES, EXTENDS};
pub(super) use state::{STATE, STATES};

use super::expectation::Check;
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

/// A whole number.
const fn integer(name: &'static str, unset: f64) -> Attribute {
    of(name, Kind::Integer, Unset::Number(unset))
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

    /// It is the object that this one belongs to.
    const fn or_owner(self) -> Attribute {
        Attribute { unset: Unset::Owner, ..self }
    }

    /// It is an empty array when nobody sets it.
    const fn or_none(self) -> Attribute {
        Attribute { unset: Unset::NoItems, ..self }
    }

    /// It is below a directory of `Configuration` when nobody sets it.
    const fn below(self, directory: &'static str, path: &'static str) -> Attribute {
        Attribute { unset: Unset::Below(directory, path), ..self }
    }

    const fn when_unset(self, unset: Unset) -> Attribute {
        Attribute { unset, ..self }
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
    of("__name", Kind::Text, Unset::FullName),
    of("name", Kind::Text, Unset::ItsName),
    of("package", Kind::Text, Unset::Text("_etc")),
    of("templates", Kind::Array, Unset::Null),
    of("type", Kind::ReadOnly, Unset::Null),
    of("zone", Kind::Name("Zone"), Unset::Text("")),
];

// Attributes that several types have.

const VARS: Attribute = dictionary("vars").check(Check::Vars);
const DISPLAY_NAME: Attribute = text("display_name").or_name();
const HOST_NAME: Attribute = name("host_name", "Host").required();
const SERVICE_NAME: Attribute = text("service_name").check(Check::Service);
const COMMAND_ENDPOINT: Attribute = name("command_endpoint", "Endpoint").check(Check::Endpoint);
const ENABLE_NOTIFICATIONS: Attribute = boolean("enable_notifications", true);
const ENABLE_PERFDATA: Attribute = boolean("enable_perfdata", true);
const PERIOD: Attribute = name("period", "TimePeriod");
const ON_STATES: Attribute = array("states").check(Check::States);
const ON_KINDS: Attribute = array("types").check(Check::Kinds);
const AUTHOR: Attribute = text("author").required();
const COMMENT: Attribute = text("comment").required();
const DURATION: Attribute = number("duration", 0.0);
const ENTRY_TIME: Attribute = number("entry_time", 0.0);
const ENABLE_HA: Attribute = boolean("enable_ha", false);
const LOCAL_HOST_NEEDED: Attribute = text("host").or("127.0.0.1").required();
const LOCAL_HOST: Attribute = text("host").or("127.0.0.1");
const HOST: Attribute = text("host");
const PORT: Attribute = number("port", 0.0);
const PASSWORD: Attribute = text("password");
const USERNAME: Attribute = text("username");
const ENVIRONMENT_NAME: Attribute = text("environment");
const FLUSH_INTERVAL: Attribute = integer("flush_interval", 10.0);
const FLUSH_THRESHOLD: Attribute = integer("flush_threshold", 1024.0);
const SEND_METADATA: Attribute = boolean("enable_send_metadata", false);
const SEND_THRESHOLDS: Attribute = boolean("enable_send_thresholds", false);
const SEND_PERFDATA: Attribute = boolean("enable_send_perfdata", false);
const SSL_CERT: Attribute = text("ssl_cert");
const SSL_KEY: Attribute = text("ssl_key");
const SOCKET_PATH: Attribute = text("socket_path");
const SEVERITY: Attribute = text("severity").or("information").check(Check::OneOf(&SEVERITIES));
const ACTION_URL: Attribute = text("action_url");
const NOTES: Attribute = text("notes");
const NOTES_URL: Attribute = text("notes_url");
const CA_PATH: Attribute = text("ca_path");
const CERT_PATH: Attribute = text("cert_path");
const KEY_PATH: Attribute = text("key_path");
const CRL_PATH: Attribute = text("crl_path");
const CIPHER_LIST: Attribute = text("cipher_list");
const TLS_PROTOCOLMIN: Attribute = text("tls_protocolmin");
const CONNECT_TIMEOUT: Attribute = number("connect_timeout", 0.0);
const ENABLE_TLS: Attribute = boolean("enable_tls", false);
const INSECURE_NOVERIFY: Attribute = boolean("insecure_noverify", false);

/// What hosts and services have in common.
const CHECKABLE: &[Attribute] = &[
    ACTION_URL,
    name("check_command", "CheckCommand").required(),
    number("check_interval", 300.0).check(Check::AboveZero),
    name("check_period", "TimePeriod"),
    any("check_timeout"),
    COMMAND_ENDPOINT,
    DISPLAY_NAME,
    boolean("enable_active_checks", true),
    boolean("enable_event_handler", true),
    boolean("enable_flapping", false),
    ENABLE_NOTIFICATIONS,
    boolean("enable_passive_checks", true),
    ENABLE_PERFDATA,
    name("event_command", "EventCommand"),
    array("flapping_ignore_states"),
    number("flapping_threshold", 0.0),
    number("flapping_threshold_high", 30.0),
    number("flapping_threshold_low", 25.0),
    text("icon_image"),
    text("icon_image_alt"),
    integer("max_check_attempts", 3.0).check(Check::AboveZero),
    NOTES,
    NOTES_URL,
    number("retry_interval", 60.0).check(Check::AboveZero),
    boolean("volatile", false),
];

/// What commands have in common.
const COMMAND: &[Attribute] = &[
    dictionary("arguments").check(Check::Arguments),
    any("command").check(Check::Command),
    dictionary("env").check(Check::Shape(&ENVIRONMENT)),
    function("execute"),
    integer("timeout", 60.0),
    VARS,
];

/// What connections to databases have in common.
const DATABASE: &[Attribute] = &[
    HOST,
    PORT,
    text("user"),
    PASSWORD,
    text("database"),
    SSL_KEY,
    SSL_CERT,
    text("ssl_ca"),
    text("table_prefix"),
    text("instance_name"),
    text("instance_description"),
    ENABLE_HA,
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
    ENABLE_HA,
    SEND_METADATA,
    SEND_THRESHOLDS,
    FLUSH_INTERVAL,
    FLUSH_THRESHOLD,
    LOCAL_HOST_NEEDED,
    dictionary("host_template")
        .when_unset(defaults::HOST_POINTS)
        .required()
        .check(Check::Shape(&POINTS)),
    text("port").or("8086").required(),
    dictionary("service_template")
        .when_unset(defaults::SERVICE_POINTS)
        .required()
        .check(Check::Shape(&POINTS)),
    text("ssl_ca_cert"),
    SSL_CERT,
    boolean("ssl_enable", false),
    boolean("ssl_insecure_noverify", false),
    SSL_KEY,
];

/// The types and their attributes, in the order in which objects are made.
pub(super) const TYPES: &[(&str, &[&[Attribute]])] = &[
    (
        "ApiUser",
        &[&[
            text("client_cn"),
            PASSWORD,
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
            PERIOD,
            ON_STATES,
            VARS,
        ]],
    ),
    ("Endpoint", &[&[HOST, number("log_duration", 86400.0), text("port").or("5665").required()]]),
    ("EventCommand", &[COMMAND]),
    (
        "Host",
        &[
            CHECKABLE,
            &[
                text("address"),
                text("address6"),
                names("groups", "HostGroup").or_none().required(),
                VARS,
            ],
        ],
    ),
    (
        "HostGroup",
        &[&[ACTION_URL, DISPLAY_NAME, names("groups", "HostGroup"), NOTES, NOTES_URL, VARS]],
    ),
    (
        "Notification",
        &[&[
            name("command", "NotificationCommand").required(),
            COMMAND_ENDPOINT,
            HOST_NAME,
            number("interval", 1800.0),
            PERIOD,
            SERVICE_NAME,
            ON_STATES,
            dictionary("times").check(Check::Times),
            ON_KINDS,
            names("user_groups", "UserGroup"),
            names("users", "User"),
            VARS,
        ]],
    ),
    ("NotificationCommand", &[COMMAND]),
    (
        "ScheduledDowntime",
        &[&[
            AUTHOR,
            any("child_options").or("DowntimeNoChildren").check(Check::ChildOptions),
            COMMENT,
            DURATION,
            boolean("fixed", true),
            HOST_NAME,
            dictionary("ranges").required().check(Check::Ranges),
            SERVICE_NAME,
            VARS,
        ]],
    ),
    (
        "Service",
        &[CHECKABLE, &[names("groups", "ServiceGroup").or_none().required(), HOST_NAME, VARS]],
    ),
    (
        "ServiceGroup",
        &[&[ACTION_URL, DISPLAY_NAME, names("groups", "ServiceGroup"), NOTES, NOTES_URL, VARS]],
    ),
    (
        "TimePeriod",
        &[&[
            DISPLAY_NAME,
            names("excludes", "TimePeriod").or_none().required(),
            names("includes", "TimePeriod").or_none().required(),
            boolean("prefer_includes", true),
            dictionary("ranges").check(Check::Ranges),
            function("update"),
            VARS,
        ]],
    ),
    (
        "User",
        &[&[
            DISPLAY_NAME,
            text("email"),
            ENABLE_NOTIFICATIONS,
            names("groups", "UserGroup").or_none().required(),
            text("pager"),
            PERIOD,
            ON_STATES,
            ON_KINDS,
            VARS,
        ]],
    ),
    ("UserGroup", &[&[DISPLAY_NAME, names("groups", "UserGroup"), VARS]]),
    (
        "Zone",
        &[&[names("endpoints", "Endpoint"), boolean("global", false), name("parent", "Zone")]],
    ),
    (
        "Comment",
        &[&[
            AUTHOR,
            ENTRY_TIME,
            integer("entry_type", 1.0),
            number("expire_time", 0.0),
            HOST_NAME,
            boolean("persistent", false),
            SERVICE_NAME,
            boolean("sticky", false),
            text("text").required(),
        ]],
    ),
    (
        "Downtime",
        &[&[
            AUTHOR,
            text("authoritative_zone"),
            COMMENT,
            text("config_owner"),
            text("config_owner_hash"),
            DURATION,
            number("end_time", 0.0).required().check(Check::AboveZero),
            ENTRY_TIME,
            boolean("fixed", false),
            HOST_NAME,
            text("parent"),
            text("scheduled_by"),
            SERVICE_NAME,
            number("start_time", 0.0).check(Check::AboveZero),
            text("triggered_by"),
        ]],
    ),
    (
        "ApiListener",
        &[&[
            CERT_PATH,
            KEY_PATH,
            CA_PATH,
            text("ticket_salt"),
            CRL_PATH,
            text("bind_host"),
            number("bind_port", 0.0),
            boolean("accept_config", false),
            boolean("accept_commands", false),
            number("max_anonymous_clients", 0.0),
            CIPHER_LIST,
            TLS_PROTOCOLMIN,
            number("tls_handshake_timeout", 0.0),
            CONNECT_TIMEOUT,
            array("access_control_allow_origin"),
            boolean("access_control_allow_credentials", false),
            text("access_control_allow_headers"),
            text("access_control_allow_methods"),
            ENVIRONMENT_NAME,
        ]],
    ),
    ("CheckerComponent", &[&[integer("concurrent_checks", 0.0)]]),
    ("CheckResultReader", &[&[text("spool_dir").below("DataDir", "/spool/checkresults/")]]),
    (
        "CompatLogger",
        &[&[
            text("log_dir").below("LogDir", "/compat"),
            text("rotation_method").or("HOURLY").check(Check::OneOf(&ROTATIONS)),
        ]],
    ),
    (
        "ElasticsearchWriter",
        &[&[
            CA_PATH,
            CERT_PATH,
            ENABLE_HA,
            SEND_PERFDATA,
            ENABLE_TLS,
            FLUSH_INTERVAL,
            FLUSH_THRESHOLD,
            LOCAL_HOST_NEEDED,
            text("index").or("icinga2").required(),
            INSECURE_NOVERIFY,
            KEY_PATH,
            PASSWORD,
            text("port").or("9200").required(),
            USERNAME,
        ]],
    ),
    ("ExternalCommandListener", &[&[text("command_path").below("InitRunDir", "/cmd/icinga2.cmd")]]),
    ("FileLogger", &[&[text("path").required(), SEVERITY]]),
    (
        "GelfWriter",
        &[&[
            CA_PATH,
            CERT_PATH,
            ENABLE_HA,
            SEND_PERFDATA,
            ENABLE_TLS,
            LOCAL_HOST,
            INSECURE_NOVERIFY,
            KEY_PATH,
            text("port").or("12201"),
            text("source").or("icinga2"),
        ]],
    ),
    (
        "GraphiteWriter",
        &[&[
            ENABLE_HA,
            SEND_METADATA,
            SEND_THRESHOLDS,
            LOCAL_HOST,
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
            ENABLE_NOTIFICATIONS,
            boolean("enable_event_handlers", true),
            boolean("enable_flapping", true),
            boolean("enable_host_checks", true),
            boolean("enable_service_checks", true),
            ENABLE_PERFDATA,
            VARS,
            ENVIRONMENT_NAME,
        ]],
    ),
    (
        "IcingaDB",
        &[&[
            HOST,
            PORT,
            text("path"),
            PASSWORD,
            integer("db_index", 0.0),
            ENABLE_TLS,
            CERT_PATH,
            KEY_PATH,
            CA_PATH,
            CRL_PATH,
            CIPHER_LIST,
            TLS_PROTOCOLMIN,
            INSECURE_NOVERIFY,
            CONNECT_TIMEOUT,
        ]],
    ),
    (
        "IdoMysqlConnection",
        &[
            DATABASE,
            &[SOCKET_PATH, boolean("enable_ssl", false), text("ssl_capath"), text("ssl_cipher")],
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
                PASSWORD,
                USERNAME,
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
            text("compat_log_path").below("LogDir", "/compat"),
            SOCKET_PATH.below("InitRunDir", "/cmd/livestatus"),
            text("socket_type").or("unix").check(Check::OneOf(&SOCKETS)),
        ]],
    ),
    ("NotificationComponent", &[&[boolean("enable_ha", true)]]),
    (
        "OpenTsdbWriter",
        &[&[
            boolean("enable_generic_metrics", false),
            ENABLE_HA,
            LOCAL_HOST,
            dictionary("host_template")
                .when_unset(Unset::Entries(&[]))
                .check(Check::Shape(&METRICS)),
            text("port").or("4242"),
            dictionary("service_template")
                .when_unset(Unset::Entries(&[]))
                .check(Check::Shape(&METRICS)),
        ]],
    ),
    (
        "PerfdataWriter",
        &[&[
            ENABLE_HA,
            text("host_format_template").or(defaults::HOST_FORMAT).check(Check::Macros),
            text("host_perfdata_path").below("SpoolDir", "/perfdata/host-perfdata"),
            text("host_temp_path").below("SpoolDir", "/tmp/host-perfdata"),
            number("rotation_interval", 30.0),
            text("service_format_template").or(defaults::SERVICE_FORMAT).check(Check::Macros),
            text("service_perfdata_path").below("SpoolDir", "/perfdata/service-perfdata"),
            text("service_temp_path").below("SpoolDir", "/tmp/service-perfdata"),
        ]],
    ),
    (
        "StatusDataWriter",
        &[&[
            text("objects_path").below("CacheDir", "/objects.cache"),
            text("status_path").below("CacheDir", "/status.dat"),
            number("update_interval", 15.0),
        ]],
    ),
    (
        "SyslogLogger",
        &[&[text("facility").or("LOG_USER").check(Check::OneOrNumber(&FACILITIES)), SEVERITY]],
    ),
];

/// Of ElasticsearchWriter, since 2.14.
pub(super) const ELASTICSEARCH_TAGS: &[Attribute] =
    &[dictionary("host_tags_template"), dictionary("service_tags_template")];

/// Of JournaldLogger, which only programs with systemd's library have.
pub(super) const JOURNALD: &[Attribute] = &[
    text("facility").or("LOG_USER").check(Check::OneOrNumber(&FACILITIES)),
    text("identifier").or("icinga2"),
    SEVERITY,
];

/// Of WindowsEventLogLogger.
pub(super) const WINDOWS_LOG: &[Attribute] = &[SEVERITY];
