//! The scanners against the tools whose formats they read: what lvm2, mdadm, cryptsetup, mkfs and
//! sfdisk write, and what they and blkid say of it.
//!
//! Nothing is installed. lvm2 works on loop devices, without device-mapper, in a mount namespace
//! of its own; all else works on files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use warren_device::Uuid;
use warren_device::activate;
use warren_device::file::DeviceFile;
use warren_device::firmware::{FirmwareRaid, Format};
use warren_device::image::{self, Disk};
use warren_device::index::{
    self, Decision, Device, DeviceNumber, Event, Facts, Index, Policy, Start,
};
use warren_device::lvm::area::{self, AreaState, TextKey};
use warren_device::lvm::group::{Part, Standing, Volume, VolumeGroup};
use warren_device::lvm::label::Area;
use warren_device::md::{MdMember, Role, Version};
use warren_device::partition::TableKind;
use warren_device::read::{Image, Scratch};
use warren_device::scan::{Content, Scan, scan};

/// True when each of these programs is there; says so when one is not.
fn have(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|p| !is_installed(p)).collect();
    if !missing.is_empty() {
        not_run(test, &format!("needs {}, not installed", missing.join(", ")));
    }
    missing.is_empty()
}

fn not_run(test: &str, why: &str) {
    warren_testkit::not_run_of(test, why);
}

fn is_installed(program: &str) -> bool {
    let paths = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    paths.iter().any(|dir| Path::new(dir).join(program).exists())
}

/// Runs a shell script; its output, or its errors.
fn shell(script: &str) -> Result<String, String> {
    let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin; export LC_ALL=C PATH; set -eu\n";
    let output = Command::new("sh").args(["-c", &format!("{path}{script}")]).output();
    let output = output.expect("a shell can be started");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn scan_file(path: &Path) -> Scan {
    let file = DeviceFile::open(path).expect("an image can be opened");
    scan(&file, &mut Scratch::default(), &mut |_| false).expect("an image can be read")
}

/// A scan in the words of `blkid -p -o export`.
fn as_blkid(content: &Content) -> String {
    let show = |kind: &str, uuid: &dyn std::fmt::Display, label: &str| {
        let label = if label.is_empty() { String::new() } else { format!(" LABEL={label}") };
        format!("TYPE={kind} UUID={uuid}{label}")
    };
    match content {
        Content::Nothing => String::new(),
        Content::Md(member) => show("linux_raid_member", &member.array, &member.name),
        Content::Partitions(table) => match table.kind {
            TableKind::Gpt(uuid) => format!("PTTYPE=gpt PTUUID={uuid}"),
            TableKind::Mbr(id) => format!("PTTYPE=dos PTUUID={id:08x}"),
        },
        Content::Firmware(found) => format!("TYPE={}", found.format.as_str()),
        Content::Luks(luks) => show("crypto_LUKS", &luks.uuid, &luks.label),
        Content::Lvm(member) => show("LVM2_member", &member.header.id, ""),
        Content::Btrfs(member) => {
            format!(
                "{} UUID_SUB={}",
                show("btrfs", &member.fsid, &member.label),
                member.device_uuid
            )
        }
        Content::Filesystem(f) => show(f.kind.as_str(), &f.uuid, &f.label),
    }
}

/// The same words of what blkid says, in the same order.
fn blkid(path: &Path) -> String {
    let said = shell(&format!("blkid -p -o export {} || true", path.display()));
    let said = said.expect("blkid runs");
    let fields: BTreeMap<&str, &str> = said.lines().filter_map(|l| l.split_once('=')).collect();
    let wanted = ["PTTYPE", "PTUUID", "TYPE", "UUID", "LABEL", "UUID_SUB"];
    let found = wanted.iter().filter_map(|name| Some(format!("{name}={}", fields.get(name)?)));
    found.collect::<Vec<_>>().join(" ")
}

#[test]
fn file_systems_and_tables_are_what_blkid_says() {
    let programs = [
        "blkid",
        "mkfs.ext4",
        "mkfs.ext3",
        "mkfs.ext2",
        "mkfs.xfs",
        "mkfs.vfat",
        "mkswap",
        "mkfs.btrfs",
        "cryptsetup",
        "sfdisk",
    ];
    if !have("file_systems_and_tables_are_what_blkid_says", &programs) {
        return;
    }
    let dir = warren_testkit::Scratch::new("blkid");
    let made = shell(&format!("cd {}\n{MAKE_ALL}", dir.0.display()));
    made.expect("all tools work on files");
    let mut seen = 0;
    for entry in fs::read_dir(&dir.0).expect("the directory is there") {
        let path = entry.expect("it can be listed").path();
        let scan = scan_file(&path);
        assert_eq!(as_blkid(&scan.content), blkid(&path), "{}", path.display());
        let reads = if scan.content == Content::Nothing { 8 } else { 2 };
        assert!(scan.faults.is_empty() && scan.reads == reads, "{}: {scan:?}", path.display());
        seen += 1;
    }
    assert_eq!(seen, 19, "every image was looked at");
}

/// Images of each kind; `old-pv` was a PV before.
const MAKE_ALL: &str = "
luks() { f=$1; shift; echo pass | cryptsetup luksFormat -q --pbkdf pbkdf2 \
    --pbkdf-force-iterations 1000 \"$@\" $f -; }
truncate -s 320M xfs xfs4k
truncate -s 64M empty ext2 ext3 ext4 swap vfat12 vfat16 vfat32 luks1 luks2 gpt mbr
truncate -s 200M btrfs0 btrfs1 btrfs2 btrfs-xxhash btrfs-plain
mkfs.ext2 -q ext2; mkfs.ext3 -q -L three ext3; mkfs.ext4 -q -L four ext4
mkfs.xfs -q -L xlabel xfs; mkfs.xfs -q -s size=4096 xfs4k
mkswap -L swapped swap; mkfs.vfat -F 12 vfat12; mkfs.vfat -F 16 -n FATTY vfat16
mkfs.vfat -F 32 -s 1 vfat32
luks luks1 --type luks1; luks luks2 --type luks2 --label secret
printf 'label: gpt\\nsize=10M\\n' | sfdisk -q gpt
printf 'label: dos\\nsize=10M\\n' | sfdisk -q mbr
mkfs.btrfs -q -L pool -d raid0 -m raid1 btrfs0 btrfs1 btrfs2
mkfs.btrfs -q --csum xxhash btrfs-xxhash; mkfs.btrfs -q btrfs-plain
";

/// An encrypted disk whose first header was overwritten is known by its second one, for each size
/// that cryptsetup makes headers of. It is asked last, as it writes the first one again.
#[test]
fn lost_headers_are_told_by_second_ones_as_cryptsetup_does() {
    const TEST: &str = "lost_headers_are_told_by_second_ones_as_cryptsetup_does";
    if !have(TEST, &["cryptsetup", "blkid"]) {
        return;
    }
    let dir = warren_testkit::Scratch::new("luks");
    for kib in [16, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
        let path = dir.0.join(kib.to_string());
        let made = shell(&format!(
            "truncate -s 32M {0}
             echo pass | cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --label lost \\
               --pbkdf-force-iterations 1000 --luks2-metadata-size {kib}k \\
               --luks2-keyslots-size 8m {0} -
             dd if=/dev/zero of={0} bs={kib}k count=1 conv=notrunc status=none",
            path.display()
        ));
        made.expect("cryptsetup works on files");
        let scan = scan_file(&path);
        assert_eq!(as_blkid(&scan.content), blkid(&path), "{kib} KiB");
        let Content::Luks(found) = scan.content else { panic!("{kib} KiB: {scan:?}") };
        assert!(found.from_second && found.label == "lost", "{kib} KiB: {found:?}");
        let said = shell(&format!("cryptsetup luksUUID {}", path.display()));
        assert_eq!(said.as_deref().map(str::trim), Ok(&*found.uuid.to_string()), "{kib} KiB");
    }
}

#[test]
fn members_of_btrfs_are_counted_as_btrfs_does() {
    if !have("members_of_btrfs_are_counted_as_btrfs_does", &["mkfs.btrfs", "btrfs"]) {
        return;
    }
    let dir = warren_testkit::Scratch::new("btrfs");
    let script = format!(
        "cd {}; truncate -s 200M a b c; mkfs.btrfs -q -d raid0 -m raid1 a b c
         for f in a b c; do btrfs inspect-internal dump-super $f; done",
        dir.0.display()
    );
    let said = shell(&script).expect("btrfs works on files");
    let field = |name: &str| -> Vec<String> {
        let lines = said.lines().filter(|line| line.split_whitespace().next() == Some(name));
        lines.filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect()
    };
    for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
        let Content::Btrfs(member) = scan_file(&dir.0.join(name)).content else { panic!("btrfs") };
        assert_eq!(member.fsid.to_string(), field("fsid")[i]);
        assert_eq!(member.devid.to_string(), field("dev_item.devid")[i]);
        assert_eq!(member.num_devices.to_string(), field("num_devices")[i]);
        assert_eq!(member.generation.to_string(), field("generation")[i]);
        assert_eq!(member.device_uuid.to_string(), field("dev_item.uuid")[i]);
    }
}

/// mdadm makes no array without MD in the kernel, so it is asked about superblocks of ours; the
/// scanner must then read the same as it does.
#[test]
fn superblocks_of_arrays_are_read_as_mdadm_does() {
    if !have("superblocks_of_arrays_are_read_as_mdadm_does", &["mdadm", "blkid"]) {
        return;
    }
    let dir = warren_testkit::Scratch::new("md");
    for version in [Version::V090, Version::V10, Version::V11, Version::V12] {
        for (number, role) in [(0, Role::Active(0)), (1, Role::Active(1)), (2, Role::Spare)] {
            for size in [8 << 20, (8 << 20) + 512 * 77] {
                let name = format!("{}-{number}-{size}", version.as_str());
                check_md(&dir.0.join(name), version, number, role, size);
            }
        }
    }
}

/// Disks of a firmware RAID are what blkid calls so, and what lies at their start is not theirs.
#[test]
fn disks_of_firmware_raids_are_what_blkid_says() {
    if !have("disks_of_firmware_raids_are_what_blkid_says", &["blkid", "mkfs.ext4"]) {
        return;
    }
    let dir = warren_testkit::Scratch::new("firmware");
    for format in [Format::Intel, Format::Ddf] {
        let path = dir.0.join(format.as_str());
        shell(&format!("truncate -s 8M {0}; mkfs.ext4 -q {0}", path.display())).expect("a file");
        let sectors = if format == Format::Intel { 2 } else { 1 };
        let offset = (8 << 20) - 512 * sectors;
        let mut disk = Disk::new(8 << 20);
        image::put_firmware(&mut disk, &FirmwareRaid { format, version: "1.0".into(), offset });
        let file = File::options().write(true).open(&path).expect("it was made");
        for (at, bytes) in disk.extents() {
            file.write_all_at(bytes, at).expect("it can be written");
        }
        let scan = scan_file(&path);
        assert!(blkid(&path).starts_with(&as_blkid(&scan.content)), "{scan:?}: {}", blkid(&path));
        assert!(matches!(scan.also[..], [Content::Filesystem(_)]), "{scan:?}");
    }
}

fn check_md(path: &Path, version: Version, number: u32, role: Role, size: u64) {
    let written = MdMember {
        version,
        array: Uuid::parse("01234567:89abcdef:fedcba98:76543210").expect("32 digits"),
        name: if version == Version::V090 { "7".into() } else { "host:data".into() },
        level: 5,
        raid_disks: 2,
        working: 2,
        events: 4242,
        role,
    };
    let mut disk = Disk::new(size);
    image::put_md(&mut disk, &written, number);
    write(&disk, size, path);
    let scan = scan_file(path);
    assert_eq!(scan.content, Content::Md(written.clone()), "{}", path.display());
    let said = shell(&format!("mdadm --examine {}", path.display()));
    let said = said.unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
    let line = |name: &str| {
        let found =
            said.lines().find_map(|l| l.trim().strip_prefix(name)?.trim().strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {name:?} in {said}")).trim().to_owned()
    };
    assert!(line("Checksum").ends_with("- correct"), "{said}");
    assert!(line("Version").starts_with(version.as_str()), "{said}");
    let uuid = Uuid::parse(
        line(if version == Version::V090 { "UUID" } else { "Array UUID" })
            .split(' ')
            .next()
            .expect("a word"),
    );
    assert_eq!(uuid, Some(written.array), "{said}");
    assert_eq!(line("Raid Level"), "raid5");
    assert_eq!(line("Raid Devices"), "2");
    let events = line("Events");
    assert!(events == "4242" || events == "0.4242", "{said}");
    if version == Version::V090 {
        assert_eq!(line("Preferred Minor"), written.name, "{said}");
    } else {
        let expected = match role {
            Role::Active(place) => format!("Active device {place}"),
            _ => "spare".to_owned(),
        };
        assert_eq!(line("Device Role"), expected, "{said}");
    }
    assert!(blkid(path).starts_with("TYPE=linux_raid_member"), "{}", blkid(path));
}

fn write(disk: &Disk, size: u64, path: &Path) {
    let file = File::create(path).expect("a file can be made");
    file.set_len(size).expect("it can be sparse");
    for (at, bytes) in disk.extents() {
        let end = bytes.len().min((size - at) as usize);
        file.write_all_at(&bytes[..end], at).expect("it can be written");
    }
}

// ---- lvm2 ----

/// Runs lvm.sh; `None`, with a word why, where it cannot.
fn lvm_disks(dir: &warren_testkit::Scratch) -> Option<()> {
    const TEST: &str = "groups_are_what_lvm2_says";
    if !have(TEST, &["lvm", "losetup", "unshare", "python3"]) {
        return None;
    }
    let probe = "unshare -m --propagation private true && losetup -f >/dev/null";
    if let Err(why) = shell(probe) {
        not_run(TEST, &format!("no namespace or loop device: {}", why.trim()));
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lvm.sh");
    let made =
        shell(&format!("unshare -m --propagation private bash {script} {}", dir.0.display()));
    made.expect("lvm2 works without device-mapper");
    Some(())
}

/// The lines of what lvm2 said, blanks cut, sorted; several lines of one volume are told apart.
fn said(dir: &warren_testkit::Scratch, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(dir.0.join(name)).expect("lvm.sh writes it");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// Loop device of each disk, by the disk's name.
fn loops(dir: &warren_testkit::Scratch) -> BTreeMap<String, String> {
    let text = fs::read_to_string(dir.0.join("loops")).expect("lvm.sh writes it");
    text.lines().filter_map(|l| l.split_once(' ')).map(|(l, d)| (d.into(), l.into())).collect()
}

#[test]
fn groups_are_what_lvm2_says() {
    let dir = warren_testkit::Scratch::new("lvm");
    if lvm_disks(&dir).is_none() {
        return;
    }
    let (mut pvs, mut groups) = (Vec::new(), BTreeMap::new());
    for (disk, device) in loops(&dir) {
        let scan = scan_file(&dir.0.join("disks").join(&disk));
        assert!(scan.faults.is_empty() && scan.also.is_empty(), "{disk}: {scan:?}");
        let Content::Lvm(member) = scan.content else { panic!("{disk} is a PV") };
        assert!(member.header.maybe_used() != disk.starts_with("unused"), "{disk}");
        assert!(scan.reads <= 4, "{disk}: {}", scan.reads);
        for group in member.texts.iter().filter_map(|text| text.group.clone()) {
            let known: &mut Arc<VolumeGroup> =
                groups.entry(group.id).or_insert_with(|| group.clone());
            if known.seqno < group.seqno {
                *known = group;
            }
        }
        pvs.push((device, member.header.id));
    }
    let devices: BTreeMap<_, _> = pvs.iter().map(|(device, id)| (*id, device.clone())).collect();
    let of = |id| groups.values().find(|g| g.members.iter().any(|m| m.id == id));
    let lines = pvs.iter().map(|(device, id)| {
        let group = of(*id).map_or("|".to_owned(), |g| format!("{}|{}", g.id, g.name));
        format!("{device}|{id}|{group}")
    });
    assert_eq!(lines.collect::<BTreeSet<_>>(), said(&dir, "pvs"));
    let lines = groups.values().map(|group| group_line(group));
    assert_eq!(lines.collect::<BTreeSet<_>>(), said(&dir, "vgs"));
    let lines: BTreeSet<String> = groups.values().flat_map(|g| volume_lines(g, &devices)).collect();
    let expected: BTreeSet<String> = volumes_said(&dir);
    let other: Vec<&String> = lines.symmetric_difference(&expected).collect();
    assert!(other.is_empty(), "ours or lvm2's alone: {other:#?}");
    let layers = groups.values().find(|group| group.name == "layers").expect("it was made");
    for disk in ["raid0", "raid1"] {
        let at = layers.members.iter().position(|member| member.device_hint == loops(&dir)[disk]);
        let (whole, broken) = check_health(&dir, layers, disk, &|number| Some(number) == at);
        assert!(whole > 0 && broken > 8, "{disk}: {whole} whole, {broken} broken");
    }
    let back = groups.values().find(|group| group.name == "back").expect("it was made");
    assert_eq!(check_health(&dir, back, "back", &|_| true), (1, 2), "one of three is as it was");
    check_ring(&dir.0.join("ring"));
    check_run_files(&dir);
}

/// What lvm2 leaves below /run/lvm when all disks arrive is what we write for them; it also says
/// "complete" of a group that is not to be activated by itself, which we do not start.
fn check_run_files(dir: &warren_testkit::Scratch) {
    let policy = Policy { system_ids: ["thishost".to_owned()].into(), ..Policy::default() };
    let mut arrivals = Vec::new();
    for (disk, path) in loops(dir) {
        let scan = scan_file(&dir.0.join("disks").join(&disk));
        let name = path.trim_start_matches("/dev/").to_owned();
        let minor = name.trim_start_matches("loop").parse().expect("a loop device");
        let device = Device {
            number: DeviceNumber { major: 7, minor },
            diskseq: 0,
            path: format!("/devices/{name}"),
            name,
            links: Vec::new(),
            link_priority: 0,
            facts: Facts::default(),
            role: index::Role::of(&scan),
        };
        arrivals.push((device, scan.texts_read()));
    }
    let (index, starts) = batch(&policy, &arrivals);
    for _ in 0..arrivals.len() {
        arrivals.rotate_left(1);
        arrivals.swap(2, 9);
        assert_eq!(batch(&policy, &arrivals).1, starts, "whatever the order");
    }
    let devices: Vec<Device> = arrivals.into_iter().map(|(device, _)| device).collect();
    let online = devices.iter().filter_map(|device| activate::online_file(&index, device));
    let plan = activate::plan(&index, &starts);
    let ours: BTreeMap<String, String> =
        online.chain(plan.files).map(|file| (file.path, file.text)).collect();
    let mut theirs = BTreeMap::new();
    for kind in ["pvs_online", "pvs_lookup", "vgs_online"] {
        for entry in fs::read_dir(dir.0.join("run").join(kind)).expect("lvm2 made it") {
            let path = entry.expect("it can be listed").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("it can be read");
            theirs.insert(format!("{kind}/{name}"), sorted_if(kind == "pvs_lookup", &text));
        }
    }
    assert!(theirs.remove("vgs_online/byhand").is_some(), "lvm2 calls it complete");
    // Its event way looks for a label in the second sector only, its other tools in four.
    let only_ours =
        |(path, text): &(String, String)| !path.contains("/ring") && !text.contains("vg:ring");
    let ours: BTreeMap<String, String> = ours
        .into_iter()
        .filter(only_ours)
        .map(|(path, text)| (path.clone(), sorted_if(path.starts_with("pvs_lookup"), &text)))
        .collect();
    let other = ours.iter().filter(|&(path, text)| theirs.get(path) != Some(text));
    assert_eq!(other.collect::<Vec<_>>(), [], "ours alone");
    assert_eq!(ours.len(), theirs.len(), "lvm2's alone");
}

type Arrivals = [(Device, Vec<(TextKey, Arc<VolumeGroup>)>)];

/// The index of these devices, told in this order, and the one batch that it starts.
fn batch(policy: &Policy, arrivals: &Arrivals) -> (Index, Vec<Start>) {
    let mut index = Index::new(policy.clone());
    for (device, texts) in arrivals {
        index.step(0, Event::Arrived { device: device.clone(), texts: texts.clone() });
    }
    let mut decisions = index.step(0, Event::ColdplugDone);
    match (decisions.pop(), decisions.is_empty()) {
        (Some(Decision::Activate(starts)), true) => (index, starts),
        other => panic!("one batch: {other:?}"),
    }
}

/// The order of a list of members means nothing.
fn sorted_if(sort: bool, text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if sort {
        lines.sort_unstable();
    }
    lines.join("\n")
}

/// What can be activated when some disks are there: how many volumes are whole, and how many are not.
/// Of a snapshot and its origin lvm2 says that the other one is absent only where it can ask
/// device-mapper, or when they are being merged.
fn check_health(
    dir: &warren_testkit::Scratch,
    group: &VolumeGroup,
    disk: &str,
    is_there: &dyn Fn(usize) -> bool,
) -> (u32, u32) {
    let standings = group.standings(&|number| is_there(number as usize));
    let named = group.volumes.iter().map(|volume| volume.name.as_str()).zip(standings);
    let standings: BTreeMap<&str, Standing> = named.collect();
    let lines = said(dir, &format!("health-{disk}"));
    let (mut whole, mut broken) = (0, 0);
    for line in lines {
        let [name, attributes, health] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line:?}")
        };
        if attributes.starts_with(['s', 'o']) {
            continue;
        }
        assert_eq!(standings[name] == Standing::Complete, health.is_empty(), "{disk}: {line}");
        *if health.is_empty() { &mut whole } else { &mut broken } += 1;
    }
    (whole, broken)
}

/// Every change of one group, in a small area: each is read, and at least one goes round.
fn check_ring(dir: &Path) {
    let mut wrapped = 0;
    for number in 1..=16 {
        let path = dir.join(number.to_string());
        let scan = scan_file(&path);
        let Content::Lvm(member) = scan.content else { panic!("a PV") };
        let group = member.texts[0].group.as_ref().expect("nothing is known before");
        assert_eq!((group.name.as_str(), group.seqno), ("ring", 17 + number), "{:?}", scan.faults);
        wrapped += u32::from(goes_round(&path, member.header.metadata_areas[0]));
    }
    assert!(wrapped > 0, "sixteen texts are longer than the ring");
}

fn goes_round(path: &Path, place: Area) -> bool {
    let (file, mut scratch) = (DeviceFile::open(path).expect("it opens"), Scratch::default());
    let mut image = Image::load(&file, &mut scratch).expect("it can be read");
    match area::state(&mut image, place) {
        Ok(AreaState::Text(text)) => text.offset + text.key.bytes > place.bytes,
        other => panic!("{other:?}"),
    }
}

/// As `vgs -o vg_uuid,vg_name,vg_seqno,pv_count,vg_exported,vg_systemid,vg_autoactivation`.
fn group_line(group: &VolumeGroup) -> String {
    let exported = if group.marks.exported { "exported" } else { "" };
    let auto = if group.marks.no_auto_activation { "" } else { "enabled" };
    let (id, name, seqno, pvs) = (group.id, &group.name, group.seqno, group.members.len());
    format!("{id}|{name}|{seqno}|{pvs}|{exported}|{}|{auto}", group.system_id)
}

type Devices = BTreeMap<warren_device::lvm::LvmId, String>;

/// `VGID|name|LVID|automatic|what it lies on`, the latter sorted.
fn volume_lines(group: &VolumeGroup, devices: &Devices) -> Vec<String> {
    let part = |part: Part| match part {
        Part::Member(number) => devices[&group.members[number as usize].id].clone(),
        Part::Volume(number) => group.volumes[number as usize].name.clone(),
    };
    let line = |volume: &Volume| {
        let parts: BTreeSet<String> = volume.parts().map(part).collect();
        let parts: Vec<String> = parts.into_iter().collect();
        let (id, auto) = (volume.id.expect("lvm2 gives an id"), volume.auto_activation);
        let auto = if auto { "enabled" } else { "" };
        let name = match volume.visible {
            true => volume.name.clone(),
            false => format!("[{}]", volume.name),
        };
        format!("{}|{name}|{id}|{auto}|{}", group.id, parts.join(","))
    };
    // What ties a snapshot to its origin is a volume in the metadata that lvm2 never shows.
    let is_tie = |volume: &&Volume| !volume.visible && volume.name.starts_with("snapshot");
    group.volumes.iter().filter(|volume| !is_tie(volume)).map(line).collect()
}

/// The same of lvm2's words, which have a line for each segment.
fn volumes_said(dir: &warren_testkit::Scratch) -> BTreeSet<String> {
    let mut parts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in said(dir, "lvs") {
        let fields: Vec<&str> = line.split('|').collect();
        let (own, below) = fields.split_at(4);
        let names = below.iter().flat_map(|f| f.split(',')).filter(|name| !name.is_empty());
        // `name(extent)` and `[name]` are both the name.
        let names =
            names.map(|n| n.split('(').next().unwrap_or(n).trim_matches(['[', ']']).to_owned());
        parts.entry(own.join("|")).or_default().extend(names);
    }
    let join = |(own, parts): (String, BTreeSet<String>)| {
        format!("{own}|{}", parts.into_iter().collect::<Vec<_>>().join(","))
    };
    parts.into_iter().map(join).collect()
}
