//! Against the kernel, in a mount namespace of the test's own. Needs CAP_SYS_ADMIN.

use super::*;
use crate::epoll::{Epoll, Events, Interest};
use crate::namespace::{Namespaces, unshare};

/// Runs in a thread with a private mount namespace and a scratch directory.
#[track_caller]
pub(super) fn in_namespace(test: &str, run: impl FnOnce(&str) + Send + 'static) {
    let test = test.to_owned();
    let body = move || {
        if unshare(Namespaces::MOUNT).is_err() {
            return crate::test_not_run(&test, "CAP_SYS_ADMIN");
        }
        set_propagation_of_all(Sharing::Private).expect("our own namespace can be private");
        let dir = std::env::temp_dir().join(format!("warren-mount-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a scratch directory can be made");
        let path = dir.to_str().expect("the scratch path is text").to_owned();
        mount("scratch", &path, "tmpfs", MountFlags::empty(), "").expect("tmpfs");
        run(&path);
        unmount(&path, Unmount::Lazy).expect("it was mounted");
        let _ = std::fs::remove_dir(&dir);
    };
    std::thread::spawn(body).join().expect("the test in its namespace");
}

/// The line of `/proc/thread-self/mountinfo` for a mount point: this thread's namespace.
fn line_of(mount_point: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/thread-self/mountinfo").expect("proc");
    let is_it = |l: &&str| l.split(' ').nth(4) == Some(mount_point);
    text.lines().rev().find(is_it).map(str::to_owned)
}

#[test]
fn options_are_told_of_one_as_the_table_has_them() {
    in_namespace("options", |dir| {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOATIME;
        for (name, flags) in [("a b", flags), ("c", MountFlags::NOEXEC | MountFlags::SYNCHRONOUS)] {
            let path = format!("{dir}/{name}");
            std::fs::create_dir(&path).expect("made");
            mount("none", &path, "tmpfs", flags, "size=64k").expect("mounted");
            let of_table = table_with_options().expect("procfs").into_iter();
            let of_table = of_table.rev().find(|(mount, _)| mount.mount_point == path);
            let of_table = of_table.expect("it is mounted").1;
            assert!(of_table.contains("size=64k"), "{of_table}");
            let told = match at(&path) {
                Ok(Some(mount)) => options_of(mount.id),
                other => panic!("{other:?}"),
            };
            match told {
                Ok(Some(told)) => assert_eq!(told, of_table),
                _ => crate::test_not_run("options_are_told_of_one", "Linux 6.11"),
            }
        }
    });
}

/// The root directory of a plain chroot(2) is no mount point, and what it lies in may be shared.
#[test]
fn mounts_of_a_plain_chroot_become_its_own() {
    in_namespace("chroot", |dir| {
        let (root, peer) = (format!("{dir}/shared/root"), format!("{dir}/peer"));
        for path in [&peer, &format!("{dir}/shared")] {
            std::fs::create_dir(path).expect("made");
        }
        mount("x", &format!("{dir}/shared"), "tmpfs", MountFlags::empty(), "").expect("tmpfs");
        set_propagation(&format!("{dir}/shared"), (Sharing::Shared, false)).expect("shared");
        mount(&format!("{dir}/shared"), &peer, "", MountFlags::BIND, "").expect("a bind");
        for name in ["proc", "inner", "new"] {
            std::fs::create_dir_all(format!("{root}/{name}")).expect("made");
        }
        mount("/proc", &format!("{root}/proc"), "", MountFlags::BIND, "").expect("a bind");
        let root = CString::new(root).expect("text");
        let inside = move || {
            unshare(Namespaces::MOUNT).expect("it could before");
            crate::child::change_root(&root).expect("chroot");
            std::env::set_current_dir("/").expect("chdir");
            let plain = set_propagation("/", (Sharing::Private, true));
            assert_eq!(plain.map_err(|e| e.errno), Err(libc::EINVAL));
            assert!(!is_mount_point(Path::new("/")));
            set_propagation_of_all(Sharing::Private).expect("it works here too");
            assert!(is_mount_point(Path::new("/")));
            mount("x", "/inner", "tmpfs", MountFlags::empty(), "").expect("tmpfs");
            std::fs::write("/inner/file", "").expect("written");
            let own = std::fs::read_to_string("/proc/thread-self/mountinfo").expect("proc");
            assert!(own.contains(" / /inner ") && !own.contains("shared:"), "{own}");
            mount("x", "/new", "tmpfs", MountFlags::empty(), "").expect("tmpfs");
            crate::namespace::pivot_root(Path::new("/new")).expect("a mount point can be left");
            assert_eq!(std::fs::read_dir("/").expect("a root").count(), 0);
        };
        std::thread::spawn(inside).join().expect("the part inside");
        let seen = Path::new(&peer).join("root/inner/file");
        assert!(!seen.exists(), "it was mounted inside only");
    });
}

#[test]
fn file_systems_are_mounted_with_their_options() {
    in_namespace("options", |dir| {
        let at = format!("{dir}/a");
        std::fs::create_dir(&at).expect("made");
        let options = MountOptions::parse("ro,nosuid,noexec,size=64k,nofail");
        mount_fs("what", &at, "tmpfs", &options).expect("mounted");
        let line = line_of(&at).expect("it is there");
        assert!(line.contains(" ro,nosuid,noexec"), "{line}");
        assert!(line.contains("- tmpfs what ro") && line.contains("size=64k"), "{line}");
        let bound = format!("{dir}/b");
        std::fs::create_dir(&bound).expect("made");
        mount_fs(dir, &bound, "", &MountOptions::parse("bind,ro")).expect("bound");
        assert!(line_of(&bound).is_some_and(|l| l.contains(" ro,")));
        mount_fs("", &at, "", &MountOptions::parse("remount,rw")).expect("remounted");
        assert!(line_of(&at).is_some_and(|l| l.contains("- tmpfs what rw")));
        let bad = mount_fs("x", &at, "tmpfs", &MountOptions::parse("no-such-option"));
        assert_eq!(bad.map_err(|e| e.errno), Err(libc::EINVAL));
        assert_eq!(unmount(dir, Unmount::Normal).map_err(|e| e.errno), Err(libc::EBUSY));
        unmount(&at, Unmount::Normal).expect("not in use");
        assert_eq!(line_of(&at), None);
    });
}

/// Between the look and the mount, a user swaps the directory above for a link.
#[test]
fn what_is_mounted_lands_where_was_looked_and_nothing_is_made_behind_a_link() {
    in_namespace("held-place", |dir| {
        let (own, victim) = (format!("{dir}/own"), format!("{dir}/victim"));
        std::fs::create_dir_all(format!("{victim}/b")).expect("made");
        let target = format!("{own}/a/b");
        let held = MountPoint::make_directory(&target, 0o750).expect("made");
        let mode = std::fs::metadata(&target).expect("it is there").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o750);
        std::fs::rename(format!("{own}/a"), format!("{own}/moved")).expect("renamed");
        std::os::unix::fs::symlink(&victim, format!("{own}/a")).expect("a link");
        let options = MountOptions::parse("size=64k");
        // The rest of its work is at the path, in which there is a link by now.
        let finished = mount_fs_at("what", &held, "tmpfs", &options);
        assert_eq!(finished.map_err(|e| e.errno), Err(libc::ELOOP));
        assert_eq!(line_of(&format!("{victim}/b")), None, "nothing is mounted behind the link");
        assert!(line_of(&format!("{own}/moved/b")).is_some(), "it is where was looked");
        for path in [format!("{own}/a/new"), format!("{own}/a")] {
            let refused = MountPoint::make_directory(&path, 0o755).map(drop);
            assert_eq!(refused.map_err(|e| e.errno), Err(libc::ELOOP), "{path}");
            let refused = MountPoint::make_file(&path).map(drop);
            assert_eq!(refused.map_err(|e| e.errno), Err(libc::ELOOP), "{path}");
        }
        assert!(!Path::new(&format!("{victim}/new")).exists(), "nothing is made behind the link");
        assert_eq!(MountPoint::open("relative").map(drop).map_err(|e| e.errno), Err(libc::EINVAL));
    });
}

#[test]
fn file_systems_and_binds_are_mounted_at_places_that_are_held() {
    in_namespace("at-place", |dir| {
        let at = format!("{dir}/deep/a");
        let place = MountPoint::make_directory(&at, 0o755).expect("made");
        let options = MountOptions::parse("ro,nosuid,size=64k");
        mount_fs_at("what", &place, "tmpfs", &options).expect("mounted");
        let line = line_of(&at).expect("it is there");
        assert!(line.contains(" ro,nosuid") && line.contains("- tmpfs what ro"), "{line}");
        let place = MountPoint::open(&at).expect("it is there");
        mount_fs_at("more", &place, "tmpfs", &MountOptions::parse("")).expect("on top of it");
        assert!(line_of(&at).is_some_and(|line| line.contains("- tmpfs more")));
        std::fs::write(format!("{dir}/file"), "bound").expect("written");
        let to = format!("{dir}/to/file");
        let place = MountPoint::make_file(&to).expect("made");
        let options = MountOptions::parse("bind,ro");
        mount_fs_at(&format!("{dir}/file"), &place, "none", &options).expect("bound");
        assert!(line_of(&to).is_some_and(|line| line.contains(" ro,")), "flags of a bind");
        let missing = mount_fs_at("/no/such/place", &place, "none", &options);
        assert_eq!(missing.map_err(|e| e.path), Err(Some(to.into())), "errors name its path");
    });
}

/// Whoever mounted it may have been killed over it.
#[test]
fn a_mount_that_is_there_is_finished_with_its_flags_and_its_propagation() {
    in_namespace("finish", |dir| {
        let to = format!("{dir}/to");
        std::fs::create_dir(&to).expect("made");
        let check = |options: &str, begun: bool, expected: [&str; 2]| {
            if begun {
                mount(dir, &to, "", MountFlags::BIND, "").expect("a bind");
                finish(&to, &MountOptions::parse(options)).expect("it is finished");
            } else {
                mount_fs(dir, &to, "none", &MountOptions::parse(options)).expect("mounted");
            }
            let line = line_of(&to).expect("it is there");
            assert!(expected.iter().all(|part| line.contains(part)), "{options}: {line}");
            unmount(&to, Unmount::Normal).expect("not in use");
        };
        for begun in [false, true] {
            check("bind", begun, [" rw", " - tmpfs"]);
            check("bind,ro,nosuid", begun, [" ro,nosuid", " - tmpfs"]);
            check("rbind,noexec,shared", begun, ["noexec", " shared:"]);
        }
    });
}

#[test]
fn a_mount_at_a_path_that_is_no_text_hides_no_other() {
    use std::os::unix::ffi::OsStrExt;
    in_namespace("text", |dir| {
        let at = Path::new(dir).join(std::ffi::OsStr::from_bytes(b"\xff"));
        std::fs::create_dir(&at).expect("made");
        rm::mount("x", &at, "tmpfs", MountFlags::empty(), None).expect("tmpfs");
        assert!(crate::autofs::points().is_ok());
        assert!(table().is_ok_and(|all| all.iter().any(|mount| mount.mount_point == dir)));
    });
}

#[test]
fn statmount_knows_what_mountinfo_knows() {
    in_namespace("statmount", |dir| {
        let ids = match list() {
            Err(e) if e.errno == libc::ENOSYS => {
                return crate::test_not_run("statmount_knows_what_mountinfo_knows", "Linux 6.8");
            }
            other => other.expect("listmount"),
        };
        let mounts: Vec<Mount> = ids.into_iter().filter_map(|id| stat(id).ok()).collect();
        let found = mounts.iter().find(|m| m.mount_point == dir).expect("it is mounted");
        assert_eq!((found.source.as_str(), found.fstype.as_str()), ("scratch", "tmpfs"));
        let text = std::fs::read_to_string("/proc/thread-self/mountinfo").expect("proc");
        assert_eq!(mounts.len(), mountinfo::parse(&text).len());
        assert_eq!(stat(u64::MAX - 1).map_err(|e| e.errno), Err(libc::ENOENT));
    });
}

#[test]
fn a_remount_of_a_bind_mount_changes_that_mount_alone_and_puts_none_over_it() {
    in_namespace("rebind", |dir| {
        let (from, to) = (format!("{dir}/from"), format!("{dir}/to"));
        for path in [&from, &to] {
            std::fs::create_dir(path).expect("made");
        }
        let bind = |options: &str| {
            let options = MountOptions::parse(options);
            mount_fs(&from, &to, "none", &options).expect("it is allowed");
            let all = table().expect("mountinfo");
            assert_eq!(all.iter().filter(|mount| mount.mount_point == to).count(), 1);
            let write = |below: &str| std::fs::write(format!("{below}/file"), "x").is_ok();
            (write(&from), write(&to))
        };
        assert_eq!(bind("bind"), (true, true));
        assert_eq!(bind("bind,ro,remount"), (true, false));
        assert_eq!(bind("rbind,remount"), (true, true));
    });
}

#[test]
fn paths_that_are_looked_at_together_are_looked_up_in_one_table() {
    in_namespace("together", |dir| {
        let over = format!("{dir}/over");
        std::fs::create_dir(&over).expect("made");
        let mut now = Now::default();
        let source = |found: Result<Option<Mount>>| found.expect("mountinfo").map(|m| m.source);
        assert_eq!(source(now.at_by_table(dir)).as_deref(), Some("scratch"));
        mount("later", &over, "tmpfs", MountFlags::empty(), "").expect("mounted");
        assert_eq!(source(now.at_by_table(&over)), None, "it is not read again");
        assert_eq!(source(Now::default().at_by_table(&over)).as_deref(), Some("later"));
    });
}

/// Mounts, moves and unmounts under a watch; the same end for both sources.
fn check_watch(mut watch: MountWatch, dir: &str) {
    let epoll = Epoll::new().expect("epoll");
    epoll.add(&watch, 1, watch.interest()).expect("epoll");
    watch.drain().expect("the first drain takes everything");
    assert!(watch.mounts().values().any(|m| m.mount_point == dir));
    assert_eq!(watch.drain().expect("drain"), MountDelta::default());
    let (a, b) = (format!("{dir}/a a"), format!("{dir}/b"));
    for path in [&a, &b] {
        std::fs::create_dir_all(path).expect("made");
    }
    mount("one", &a, "tmpfs", MountFlags::empty(), "").expect("mounted");
    wait(&epoll);
    let delta = watch.drain().expect("drain");
    assert_eq!(delta.removed, []);
    let [new] = delta.added.as_slice() else { panic!("{delta:?}") };
    assert_eq!((new.mount_point.as_str(), new.source.as_str()), (a.as_str(), "one"));
    assert_eq!(watch.mounts().get(&new.parent).map(|m| m.mount_point.as_str()), Some(dir));
    rm::mount_move(a.as_str(), b.as_str()).expect("moved");
    wait(&epoll);
    let moved = watch.drain().expect("drain").added;
    assert_eq!(moved.iter().map(|m| (m.id, &m.mount_point)).collect::<Vec<_>>(), [(new.id, &b)]);
    // What is mounted below comes with it, and the kernel may name the one at the top alone.
    let (below, beside) = (format!("{b}/below"), format!("{dir}/b beside"));
    for path in [&below, &beside] {
        std::fs::create_dir(path).expect("made");
        mount("two", path, "tmpfs", MountFlags::empty(), "").expect("mounted");
    }
    wait(&epoll);
    let two = watch.drain().expect("drain").added;
    let two = two.iter().find(|m| m.mount_point == below).expect("it is told").id;
    rm::mount_move(b.as_str(), a.as_str()).expect("moved");
    wait(&epoll);
    let moved = watch.drain().expect("drain").added;
    let moved: Vec<_> = moved.iter().map(|m| (m.id, m.mount_point.clone())).collect();
    let expected = [(new.id, a.clone()), (two, format!("{a}/below"))];
    assert!(moved.len() == 2 && expected.iter().all(|one| moved.contains(one)), "{moved:?}");
    unmount(&format!("{a}/below"), Unmount::Normal).expect("not in use");
    unmount(&a, Unmount::Normal).expect("not in use");
    wait(&epoll);
    // The kernel gives numbers anew that are free.
    let removed: std::collections::BTreeSet<_> =
        watch.drain().expect("drain").removed.into_iter().collect();
    assert_eq!(removed, [new.id, two].into());
    assert!(!watch.mounts().contains_key(&new.id));
}

/// Until the watch says that there is something.
fn wait(epoll: &Epoll) {
    let mut events = Events::with_capacity(1);
    let bound = std::time::Duration::from_secs(30);
    epoll.wait(&mut events, Some(bound)).expect("epoll");
    assert!(!events.is_empty(), "a change of the mounts is reported");
}

#[test]
fn changes_are_seen_in_mountinfo() {
    in_namespace("mountinfo", |dir| {
        check_watch(MountWatch::by_mountinfo().expect("mountinfo can be watched"), dir);
    });
}

#[test]
fn changes_are_seen_by_fanotify() {
    in_namespace("fanotify", |dir| {
        let watch = MountWatch::new().expect("some way works");
        if watch.is_slow() {
            return crate::test_not_run("changes_are_seen_by_fanotify", "Linux 6.15");
        }
        check_watch(watch, dir);
    });
}

#[test]
fn an_automount_point_holds_back_until_it_is_answered() {
    in_namespace("autofs", |dir| {
        let test = "an_automount_point_holds_back_until_it_is_answered";
        let Ok(control) = crate::autofs::Device::open() else {
            return crate::test_not_run(test, "/dev/autofs");
        };
        let at = format!("{dir}/auto");
        std::fs::create_dir(&at).expect("made");
        let (reader, writer) = crate::autofs::pipe().expect("a pipe");
        let detached = crate::autofs::Detached::make("warren-test", "", writer.as_fd());
        let detached = detached.expect("autofs");
        let device = detached.device();
        let place = MountPoint::open(&at).expect("the directory is there");
        detached.attach(&place).expect("nothing is in the way");
        drop(detached);
        let handle = control.open_mount(&at, device).expect("opened");
        control.set_timeout(handle.as_fd(), 600).expect("a timeout");
        assert_eq!(crate::autofs::read_packet(reader.as_fd()), Ok(None));
        // Only another process group is held back.
        let script = format!("ls {at}");
        let mut client = std::process::Command::new("/bin/sh");
        use std::os::unix::process::CommandExt;
        client.process_group(0).args(["-c", &script]).stdout(std::process::Stdio::piped());
        let client = client.spawn().expect("sh");
        let token = missing_token(&reader, device);
        mount("inside", &at, "tmpfs", MountFlags::empty(), "").expect("we may pass");
        std::fs::write(format!("{at}/found"), "").expect("written");
        control.ready(handle.as_fd(), token).expect("answered");
        let output = client.wait_with_output().expect("it goes on");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "found\n");
        let again = control.open_mount(&at, device).expect("below what is mounted on it");
        assert_eq!(control.expire(again.as_fd(), crate::autofs::ExpireHow::Unused), Ok(false));
        // The kernel may still be letting go of what the client had open.
        unmount(&at, Unmount::Lazy).expect("taken away");
        control.make_catatonic(handle.as_fd()).expect("switched off");
        drop((handle, again));
        unmount(&at, Unmount::Normal).expect("not in use");
    });
}

fn missing_token(reader: &std::os::fd::OwnedFd, device: u64) -> u32 {
    use crate::autofs::{Packet, kernel_device, read_packet};
    let epoll = Epoll::new().expect("epoll");
    epoll.add(reader, 1, Interest::READ).expect("epoll");
    let bound = std::time::Duration::from_secs(30);
    epoll.wait(&mut Events::with_capacity(1), Some(bound)).expect("epoll");
    match read_packet(reader.as_fd()) {
        Ok(Some((about, Packet::Missing { token, .. }))) => {
            assert_eq!(about, kernel_device(device));
            token
        }
        other => panic!("expected a packet, got {other:?}"),
    }
}

/// Files of an overlay have device numbers of their own, and a bind mount has those of its parent:
/// neither tells a mount point.
#[test]
fn mount_points_are_told_from_what_is_in_a_file_system() {
    in_namespace("points", |dir| {
        for name in ["lower/a", "upper", "work", "over", "source", "bind"] {
            std::fs::create_dir_all(format!("{dir}/{name}")).expect("made");
        }
        for file in ["lower/file", "one", "other"] {
            std::fs::write(format!("{dir}/{file}"), "").expect("written");
        }
        std::os::unix::fs::symlink(format!("{dir}/bind"), format!("{dir}/link")).expect("a link");
        let bind = |from: &str, to: &str| {
            mount(&format!("{dir}/{from}"), &format!("{dir}/{to}"), "", MountFlags::BIND, "")
                .expect("a bind");
        };
        bind("source", "bind");
        bind("one", "other");
        let parts = format!("lowerdir={dir}/lower,upperdir={dir}/upper,workdir={dir}/work");
        mount("x", &format!("{dir}/over"), "overlay", MountFlags::empty(), &parts)
            .expect("an overlay");
        for (name, want) in [
            ("bind", true),
            ("other", true),
            ("link", true),
            ("over", true),
            ("over/file", false),
            ("over/a", false),
            ("one", false),
            ("source", false),
            ("missing", false),
        ] {
            assert_eq!(is_mount_point(Path::new(&format!("{dir}/{name}"))), want, "{name}");
        }
        for name in ["over", "other", "bind"] {
            unmount(&format!("{dir}/{name}"), Unmount::Lazy).expect("it was mounted");
        }
    });
}

#[test]
fn a_path_is_covered_by_what_is_mounted_at_it_and_not_by_what_it_lies_in() {
    in_namespace("covered", |path| {
        let below = format!("{path}/below");
        std::fs::create_dir(&below).expect("a directory can be made");
        std::fs::write(format!("{path}/file"), "").expect("a file can be made");
        let covered = |path: &str| is_covered(Path::new(path));
        assert_eq!(
            [covered(path), covered(&below), covered("/no/such/path")],
            [true, false, false]
        );
        mount("covers", &below, "tmpfs", MountFlags::empty(), "").expect("tmpfs");
        assert!(covered(&below) && is_trap(Path::new(&below)) == Ok(false));
        unmount(&below, Unmount::Normal).expect("nobody uses it");
        assert!(!covered(&below));
    });
}
