//! Filters of system calls, as services find them in force: each tries the calls that its unit forbids.

mod lab;

use lab::Machine;
use warren_sandbox::seccomp::Arch;

const ONESHOT: &str = "[Service]\nType=oneshot\nRemainAfterExit=yes\n";
const PERL: &str = "/usr/bin/perl";

/// A command that makes calls and writes down what came of each: `NAME ok` or `NAME ERRNO`.
fn tries(out: &str, calls: &[(&str, &str)]) -> String {
    let native = Arch::native().expect("there are filters for it");
    let one = |(name, arguments): &(&str, &str)| {
        let number = native.number(name).expect("it is a call");
        format!(
            "$r=syscall({number},{arguments});print O \"{name} \".($r==-1?$!+0:\"ok\").\"\\n\";"
        )
    };
    let calls: String = calls.iter().map(one).collect();
    // No `$` of the script is a variable of the unit's.
    let script = format!("$n=\"/nope\";$o=\"{out}\";open(O,\">{out}\");{calls}close(O)")
        .replace('$', "$$")
        .replace('"', "\\\"");
    format!("{PERL} -e \"{script}\"")
}

fn read(m: &Machine, path: &str) -> String {
    std::fs::read_to_string(m.inside(path))
        .unwrap_or_else(|e| panic!("{path}: {e}: {}", m.console()))
}

#[test]
fn what_a_unit_forbids_its_processes_fails() {
    if !std::path::Path::new(PERL).exists() || Arch::native().is_none() {
        return lab::not_run("what_a_unit_forbids_its_processes_fails", "perl and filters");
    }
    let probes = tries(
        "/run/denied",
        &[
            ("umount2", "$n,0"),
            ("personality", "0xffffffff"),
            ("socket", "2,1,0"),
            ("socket", "1,1,0"),
            ("unshare", "0x10000000"),
            ("fchmodat", "-100,$o,0x900"),
            ("fchmodat", "-100,$o,0x180"),
            ("sched_setscheduler", "0,1,0"),
            ("setns", "0,0"),
            ("getpid", ""),
        ],
    );
    let denied = format!(
        "{ONESHOT}SystemCallFilter=~@mount personality:ENOSYS\nSystemCallErrorNumber=EACCES\n\
         RestrictAddressFamilies=AF_UNIX\nRestrictNamespaces=~user\nRestrictSUIDSGID=yes\n\
         RestrictRealtime=yes\nLockPersonality=yes\nMemoryDenyWriteExecute=yes\n\
         SystemCallArchitectures=native\nExecStart={probes}\n\
         ExecStart=+/bin/cp /proc/self/status /run/privileged\n\
         ExecStart=/bin/cp /proc/self/status /run/filtered\n"
    );
    let user = format!(
        "{ONESHOT}User=65534\nRuntimeDirectory=user\nSystemCallFilter=@system-service\n\
         ExecStart=/bin/cp /proc/self/status /run/user/status\n"
    );
    let killed = format!(
        "{ONESHOT}SystemCallFilter=@system-service\nExecStart={}\n",
        tries("/run/killed", &[("umount2", "$n,0")])
    );
    let exec = format!("{ONESHOT}SystemCallFilter=~execve:EPERM\nExecStart=/bin/true\n");
    let units = [
        ("denied.service", &*denied),
        ("user.service", &*user),
        ("killed.service", &*killed),
        ("exec.service", &*exec),
    ];
    let Some(m) = Machine::start("filters", &units) else { return };
    m.expect_job("start", "denied.service", "done");
    let expected = "umount2 13\npersonality 38\nsocket 97\nsocket ok\nunshare 1\nfchmodat 1\nfchmodat ok\n\
                    sched_setscheduler 1\nsetns 1\ngetpid ok\n";
    assert_eq!(read(&m, "/run/denied"), expected);
    let field = |path: &str, name: &str| {
        let status = read(&m, path);
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {status}")).trim().to_owned()
    };
    assert_eq!(field("/run/filtered", "Seccomp:"), "2");
    assert_eq!(field("/run/filtered", "Seccomp_filters:"), "1");
    assert_eq!(field("/run/privileged", "Seccomp:"), "0");
    m.expect_job("start", "user.service", "done");
    assert_eq!(field("/run/user/status", "NoNewPrivs:"), "1");
    assert_eq!(field("/run/user/status", "Seccomp:"), "2");
    m.expect_job("start", "killed.service", "failed");
    const SIGSYS: &str = "SIGSYS";
    let why = m.status("killed.service").to_string();
    assert!(why.contains(SIGSYS), "{why}");
    assert_eq!(read(&m, "/run/killed"), "", "it was killed at the call");
    m.expect_job("start", "exec.service", "failed");
    let why = m.status("exec.service").to_string();
    assert!(why.contains("WR-0051"), "{why}");
}
