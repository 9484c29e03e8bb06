//! The manager's own file and its drop-ins (systemd-system.conf(5)): what units get that say
//! nothing. Read when the manager starts and with each reload; what is wrong is said and left out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warren_unit::parse::{FILE_BYTES_MAX, parse_manager, refused};
use warren_unit::{Code, Context, Defaults, Diagnostic, Scope, UnitFile, compile};

/// Drop-ins that are looked at.
const DROP_INS_MAX: usize = 1024;

/// Directories of configuration, the strongest first: a file hides one of the same name in a later
/// directory.
const DIRECTORIES: [&str; 4] =
    ["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"];

/// Reads them for a manager of the system or of a user.
pub fn read(context: &Context) -> (Defaults, Vec<Diagnostic>) {
    let directories = DIRECTORIES.map(PathBuf::from);
    match context.scope {
        Scope::System => read_in(None, &directories, "system.conf", context),
        Scope::User => {
            let own = Path::new(&*context.config_dir).join("systemd");
            let (mut defaults, said) = read_in(Some(&own), &directories, "user.conf", context);
            if !rustix::process::geteuid().is_root() {
                let own = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
                defaults.oom_score_adjust.get_or_insert(above(own.trim().parse().unwrap_or(0)));
            }
            (defaults, said)
        }
    }
}

/// What services of a user's manager that has this value get, so that they go before it
/// (systemd-system.conf(5), `DefaultOOMScoreAdjust=`).
fn above(own: i16) -> i16 {
    own.saturating_add(100).min(1000)
}

/// The same, where these are the directories of configuration, the strongest first. A file in `own`, which has
/// no drop-ins, takes the place of that in the first of them.
fn read_in(
    own: Option<&Path>,
    directories: &[PathBuf],
    name: &str,
    context: &Context,
) -> (Defaults, Vec<Diagnostic>) {
    let mut said = Vec::new();
    let mut parse = |path: &Path| {
        let name: Arc<str> = path.to_string_lossy().into();
        let (file, faults) = match read_bounded(path) {
            Ok(bytes) => parse_manager(name, &bytes),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => refused(name, Code::Unreadable, format!("the file cannot be read: {e}")),
        };
        said.extend(faults);
        Some(Arc::new(file))
    };
    let mut places = own.into_iter().chain(directories.first().map(PathBuf::as_path));
    let file: Option<Arc<UnitFile>> = places.find_map(|directory| parse(&directory.join(name)));
    let dropins: Vec<Arc<UnitFile>> =
        drop_ins(directories, &format!("{name}.d")).iter().filter_map(|path| parse(path)).collect();
    let (defaults, more) = compile::defaults(file.as_ref(), &dropins, context);
    said.extend(more);
    (defaults, said)
}

/// By file name; of one name that of the strongest directory.
fn drop_ins(directories: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for directory in directories {
        let entries = fs::read_dir(directory.join(name)).into_iter().flatten().flatten();
        for entry in entries.take(DROP_INS_MAX) {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(".conf") && !name.starts_with('.') {
                found.entry(name).or_insert(entry.path());
            }
        }
    }
    found.into_values().collect()
}

/// The file's bytes, or one more than the parser takes.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_a_user_are_killed_before_their_manager() {
        assert_eq!([-1000, 0, 100, 950, 1000].map(above), [-900, 100, 200, 1000, 1000]);
    }

    #[test]
    fn drop_ins_hide_each_other_by_name_and_come_in_their_order() {
        let top = std::env::temp_dir().join(format!("warren-manager-file-{}", std::process::id()));
        let directories = ["etc", "run", "usr"].map(|name| top.join(name));
        let write = |path: &str, seconds: u32| {
            let path = top.join(path);
            fs::create_dir_all(path.parent().expect("it is below")).expect("mkdir");
            let text = format!("[Manager]\nDefaultTimeoutStopSec={seconds}\n");
            fs::write(path, text).expect("a file can be written");
        };
        let stop = || {
            let (own, context) = (top.join("own"), Context::system());
            let (defaults, said) = read_in(Some(&own), &directories, "system.conf", &context);
            assert!(said.is_empty(), "{said:?}");
            defaults.timeout_stop.map_or(0, |time| time.as_secs())
        };
        assert_eq!(stop(), 90);
        for (path, seconds, want) in [
            ("run/system.conf", 1, 90),
            ("etc/system.conf", 2, 2),
            ("usr/system.conf.d/50.conf", 3, 3),
            ("etc/system.conf.d/10.conf", 4, 3),
            ("usr/system.conf.d/60.conf", 5, 5),
            ("run/system.conf.d/60.conf", 6, 6),
            ("etc/system.conf.d/70.txt", 7, 6),
            ("own/system.conf", 8, 6),
        ] {
            write(path, seconds);
            assert_eq!(stop(), want, "{path}");
        }
        // A file of one's own hides the general one, not its drop-ins.
        fs::remove_file(top.join("run/system.conf.d/60.conf")).expect("rm");
        fs::remove_dir_all(top.join("usr/system.conf.d")).expect("rm");
        fs::remove_file(top.join("etc/system.conf.d/10.conf")).expect("rm");
        assert_eq!(stop(), 8);
        fs::remove_dir_all(top.join("own")).expect("rm");
        assert_eq!(stop(), 2);
        write("run/system.conf.d/60.conf", 6);
        // What is there and cannot be read is said, and the rest counts.
        fs::remove_file(top.join("etc/system.conf")).expect("rm");
        fs::create_dir(top.join("etc/system.conf")).expect("mkdir");
        let (defaults, said) = read_in(None, &directories, "system.conf", &Context::system());
        assert_eq!(defaults.timeout_stop.map(|time| time.as_secs()), Some(6));
        assert!(matches!(&said[..], [one] if one.code == Code::Unreadable), "{said:?}");
        fs::remove_dir_all(&top).expect("what the test made can be removed");
    }
}
