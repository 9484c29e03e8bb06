//! `cargo xtask`: the developer's commands. What CI runs is `cargo xtask test`, nothing else.
//!
//! What must not be here: anything that a user of Warrener needs, or that tests could say better.

mod bench;
mod beside;
mod command;
mod corpus;
mod differences;
mod docs;
mod exposure;
mod fuzz;
mod lab;
mod messages;
mod named_tests;
mod not_run;
mod order;
mod pages;
mod purity;
mod sbom;
mod test;
mod test_programs;
mod vm;

use anyhow::{Context, Result, ensure};
use command::cargo;
use vm::guest_tests::{self, HOSTILE, HOSTILE_SECONDS};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test              everything CI runs: format, lints, purity, tests, docs
  check             format, lints, purity, the order of folders and the tests that pages name only
  deny [--advisories]
                    licences, sources and bans of all crates, and what is known against them
  exposure          figures of systemd-analyze for our own units beside Debian's, and the page of them
  sbom              what the installed programs are made from, in CycloneDX
  order             the order of folders and circles of files only
  order CRATE       which folders of a crate use which, and its circles of files
  docs [--check]    write the generated pages of docs/; or fail if they are old
  sim [ARG...]      the simulator (warren-sim), in release mode
  fuzz --coverage SECONDS [TARGET]
                    all parsers of what strangers send, under libFuzzer; needs a C++ compiler
  fuzz --merge [TARGET]
                    take what that found into the repository, as few inputs as reach as much
  lab setup         make the root file systems that beside and benches boot, once, as root
  beside [GROUP...] the same units and commands on systemd 252 and here, and what differs
  beside pairs      the same with settings of the execution environment, each with each other one
  beside random FIRST..LAST
                    the same for units, relations and orders drawn by lot, one case for each seed
  corpus [--itl] DIR...
                    configurations of Icinga 2 by the installed program and here, and what differs
  vm [devices]      a machine under QEMU with Warrener as process 1; with disks that come late
  vm devices --disks N [WAY...]
                    the same with N disks from the beginning, beside Debian's own way
  vm md             arrays of every kind, as mdadm makes them, and volume groups on them
  vm ending         soft reboots, and a stack of storage on a slow disk taken apart
  vm crash          a fault of process 1: services go on, and the machine restarts
  vm records        two boots of one disk: the second draws the shutdown of the first
  vm logins [--again] [CASE...]
                    logins by ssh, su, sudo, a terminal and cron on a Debian, with systemd 252 and here, and what differs;
                    again: systemd's answers are those of the last time
  vm tests [--seconds N] PACKAGE[/TEST[/NAME]]...
                    tests of this checkout on Debian's kernel with all controllers; TEST is a file of tests/, or `lib`
  vm tests [--seconds N] --hostile
                    the same, all about hostile users, hostile services and full tables
  bench units       the figures of SPECIFICATION.md, section Units
  bench fleet       the same, section Fleet configuration, beside icinga2
  bench shutdown    the same, section Shutdown
  bench recording   which part of the manager's CPU time its recording takes
  bench console     what a second of warren top takes at 40,000 units
  bench exporter    what a scrape of the metrics of 40,000 units takes
  bench web         what the page for browsers takes at 40,000 units
  bench devices     the same, section Devices, beside lvm2
  bench journal     the same, section Logs, beside systemd-journald
  bench sandbox     the same, section Protection, beside systemd
  bench hostile     the same, section Hostile local users: twelve attacks, and what they cost others
  bench hostile --together MINUTES [SETS]
                    all attacks at once for so long, and a storm of reloads; nothing ends, is lost or grows
  bench hosts       the same, section Many hosts: agents by the thousand, and a real etcd
  bench logins [--again] [USERS [UNITS]]
                    the same, section Logins: managers of users and what a login takes, beside systemd, under QEMU
  bench growth      how costs grow to 100,000 units, one slice of 10,000 services, 10,000 disks, 10 GB of logs, 50,000 hosts
  bench spawn       the spawn path against vfork and exec
";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Err(error) = run(&args) {
        eprintln!("xtask: {error:#}");
        std::process::exit(1);
    }
}

fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["test"] => test::everything(),
        ["check"] => test::quick(),
        ["deny"] => test::deny(false),
        ["deny", "--advisories"] => test::deny(true),
        ["sbom"] => sbom::run(),
        ["exposure"] => exposure::run(),
        ["pages"] => pages::check(),
        ["order"] => order::check(),
        ["order", name] => order::show(name),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["sim", ref rest @ ..] => {
            let program = ["run", "--release", "--package", "warren-sim", "--"];
            cargo(&[&program, rest].concat())
        }
        ["fuzz", "--coverage", seconds, ref only @ ..] if only.len() < 2 => {
            fuzz::run(seconds.parse().context("seconds")?, only.first().copied())
        }
        ["fuzz", "--merge", ref only @ ..] if only.len() < 2 => fuzz::merge(only.first().copied()),
        ["lab", "setup"] => lab::setup(),
        ["beside", "random", seeds] => beside::run_random(seeds),
        ["beside", ref groups @ ..] => beside::run(groups),
        ["corpus", ref rest @ ..] => corpus::run(rest),
        ["bench", "units", ref rest @ ..] => bench::units(rest),
        ["bench", "fleet", ref rest @ ..] => bench::fleet::run(rest),
        ["bench", "shutdown", ref rest @ ..] => bench::shutdown::run(rest),
        ["bench", "console", ref rest @ ..] => bench::console::run(rest),
        ["bench", "exporter", ref rest @ ..] => bench::exporter::run(rest),
        ["bench", "web", ref rest @ ..] => bench::web::run(rest),
        ["bench", "recording", ref rest @ ..] => bench::recording::run(rest),
        ["bench", "growth", ref rest @ ..] => bench::growth::run(rest),
        ["bench", "hostile", ref rest @ ..] => bench::hostile::run(rest),
        ["bench", "hosts", ref rest @ ..] => bench::hosts::run(rest),
        ["bench", "logins", ref rest @ ..] => bench::logins::run(rest),
        ["bench", "sandbox", ref rest @ ..] => bench::sandbox::run(rest),
        ["bench", "journal", ref rest @ ..] => bench::journal::run(rest),
        ["bench", "devices", ref rest @ ..] => bench::devices::run(rest),
        ["vm"] => vm::run(),
        ["vm", "devices"] => vm::devices::run(),
        ["vm", "records"] => vm::records::run(),
        ["vm", "ending"] => vm::ending::run(),
        ["vm", "crash"] => vm::crash::run(),
        ["vm", "logins", ref cases @ ..] => vm::logins::run(cases),
        ["vm", "tests", "--hostile"] => guest_tests::run(&HOSTILE, HOSTILE_SECONDS),
        ["vm", "tests", "--seconds", seconds, "--hostile"] => {
            guest_tests::run(&HOSTILE, seconds.parse().context("seconds")?)
        }
        ["vm", "tests", "--seconds", seconds, ref what @ ..] => {
            guest_tests::run(what, seconds.parse().context("seconds")?)
        }
        ["vm", "tests", ref what @ ..] => guest_tests::run(what, guest_tests::SECONDS),
        ["vm", "md"] => vm::md::run(),
        ["vm", "devices", "--disks", count, ref ways @ ..] => {
            vm::disks::run(count.parse().context("disks")?, ways)
        }
        ["bench", "spawn"] => cargo(&["bench", "--package", "warren-init"]),
        _ => {
            print!("{HELP}");
            ensure!(matches!(words[..], [] | ["--help"]), "unknown command");
            Ok(())
        }
    }
}
