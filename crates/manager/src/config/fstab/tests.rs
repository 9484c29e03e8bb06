//! A line of fstab and what comes of it: files with what is worth knowing of them, links, faults.

use std::sync::Arc;

use warren_unit::compile::Compiler;
use warren_unit::config::expand;
use warren_unit::load::Sources;
use warren_unit::parse::parse;
use warren_unit::{Context, Defaults};

use super::*;

/// The lines that every unit has are left out; `; ` is between those of one file.
fn show(made: &FstabUnits) -> Vec<String> {
    let plain = |line: &&str| {
        let usual = ["#", "Documentation=", "SourcePath="];
        !usual.iter().any(|word| line.starts_with(word)) && *line != "[Unit]"
    };
    let files = made.files.iter().map(|(path, text)| {
        format!("{path}: {}", text.lines().filter(plain).collect::<Vec<_>>().join("; "))
    });
    let links = made.links.keys().map(|path| format!("> {path}"));
    files.chain(links).chain(made.complaints.iter().map(|text| format!("! {text}"))).collect()
}

/// Where `/link` leads elsewhere.
fn host<'h>(has_checker: &'h dyn Fn(&str) -> bool) -> Host<'h> {
    let place_of = &|path: &str| path.replace("/link/", "/run/");
    Host { has_checker, place_of, swaps: true }
}

#[track_caller]
fn check(table: &str, expected: &[&str]) {
    assert_eq!(
        show(&units(table.as_bytes(), &host(&|fs_type| fs_type == "ext4"))),
        expected,
        "{table}"
    );
}

#[test]
fn a_mount_is_needed_by_its_target() {
    check(
        "# a comment\n\nUUID=12AB-34cd /boot/efi vfat umask=077,defaults 0 2",
        &[
            "boot-efi.mount: [Mount]; What=/dev/disk/by-uuid/12AB-34cd; Where=/boot/efi; \
             Type=vfat; Options=umask=077",
            "> local-fs.target.requires/boot-efi.mount",
        ],
    );
    check(
        "srv:/a\t/a\\040b\tnfs4\tro,nofail",
        &[
            "a\\x20b.mount: [Mount]; What=srv:/a; Where=/a b; Type=nfs4; Options=ro,nofail",
            "> remote-fs.target.wants/a\\x20b.mount",
        ],
    );
    check("/dev/x /x auto noauto", &["x.mount: [Mount]; What=/dev/x; Where=/x"]);
}

#[test]
fn options_of_systemd_are_settings() {
    check(
        "LABEL=my\\040disk /x xfs x-systemd.device-timeout=5,x-systemd.mount-timeout=7,\
         x-systemd.requires=/y,x-systemd.after=a.service,x-systemd.requires=/dev/z,\
         x-systemd.requires-mounts-for=/q,x-systemd.rw-only,noatime,\
         x-systemd.device-bound=no 0 0",
        &[
            "dev-disk-by\\x2dlabel-my\\x5cx20disk.device.d/50-device-timeout.conf: \
             JobRunningTimeoutSec=5",
            "x.mount: Requires=y.mount; After=y.mount; Requires=dev-z.device; \
             After=dev-z.device; After=a.service; RequiresMountsFor=/q; [Mount]; \
             What=/dev/disk/by-label/my\\x20disk; Where=/x; Type=xfs; \
             Options=noatime,x-systemd.device-bound=no; TimeoutSec=7; ReadWriteOnly=yes",
            "> local-fs.target.requires/x.mount",
        ],
    );
    check(
        "/dev/x /x ext3 x-systemd.automount,x-systemd.idle-timeout=9,x-systemd.requires=a.service",
        &[
            "x.automount: Before=local-fs.target; [Automount]; Where=/x; TimeoutIdleSec=9",
            "x.mount: Requires=a.service; After=a.service; [Mount]; What=/dev/x; Where=/x; Type=ext3",
            "> local-fs.target.requires/x.automount",
        ],
    );
    check(
        "/dev/x /x ext3 x-systemd.wanted-by=a.target,x-systemd.required-by=b.target",
        &[
            "x.mount: [Mount]; What=/dev/x; Where=/x; Type=ext3",
            "> a.target.wants/x.mount",
            "> b.target.requires/x.mount",
        ],
    );
}

#[test]
fn an_automount_point_is_there_though_its_mount_is_not_automatic() {
    let check_links = |options: &str, link: &str| {
        let shown = show(&units(format!("/dev/x /x ext3 {options}").as_bytes(), &host(&|_| false)));
        assert_eq!(shown.last().map(String::as_str), Some(link), "{shown:?}");
        assert_eq!(shown.len(), 3, "{shown:?}");
    };
    check_links("noauto,x-systemd.automount", "> local-fs.target.requires/x.automount");
    check_links("noauto,nofail,x-systemd.automount", "> local-fs.target.wants/x.automount");
}

#[test]
fn a_swap_area_is_a_swap_unit() {
    check(
        "/dev/s none swap sw,pri=5\n/dev/t none swap sw 0 0\n/s%f none swap noauto",
        &[
            "dev-s.swap: [Swap]; What=/dev/s; Options=sw,pri=5",
            "dev-t.swap: [Swap]; What=/dev/t",
            "s\\x25f.swap: [Swap]; What=/s%%f",
            "> swap.target.requires/dev-s.swap",
            "> swap.target.requires/dev-t.swap",
        ],
    );
}

#[test]
fn what_is_to_be_checked_is_checked_where_it_can_be() {
    let made = units(b"/dev/x /x ext4 defaults 0 2", &host(&|_| true));
    let shown = show(&made).join("\n");
    assert!(shown.contains("x.mount: Requires=systemd-fsck@dev-x.service; After="), "{shown}");
    assert!(shown.contains("BindsTo=dev-x.device") && shown.contains("fsck -a -M -T \"/dev/x\""));
    let tagged = show(&units(b"LABEL=x /x auto defaults 0 2", &host(&|fs_type| fs_type == "auto")));
    assert!(tagged[1].contains("systemd-fsck@dev-disk-by\\x2dlabel-x.service"), "{tagged:?}");
    check(
        "/srv/i.img /x ext4 loop 0 2",
        &[
            "x.mount: [Mount]; What=/srv/i.img; Where=/x; Type=ext4; Options=loop",
            "> local-fs.target.requires/x.mount",
            "! /x: /srv/i.img is not a device, so it is not checked",
        ],
    );
    check(
        "/dev/x /x ext2 defaults 0 2",
        &[
            "x.mount: [Mount]; What=/dev/x; Where=/x; Type=ext2",
            "> local-fs.target.requires/x.mount",
        ],
    );
}

/// The arguments of the only service's only command.
fn command_of(made: &FstabUnits) -> Vec<String> {
    let mut files = made.files.iter();
    let (name, text) = files.find(|(path, _)| path.ends_with(".service")).expect("one is made");
    let (file, _) = parse("x".into(), text.as_bytes(), UnitType::Service);
    let file = Arc::new(file);
    let compiler = Compiler {
        name: &UnitName::parse(name).expect("a name"),
        sources: &Sources { fragment: Some(&file), ..Sources::default() },
        context: &Context::system(),
        defaults: &Defaults::default(),
    };
    let (service, faults) = compiler.service();
    assert!(faults.is_empty(), "{faults:?}");
    expand(&service.exec_start[0], &BTreeMap::new())
}

#[test]
fn a_device_is_checked_by_the_name_that_its_mount_has() {
    for (tag, device) in [
        ("LABEL=my\\040disk", "/dev/disk/by-label/my\\x20disk"),
        ("/dev/a$HOME\\040\"%n\"", "/dev/a$HOME \"%n\""),
    ] {
        let made = units(format!("{tag} /x ext4 defaults 0 2").as_bytes(), &host(&|_| true));
        assert_eq!(command_of(&made), ["fsck", "-a", "-M", "-T", device]);
    }
}

#[test]
fn an_nfs_mount_in_the_background_is_waited_for_by_nobody() {
    check(
        "srv:/a /a nfs ro,bg,x-systemd.mount-timeout=9",
        &[
            "a.mount: [Mount]; What=srv:/a; Where=/a; Type=nfs; \
             Options=retry=10000,ro,bg,fg,nofail; TimeoutSec=infinity; TimeoutSec=9",
            "> remote-fs.target.wants/a.mount",
        ],
    );
    for (fs_type, options) in [("nfs4", "bg,fg"), ("ext3", "bg")] {
        let made = units(format!("srv:/a /a {fs_type} {options}").as_bytes(), &host(&|_| false));
        let text = &made.files["a.mount"];
        assert!(text.contains(&format!("Options={options}\n")), "{text}");
    }
}

#[test]
fn the_root_is_mounted_again_as_the_table_says() {
    let shown = show(&units(b"/dev/r / ext4 errors=remount-ro 0 1", &host(&|_| true))).join("\n");
    assert!(shown.starts_with("-.mount: [Mount]; What=/dev/r; Where=/; Type=ext4"), "{shown}");
    assert!(shown.contains("ExecStart=mount -o remount \"/\""), "{shown}");
    assert!(shown.ends_with("> local-fs.target.wants/systemd-remount-fs.service"), "{shown}");
}

/// systemd-remount-fs(8): also `/usr` and what the kernel offers by file systems.
#[test]
fn what_is_mounted_before_fstab_is_looked_at_gets_the_options_that_it_says() {
    let table = b"proc /proc/ proc hidepid=2,nofail 0 0\nsysfs /sys sysfs defaults,noauto,nofail\n\
        tmpfs /dev/shm tmpfs nodev,x-initrd.mount\n/dev/u /usr ext4 ro,noatime";
    let made = units(table, &host(&|_| false));
    assert_eq!(made.complaints, <[&str; 0]>::default());
    let services =
        ["proc", "dev-shm", "usr"].map(|stem| format!("systemd-remount-fs@{stem}.service"));
    for (service, place) in services.iter().zip(["/proc", "/dev/shm", "/usr"]) {
        let text = &made.files[service];
        let lines = [
            format!("\nConditionPathIsMountPoint={place}\n"),
            format!("\nExecStart=mount -o remount \"{place}\"\n"),
        ];
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        assert!(made.links.contains_key(&format!("local-fs.target.wants/{service}")));
    }
    assert_eq!(made.files.len(), services.len() + 1, "{:?}", made.files);
    assert!(made.files.contains_key("usr.mount"), "which may not be mounted before");
}

#[test]
fn a_line_that_is_no_text_costs_no_other() {
    let table = b"# gr\xfc\xdfe\n/dev/a /a ext3 defaults 0 0 gr\xfc\xdfe\n/dev/b /b\xfc ext3\n/dev/c /c ext3";
    assert_eq!(
        show(&units(table, &host(&|_| false))),
        [
            "a.mount: [Mount]; What=/dev/a; Where=/a; Type=ext3",
            "c.mount: [Mount]; What=/dev/c; Where=/c; Type=ext3",
            "> local-fs.target.requires/a.mount",
            "> local-fs.target.requires/c.mount",
            "! line 3: a field is not UTF-8",
        ]
    );
}

#[test]
fn rubbish_is_told_by_its_line_and_the_rest_counts() {
    check(
        "x\nproc /proc proc\nnone ignored ignore\n/dev/a a ext4\n/dev/b /b ext4\n/dev/c /b ext4\n\
         /dev/d /d\\012[Service] ext4\n/dev/e /e ext4 x-systemd.wanted-by=..,x-systemd.growfs\n\
         swapfile none swap",
        &[
            "b.mount: [Mount]; What=/dev/b; Where=/b; Type=ext4",
            "e.mount: [Mount]; What=/dev/e; Where=/e; Type=ext4",
            "> local-fs.target.requires/b.mount",
            "! line 1: it has fewer than two fields",
            "! line 4: \"a\" is not a path",
            "! line 6: an earlier line has already made b.mount",
            "! line 7: a field has a character that unit names cannot have",
            "! /e: x-systemd.growfs is not supported",
            "! line 8: x-systemd.wanted-by=.. does not name a unit",
            "! line 9: \"swapfile\" is not a path",
        ],
    );
}

#[test]
fn what_lies_behind_a_link_is_mounted_where_it_leads() {
    check(
        "x /link/a tmpfs x-systemd.automount",
        &[
            "run-a.automount: Before=local-fs.target; [Automount]; Where=/run/a",
            "run-a.mount: [Mount]; What=x; Where=/run/a; Type=tmpfs",
            "> local-fs.target.requires/run-a.automount",
        ],
    );
}

#[test]
fn links_are_followed_as_far_as_they_are_there() {
    let dir = std::env::temp_dir().join(format!("warren-places-{}", std::process::id()));
    let dir = dir.to_str().expect("text");
    fs::create_dir_all(format!("{dir}/real/trap")).expect("a directory can be made");
    let links = [
        ("near", "real/./deep"),
        ("far", "/nowhere/at/all"),
        ("up", "real/../real"),
        ("round", "round"),
        ("real/trap/link", "/elsewhere"),
    ];
    for (link, target) in links {
        symlink(target, format!("{dir}/{link}")).expect("a link can be made");
    }
    let traps = BTreeSet::from([format!("{dir}/real/trap")]);
    let place = |path: &str| place_of(&format!("{dir}/{path}"), &traps);
    for (path, expected) in [
        ("real/x", "real/x"),
        ("near/x", "real/deep/x"),
        ("up/x", "real/x"),
        ("round/x", "round/x"),
        ("up/trap/link/x", "real/trap/link/x"),
    ] {
        assert_eq!(place(path), format!("{dir}/{expected}"), "{path}");
    }
    assert_eq!(place("far/x"), "/nowhere/at/all/x");
    assert_eq!(place_of("/", &traps), "/");
    let _ = fs::remove_dir_all(dir);
}

#[test]
fn the_command_line_says_whether_it_is_read_and_swapped() {
    for (line, expected) in [
        ("quiet", (true, true)),
        ("fstab=no systemd.swap=0", (false, false)),
        ("fstab=no fstab=yes xfstab=no systemd.swap=perhaps", (true, true)),
    ] {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(is_asked_for(&words), expected, "{line}");
    }
    let without = Host { swaps: false, ..host(&|_| false) };
    let made = units(b"/dev/s none swap sw\nx /x tmpfs x-initrd.mount", &without);
    let expected = [
        "x.mount: [Mount]; What=x; Where=/x; Type=tmpfs; Options=x-initrd.mount",
        "> local-fs.target.requires/x.mount",
    ];
    assert_eq!(show(&made), expected);
}
