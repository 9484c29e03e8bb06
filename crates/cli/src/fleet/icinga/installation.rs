//! What the installed program brings to every configuration: constants, and the files that it loads
//! though nothing includes them.

use std::fs;
use std::path::{Path, PathBuf};

use warren_fleet::eval::Addition;
use warren_fleet::schema::icinga::Version;

/// The constants of Debian's package ("Language Reference", "Icinga 2 Specific Constants").
pub(super) const CONSTANTS: [(&str, &str); 24] = [
    ("Configuration.PrefixDir", "/usr"),
    ("Configuration.SysconfDir", "/etc"),
    ("Configuration.ConfigDir", "/etc/icinga2"),
    ("Configuration.ZonesDir", "/etc/icinga2/zones.d"),
    ("Configuration.LocalStateDir", "/var"),
    ("Configuration.RunDir", "/run"),
    ("Configuration.InitRunDir", "/run/icinga2"),
    ("Configuration.LogDir", "/var/log/icinga2"),
    ("Configuration.DataDir", "/var/lib/icinga2"),
    ("Configuration.CacheDir", "/var/cache/icinga2"),
    ("Configuration.SpoolDir", "/var/spool/icinga2"),
    ("Configuration.PkgDataDir", "/usr/share/icinga2"),
    ("Configuration.IncludeConfDir", "/usr/share/icinga2/include"),
    ("Configuration.RunAsUser", "nagios"),
    ("Configuration.RunAsGroup", "nagios"),
    ("Configuration.StatePath", "/var/lib/icinga2/icinga2.state"),
    ("Configuration.ModAttrPath", "/var/lib/icinga2/modified-attributes.conf"),
    ("Configuration.ObjectsPath", "/var/cache/icinga2/icinga2.debug"),
    ("Configuration.VarsPath", "/var/cache/icinga2/icinga2.vars"),
    ("Configuration.PidPath", "/run/icinga2/icinga2.pid"),
    ("Configuration.ApiBindHost", "::"),
    ("Configuration.ApiBindPort", "5665"),
    ("System.ApplicationVersion", "r2.13.6-1"),
    ("System.PlatformKernel", "Linux"),
];

/// What the installed program says of this host.
pub(super) fn host() -> [(&'static str, String); 5] {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |path: &str| read(path).trim().to_owned();
    let release = read("/etc/os-release");
    let field = |name: &str| {
        let value = release.lines().find_map(|line| line.strip_prefix(name));
        value.unwrap_or("Unknown").trim_matches(['"', '\'']).to_owned()
    };
    [
        ("NodeName", line("/proc/sys/kernel/hostname")),
        ("System.PlatformName", field("NAME=")),
        ("System.PlatformVersion", field("VERSION=")),
        ("System.PlatformKernelVersion", line("/proc/sys/kernel/osrelease")),
        ("System.PlatformArchitecture", std::env::consts::ARCH.to_owned()),
    ]
}

/// Which version a template library is of: one that is newer than 2.13 needs a template that the
/// program brings since 2.14. The first directory that has a library counts.
pub(super) fn library_version(search: &[PathBuf]) -> Version {
    let texts = search.iter().filter_map(|at| fs::read(at.join("command-icinga.conf")).ok());
    let needed = b"\"ifw-api-check-command\"";
    let is_newer = texts
        .into_iter()
        .next()
        .is_some_and(|text| text.windows(needed.len()).any(|part| part == needed));
    if is_newer { Version::V2_16 } else { Version::V2_13 }
}

/// What `icinga2 daemon` loads after its main file: the directories of zones in `ZonesDir`, packages
/// that the API or the Director keep below `DataDir`, and what other hosts of the cluster sent.
/// ("Distributed Monitoring", "Configuration Sync"; the order is that of 2.13.6.)
pub(super) fn additions(zones: &Path, data: &Path) -> Vec<Addition> {
    let of_zone = |directory: &Path, zone: &str, is_copy: bool| Addition {
        path: directory.join(zone).to_string_lossy().into_owned(),
        zone: Some(zone.to_owned()),
        is_copy,
        package: is_copy.then(|| "_cluster".to_owned()),
    };
    let mut out: Vec<Addition> =
        directories(zones).iter().map(|zone| of_zone(zones, zone, false)).collect();
    let packages = data.join("api/packages");
    for package in directories(&packages) {
        let path = packages.join(&package).join("include.conf");
        if path.exists() {
            let path = path.to_string_lossy().into_owned();
            out.push(Addition { path, zone: None, is_copy: false, package: Some(package) });
        }
    }
    let copies = data.join("api/zones");
    let is_copy = |zone: &String| !copies.join(zone).join(".authoritative").exists();
    let copied = directories(&copies).into_iter().filter(is_copy);
    out.extend(copied.map(|zone| of_zone(&copies, &zone, true)));
    out
}

/// The directories in a directory, sorted, but for hidden ones; none if it cannot be read.
fn directories(of: &Path) -> Vec<String> {
    let entries = fs::read_dir(of).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.path().is_dir());
    let names = directories.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_says_its_version() {
        let scratch = warren_testkit::Scratch::new("icinga-library");
        let [old, new, none] = ["old", "new", "none"].map(|name| {
            fs::create_dir(scratch.path(name)).expect("a directory");
            scratch.path(name)
        });
        scratch.write("old/command-icinga.conf", "import \"icinga-check-command\"\n");
        scratch.write("new/command-icinga.conf", "import \"ifw-api-check-command\"\n");
        let check = |search: &[&PathBuf], expected| {
            let search: Vec<PathBuf> = search.iter().map(|path| (*path).clone()).collect();
            assert_eq!(library_version(&search), expected, "{search:?}");
        };
        check(&[&old], Version::V2_13);
        check(&[&none, &new, &old], Version::V2_16);
        check(&[&old, &new], Version::V2_13);
        check(&[], Version::V2_13);
    }

    #[test]
    fn zones_come_before_packages_and_packages_before_copies() {
        let scratch = warren_testkit::Scratch::new("icinga-additions");
        for path in [
            "zones.d/sat/a.conf",
            "zones.d/master/sub/a.conf",
            "zones.d/.git/a.conf",
            "data/api/packages/director/include.conf",
            "data/api/packages/empty/stage/a.conf",
            "data/api/zones/far/_etc/a.conf",
            "data/api/zones/own/.authoritative",
        ] {
            let path = scratch.path(path);
            fs::create_dir_all(path.parent().expect("it is below")).expect("a directory");
            fs::write(path, "").expect("a file");
        }
        scratch.write("zones.d/beside.conf", "");
        let found = additions(&scratch.path("zones.d"), &scratch.path("data"));
        let shown: Vec<String> = found
            .iter()
            .map(|a| format!("{:?} {:?} {}", a.zone, a.package, a.is_copy).replace("Some", ""))
            .collect();
        assert_eq!(
            shown,
            [
                "(\"master\") None false",
                "(\"sat\") None false",
                "None (\"director\") false",
                "(\"far\") (\"_cluster\") true",
            ]
        );
        assert!(additions(Path::new("/nonexistent"), Path::new("/nonexistent")).is_empty());
    }
}
