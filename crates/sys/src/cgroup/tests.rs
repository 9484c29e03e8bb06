use super::*;
use std::process::{Command, Stdio};

#[track_caller]
fn check_path(group: &str, expected: Option<&str>) {
    assert_eq!(checked(Path::new(group)).ok(), expected.map(Path::new), "{group:?}");
}

#[test]
fn a_path_cannot_leave_the_tree() {
    check_path("", Some(""));
    check_path("/", Some(""));
    check_path("a.slice/b.service/", Some("a.slice/b.service"));
    check_path("a/../b", None);
    check_path("..", None);
    check_path("a//b", None);
    check_path("./a", None);
}

/// Where mountinfo says that `group` is.
#[track_caller]
fn check_directory(mountinfo: &str, group: &str, expected: &str) {
    let found = parse_hierarchy(mountinfo).map(|h| h.directory_of(group));
    assert_eq!(found.unwrap_or_default(), Path::new(expected), "{group}");
}

#[test]
fn the_hierarchy_is_found_in_mountinfo() {
    let unified = "30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    check_directory(unified, "/", "/sys/fs/cgroup/");
    check_directory(unified, "/user.slice/a", "/sys/fs/cgroup/user.slice/a");
    let hybrid = "31 22 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                  32 22 0:28 / /sys/fs/cgroup/uni\\040fied rw shared:1 - cgroup2 none rw\n";
    check_directory(hybrid, "/a", "/sys/fs/cgroup/uni fied/a");
    let part = "32 22 0:28 /box/1 /sys/fs/cgroup ro - cgroup2 none rw\n";
    check_directory(part, "/box/1/a", "/sys/fs/cgroup/a");
    check_directory(part, "/box/1", "/sys/fs/cgroup/");
    check_directory(part, "/box/12", "/sys/fs/cgroup/box/12");
    check_directory("garbage\n - \n", "/", "");
}

#[test]
fn files_are_parsed() {
    let both = Populated { populated: true, frozen: true };
    assert_eq!(parse_events("populated 1\nfrozen 1\n"), both);
    assert_eq!(parse_events("populated 0\n"), Populated::default());
    assert_eq!(parse_own_path("3:cpu:/x\n0::/a/b\n").as_deref(), Some("/a/b"));
    assert_eq!(parse_pids("1\n22\n\n"), [1, 22]);
    assert_eq!(parse_pids("0\n1\n0\n"), [1], "0 would be the caller's own process group");
    assert_eq!(key_value("usage_usec 12\nuser_usec 3\n", "usage_usec"), Some(12));
    assert_eq!(key_value("usage_usec_x 12\n", "usage_usec"), None);
}

/// Needs root and a cgroup2 mount; says so when it cannot run.
#[test]
fn groups_are_made_watched_killed_and_removed() {
    let mount = mount_point().expect("mountinfo can be read");
    let Some(mount) = mount.filter(|_| rustix::process::geteuid().is_root()) else {
        return crate::test_not_run("groups_are_made_watched_killed_and_removed", "root, cgroup2");
    };
    let top = Tree::open(&mount).expect("the mount can be opened");
    let name = format!("warren-sys-test-{}", std::process::id());
    let result = std::panic::catch_unwind(|| life_of_a_group(&top, &name));
    let _ = top.kill(&name);
    let _ = top.prune(&name);
    result.expect("the life of a group");
}

fn life_of_a_group(top: &Tree, name: &str) {
    let group = format!("{name}/a.slice/b.service");
    top.make(&group).expect("groups can be made");
    top.make(&group).expect("making it again is fine");
    let watch = Watch::new().expect("inotify works");
    let id = watch.add(top, &group).expect("cgroup.events can be watched");
    let mut cat = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().expect("cat");
    top.attach(&group, cat.id() as i32).expect("a child can be moved");
    assert!(top.events(&group).expect("events").populated);
    assert_eq!(top.procs_below(name).expect("procs"), [cat.id() as i32]);
    let count = |group: &str| top.count_children(group).expect("it is there");
    assert_eq!((count(name), count(&group)), (1, 0));
    assert_eq!(top.remove(&group).map_err(|e| e.errno), Err(libc::EBUSY));
    let mut changed = Vec::new();
    let ep = crate::epoll::Epoll::new().expect("epoll works");
    ep.add(&watch, 1, crate::epoll::Interest::READ).expect("inotify can be watched");
    let mut ready = crate::epoll::Events::with_capacity(1);
    ep.wait(&mut ready, None).expect("the kernel notifies from a work queue, so it may be late");
    watch.drain(&mut changed).expect("drain");
    assert_eq!(changed, [id]);
    threads_are_their_domains(top, name, &group, cat.id() as i32);
    names_are_bytes(top, name, cat.id() as i32);
    top.kill(&group).expect("cgroup.kill");
    cat.wait().expect("our child");
    assert!(!top.events(&group).expect("events").populated);
    assert_eq!(top.prune(name), Ok(true));
    assert_eq!(top.prune(name), Ok(false));
    two_may_remove_the_same(top, name);
    depth_costs_nothing(top, name);
    many_are_looked_at_and_removed_a_few_at_a_time(top, name);
    assert_eq!(top.exists(name), Ok(false));
}

/// A service that keeps threads in a group of their own is still found.
fn threads_are_their_domains(top: &Tree, name: &str, group: &str, pid: i32) {
    let threads = format!("{group}/threads/more");
    top.make(&threads).expect("groups can be made");
    for threaded in [&format!("{group}/threads"), &threads] {
        top.write(threaded, "cgroup.type", "threaded").expect("a group can be threaded");
    }
    top.write(&threads, "cgroup.threads", &pid.to_string()).expect("a thread can be moved");
    let refused = top.procs(&threads).map_err(|e| e.errno);
    assert_eq!(refused, Err(libc::EOPNOTSUPP), "the kernel lists them elsewhere");
    assert_eq!(top.procs_below(name).expect("procs"), [pid]);
}

/// Whoever has a group delegated may call one below it as he likes.
fn names_are_bytes(top: &Tree, name: &str, pid: i32) {
    let group = Path::new(name).join(OsStr::from_bytes(b"\xff/\xfe"));
    top.make(&group).expect("groups can be made");
    top.write(&group, "cgroup.procs", &pid.to_string()).expect("a process can be moved");
    assert_eq!(top.procs_below(name).expect("procs"), [pid]);
    assert!(crate::process::cgroup_path(pid).is_ok_and(|path| path.contains(name)));
}

/// Deeper than any path may be long: whoever has a group delegated makes what he likes.
fn depth_costs_nothing(top: &Tree, name: &str) {
    const LEVELS: usize = 3000;
    let open = |above: &OwnedFd, name: &str, flags| {
        rustix::fs::openat(above, name, flags, Mode::empty()).expect("it is there")
    };
    top.make(name).expect("groups can be made");
    let mut here = top.open_dir(name).expect("it is there");
    for _ in 0..LEVELS {
        rustix::fs::mkdirat(&here, "d", Mode::RWXU).expect("groups can be made");
        here = open(&here, "d", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC);
    }
    let mut cat = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("cat(1) runs");
    let procs = open(&here, "cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC);
    fs::File::from(procs).write_all(cat.id().to_string().as_bytes()).expect("it can be moved");
    assert_eq!(top.procs_below(name).expect("procs"), [cat.id() as i32]);
    assert_eq!(top.prune(name).map_err(|e| e.errno), Err(libc::EBUSY), "somebody is in it");
    assert_eq!(top.procs_below(name).expect("procs"), [cat.id() as i32]);
    top.kill(name).expect("cgroup.kill");
    cat.wait().expect("our child");
    assert_eq!(top.prune(name), Ok(true));
}

/// Each goes on when the other was faster, until nothing is left.
fn two_may_remove_the_same(top: &Tree, name: &str) {
    for _ in 0..400 {
        for child in 0..20 {
            top.make(format!("{name}/a{child}.slice/b.service")).expect("groups can be made");
        }
        let prune = || top.prune(name).expect("nobody is in it");
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(prune);
            (prune(), other.join().expect("it does not panic"))
        });
        assert!((one || other) && !top.exists(name).expect("it can be looked at"));
    }
}

fn many_are_looked_at_and_removed_a_few_at_a_time(top: &Tree, name: &str) {
    const GROUPS: usize = 100;
    top.make(name).expect("groups can be made");
    for child in 0..GROUPS {
        top.make(format!("{name}/g{child:03}/below")).expect("groups can be made");
    }
    let mut cat = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().expect("cat");
    top.attach(name, cat.id() as i32).expect("a child can be moved");
    let all = 2 * GROUPS + 1;
    for most in [1, 2, GROUPS, all - 1, all, all + 1] {
        let found = top.some_procs_below(name, most).expect("they can be listed");
        assert_eq!(found, (vec![cat.id() as i32], most >= all), "{most}");
    }
    // The group itself is one of them.
    assert_eq!(top.prune_some(name, 61), Ok(Pruned::Some));
    let left = top.count_children(name).expect("it is there");
    assert!((1..GROUPS).contains(&left), "{left}");
    let pruned = top.prune_some(name, all).map_err(|e| e.errno);
    assert_eq!(pruned, Err(libc::EBUSY), "somebody is in it");
    top.kill(name).expect("cgroup.kill");
    cat.wait().expect("our child");
    assert_eq!(top.prune_some(name, 1), Ok(Pruned::All));
    assert_eq!(top.prune_some(name, 1), Ok(Pruned::WasGone));
}

#[test]
fn what_was_done_on_several_devices_is_added_up() {
    let text = "8:16 rbytes=10 wbytes=200 rios=1 wios=20 dbytes=7 dios=7\n254:0 rbytes=5 wbytes=0 rios=2 wios=0\n253:1\n";
    let sums = IoCounts { read_bytes: 15, written_bytes: 200, reads: 3, writes: 20 };
    assert_eq!((IoCounts::of(text), IoCounts::of("")), (sums, IoCounts::default()));
}
