//! Plans as text: settings on one line, steps on the next.

use super::arrange::{Source, Step, arrange, attribute, joined};
use super::{Access, Content, Entry, Plan, Purpose, Shared, Taken, UserMap};

fn plan(settings: &str) -> Plan {
    let mut plan = Plan::default();
    for line in settings.split("; ") {
        let (setting, value) = line.split_once('=').expect("SETTING=VALUE");
        let words: Vec<&str> = value.split(' ').collect();
        let mut problems = Vec::new();
        assert_eq!(plan.take(setting, &words, &mut problems), Taken::Yes, "{setting}");
        assert_eq!(problems, [], "{setting}");
    }
    plan
}

fn text(step: &Step) -> String {
    let source = match &step.source {
        Source::InPlace => "in place".to_owned(),
        Source::Tree { path, recursive: true } => path.clone(),
        Source::Tree { path, recursive: false } => format!("{path} alone"),
        Source::Copy => "copy".to_owned(),
        Source::Inaccessible => "nothing".to_owned(),
        Source::Tmpfs(tmpfs) => format!("tmpfs({})", tmpfs.options.join(",")),
        Source::Devices => "devices".to_owned(),
        Source::ControlGroups => "groups".to_owned(),
        Source::Queues => "queues".to_owned(),
        Source::Credentials => "credentials".to_owned(),
        Source::Processes(p) => {
            format!("proc({},{})", p.visibility.hidepid().unwrap_or("all"), p.only_processes)
        }
    };
    let bits = [
        (attribute::READ_ONLY, "ro"),
        (attribute::NO_EXECUTE, "noexec"),
        (attribute::NO_SET_UID, "nosuid"),
        (attribute::NO_DEVICES, "nodev"),
        (attribute::STRICT_ATIME, "strictatime"),
    ];
    let set = bits.iter().filter(|(bit, _)| step.attributes & bit != 0).map(|(_, name)| *name);
    let set: Vec<_> = set.collect();
    format!("{} <- {source} [{}]", step.target, set.join(","))
}

#[track_caller]
fn check_in(root: &str, settings: &str, expected: &[&str]) {
    let steps = arrange(plan(settings).entries, root);
    assert_eq!(steps.iter().map(text).collect::<Vec<_>>(), expected, "{settings}");
}

#[track_caller]
fn check(settings: &str, expected: &[&str]) {
    check_in("", settings, expected);
}

#[test]
fn the_system_is_read_only_but_for_what_is_named() {
    check("ProtectSystem=yes", &["/boot <- /boot [ro]", "/efi <- /efi [ro]", "/usr <- /usr [ro]"]);
    check(
        "ProtectSystem=strict; ReadWritePaths=/var/lib/a -/srv",
        &[
            "/ <- in place [ro]",
            "/dev <- /dev []",
            "/home <- /home []",
            "/proc <- /proc []",
            "/root <- /root []",
            "/run/user <- /run/user []",
            "/srv <- /srv []",
            "/sys <- /sys []",
            "/var/lib/a <- /var/lib/a []",
        ],
    );
    // What is writable anyway needs no mount.
    check("ReadWritePaths=/var; ReadOnlyPaths=/etc", &["/etc <- /etc [ro]"]);
}

#[test]
fn rights_of_a_path_hold_below_it_until_others_are_stated() {
    check(
        "ReadOnlyPaths=/a /a/b/c; NoExecPaths=/a/b; ExecPaths=/a/b/c/d; ReadWritePaths=/a/b/c/d/e",
        &[
            "/a <- /a [ro]",
            "/a/b <- /a/b [ro,noexec]",
            "/a/b/c/d <- /a/b/c/d [ro]",
            "/a/b/c/d/e <- /a/b/c/d/e []",
        ],
    );
    // One path that begins with another's name is not below it.
    check(
        "ReadOnlyPaths=/ab /a-b /a/b",
        &["/a/b <- /a/b [ro]", "/a-b <- /a-b [ro]", "/ab <- /ab [ro]"],
    );
}

#[test]
fn several_settings_for_one_path_are_all_heard() {
    check("ReadWritePaths=/a; ReadOnlyPaths=/a; NoExecPaths=/a", &["/a <- /a [ro,noexec]"]);
    check("BindPaths=/x:/a; TemporaryFileSystem=/a; ReadOnlyPaths=/a", &["/a <- /x [ro]"]);
    let tmpfs = "tmpfs(mode=0755,size=10%,nr_inodes=400k)";
    check(
        "TemporaryFileSystem=/a; ReadOnlyPaths=/a; ReadWritePaths=/a/b",
        &[&format!("/a <- {tmpfs} [ro,nodev,strictatime]"), "/a/b <- copy []"],
    );
}

#[test]
fn what_is_hidden_hides_all_below_it() {
    check(
        "InaccessiblePaths=/a; ReadWritePaths=/a/b; BindPaths=/x:/a/c; TemporaryFileSystem=/a; ReadOnlyPaths=/b",
        &["/a <- nothing [ro]", "/b <- /b [ro]"],
    );
}

#[test]
fn what_is_nested_in_a_bind_comes_from_where_that_comes_from() {
    check(
        "BindPaths=/srv/a:/a; ReadOnlyPaths=/a/b; BindReadOnlyPaths=/srv/c:/c:norbind; ReadWritePaths=/c/d",
        &[
            "/a <- /srv/a []",
            "/a/b <- /srv/a/b [ro]",
            "/c <- /srv/c alone [ro]",
            "/c/d <- /srv/c/d []",
        ],
    );
    // A bind is as writable as its source, wherever it lies.
    check("ReadOnlyPaths=/a; BindPaths=/x:/a/x", &["/a <- /a [ro]", "/a/x <- /x []"]);
    check("BindPaths=/a", &[]);
    check("BindPaths=/dev/pci-0\\:1:/b\\:c:norbind", &["/b:c <- /dev/pci-0:1 alone []"]);
}

#[test]
fn empty_file_systems_have_what_is_bound_into_them() {
    let tmpfs = "tmpfs(mode=0755,size=10%,nr_inodes=400k)";
    check(
        "TemporaryFileSystem=/var:ro; BindPaths=/var/lib/a; ReadOnlyPaths=/var/lib/a/b",
        &[
            &format!("/var <- {tmpfs} [ro,nodev,strictatime]"),
            "/var/lib/a <- /var/lib/a []",
            "/var/lib/a/b <- /var/lib/a/b [ro]",
        ],
    );
    check(
        "TemporaryFileSystem=/a:size=1m,dev,noexec,relatime,mode=1777",
        &["/a <- tmpfs(nr_inodes=400k,size=1m,mode=1777) [noexec]"],
    );
    check(
        "ProtectHome=tmpfs; InaccessiblePaths=/root /run/user",
        &[
            &format!("/home <- {tmpfs} [ro,nodev,strictatime]"),
            "/root <- nothing [ro]",
            "/run/user <- nothing [ro]",
        ],
    );
}

#[test]
fn kernel_files_are_those_of_the_processes_view() {
    check(
        "ProtectProc=invisible; ProcSubset=pid; ProtectKernelLogs=yes; PrivateDevices=yes",
        &[
            "/dev <- devices [ro,noexec,nosuid,strictatime]",
            "/dev/hugepages <- /dev/hugepages []",
            "/dev/kmsg <- nothing [ro]",
            "/dev/mqueue <- /dev/mqueue []",
            "/dev/pts <- /dev/pts []",
            "/dev/shm <- /dev/shm []",
            "/proc <- proc(invisible,true) [noexec,nosuid,nodev]",
            "/proc/kmsg <- nothing [ro]",
        ],
    );
    check(
        "ProtectProc=noaccess; ReadOnlyPaths=/proc/sys",
        &["/proc <- proc(noaccess,false) [noexec,nosuid,nodev]", "/proc/sys <- copy [ro]"],
    );
}

#[test]
fn groups_and_host_name_are_the_units_own() {
    let asked = "ProtectControlGroups=strict; PrivateTmp=disconnected";
    let tmpfs = "tmpfs(size=10%,nr_inodes=400k,mode=1777) [nodev,strictatime]";
    check(
        asked,
        &[
            "/sys/fs/cgroup <- groups [ro,noexec,nosuid,nodev]",
            &format!("/tmp <- {tmpfs}"),
            &format!("/var/tmp <- {tmpfs}"),
        ],
    );
    assert!(plan(asked).namespaces.control_groups);
    check("ProtectControlGroups=yes", &["/sys/fs/cgroup <- /sys/fs/cgroup [ro]"]);
    assert!(plan("MountAPIVFS=no").bare_root && !plan("MountAPIVFS=yes").bare_root);
    assert!(plan("MountAPIVFS=no").is_empty());
    let name = |value: &str| plan(&format!("ProtectHostname={value}")).namespaces.host_name_is;
    assert_eq!(name("yes"), None);
    assert_eq!(name("private:web-1.example").as_deref(), Some("web-1.example"));
    let mut problems = Vec::new();
    Plan::default().take("ProtectHostname", &["yes:a/b"], &mut problems);
    assert_eq!(problems.len(), 1);
}

#[test]
fn namespaces_are_private_unless_a_path_is_stated() {
    let network = |settings: &str| plan(settings).namespaces.network;
    assert_eq!(network("PrivateNetwork=yes"), Shared::Private);
    let path = Shared::Path("/run/netns/a".to_owned());
    assert_eq!(network("PrivateNetwork=yes; NetworkNamespacePath=/run/netns/a"), path);
    assert_eq!(network("NetworkNamespacePath=/run/netns/a; PrivateNetwork=yes"), path);
    assert_eq!(plan("NetworkNamespacePath=/a").purpose(), Purpose::Environment);
    assert_eq!(plan("PrivateUsers=identity").namespaces.users, Some(UserMap::Identity));
    assert!(plan("PrivatePIDs=yes").namespaces.processes);
    check("PrivatePIDs=yes", &["/proc <- proc(all,false) [noexec,nosuid,nodev]"]);
    check("PrivateIPC=yes", &["/dev/mqueue <- queues [noexec,nosuid,nodev]"]);
}

#[test]
fn paths_below_a_root_directory_come_from_there() {
    check_in(
        "/srv/r",
        "ReadOnlyPaths=+/; ReadWritePaths=+/a; BindPaths=/a",
        &["/ <- /srv/r [ro]", "/a <- /a []"],
    );
    assert_eq!(joined("/", "/a"), "/a");
    assert_eq!(joined("/a", "/"), "/a");
    assert_eq!(joined("", "/"), "/");
}

#[test]
fn words_that_mean_nothing_are_named() {
    let mut plan = Plan::default();
    let mut problems = Vec::new();
    let words = ["rel", "/a/../b", "-+/ok", "", "-", "+"];
    plan.take("ReadOnlyPaths", &words, &mut problems);
    assert_eq!(plan.entries.len(), 1);
    assert!(plan.entries[0].in_root && plan.entries[0].optional);
    assert_eq!(
        problems.iter().map(|(word, _)| &**word).collect::<Vec<_>>(),
        ["rel", "/a/../b", "", "-", "+"]
    );
    problems.clear();
    plan.take("BindPaths", &["/a:/b:what", "/a:b", ":/b", "/a::"], &mut problems);
    assert_eq!(problems.len(), 3, "{problems:?}");
    plan.take("MountFlags", &["unbindable"], &mut problems);
    assert_eq!(problems.len(), 4);
    assert!(!plan.private_mounts);
    assert_eq!(plan.take("LimitNOFILE", &["1"], &mut problems), Taken::Unknown);
}

#[test]
fn a_plan_is_for_another_environment_if_files_come_from_elsewhere() {
    assert_eq!(plan("PrivateDevices=yes; ProtectHome=yes").purpose(), Purpose::Protection);
    assert_eq!(plan("BindPaths=/a:/b").purpose(), Purpose::Environment);
    assert!(Plan::default().is_empty());
    assert!(!plan("PrivateTmp=yes").is_empty());
}

proptest::proptest! {
    /// Whatever is asked for: outer paths come first, no path twice, nothing below what is hidden.
    #[test]
    fn any_entries_have_an_order(words in proptest::collection::vec((0u8..6, "(/[ab]){0,4}"), 0..24)) {
        let settings = ["ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "BindPaths",
            "TemporaryFileSystem", "NoExecPaths"];
        let mut plan = Plan::default();
        for (which, path) in &words {
            let path = if path.is_empty() { "/" } else { path };
            plan.take(settings[usize::from(*which)], &[path], &mut Vec::new());
        }
        let hidden: Vec<Entry> = plan.entries.iter().filter(|e| e.content == Content::Inaccessible).cloned().collect();
        let steps = arrange(plan.entries, "");
        for (at, step) in steps.iter().enumerate() {
            for later in &steps[at + 1..] {
                assert_ne!(step.target, later.target);
                let is_above = later.target == "/" || step.target.starts_with(&format!("{}/", later.target));
                assert!(!is_above, "{} comes before {}", step.target, later.target);
            }
            let below = hidden.iter().any(|e| step.target.starts_with(&format!("{}/", e.path)));
            assert!(!below, "{}", step.target);
        }
    }
}

#[test]
fn a_path_is_below_another_by_its_parts() {
    use super::arrange::below;
    for (path, outer, expected) in [
        ("/a/b", "/a", Some("/b")),
        ("/a/b", "/a/", Some("/b")),
        ("/a", "/a", Some("")),
        ("/a", "/", Some("/a")),
        ("/", "/", Some("")),
        ("/ab", "/a", None),
        ("/a", "/a/b", None),
        ("/b", "/a", None),
    ] {
        assert_eq!(below(path, outer), expected, "{path} {outer}");
    }
}

#[test]
fn the_tree_of_control_groups_is_closed_by_its_own_setting_alone() {
    let of = |settings: &[&str]| {
        let mut plan = Plan::default();
        for setting in settings {
            plan.take(setting, &["yes"], &mut Vec::new());
        }
        let groups = plan.entries.into_iter().filter(|entry| entry.path == "/sys/fs/cgroup");
        groups.map(|entry| entry.content).collect::<Vec<_>>()
    };
    let access = |write| Content::Access(Access { write: Some(write), execute: None });
    assert_eq!(of(&["ProtectKernelTunables"]), [access(true)]);
    assert_eq!(of(&["ProtectKernelTunables", "ProtectControlGroups"]), [access(false)]);
    assert_eq!(of(&["ProtectControlGroups", "ProtectKernelTunables"]), [access(false)]);
}
