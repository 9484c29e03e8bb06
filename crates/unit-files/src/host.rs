//! Facts about the host that specifiers speak of (systemd.unit(5), "SPECIFIERS").

use std::sync::Arc;

use warren_sys::passwd::Database;
use warren_unit::{Context, Scope};

use crate::root::Root;

/// Reads them: the name, the id and the distribution from files of the root, the user and the kernel
/// from this process and its host.
pub fn context(root: &Root, scope: Scope) -> Context {
    let mut context = Context::system();
    context.scope = scope;
    let host = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let written =
        Some(root.text("/etc/hostname")).filter(|name| !root.is_own() && !name.is_empty());
    let hostname = written.unwrap_or_else(|| host("/proc/sys/kernel/hostname"));
    let short = || hostname.split('.').next().unwrap_or_default().to_owned();
    context.pretty_hostname = pretty_hostname(root).unwrap_or_else(short).into();
    context.hostname = hostname.into();
    context.machine_id = root.text("/etc/machine-id").into();
    context.boot_id = host("/proc/sys/kernel/random/boot_id").replace('-', "").into();
    context.kernel_release = host("/proc/sys/kernel/osrelease").into();
    context.architecture = architecture().into();
    os_release(root, &mut context);
    own_user(&mut context);
    if root.is_own() {
        temporary_directories(&mut context, |name| std::env::var(name).ok());
    }
    if scope == Scope::User {
        user_directories(&mut context);
        context.umask = own_umask().unwrap_or(context.umask);
    }
    context
}

/// This process's umask, proc_pid_status(5); asking umask(2) would change it.
fn own_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let digits = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(digits.trim(), 8).ok()
}

fn pretty_hostname(root: &Root) -> Option<String> {
    let text = root.text("/etc/machine-info");
    let fields = warren_unit::value::environment_file(&text);
    let found = fields.into_iter().find(|(name, _)| name == "PRETTY_HOSTNAME");
    found.map(|(_, value)| value).filter(|value| !value.is_empty())
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

fn os_release(root: &Root, context: &mut Context) {
    let texts = ["/etc/os-release", "/usr/lib/os-release"].map(|path| root.text(path));
    let text = texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
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
    // systemd.exec(5), table 2 of systemd 252.
    context.state_dir = context.config_dir.clone();
    context.log_dir = format!("{}/log", context.state_dir).into();
}

/// `%T` and `%V` are the first of these that names a directory.
fn temporary_directories(context: &mut Context, variable: impl Fn(&str) -> Option<String>) {
    let is_directory = |path: &String| {
        let is_normalized = path.starts_with('/') && !path.split('/').any(|part| part == "..");
        is_normalized && std::path::Path::new(path).is_dir()
    };
    let mut set = ["TMPDIR", "TEMP", "TMP"].into_iter().filter_map(variable);
    if let Some(path) = set.find(is_directory) {
        context.tmp_dir = path.into();
        context.var_tmp_dir = context.tmp_dir.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_s_units_have_the_umask_of_their_manager() {
        assert_eq!(context(&Root::OWN, Scope::User).umask, own_umask().expect("procfs"));
        assert_eq!(context(&Root::OWN, Scope::System).umask, 0o022);
    }

    #[test]
    fn temporary_files_lie_where_the_environment_says() {
        let check = |set: &[(&str, &str)], expected: [&str; 2]| {
            let mut context = Context::system();
            let value =
                |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
            temporary_directories(&mut context, value);
            assert_eq!([&*context.tmp_dir, &*context.var_tmp_dir], expected, "{set:?}");
        };
        check(&[], ["/tmp", "/var/tmp"]);
        check(&[("TEMP", "/proc"), ("TMP", "/etc")], ["/proc"; 2]);
        check(
            &[("TMPDIR", "/no/such"), ("TEMP", "tmp"), ("TMP", "/etc/../proc")],
            ["/tmp", "/var/tmp"],
        );
    }

    #[test]
    fn a_user_s_units_have_their_state_beside_their_configuration() {
        let context = context(&Root::OWN, Scope::User);
        assert_eq!(context.state_dir, context.config_dir);
        assert_eq!(*context.log_dir, format!("{}/log", context.config_dir));
    }

    #[test]
    fn without_a_pretty_hostname_the_short_one_is_it() {
        let path = std::env::temp_dir().join(format!("warren-pretty-{}", std::process::id()));
        std::fs::create_dir_all(path.join("etc")).expect("mkdir");
        std::fs::write(path.join("etc/hostname"), "a.example.org\n").expect("write");
        let pretty = |machine_info: &str| {
            std::fs::write(path.join("etc/machine-info"), machine_info).expect("write");
            let root = Root::open(&path).expect("a root");
            context(&root, Scope::System).pretty_hostname.to_string()
        };
        let found = ["X=1", "PRETTY_HOSTNAME=", "PRETTY_HOSTNAME=\"My host\""].map(pretty);
        assert_eq!(found, ["a", "a", "My host"]);
        std::fs::remove_dir_all(&path).expect("what the test made can be removed");
    }
}
