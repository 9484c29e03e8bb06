//! Warrener's own schema: machines, containers and groups are targets; units are products.
//!
//! The settings of units are systemd's, by their names, from the table of `warren-unit`; there is
//! no other list of them.

use warren_unit::UnitType;
use warren_unit::settings::{SETTINGS, Section, Setting};

use super::field;
use crate::types::{Kind, Naming, Rules, Type};

/// Types that rules can be applied to.
const TARGETS: [&str; 3] = ["Container", "Machine", "Group"];

/// The attribute of a product that is no unit of its own but a drop-in, with the unit that it is for.
pub const DROP_IN_OF: &str = "drop_in_of";

/// Sections of a unit that attributes are looked for in, in this order.
fn sections(unit_type: UnitType) -> [Section; 3] {
    [Section::Type(unit_type), Section::Unit, Section::Install]
}

/// The section that a setting of a unit type belongs to.
pub fn section_of(unit_type: UnitType, name: &str) -> Option<Section> {
    sections(unit_type).into_iter().find(|section| section.setting(name).is_some())
}

/// The types, in the order in which objects are made.
pub fn types() -> Vec<Type> {
    let mut out = vec![
        target("Machine", "machine", 0, None),
        target("Container", "container", 0, None),
        target("Group", "group", 1, Some("Container")),
    ];
    let products =
        UnitType::ALL.into_iter().filter(|t| !matches!(t, UnitType::Device | UnitType::Scope));
    out.extend(products.map(product));
    out
}

fn target(name: &str, variable: &'static str, stage: u8, members: Option<&'static str>) -> Type {
    let fields = [
        ("display_name", Kind::Text),
        ("groups", Kind::Array),
        ("name", Kind::Text),
        ("type", Kind::ReadOnly),
        ("vars", Kind::Dictionary),
    ];
    Type {
        name: name.to_owned(),
        base: None,
        fields: fields.into_iter().map(|(name, kind)| field(name, kind)).collect(),
        rules: Some(Rules { stage, members, variable, ..Rules::default() }),
    }
}

/// A unit type: `Service`, with all settings that its sections have.
fn product(unit_type: UnitType) -> Type {
    let mut fields = vec![
        field("container", Kind::Name("Container")),
        field(DROP_IN_OF, Kind::Text),
        field("group", Kind::Name("Group")),
        field("machine", Kind::Name("Machine")),
        field("name", Kind::Text),
        field("type", Kind::ReadOnly),
        field("vars", Kind::Dictionary),
    ];
    let mut names: Vec<&str> = SETTINGS.iter().map(|setting: &Setting| setting.name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let mut found = sections(unit_type).into_iter().filter_map(|s| s.setting(name));
        if let Some(id) = found.next() {
            fields.push(field(name, Kind::Setting(id)));
        }
    }
    let rules = Rules {
        stage: 2,
        naming: Naming::Prefixed,
        targets: TARGETS.to_vec(),
        members: None,
        variable: unit_type.suffix(),
        target_names: vec![("Container", "container"), ("Machine", "machine"), ("Group", "group")],
    };
    Type { name: unit_type.section().to_owned(), base: None, fields, rules: Some(rules) }
}
