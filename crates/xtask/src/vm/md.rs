//! `cargo xtask vm md`: arrays that mdadm makes in a machine with MD in its kernel, in every layout
//! of the superblock and at every level: with bitmap, spare and journal, degraded, with a disk that
//! was thrown out, while they are reshaped. What `warren devices scan` reads of each disk is held
//! against `mdadm --examine`, and each array is put together by the device daemon; containers of
//! firmware RAID are left to mdadm. Then a volume group on a mirror whose legs look like its
//! physical volume, and one that was moved from disk to disk, had a missing disk given up and was
//! split; one on a disk with two paths, whose map comes late; one on partitions; two arrays of one
//! name; and a group of 1,000 volumes.
//!
//! Needs what `vm` needs, and lvm2, mdadm, dmsetup and fdisk.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bench;
use crate::command::root;
use crate::vm::devices::{PROGRAMS, TARGETS, add_program, unit};
use crate::vm::{self, Kernel};

/// Some 50 arrays are made, at some seconds each.
const SECONDS_MAX: u32 = 1200;

const MODULES: [&str; 13] = [
    "loop",
    "linear",
    "raid0",
    "raid1",
    "raid10",
    "raid456",
    "dm-mod",
    "dm-mirror",
    "dm-multipath",
    "dm-round-robin",
    "sd_mod",
    "scsi_debug",
    "crc32c_generic",
];

/// What busybox is called by besides.
const COMMANDS: [&str; 7] = ["losetup", "truncate", "rm", "tr", "kill", "wc", "pidof"];

/// Programs of the peers that only this machine needs.
const MORE_PROGRAMS: [&str; 2] = ["/usr/sbin/dmsetup", "/usr/sbin/sfdisk"];

/// Volumes of the widest group; a thousand events of device-mapper at once.
const WIDE: u32 = 1000;

/// Disks of the machine: files in its memory.
const MAKE: &str = r#"
exec > /dev/console 2>&1
export MDADM_NO_UDEV=1 DM_DISABLE_UDEV=1
for m in loop linear raid0 raid1 raid10 raid456 dm-mod dm-mirror crc32c_generic; do modprobe $m; done
mkdir -p /d /run/lvm; mount -t tmpfs -o size=500m none /d
ALL="0 1 2 3 4 5"
for i in $ALL; do truncate -s 40M /d/$i; losetup /dev/loop$i /d/$i; done
d() { for i; do echo /dev/loop$i; done; }
quietly() { "$@" < /dev/null > /tmp/said 2>&1 || { echo "FAILED $*"; cat /tmp/said; }; }
clean() { for i in $ALL; do mdadm --zero-superblock --force /dev/loop$i > /dev/null 2>&1; done; }
# What mdadm and we say of each disk of the array that was stopped, and whether the daemon starts it.
look() {
  mdadm --stop /dev/md/t > /dev/null 2>&1
  echo "CASE $*"
  for i in $ALL; do
    mdadm --examine /dev/loop$i > /tmp/e 2> /dev/null || continue
    echo "DISK /d/$i"
    grep -E '^ +(Version|UUID|Array UUID|Raid Level|Raid Devices|Device Role) :|^this ' /tmp/e
  done
  warren devices scan /d/0 /d/1 /d/2 /d/3 /d/4 /d/5 --json | sed 's/^/SCAN /'
  rm -rf /tmp/r; /usr/lib/warren/warren-deviced --once --json --kernel --activate --records=/tmp/r > /tmp/o 2>&1
  grep -E 'start failed|sandbox' /tmp/o
  if grep -E '^md.* : active' /proc/mdstat > /dev/null; then echo "STARTED"; fi
  mdadm --stop --scan > /dev/null 2>&1
}
for v in 0.90 1.0 1.1 1.2; do
  name="--metadata=$v"
  n() { clean; shift; if [ $v = 0.90 ]; then quietly mdadm --create /dev/md/t --run $name "$@"; else quietly mdadm --create /dev/md/t --run $name --homehost=any "$@"; fi; }
  n linear --level=linear -n 2 $(d 0 1); look complete $v linear
  # mdadm makes none of these any more.
  [ $v = 0.90 ] || { n raid0 --level=0 -n 3 $(d 0 1 2); look complete $v raid0; }
  n raid1 --level=1 -n 2 -x 1 --bitmap=internal --assume-clean $(d 0 1 2); look complete $v raid1 spare bitmap
  n raid4 --level=4 -n 3 --assume-clean $(d 0 1 2); look complete $v raid4
  n raid5 --level=5 -n 3 --assume-clean $(d 0 1 2); look complete $v raid5
  n raid6 --level=6 -n 4 --assume-clean $(d 0 1 2 3); look complete $v raid6
  n raid10 --level=10 -n 4 --assume-clean $(d 0 1 2 3); look complete $v raid10
  n degraded --level=5 -n 3 $(d 0 1) missing; look complete $v raid5 degraded
  n short --level=5 -n 3 --assume-clean $(d 0 1 2)
  mdadm --stop /dev/md/t > /dev/null 2>&1; mdadm --zero-superblock /dev/loop1; look waits $v raid5 one disk gone
  n failed --level=1 -n 2 --assume-clean $(d 0 1)
  quietly mdadm /dev/md/t --fail /dev/loop1; look complete $v raid1 one disk failed
done
v=1.2; name="--metadata=1.2"
n journal --level=5 -n 3 --write-journal /dev/loop3 $(d 0 1 2); look complete 1.2 raid5 journal
n bad --level=1 -n 2 --assume-clean --name='a b' $(d 0 1); look complete 1.2 raid1 with a name that is none
n raid10f --level=10 --layout=f2 -n 3 --assume-clean $(d 0 1 2); look complete 1.2 raid10 far
for v in 0.90 1.2; do
  name="--metadata=$v"
  n reshape --level=5 -n 3 --assume-clean $(d 0 1 2)
  quietly mdadm /dev/md/t --add /dev/loop3
  echo 1 > /proc/sys/dev/raid/speed_limit_max; echo 1 > /proc/sys/dev/raid/speed_limit_min
  rm -f /d/backup
  quietly mdadm --grow /dev/md/t -n 4 --backup-file=/d/backup
  grep -E 'reshape' /proc/mdstat > /dev/null && echo "RESHAPES"
  pid=$(pidof mdadm); [ "$pid" ] && kill $pid
  look reshaped $v raid5 in a reshape
  echo 200000 > /proc/sys/dev/raid/speed_limit_max
done
clean

# Containers of firmware RAID: told, not started.
export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1
for format in imsm ddf; do
  quietly mdadm --create /dev/md/c --run --metadata=$format -n 2 $(d 0 1)
  mdadm --stop --scan > /dev/null 2>&1
  rm -rf /tmp/r; /usr/lib/warren/warren-deviced --once --kernel --activate --records=/tmp/r > /tmp/o 2>&1
  echo "CONTAINER $(mdadm --examine --export /dev/loop1 | grep '^MD_METADATA'), $(grep -c 'start:' /tmp/o) starts, $(warren devices scan /d/1)"
  mdadm --stop --scan > /dev/null 2>&1; clean
done

# A volume group on a mirror: its legs hold the label, too.
quietly mdadm --create /dev/md/t --run --metadata=1.0 --homehost=any --level=1 -n 2 --assume-clean $(d 0 1)
quietly lvm vgcreate onraid /dev/md/t
quietly lvm lvcreate -y -Zn -Wn -l 2 -n lv onraid
# Twelve volumes, moved from one disk to another, a missing disk given up, split.
quietly lvm vgcreate -s 1m many /dev/loop2 /dev/loop3 /dev/loop4
i=0; while [ $i -lt 12 ]; do lvm lvcreate -q -y -Zn -Wn -l 1 -n v$i many /dev/loop2 > /dev/null 2>&1; i=$((i+1)); done
quietly lvm pvmove -i 0 /dev/loop2 /dev/loop3
quietly lvm vgchange -an many onraid
losetup -d /dev/loop4; quietly lvm vgreduce --removemissing many
quietly lvm vgsplit many half /dev/loop2
mdadm --stop /dev/md/t > /dev/null 2>&1
warren devices scan /d/0 /d/1 /d/2 /d/3 /d/4 /d/5 --json | sed 's/^/LAST /'
/usr/lib/warren/warren-deviced --kernel --activate --records=/tmp/r2 > /tmp/o 2>&1 &
until [ -e /dev/mapper/onraid-lv ] && [ -e /dev/mapper/many-v11 ]; do sleep 1; done
echo "STACKED $(grep -c 'start: lvm' /tmp/o) starts, legs $(lvm vgs --noheadings -o pv_name onraid 2>/dev/null | tr -d ' ')"
ls /dev/mapper | grep -c many-
"#;

/// What is stacked on paths and partitions, and much of it.
const STACK: &str = r#"
# A daemon of its own for each case: no other sees its disks.
daemon() { rm -rf /tmp/r3 /tmp/o; pid=; /usr/lib/warren/warren-deviced --kernel --activate --records=/tmp/r3 > /tmp/o 2>&1 & pid=$!; }
# It must have begun to listen to signals.
ask() { sleep 3; kill -USR1 $pid; sleep 1; }
stop() { kill $(pidof warren-deviced); while [ "$(pidof warren-deviced)" ]; do sleep 1; done; }
stop; quietly lvm vgchange -an; mdadm --stop --scan > /dev/null 2>&1
for i in $ALL; do
  losetup -d /dev/loop$i 2> /dev/null; rm /d/$i; truncate -s 40M /d/$i; losetup /dev/loop$i /d/$i
done

# One disk on two paths: the daemon waits for their map, of which only the list of WWIDs tells.
modprobe sd_mod; modprobe dm-multipath; modprobe dm-round-robin
modprobe scsi_debug vpd_use_hostno=0 add_host=2 dev_size_mb=40 per_host_store=0
while ! [ -b /dev/sda ] || ! [ -b /dev/sdb ]; do sleep 1; done
quietly lvm pvcreate --config 'devices/allow_changes_with_duplicate_pvs=1' --devices /dev/sda /dev/sda
quietly lvm vgcreate --devices /dev/sda paths /dev/sda
quietly lvm lvcreate --devices /dev/sda -y -Zn -Wn -l 1 -n lv paths
quietly lvm vgchange --devices /dev/sda -an paths
read -r wwid < /sys/block/sda/device/wwid
mkdir -p /etc/multipath; echo "/3${wwid#naa.}/" > /etc/multipath/wwids
echo "WWID $wwid"
daemon
until grep 'a path of a multipath device' /tmp/o > /dev/null; do ask || { cat /tmp/o; break; }; done
[ -e /dev/mapper/paths-lv ] && echo "FAILED a path was used"
read -r sectors < /sys/block/sda/size
dmsetup create mp --uuid "mpath-3${wwid#naa.}"   --table "0 $sectors multipath 0 0 1 1 round-robin 0 2 1 /dev/sda 100 /dev/sdb 100"
until [ -e /dev/mapper/paths-lv ]; do sleep 1; done
echo "PATHS $(ls /sys/block/dm-*/slaves | grep -c '^dm-') on the map, $(grep -c 'start: lvm' /tmp/o) start"
stop; quietly lvm vgchange -an paths; dmsetup remove mp; rm /etc/multipath/wwids
rmmod scsi_debug 2> /dev/null

# A disk with two partitions, each a physical volume; the disk itself was one before.
truncate -s 80M /d/6; losetup /dev/loop6 /d/6
quietly lvm pvcreate /dev/loop6; losetup -d /dev/loop6
printf 'label: dos\n,30M\n,30M\n' | sfdisk -q --wipe never /d/6
losetup -P /dev/loop6 /d/6
while ! [ -b /dev/loop6p2 ]; do sleep 1; done
quietly lvm vgcreate parts /dev/loop6p1 /dev/loop6p2
quietly lvm lvcreate -y -Zn -Wn -i 2 -l 2 -n lv parts
quietly lvm vgchange -an parts
daemon; until [ -e /dev/mapper/parts-lv ]; do sleep 1; done
echo "PARTITIONS $(ls /sys/block/dm-*/slaves | grep -c '^loop6p') and disks $(ls /sys/block/dm-*/slaves | grep -c -x loop6)"
stop; quietly lvm vgchange -an parts; losetup -d /dev/loop6

# Two arrays of one name.
for i in 0 2; do
  quietly mdadm --create /dev/md/t$i --run --metadata=1.2 --homehost=any --name=twin --level=1 -n 2 --assume-clean /dev/loop$i /dev/loop$((i+1))
  mdadm --stop /dev/md/t$i > /dev/null 2>&1
done
daemon; until [ "$(grep -c '^md.* : active' /proc/mdstat)" = 2 ]; do sleep 1; done
echo "TWINS $(ls /dev/md | grep -c twin) called so, $(grep -c 'start failed' /tmp/o) failed"
stop; mdadm --stop --scan > /dev/null 2>&1; clean

# A thousand volumes.
quietly lvm pvcreate --metadatasize 8m /dev/loop0
quietly lvm vgcreate -s 4k wide /dev/loop0
quietly lvm lvcreate -y -an -Zn -Wn -l 1 -n v wide
quietly lvm vgcfgbackup -f /tmp/wide wide
from=$(grep -n 'v {' /tmp/wide); from=${from%%:*}
sed -n "1,$((from - 1))p" /tmp/wide > /tmp/wider
sed -n "$from,$((from + 20))p" /tmp/wide > /tmp/v
i=0; while [ $i -lt WIDE ]; do
  n=00000$i; n=${n#${n%??????}}
  sed -e "s/v {/v$i {/; s/id = \"....../id = \"$n/; s/\"pv0\", 0/\"pv0\", $i/; /^\t\t}/q" /tmp/v
  i=$((i+1))
done >> /tmp/wider
printf '\t}\n}\n' >> /tmp/wider
quietly lvm vgcfgrestore -f /tmp/wider wide
daemon; until [ "$(ls /dev/mapper | grep -c wide-)" = WIDE ]; do sleep 1; done
echo "$(ls /dev/mapper | grep -c wide-) volumes, $(grep -c 'start: lvm' /tmp/o) start, $(grep -c 'events were lost' /tmp/o) losses"
stop
/bin/warren --no-block poweroff
"#;

/// Boots the machine and compares.
pub fn run() -> Result<()> {
    let kernel = vm::kernel()?;
    let directory = root().join("target/vm-md");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).context("target/vm-md")?;
    let tree = directory.join("tree");
    fill(&kernel, &tree)?;
    let disk = directory.join("disk.img");
    vm::make_disk(&disk)?;
    let archive = vm::pack(&directory, &tree)?;
    let console = directory.join("console.log");
    vm::boot_within(SECONDS_MAX, &kernel.image, &archive, &disk, &console)?;
    let text = fs::read_to_string(&console)?;
    let wrong = compare(&text);
    if !wrong.is_empty() {
        println!("{text}");
        wrong.iter().for_each(|line| println!("{line}"));
    }
    ensure!(wrong.is_empty(), "{} differences", wrong.len());
    println!("vm md: {} arrays read as mdadm does, and started", cases(&text).len());
    Ok(())
}

fn fill(kernel: &Kernel, tree: &Path) -> Result<()> {
    vm::make_base(tree)?;
    for (target, text) in TARGETS {
        unit(tree, target, text)?;
    }
    for program in PROGRAMS.into_iter().chain(MORE_PROGRAMS) {
        add_program(tree, program)?;
    }
    for command in COMMANDS {
        std::os::unix::fs::symlink("busybox", tree.join("bin").join(command))?;
    }
    for below in ["tmp", "etc/lvm"] {
        fs::create_dir_all(tree.join(below))?;
    }
    let name = "warren-deviced";
    vm::add_own(&bench::programs()?.join(name), &tree.join("usr/lib/warren").join(name))?;
    vm::copy_modules(kernel, tree, &MODULES)?;
    let script = [MAKE, &STACK.replace("WIDE", &WIDE.to_string())].concat();
    fs::write(tree.join("make.sh"), script)?;
    let text = "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nKillMode=process\n\
                ExecStart=/bin/sh /make.sh\n";
    unit(tree, "report.service", text)
}

/// What was said of one array.
#[derive(Default)]
struct Case {
    name: String,
    /// The words of mdadm for each disk, by their names.
    disks: BTreeMap<String, BTreeMap<String, String>>,
    scan: Vec<Value>,
    started: bool,
}

fn cases(console: &str) -> Vec<Case> {
    let mut out: Vec<Case> = Vec::new();
    let mut disk = String::new();
    for line in console.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("CASE ") {
            out.push(Case { name: name.to_owned(), ..Case::default() });
        }
        let Some(case) = out.last_mut() else { continue };
        if let Some(name) = line.strip_prefix("DISK ") {
            disk = name.to_owned();
            case.disks.entry(disk.clone()).or_default();
        } else if let Some(json) = line.strip_prefix("SCAN ") {
            case.scan.extend(serde_json::from_str(json).ok());
        } else if line == "STARTED" {
            case.started = true;
        } else if let (Some((word, value)), Some(words)) =
            (line.split_once(" : "), case.disks.get_mut(&disk))
        {
            words.insert(word.to_owned(), value.trim().to_owned());
        } else if let (Some(rest), Some(words)) =
            (line.strip_prefix("this "), case.disks.get_mut(&disk))
        {
            words.insert("this".to_owned(), rest.trim().to_owned());
        }
    }
    out
}

/// What differs, in words.
fn compare(console: &str) -> Vec<String> {
    let mut wrong: Vec<String> = Vec::new();
    let cases = cases(console);
    // Four layouts with ten arrays each but for one, and five more.
    if cases.len() != 44 {
        wrong.push(format!("{} arrays were looked at", cases.len()));
    }
    for case in &cases {
        wrong.extend(case.faults().into_iter().map(|fault| format!("{}: {fault}", case.name)));
    }
    let said = |words: &str| console.lines().any(|line| line.contains(words));
    for (words, is_wanted) in [
        ("FAILED ", false),
        ("sandbox:", false),
        ("Kernel panic", false),
        ("RESHAPES", true),
        ("CONTAINER MD_METADATA=imsm, 0 starts, /d/1: imsm 1.", true),
        ("CONTAINER MD_METADATA=ddf, 0 starts, /d/1: ddf 01.02.00", true),
        ("legs /dev/md", true),
        ("STACKED 2 starts", true),
        ("PATHS 1 on the map, 1 start", true),
        ("PARTITIONS 2 and disks 0", true),
        ("TWINS 1 called so, 0 failed", true),
        ("1000 volumes, 1 start, 0 losses", true),
        // A leg is no physical volume, whatever it looks like.
        ("\"type\":\"vg\",\"name\":\"onraid\"", false),
        ("\"name\":\"many\"", true),
        ("\"name\":\"half\"", true),
        ("reboot: Power down", true),
    ] {
        if said(words) != is_wanted {
            wrong.push(format!("{words:?} is {}there", if is_wanted { "not " } else { "" }));
        }
    }
    wrong
}

impl Case {
    fn faults(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.disks.is_empty() {
            out.push("no disk has a superblock".to_owned());
        }
        for (disk, words) in &self.disks {
            let ours = self.disk(disk).unwrap_or("nothing");
            let theirs = described(words);
            if ours != theirs {
                out.push(format!("{disk}: {ours:?}, and by mdadm {theirs:?}"));
            }
        }
        let groups: Vec<&Value> = self.scan.iter().filter(|line| line["kind"] == "group").collect();
        let ids: Vec<String> =
            groups.iter().filter_map(|group| group["id"].as_str()).map(plain).collect();
        let uuid = self.disks.values().find_map(|w| w.get("UUID").or_else(|| w.get("Array UUID")));
        let uuid = uuid.map(|uuid| plain(uuid.split(' ').next().unwrap_or_default()));
        if ids != uuid.iter().cloned().collect::<Vec<_>>() {
            out.push(format!("groups {ids:?}, and by mdadm {uuid:?}"));
        }
        let waits = self.name.starts_with("waits");
        if groups.iter().any(|group| group["complete"] == waits) {
            out.push(format!("{groups:?}"));
        }
        // An array in a reshape needs its backup to go on, and mdadm alone knows where it is.
        if !self.name.starts_with("reshaped") && self.started == waits {
            out.push(format!("started: {}", self.started));
        }
        out
    }

    /// What is on a disk, in our words.
    fn disk(&self, name: &str) -> Option<&str> {
        let groups = self.scan.iter().filter_map(|line| line["disks"].as_array()).flatten();
        let all = groups.chain(&self.scan);
        all.filter(|disk| disk["name"] == name).find_map(|disk| disk["what"].as_str())
    }
}

fn plain(id: &str) -> String {
    id.chars().filter(char::is_ascii_hexdigit).collect()
}

/// mdadm's words in ours: `md 1.2 raid5 device 1 of 3`.
fn described(words: &BTreeMap<String, String>) -> String {
    let word = |name: &str| words.get(name).map_or("", String::as_str);
    let version = word("Version").trim_end_matches(".00");
    // In a reshape it says so by its version.
    let version = if version == "0.91" { "0.90" } else { version };
    let level = word("Raid Level");
    let role = match word("this") {
        "" => word("Device Role").to_lowercase(),
        this => old_role(this),
    };
    let role = match role.strip_prefix("active device ") {
        Some(place) => format!("device {}", place.parse::<u32>().map_or(0, |place| place + 1)),
        None => role,
    };
    format!("md {version} {level} {role} of {}", word("Raid Devices"))
}

/// `0 7 0 0 active sync /dev/loop0`: number, major, minor, place.
fn old_role(this: &str) -> String {
    let words: Vec<&str> = this.split_whitespace().collect();
    match (words.get(3), words.get(4)) {
        (Some(place), Some(&"active")) => format!("active device {place}"),
        (_, Some(&"faulty")) => "faulty".to_owned(),
        _ => "spare".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_mdadm_are_ours() {
        let console = "CASE complete 1.2 raid5\nDISK /d/0\n  Version : 1.2\n  Raid Level : raid5\n\
             Raid Devices : 3\n Device Role : Active device 0\nDISK /d/1\n Version : 0.90.00\n\
             Raid Level : raid1\nRaid Devices : 2\nthis  1  7  1  1  active sync  /dev/loop1\n\
             STARTED\n";
        let cases = cases(console);
        let words: Vec<String> = cases[0].disks.values().map(described).collect();
        assert_eq!(words, ["md 1.2 raid5 device 1 of 3", "md 0.90 raid1 device 2 of 2"]);
        assert!(cases[0].started);
    }
}
