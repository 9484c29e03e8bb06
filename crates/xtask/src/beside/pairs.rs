//! Pairs of settings of the execution environment: each with each other one, in a service that looks at itself.
//!
//! A case is one setting; its services have that one and one of those after it.

use anyhow::Result;

use super::cases::Group;

/// Settings that are combined, one or several lines each, with a name for the case. The machine has what they name.
/// `ProtectHome=tmpfs` is none of them: 252 leaves it writable, where the manual has it read-only.
const SETTINGS: [(&str, &[&str]); 46] = [
    ("protect-system", &["ProtectSystem=strict"]),
    ("protect-system-full", &["ProtectSystem=full"]),
    ("protect-home", &["ProtectHome=yes"]),
    ("private-tmp", &["PrivateTmp=yes"]),
    ("private-devices", &["PrivateDevices=yes"]),
    ("private-network", &["PrivateNetwork=yes"]),
    ("private-ipc", &["PrivateIPC=yes"]),
    ("private-users", &["PrivateUsers=yes"]),
    ("private-mounts", &["PrivateMounts=yes"]),
    ("tunables", &["ProtectKernelTunables=yes"]),
    ("modules", &["ProtectKernelModules=yes"]),
    ("kernel-logs", &["ProtectKernelLogs=yes"]),
    ("control-groups", &["ProtectControlGroups=yes"]),
    ("clock", &["ProtectClock=yes"]),
    ("host-name", &["ProtectHostname=yes"]),
    ("proc", &["ProtectProc=invisible"]),
    ("proc-subset", &["ProcSubset=pid"]),
    ("read-only", &["ReadOnlyPaths=/srv /home"]),
    ("read-write", &["ReadWritePaths=/srv /etc"]),
    ("inaccessible", &["InaccessiblePaths=/srv"]),
    ("tmpfs", &["TemporaryFileSystem=/srv:ro"]),
    ("bind", &["BindReadOnlyPaths=/usr:/srv"]),
    ("user", &["User=games"]),
    ("dynamic-user", &["DynamicUser=yes"]),
    ("group", &["Group=adm", "SupplementaryGroups=mail"]),
    ("bounding", &["CapabilityBoundingSet=CAP_NET_ADMIN CAP_CHOWN CAP_SYS_ADMIN"]),
    ("ambient", &["AmbientCapabilities=CAP_NET_BIND_SERVICE"]),
    ("secure-bits", &["SecureBits=keep-caps no-setuid-fixup"]),
    ("no-privileges", &["NoNewPrivileges=yes"]),
    ("calls", &["SystemCallFilter=~@mount", "SystemCallErrorNumber=EPERM"]),
    ("architectures", &["SystemCallArchitectures=native"]),
    ("suid", &["RestrictSUIDSGID=yes"]),
    ("realtime", &["RestrictRealtime=yes"]),
    ("namespaces", &["RestrictNamespaces=yes"]),
    ("families", &["RestrictAddressFamilies=AF_UNIX"]),
    ("personality", &["LockPersonality=yes"]),
    ("write-execute", &["MemoryDenyWriteExecute=yes"]),
    ("umask", &["UMask=0077"]),
    ("limits", &["LimitNOFILE=512", "LimitCORE=0"]),
    ("scheduling", &["Nice=5", "OOMScoreAdjust=100", "CoredumpFilter=0x7"]),
    ("directories", &["StateDirectory=CASE", "RuntimeDirectory=CASE", "CacheDirectory=CASE/a"]),
    ("environment", &["Environment=ONE=1 TWO=2", "UnsetEnvironment=LANG"]),
    ("credentials", &["SetCredential=secret:word"]),
    // "the secret", encrypted without a key.
    (
        "encrypted",
        &[
            "SetCredentialEncrypted=foo:BYRp2vb1QySABUnaD46i+yAAAAABAAAADAAAABAAAACxyC9iMaTeFKu0NuQAAAAAgZ9bd5JLgk/LuEfSt5lyzfy2EVmuujhNacu1eW9xIyPptt7ycvVcsc5qoGyHzux20eY=",
        ],
    ),
    ("accounting", &["IPAccounting=yes"]),
    ("extension", &["ExtensionDirectories=/run/CASE-ext"]),
];

/// The cases of all pairs.
pub fn group() -> Result<Group> {
    let cases = SETTINGS.iter().enumerate().map(|(at, (name, lines))| {
        let others = SETTINGS.iter().skip(at + 1).map(|(_, lines)| *lines);
        ((*name).to_owned(), case(lines, others.collect()))
    });
    Group::of_texts("pairs", &cases.collect::<Vec<_>>())
}

/// The text of a case: the first of its services has the setting alone.
fn case(lines: &[&str], others: Vec<&[&str]>) -> String {
    let mut text = String::new();
    let all: Vec<&[&str]> = [&[][..]].into_iter().chain(others).collect();
    for (number, other) in all.iter().enumerate() {
        text += &format!(
            "# CASE-{number}.service\n[Service]\nType=oneshot\nStandardOutput=append:/run/told/CASE\n\
             StandardError=null\n"
        );
        lines.iter().chain(*other).for_each(|line| text += &format!("{line}\n"));
        text += &format!("ExecStart=/bin/sh /lab/beside/probe.sh {number} CASE\n");
    }
    let units: Vec<String> =
        (0..all.len()).map(|number| format!("CASE-{number}.service")).collect();
    let units = units.join(" ");
    text += "> mkdir -p /run/CASE-ext/usr/share/of-ext /run/CASE-ext/usr/lib/extension-release.d; echo ID=_any >/run/CASE-ext/usr/lib/extension-release.d/extension-release.CASE-ext\n";
    text += "> mkdir -p /home/someone; touch /tmp/CASE-file; for n in $(seq 0 60); do touch /run/CASE-file-$n; done\n";
    text += "> for kind in net ipc uts user; do readlink /proc/self/ns/$kind; done >/run/CASE-ns\n";
    // One after the other: those that fail are told apart, and lines do not mix.
    text += &format!(
        "> for unit in {units}; do systemctl start $unit >/dev/null 2>&1 || echo \"$unit fails: $(systemctl show -P ExecMainStatus $unit)\"; done\n"
    );
    text += "> told\n> rm -f /run/CASE-file-*\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_meets_each_other_one_once() {
        let group = group().expect("the cases can be read");
        assert_eq!(group.cases.len(), SETTINGS.len());
        let texts: Vec<String> = SETTINGS
            .iter()
            .enumerate()
            .map(|(at, (_, lines))| {
                case(lines, SETTINGS.iter().skip(at + 1).map(|(_, lines)| *lines).collect())
            })
            .collect();
        let services = texts.iter().map(|text| text.matches("ExecStart=").count()).sum::<usize>();
        let count = SETTINGS.len();
        assert_eq!(services, count + count * (count - 1) / 2);
    }
}
