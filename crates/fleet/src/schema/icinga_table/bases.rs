//! The types that others extend, as `typeof(...).base` of 2.13.6 says (`tests/schema.rs` asks again);
//! there are no objects of them.

/// A type and the one it extends; `Object` is none of them.
pub(in crate::schema) const BASES: &[(&str, &str)] = &[
    ("Application", "ConfigObject"),
    ("Checkable", "CustomVarObject"),
    ("Command", "CustomVarObject"),
    ("ConfigObject", "Object"),
    ("CustomVarObject", "ConfigObject"),
    ("DbConnection", "ConfigObject"),
    ("InfluxdbCommonWriter", "ConfigObject"),
    ("Logger", "ConfigObject"),
    ("StreamLogger", "Logger"),
];

/// Who extends what is not said by whether there are `vars`.
pub(in crate::schema) const EXTENDS: &[(&str, &[&str])] = &[
    ("Application", &["IcingaApplication"]),
    ("Checkable", &["Host", "Service"]),
    ("Command", &["CheckCommand", "EventCommand", "NotificationCommand"]),
    ("DbConnection", &["IdoMysqlConnection", "IdoPgsqlConnection"]),
    ("InfluxdbCommonWriter", &["Influxdb2Writer", "InfluxdbWriter"]),
    ("Logger", &["SyslogLogger"]),
    ("StreamLogger", &["FileLogger"]),
];
