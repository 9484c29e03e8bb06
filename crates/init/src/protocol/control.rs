//! Channel 2: warrend and warren-init.
//!
//! warrend finds its end as fd [`CONTROL_FD`]. It sends `Hello`; init answers `Welcome` (with
//! the ring, the eventfds and the helpers' sockets), then the stored fds in batches, then the
//! signals that came while no warrend was there. Afterwards both sides speak when they have
//! something to say. Requests are handled in order and need no answer (see the invariant in
//! [`super`]); those refused are named in [`InitMessage::Refused`].
//!
//! warrend and the helpers are in init's process group. SIGINT, SIGQUIT and SIGTSTP are blocked
//! when warrend starts, so that a Ctrl-C reaches it once, through init.
//!
//! A manager of a newer program speaks to the init that is there: messages are added behind the
//! others, and none that exists is changed.
//!
//! The types borrow their strings from the packet, because init allocates nothing.

use serde::{Deserialize, Serialize};

use super::Packet;

/// The fd at which warrend finds the control socket. It is not close-on-exec there: take it with
/// `warren_sys::fdpass::take_inherited` first thing.
pub const CONTROL_FD: i32 = 3;

/// Environment variable that says so to warrend: its value is the fd's number.
pub const CONTROL_FD_ENV: &str = "WARREN_CONTROL_FD";

/// Environment variable with the absolute path of the cgroup that is the root of the tree; empty
/// when there is none.
pub const CGROUP_ROOT_ENV: &str = "WARREN_CGROUP_ROOT";

/// Environment variable with when init had prepared the ground: microseconds of CLOCK_REALTIME and of
/// CLOCK_MONOTONIC, in decimal, with a space between them.
pub const BEGAN_ENV: &str = "WARREN_BEGAN";

/// Environment variable with how many soft reboots the manager's machine has seen, in decimal.
pub const SOFT_REBOOTS_ENV: &str = "WARREN_SOFT_REBOOTS";

/// Exit status of warrend that means "start me again at once, this was no crash": a planned
/// re-exec or upgrade, after the state was stored.
pub const EXIT_RESTART: i32 = 85;

/// Name under which warrend keeps its run-state memfd. For init a stored fd like any other.
pub const STATE_NAME: &str = "state";

/// How the names begin of what is kept for units. Of these init keeps no more than leaves its reserve of file descriptors
/// alone ([`warren_sys::descriptors`]); what is the manager's own is kept as long as there are any.
pub const KEPT_FOR_UNITS: [&str; 3] = ["socket/", "stream/", "fdstore/"];

/// Most fds in the store.
pub const STORE_FDS_MAX: usize = 65_536;

/// Longest name of a stored fd, bytes.
pub const STORE_NAME_BYTES_MAX: usize = 512;

/// Bytes of all names in the store together.
pub const STORE_NAMES_BYTES_MAX: usize = 8 << 20;

/// Most exec helpers.
pub const HELPERS_MAX: usize = 16;

/// From warrend to init.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitRequest<'a> {
    /// First message of a new warrend.
    Hello,
    /// Keeps the fd of this packet under a name. An fd already kept under that name is closed:
    /// replacing is atomic.
    StoreFd {
        /// 1 to [`STORE_NAME_BYTES_MAX`] bytes, unique.
        name: &'a str,
    },
    /// Closes the stored fd of that name. Fine when there is none.
    DropFd {
        /// The name.
        name: &'a str,
    },
    /// Takes one connection from a stored listening socket and stores it under a name, then
    /// answers [`InitMessage::Accepted`]. A connection that the manager took itself would be lost
    /// if it were killed before it could store it; this one is kept from the first moment.
    Accept {
        /// Comes back in the answer.
        token: u64,
        /// The name under which the listening socket is stored.
        listener: &'a str,
        /// The name for the connection, as in `StoreFd`.
        name: &'a str,
    },
    /// Asks for all stored fds again.
    ListFds,
    /// Ends everything: init kills warrend and the helpers, then does this. Everything else
    /// (stopping, unmounting, syncing) has been done by warrend before.
    Power(PowerAction),
    /// Heartbeat. Once the first has come, a warrend that sends none for the heartbeat bound is
    /// killed and started again, unless it is being traced. What init said before its answer to the last one is
    /// written down when the next is sent: signals of that time are not told to the next warrend.
    Ping {
        /// Comes back in [`InitMessage::Pong`].
        n: u64,
    },
    /// Ends a helper that is held up; [`InitMessage::Helper`] comes with the next one. A process
    /// that it was making goes on to its program.
    EndHelper {
        /// Which helper, from 0.
        index: u16,
    },
    /// What the process 1 of a host does when it has made a fault. Others take no notice.
    OnCrash(OnCrash),
}

/// What is done when process 1 has made a fault (systemd-system.conf(5), "CrashReboot=").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnCrash {
    /// There is a core dump of it.
    pub dumps_core: bool,
    /// A shell is started on the console after 10 s.
    pub starts_shell: bool,
    /// This virtual terminal is shown, 0 for the one that the kernel writes to.
    pub terminal: Option<u8>,
    /// What follows.
    pub end: CrashEnd,
}

/// What follows on a crash of process 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CrashEnd {
    /// Services go on, without a manager.
    Freeze,
    /// The machine restarts.
    Reboot,
    /// The machine is powered off.
    PowerOff,
}

impl Packet for InitRequest<'_> {
    const VERSION: u8 = 1;
}

/// Where clients and the manager leave what a restart is to tell the firmware (systemctl(1), `--reboot-argument=`).
pub const REBOOT_ARGUMENT: &str = "/run/systemd/reboot-param";

/// How it all ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PowerAction {
    /// reboot(2) RB_AUTOBOOT as PID 1; else exit 0.
    Reboot,
    /// Power off as PID 1; else exit 0.
    PowerOff,
    /// Halt as PID 1; else exit 0.
    Halt,
    /// Start the kernel loaded by kexec_load(2), as PID 1; falls back to reboot.
    Kexec,
    /// Leave with this status. As PID 1 of a host this would be a kernel panic and is treated
    /// as `PowerOff`.
    Exit(u8),
    /// Start over with the same kernel: init executes itself anew, from `/run/nextroot` if that is
    /// there, with what it keeps; the processes of services go on.
    SoftReboot,
}

/// Why this warrend was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartReason {
    /// It is the first of this init.
    First,
    /// Its predecessor asked for it ([`EXIT_RESTART`]).
    Asked,
    /// Its predecessor exited with this status.
    Exited(i32),
    /// Its predecessor was killed by this signal.
    Killed(i32),
    /// Its predecessor sent no heartbeat and was killed by init.
    Hung,
    /// It is the first after a soft reboot.
    SoftReboot,
}

/// From init to warrend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InitMessage<'a> {
    /// Answer to `Hello`. Carries, in this order: the ring's memfd, the eventfd that wakes the
    /// reader, the eventfd that tells init of new room, and one socket for each helper.
    Welcome(Welcome),
    /// A batch of stored fds, carried by this packet in the order of the names.
    Fds {
        /// Names packed by [`pack_name`]; read with [`unpack_names`].
        names: &'a [u8],
        /// No more batches follow. Always sent, also when the store is empty.
        last: bool,
    },
    /// A helper was started anew; carries its socket. What the old one had not answered is lost.
    Helper {
        /// Which helper, from 0.
        index: u16,
    },
    /// A signal that init got; signals(7) numbers. Which mean what: systemd(1), "Signals".
    Signal {
        /// The signal.
        signo: u8,
    },
    /// Answer to `Ping`: what was asked before it is done. Sockets that were dropped have given up their addresses, unless
    /// very many of them take long.
    Pong {
        /// The ping's number.
        n: u64,
    },
    /// Answer to `Accept`, one for each. Carries the connection if there was one.
    Accepted {
        /// The request's token.
        token: u64,
        /// What came of it: 0 for a connection, EAGAIN when none waits, ENOENT when nothing is
        /// stored under the listener's name, ENOSPC when the store is full or too much waits to be
        /// closed, EINVAL for a bad name, else the errno of accept(2).
        errno: i32,
    },
    /// A request that could not be done.
    Refused {
        /// Why.
        why: Refusal,
        /// The name that the request was about, if any.
        name: &'a str,
    },
}

impl Packet for InitMessage<'_> {
    const VERSION: u8 = 1;
}

/// What a new warrend is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// 1 for the first warrend of this init, then counting up.
    pub incarnation: u64,
    /// Random, the same for all warrends of one init: names the state that belongs to it.
    pub instance: [u8; 16],
    /// Why it was started.
    pub reason: StartReason,
    /// Init's pid, in its own pid namespace.
    pub init_pid: i32,
    /// Helpers, and so sockets in this packet.
    pub helpers: u16,
    /// Stored fds that will follow.
    pub stored_fds: u32,
    /// Heartbeat bound in milliseconds, 0 when off.
    pub heartbeat_ms: u32,
    /// When this init was started, CLOCK_MONOTONIC, nanoseconds.
    pub init_started_ns: u64,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// Not a packet of this protocol.
    Malformed,
    /// A name that is empty or too long.
    BadName,
    /// `StoreFd` without exactly one fd.
    NoFd,
    /// The store is full: [`STORE_FDS_MAX`], [`STORE_NAMES_BYTES_MAX`] or RLIMIT_NOFILE.
    StoreFull,
}

/// Appends one name to a packed list (two bytes of length, then the name). `false` when it does
/// not fit into `buffer`, which is then unchanged.
pub fn pack_name(buffer: &mut [u8], used: &mut usize, name: &str) -> bool {
    let length = name.len();
    let Some(room) = buffer.get_mut(*used..*used + 2 + length) else { return false };
    let Ok(short) = u16::try_from(length) else { return false };
    room[..2].copy_from_slice(&short.to_le_bytes());
    room[2..].copy_from_slice(name.as_bytes());
    *used += 2 + length;
    true
}

/// The names of a packed list. Ends early at the first damaged entry.
pub fn unpack_names(mut packed: &[u8]) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (length, rest) = packed.split_first_chunk::<2>()?;
        let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*length) as usize)?;
        packed = rest;
        std::str::from_utf8(name).ok()
    })
}
