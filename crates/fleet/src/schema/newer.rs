//! What Icinga 2 has got since 2.13, up to 2.16: from its documentation ("Object Types", "Template
//! Library") and its change log alone. No program of these versions was asked.

use super::field;
use super::icinga_table::{Attribute, ELASTICSEARCH_TAGS, JOURNALD, WINDOWS_LOG};
use crate::types::{Field, Kind, Rules, Type};

/// Templates that the program brings since 2.14.
pub(super) const BEFORE: &str = "template CheckCommand \"ifw-api-check-command\" { }\n";

/// New attributes of types that were there before.
const ATTRIBUTES: [(&str, &str, Kind); 2] = [
    ("ApiListener", "http_response_headers", Kind::Dictionary),
    ("Dependency", "redundancy_group", Kind::Text),
];

/// Adds the types and attributes.
pub(super) fn add(types: &mut Vec<Type>) {
    let like = |types: &[Type], name: &str| types.iter().find(|t| t.name == name).cloned();
    for (of_type, name, kind) in ATTRIBUTES {
        let known = types.iter_mut().filter(|known| known.name == of_type);
        known.for_each(|known| known.fields.push(field(name, kind)));
    }
    for known in types.iter_mut().filter(|known| known.name == "ElasticsearchWriter") {
        known.fields.extend(ELASTICSEARCH_TAGS.iter().map(of));
    }
    // They stand behind the types that others extend, so that no number of a type changes.
    let syslog = like(types, "SyslogLogger").expect("it is one of the types");
    for (name, attributes) in [("JournaldLogger", JOURNALD), ("WindowsEventLogLogger", WINDOWS_LOG)]
    {
        let mut fields: Vec<Field> = attributes.iter().map(of).collect();
        let is_common = |field: &&Field| !["facility", "severity"].contains(&field.name.as_str());
        fields.extend(syslog.fields.iter().filter(is_common).cloned());
        types.push(Type { name: name.to_owned(), fields, ..syslog.clone() });
    }
    let writer = like(types, "OpenTsdbWriter").expect("it is one of the types");
    let own = ["host", "port", "host_template", "service_template", "enable_generic_metrics"];
    let fields = writer.fields.iter().filter(|field| !own.contains(&field.name.as_str()));
    let rules = writer.rules.clone().map(|rules| Rules { takes_any: true, ..rules });
    let fields = fields.cloned().collect();
    types.push(Type { name: "OTLPMetricsWriter".to_owned(), fields, rules, ..writer });
}

fn of(attribute: &Attribute) -> Field {
    Field {
        unset: attribute.unset,
        check: attribute.check,
        required: attribute.required,
        ..field(attribute.name, attribute.kind)
    }
}
