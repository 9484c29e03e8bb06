use super::*;

#[test]
fn every_setting_is_found_in_its_section_only() {
    let sections = UnitType::ALL.map(Section::Type);
    let sections = [Section::Unit, Section::Install].into_iter().chain(sections);
    for section in sections {
        for (i, row) in SETTINGS.iter().enumerate() {
            let want = (section.groups() & row.group.bit() != 0).then_some(Id(i as u16));
            let got = section.setting(row.name);
            // A name that two groups of one section share would be ambiguous.
            match want {
                Some(id) => assert_eq!(got, Some(id), "[{}] {}", section.name(), row.name),
                None if ALIASES.iter().any(|a| a.name == row.name) => {}
                None => assert_ne!(got, Some(Id(i as u16)), "[{}] {}", section.name(), row.name),
            }
        }
    }
}

#[test]
fn aliases_lead_to_their_setting() {
    let service = Section::Type(UnitType::Service);
    let check = |section: Section, name: &str, want: &str| {
        let id = section.setting(name).expect("known");
        assert_eq!(id.setting().name, want);
    };
    check(service, "StartLimitInterval", "StartLimitIntervalSec");
    check(service, "ReadOnlyDirectories", "ReadOnlyPaths");
    check(Section::Unit, "BindTo", "BindsTo");
    assert_eq!(service.setting("Wants"), None);
    assert_eq!(service.setting(""), None);
    assert_eq!(Section::Type(UnitType::Target).setting("Slice"), None);
}
