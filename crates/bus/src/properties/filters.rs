//! What filters of system calls forbid, as systemd's clients read it.

use warren_sandbox::bpf::file_system::{self, FileSystems};
use warren_sandbox::seccomp::Arch;
use warren_sandbox::seccomp::settings::{self, Calls, Denial, Filter, List};
use warren_unit::config::ExecConfig;

use crate::wire::Writer;

/// CLONE_NEW* of all that can be restricted: cgroup, ipc, net, mnt, pid, user, uts.
const ALL_NAMESPACES: u64 = 0x7e02_0000;

fn filter(exec: &ExecConfig) -> Filter {
    let (mut filter, mut problems) = (Filter::default(), Vec::new());
    let native = Arch::native().unwrap_or(Arch::X86_64);
    for asked in exec.protections.iter().chain(&exec.sandbox) {
        filter.take(asked.setting, &asked.value, native, &mut problems);
    }
    filter
}

/// Kinds of namespaces that may be made; all bits where nothing is restricted.
pub fn namespaces(exec: &ExecConfig) -> u64 {
    match u64::from(filter(exec).denied_namespaces) {
        0 => u64::MAX,
        denied => ALL_NAMESPACES & !denied,
    }
}

/// What a call that is not allowed fails with.
pub fn error_number(exec: &ExecConfig) -> i32 {
    /// It ends the process.
    const KILL: i32 = i32::MAX - 1;
    match filter(exec).denial {
        Some(Denial::Errno(number)) => i32::from(number),
        Some(Denial::Kill) | None => KILL,
    }
}

/// Architectures whose calls are taken, by name.
pub fn architectures<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let mut all = exec.protections.iter().chain(&exec.sandbox);
    let asked = all.find(|asked| asked.setting == "SystemCallArchitectures");
    let native = Arch::native().unwrap_or(Arch::X86_64);
    let words = asked.iter().flat_map(|asked| asked.value.split_ascii_whitespace());
    let mut names: Vec<&str> =
        words.filter(|word| Arch::from_word(word, native).is_some()).collect();
    names.sort_unstable();
    names.dedup();
    out.strs(names)
}

/// Whether families are allowed or denied, and which.
pub fn families<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let list = filter(exec).address_families;
    let mut names: Vec<&str> = list
        .iter()
        .flat_map(|list| &list.items)
        .copied()
        .filter_map(settings::family_name)
        .collect();
    names.sort_unstable();
    let is_allowed = list.is_some_and(|list| list.is_allowed);
    out.structure().bool(is_allowed).strs(names)
}

/// The same of file systems.
pub fn file_systems<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let mut all = exec.protections.iter().chain(&exec.sandbox);
    let asked = all.find(|asked| asked.setting == file_system::SETTING);
    let list = asked.and_then(|asked| FileSystems::of(&asked.value));
    let is_allowed = list.as_ref().is_some_and(|list| list.is_allowed);
    out.structure().bool(is_allowed).strs(list.map(|list| list.names).unwrap_or_default())
}

/// The same of system calls, `NAME` or `NAME:ERRNO`.
pub fn calls<'w>(exec: &ExecConfig, setting: &str, out: &'w mut Writer) -> &'w mut Writer {
    let filter = filter(exec);
    let list: Option<List<Calls>> = match setting {
        "SystemCallLog" => filter.logged,
        _ => filter.calls,
    };
    let items = list.iter().flat_map(|list| &list.items);
    let named = items.map(|(name, denial)| match denial {
        Some(Denial::Errno(number)) => format!("{name}:{number}"),
        Some(Denial::Kill) => format!("{name}:kill"),
        None => name.to_string(),
    });
    let names: Vec<String> = named.collect();
    let is_allowed = list.is_some_and(|list| list.is_allowed);
    out.structure().bool(is_allowed).strs(names.iter().map(String::as_str))
}
