//! Names on a message bus that services take. The bus is played by the test, which sees every message.

mod support;

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use support::client::*;
use support::played::*;
use support::*;
use warren_bus::names::{NameState, NameWatcher};
use warren_bus::wire::{self, To, Writer};

const PATIENCE: Duration = Duration::from_secs(20);

/// A watcher, what it tells, and the socket of its bus.
struct Ground {
    watcher: NameWatcher,
    told: Receiver<String>,
    listener: UnixListener,
    _dir: Scratch,
}

fn ground(test: &str) -> Ground {
    let dir = Scratch::new(test);
    let path = dir.0.join("bus");
    let listener = UnixListener::bind(&path).expect("a socket can be made");
    let (tell, told) = channel();
    let send = move |name: &str, state: NameState| drop(tell.send(format!("{name} {state:?}")));
    let watcher = NameWatcher::start(&path, send).expect("a thread can be had");
    Ground { watcher, told, listener, _dir: dir }
}

impl Ground {
    fn told(&self) -> String {
        self.told.recv_timeout(PATIENCE).expect("something is told")
    }

    /// The connection of the watcher, which has said who it is and what it wants to hear.
    fn accept(&self) -> PlayedBus {
        let mut bus = PlayedBus::new(accept(&self.listener));
        for want in ["Hello", "AddMatch"] {
            assert_eq!(bus.next().member, want);
        }
        bus
    }
}

/// Takes the question for a name's owner.
fn asked(bus: &mut PlayedBus, name: &str) -> Received {
    let call = bus.next();
    assert_eq!((call.member.as_str(), call.body().str()), ("GetNameOwner", Ok(name)));
    call
}

fn owned(bus: &mut PlayedBus, call: &Received, sender: &str) {
    let mut body = Writer::new();
    bus.answer_as(sender, call, "s", body.str(":1.5"));
}

fn free(bus: &mut PlayedBus, call: &Received) {
    let serial = wire::parse(&call.frame).expect("a sound call").header.serial;
    let error = "org.freedesktop.DBus.Error.NameHasNoOwner";
    bus.put(&wire::error_reply(To::Peer, 1, serial, error, "free"), DBUS);
}

#[test]
fn a_name_is_told_of_at_once_and_when_it_changes() {
    let ground = ground("names");
    ground.watcher.watch("a.b");
    let mut bus = ground.accept();
    let call = asked(&mut bus, "a.b");
    free(&mut bus, &call);
    assert_eq!(ground.told(), "a.b Free");
    bus.signal(DBUS, "DBus.NameOwnerChanged", &["a.b", "", ":1.5"]);
    assert_eq!(ground.told(), "a.b Owned");
    bus.signal(DBUS, "DBus.NameOwnerChanged", &["a.b", ":1.5", ""]);
    assert_eq!(ground.told(), "a.b Free");
}

#[test]
fn who_has_a_name_only_the_bus_says() {
    let ground = ground("forged-names");
    ground.watcher.watch("a.b");
    let mut bus = ground.accept();
    let call = asked(&mut bus, "a.b");
    owned(&mut bus, &call, ":1.9");
    bus.signal(":1.9", "DBus.NameOwnerChanged", &["a.b", "", ":1.5"]);
    bus.signal(DBUS, "Other.NameOwnerChanged", &["a.b", "", ":1.5"]);
    free(&mut bus, &call);
    assert_eq!(ground.told(), "a.b Free");
}

#[test]
fn no_message_of_a_client_ends_the_watch() {
    let ground = ground("hostile-names");
    ground.watcher.watch("a.b");
    let mut bus = ground.accept();
    let call = asked(&mut bus, "a.b");
    bus.put_hostile(":1.9");
    owned(&mut bus, &call, DBUS);
    assert_eq!(ground.told(), "a.b Owned");
}

#[test]
fn after_a_bus_was_lost_all_names_are_asked_for_and_their_owners_have_time_to_come_back() {
    let ground = ground("lost-names");
    ground.watcher.watch("a.b");
    let mut bus = ground.accept();
    let call = asked(&mut bus, "a.b");
    owned(&mut bus, &call, DBUS);
    assert_eq!(ground.told(), "a.b Owned");
    ground.watcher.watch("c.d");
    asked(&mut bus, "c.d");
    drop(bus);
    let mut bus = ground.accept();
    let call = asked(&mut bus, "a.b");
    free(&mut bus, &call);
    let call = asked(&mut bus, "c.d");
    free(&mut bus, &call);
    assert_eq!(ground.told(), "c.d Free");
    bus.signal(DBUS, "DBus.NameOwnerChanged", &["a.b", ":1.5", ""]);
    assert_eq!(ground.told(), "a.b Free");
}

#[test]
fn who_does_not_come_back_after_a_bus_was_lost_is_told_of_in_the_end() {
    let ground = ground("missed-names");
    let names = ["a.b", "c.d", "e.f"];
    names.iter().for_each(|name| ground.watcher.watch(name));
    let mut bus = ground.accept();
    for name in names {
        let call = asked(&mut bus, name);
        owned(&mut bus, &call, DBUS);
        assert_eq!(ground.told(), format!("{name} Owned"));
    }
    drop(bus);
    let mut bus = ground.accept();
    for name in names {
        let call = asked(&mut bus, name);
        free(&mut bus, &call);
    }
    bus.signal(DBUS, "DBus.NameOwnerChanged", &["a.b", "", ":1.5"]);
    assert_eq!(ground.told(), "a.b Owned");
    ground.watcher.leave("c.d");
    assert_eq!(ground.told(), "e.f Free");
    assert!(ground.told.try_recv().is_err());
}

/// More than a socket takes while nobody reads.
#[test]
fn thousands_of_names_at_once_are_all_asked_for() {
    const NAMES: usize = 5000;
    let ground = ground("many-names");
    let name = |number: usize| format!("org.example.a_name_of_some_length.number_{number}");
    (0..NAMES).for_each(|number| ground.watcher.watch(&name(number)));
    let mut bus = ground.accept();
    for number in 0..NAMES {
        asked(&mut bus, &name(number));
    }
    assert!(ground.told.try_recv().is_err());
}

#[test]
fn without_a_bus_that_takes_us_each_name_is_told_so() {
    let ground = ground("no-bus");
    ground.watcher.watch("a.b");
    let (mut stream, _): (UnixStream, _) = ground.listener.accept().expect("the watcher connects");
    std::io::Write::write_all(&mut stream, b"REJECTED\r\n").expect("the watcher reads");
    assert_eq!(ground.told(), "a.b NoBus");
}
