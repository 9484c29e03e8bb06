//! `Condition*=` and `Assert*=`: looking at the host (systemd.unit(5), "CONDITIONS AND ASSERTS").
//!
//! What can block for long (a path below a dead network mount) is the caller's business: checks
//! run on a worker, never on the loop, and use no file descriptor that the manager has open.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use warren_core::graph::cgroup_path::slice_path;
use warren_sys::cgroup::Tree;
use warren_sys::passwd::Database;
use warren_unit::config::{Condition, ConditionKind};
use warren_unit::glob::matches as glob;
use warren_unit::{Context, Scope};

use crate::base::boot_options;
use crate::base::inherited::is_inherited;
use crate::base::path_globs::{STEPS_MAX, braced_paths};
use crate::base::say::say;

/// Block devices that stand on one another are looked at so deep.
const SLAVES_DEEP_MAX: u32 = 8;

/// Controllers of any version of control groups (systemd.unit(5), ConditionControlGroupController=).
const CONTROLLERS: [&str; 6] = ["cpu", "cpuset", "io", "memory", "pids", "hugetlb"];

/// Averages that the kernel keeps of pressure, and what it calls them.
const WINDOWS: [(&str, &str); 3] = [("10sec", "avg10="), ("1min", "avg60="), ("5min", "avg300=")];

/// What conditions are looked at on.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// What specifiers refer to.
    pub context: &'a Context,
    /// The manager's environment block, `NAME=VALUE` each, as set-environment has changed it.
    pub environment: &'a [String],
    /// The container or virtual machine, as systemd-detect-virt(1) calls it; empty on bare metal.
    pub virtualization: &'a str,
    /// The manager's cgroups.
    pub tree: Option<&'a Tree>,
}

/// One condition with its negation. A condition that cannot be looked at does not hold,
/// negated or not.
pub fn holds(condition: &Condition, host: &Host<'_>) -> bool {
    test(condition.kind, &condition.parameter, host).is_some_and(|is| is != condition.negate)
}

fn test(kind: ConditionKind, parameter: &str, host: &Host<'_>) -> Option<bool> {
    use ConditionKind::*;
    let context = host.context;
    let path = Path::new(parameter);
    Some(match kind {
        PathExists => path.exists(),
        PathExistsGlob => glob_matches(parameter)?,
        PathIsDirectory => path.is_dir(),
        PathIsSymbolicLink => path.is_symlink(),
        PathIsMountPoint => warren_sys::mount::is_mount_point(path),
        PathIsReadWrite => path.exists() && warren_sys::file::is_writable_mount(path),
        DirectoryNotEmpty => fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()),
        FileNotEmpty => fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > 0),
        FileIsExecutable => {
            fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        }
        Architecture => parameter == &*context.architecture || parameter == "native",
        Virtualization => {
            virtualization_is(parameter, host.virtualization, warren_sys::process::in_container())
        }
        Host => parameter == &*context.machine_id || glob(parameter, &host_name(context)),
        KernelCommandLine => kernel_word(parameter),
        KernelVersion => kernel_version(parameter, &context.kernel_release)?,
        Environment => {
            let own = |name: &str| std::env::var(name).ok();
            environment_has(parameter, context.scope, host.environment, own)
        }
        Security => security_is(parameter),
        Capability => has_capability(parameter)?,
        AcPower => boolean(parameter)? == on_ac_power(),
        NeedsUpdate => {
            said_at_boot("systemd.condition-needs-update").unwrap_or_else(|| needs_update(path))
        }
        FirstBoot => {
            let is_first = said_at_boot("systemd.condition-first-boot");
            boolean(parameter)? == is_first.unwrap_or_else(crate::base::first_boot::is_first_boot)
        }
        User => user_is(parameter, context),
        Group => group_is(parameter, context),
        ControlGroupController => has_controllers(parameter),
        Memory => compare_number(parameter, memory_bytes()?)?,
        Cpus => compare_number(parameter, u64::from(cpus()))?,
        OsRelease => os_release(parameter)?,
        Credential => std::env::var_os("CREDENTIALS_DIRECTORY")
            .is_some_and(|dir| Path::new(&dir).join(parameter).exists()),
        Firmware => firmware_is(parameter)?,
        MemoryPressure | CpuPressure | IoPressure => pressure_below(kind, parameter, host.tree)?,
        PathIsEncrypted => is_encrypted(path)?,
        CpuFeature => has_cpu_feature(parameter)?,
    })
}

/// The name that the host has now (proc_sys_kernel(5)): the network may have changed it since the start.
fn host_name(context: &Context) -> String {
    match fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(text) => text.trim().to_owned(),
        Err(_) => context.hostname.to_string(),
    }
}

fn boolean(word: &str) -> Option<bool> {
    warren_unit::value::boolean(word).ok()
}

/// Whether the block device of the path's file system, or one that it stands on, is dm-crypt's.
fn is_encrypted(path: &Path) -> Option<bool> {
    let device = fs::metadata(path).ok()?.dev();
    let (major, minor) = warren_sys::file::device_numbers(device);
    let sysfs = format!("/sys/dev/block/{major}:{minor}");
    Some(stands_on_crypt(Path::new(&sysfs), SLAVES_DEEP_MAX))
}

fn stands_on_crypt(sysfs: &Path, deep: u32) -> bool {
    let is_crypt = fs::read_to_string(sysfs.join("dm/uuid")).is_ok_and(|t| t.starts_with("CRYPT-"));
    let slaves = || fs::read_dir(sysfs.join("slaves")).into_iter().flatten().flatten();
    is_crypt || deep > 0 && slaves().any(|slave| stands_on_crypt(&slave.path(), deep - 1))
}

/// As the kernel names them, in letters of any case: proc(5), `flags` of `/proc/cpuinfo`.
fn has_cpu_feature(name: &str) -> Option<bool> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    Some(flags?.1.split_whitespace().any(|flag| flag.eq_ignore_ascii_case(name)))
}

/// What a boolean option of the command line says in place of a condition's own look; the last counts.
fn said_at_boot(option: &str) -> Option<bool> {
    option_in(&boot_options::command_line(), option)
}

fn option_in(command_line: &str, option: &str) -> Option<bool> {
    let value = |word: &str| boolean(word.strip_prefix(option)?.strip_prefix('=')?);
    command_line.split_whitespace().filter_map(value).next_back()
}

fn kernel_word(parameter: &str) -> bool {
    boot_options::command_line().split_whitespace().any(|word| {
        word == parameter || !parameter.contains('=') && word.split('=').next() == Some(parameter)
    })
}

/// The block counts before the manager's own variables, which a container manager or PAM has given it and
/// which are not in the block.
fn environment_has(
    parameter: &str,
    scope: Scope,
    block: &[String],
    own: impl Fn(&str) -> Option<String>,
) -> bool {
    let (name, wanted) = match parameter.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (parameter, None),
    };
    let set = block.iter().find_map(|assignment| assignment.strip_prefix(name)?.strip_prefix('='));
    // What the block begins with is not there because it was unset.
    let was_in_block = name == "PATH" || is_inherited(scope, name);
    let value = match set {
        Some(value) => Some(value.to_owned()),
        None => own(name).filter(|_| !was_in_block),
    };
    value.is_some_and(|value| wanted.is_none_or(|wanted| value == wanted))
}

fn security_is(what: &str) -> bool {
    let has = |path: &str| Path::new(path).exists();
    match what {
        "selinux" => has("/sys/fs/selinux/enforce"),
        "apparmor" => fs::read_to_string("/sys/module/apparmor/parameters/enabled")
            .is_ok_and(|t| t.starts_with('Y')),
        "smack" => has("/sys/fs/smackfs"),
        "ima" => has("/sys/kernel/security/ima"),
        "tomoyo" => has("/sys/kernel/security/tomoyo/version"),
        "audit" => has("/proc/self/loginuid"),
        "uefi-secureboot" => secure_boot(),
        "tpm2" => has("/sys/class/tpmrm/tpmrm0"),
        _ => false,
    }
}

fn secure_boot() -> bool {
    let variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    fs::read(variable).is_ok_and(|bytes| bytes.last() == Some(&1))
}

fn has_capability(name: &str) -> Option<bool> {
    let number = warren_unit::value::capability(name)?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapBnd:"))?;
    let mask = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(mask & (1 << number) != 0)
}

fn on_ac_power() -> bool {
    let Ok(supplies) = fs::read_dir("/sys/class/power_supply") else { return true };
    let mains: Vec<bool> = supplies
        .flatten()
        .filter(|s| fs::read_to_string(s.path().join("type")).is_ok_and(|t| t.trim() == "Mains"))
        .map(|s| fs::read_to_string(s.path().join("online")).is_ok_and(|t| t.trim() == "1"))
        .collect();
    mains.is_empty() || mains.contains(&true)
}

/// /etc or /var is older than /usr (systemd.unit(5), ConditionNeedsUpdate=).
fn needs_update(path: &Path) -> bool {
    let modified = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
    let Some(usr) = modified(Path::new("/usr")) else { return false };
    modified(&path.join(".updated")).is_none_or(|updated| updated < usr)
}

fn user_is(parameter: &str, context: &Context) -> bool {
    match parameter {
        "@system" => context.uid < 1000 || context.uid == 65534,
        _ => parameter == &*context.user_name || parameter.parse() == Ok(context.uid),
    }
}

/// The manager's real or effective group, or one of its auxiliary ones.
fn group_is(parameter: &str, context: &Context) -> bool {
    if parameter == &*context.group_name || parameter.parse() == Ok(context.gid) {
        return true;
    }
    let wanted = match parameter.parse() {
        Ok(gid) => Some(gid),
        Err(_) => Database::read().ok().and_then(|known| Some(known.find_group(parameter)?.gid)),
    };
    wanted.is_some_and(|gid| warren_sys::process::own_groups().contains(&gid))
}

fn has_controllers(parameter: &str) -> bool {
    if matches!(parameter, "v1" | "v2") {
        return parameter == "v2";
    }
    let mount = warren_sys::cgroup::mount_point().ok().flatten();
    let Some(mount) = mount else { return false };
    let text = fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &str| text.split_whitespace().any(|c| c == name);
    // Names that are none are passed over, as systemd does.
    parameter.split_whitespace().filter(|name| CONTROLLERS.contains(name)).all(has)
}

fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// An operator and a number; no operator means `>=`.
fn compare_number(parameter: &str, actual: u64) -> Option<bool> {
    let (operator, number) = split_operator(parameter);
    let operator = if operator.is_empty() { ">=" } else { operator };
    let wanted = warren_unit::value::bytes(number.trim()).ok()?;
    Some(compare(operator, actual.cmp(&wanted)))
}

fn split_operator(text: &str) -> (&str, &str) {
    let end = text.find(|c| !"<>=!".contains(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn compare(operator: &str, order: std::cmp::Ordering) -> bool {
    match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        "!=" | "<>" => order.is_ne(),
        _ => order.is_eq(),
    }
}

/// One or more expressions, perhaps quoted, each a version, a text or a glob with its operator; if the first
/// operator stands alone, it has the next word.
fn kernel_version(parameter: &str, release: &str) -> Option<bool> {
    let mut words =
        warren_unit::value::split(parameter).map(|word| word.ok().map(|(_, word)| word));
    let (mut all, mut is_first) = (true, true);
    while let Some(word) = words.next() {
        let word = word?;
        let end = word.find(|c| !"<>=!$".contains(c)).unwrap_or(word.len());
        let (operator, wanted) = word.split_at(end);
        let next = match wanted {
            // As systemd 252 has it, only the first.
            "" if is_first => words.next()??,
            "" => return None,
            wanted => wanted.to_owned(),
        };
        is_first = false;
        let operator = if operator.is_empty() { "$=" } else { operator };
        all &= text_holds(release, operator, next.trim());
    }
    Some(all)
}

/// Digits as numbers, the rest as text (the rule of thumb behind every version comparison).
pub fn compare_versions(a: &str, b: &str) -> std::cmp::Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let (x, rest_a) = split_version(a);
        let (y, rest_b) = split_version(b);
        let order = match (x.parse::<u64>(), y.parse::<u64>()) {
            (Ok(x), Ok(y)) => x.cmp(&y),
            _ => x.cmp(y),
        };
        if order.is_ne() || rest_a.is_empty() && rest_b.is_empty() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
}

/// The first run of digits or of anything else.
fn split_version(text: &str) -> (&str, &str) {
    let digit = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digit).unwrap_or(text.len());
    text.split_at(end)
}

/// One or more expressions, perhaps quoted; what a field is compared with cannot be empty.
fn os_release(parameter: &str) -> Option<bool> {
    let text = fs::read_to_string("/etc/os-release")
        .or_else(|_| fs::read_to_string("/usr/lib/os-release"))
        .ok()?;
    let fields = warren_unit::value::environment_file(&text);
    let value = |field: &str| {
        let value =
            fields.iter().find_map(|(name, value)| (name == field).then(|| value.to_string()));
        Some(value.unwrap_or_default())
    };
    let words = warren_unit::value::split(parameter);
    words.map(|word| field_holds(&word.ok()?.1, value)).try_fold(true, |all, one| Some(all && one?))
}

/// `FIELD OPERATOR VALUE`: of text, of globs (`$`), of versions (systemd.unit(5), `ConditionOSRelease=`,
/// `ConditionFirmware=`). Nothing if it is no such expression; a field that is not there holds nothing.
fn field_holds(expression: &str, value: impl Fn(&str) -> Option<String>) -> Option<bool> {
    let at = expression.find(|c| "<>=!$".contains(c))?;
    let (field, rest) = expression.split_at(at);
    let end = rest.find(|c| !"<>=!$".contains(c))?;
    let (operator, wanted) = rest.split_at(end);
    let Some(value) = value(field.trim()) else { return Some(false) };
    Some(text_holds(&value, operator, wanted.trim()))
}

/// As text, as globs or as versions.
fn text_holds(value: &str, operator: &str, wanted: &str) -> bool {
    match operator {
        "=" => value == wanted,
        "!=" => value != wanted,
        "$=" => glob(wanted, value),
        "!$=" => !glob(wanted, value),
        _ => compare(operator, compare_versions(value, wanted)),
    }
}

fn firmware_is(parameter: &str) -> Option<bool> {
    let within = |name: &str| parameter.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
    match parameter {
        "uefi" => Some(Path::new("/sys/firmware/efi").exists()),
        "device-tree" => Some(Path::new("/sys/firmware/devicetree").exists()),
        _ => match (within("device-tree-compatible"), within("smbios-field")) {
            (Some(value), _) => Some(is_compatible(&device_tree_compatible(), value)),
            (_, Some(expression)) => field_holds(expression, smbios_field),
            _ => Some(false),
        },
    }
}

fn device_tree_compatible() -> Vec<u8> {
    fs::read("/sys/firmware/devicetree/base/compatible").unwrap_or_default()
}

/// Each name of the list ends with NUL (the Devicetree Specification, 2.3.1).
fn is_compatible(list: &[u8], wanted: &str) -> bool {
    list.split(|&byte| byte == 0).any(|name| !name.is_empty() && name == wanted.as_bytes())
}

/// One of the attributes in `/sys/class/dmi/id`.
fn smbios_field(name: &str) -> Option<String> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return None;
    }
    let value = fs::read_to_string(Path::new("/sys/class/dmi/id").join(name)).ok()?;
    Some(value.trim_end().to_owned())
}

/// `here` is what this machine runs in. Of a container in a virtual machine only the container counts.
fn virtualization_is(parameter: &str, here: &str, in_container: bool) -> bool {
    let is_private = || {
        let map = fs::read_to_string("/proc/self/uid_map");
        map.is_ok_and(|t| t.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"])
    };
    match (boolean(parameter), parameter) {
        (Some(is), _) => is != here.is_empty(),
        (_, "container") => in_container,
        (_, "vm") => !in_container && !here.is_empty(),
        (_, "private-users") => is_private(),
        (_, kind) => !here.is_empty() && kind == here,
    }
}

/// Whether pressure, on the host or in a slice, is at most the limit: `[SLICE:]LIMIT%[/WINDOW]`. Where the
/// kernel does not measure it, it is.
fn pressure_below(kind: ConditionKind, parameter: &str, tree: Option<&Tree>) -> Option<bool> {
    let resource = match kind {
        ConditionKind::MemoryPressure => "memory",
        ConditionKind::CpuPressure => "cpu",
        _ => "io",
    };
    let (slice, limit) = match parameter.split_once(':') {
        Some((slice, limit)) => (Some(slice.trim()), limit),
        None => (None, parameter),
    };
    let (limit, field) = pressure_limit(limit)?;
    let text = match slice {
        None => fs::read_to_string(format!("/proc/pressure/{resource}")).ok(),
        // By its path: a worker has not the tree's descriptor.
        Some(slice) => tree.and_then(|tree| {
            let group = tree.path().join(slice_path(slice));
            fs::read_to_string(group.join(format!("{resource}.pressure"))).ok()
        }),
    };
    Some(text.is_none_or(|text| pressure(&text, resource, field).is_none_or(|now| now <= limit)))
}

/// The limit in percent, and the kernel's word for the window.
fn pressure_limit(text: &str) -> Option<(f64, &'static str)> {
    let (limit, window) = text.split_once('/').unwrap_or((text, "5min"));
    let (_, field) = WINDOWS.into_iter().find(|(word, _)| *word == window.trim())?;
    let limit: f64 = limit.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    (0.0..=100.0).contains(&limit).then_some((limit, field))
}

/// An average in percent (the kernel's Documentation/accounting/psi.rst): that of the times when all wait,
/// else when some do. Of the processor there is only the second for the whole host.
fn pressure(text: &str, resource: &str, field: &str) -> Option<f64> {
    let line = |word: &str| text.lines().find(|line| line.split(' ').next() == Some(word));
    let full = line("full").filter(|_| resource != "cpu");
    let mut words = full.or_else(|| line("some"))?.split_whitespace();
    words.find_map(|word| word.strip_prefix(field)?.parse().ok())
}

/// Nothing if there is no saying within the bound.
fn glob_matches(pattern: &str) -> Option<bool> {
    let found = braced_paths(pattern, 1);
    let is_there = !found.paths.is_empty();
    if !is_there && found.is_cut {
        say!("PathExistsGlob={pattern}: more than {STEPS_MAX} files to check");
    }
    (is_there || !found.is_cut).then_some(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_compared_as_text_globs_and_versions() {
        let value = |field: &str| (field == "bios_version").then(|| "2.10".to_owned());
        let holds = |expression| field_holds(expression, value);
        for expression in ["bios_version = 2.10", "bios_version>=2.9", "bios_version $= 2.*"] {
            assert_eq!(holds(expression), Some(true), "{expression}");
        }
        for expression in ["bios_version != 2.10", "bios_version < 2.9", "other = x", "other != x"]
        {
            assert_eq!(holds(expression), Some(false), "{expression}");
        }
        assert_eq!([holds("bios_version"), holds("bios_version =")], [None; 2]);
    }

    #[test]
    fn kernels_are_compared_as_text_globs_and_versions() {
        let holds = |expressions| kernel_version(expressions, "6.18.44-x");
        for expressions in [
            "6.*",
            "\"6.*\"",
            "$=6.*",
            "$= 6.*",
            "!$=5.*",
            ">= 6.1",
            "'>= 6.1' <7",
            ">= 5 <\"7\"",
            "= 6.18.44-x",
            "==6.18.44-x",
            "!=6.18",
            "<>6.18",
        ] {
            assert_eq!(holds(expressions), Some(true), "{expressions}");
        }
        for expressions in
            ["6", "=6.*", "= 6.18", "==6.18", "!= 6.18.44-x", "!$=6.*", "5.* 6.*", "'6.* >= 5'"]
        {
            assert_eq!(holds(expressions), Some(false), "{expressions}");
        }
        assert_eq!([holds(">="), holds("6.* <"), holds("\"6.*"), holds(">= 5 < 7")], [None; 4]);
    }

    #[test]
    fn the_host_has_the_name_that_it_has_now() {
        use warren_sys::namespace::{Namespaces, set_host_name, unshare};
        // Namespaces are a thread's own.
        let in_namespace = || {
            let Ok(()) = unshare(Namespaces::UTS) else { return warren_testkit::not_run("root") };
            let mut context = Context::system();
            context.hostname = "before".into();
            let host = Host { context: &context, environment: &[], virtualization: "", tree: None };
            for (name, pattern) in [("first.example", "first.*"), ("second", "[r-t]econd")] {
                set_host_name(name).expect("the namespace is ours");
                assert_eq!(test(ConditionKind::Host, pattern, &host), Some(true), "{name}");
                assert_eq!(test(ConditionKind::Host, "before", &host), Some(false), "{name}");
            }
        };
        std::thread::spawn(in_namespace).join().expect("they hold");
    }

    #[test]
    fn a_device_tree_lists_names_that_it_is_compatible_with() {
        let list = b"vendor,board-2\0vendor,board\0";
        assert!(is_compatible(list, "vendor,board"));
        assert!(
            !is_compatible(list, "vendor") && !is_compatible(list, "") && !is_compatible(b"", "")
        );
    }

    #[test]
    fn the_last_option_of_the_command_line_counts() {
        let of = |text| option_in(text, "systemd.condition-first-boot");
        assert_eq!(of("quiet systemd.condition-first-boot=yes"), Some(true));
        assert_eq!(
            of("systemd.condition-first-boot=1 systemd.condition-first-boot=no"),
            Some(false)
        );
        assert_eq!(of("systemd.condition-first-boot-x=1 ro"), None);
    }

    #[test]
    fn the_environment_block_counts_before_what_the_manager_was_given() {
        let block = ["A=1".to_owned(), "AB=2".to_owned(), "container=x".to_owned()];
        let own = |name: &str| match name {
            "container" => Some("lxc".to_owned()),
            "GIVEN" => Some("by=pam".to_owned()),
            "PATH" => Some("/bin".to_owned()),
            _ => None,
        };
        let has = |parameter| environment_has(parameter, Scope::System, &block, own);
        assert!(has("A") && has("A=1") && has("AB=2") && has("container=x"));
        assert!(has("GIVEN") && has("GIVEN=by=pam"));
        assert!(!has("A=2") && !has("B") && !has("container=lxc"));
        assert!(!has("PATH"), "it was unset");
    }

    #[test]
    fn virtualization_is_what_surrounds_the_manager_first() {
        let check = |here, in_container, holds: &[&str], not: &[&str]| {
            let is = |word: &&str| virtualization_is(word, here, in_container);
            assert!(holds.iter().all(is), "{here}: {holds:?}");
            assert!(!not.iter().any(is), "{here}: {not:?}");
        };
        check("kvm", false, &["yes", "vm", "kvm"], &["no", "container", "qemu", "kv", ""]);
        check("docker", true, &["true", "container", "docker"], &["vm", "kvm", "no"]);
        check("", false, &["no", "off"], &["yes", "vm", "container", "kvm", ""]);
    }

    #[test]
    fn pressure_has_the_words_of_the_man_page() {
        for (text, expect) in [
            ("10%", Some((10.0, "avg300="))),
            ("10%/1min", Some((10.0, "avg60="))),
            ("0.5% / 10sec", Some((0.5, "avg10="))),
            ("100%/5min", Some((100.0, "avg300="))),
            ("10", None),
            ("10%/10s", None),
            ("101%", None),
            ("-1%", None),
            ("nan%", None),
        ] {
            assert_eq!(pressure_limit(text), expect, "{text}");
        }
    }

    #[test]
    fn pressure_is_that_of_all_who_wait_but_of_the_processor_that_of_some() {
        let some = "some avg10=1.50 avg60=2.00 avg300=3.00 total=9\n";
        let both = format!("{some}full avg10=0.25 avg60=0.00 avg300=0.00 total=1\n");
        assert_eq!(pressure(&both, "memory", "avg10="), Some(0.25));
        assert_eq!(pressure(some, "io", "avg10="), Some(1.5));
        assert_eq!(pressure(&both, "cpu", "avg60="), Some(2.0));
        assert_eq!(pressure("", "cpu", "avg60="), None);
        let on = |parameter| pressure_below(ConditionKind::CpuPressure, parameter, None);
        assert_eq!(on("nobody.slice:1%"), Some(true), "nobody measures it");
        assert_eq!((on("100%"), on("1%/now"), on("a.slice:1")), (Some(true), None, None));
    }

    #[test]
    fn a_worker_without_the_managers_descriptors_sees_the_pressure_in_a_slice() {
        let directory = crate::base::scratch::Scratch::new("pressure");
        let slice = directory.0.join("a.slice");
        fs::create_dir(&slice).expect("a directory");
        fs::write(slice.join("memory.pressure"), "full avg300=9.00 total=1\n").expect("a file");
        let tree = Tree::open(&directory.0).expect("a directory");
        let looks = || {
            let _ = warren_sys::process::keep_only_descriptors(&[]);
            ["a.slice:8%", "a.slice:9%"].map(|parameter| {
                pressure_below(ConditionKind::MemoryPressure, parameter, Some(&tree))
            })
        };
        let seen = std::thread::scope(|scope| scope.spawn(looks).join());
        assert_eq!(seen.expect("they are looked at"), [Some(false), Some(true)]);
    }

    #[test]
    fn versions_compare_by_numbers() {
        use std::cmp::Ordering::*;
        for (a, b, want) in [
            ("6.18.44", "6.2", Greater),
            ("6.1", "6.1", Equal),
            ("5.10-a", "5.10-b", Less),
            ("6", "6.1", Less),
        ] {
            assert_eq!(compare_versions(a, b), want, "{a} {b}");
        }
    }
}
