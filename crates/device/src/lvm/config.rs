//! What lvm2's configuration says about activation, asked of lvm2 itself: it merges its files,
//! profiles and built-in defaults, and knows how its system id is made.

use std::collections::BTreeSet;

use super::LvmId;
use super::text::{TextFault, Value, parse};

/// Arguments of `lvm` that print what [`Settings::parse`] reads; lvmconfig(8).
pub const QUESTION: [&str; 9] = [
    "lvmconfig",
    "--typeconfig",
    "full",
    "global/event_activation",
    "devices/use_devicesfile",
    "devices/devicesfile",
    "devices/scan_lvs",
    "devices/multipath_component_detection",
    "devices/multipath_wwids_file",
];

/// Where multipath(8) keeps its list, and lvm2 looks for it by default.
const WWIDS_FILE: &str = "/etc/multipath/wwids";

/// Settings that decide which groups are activated here; lvm.conf(5). `local/extra_system_ids` is
/// not among them: lvm2 lets such groups be used, but does not activate them by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `global/event_activation`.
    pub event_activation: bool,
    /// `devices/scan_lvs`: physical volumes on logical volumes count.
    pub scan_lvs: bool,
    /// Name of the devices file, when lvm2 uses one.
    pub devices_file: Option<String>,
    /// Path of the list of disks that are paths of multipath maps, when lvm2 goes by one.
    pub wwids_file: Option<String>,
}

impl Settings {
    /// Reads the answer to [`QUESTION`]; what it does not name has lvm2's default.
    pub fn parse(answer: &[u8]) -> Result<Settings, TextFault> {
        let section = parse(answer)?;
        let on = |name: &str, default| match section.get(name) {
            Some(Value::Number(number)) => *number != 0,
            _ => default,
        };
        let file = section.text("devicesfile").filter(|name| is_file_name(name));
        let wwids = section.text("multipath_wwids_file").unwrap_or(WWIDS_FILE);
        let wwids = Some(wwids).filter(|path| path.starts_with('/'));
        Ok(Settings {
            event_activation: on("event_activation", true),
            scan_lvs: on("scan_lvs", false),
            devices_file: file.filter(|_| on("use_devicesfile", false)).map(str::to_owned),
            wwids_file: wwids
                .filter(|_| on("multipath_component_detection", true))
                .map(str::to_owned),
        })
    }
}

/// lvm2 looks for the file in one directory only.
fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.starts_with('.')
}

/// Reads what `lvm systemid` prints: `system ID: NAME`, with nothing behind it when there is none.
pub fn parse_system_id(answer: &str) -> Option<String> {
    let line = answer.lines().find_map(|line| line.trim().strip_prefix("system ID:"))?;
    Some(line.trim().to_owned()).filter(|id| !id.is_empty())
}

/// PVIDs of a devices file; lvmdevices(8). A line without one lists a device that is no PV yet.
pub fn parse_devices_file(text: &str) -> BTreeSet<LvmId> {
    let lines = text.lines().filter(|line| line.starts_with("IDTYPE="));
    let field = |line: &str| {
        line.split_whitespace().find_map(|word| LvmId::parse(word.strip_prefix("PVID=")?))
    };
    lines.filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_as_lvm2_prints_them() {
        let text = b"event_activation=0\nuse_devicesfile=1\ndevicesfile=\"system.devices\"\n\
            scan_lvs=1\nmultipath_component_detection=1\n\
            multipath_wwids_file=\"/etc/multipath/wwids\"\n";
        let expected = Settings {
            event_activation: false,
            scan_lvs: true,
            devices_file: Some("system.devices".into()),
            wwids_file: Some("/etc/multipath/wwids".into()),
        };
        assert_eq!(Settings::parse(text), Ok(expected));
        let none = Settings::parse(b"use_devicesfile=0\ndevicesfile=\"system.devices\"");
        let none = none.expect("good text");
        assert_eq!((none.event_activation, none.scan_lvs, none.devices_file), (true, false, None));
        let out =
            Settings::parse(b"use_devicesfile=1\ndevicesfile=\"../../x\"").expect("good text");
        assert_eq!(
            (out.devices_file.as_deref(), out.wwids_file.as_deref()),
            (None, Some(WWIDS_FILE))
        );
        let none = Settings::parse(b"multipath_wwids_file=\"\"").expect("good text");
        assert_eq!(none.wwids_file, None);
        let off = b"multipath_component_detection=0\nmultipath_wwids_file=\"/etc/multipath/wwids\"";
        assert_eq!(Settings::parse(off).expect("good text").wwids_file, None);
        assert!(Settings::parse(b"rubbish").is_err());
    }

    #[test]
    fn the_system_id() {
        assert_eq!(parse_system_id("  system ID: vm\n"), Some("vm".to_owned()));
        for none in ["  system ID: \n", "", "WARNING: x\n"] {
            assert_eq!(parse_system_id(none), None, "{none}");
        }
    }

    #[test]
    fn the_devices_file_lists_pvids() {
        let pvid = "a".repeat(32);
        let text = format!(
            "# LVM uses devices listed in this file.\nHASH=1\nVERSION=1.1.2\n\
             IDTYPE=sys_wwid IDNAME=naa.5 DEVNAME=/dev/sda PVID={pvid} PART=1\n\
             IDTYPE=devname IDNAME=/dev/sdb DEVNAME=/dev/sdb PVID=.\n"
        );
        assert_eq!(parse_devices_file(&text), [LvmId::parse(&pvid).expect("an id")].into());
    }
}
