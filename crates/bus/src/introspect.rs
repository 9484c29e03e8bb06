//! Introspection text, made from the tables of properties and methods.

use crate::methods::{
    JOB_METHODS, MANAGER_METHODS, Methods, PROCESS_METHODS, SCOPE_METHODS, SERVICE_METHODS,
    UNIT_METHODS, arguments,
};
use crate::properties::{self, Emits, Interface, job, manager};
use std::fmt::Write as _;
use std::sync::OnceLock;
use warren_unit::UnitType;

/// Signals of an interface: name and arguments in the notation of the method tables.
type Signals = &'static [(&'static str, &'static str)];

const MANAGER_SIGNALS: Signals = &[
    ("UnitNew", "s:id o:unit"),
    ("UnitRemoved", "s:id o:unit"),
    ("JobNew", "u:id o:job s:unit"),
    ("JobRemoved", "u:id o:job s:unit s:result"),
    ("StartupFinished", "t:firmware t:loader t:kernel t:initrd t:userspace t:total"),
    ("UnitFilesChanged", ""),
    ("Reloading", "b:active"),
];

const HEAD: &str = "\
<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"
\"https://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">
<node>
 <interface name=\"org.freedesktop.DBus.Peer\">
  <method name=\"Ping\"/>
  <method name=\"GetMachineId\">
   <arg type=\"s\" name=\"machine_uuid\" direction=\"out\"/>
  </method>
 </interface>
 <interface name=\"org.freedesktop.DBus.Introspectable\">
  <method name=\"Introspect\">
   <arg name=\"xml_data\" type=\"s\" direction=\"out\"/>
  </method>
 </interface>
 <interface name=\"org.freedesktop.DBus.Properties\">
  <method name=\"Get\">
   <arg name=\"interface_name\" direction=\"in\" type=\"s\"/>
   <arg name=\"property_name\" direction=\"in\" type=\"s\"/>
   <arg name=\"value\" direction=\"out\" type=\"v\"/>
  </method>
  <method name=\"GetAll\">
   <arg name=\"interface_name\" direction=\"in\" type=\"s\"/>
   <arg name=\"props\" direction=\"out\" type=\"a{sv}\"/>
  </method>
  <method name=\"Set\">
   <arg name=\"interface_name\" direction=\"in\" type=\"s\"/>
   <arg name=\"property_name\" direction=\"in\" type=\"s\"/>
   <arg name=\"value\" direction=\"in\" type=\"v\"/>
  </method>
  <signal name=\"PropertiesChanged\">
   <arg type=\"s\" name=\"interface_name\"/>
   <arg type=\"a{sv}\" name=\"changed_properties\"/>
   <arg type=\"as\" name=\"invalidated_properties\"/>
  </signal>
 </interface>
";

/// The text of an object that has children only. Names of children are path labels.
pub fn parent(children: impl Iterator<Item = String>) -> String {
    let mut out = HEAD.to_owned();
    for child in children {
        write_line(&mut out, format_args!(" <node name=\"{child}\"/>"));
    }
    out + "</node>\n"
}

/// The manager's text.
pub fn manager() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut out = HEAD.to_owned();
        interface(&mut out, &manager::MANAGER_INTERFACE, &[MANAGER_METHODS], MANAGER_SIGNALS);
        out + " <node name=\"unit\"/>\n <node name=\"job\"/>\n</node>\n"
    })
}

/// The text of the log control object.
pub fn log_control() -> String {
    let mut out = HEAD.to_owned();
    interface(&mut out, &manager::LOG_CONTROL_INTERFACE, &[], &[]);
    out + "</node>\n"
}

/// The text of every job.
pub fn job() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut out = HEAD.to_owned();
        interface(&mut out, &job::JOB_INTERFACE, &[JOB_METHODS], &[]);
        out + "</node>\n"
    })
}

/// The text of every unit of a type.
pub fn unit(unit_type: UnitType) -> &'static str {
    static TEXTS: [OnceLock<String>; UnitType::ALL.len()] =
        [const { OnceLock::new() }; UnitType::ALL.len()];
    TEXTS[unit_type as usize].get_or_init(|| {
        let mut out = HEAD.to_owned();
        for one in properties::interfaces(unit_type) {
            let signals = if unit_type == UnitType::Scope { SCOPE_SIGNALS } else { &[] };
            let signals = if one.name == properties::UNIT_INTERFACE { &[] } else { signals };
            interface(&mut out, one, &unit_methods(unit_type, one.name), signals);
        }
        out + "</node>\n"
    })
}

/// Methods that are answered by the end of the connection.
const NO_REPLY: [&str; 1] = ["Reexecute"];

const SCOPE_SIGNALS: Signals = &[("RequestStop", "")];

/// The methods of one interface of units.
pub fn unit_methods(unit_type: UnitType, interface: &str) -> Vec<Methods> {
    use UnitType::*;
    match unit_type {
        _ if interface == properties::UNIT_INTERFACE => vec![UNIT_METHODS],
        Service => vec![SERVICE_METHODS, PROCESS_METHODS],
        Scope => vec![SCOPE_METHODS, PROCESS_METHODS],
        Socket | Mount | Swap | Slice => vec![PROCESS_METHODS],
        _ => Vec::new(),
    }
}

fn write_line(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("writing to a String does not fail");
}

fn interface(out: &mut String, interface: &Interface, methods: &[Methods], signals: Signals) {
    write_line(out, format_args!(" <interface name=\"{}\">", interface.name));
    for one in interface.properties() {
        property(out, one, interface.name);
    }
    for one in methods.iter().flat_map(|table| table.iter()) {
        write_line(out, format_args!("  <method name=\"{}\">", one.name));
        arguments_of(out, one.input, " direction=\"in\"");
        arguments_of(out, one.output, " direction=\"out\"");
        if NO_REPLY.contains(&one.name) {
            let name = "org.freedesktop.DBus.Method.NoReply";
            write_line(out, format_args!("   <annotation name=\"{name}\" value=\"true\"/>"));
        }
        out.push_str("  </method>\n");
    }
    for (name, list) in signals {
        write_line(out, format_args!("  <signal name=\"{name}\">"));
        arguments_of(out, list, "");
        out.push_str("  </signal>\n");
    }
    out.push_str(" </interface>\n");
}

fn arguments_of(out: &mut String, list: &'static str, direction: &str) {
    for (signature, name) in arguments(list) {
        write_line(out, format_args!("   <arg type=\"{signature}\" name=\"{name}\"{direction}/>"));
    }
}

fn property(out: &mut String, property: &properties::Property, interface: &str) {
    let is_manager = !interface.starts_with("org.freedesktop.systemd1.")
        || interface == manager::MANAGER_INTERFACE.name;
    let writable = is_manager && manager::WRITABLE.contains(&property.name);
    let access = if writable { "readwrite" } else { "read" };
    let (name, signature) = (property.name, property.signature);
    let emits = match property.emits {
        Emits::Value => {
            let line = format_args!(
                "  <property name=\"{name}\" type=\"{signature}\" access=\"{access}\"/>"
            );
            return write_line(out, line);
        }
        Emits::Invalidates => "invalidates",
        Emits::Const => "const",
        Emits::Never => "false",
    };
    write_line(
        out,
        format_args!(
            "  <property name=\"{name}\" type=\"{signature}\" access=\"{access}\">\n   <annotation \
         name=\"org.freedesktop.DBus.Property.EmitsChangedSignal\" value=\"{emits}\"/>\n  \
         </property>"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_balanced() {
        let texts = UnitType::ALL.iter().map(|t| unit(*t)).chain([manager(), job()]);
        for text in texts {
            for tag in ["node", "interface", "method", "property", "signal"] {
                let opened = text.matches(&format!("<{tag} ")).count()
                    + text.matches(&format!("<{tag}>")).count();
                let closed = text.matches(&format!("</{tag}>")).count();
                let lines = text.lines().filter(|line| line.contains(&format!("<{tag} ")));
                let empty = lines.filter(|line| line.ends_with("/>")).count();
                assert_eq!(opened, closed + empty, "{tag}");
            }
        }
    }

    #[test]
    fn parents_name_their_children_only() {
        let text = parent(["a_2eservice".to_owned()].into_iter());
        assert!(text.ends_with(" <node name=\"a_2eservice\"/>\n</node>\n"));
    }
}
