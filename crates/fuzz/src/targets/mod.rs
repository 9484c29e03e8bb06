//! The table of targets.

mod bus;
mod links;
mod site;
mod state;

use std::str::from_utf8;

/// What reads bytes of strangers, and how much it may take.
pub struct Target {
    /// The name of its corpus.
    pub name: &'static str,
    /// Whose bytes these are.
    pub about: &'static str,
    /// Reads bytes; panics if a property is broken.
    pub run: fn(&[u8]),
    /// Memory for an empty input, in bytes.
    pub base_bytes: usize,
    /// Memory for each byte of input, in bytes.
    pub bytes_per_byte: usize,
}

impl Target {
    /// How much memory it may have at once for an input of so many bytes.
    pub fn bytes_max(&self, length: usize) -> usize {
        self.base_bytes + length * self.bytes_per_byte
    }
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// For what is unpacked: the three sections of a block, or values of a `.journal` file, each within its own bound.
const SECTIONS_BYTES: usize = 256 * MIB;

/// The same with the directory of a segment.
const SEGMENT_BYTES: usize = 2 * SECTIONS_BYTES;

/// For a piece of a generation file, unpacked.
const PIECE_BYTES: usize = 72 * MIB;

/// A target with a bound of its own for an empty input, in bytes.
const fn large(
    name: &'static str,
    about: &'static str,
    run: fn(&[u8]),
    base_bytes: usize,
) -> Target {
    Target { base_bytes, ..target(name, about, run) }
}

/// A target with the usual bounds.
const fn target(name: &'static str, about: &'static str, run: fn(&[u8])) -> Target {
    Target { name, about, run, base_bytes: MIB, bytes_per_byte: KIB }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("bus-greeting", "who connects to the bus: SASL", bus::greeting),
    target("bus-message", "who sends a D-Bus message", warren_bus::fuzz::message),
    target("control", "who sends a request to the control socket", links::control),
    target("control-answer", "what answers `warren`", links::answer),
    target("helper-link", "what a helper or init sends", links::packets),
    target(
        "log-link",
        "what the manager hands over to the log daemon",
        warren_log_daemon::fuzz::handover,
    ),
    target("device-link", "what the device daemon sends", links::device),
    target(
        "manager-varlink",
        "what a client of varlink sends to the manager",
        warren_manager::fuzz::varlink,
    ),
    target("notify", "who sends a message to the notify socket", warren_manager::fuzz::notify),
    target("log-input", "who logs: native, syslog, streams, audit", warren_log_daemon::fuzz::input),
    target("log-pending", "memory that a log daemon left", warren_log_daemon::fuzz::pending),
    target("export", "a stream in the Journal Export Format", warren_log_show::fuzz::export),
    target("catalog", "a package's catalog of messages", |data| {
        from_utf8(data).into_iter().for_each(warren_log_show::fuzz::catalog);
    }),
    large("journal-file", "a .journal file", warren_log_store::fuzz::journal_file, SECTIONS_BYTES),
    large("segment", "a file of the log store", warren_log_store::fuzz::mended_file, SEGMENT_BYTES),
    large("block", "a block of a log", warren_log_store::fuzz::mended_block, SECTIONS_BYTES),
    large(
        "directory",
        "the directory of a segment",
        warren_log_store::fuzz::directory,
        SEGMENT_BYTES,
    ),
    target("http", "who sends a request to the gateway", warren_log_net::fuzz::request),
    target("page", "who sends a request to the page for browsers", warren_web::fuzz::request),
    target("keys", "what a terminal sends to `warren top`", warren_console::fuzz::keys),
    target("varlink", "who calls warren-journal-access", warren_log_net::fuzz::call),
    target("disk", "who wrote a disk: labels", warren_device::fuzz::mended_device),
    target("lvm-text", "who wrote a disk: lvm2's metadata", warren_device::fuzz::metadata),
    target("uevent", "the kernel's and udev's datagrams and records", warren_device::fuzz::event),
    target("run-state", "run state that a manager left", state::run_state),
    large("generation", "what a manager left", warren_manager::fuzz::generation, PIECE_BYTES),
    target("recording", "a recording that `warren chart` reads", state::recording),
    target("tables", "fstab(5) and mount(8)'s utab", warren_manager::fuzz::tables),
    target("unit-file", "a unit file", warren_unit::fuzz::unit_file),
    target("unit-name", "the name of a unit", |data| {
        from_utf8(data).into_iter().for_each(warren_unit::fuzz::name);
    }),
    target("rules", "a file of rules, parsed and formatted", warren_fleet::fuzz::file),
    large("configuration", "rules, evaluated", warren_fleet::fuzz::configuration, 64 * MIB),
    target("site", "who writes to the store of many hosts", site::values),
];
