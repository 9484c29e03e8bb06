//! Unit files by chance: few units of many kinds that know each other, so that orders to one meet the others.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::lab::Machine;
use warren_testkit::Dice;

/// Services that are edited, masked, removed and made names of each other.
pub const SERVICES: u64 = 6;

/// Mounts at `/run/r/m0` and so on; the first has an automount point.
pub const MOUNTS: u64 = 3;

/// The one that may leave processes behind: it alone has `KillMode=process`.
pub const LEAVES_BEHIND: &str = "s5.service";

/// Everything is down sooner than any of the limits in time of the tests, and what starts again and again
/// gives up.
const BOUNDS: &str = "StartLimitIntervalSec=1h\nStartLimitBurst=8\n";

const RELATIONS: &[&str] = &[
    "Wants",
    "Requires",
    "BindsTo",
    "PartOf",
    "Before",
    "Conflicts",
    "Upholds",
    "OnFailure",
    "OnSuccess",
    "Requisite",
    "PropagatesStopTo",
    "PropagatesReloadTo",
    "StopPropagatedFrom",
];

/// What a service is like: its name for the description, and its settings. `@I` is its number.
const KINDS: &[(&str, &str)] = &[
    ("simple", "ExecStart=@P stay"),
    ("exec", "Type=exec\nExecStartPre=/bin/true\nExecStart=@P stay"),
    ("notify", "Type=notify\nExecStart=@P ready stay"),
    ("late", "Type=notify\nExecStart=@P wait:60 ready stay"),
    ("mute", "Type=notify\nTimeoutStartSec=200ms\nExecStart=@P stay"),
    (
        "names-another",
        "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c '@P main ready stay & wait'",
    ),
    (
        "names-and-leaves",
        "Type=notify\nNotifyAccess=all\nExecStart=/bin/sh -c '@P main ready stay & sleep 0.05'",
    ),
    ("forking", "Type=forking\nPIDFile=/run/s@I.pid\nExecStart=@P fork:/run/s@I.pid stay"),
    ("guessed", "Type=forking\nExecStart=@P fork: stay"),
    ("oneshot", "Type=oneshot\nExecStart=@P wait:40"),
    ("remains", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\nExecStop=/bin/true"),
    ("family", "ExecStart=/bin/sh -c 'sleep 1001 & sleep 1002 & exec sleep 1000'"),
    ("deaf", "TimeoutStopSec=200ms\nExecStart=@P deaf"),
    ("fails", "ExecStart=@P wait:20 exit:3"),
    ("crashes", "ExecStart=@P wait:20 die:11"),
    ("quick", "ExecStart=/bin/true"),
    ("reloads", "ExecStart=@P stay\nExecReload=@P wait:40"),
    ("reloads-itself", "Type=notify-reload\nExecStart=@P reloads ready stay"),
    ("stop-command", "ExecStart=@P stay\nExecStop=@P wait:40\nExecStopPost=/bin/true"),
    ("lingers", "ExecStart=@P lingers:100"),
    ("group", "ExitType=cgroup\nExecStart=/bin/sh -c 'sleep 0.2 & sleep 0.05'"),
    ("condition", "ExecCondition=@P exit:1\nExecStart=@P stay"),
    ("keeps", "Type=notify\nFileDescriptorStoreMax=3\nExecStart=@P store:one store:two ready stay"),
    ("watched", "Type=notify\nWatchdogSec=20s\nExecStart=@P ready watchdog:1000000:100"),
    ("limited", "RuntimeMaxSec=400ms\nExecStart=@P stay"),
    ("directories", "RuntimeDirectory=s@I\nExecStart=@P append:/run/s@I/out:run stay"),
    ("missing", "ExecStart=/run/not-there"),
];

/// What starts a service again, and when.
const RESTARTS: &[&str] = &[
    "",
    "",
    "Restart=always\nRestartSec=50ms\n",
    "Restart=on-failure\nRestartSec=20ms\n",
    "Restart=on-abnormal\nRestartSec=0\n",
    "Restart=on-success\nRestartSec=10ms\n",
];

const KILLS: &[&str] = &["", "", "KillMode=mixed\n", "SendSIGHUP=yes\n"];

const SLICES: &[&str] = &["", "", "Slice=a.slice\n", "Slice=a-b.slice\n", "Slice=c.slice\n"];

/// The unit directory.
pub struct Files<'m>(pub &'m Machine);

/// One of them.
pub fn any<'a, T: ?Sized>(dice: &mut Dice, all: &[&'a T]) -> &'a T {
    all[dice.roll(all.len() as u64) as usize]
}

/// So often of a hundred times.
pub fn chance(dice: &mut Dice, percent: u64) -> bool {
    dice.roll(100) < percent
}

fn service(dice: &mut Dice, n: u64) -> String {
    let (kind, settings) = KINDS[dice.roll(KINDS.len() as u64) as usize];
    let mut text = format!("[Unit]\nDescription={kind} {}\n{BOUNDS}", dice.roll(1000));
    let mut relate = |dice: &mut Dice, percent, relation: &str| {
        if chance(dice, percent) {
            text += &format!("{relation}=s{}.service\n", dice.roll(SERVICES));
        }
    };
    let relation = any(dice, RELATIONS);
    relate(dice, 30, relation);
    relate(dice, 30, "After");
    if chance(dice, 10) {
        text += &format!("RequiresMountsFor=/run/r/m{}/below\n", dice.roll(MOUNTS));
    }
    for (percent, line) in [(10, "StopWhenUnneeded=yes\n"), (10, "JobTimeoutSec=2s\n")] {
        text += if chance(dice, percent) { line } else { "" };
    }
    text += "[Service]\nTimeoutSec=2s\n";
    text += any(dice, SLICES);
    text += any(dice, RESTARTS);
    let leaves_behind = format!("s{n}.service") == LEAVES_BEHIND && chance(dice, 30);
    text += if leaves_behind { "KillMode=process\n" } else { any(dice, KILLS) };
    text += &format!("{}\n", settings.replace("@I", &n.to_string()));
    if chance(dice, 30) {
        text += "[Install]\nWantedBy=t0.target\n";
        if chance(dice, 50) {
            text += &format!("Alias=alias{}.service\n", dice.roll(2));
        }
    }
    text
}

fn socket(dice: &mut Dice, n: u64) -> String {
    let more = any(dice, &["", "SocketMode=0600\n", "Backlog=16\n"]);
    let goes = if n == 0 { "RemoveOnStop=yes\n" } else { "" };
    let slice = any(dice, SLICES);
    format!("[Socket]\nListenStream=/run/r/k{n}\nTriggerLimitIntervalSec=0\n{goes}{more}{slice}")
}

impl Files<'_> {
    /// All of them.
    pub fn write_all(&self, dice: &mut Dice) {
        (0..SERVICES).for_each(|n| self.write_service(dice, n));
        self.write_sockets(dice);
        self.write_mounts(dice);
        self.write_automount(dice);
        let template = format!("[Unit]\n{BOUNDS}[Service]\nTimeoutSec=2s\nExecStart=@P stay\n");
        self.put("p@.service", &template);
        self.put("t0.target", "[Unit]\nAllowIsolate=yes\nWants=s0.service k0.socket\n");
        let t1 =
            "[Unit]\nAllowIsolate=yes\nWants=s1.service k1.socket run-r-m1.mount p@1.service\n";
        self.put("t1.target", t1);
        self.put("default.target", "[Unit]\nAllowIsolate=yes\n");
    }

    /// Another text for one of the services.
    pub fn write_service(&self, dice: &mut Dice, n: u64) {
        self.put(&format!("s{n}.service"), &service(dice, n));
    }

    /// Other texts for the sockets and who serves them.
    pub fn write_sockets(&self, dice: &mut Dice) {
        for n in 0..2 {
            self.put(&format!("k{n}.socket"), &socket(dice, n));
            let slice = any(dice, SLICES);
            let text =
                format!("[Unit]\n{BOUNDS}[Service]\nTimeoutSec=2s\n{slice}ExecStart=@P serve\n");
            self.put(&format!("k{n}.service"), &text);
        }
        let most = any(dice, &["", "MaxConnections=3\n"]);
        let socket = "[Socket]\nListenStream=/run/r/each\nAccept=yes\nTriggerLimitIntervalSec=0\n";
        self.put("each.socket", &format!("{socket}{most}"));
        let collected = any(dice, &["", "[Unit]\nCollectMode=inactive-or-failed\n"]);
        let service = "[Service]\nTimeoutSec=2s\nStandardInput=socket\nExecStart=/bin/cat\n";
        self.put("each@.service", &format!("{collected}{service}"));
    }

    /// Other texts for the mounts.
    pub fn write_mounts(&self, dice: &mut Dice) {
        for n in 0..MOUNTS {
            let options = any(dice, &["", "Options=size=1m\n", "Options=size=1m,nosuid\n"]);
            let slice = any(dice, SLICES);
            let unit = "[Unit]\nDefaultDependencies=no\n";
            let mount =
                format!("[Mount]\nWhat=fs{n}\nWhere=/run/r/m{n}\nType=tmpfs\nTimeoutSec=5s\n");
            self.put(&format!("run-r-m{n}.mount"), &format!("{unit}{mount}{options}{slice}"));
        }
    }

    /// What an edit of it says is in force with the next start, or the next manager.
    fn write_automount(&self, dice: &mut Dice) {
        let idle = any(dice, &["", "TimeoutIdleSec=1s\n"]);
        let unit = "[Unit]\nDefaultDependencies=no\n[Automount]\nWhere=/run/r/m0\n";
        self.put("run-r-m0.automount", &format!("{unit}{idle}"));
    }

    /// A drop-in for a service, for all, or for the instances.
    pub fn write_drop_in(&self, dice: &mut Dice) -> String {
        let name = match dice.roll(10) {
            0 => "service.d/x.conf".to_owned(),
            1 => "p@.service.d/x.conf".to_owned(),
            2 => "p@1.service.d/y.conf".to_owned(),
            3 => "socket.d/x.conf".to_owned(),
            _ => format!("s{}.service.d/x.conf", dice.roll(SERVICES)),
        };
        let text = match name.starts_with("socket") {
            true => format!("[Unit]\nDescription=edited {}\n", dice.roll(1000)),
            false => format!("[Service]\nEnvironment=A={}\n{}", dice.roll(1000), any(dice, SLICES)),
        };
        self.put(&name, &text);
        name
    }

    /// Takes away the drop-ins of one kind.
    pub fn remove_drop_ins(&self, dice: &mut Dice) -> String {
        let service = format!("s{}.service.d", dice.roll(SERVICES));
        let below =
            any(dice, &["service.d", "p@.service.d", "p@1.service.d", "socket.d", &*service]);
        let _ = std::fs::remove_dir_all(self.path(below));
        below.to_owned()
    }

    /// Takes away a file or a link.
    pub fn remove(&self, name: &str) {
        let _ = std::fs::remove_file(self.path(name));
    }

    /// A link to another unit file, or to `/dev/null`.
    pub fn link(&self, name: &str, to: &str) {
        self.remove(name);
        symlink(to, self.path(name)).expect("a link can be made");
    }

    /// Whether the file of this name says so.
    pub fn says(&self, name: &str, line: &str) -> bool {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().any(|one| one == line)
    }

    /// Whether there is a file of this name, and no link.
    pub fn is_written(&self, name: &str) -> bool {
        std::fs::symlink_metadata(self.path(name)).is_ok_and(|file| file.is_file())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.directory.join("units").join(name)
    }

    /// At once: a link of that name is replaced, and nobody sees half of it.
    fn put(&self, name: &str, text: &str) {
        self.0.write("new~", text);
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        std::fs::rename(self.path("new~"), path).expect("it can be renamed");
    }
}
