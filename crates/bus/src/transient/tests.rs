//! What properties come to, as data: a unit type, a property, its type and its value in the notation of busctl(1)
//! (`~` is a space in a text), and the lines of the unit file.

use super::*;
use crate::wire::{Writer, encode_text};
use warren_unit::parse;

fn body(properties: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut w = Writer::new();
    w.array(b'(', |w| {
        for (name, signature, value) in properties {
            w.structure().str(name).variant(signature);
            encode_text(signature, value, w);
        }
    });
    w.finish()
}

fn read_all(unit_type: UnitType, properties: &[(&str, &str, &str)]) -> Result<Properties, String> {
    let bytes = body(properties);
    read(unit_type, &mut Reader::new(&bytes, false)).map_err(|fault| match fault {
        Fault::Error(error) => error.to_string(),
        Fault::Garbage(error) => format!("{error:?}"),
    })
}

fn check(unit_type: UnitType, (name, signature, value): (&str, &str, &str), expected: &str) {
    let lines = match read_all(unit_type, &[(name, signature, value)]) {
        Ok(properties) => {
            let written = properties.written.iter();
            let lines =
                written.flat_map(|w| w.lines.iter().map(move |l| format!("[{}] {l}", w.section)));
            lines.collect::<Vec<_>>().join("\n")
        }
        Err(error) => error,
    };
    assert_eq!(lines, expected, "{name} {signature} {value}");
}

#[test]
fn properties_are_lines_of_a_unit_file() {
    use UnitType::{Automount, Mount, Path, Scope, Service, Slice, Socket, Timer};
    for (unit_type, property, lines) in [
        (Service, ("Description", "s", "100%"), "[Unit] Description=100%%"),
        (
            Service,
            ("Requires", "as", "2 a.service b.service"),
            "[Unit] Requires=a.service b.service",
        ),
        (
            Service,
            ("CollectMode", "s", "inactive-or-failed"),
            "[Unit] CollectMode=inactive-or-failed",
        ),
        (Service, ("JobTimeoutUSec", "t", "2000000"), "[Unit] JobTimeoutSec=2000000us"),
        (Service, ("Type", "s", "notify"), "[Service] Type=notify"),
        (Service, ("RemainAfterExit", "b", "true"), "[Service] RemainAfterExit=yes"),
        (Service, ("RestartUSec", "t", "18446744073709551615"), "[Service] RestartSec=infinity"),
        (
            Service,
            ("ExecStart", "a(sasb)", "1 /bin/echo 3 /bin/echo a\"b $X true"),
            "[Service] ExecStart=-\"/bin/echo\" \"a\\\"b\" \"$X\"",
        ),
        (
            Service,
            ("ExecStartEx", "a(sasas)", "1 /bin/sh 2 -sh 5% 2 privileged no-env-expand"),
            "[Service] ExecStart=+:@\"/bin/sh\" \"-sh\" \"5%%\"",
        ),
        (Service, ("ExecStart", "a(sasb)", "0"), "[Service] ExecStart="),
        (Service, ("Environment", "as", "2 A=1 B=\\"), "[Service] Environment=\"A=1\" \"B=\\\\\""),
        (
            Service,
            ("EnvironmentFiles", "a(sb)", "1 /etc/x true"),
            "[Service] EnvironmentFile=-/etc/x",
        ),
        (Service, ("SupplementaryGroups", "as", "0"), "[Service] SupplementaryGroups="),
        (Service, ("UMask", "u", "18"), "[Service] UMask=0022"),
        (Service, ("KillSignal", "i", "2"), "[Service] KillSignal=SIGINT"),
        (Service, ("Nice", "i", "-5"), "[Service] Nice=-5"),
        (Service, ("CPUSchedulingPolicy", "i", "5"), "[Service] CPUSchedulingPolicy=idle"),
        (Service, ("SyslogFacility", "i", "24"), "[Service] SyslogFacility=3"),
        (Service, ("TimerSlackNSec", "t", "7"), "[Service] TimerSlackNSec=7ns"),
        (
            Service,
            ("CapabilityBoundingSet", "t", "33"),
            "[Service] CapabilityBoundingSet=CAP_CHOWN CAP_KILL",
        ),
        (
            Service,
            ("CapabilityBoundingSet", "t", "18446744073709551615"),
            "[Service] CapabilityBoundingSet=~",
        ),
        (Service, ("RestrictNamespaces", "t", "1073741824"), "[Service] RestrictNamespaces=net"),
        (Service, ("MountFlags", "t", "524288"), "[Service] MountFlags=slave"),
        (
            Service,
            ("SystemCallFilter", "(bas)", "false 1 @mount"),
            "[Service] SystemCallFilter=~@mount",
        ),
        (
            Service,
            ("BindPaths", "a(ssbt)", "1 /a:b /c true 16384"),
            "[Service] BindPaths=\"-/a\\\\:b:/c:rbind\"",
        ),
        (
            Service,
            ("TemporaryFileSystem", "a(ss)", "1 /x ro"),
            "[Service] TemporaryFileSystem=\"/x:ro\"",
        ),
        (Service, ("LoadCredential", "a(ss)", "1 id /p"), "[Service] LoadCredential=id:/p"),
        (
            Service,
            ("SetCredential", "a(say)", "1 id 3 65 10 32"),
            "[Service] SetCredential=id:A\\x0a\\x20",
        ),
        (Service, ("StandardInputData", "ay", "2 104 105"), "[Service] StandardInputData=aGk="),
        (Service, ("StandardInputText", "ay", "2 104 105"), "[Service] StandardInputData=aGk="),
        (
            Service,
            ("SocketBindAllow", "a(iiqq)", "5 0 6 1 80 2 0 0 0 10 17 11 1000 0 0 0 0 2 6 0 0"),
            "[Service] SocketBindAllow=tcp:80\n[Service] SocketBindAllow=ipv4\n\
             [Service] SocketBindAllow=ipv6:udp:1000-1010\n[Service] SocketBindAllow=any\n\
             [Service] SocketBindAllow=ipv4:tcp",
        ),
        (
            Service,
            ("RestartPreventExitStatus", "(aiai)", "1 3 1 15"),
            "[Service] RestartPreventExitStatus=3 SIGTERM",
        ),
        (Service, ("StateDirectory", "as", "1 a"), "[Service] StateDirectory=a"),
        (
            Service,
            ("OpenFile", "a(sst)", "2 /a b 9 /c \"\" 0"),
            "[Service] OpenFile=/a:b:read-only,graceful\n[Service] OpenFile=/c",
        ),
        (Service, ("PrivateTmp", "b", "true"), "[Service] PrivateTmp=yes"),
        (Service, ("LimitNOFILESoft", "t", "10"), "[Service] LimitNOFILE=10:10"),
        (
            Service,
            ("Conditions", "a(sbbs)", "1 ConditionPathExists true true /a"),
            "[Unit] ConditionPathExists=|!/a",
        ),
        (Scope, ("Slice", "s", "a.slice"), "[Scope] Slice=a.slice"),
        (Scope, ("Delegate", "b", "true"), "[Scope] Delegate=yes"),
        (Scope, ("RuntimeMaxUSec", "t", "5"), "[Scope] RuntimeMaxSec=5us"),
        (Scope, ("Controller", "s", ":1.7"), "[X-Warren] Controller=:1.7"),
        (Slice, ("DelegateControllers", "as", "2 cpu memory"), "[Slice] Delegate=cpu memory"),
        (Slice, ("MemoryMax", "t", "18446744073709551615"), "[Slice] MemoryMax=infinity"),
        (Slice, ("MemoryMaxScale", "u", "2147483648"), "[Slice] MemoryMax=50.00%"),
        (Slice, ("TasksMax", "t", "7"), "[Slice] TasksMax=7"),
        (Slice, ("ConcurrencyHardMax", "u", "7"), "[Slice] ConcurrencyHardMax=7"),
        (Slice, ("ConcurrencySoftMax", "u", "4294967295"), "[Slice] ConcurrencySoftMax=infinity"),
        (Slice, ("CPUWeight", "t", "0"), "[Slice] CPUWeight=idle"),
        (Slice, ("CPUQuotaPerSecUSec", "t", "1500000"), "[Slice] CPUQuota=150.00%"),
        (Slice, ("CPUQuotaPeriodUSec", "t", "10000"), "[Slice] CPUQuotaPeriodSec=10000us"),
        (Slice, ("AllowedCPUs", "ay", "2 7 128"), "[Slice] AllowedCPUs=0-2 15"),
        (Slice, ("DeviceAllow", "a(ss)", "1 /dev/null rw"), "[Slice] DeviceAllow=/dev/null rw"),
        (
            Slice,
            ("IOReadBandwidthMax", "a(st)", "1 /dev/sda 5000"),
            "[Slice] IOReadBandwidthMax=/dev/sda 5000",
        ),
        (
            Slice,
            ("IODeviceLatencyTargetUSec", "a(st)", "1 /dev/sda 5000"),
            "[Slice] IODeviceLatencyTargetSec=/dev/sda 5000us",
        ),
        (
            Slice,
            ("IPAddressAllow", "a(iayu)", "1 2 4 10 0 0 1 8"),
            "[Slice] IPAddressAllow=10.0.0.1/8",
        ),
        (Timer, ("OnCalendar", "s", "daily"), "[Timer] OnCalendar=daily"),
        (Timer, ("TimersCalendar", "a(ss)", "1 OnCalendar daily"), "[Timer] OnCalendar=daily"),
        (Timer, ("OnActiveUSec", "t", "5"), "[Timer] OnActiveSec=5us"),
        (Timer, ("OnActiveSec", "t", "5"), "[Timer] OnActiveSec=5us"),
        (Timer, ("TimersMonotonic", "a(st)", "1 OnBootSec 5"), "[Timer] OnBootSec=5us"),
        (Timer, ("AccuracyUSec", "t", "1"), "[Timer] AccuracySec=1us"),
        (Path, ("Paths", "a(ss)", "1 PathExists /a"), "[Path] PathExists=/a"),
        (Socket, ("Listen", "a(ss)", "1 Stream /run/x"), "[Socket] ListenStream=/run/x"),
        (Mount, ("What", "s", "/dev/sda"), "[Mount] What=/dev/sda"),
        (Automount, ("TimeoutIdleUSec", "t", "1"), "[Automount] TimeoutIdleSec=1us"),
    ] {
        check(unit_type, property, lines);
    }
}

#[test]
fn what_cannot_be_said_in_a_unit_file_is_refused() {
    const READ_ONLY: &str = "org.freedesktop.DBus.Error.PropertyReadOnly: ";
    const INVALID: &str = "org.freedesktop.DBus.Error.InvalidArgs: ";
    let unknown =
        |name: &str| format!("{READ_ONLY}Cannot set property {name}, or unknown property.");
    use UnitType::{Scope, Service, Slice, Timer};
    for (unit_type, property, why) in [
        (Slice, ("NoSuchThing", "s", "x"), unknown("NoSuchThing")),
        (Slice, ("ExecStart", "a(sasb)", "0"), unknown("ExecStart")),
        (Service, ("PIDs", "au", "1 1"), unknown("PIDs")),
        (Scope, ("Listen", "a(ss)", "1 Stream /a"), unknown("ListenStream")),
        (Timer, ("TimersCalendar", "a(ss)", "1 Unit a.service"), unknown("Unit")),
        (
            Slice,
            ("MemoryMax", "s", "1"),
            format!("{INVALID}Property MemoryMax has a value of the wrong type 's'."),
        ),
        (
            Slice,
            ("MemoryMax", "b", "true"),
            format!("{INVALID}Property MemoryMax has a value of the wrong type 'b'."),
        ),
        (
            Service,
            ("User", "s", "a\u{b}b"),
            format!("{INVALID}The value of property User has a control character."),
        ),
        (
            Service,
            ("OpenFile", "a(sst)", "1 /a b 16"),
            format!("{INVALID}The value of property OpenFile has an option that is none."),
        ),
        (
            Service,
            ("ExecStart", "a(sasb)", "1 /bin/true 0 false"),
            format!("{INVALID}The value of property ExecStart has a command without arguments."),
        ),
    ] {
        check(unit_type, property, &why);
    }
    // A line more would be another setting.
    let mut w = Writer::new();
    w.array(b'(', |w| {
        w.structure().str("User").variant("s").str("a\nExecStartPre=/bin/false");
    });
    let bytes = w.finish();
    let read = read(Service, &mut Reader::new(&bytes, false));
    assert!(matches!(read, Err(Fault::Error(_))));
}

#[test]
fn limits_are_one_setting_and_a_file_is_one_that_can_be_read() {
    let properties = [
        ("LimitNOFILE", "t", "20"),
        ("Description", "s", "x"),
        ("LimitNOFILESoft", "t", "10"),
        ("ExecStart", "a(sasb)", "1 /bin/true 1 /bin/true false"),
        ("Wants", "as", "1 a.service"),
    ];
    let properties = read_all(UnitType::Service, &properties).expect("all are known");
    let file = properties.file();
    assert_eq!(
        file,
        format!(
            "{HEAD}\n[Unit]\nDescription=x\n\n[Service]\nExecStart=\"/bin/true\"\n\n[Unit]\n\
             Wants=a.service\n\n[Service]\nLimitNOFILE=10:20\n"
        )
    );
    let (_, faults) = parse::parse("/x.service".into(), file.as_bytes(), UnitType::Service);
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(properties.fault_of_live(), Some("ExecStart"));
}

#[test]
fn what_can_be_changed_of_a_unit_is_a_dropin_each() {
    let properties = [("MemoryMax", "t", "5"), ("TasksMax", "t", "7")];
    let properties = read_all(UnitType::Slice, &properties).expect("both are known");
    assert_eq!(properties.fault_of_live(), None);
    assert_eq!(properties.written[0].dropin(), format!("{DROPIN_HEAD}[Slice]\nMemoryMax=5\n"));
    assert_eq!(properties.written[1].name, "TasksMax");
}
