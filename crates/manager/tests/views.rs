//! What services see of the file system: each looks for itself and says what it finds.

mod lab;

use lab::Machine;

/// Settings of a service, what its shell looks at, and what it finds.
struct Look {
    name: &'static str,
    settings: &'static str,
    script: &'static str,
    finds: &'static str,
}

/// Pins programs for packets: one that lets none go and one that lets all go, and one for connect(2) that refuses.
const PINS: &str = r#"set -e; mkdir -p /run/bpf; mount -t bpf bpf /run/bpf; perl -e '
    sub pin { my ($kind, $place, $says, $path) = @_;
        my $code = pack("CCsl", 0xb7, 0, 0, $says) . pack("CCsl", 0x95, 0, 0, 0);
        my ($license, $file) = ("MIT\0", "/run/bpf/$path\0");
        my $load = pack("LLQQLLQLLa16LL", $kind, 2, unpack("Q", pack("p", $code)), unpack("Q", pack("p", $license)),
                        0, 0, 0, 0, 0, "", 0, $place);
        my $fd = syscall(321, 5, $load, length $load); $fd >= 0 or exit 0;
        my $pin = pack("QLL", unpack("Q", pack("p", $file)), $fd, 0);
        syscall(321, 6, $pin, length $pin) == 0 or die "$path: $!"; }
    pin(8, 1, 0, "none-goes"); pin(8, 1, 1, "all-goes"); pin(18, 10, 0, "no-connect4");'"#;

/// `w PATH...`: says of each whether it can be written to, and whether it is there.
const SAY: &str = "w() { for p; do if [ ! -e $$p ]; then echo $$p none; elif [ -w $$p ]; then echo $$p rw; \
                   else echo $$p ro; fi; done; };";

const LOOKS: &[Look] = &[
    Look {
        name: "system",
        settings: "ProtectSystem=yes",
        script: "w /usr /usr/bin /etc /run/w",
        finds: "/usr ro\n/usr/bin ro\n/etc rw\n/run/w rw\n",
    },
    Look {
        name: "strict",
        settings: "ProtectSystem=strict\nReadWritePaths=/run/w/a -/none\nStateDirectory=view-test\n\
                   RuntimeDirectory=strict",
        script: "w / /etc /run/w /run/w/a /dev /proc/sys/kernel/hostname /run/strict $$RUNTIME_DIRECTORY",
        finds: "/ ro\n/etc ro\n/run/w ro\n/run/w/a rw\n/dev rw\n/proc/sys/kernel/hostname rw\n/run/strict rw\n/run/strict rw\n",
    },
    Look {
        name: "home",
        settings: "ProtectHome=yes",
        script: "ls -A /root /home; stat -c %%a /root",
        finds: "/home:\n\n/root:\n0\n",
    },
    Look {
        name: "home-tmpfs",
        settings: "ProtectHome=tmpfs\nBindPaths=/run/w:/root/w",
        script: "ls -A /root; w /root /root/w; ls /root/w",
        finds: "w\n/root ro\n/root/w rw\na\nfile\nlink\n",
    },
    Look {
        name: "hidden",
        settings: "InaccessiblePaths=/run/w/link /run/w/file",
        script: "ls -A /run/w/a; stat -c %%a:%%s /run/w/file",
        finds: "0:0\n",
    },
    Look {
        name: "nested",
        settings: "ReadOnlyPaths=/run/w\nReadWritePaths=/run/w/link\nNoExecPaths=/run/w\nExecPaths=/run/w/file",
        script: "w /run/w /run/w/a; grep -c noexec /proc/self/mountinfo >/dev/null; \
                 /run/w/file; cp /bin/true /run/w/a/t; /run/w/a/t || echo refused",
        finds: "/run/w ro\n/run/w/a rw\nran\n/bin/sh: 1: /run/w/a/t: Permission denied\nrefused\n",
    },
    Look {
        name: "bind",
        settings: "BindReadOnlyPaths=/run/w:/run/elsewhere/deep /run/w/file:/run/other-file\n\
                   BindPaths=-/none:/run/never",
        script: "w /run/elsewhere/deep /run/other-file /run/never; ls /run/elsewhere/deep",
        finds: "/run/elsewhere/deep ro\n/run/other-file ro\n/run/never none\na\nfile\nlink\n",
    },
    Look {
        name: "empty",
        settings: "TemporaryFileSystem=/run/w:ro,size=64k /run/w2\nBindPaths=/run/w/a",
        script: "ls /run/w; w /run/w /run/w/a /run/w2; stat -f -c %%b:%%s /run/w; stat -c %%a /run/w",
        finds: "a\n/run/w ro\n/run/w/a rw\n/run/w2 rw\n16:4096\n755\n",
    },
    Look {
        name: "devices",
        settings: "PrivateDevices=yes",
        script: "ls /dev; echo x >/dev/null; head -c 2 /dev/zero | wc -c; w /dev; touch /dev/shm/view-test && rm /dev/shm/view-test; \
                 stat -c %%a /dev/null; mknod /dev/shm/n c 1 3 2>/dev/null || echo no nodes",
        finds: "fd\nfull\nhugepages\nlog\nmqueue\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\n\
                tty\nurandom\nzero\n2\n/dev ro\n666\nno nodes\n",
    },
    Look {
        name: "devices-and-kernel",
        settings: "PrivateDevices=yes\nProtectKernelLogs=yes",
        script: "ls -d /dev/kmsg /dev/null 2>/dev/null; stat -c %%a /proc/kmsg",
        finds: "/dev/null\n0\n",
    },
    Look {
        name: "devices-bound-and-kernel",
        settings: "PrivateDevices=yes\nProtectKernelLogs=yes\nBindPaths=/dev/kmsg",
        script: "stat -c %%a /dev/kmsg; head -c 1 /dev/kmsg 2>/dev/null || echo refused",
        finds: "0\nrefused\n",
    },
    Look {
        name: "kernel",
        settings: "ProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectKernelLogs=yes\nProtectControlGroups=yes",
        script: "w /proc/sys/kernel/hostname /sys /sys/fs/cgroup; stat -c %%a /proc/kmsg /dev/kmsg",
        finds: "/proc/sys/kernel/hostname ro\n/sys ro\n/sys/fs/cgroup ro\n0\n0\n",
    },
    Look {
        name: "processes",
        settings: "ProtectProc=invisible\nProcSubset=pid\nUser=65534",
        script: "ls -d /proc/1 /proc/meminfo /proc/self 2>/dev/null",
        finds: "/proc/self\n",
    },
    Look {
        name: "own-processes",
        settings: "PrivatePIDs=yes\nExecStartPre=/bin/sh -c 'echo $$$$ >/run/w2/pid'",
        script: "echo $$$$ $$SYSTEMD_EXEC_PID; cd /proc; echo [0-9]*; cat /run/w2/pid",
        finds: "1 1\n1\n1\n",
    },
    Look {
        name: "own-processes-of-user",
        settings: "PrivatePIDs=yes\nPrivateUsers=yes\nUser=4242\nProtectProc=invisible\nPrivateNetwork=yes\nProtectSystem=strict",
        script: "echo $$$$; cd /proc; echo [0-9]*; w /etc; id -u",
        finds: "1\n1\n/etc ro\n4242\n",
    },
    Look {
        name: "own-processes-below",
        settings: "PrivatePIDs=yes\nRootDirectory=/run/root\nBindReadOnlyPaths=/usr /bin /lib -/lib64",
        script: "cd /proc; echo [0-9]*",
        finds: "1\n",
    },
    Look {
        name: "groups",
        settings: "ProtectControlGroups=strict",
        script: "cat /proc/self/cgroup | grep ^0; w /sys/fs/cgroup; ls -d /sys/fs/cgroup/system.slice",
        finds: "0::/\n/sys/fs/cgroup ro\nls: cannot access '/sys/fs/cgroup/system.slice': No such file or directory\n",
    },
    Look {
        name: "host-name",
        settings: "ProtectHostname=private:own.name",
        script: "uname -n; echo other >/proc/sys/kernel/hostname; uname -n",
        finds: "own.name\nother\n",
    },
    Look {
        name: "privileged",
        settings: "ProtectSystem=strict\nExecStartPre=+/bin/sh -c 'echo plus >/run/w2/plus'",
        script: "cat /run/w2/plus; w /run/w",
        finds: "plus\n/run/w ro\n",
    },
    Look {
        name: "root-directory",
        settings: "RootDirectory=/run/root\nMountAPIVFS=yes\nBindReadOnlyPaths=/usr /bin /lib -/lib64\n\
                   StateDirectory=view-test\nProtectSystem=strict\nReadWritePaths=+/free",
        script: "cd /; echo *; w / /free /usr /var/lib/view-test /run; ls /proc/self/exe /dev/null /sys/kernel >/dev/null",
        finds: "bin dev free lib lib64 proc run sys usr var\n/ ro\n/free rw\n/usr ro\n/var/lib/view-test rw\n/run rw\n",
    },
    Look {
        name: "tmp",
        settings: "PrivateTmp=yes",
        script: "ls -A /tmp /var/tmp; touch /tmp/mine /var/tmp/mine; stat -c %%a /tmp",
        finds: "/tmp:\n\n/var/tmp:\n1777\n",
    },
    Look {
        name: "network",
        settings: "PrivateNetwork=yes\nPrivateIPC=yes\nExecStartPre=/bin/sh -c 'readlink /proc/self/ns/net >/run/w2/net; \
                   cat /proc/net/dev | wc -l >/run/w2/devices; readlink /proc/self/ns/ipc >/run/w2/ipc'",
        script: "readlink /proc/self/ns/net | cmp - /run/w2/net && cat /run/w2/devices; \
                 readlink /proc/self/ns/ipc | cmp - /run/w2/ipc && stat -f -c %%T /dev/mqueue; cat /sys/class/net/lo/operstate",
        finds: "3\nmqueue\nunknown\n",
    },
    Look {
        name: "joins",
        settings: "PrivateNetwork=yes\n[Unit]\nJoinsNamespaceOf=network.service\n[Service]",
        script: "readlink /proc/self/ns/net | cmp - /run/w2/net && echo joined",
        finds: "joined\n",
    },
    Look {
        name: "network-path",
        settings: "NetworkNamespacePath=/run/netns/own\nPrivateNetwork=yes",
        script: "readlink /proc/self/ns/net | cmp - /run/w2/own-net && echo there",
        finds: "there\n",
    },
    Look {
        name: "device-rules",
        settings: "DevicePolicy=closed\nDeviceAllow=/dev/full r",
        script: "head -c 1 /dev/zero | wc -c; head -c 1 /dev/full | wc -c; echo x 2>/dev/null >/dev/full || echo full; head -c 1 /dev/kmsg",
        finds: "1\n1\nfull\nhead: cannot open '/dev/kmsg' for reading: Operation not permitted\n",
    },
    Look {
        name: "device-strict",
        settings: "DevicePolicy=strict\nDeviceAllow=char-mem r",
        script: "head -c 1 /dev/zero | wc -c; true >/dev/null",
        finds: "1\n/bin/sh: 1: cannot create /dev/null: Operation not permitted\n",
    },
    Look {
        name: "device-bound",
        settings: "PrivateDevices=yes\nBindPaths=/dev/kmsg",
        script: "head -c 1 /dev/kmsg",
        finds: "head: cannot open '/dev/kmsg' for reading: Operation not permitted\n",
    },
    Look {
        name: "addresses",
        settings: "PrivateNetwork=yes\nIPAddressDeny=any\nIPAddressAllow=127.0.0.2 ::1",
        script: "for a in 127.0.0.1 127.0.0.2 ::1; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n127.0.0.2 sent\n::1 sent\n",
    },
    Look {
        name: "addresses-of-slice",
        settings: "PrivateNetwork=yes\nSlice=closed.slice\nIPAddressAllow=127.0.0.2",
        script: "for a in 127.0.0.1 127.0.0.2; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n127.0.0.2 sent\n",
    },
    Look {
        name: "addresses-inherited",
        settings: "PrivateNetwork=yes\nSlice=closed.slice",
        script: "for a in 127.0.0.1 127.0.0.2; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n127.0.0.2 denied\n",
    },
    Look {
        name: "programs-of-others",
        settings: "PrivateNetwork=yes\nBPFProgram=egress:/run/bpf/none-goes\nBPFProgram=egress:/run/bpf/none-goes",
        script: "for a in 127.0.0.1 ::1; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n::1 denied\n",
    },
    Look {
        name: "programs-and-addresses",
        settings: "PrivateNetwork=yes\nIPEgressFilterPath=/run/bpf/all-goes\nIPAddressDeny=127.0.0.1\nIPAccounting=yes",
        script: "for a in 127.0.0.1 127.0.0.2; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n127.0.0.2 sent\n",
    },
    Look {
        name: "program-for-connect",
        settings: "PrivateNetwork=yes\nBPFProgram=connect4:/run/bpf/no-connect4\nIPAddressDeny=::2",
        script: "for a in 127.0.0.1 ::1; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n::1 sent\n",
    },
    Look {
        name: "no-program",
        settings: "PrivateNetwork=yes\nIPIngressFilterPath=/run/bpf/not-there",
        script: "bash -c \"echo x >/dev/udp/127.0.0.1/9\" && echo sent",
        finds: "sent\n",
    },
    Look {
        name: "interfaces",
        settings: "PrivateNetwork=yes\nRestrictNetworkInterfaces=~lo none-such",
        script: "for a in 127.0.0.1 ::1; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n::1 denied\n",
    },
    Look {
        name: "interfaces-and-addresses",
        settings: "PrivateNetwork=yes\nRestrictNetworkInterfaces=lo\nIPAddressDeny=127.0.0.1",
        script: "for a in 127.0.0.1 ::1; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n::1 sent\n",
    },
    Look {
        name: "no-interfaces",
        settings: "PrivateNetwork=yes\nRestrictNetworkInterfaces=none-such",
        script: "for a in 127.0.0.1 ::1; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null && echo $$a sent || echo $$a denied; done",
        finds: "127.0.0.1 denied\n::1 denied\n",
    },
    Look {
        name: "ports",
        settings: "PrivateNetwork=yes\nSocketBindAllow=ipv4:tcp:5000-5001\nSocketBindAllow=ipv6:udp\nSocketBindDeny=any",
        script: "b() { perl -MSocket=:all -e 'socket(S, shift, shift, 0) or die; print bind(S, shift == 6 ? \
                 pack_sockaddr_in6(shift, IN6ADDR_LOOPBACK) : pack_sockaddr_in(shift, INADDR_LOOPBACK)) ? q(bound ) : q(refused )' \
                 $$1 $$2 $$3 $$4; }; b 2 1 4 5000; b 2 1 4 5002; b 2 2 4 5000; b 2 1 4 0; b 10 2 6 7; b 10 1 6 5000; echo",
        finds: "bound refused refused refused bound refused \n",
    },
    Look {
        name: "dumps",
        settings: "CoredumpFilter=default shared-dax 0x4",
        script: "cat /proc/self/coredump_filter",
        finds: "00000137\n",
    },
    Look {
        name: "dumps-of-others",
        settings: "",
        script: "cat /proc/self/coredump_filter",
        finds: "00000033\n",
    },
    // What a kernel does not tell is not looked at.
    Look {
        name: "merging",
        settings: "MemoryKSM=yes\nUser=4242",
        script: "grep -q merge_any /proc/self/ksm_stat 2>/dev/null || echo 'ksm_merge_any: yes'; grep merge_any /proc/self/ksm_stat",
        finds: "ksm_merge_any: yes\n",
    },
    Look {
        name: "merging-of-others",
        settings: "",
        script: "grep -q merge_any /proc/self/ksm_stat 2>/dev/null || echo 'ksm_merge_any: no'; grep merge_any /proc/self/ksm_stat",
        finds: "ksm_merge_any: no\n",
    },
    Look {
        name: "labels",
        settings: "AppArmorProfile=-no-such-profile\nSmackProcessLabel=-x\nSELinuxContext=-x",
        script: "echo ran",
        finds: "ran\n",
    },
    Look {
        name: "credentials",
        settings: "User=4242\nLoadCredential=file:/run/w2/secret\nLoadCredential=dir:/run/w2/keys\nLoadCredential=none\n\
                   LoadCredential=gone:/run/w2/none\nSetCredential=gone:default\nSetCredential=a:x\\n y\n\
                   Environment=AT=%d",
        script: "cd $$CREDENTIALS_DIRECTORY; pwd; echo $$AT; grep -r '' . | sort; stat -c '%%U %%a' . a; echo x >a; id -u",
        finds: "/run/credentials/credentials.service\n/run/credentials/credentials.service\n\
                ./a: y\n./a:x\n./dir_k:key\n./file:hidden\n./gone:default\nUNKNOWN 500\nUNKNOWN 400\n\
                /bin/sh: 1: cannot create a: Read-only file system\n4242\n",
    },
    // A kernel that does not count pressure has nothing to watch.
    Look {
        name: "pressure",
        settings: "MemoryPressureWatch=on\nUser=4242\nProtectControlGroups=yes\nProtectSystem=strict",
        script: "case $$MEMORY_PRESSURE_WATCH in */pressure.service/memory.pressure|/dev/null) echo told;; esac; \
                 [ -w $$MEMORY_PRESSURE_WATCH ] && echo writable",
        finds: "told\nwritable\n",
    },
    // "the secret" for the name foo, encrypted by systemd-creds(1) without a key; an encrypted one wins over a value.
    Look {
        name: "encrypted-credentials",
        settings: "User=4242\nLoadCredentialEncrypted=none\nSetCredentialEncrypted=foo: BYRp2vb1QySABUnaD46i+yAAAAABAAAADAAAABAAAACxyC9iMaTeFKu0NuQA \\\n AAAAgZ9bd5JLgk/LuEfSt5lyzfy2EVmuujhNacu1eW9xIyPptt7ycvVcsc5qoGyHzux20eY=\n\
                   LoadCredentialEncrypted=bar:/run/w2/none\nSetCredential=bar:default",
        script: "cd $$CREDENTIALS_DIRECTORY; grep -r '' . | sort; stat -c '%%U %%a' foo",
        finds: "./bar:default\n./foo:the secret\nUNKNOWN 400\n",
    },
    Look {
        name: "credential-for-another",
        settings: "SetCredential=bar:default\nSetCredentialEncrypted=bar:BYRp2vb1QySABUnaD46i+yAAAAABAAAADAAAABAAAACxyC9iMaTeFKu0NuQAAAAAgZ9bd5JLgk/LuEfSt5lyzfy2EVmuujhNacu1eW9xIyPptt7ycvVcsc5qoGyHzux20eY=",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "credential-in-the-clear",
        settings: "LoadCredentialEncrypted=file:/run/w2/secret\nSetCredential=file:default",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "no-credential",
        settings: "LoadCredential=gone:/run/w2/none",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "no-network",
        settings: "NetworkNamespacePath=/run/netns/none",
        script: "echo never",
        finds: "",
    },
    Look {
        name: "users",
        settings: "PrivateUsers=yes\nUser=4242\nProtectSystem=strict",
        script: "cat /proc/self/uid_map | tr -s ' '; id -u; stat -c %%u /etc /run/w2; grep CapEff /proc/self/status",
        finds: " 0 0 1\n 4242 4242 1\n4242\n0\n0\nCapEff:\t0000000000000000\n",
    },
    Look {
        name: "users-root",
        settings: "PrivateUsers=yes",
        script: "cat /proc/self/uid_map | tr -s ' '; stat -c %%u /run/w2/of-other; chown 1 /run/w2 2>/dev/null || echo refused",
        finds: " 0 0 1\n65534\nrefused\n",
    },
    Look {
        name: "tmp-alone",
        settings: "PrivateTmp=disconnected\nPrivateMounts=yes\nMountFlags=private",
        script: "ls -A /tmp /var/tmp; stat -f -c %%T /tmp; stat -c %%a /tmp",
        finds: "/tmp:\n\n/var/tmp:\ntmpfs\n1777\n",
    },
    Look {
        name: "dynamic",
        settings: "DynamicUser=yes\nStateDirectory=dyn dynd/sub:dyn-link\nRuntimeDirectory=dynrun\n\
                   ProtectSystem=no\nProtectHome=no\nPrivateTmp=no\nNoNewPrivileges=no",
        script: "u=$$(id -u); [ $$u -ge 61184 ] && [ $$u -le 65519 ] && echo in range; id -g | grep -c ^$$u$$; \
                 echo $$USER $$LOGNAME $${HOME-no home} $${SHELL-no shell}; ls -A /tmp /var/lib/private; \
                 stat -c '%%a %%F' /var/lib/dyn /var/lib/dyn-link /var/lib/private; w /etc /root $$STATE_DIRECTORY /run/dynrun; \
                 [ $$(stat -L -c %%u /var/lib/dyn) = $$u ] && touch /var/lib/dyn/f /var/lib/dyn-link/g && echo made; \
                 grep -E '^(NoNewPrivs|Groups)' /proc/self/status | grep -c -e 'NoNewPrivs:.1' -e $$u; chmod u+s /tmp 2>/dev/null || echo no suid",
        finds: "in range\n1\ndynamic dynamic no home no shell\n/tmp:\n\n/var/lib/private:\ndyn\ndynd\n\
                777 symbolic link\n777 symbolic link\n755 directory\n/etc ro\n/root ro\n\
                /var/lib/dyn:/var/lib/dynd/sub none\n/run/dynrun rw\nmade\n2\nno suid\n",
    },
    Look {
        name: "dynamic-static",
        settings: "DynamicUser=yes\nUser=daemon\nGroup=no-such-group-yet",
        script: "id -un; id -g | grep -c ^6; touch /tmp/here && echo tmp",
        finds: "daemon\n1\ntmp\n",
    },
    Look {
        name: "dynamic-wrong",
        settings: "DynamicUser=yes\nUser=shadow",
        script: "id",
        finds: "",
    },
];

fn unit(look: &Look) -> String {
    format!(
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nStandardOutput=file:/run/out-{0}\nStandardError=inherit\n{1}\n\
         ExecStart=/bin/sh -c \"{SAY} {2}\"\n",
        look.name,
        look.settings,
        look.script.replace('"', "\\\""),
    )
}

/// Gives the machine a /tmp of its own, in which its own directory is seen.
fn own_tmp(m: &Machine) {
    let directory = m.directory.to_string_lossy();
    let script = format!(
        "mkdir /run/tmp && mount -t tmpfs none /run/tmp && case {directory} in /tmp/*) mkdir -p /run{directory} && \
         mount --rbind {directory} /run{directory};; esac && mount --move /run/tmp /tmp"
    );
    m.run(&["/bin/sh", "-c", &script]).expect("mounted");
}

#[test]
fn services_see_what_their_units_ask_for() {
    let units: Vec<(String, String)> =
        LOOKS.iter().map(|look| (format!("{}.service", look.name), unit(look))).collect();
    let slice = [("closed.slice", "[Slice]\nIPAddressDeny=any\n")];
    let units = units.iter().map(|(name, text)| (&**name, &**text));
    let units: Vec<(&str, &str)> = units.chain(slice).collect();
    let Some(m) = Machine::start("views", &units) else { return };
    let prepare = "mkdir -p /run/w/a /run/root/free /run/w2 /run/netns; chmod 777 /run/w2; touch /run/w2/of-other; chown 7 /run/w2/of-other; \
                   echo hidden >/run/w2/secret; mkdir /run/w2/keys; echo key >/run/w2/keys/k; chmod 600 /run/w2/secret; \
                   touch /run/netns/own; unshare --net=/run/netns/own readlink /proc/self/ns/net >/run/w2/own-net; printf '#!/bin/sh\\necho ran\\n' >/run/w/file; chmod +x /run/w/file; \
                   ln -s /run/w/a /run/w/link; mount -t tmpfs none /var/tmp; mount -t tmpfs none /var/lib";
    m.run(&["/bin/sh", "-c", prepare]).expect("prepared");
    m.run(&["/bin/sh", "-c", PINS]).expect("pinned");
    own_tmp(&m);
    let mut wrong = Vec::new();
    for look in LOOKS {
        m.job("start", &format!("{}.service", look.name));
        let found = std::fs::read_to_string(m.inside(&format!("/run/out-{}", look.name)));
        // Who was not started wrote nothing.
        let found = found.unwrap_or_default();
        if found != look.finds {
            wrong.push(format!("--- {}\n{}\n--- not\n{}", look.name, found, look.finds));
        }
    }
    // Nothing stays of what was the unit's own.
    let own = || {
        let names = ["/tmp", "/var/tmp"].map(|parent| std::fs::read_dir(m.inside(parent)));
        let names = names.into_iter().flatten().flatten().flatten();
        names.filter(|e| e.file_name().to_string_lossy().contains("-tmp.service-")).count()
    };
    assert_eq!(own(), 2);
    m.expect_job("stop", "tmp.service", "done");
    assert_eq!(own(), 0);
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), m.console());
}

/// A unit with a program of its own has what its slice says in that program: it is made anew when the slice's file is.
#[test]
fn an_edit_of_a_slice_reaches_the_units_in_it() {
    const SENDS: &str = "while sleep 0.05; do for a in 127.0.0.2 127.0.0.3; do bash -c \"echo x >/dev/udp/$$a/9\" 2>/dev/null \
                         && echo $$a sent || echo $$a denied; done | paste -sd' ' >/run/edit.new; mv /run/edit.new /run/edit; done";
    let unit = format!(
        "[Service]\nSlice=edited.slice\nPrivateNetwork=yes\nIPAddressDeny=127.0.0.2\nExecStart=/bin/sh -c \"{}\"\n",
        SENDS.replace('"', "\\\"")
    );
    let units = [("sends.service", &*unit), ("edited.slice", "[Slice]\n")];
    let Some(m) = Machine::start("slice-edit", &units) else { return };
    m.expect_job("start", "sends.service", "done");
    if m.console().contains("this machine does not allow BPF programs") {
        return lab::not_run(
            "an_edit_of_a_slice_reaches_the_units_in_it",
            "BPF programs on cgroups",
        );
    }
    let sees = |what: &str| {
        lab::until(what, || {
            let said = std::fs::read_to_string(m.inside("/run/edit")).unwrap_or_default();
            (said.trim() == what).then_some(())
        });
    };
    sees("127.0.0.2 denied 127.0.0.3 sent");
    m.write("edited.slice", "[Slice]\nIPAddressDeny=127.0.0.3\n");
    m.call("ReloadConfiguration", &serde_json::json!({}));
    sees("127.0.0.2 denied 127.0.0.3 denied");
    m.write("edited.slice", "[Slice]\nIPAddressAllow=127.0.0.2\n");
    m.call("ReloadConfiguration", &serde_json::json!({}));
    sees("127.0.0.2 sent 127.0.0.3 sent");
}

/// What a unit sends to itself goes and comes, and is counted once each; a slice's addresses are asked all the same.
#[test]
fn traffic_is_counted() {
    const SENDS: &str = "perl -MSocket -e '$$|=1; socket(A, PF_INET, SOCK_DGRAM, 0); bind(A, pack_sockaddr_in(0, INADDR_LOOPBACK)) or die; \
                         for (1..3) { send(A, q(x) x 100, 0, getsockname(A)) or die; recv(A, $$x, 200, 0) } \
                         print qq(sent\\n); sleep 1000'";
    if !lab::has_systemctl("traffic_is_counted") {
        return;
    }
    let unit = |more: &str| {
        format!(
            "[Service]\nStandardOutput=file:/run/out-%N\n{more}\nExecStart=/bin/sh -c \"{SENDS}\"\n"
        )
    };
    let (counted, plain) = (unit("IPAccounting=yes\nEnvironment=PERL_UNICODE=0"), unit(""));
    let denied = unit("IPAccounting=yes\nSlice=shut.slice");
    let units = [
        ("counted.service", &*counted),
        ("plain.service", &*plain),
        ("denied.service", &*denied),
        ("shut.slice", "[Slice]\nIPAddressDeny=any\n"),
    ];
    let Some(m) = Machine::start("traffic", &units) else { return };
    for (name, _) in units {
        m.expect_job("start", name, "done");
    }
    let shown = |unit: &str| {
        let show = "systemctl show -p IPIngressBytes -p IPIngressPackets -p IPEgressBytes -p IPEgressPackets";
        let line = format!("{show} {unit} | sort | cut -d= -f2 | tr '\\n' ' '");
        m.run(&["sh", "-c", &line]).expect("systemctl works")
    };
    if m.console().contains("this machine does not allow BPF programs") {
        return lab::not_run("traffic_is_counted", "BPF programs on cgroups");
    }
    lab::until("it has sent", || {
        m.inside("/run/out-counted").metadata().ok().filter(|f| f.len() > 0)
    });
    // Three packets with heads of 28 bytes.
    assert_eq!(shown("counted.service"), "384 3 384 3 ");
    assert!(m.kill_manager());
    lab::until("the next one counts on", || {
        (shown("counted.service") == "384 3 384 3 ").then_some(())
    });
    assert_eq!(shown("plain.service"), "[no data] [no data] [no data] [no data] ");
    m.wait_for("denied.service", "failed/failed");
    let said = std::fs::read_to_string(m.inside("/run/out-denied")).unwrap_or_default();
    assert!(!said.contains("sent"), "{said}");
}

/// Its files and its network are the run's, whichever manager starts a process of it.
#[test]
fn what_a_run_has_of_its_own_outlives_the_manager() {
    let unit = "[Service]\nPrivateNetwork=yes\nPrivateTmp=yes\nExecStart=@P stay\n\
                ExecStartPre=/bin/sh -c 'readlink /proc/self/ns/net >/tmp/net'\n\
                ExecReload=/bin/sh -c 'readlink /proc/self/ns/net | cmp - /tmp/net'\n";
    let Some(m) = Machine::start("views-kept", &[("own.service", unit)]) else { return };
    own_tmp(&m);
    m.expect_job("start", "own.service", "done");
    assert!(m.kill_manager());
    m.expect_job("reload", "own.service", "done");
    m.expect_job("restart", "own.service", "done");
    m.expect_job("reload", "own.service", "done");
    m.expect_job("stop", "own.service", "done");
    let left = std::fs::read_dir(m.inside("/tmp")).expect("it is there").flatten();
    let left = left.filter(|e| e.file_name().to_string_lossy().starts_with("systemd-private-"));
    assert_eq!(left.count(), 0);
}

/// Numbers of users that are made for runs, by what the manager tells name services.
fn dynamic_users(m: &Machine) -> Vec<(String, u64)> {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    let directory = std::fs::File::open(m.inside("/run/systemd/userdb")).expect("it is there");
    // The whole path has no room in an address.
    let path = format!("/proc/self/fd/{}/io.systemd.DynamicUser", directory.as_raw_fd());
    let mut stream = std::os::unix::net::UnixStream::connect(path).expect("it listens");
    let call = br#"{"method":"io.systemd.UserDatabase.GetUserRecord","more":true,
                    "parameters":{"service":"io.systemd.DynamicUser"}}"#;
    stream.write_all(&[call, &b"\0"[..]].concat()).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answers");
    let answers = text.split_terminator('\0').map(|text| {
        let answer: serde_json::Value = serde_json::from_str(text).expect("an answer");
        answer["parameters"]["record"].clone()
    });
    let records = answers.filter(|record| record.is_object());
    let told = |record: serde_json::Value| {
        let name = record["userName"].as_str().expect("a name").to_owned();
        (name, record["uid"].as_u64().expect("a number"))
    };
    records.map(told).collect()
}

/// Its number is the same for all of its processes and for other units of the name, is told to name services, and is
/// free when the last unit of the name ends; what it leaves is removed, or waits where no other user gets to.
#[test]
fn a_user_is_made_for_a_run_and_outlives_the_manager() {
    let unit = "[Service]\nDynamicUser=yes\nUser=maker\nStateDirectory=maker\nExecStart=@P stay\n\
                ExecStartPre=/bin/sh -c 'id -u >/var/lib/maker/id; touch /dev/shm/of-maker; ipcmk -M 4096 >/dev/null'\n\
                ExecReload=/bin/sh -c 'id -u | cmp - /var/lib/maker/id'\n";
    let same = "[Service]\nDynamicUser=yes\nUser=maker\nExecStart=@P stay\n";
    let plain = "[Service]\nType=oneshot\nStateDirectory=maker\n\
                 ExecStart=/bin/sh -c 'test -f /var/lib/maker/id && test ! -L /var/lib/maker'\n";
    let units = [("one.service", unit), ("two.service", same), ("plain.service", plain)];
    let Some(m) = Machine::start("views-user", &units) else { return };
    own_tmp(&m);
    m.run(&["mount", "-t", "tmpfs", "none", "/var/lib"]).expect("mounted");
    m.run(&["mount", "-t", "tmpfs", "-o", "mode=1777", "none", "/dev/shm"]).expect("mounted");
    assert_eq!(dynamic_users(&m), []);
    m.expect_job("start", "one.service", "done");
    let users = dynamic_users(&m);
    let [(name, number)] = &users[..] else { panic!("{users:?}") };
    assert_eq!(name, "maker");
    assert!((61184..=65519).contains(number), "{number}");
    assert!(m.kill_manager());
    m.expect_job("reload", "one.service", "done");
    assert_eq!(dynamic_users(&m), users);
    m.expect_job("start", "two.service", "done");
    assert_eq!(dynamic_users(&m), users);
    let objects = || {
        let memory = m.run(&["cat", "/proc/sysvipc/shm"]).expect("it can be read");
        let files = std::fs::read_dir(m.inside("/dev/shm")).expect("it is there").count();
        (memory.lines().count() - 1, files)
    };
    assert_eq!(objects(), (1, 1));
    m.expect_job("stop", "one.service", "done");
    assert_eq!((dynamic_users(&m), objects()), (users, (1, 1)));
    m.expect_job("stop", "two.service", "done");
    assert_eq!((dynamic_users(&m), objects()), (Vec::new(), (0, 0)));
    let mode = m.run(&["stat", "-c", "%a", "/var/lib/private"]).expect("it is there");
    assert_eq!(mode.trim(), "700");
    m.expect_job("start", "plain.service", "done");
    m.expect_job("start", "one.service", "done");
    assert_eq!(dynamic_users(&m).len(), 1);
}
