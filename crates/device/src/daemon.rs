//! `warren-deviced`: hears of devices, has them read, asks the index, does what it decides.
//!
//! The socket is bound first, then one pass over sysfs looks at everything that is there, then
//! events follow; when events were lost, another pass finds what they would have told. This is
//! the thin part: which device counts, which group is complete and what is started is decided by
//! [`crate::index`] and [`crate::activate`].
//!
//! Start reading at [`Daemon::turn`].

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::inotify::Inotify;
use warren_sys::netlink::{Group, Uevents};

use crate::activate::{self, online_file, online_path};
use crate::begun::StartRecord;
use crate::index::{
    Decision, Device, DeviceNumber, Event, GroupId, Index, NotReady, Policy, Role, Start,
};
use crate::lvm::area::TextKey;
use crate::lvm::group::VolumeGroup;
use crate::names;
use crate::news::Teller;
use crate::orders::ExecutorOrder;
use crate::readers::{Answer, Outcome, Readers};
use crate::report::{self, Details, Report};
use crate::sysfs::{BlockDevice, Roots};

mod events;
mod hands;
mod links;
mod nodes;
mod pass;
mod tell;
mod writes;

use hands::{ExecutorNews, Hands};
use nodes::Nodes;
use pass::{Batch, ListAgain, Pass};
use writes::Writes;

/// Receive buffer in bytes: the default holds 256 events of a burst, this one 500,000.
pub const RECEIVE_BUFFER_BYTES: usize = 128 << 20;

/// How long a pass waits for the next answer, in milliseconds. A disk that takes longer, because
/// it spins up or is dead, is no member of the batch but an event after it: it holds up nobody.
pub const PASS_PATIENCE_MS: u64 = 2_000;

/// Largest datagram that is taken.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;

/// What the daemon is told at its start.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to look.
    pub roots: Roots,
    /// Listen to udev's messages; else to the kernel's own.
    pub udev: bool,
    /// Where udev is not running, notice when it does.
    pub waits_for_udev: bool,
    /// Bytes of events that wait to be taken; see [`RECEIVE_BUFFER_BYTES`].
    pub receive_buffer_bytes: usize,
    /// A pass ends when no device has answered for so long, in milliseconds; see
    /// [`PASS_PATIENCE_MS`].
    pub pass_patience_ms: u64,
    /// Rules of the index.
    pub policy: Policy,
    /// What was started before, by [`crate::begun`].
    pub begun: BTreeMap<GroupId, StartRecord>,
}

/// The daemon.
pub struct Daemon {
    /// What does things; without it they are only told.
    hands: Option<Hands>,
    options: Options,
    index: Index,
    socket: Uevents,
    /// Where udev will be heard if it is started later.
    later: Option<Uevents>,
    /// What was there before udev was, and it has not told of yet: it stays as it is.
    before_udev: BTreeSet<DeviceNumber>,
    /// It was started after this process.
    udev_is_late: bool,
    readers: Readers,
    epoll: Epoll,
    ready: Events,
    /// Devices as they were looked at last.
    found: BTreeMap<DeviceNumber, BlockDevice>,
    /// Their kernel names.
    names: BTreeMap<String, DeviceNumber>,
    /// Reads under way; true: to be repeated, because an event came meanwhile.
    reading: BTreeMap<DeviceNumber, bool>,
    details: BTreeMap<DeviceNumber, Details>,
    /// Disks of which it is not known what is on them: any of them may be a missing part.
    unread: BTreeSet<DeviceNumber>,
    /// Texts that the index asked for, to be read when nothing else is.
    asked: Vec<(DeviceNumber, TextKey)>,
    /// Texts for which a device is being read once more.
    whole: BTreeMap<DeviceNumber, Vec<TextKey>>,
    pass: Option<Pass>,
    list_again: Option<ListAgain>,
    batch: Option<Batch>,
    lost_events: bool,
    /// Where events are put: made once, for it is large.
    buffer: Vec<u8>,
    lines: Vec<String>,
    /// What the manager was told and is to be told.
    teller: Teller,
    /// Groups of which something may be new to it.
    touched_groups: BTreeSet<GroupId>,
    /// Groups of which it may be new what was started.
    unkept: BTreeSet<GroupId>,
    /// The records of that.
    kept: BTreeMap<GroupId, StartRecord>,
    /// There are records from before, and some may be of groups that are gone.
    has_absent: bool,
    /// Places of what is no disk.
    others: BTreeSet<String>,
    /// Links that follow from what is on a device; without udev.
    content_links: BTreeMap<DeviceNumber, Vec<String>>,
    /// Those that were made.
    links: links::Links,
    /// Of what device-mapper made, whether its nodes are there; without udev.
    nodes: Nodes,
    /// What is written to; without udev.
    writes: Writes,
}

/// Metadata texts that were read with a device.
type Texts = Vec<(TextKey, Arc<VolumeGroup>)>;

impl Daemon {
    /// Binds the socket: from here on nothing that happens goes unheard. `executor`: the link to what
    /// writes lvm2's run files, makes links and runs the programs; without it is only told what
    /// would be done.
    pub fn bind(
        options: Options,
        readers: Readers,
        executor: Option<OwnedFd>,
    ) -> warren_sys::Result<Daemon> {
        let (socket, later) = sockets(&options)?;
        let (epoll, hands) = (Epoll::new()?, executor.map(Hands::over));
        epoll.add(&socket, 0, Interest::READ)?;
        if let Some(later) = &later {
            epoll.add(later, 0, Interest::READ)?;
        }
        epoll.add(readers.fd(), 0, Interest::READ)?;
        let (names, written) = (Inotify::new(), Inotify::new());
        for inotify in [&names, &written].into_iter().flatten() {
            epoll.add(inotify, 0, Interest::READ)?;
        }
        let without = [&names, &written].into_iter().find_map(|inotify| inotify.as_ref().err());
        let without = without.map(|why| format!("cannot watch device nodes: {why}"));
        if let Some(hands) = &hands {
            epoll.add(hands, 0, Interest::READ)?;
        }
        let mut index = Index::new(options.policy.clone());
        index.take_up(options.begun.clone());
        Ok(Daemon {
            index,
            kept: options.begun.clone(),
            has_absent: !options.begun.is_empty(),
            unkept: BTreeSet::new(),
            options,
            socket,
            later,
            before_udev: BTreeSet::new(),
            udev_is_late: false,
            readers,
            hands,
            epoll,
            ready: Events::with_capacity(8),
            found: BTreeMap::new(),
            names: BTreeMap::new(),
            reading: BTreeMap::new(),
            details: BTreeMap::new(),
            unread: BTreeSet::new(),
            asked: Vec::new(),
            whole: BTreeMap::new(),
            pass: None,
            list_again: None,
            batch: None,
            lost_events: false,
            buffer: vec![0; DATAGRAM_BYTES_MAX],
            lines: without.into_iter().collect(),
            teller: Teller::default(),
            touched_groups: BTreeSet::new(),
            others: BTreeSet::new(),
            content_links: BTreeMap::new(),
            links: links::Links::default(),
            nodes: Nodes::new(names.ok()),
            writes: Writes::new(written.ok()),
        })
    }

    /// Begins the first pass.
    pub fn begin(&mut self) {
        self.begin_pass(true);
        // On a machine where nothing is worth reading, nothing would wake it.
        self.end_empty_pass();
    }

    /// Also wakes up for another source, which the caller looks after.
    pub fn watch(&self, source: impl std::os::fd::AsFd) -> warren_sys::Result<()> {
        self.epoll.add(source, 0, Interest::READ)
    }

    /// Waits for something to happen, at most `limit`, and does all of it.
    pub fn turn(&mut self, limit: Option<Duration>) -> warren_sys::Result<()> {
        let timeout = match (self.next_deadline(), limit) {
            (Some(own), Some(limit)) => Some(own.min(limit)),
            (own, limit) => own.or(limit),
        };
        self.epoll.wait(&mut self.ready, timeout)?;
        self.take_events()?;
        for answer in self.readers.answers() {
            self.answered(answer);
        }
        for answer in self.readers.give_up(now_ms()) {
            self.answered(answer);
        }
        for done in self.hands.as_mut().map_or_else(|| Ok(Vec::new()), Hands::done)? {
            match done {
                ExecutorNews::Ended(groups, result) => self.ended(&groups, &result),
                ExecutorNews::Trouble(line) => self.log(line),
            }
        }
        self.step(Event::Time);
        self.look_at_written();
        if std::mem::take(&mut self.lost_events) {
            self.begin_pass(false);
        }
        self.begin_late_pass();
        self.look_for_nodes_again();
        self.read_asked();
        self.end_pass();
        self.end_batch();
        self.forget_absent();
        self.keep_begun();
        self.hands.as_mut().map_or(Ok(()), Hands::send)
    }

    /// Has the executor tell the manager that this daemon is well; nothing without one.
    pub fn say_alive(&mut self) {
        self.order(ExecutorOrder::Alive);
    }

    /// True when the first pass is over and all that it led to.
    pub fn is_settled(&self) -> bool {
        self.pass.is_none()
            && self.list_again.is_none()
            && self.batch.is_none()
            && self.reading.is_empty()
            && self.asked.is_empty()
            && self.nodes.are_there()
            && self.hands.as_ref().is_none_or(Hands::is_idle)
    }

    /// What happened, a line each, since it was last asked for.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// What is there and what it waits for.
    pub fn report(&self) -> Report {
        report::of_index(&self.index, &self.details)
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    fn next_deadline(&self) -> Option<Duration> {
        let deadlines = [
            self.index.next_deadline_ms(),
            self.readers.next_deadline_ms(now_ms()),
            self.pass_deadline_ms(),
            self.list_again_ms(),
            self.batch_deadline_ms(),
            self.nodes.deadline_ms(),
            self.hands.as_ref().and_then(|hands| hands.deadline_ms(now_ms())),
        ];
        let next = deadlines.into_iter().flatten().min()?;
        Some(Duration::from_millis(next.saturating_sub(now_ms())))
    }

    fn log(&mut self, line: String) {
        self.lines.push(line);
    }

    // ---- devices ----

    /// A device is there: it is read when its content may be new, and when it counts at all.
    fn consider(&mut self, mut found: BlockDevice, is_change: bool) {
        let number = found.number;
        if self.follows_udev(&found) && !found.is_initialized {
            found.facts.not_ready = Some(NotReady::NotInitialized);
        }
        if found.facts.not_ready == Some(NotReady::MapperSuspended) && self.stays(number) {
            return;
        }
        let before = self.found.insert(number, found.clone());
        self.names.insert(found.name.clone(), number);
        let same_disk = before.is_some_and(|before| before.diskseq == found.diskseq);
        if self.follows_udev(&found) {
            // What udev says counts at once: nobody waits for this program's own look.
            self.tell(number);
        }
        if Device::refusal_unread(&found.facts).is_some() {
            self.waited_for(number);
            // What was on it is not there any more, or nobody's to look at.
            self.details.remove(&number);
            self.content_links.remove(&number);
            return self.arrived(&found, Role::Unread, Vec::new());
        }
        if !self.content_links.contains_key(&number) {
            self.unread.insert(number);
        }
        if let Some(again) = self.reading.get_mut(&number) {
            *again |= is_change || !same_disk;
            return;
        }
        let role = self.index.device(number).map(|device| device.role.clone());
        match role.filter(|role| same_disk && !is_change && !matches!(role, Role::Unread)) {
            Some(role) => {
                self.waited_for(number);
                self.arrived(&found, role, Vec::new());
            }
            None => self.read(&found),
        }
    }

    /// A device that is suspended for a moment stays what it was; false when nothing is known of it.
    fn stays(&mut self, number: DeviceNumber) -> bool {
        let Some(device) = self.index.device(number).cloned() else { return false };
        self.waited_for(number);
        self.step(Event::Arrived { device, texts: Vec::new() });
        true
    }

    // ---- reads ----

    fn read(&mut self, found: &BlockDevice) {
        if self.reading.insert(found.number, false).is_none() {
            // Before it is read: what is written from then on is read again.
            self.watch_for_writes(found);
            let whole = self.whole.contains_key(&found.number);
            self.readers.submit(found.number, &found.node, whole);
        }
    }

    fn answered(&mut self, answer: Answer) {
        let number = answer.device;
        let again = self.reading.remove(&number);
        // It may have gone while it was read.
        let Some(found) = self.found.get(&number).cloned() else { return };
        // What was read is of before; it was told of when it was not to be looked at any more.
        if Device::refusal_unread(&found.facts).is_some() {
            return self.give_up_texts(number, &[]);
        }
        // What was given up and answers after all may have been another disk then: now that it
        // answers it is read anew, and so is what changed while it was read.
        if again != Some(false) {
            return self.read(&found);
        }
        self.waited_for(number);
        let (role, texts) = match &answer.outcome {
            Outcome::Scanned(scan) => (Role::of(scan), scan.texts_read()),
            Outcome::Failed(error) => (Role::Unreadable(error.raw_os_error().unwrap_or(0)), vec![]),
            Outcome::TimedOut => (Role::TimedOut, Vec::new()),
        };
        self.details.insert(number, details(&answer.outcome));
        if let Outcome::Scanned(scan) = &answer.outcome {
            self.content_links.insert(number, names::by_content(scan));
        }
        self.tell_trouble(&found, &answer.outcome);
        let got: Vec<TextKey> = texts.iter().map(|(key, _)| *key).collect();
        self.arrived(&found, role, texts);
        self.give_up_texts(number, &got);
    }

    /// Texts for which the device was read, and that were not got from it.
    fn give_up_texts(&mut self, number: DeviceNumber, got: &[TextKey]) {
        for key in self.whole.remove(&number).unwrap_or_default() {
            if !got.contains(&key) {
                self.step(Event::Text { device: number, key, group: None });
            }
        }
    }

    fn tell_trouble(&mut self, found: &BlockDevice, outcome: &Outcome) {
        match outcome {
            Outcome::Scanned(scan) => {
                let faults: Vec<String> = scan.faults.iter().map(ToString::to_string).collect();
                faults.iter().for_each(|fault| self.log(format!("{}: {fault}", found.name)));
            }
            Outcome::Failed(error) => self.log(format!("{}: cannot be read: {error}", found.name)),
            Outcome::TimedOut => self.log(format!("{}: does not respond", found.name)),
        }
    }

    /// Reads the texts that the index asked for; in a pass, once nothing else is being read:
    /// another device may have brought them by then.
    fn read_asked(&mut self) {
        if !self.reading.is_empty() && self.pass.is_some() {
            return;
        }
        for (device, key) in std::mem::take(&mut self.asked) {
            if !self.index.is_asked(device, key) {
                continue;
            }
            match self.found.get(&device).cloned() {
                Some(found) => {
                    self.whole.entry(device).or_default().push(key);
                    match self.reading.get_mut(&device) {
                        // A read that began before leaves the text out: its answer is none to this question.
                        Some(again) => *again = true,
                        None => self.read(&found),
                    }
                }
                None => self.step(Event::Text { device, key, group: None }),
            }
        }
    }

    fn arrived(&mut self, found: &BlockDevice, role: Role, texts: Texts) {
        let device = Device {
            number: found.number,
            diskseq: found.diskseq,
            name: found.name.clone(),
            path: found.path.clone(),
            links: found.links.clone(),
            link_priority: found.link_priority,
            facts: found.facts.clone(),
            role,
        };
        if let Some(before) = self.index.device(found.number).filter(|before| **before != device) {
            self.remove_online(&before.clone());
        }
        self.step(Event::Arrived { device: device.clone(), texts });
        if !self.is_to_be_read(&device) {
            self.was_read(found.number);
        }
        self.write_online(&device);
        self.register(found, &device);
        self.tell(found.number);
        self.tell_members(found.number);
        self.tell_array_of(found);
    }

    // ---- decisions ----

    fn step(&mut self, event: Event) {
        for decision in self.index.step(now_ms(), event) {
            match decision {
                Decision::ReadText { device, key } => self.asked.push((device, key)),
                Decision::Activate(starts) => self.activate(&starts),
            }
        }
    }

    fn activate(&mut self, starts: &[Start]) {
        let plan = activate::plan(&self.index, starts);
        starts.iter().for_each(|start| self.touch(Some(start.group)));
        plan.files.into_iter().for_each(|file| self.order(ExecutorOrder::Write(file)));
        for command in plan.commands {
            self.log(format!("start: {}", command.words.join(" ")));
            if let Some(hands) = &mut self.hands {
                hands.run(command, self.options.udev);
            }
        }
        for group in plan.ready {
            let name = match group {
                GroupId::Btrfs(id) => format!("btrfs {id}"),
                GroupId::Luks(id) => format!("luks {id}"),
                GroupId::Lvm(id) => format!("vg {id}"),
                GroupId::Md(id) => format!("md {id}"),
            };
            self.log(format!("ready: {name}"));
        }
    }

    fn ended(&mut self, groups: &[GroupId], result: &Result<(), String>) {
        if let Err(why) = result {
            self.log(format!("start failed: {why}"));
        }
        for &group in groups {
            self.touch(Some(group));
            self.step(Event::Activated { group, result: result.clone() });
            self.tell_all_of(group);
        }
    }

    /// Without udev, whose rules do it, the kernel is told of the parts of a file system on several
    /// devices: it mounts one only when it knows all.
    fn register(&mut self, found: &BlockDevice, device: &Device) {
        let Role::Btrfs { num_devices: 2.., .. } = device.role else { return };
        if self.follows_udev(found) || self.index.refusal(device).is_some() {
            return;
        }
        let node = format!("/dev/{}", self.node_below_dev(found));
        if let (Some(group), Some(hands)) = (self.index.group_of(device), &mut self.hands) {
            hands.register(group, node);
        }
    }

    // ---- lvm2's run files ----

    fn write_online(&mut self, device: &Device) {
        if let Some(file) = online_file(&self.index, device) {
            self.order(ExecutorOrder::Write(file));
        }
    }

    fn remove_online(&mut self, device: &Device) {
        if let Role::Lvm { pv, .. } = device.role {
            self.order(ExecutorOrder::Remove(online_path(pv), device.number));
        }
    }

    fn order(&mut self, order: ExecutorOrder) {
        if let Some(hands) = &mut self.hands {
            hands.order(order);
        }
    }
}

/// Where events are heard, and where udev will be if it is not there yet and is waited for.
fn sockets(options: &Options) -> warren_sys::Result<(Uevents, Option<Uevents>)> {
    let open = |group| Uevents::open(group, options.receive_buffer_bytes);
    let of_udev = || open(Group::Udev).and_then(|socket| filter(&socket).map(|()| socket));
    match (options.udev, options.waits_for_udev) {
        (true, _) => Ok((of_udev()?, None)),
        (false, true) => Ok((open(Group::Kernel)?, Some(of_udev()?))),
        (false, false) => Ok((open(Group::Kernel)?, None)),
    }
}

/// Lets only what has units or is a disk through.
fn filter(socket: &Uevents) -> warren_sys::Result<()> {
    socket.filter(&crate::udev::filter("block", crate::others::TAG))
}

fn now_ms() -> u64 {
    warren_sys::time::monotonic_ns() / 1_000_000
}

fn details(outcome: &Outcome) -> Details {
    let what = |what: String| Details { what, ..Details::default() };
    match outcome {
        Outcome::Scanned(scan) => Details::of(scan),
        Outcome::Failed(error) => what(format!("cannot be read: {error}")),
        Outcome::TimedOut => what("does not respond".to_owned()),
    }
}
