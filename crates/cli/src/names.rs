//! How units are named on the command line, as with systemctl(1).

use warren_unit::{UnitName, UnitType};

/// Appends `.service` to a name without a suffix that units have.
pub fn with_suffix(name: &str) -> String {
    let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
    match suffix.and_then(UnitType::from_suffix) {
        Some(_) => name.to_owned(),
        None if name.contains('/') => name.to_owned(),
        None => format!("{name}.service"),
    }
}

/// The unit that a word stands for: a path is that of a mount or a device, a name without a suffix a service's.
pub fn unit(word: &str) -> String {
    of_path(word).unwrap_or_else(|| with_suffix(word))
}

fn of_path(word: &str) -> Option<String> {
    let is_device = ["/dev/", "/sys/"].iter().any(|directory| word.starts_with(directory));
    let unit_type = if is_device { UnitType::Device } else { UnitType::Mount };
    let name = word.starts_with('/').then(|| UnitName::for_path(word, unit_type).ok())?;
    name.map(|name| name.as_str().to_owned())
}

/// The process that a word stands for, where it may: names of units have a letter.
pub fn process(word: &str) -> Option<u32> {
    word.parse().ok()
}

/// Whether it may stand for several units: no name has such a character.
pub fn is_pattern(word: &str) -> bool {
    word.contains(['*', '?', '['])
}

/// What stands for units: a pattern as it is, else [`unit`].
pub fn pattern(word: &str) -> String {
    if is_pattern(word) { word.to_owned() } else { unit(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_their_suffix() {
        let names = ["a", "a.socket", "a.b", "a@b.c", "/x/y"].map(with_suffix);
        assert_eq!(names, ["a.service", "a.socket", "a.b.service", "a@b.c.service", "/x/y"]);
    }

    #[test]
    fn paths_are_of_mounts_and_devices() {
        let words =
            ["a", "/", "/srv/a-b/", "/dev/disk/by-id/x", "/sys/class/net/lo", "/dev", "x/y"];
        let devices = ["dev-disk-by\\x2did-x.device", "sys-class-net-lo.device"];
        let [disk, net] = devices;
        assert_eq!(
            words.map(unit),
            ["a.service", "-.mount", "srv-a\\x2db.mount", disk, net, "dev.mount", "x/y"]
        );
    }

    #[test]
    fn numbers_are_of_processes() {
        assert_eq!(["7", "7a", "-7", "4294967296"].map(process), [Some(7), None, None, None]);
    }
}
