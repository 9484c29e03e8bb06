//! What process 1 of a host does when it has made a fault of its own (systemd-system.conf(5), "CrashReboot="): without this
//! the kernel panics, and every service ends with it. The services go on here, and nobody starts or reaps for units.
//!
//! Must not: allocate, take a lock or ask anybody, since memory may be damaged. In a container process 1 ends instead,
//! and who made the container sees that.

use std::sync::atomic::{AtomicU32, Ordering};

use warren_init::protocol::control::{CrashEnd, OnCrash};
use warren_sys::crash;
use warren_sys::reboot::{self, Reboot, reboot};
use warren_sys::{child, storage};

use crate::command_line::{asked_for, is_asked_for};
use crate::say::say;

/// Before a shell is started, or the machine restarts.
const DELAY_MS: i32 = 10_000;

/// A core dump, and what has not been written to disks, is waited for so long.
const PATIENCE_MS: i32 = 10_000;

/// RLIMIT_CORE
const CORE: u8 = 4;

/// What is to be done, as [`to_bits`] has it.
static PLAN: AtomicU32 = AtomicU32::new(0);

/// Has a fault of this process, which is process 1 of a host, do what the kernel's command line says, until a manager says
/// more.
pub fn watch(command_line: &str) {
    set(of_command_line(command_line));
    if let Err(error) = crash::watch(last) {
        say(&format!("a crash of process 1 will panic the kernel: {error}"));
    }
    // A build that unwinds would exit.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        std::process::abort();
    }));
}

/// Has a fault do this.
pub fn set(plan: OnCrash) {
    PLAN.store(to_bits(plan), Ordering::SeqCst);
}

/// What systemd(1) has on the kernel's command line, where the file of the manager is not read yet.
fn of_command_line(text: &str) -> OnCrash {
    let flag = |option| is_asked_for(text, option);
    let terminal = match asked_for(text, "systemd.crash_chvt") {
        Some(number) if number.parse().is_ok_and(|number: u8| (1..=63).contains(&number)) => {
            number.parse().ok()
        }
        _ => flag("systemd.crash_chvt").then_some(0),
    };
    OnCrash {
        dumps_core: flag("systemd.dump_core"),
        starts_shell: flag("systemd.crash_shell"),
        terminal,
        end: if flag("systemd.crash_reboot") { CrashEnd::Reboot } else { CrashEnd::Freeze },
    }
}

fn to_bits(plan: OnCrash) -> u32 {
    let OnCrash { dumps_core, starts_shell, terminal, end } = plan;
    let end = match end {
        CrashEnd::Freeze => 0,
        CrashEnd::Reboot => 1,
        CrashEnd::PowerOff => 2,
    };
    let terminal = terminal.map_or(0, |number| u32::from(number) + 1);
    u32::from(dumps_core) | u32::from(starts_shell) << 1 | end << 2 | terminal << 8
}

fn from_bits(bits: u32) -> OnCrash {
    let terminal = (bits >> 8).checked_sub(1).map(|number| number as u8);
    let end = match bits >> 2 & 3 {
        1 => CrashEnd::Reboot,
        2 => CrashEnd::PowerOff,
        _ => CrashEnd::Freeze,
    };
    OnCrash { dumps_core: bits & 1 != 0, starts_shell: bits & 2 != 0, terminal, end }
}

/// The process cannot go on, and has made no fault of the processor.
pub fn end_without() -> ! {
    last_steps(from_bits(PLAN.load(Ordering::SeqCst)))
}

fn last(signal: i32) -> ! {
    let plan = from_bits(PLAN.load(Ordering::SeqCst));
    crash::say(match signal {
        4 => b"warren-init: process 1 has crashed: SIGILL\n",
        6 => b"warren-init: process 1 has crashed: SIGABRT\n",
        7 => b"warren-init: process 1 has crashed: SIGBUS\n",
        8 => b"warren-init: process 1 has crashed: SIGFPE\n",
        11 => b"warren-init: process 1 has crashed: SIGSEGV\n",
        _ => b"warren-init: process 1 has crashed\n",
    });
    if plan.dumps_core {
        match crash::fork() {
            Ok(0) => {
                let _ = child::set_rlimit(CORE, u64::MAX, u64::MAX);
                crash::die_of(signal)
            }
            Ok(pid) => crash::wait_for(pid, PATIENCE_MS),
            Err(_) => crash::say(b"warren-init: cannot dump core\n"),
        }
    }
    last_steps(plan)
}

fn last_steps(plan: OnCrash) -> ! {
    if let Some(number) = plan.terminal {
        let _ = crash::show_terminal(number);
    }
    if plan.starts_shell {
        crash::say(b"warren-init: starting a shell on the console in 10 s\n");
        crash::rest(DELAY_MS);
        match crash::fork() {
            Ok(0) => {
                let _ = crash::shell_on(c"/dev/console");
                crash::die_of(6)
            }
            // As long as it takes.
            Ok(pid) => crash::wait_for(pid, -1),
            Err(_) => crash::say(b"warren-init: cannot start a shell\n"),
        }
    }
    let end = match plan.end {
        CrashEnd::Freeze => {
            crash::say(
                b"warren-init: services keep running without a manager; Ctrl-Alt-Del restarts the machine\n",
            );
            let _ = reboot::let_ctrl_alt_del();
            crash::reap_for_ever()
        }
        CrashEnd::Reboot => Reboot::Restart,
        CrashEnd::PowerOff => Reboot::PowerOff,
    };
    if !plan.starts_shell {
        crash::say(b"warren-init: the machine ends in 10 s\n");
        crash::rest(DELAY_MS);
    }
    match crash::fork() {
        Ok(0) => {
            storage::sync();
            crash::exit()
        }
        Ok(pid) => crash::wait_for(pid, PATIENCE_MS),
        Err(_) => {}
    }
    reboot(end);
    reboot(Reboot::Restart);
    crash::reap_for_ever()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_planned_comes_back() {
        for terminal in [None, Some(0), Some(1), Some(63)] {
            for end in [CrashEnd::Freeze, CrashEnd::Reboot, CrashEnd::PowerOff] {
                for (dumps_core, starts_shell) in [(false, true), (true, false)] {
                    let plan = OnCrash { dumps_core, starts_shell, terminal, end };
                    assert_eq!(from_bits(to_bits(plan)), plan);
                }
            }
        }
    }

    #[test]
    fn the_command_line_says_what_a_crash_does() {
        let check = |text: &str, expected: OnCrash| {
            assert_eq!(of_command_line(text), expected, "{text}");
        };
        let none = OnCrash {
            dumps_core: false,
            starts_shell: false,
            terminal: None,
            end: CrashEnd::Freeze,
        };
        check("quiet systemd.crash_reboot=no", none);
        check("systemd.crash_reboot", OnCrash { end: CrashEnd::Reboot, ..none });
        check(
            "systemd.crash_reboot=1 systemd.crash_chvt=7 systemd.dump_core=yes",
            OnCrash { end: CrashEnd::Reboot, terminal: Some(7), dumps_core: true, ..none },
        );
        check(
            "systemd.crash_chvt systemd.crash_shell=true\n",
            OnCrash { terminal: Some(0), starts_shell: true, ..none },
        );
        check("systemd.crash_chvt=64", none);
    }
}
