//! The rows of the scenario table of devices, each with the tests that hold it; the names say what
//! lvm2 or the other tools do there. Those without a file are here, by their numbers.
//!
//! | row | what | held by |
//! |--|--|--|
//! | 1 | a group of two, both arrive | `s01...`; tests/daemon, `the_boot_batch_is_one_start...` |
//! | 2 | a member is absent | `s02...`, by group, by volume, after a time, written off; `xtask vm devices`; tests/peers.rs (`back`) |
//! | 3 | the same disk again | `s03...`; tests/daemon, `a_changed_disk_is_read_again` |
//! | 4, 5 | a member without metadata, first or last | `s04_s05...`; tests/peers.rs (`copies0`) |
//! | 6 | a PV in no group | `s06...`; tests/peers.rs (`unused`) |
//! | 7, 8 | a foreign owner, no owner | `s07_s08...`; tests/peers.rs (`foreign`) |
//! | 9, 10, 14 | exported, not by itself, shared | `s09_s10_s14...`; tests/peers.rs but for shared |
//! | 11 | a clone | `s11...`, started or held; crates/cli/tests/histories.rs |
//! | 12 | two groups of one name | `s12...`; activate/tests.rs, `groups_of_one_name...`; tests/peers.rs (`twin`) |
//! | 13 | a damaged label is no PV, and one line | tests/daemon, `damage_is_told...`; scan/tests.rs; fuzz/tests.rs |
//! | 15 | a PV on an array, legs first | `s15_s24...`; with a real array `xtask vm md` |
//! | 16 | a guest's PV on a volume | `s16...` |
//! | 17 | a disk that comes after boot | tests/daemon, `the_boot_batch_is_one_start...`; `xtask vm devices` |
//! | 18 | three disks at once, metadata on one | `s18...` |
//! | 19 | many groups, 1,000 volumes of one | `s19...`; with device-mapper `xtask vm md` |
//! | 20 | a PV on a disk of another size | scan/tests.rs and tests/peers.rs, `grown` |
//! | 21 | a devices file without it | `s21...`; lvm/config.rs |
//! | 22 | `event_activation=0` | `s22...`; lvm/config.rs |
//! | 23 | lost events | `s23...`; tests/daemon, `a_burst_is_heard_whole...` |
//! | 24 | paths before their map | `s15_s24...`; tests/daemon, `a_map_that_comes_later...`; sysfs/tests.rs; with real paths `xtask vm md` |
//! | 25 | a btrfs of several | `s25...`; tests/daemon; with the kernel `xtask vm devices` |
//!
//! Besides: partitions as PVs, of which the whole disk was one before, and two arrays of one name
//! (`xtask vm md`; activate/tests.rs); arrays of all levels and layouts (`xtask vm md`); commands of
//! lvm2 that were killed half way, older metadata put back (crates/cli/tests/histories.rs); what is
//! written to a disk that is there, without udev (tests/daemon, `what_is_written...`).

use super::*;

/// Each line is `input => what follows`; without `=>` nothing must follow. After every line the
/// index must say what the oracle says.
fn check(policy: Policy, script: &str) {
    let mut bench = Bench::new(policy);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (input, expected) = line.split_once("=>").unwrap_or((line, ""));
        assert_eq!(bench.run(input.trim()), expected.trim(), "{line}\nof{script}");
        bench.check_against_oracle(line);
    }
}

fn per_volume() -> Policy {
    Policy { completeness: Completeness::Volume, ..Policy::default() }
}

fn degraded() -> Policy {
    Policy { degraded_after_ms: Some(30_000), ..Policy::default() }
}

#[test]
fn s01_a_group_of_two_starts_at_the_second() {
    check(
        Policy::default(),
        "vg data@1 ab
         boot
         + sda a data@1
         ? data/d => waits for 1 of 2 b(/dev/hint)
         + sdb b data@1 => start data/d
         ? data/d => complete",
    );
}

#[test]
fn s02_a_group_names_whom_it_waits_for() {
    check(
        Policy::default(),
        "vg data@1 abc
         + sdb b data@1
         + sdc c data@1
         - sdc
         boot
         ? data/d => waits for 2 of 3 a(/dev/hint) c(sdc)",
    );
}

#[test]
fn s02_a_volume_starts_when_its_own_members_are_there() {
    check(
        per_volume(),
        "vg data@1 abc root:a home:ab quiet!:a
         boot
         + sda a data@1 => start data/d root
         + sdb b data@1 => start data/d home
         - sdb
         + sdb b data@1
         + sdc c data@1 => start data/d",
    );
}

#[test]
fn s02_a_group_starts_degraded_after_a_time() {
    check(
        degraded(),
        "vg data@1 abc root:a r:b|c wide:ac
         boot
         + sdb b data@1
         late 29
         late 1 => degraded data/d r
         + sda a data@1
         late 1 => degraded data/d root
         late 1
         + sdc c data@1 => start data/d
         late 100",
    );
}

#[test]
fn s02_a_complete_group_has_no_deadline() {
    let mut bench = Bench::new(degraded());
    for line in ["vg data@1 ab r:a|b", "boot", "+ sda a data@1"] {
        bench.run(line);
    }
    assert_eq!(bench.index.next_deadline_ms(), Some(30_000));
    assert_eq!(bench.run("+ sdb b data@1"), "start data/d");
    assert_eq!(bench.index.next_deadline_ms(), None);
}

/// A disk that was away while its group was changed counts for the group, and nothing that lies on it
/// does: lvm2 refuses such volumes.
#[test]
fn s02_what_lies_on_a_member_that_was_written_off_does_not_start() {
    let group = "vg data@2 ab root:a home:b r:a|b lost=b
         boot";
    check(
        per_volume(),
        &format!(
            "{group}
             + sdb b data@2
             + sda a data@2 => start data/d
             ? data/d => complete"
        ),
    );
    check(
        Policy { degraded_after_ms: Some(1000), ..per_volume() },
        "vg data@2 abc root:a home:b r:a|b lost=b
         boot
         + sdb b data@2
         + sda a data@2 => start data/d root
         late 1 => degraded data/d r",
    );
}

#[test]
fn s03_the_same_disk_again_starts_nothing() {
    check(
        Policy::default(),
        "vg data@1 a
         boot
         + sda a data@1 => start data/d
         + sda a data@1
         unread sda a data@1",
    );
}

#[test]
fn s04_s05_a_member_without_metadata_counts_first_or_last() {
    check(
        Policy::default(),
        "vg data@1 ab
         vg more@1 cd
         boot
         + sdb b -
         + sda a data@1 => start data/d
         + sdc c more@1
         + sdd d - => start more/m",
    );
}

#[test]
fn s06_an_unused_pv_is_ignored() {
    check(Policy::default(), "boot\n+ sda a unused\n? data/d => gone");
}

#[test]
fn s07_s08_a_foreign_group_is_left_alone_and_an_ownerless_one_is_not() {
    let policy = || Policy { system_ids: ["me".to_owned()].into(), ..Policy::default() };
    check(
        policy(),
        "vg data@1 a owner=other
         vg mine@1 b owner=me
         vg free@1 c
         boot
         + sda a data@1
         ? data/d => owned by system \"other\"
         + sdb b mine@1 => start mine/m
         + sdc c free@1 => start free/f",
    );
}

#[test]
fn s09_s10_s14_marks_hold_a_group() {
    check(
        Policy::default(),
        "vg away@1 a exported
         vg byhand@1 b manual
         vg cluster@1 c shared
         boot
         + sda a away@1
         ? away/a => exported
         + sdb b byhand@1
         ? byhand/b => marked not to be activated automatically
         + sdc c cluster@1
         ? cluster/c => shared: lvmlockd starts it",
    );
}

#[test]
fn s11_a_clone_is_told_and_the_group_started_once() {
    check(
        Policy::default(),
        "vg data@1 a
         boot
         + sdb a data@1 => start data/d
         + sda a data@1
         - sdb
         ? data/d => complete",
    );
    let mut bench = Bench::new(Policy::default());
    for line in ["vg data@1 a", "+ sdb a data@1", "+ sda a data@1"] {
        bench.run(line);
    }
    assert_eq!(bench.index.devices_of_pv(id("a")), [number("sda"), number("sdb")]);
}

#[test]
fn s11_a_clone_holds_the_group_when_the_policy_says_so() {
    check(
        Policy { hold_duplicates: true, ..Policy::default() },
        "vg data@1 a
         + sda a data@1
         + sdb a data@1
         boot
         ? data/d => two disks have the same PVID
         - sda => start data/d",
    );
}

#[test]
fn s12_two_groups_of_one_name_both_start() {
    check(
        Policy::default(),
        "vg one@1 a name=data
         vg two@1 b name=data
         boot
         + sda a one@1 => start data/o
         + sdb b two@1 => start data/t",
    );
}

#[test]
fn s15_s24_legs_and_paths_do_not_count() {
    check(
        Policy::default(),
        "vg data@1 a
         boot
         + sda a data@1 #leg
         + sdb a data@1 #path
         + sdc a data@1 #mpath-held
         + sdd a data@1 #inactive
         + sde a data@1 #private
         ? data/d => gone
         + sdd a data@1 => start data/d",
    );
}

#[test]
fn an_array_that_holds_its_legs_is_up_and_not_started_again() {
    check(
        Policy { degraded_after_ms: Some(1000), ..Policy::default() },
        "+ sda md s 0 2 7 #leg
         + sdb md s 1 2 7 #leg
         boot
         ? md/s => complete
         - sdb
         late 5
         + sdb md s 1 2 7",
    );
}

#[test]
fn s16_a_guests_disk_is_left_alone() {
    let script = |end| format!("vg data@1 a\nboot\n+ sda a data@1 #lv => {end}");
    check(Policy::default(), &script(""));
    check(Policy { pvs_on_lvs: true, ..Policy::default() }, &script("start data/d"));
}

#[test]
fn s18_several_disks_one_start_with_metadata_on_one() {
    check(
        Policy::default(),
        "vg data@1 abc
         + sdc c -
         + sda a -
         + sdb b data@1
         boot => start data/d",
    );
}

#[test]
fn s19_the_boot_batch_is_one_decision() {
    check(
        Policy::default(),
        "vg one@1 ab
         vg two@1 c
         vg three@1 de id=x
         + sda a one@1
         + sdc c two@1
         + sdd d three@1
         + sdb b one@1
         boot => start one/o + start two/t
         boot
         + sde e three@1 => start three/x",
    );
}

#[test]
fn s21_what_the_devices_file_does_not_list_is_absent() {
    check(
        Policy { devices_file: Some([id("a")].into()), ..Policy::default() },
        "vg data@1 ab
         boot
         + sda a data@1
         + sdb b data@1
         ? data/d => waits for 1 of 2 b(/dev/hint)",
    );
}

#[test]
fn s22_event_activation_can_be_off() {
    check(
        Policy { event_activation: false, ..Policy::default() },
        "vg data@1 a
         + sda a data@1
         boot
         ? data/d => event_activation is off in lvm.conf",
    );
}

#[test]
fn s23_a_rescan_finds_what_was_lost() {
    check(
        Policy::default(),
        "vg data@1 ab
         vg more@1 c
         boot
         + sda a data@1
         + sdc c more@1 => start more/m
         rescan sda=a,data@1 sdb=b,data@1 => start data/d
         ? more/m => gone
         rescan sda=a,data@1 sdb=b,data@1",
    );
}

#[test]
fn s25_btrfs_waits_for_its_last_device() {
    check(
        Policy::default(),
        "boot
         + sda btrfs f 1 3
         + sdb btrfs f 2 3
         + sdd btrfs f 2 3
         ? btrfs/f => waits for 1 of 3
         + sdc btrfs f 3 3 => start btrfs/f",
    );
}

#[test]
fn an_array_counts_current_members_only() {
    check(
        Policy::default(),
        "boot
         + sda md s 0 2 10
         + sdb md s 1 2 8
         ? md/s => waits for 1 of 2
         + sdc md s spare 2 10
         ? md/s => waits for 1 of 2
         + sdd md s 1 2 11 => start md/s
         - sda
         ? md/s => waits for 1 of 2",
    );
}

#[test]
fn an_array_does_not_wait_for_what_was_thrown_out_of_it() {
    check(
        Policy::default(),
        "boot
         + sda md s 0 2of3 10
         ? md/s => waits for 1 of 2
         + sdb md s 1 3 7
         ? md/s => waits for 1 of 2
         + sdc md s 2 2of3 10 => start md/s
         - sdc
         + sdd md t 0 1of3 10
         ? md/t => waits for 2 of 3",
    );
}

#[test]
fn an_array_starts_degraded_after_a_time() {
    check(
        degraded(),
        "boot
         + sda md s 0 3 10
         late 30
         + sdb md s 1 3 10
         late 1 => degraded md/s
         late 60
         + sdc md s 2 3 10 => start md/s",
    );
}

#[test]
fn crypttab_says_what_is_opened() {
    let entry = CryptEntry { name: "root".into(), uuid: uuid("x") };
    check(
        Policy { crypttab: vec![entry], ..Policy::default() },
        "boot
         + sda luks x => start luks/x
         + sdb luks y
         ? luks/y => not in crypttab",
    );
}

#[test]
fn the_highest_sequence_number_wins() {
    check(
        Policy::default(),
        "vg data@1 ab
         vg data@2 ac
         boot
         + sdb b data@1
         + sda a data@2
         ? data/d => waits for 1 of 2 c(/dev/hint)
         + sdc c data@2 => start data/d
         - sda
         - sdc
         ? data/d => waits for 1 of 2 a(sda)",
    );
    let mut bench = Bench::new(Policy::default());
    for line in ["vg data@1 ab", "vg data@2 a", "+ sda a data@2", "+ sdb b data@1"] {
        bench.run(line);
    }
    let outdated =
        |name| bench.index.device(number(name)).is_some_and(|d| bench.index.is_outdated(d));
    assert!(outdated("sdb") && !outdated("sda"));
}

#[test]
fn two_truths_hold_a_group_until_one_is_gone() {
    check(
        Policy::default(),
        "vg data@2 a
         vg dup@2 a id=d name=data
         boot
         + sda a data@2 => start data/d
         + sdb a dup@2
         ? data/d => two different versions of its metadata have the same sequence number
         - sdb
         ? data/d => complete",
    );
}

#[test]
fn of_two_texts_on_one_disk_the_newer_counts() {
    check(
        Policy::default(),
        "vg data@1 ab
         vg data@2 a
         boot
         + sda a data@1+data@2 => start data/d",
    );
}

#[test]
fn a_member_of_another_group_is_not_ours() {
    check(
        Policy::default(),
        "vg old@1 ab
         vg new@1 b
         boot
         + sda a old@1
         + sdb b new@1 => start new/n
         ? old/o => waits for 1 of 2 b(/dev/hint)",
    );
}

#[test]
fn a_disk_that_returns_completes_its_group_but_starts_nothing() {
    check(
        Policy::default(),
        "vg data@1 ab
         boot
         + sda a data@1
         + sdb b data@1 => start data/d
         - sdb
         ? data/d => waits for 1 of 2 b(sdb)
         + sdb b data@1
         ? data/d => complete",
    );
}

#[test]
fn a_group_that_was_gone_altogether_starts_anew() {
    check(
        Policy::default(),
        "vg data@1 a
         boot
         + sda a data@1 => start data/d
         - sda
         ? data/d => gone
         + sdb a data@1 => start data/d",
    );
}

#[test]
fn another_disk_under_the_same_number_is_another_disk() {
    check(
        Policy::default(),
        "vg data@1 a
         vg more@1 b
         boot
         + sda a data@1 => start data/d
         + sda2 b more@1 => start more/m
         ? data/d => gone",
    );
}

#[test]
fn a_group_that_grows_is_not_started_again() {
    check(
        Policy::default(),
        "vg data@1 a
         vg data@2 ab
         boot
         + sda a data@1 => start data/d
         + sda a data@2
         ? data/d => waits for 1 of 2 b(/dev/hint)
         + sdb b data@2
         ? data/d => complete",
    );
}

#[test]
fn a_text_that_nobody_read_is_asked_for() {
    let script =
        |lines: &str| format!("vg data@1 ab\nunread sda a data@1 => ask sda data@1\n{lines}");
    let mut bench = Bench::new(Policy::default());
    let lines = script(
        "unread sdb b data@1
         boot
         lost sda data@1 => ask sdb data@1
         read sdb data@1 => start data/d",
    );
    for line in lines.lines() {
        let (input, expected) = line.split_once("=>").unwrap_or((line, ""));
        assert_eq!(bench.run(input.trim()), expected.trim(), "{line}");
    }
    // Whoever was asked may go, and nobody may be left to ask.
    let mut bench = Bench::new(Policy::default());
    let lines = script(
        "unread sdb b data@1
         - sda => ask sdb data@1
         boot
         lost sdb data@1
         unread sdc a data@1 => ask sdc data@1
         read sdc data@1 => start data/d",
    );
    for line in lines.lines() {
        let (input, expected) = line.split_once("=>").unwrap_or((line, ""));
        assert_eq!(bench.run(input.trim()), expected.trim(), "{line}");
    }
}

#[test]
fn a_link_means_the_device_with_the_highest_priority() {
    let mut bench = Bench::new(Policy::default());
    bench.run("+ sdb x");
    bench.run("+ sda x");
    let owner = |bench: &Bench| bench.index.device_of_link("disk/by-label/same");
    assert_eq!(owner(&bench), Some(number("sda")), "equal: the lowest number");
    let (mut device, _) = device("sdb", &["x"], &BTreeMap::new());
    device.link_priority = 50;
    bench.index.step(0, Event::Arrived { device, texts: Vec::new() });
    assert_eq!(owner(&bench), Some(number("sdb")));
    bench.run("- sdb");
    assert_eq!(owner(&bench), Some(number("sda")));
    bench.run("- sda");
    assert_eq!(owner(&bench), None);
    assert_eq!(bench.index.device_at("/devices/block/sda"), None);
}

#[test]
fn the_result_of_a_start_is_kept() {
    let mut bench = Bench::new(Policy::default());
    for line in ["vg data@1 a", "boot", "+ sda a data@1"] {
        bench.run(line);
    }
    let group = GroupId::Lvm(id("d"));
    assert_eq!(bench.index.result(group), None);
    let failed: Result<(), String> = Err("vgchange: exit status 5".into());
    bench.index.step(0, Event::Activated { group, result: failed.clone() });
    assert_eq!(bench.index.result(group), Some(&failed));
    bench.index.step(0, Event::Activated { group, result: Ok(()) });
    assert_eq!(bench.index.result(group), Some(&failed), "another program of the same start");
    assert_eq!(bench.run("- sda") + &bench.run("+ sda a data@1"), "start data/d");
    assert_eq!(bench.index.result(group), None, "it is started anew");
}

/// `mdadm --create` writes to the disks and then starts the array itself.
#[test]
fn an_array_that_somebody_else_starts_first_has_not_failed() {
    let failed: Result<(), String> = Err("mdadm: /dev/sda is busy".into());
    let group = GroupId::Md(uuid("s"));
    for is_held_first in [false, true] {
        let mut bench = Bench::new(Policy::default());
        let legs = ["+ sda md s 0 2 7 #leg", "+ sdb md s 1 2 7 #leg"];
        bench.run("boot");
        let started = ["+ sda md s 0 2 7", "+ sdb md s 1 2 7"].map(|line| bench.run(line));
        assert_eq!(started.concat(), "start md/s");
        if is_held_first {
            legs.iter().for_each(|line| drop(bench.run(line)));
        }
        bench.index.step(0, Event::Activated { group, result: failed.clone() });
        assert_eq!(bench.index.result(group) == Some(&failed), !is_held_first);
        legs.iter().for_each(|line| drop(bench.run(line)));
        assert_eq!(bench.index.result(group), Some(&Ok(())), "{is_held_first}");
    }
}
