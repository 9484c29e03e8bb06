//! Facts about the host that specifiers and conditions speak of, read once at the start.

use std::fs;
use std::sync::{Arc, OnceLock};

use warren_sys::passwd::Database;
use warren_unit::{Context, Scope};

/// More do not read faster: the kernel's work is shared by all.
const THREADS_MAX: usize = 4;

/// Threads among which the loader's work is divided. Asked once: where cgroups of version 1 are
/// mounted, the answer costs the standard library reading the whole mount table.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    let ask = || std::thread::available_parallelism().map_or(1, |n| n.get()).min(THREADS_MAX);
    *THREADS.get_or_init(ask)
}

/// Reads them.
pub fn context(scope: Scope) -> Context {
    let mut context = Context::system();
    context.scope = scope;
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let hostname = text("/proc/sys/kernel/hostname");
    context.pretty_hostname = pretty_hostname().unwrap_or_else(|| hostname.clone()).into();
    context.hostname = hostname.into();
    context.machine_id = text("/etc/machine-id").into();
    context.boot_id = text("/proc/sys/kernel/random/boot_id").replace('-', "").into();
    context.kernel_release = text("/proc/sys/kernel/osrelease").into();
    context.architecture = architecture().into();
    os_release(&mut context);
    own_user(&mut context);
    if scope == Scope::User {
        user_directories(&mut context);
    }
    context
}

/// Whether the machine is this manager's to take apart. Everything must say so: in a container or
/// beside another process 1, swap areas and loop devices are somebody else's.
pub fn owns_machine(scope: Scope) -> bool {
    let init = fs::read_link("/proc/1/exe").unwrap_or_default();
    scope == Scope::System
        && !warren_sys::process::in_container()
        && std::os::unix::process::parent_id() == 1
        && init.file_name().is_some_and(|name| name == "warren-init")
}

fn pretty_hostname() -> Option<String> {
    let text = fs::read_to_string("/etc/machine-info").ok()?;
    let fields = warren_unit::value::environment_file(&text);
    fields.into_iter().find_map(|(name, value)| (name == "PRETTY_HOSTNAME").then_some(value))
}

/// systemd's spelling (systemd.unit(5), ConditionArchitecture=).
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86-64",
        "aarch64" => "arm64",
        "riscv64" => "riscv64",
        "powerpc64" => "ppc64-le",
        "s390x" => "s390x",
        other => other,
    }
}

fn os_release(context: &mut Context) {
    let text = fs::read_to_string("/etc/os-release")
        .or_else(|_| fs::read_to_string("/usr/lib/os-release"))
        .unwrap_or_default();
    for (name, value) in warren_unit::value::environment_file(&text) {
        let field = match name.as_str() {
            "ID" => &mut context.os_id,
            "VERSION_ID" => &mut context.os_version_id,
            "BUILD_ID" => &mut context.os_build_id,
            "VARIANT_ID" => &mut context.os_variant_id,
            "IMAGE_VERSION" => &mut context.os_image_version,
            "IMAGE_ID" => &mut context.os_image_id,
            _ => continue,
        };
        *field = Arc::from(value);
    }
}

fn own_user(context: &mut Context) {
    let (uid, gid) = warren_sys::process::own_ids();
    let database = Database::read().unwrap_or_default();
    context.uid = uid;
    context.gid = gid;
    if let Some(user) = database.user(&uid.to_string()) {
        context.user_name = user.name.into();
        context.home = user.home.into();
        context.shell = user.shell.into();
    } else if uid != 0 {
        context.user_name = uid.to_string().into();
    }
    if let Some(group) = database.group(&gid.to_string()) {
        context.group_name = group.name.into();
    }
}

fn user_directories(context: &mut Context) {
    let home = context.home.clone();
    let directory = |name: &str, default: &str| -> Arc<str> {
        let set = std::env::var(name).ok().filter(|dir| dir.starts_with('/'));
        set.unwrap_or_else(|| format!("{home}/{default}")).into()
    };
    if let Ok(runtime) = std::env::var("XDG_RUNTIME_DIR") {
        context.credentials_dir = format!("{runtime}/credentials").into();
        context.runtime_dir = runtime.into();
    }
    context.config_dir = directory("XDG_CONFIG_HOME", ".config");
    context.cache_dir = directory("XDG_CACHE_HOME", ".cache");
    context.state_dir = directory("XDG_STATE_HOME", ".local/state");
    context.log_dir = format!("{}/log", context.state_dir).into();
}
