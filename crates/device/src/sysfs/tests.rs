//! Trees made for the test, one device a line.

use super::*;
use crate::index::Holder;

struct Tree(Roots, PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.1);
    }
}

/// `NAME file=text file=text`; the device is `7:N`, N its line. `udev:TEXT` goes to the database,
/// `;` stands for a line's end.
fn tree(test: &str, lines: &[&str]) -> Tree {
    let top = std::env::temp_dir().join(format!("warren-sysfs-{test}-{}", std::process::id()));
    let roots = Roots { sys: top.join("sys"), udev: top.join("udev"), ..Roots::default() };
    fs::create_dir_all(roots.sys.join("class/block")).expect("the tree can be made");
    fs::create_dir_all(roots.udev.join("data")).expect("the tree can be made");
    for (minor, line) in lines.iter().enumerate() {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name");
        let dir = roots.sys.join("devices/pci0/block").join(name);
        fs::create_dir_all(dir.join("holders")).expect("the tree can be made");
        let link = roots.sys.join("class/block").join(name);
        std::os::unix::fs::symlink(format!("../../devices/pci0/block/{name}"), link).expect("made");
        let uevent = format!("MAJOR=7\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE=disk\nDISKSEQ=3\n");
        write(&dir.join("uevent"), &uevent);
        for word in words {
            match word.split_once('=').filter(|_| !word.starts_with("udev:")) {
                Some((file, text)) => write(&dir.join(file), text),
                None => {
                    let text = word.trim_start_matches("udev:").replace(';', "\n");
                    write(&roots.udev.join(format!("data/b7:{minor}")), &text);
                }
            }
        }
    }
    Tree(roots, top)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("the tree can be made");
    fs::write(path, text).expect("the tree can be made");
}

fn facts_of(tree: &Tree, name: &str) -> Facts {
    look(&tree.0, name).expect("the tree can be read").expect("the device is present").facts
}

#[test]
fn a_device_is_found_with_what_udev_knows() {
    let line = "sda size=100 udev:S:disk/by-id/x;L:10;E:DM_MULTIPATH_DEVICE_PATH=1";
    let tree = tree("found", &[line]);
    let found = look(&tree.0, "sda").expect("it can be read").expect("it is there");
    assert_eq!(found.number, DeviceNumber { major: 7, minor: 0 });
    assert_eq!((found.diskseq, found.path.as_str()), (3, "/devices/pci0/block/sda"));
    assert_eq!(found.node, Path::new("/dev/sda"));
    assert_eq!((found.links, found.link_priority), (vec!["disk/by-id/x".to_owned()], 10));
    assert_eq!(found.facts, Facts { multipath_path: true, ..Facts::default() });
    assert_eq!(list(&tree.0).expect("it can be listed"), ["sda"]);
    assert_eq!(look(&tree.0, "sdz").expect("no error"), None);
}

#[test]
fn readiness_is_each_drivers_own() {
    let lines = [
        "loop0 size=10",
        "loop1 size=10 loop/backing_file=/x",
        "md0 size=10 md/array_state=inactive",
        "md1 size=10 md/array_state=active",
        "dm-0 size=10 dm/suspended=1 dm/uuid=LVM-x",
        "dm-1 size=10 dm/suspended=0 dm/uuid=LVM-x",
        "sr0 size=0",
        "sda size=10 udev:E:SYSTEMD_READY=0",
        "sdb size=10 udev:E:DM_UDEV_DISABLE_OTHER_RULES_FLAG=1",
        "loop2p1 size=10 partition=1",
    ];
    let tree = tree("ready", &lines);
    for (name, expected) in [
        ("loop0", Some(NotReady::LoopEmpty)),
        ("loop1", None),
        ("md0", Some(NotReady::ArrayInactive)),
        ("md1", None),
        ("dm-0", Some(NotReady::MapperSuspended)),
        ("dm-1", None),
        ("sr0", Some(NotReady::NoMedium)),
        ("sda", Some(NotReady::Rules)),
        ("sdb", None),
        ("loop2p1", None),
    ] {
        assert_eq!(facts_of(&tree, name).not_ready, expected, "{name}");
    }
    assert_eq!(facts_of(&tree, "dm-1").dm_uuid, "LVM-x");
    assert!(facts_of(&tree, "sdb").others_disabled);
}

#[test]
fn holders_tell_legs_from_paths() {
    let lines = [
        "sda size=1 holders/md0=x",
        "sdb size=1 holders/dm-0=x",
        "sdc size=1 holders/dm-1=x",
        "dm-0 size=1 dm/uuid=mpath-3600",
        "dm-1 size=1 dm/uuid=LVM-x",
    ];
    let tree = tree("holders", &lines);
    for (name, expected) in
        [("sda", Holder::Raid), ("sdb", Holder::Multipath), ("sdc", Holder::None)]
    {
        assert_eq!(facts_of(&tree, name).held_by, expected, "{name}");
    }
}

/// A partition, whose directory lies in its disk's.
fn add_partition(tree: &Tree, disk: &str, number: u32) -> String {
    let name = format!("{disk}{number}");
    let dir = tree.0.sys.join("devices/pci0/block").join(disk).join(&name);
    let uevent = format!("MAJOR=7\nMINOR={}\nDEVNAME={name}\n", 100 + number);
    write(&dir.join("uevent"), &uevent);
    write(&dir.join("partition"), &number.to_string());
    let link = tree.0.sys.join("class/block").join(&name);
    let target = format!("../../devices/pci0/block/{disk}/{name}");
    std::os::unix::fs::symlink(target, link).expect("the tree can be made");
    name
}

#[test]
fn a_partition_of_a_leg_or_path_is_none_of_its_own() {
    let lines = [
        "sda size=1 holders/md0=x",
        "sdb size=1 holders/dm-0=x device/wwid=naa.600a",
        "sdc size=1 device/wwid=naa.600a",
        "sdd size=1 device/wwid=naa.600b",
        "dm-0 size=1 dm/uuid=mpath-3600a",
    ];
    let mut tree = tree("partition", &lines);
    let held = |tree: &Tree, disk: &str, number| {
        let facts = facts_of(tree, &add_partition(tree, disk, number));
        (facts.held_by, facts.multipath_path)
    };
    assert_eq!(held(&tree, "sda", 1), (Holder::Raid, false));
    assert_eq!(held(&tree, "sdb", 1), (Holder::Multipath, false));
    assert_eq!(held(&tree, "sdc", 1), (Holder::None, false), "nobody has said that it is a path");
    tree.0.wwids = parse_wwids("# Multipath wwids, Version : 1.0\n# Valid WWIDs:\n/3600a/\n//\n");
    assert_eq!(held(&tree, "sdc", 2), (Holder::None, true));
    assert_eq!(held(&tree, "sdd", 2), (Holder::None, false));
    assert!(facts_of(&tree, "sdc").multipath_path && !facts_of(&tree, "sdd").multipath_path);
}

#[test]
fn a_name_does_not_lead_out_of_dev() {
    let roots = Roots::default();
    assert_eq!(node(&roots, "mapper/x"), Path::new("/dev/mapper/x"));
    assert_eq!(node(&roots, "../etc/passwd"), Path::new("/dev/null"));
}
