//! What services leave in their run directories is removed, whatever they made there, and nothing else is.

mod lab;

use lab::{Machine, until};

const EARLY: &str = "[Service]\nType=oneshot\nRemainAfterExit=yes\n";

/// The user of a service makes 20,000 directories inside each other: the manager must outlive their removal.
#[test]
fn a_deep_run_directory_goes_and_the_manager_stays() {
    let make = "/usr/bin/perl -e 'chdir \"/run/deep\" or die; \
                for (1..20000) { mkdir \"d\" or die; chdir \"d\" or die }'";
    if !std::path::Path::new("/usr/bin/perl").exists() {
        return lab::not_run("a_deep_run_directory_goes_and_the_manager_stays", "perl");
    }
    let deep = format!("{EARLY}RuntimeDirectory=deep\nUser=65534\nExecStart={make}");
    let Some(m) = Machine::start("deep-run", &[("deep.service", &deep)]) else { return };
    let manager = m.manager_pid();
    m.expect_job("start", "deep.service", "done");
    assert!(m.inside("/run/deep/d/d").is_dir());
    m.expect_job("stop", "deep.service", "done");
    until("the directory is gone", || (!m.inside("/run/deep").exists()).then_some(()));
    assert_eq!(m.manager_pid(), manager);
    m.expect_job("start", "deep.service", "done");
}

/// What is mounted below the run directory, and a directory on the way to another one that its user has replaced by
/// a link: what they show stays.
#[test]
fn what_is_mounted_in_a_run_directory_stays() {
    let mounts = format!(
        "{EARLY}RuntimeDirectory=mounts\nExecStart=/bin/mkdir /run/kept /run/mounts/in /run/mounts/own\n\
         ExecStart=/bin/mount --bind /run/kept /run/mounts/in\n\
         ExecStart=/bin/touch /run/kept/file /run/mounts/own/file"
    );
    let user = format!(
        "{EARLY}RuntimeDirectory=theirs theirs/way/last\n\
         ExecStart=/bin/rm -r /run/theirs/way\nExecStart=/bin/mkdir -p /run/other/last\n\
         ExecStart=/bin/chown 65534 /run/theirs\nExecStart=/bin/ln -s /run/other /run/theirs/way"
    );
    let units = [("mounts.service", &*mounts), ("user.service", &*user)];
    let Some(m) = Machine::start("mounted-run", &units) else { return };
    for unit in ["mounts.service", "user.service"] {
        m.expect_job("start", unit, "done");
        m.expect_job("stop", unit, "done");
    }
    until("the rest is gone", || (!m.inside("/run/mounts/own").exists()).then_some(()));
    until("the user's is gone", || (!m.inside("/run/theirs").exists()).then_some(()));
    assert!(m.inside("/run/kept/file").exists() && m.inside("/run/mounts/in/file").exists());
    assert!(m.inside("/run/other/last").is_dir());
    let said = "cannot remove all of /run/mounts: /run/mounts/in: something is mounted there";
    until("what stays is said", || m.console().contains(said).then_some(()));
}
