use std::fs;
use std::path::PathBuf;

use warren_sys::{fdpass, memfd};

use super::{Answer, ExecutorOrder, ORDERS, OwnedFd, Places, Run, serve};
use crate::activate::RunFile;
use crate::begun::{self, StartRecord};
use crate::index::{DeviceNumber, GroupId};
use crate::orders;
use std::os::fd::AsFd;

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// An executor in a thread, over places of the test's own.
struct Bench {
    top: PathBuf,
    socket: OwnedFd,
    thread: Option<std::thread::JoinHandle<warren_sys::Result<()>>>,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let top = std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()));
        let (socket, far) = fdpass::seqpacket_pair(false).expect("a pair");
        let places =
            Places { dev: top.join("dev"), lvm_run: top.join("lvm"), records: top.join("records") };
        let thread = Some(std::thread::spawn(move || serve(far, &places)));
        Bench { top, socket, thread }
    }

    fn send(&self, text: &str) {
        let content = memfd::sealed("orders", text.as_bytes()).expect("a memfd");
        fdpass::send(self.socket.as_fd(), ORDERS, &[content.as_fd()]).expect("it listens");
    }

    /// Waits for one answer.
    fn answer(&self) -> Answer {
        let (mut buffer, mut fds) = (vec![0; 65536], Vec::new());
        let got =
            fdpass::recv(self.socket.as_fd(), &mut buffer, &mut fds, true).expect("it answers");
        Answer::read(std::str::from_utf8(&buffer[..got.bytes]).expect("text")).expect("an answer")
    }

    /// Sends orders, and one at the end that is refused, so that it is known when all are done.
    fn obeys(&self, orders: &[ExecutorOrder]) -> Vec<Answer> {
        let end = Run { id: 99, udev: true, words: words(&["end"]) };
        self.send(&orders::write(&[orders, &[ExecutorOrder::Run(end)]].concat()));
        let mut answers = Vec::new();
        loop {
            match self.answer() {
                Answer::Ended(99, result) => {
                    assert!(result.is_err_and(|why| why.ends_with(": end")));
                    return answers;
                }
                other => answers.push(other),
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let (_, end) = fdpass::seqpacket_pair(false).expect("a pair");
        drop(std::mem::replace(&mut self.socket, end));
        let ended = self.thread.take().expect("it was started").join();
        let _ = fs::remove_dir_all(&self.top);
        if !std::thread::panicking() {
            assert_eq!(ended.expect("no panic"), Ok(()), "it ends with the other side");
        }
    }
}

#[test]
fn files_and_links_come_and_go() {
    let bench = Bench::new("files");
    let pv = format!("pvs_online/{}", "a".repeat(32));
    let file = RunFile { path: pv.clone(), text: "8:0\nvg:a\n".to_owned() };
    let link =
        |node: Option<&str>| ExecutorOrder::Link("disk/by-uuid/x".into(), node.map(str::to_owned));
    assert_eq!(bench.obeys(&[ExecutorOrder::Write(file.clone()), link(Some("sda"))]), []);
    let online = bench.top.join("lvm").join(&pv);
    let leads = || fs::read_link(bench.top.join("dev/disk/by-uuid/x")).ok();
    assert_eq!(fs::read_to_string(&online).ok(), Some(file.text.clone()));
    assert_eq!(leads(), Some("../../sda".into()));

    let number = |minor| DeviceNumber { major: 8, minor };
    let others = ExecutorOrder::Remove(pv.clone(), number(1));
    assert_eq!(bench.obeys(&[ExecutorOrder::Write(file), others, link(Some("sdb"))]), []);
    assert!(online.exists(), "it tells of another device");
    assert_eq!(leads(), Some("../../sdb".into()));

    let gone = ExecutorOrder::Remove(pv, number(0));
    assert_eq!(bench.obeys(&[gone.clone(), gone, link(None), link(None)]), []);
    assert!(!online.exists() && leads().is_none());
}

#[test]
fn records_of_what_was_started_come_and_go() {
    let bench = Bench::new("records");
    let group = GroupId::parse(&format!("vg:{}", "abcdef-0123-4567-89AB-CDEF-ghij-klmno!"));
    let group = group.expect("a group");
    let begun = StartRecord { whole: true, ..StartRecord::default() };
    assert_eq!(bench.obeys(&[ExecutorOrder::Keep(group, Some(begun.clone()))]), []);
    let records = bench.top.join("records");
    assert_eq!(begun::read(&records).into_iter().collect::<Vec<_>>(), [(group, begun)]);
    assert_eq!(
        bench.obeys(&[ExecutorOrder::Keep(group, None), ExecutorOrder::Keep(group, None)]),
        []
    );
    assert!(begun::read(&records).is_empty());
}

#[test]
fn what_is_none_of_its_works_is_not_done() {
    let bench = Bench::new("refused");
    let outside = RunFile { path: "../outside".to_owned(), text: "x".to_owned() };
    let bad =
        [ExecutorOrder::Write(outside), ExecutorOrder::Link("sda".into(), Some("sdb".into()))];
    let answers = bench.obeys(&bad);
    assert_eq!(answers.len(), 2);
    assert!(
        answers.iter().all(|a| matches!(a, Answer::Trouble(why) if why.starts_with("refused: ")))
    );
    assert!(!bench.top.exists());
    bench.send("no order\n");
    assert!(matches!(bench.answer(), Answer::Trouble(_)));
    let shell = Run { id: 1, udev: true, words: words(&["sh", "-c", "id"]) };
    assert!(matches!(&bench.obeys(&[ExecutorOrder::Run(shell)])[..], [Answer::Ended(1, Err(_))]));
}
