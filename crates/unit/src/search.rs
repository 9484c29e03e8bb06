//! Where units are searched for, which drop-ins apply and which links are aliases: rules only.
//!
//! Nothing is read here; whoever has a directory snapshot asks these functions what it means
//! (systemd.unit(5), "UNIT FILE LOAD PATH" and "DESCRIPTION").

use crate::context::Scope;
use crate::escape;
use crate::name::{UnitName, UnitType};

/// The environment variables that the search path of a user manager depends on; empty or unset
/// ones are `None`. Only [`SearchEnvironment::unit_path`] matters to the system manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchEnvironment {
    /// `$SYSTEMD_UNIT_PATH`
    pub unit_path: Option<String>,
    /// `$HOME`
    pub home: Option<String>,
    /// `$XDG_CONFIG_HOME`
    pub config_home: Option<String>,
    /// `$XDG_CONFIG_DIRS`
    pub config_dirs: Option<String>,
    /// `$XDG_DATA_HOME`
    pub data_home: Option<String>,
    /// `$XDG_DATA_DIRS`
    pub data_dirs: Option<String>,
    /// `$XDG_RUNTIME_DIR`
    pub runtime_dir: Option<String>,
}

/// The search path of the system manager, the strongest first.
pub const SYSTEM_PATH: [&str; 13] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// The directories in which units are searched, the strongest first, without repetitions.
pub fn search_path(scope: Scope, environment: &SearchEnvironment) -> Vec<String> {
    let usual = || match scope {
        Scope::System => SYSTEM_PATH.map(str::to_owned).to_vec(),
        Scope::User => user_path(environment),
    };
    let Some(written) = environment.unit_path.as_deref() else { return usual() };
    let mut path: Vec<String> =
        written.split(':').filter(|d| d.starts_with('/')).map(str::to_owned).collect();
    if written.is_empty() || written.ends_with(':') {
        path.extend(usual());
    }
    without_repetitions(path)
}

fn without_repetitions(path: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(path.len());
    for directory in path {
        let directory = directory.trim_end_matches('/').to_owned();
        if !out.contains(&directory) {
            out.push(directory);
        }
    }
    out
}

fn user_path(e: &SearchEnvironment) -> Vec<String> {
    let below_home = |path: &str| e.home.as_ref().map(|home| format!("{home}/{path}"));
    let config_home = e.config_home.clone().or_else(|| below_home(".config"));
    let data_home = e.data_home.clone().or_else(|| below_home(".local/share"));
    let runtime = e.runtime_dir.as_deref();
    let list = |value: &Option<String>, default: &str| -> Vec<String> {
        let dirs = value.as_deref().unwrap_or(default).split(':');
        dirs.filter(|d| !d.is_empty()).map(|d| format!("{d}/systemd/user")).collect()
    };
    let mut path = Vec::new();
    path.extend(config_home.iter().map(|d| format!("{d}/systemd/user.control")));
    for name in ["user.control", "transient", "generator.early"] {
        path.extend(runtime.map(|d| format!("{d}/systemd/{name}")));
    }
    path.extend(config_home.iter().map(|d| format!("{d}/systemd/user")));
    path.extend(list(&e.config_dirs, "/etc/xdg"));
    path.push("/etc/systemd/user".to_owned());
    path.extend(runtime.map(|d| format!("{d}/systemd/user")));
    path.push("/run/systemd/user".to_owned());
    path.extend(runtime.map(|d| format!("{d}/systemd/generator")));
    path.extend(data_home.iter().map(|d| format!("{d}/systemd/user")));
    path.extend(list(&e.data_dirs, "/usr/local/share:/usr/share"));
    for fixed in ["/usr/local/lib", "/usr/local/share", "/usr/lib", "/usr/share"] {
        path.push(format!("{fixed}/systemd/user"));
    }
    path.extend(runtime.map(|d| format!("{d}/systemd/generator.late")));
    without_repetitions(path)
}

/// The names of the drop-in directories of a unit, the strongest first: its own, its
/// template's, those of its dashed prefixes and its type's. Repeat it for every alias.
/// The order among the prefixes of an instance is that of systemd 252.
pub fn dropin_directories(name: &UnitName) -> Vec<String> {
    let mut out = vec![format!("{name}.d")];
    out.extend(name.template().map(|t| format!("{t}.d")));
    let suffix = name.unit_type().suffix();
    let prefixes: Vec<String> = name.dash_prefixes().collect();
    let base = |p: &String| p.split('@').next().unwrap_or_default().to_owned();
    if name.as_str().contains('@') {
        out.extend(prefixes.iter().map(|p| format!("{}.{suffix}.d", base(p))));
    }
    for prefix in &prefixes {
        out.push(format!("{prefix}.d"));
        if name.is_instance() {
            out.push(format!("{}@.{suffix}.d", base(prefix)));
        }
    }
    out.push(format!("{suffix}.d"));
    out
}

/// A drop-in that was found. Of two with one file name the stronger applies: `type.d/` is
/// always weakest; then the unit's own name comes before its aliases, then the place in the
/// search path decides, and only then the place in [`dropin_directories`] (as systemd 252).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropin<T> {
    /// 0 for the unit's own name, then a number for each alias.
    pub alias_rank: usize,
    /// Its directory's place in [`dropin_directories`] of that name.
    pub name_rank: usize,
    /// It lies in `type.d/`, the last of those.
    pub of_type: bool,
    /// Its directory's place in the search path.
    pub path_rank: usize,
    /// Its own name, `10-x.conf`.
    pub file_name: String,
    /// It is empty or a link to /dev/null: it only hides weaker ones of its name.
    pub masks: bool,
    /// What the caller needs to know it by.
    pub item: T,
}

/// Which drop-ins apply, in the order in which they apply: by file name; of one file name the
/// strongest only.
pub fn select_dropins<T>(mut found: Vec<Dropin<T>>) -> Vec<T> {
    found.retain(|d| d.file_name.ends_with(".conf") && !d.file_name.starts_with('.'));
    found.sort_by(|a, b| {
        let rank = |d: &Dropin<T>| (d.of_type, d.alias_rank, d.path_rank, d.name_rank);
        a.file_name.cmp(&b.file_name).then_with(|| rank(a).cmp(&rank(b)))
    });
    found.dedup_by(|later, kept| later.file_name == kept.file_name);
    found.into_iter().filter(|d| !d.masks).map(|d| d.item).collect()
}

/// What a link in a search directory means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// To /dev/null: the unit is masked.
    Mask,
    /// To a unit in the search path: another name of that unit.
    Alias(UnitName),
    /// To a file elsewhere: that file is the unit's own.
    Linked,
    /// To a unit that it cannot be an alias of, and why.
    Bad(String),
}

/// Classifies a link. `target` is absolute; only its last part and whether it lies in the
/// search path matter.
pub fn link_kind(link: &UnitName, target: &str, search_path: &[String]) -> LinkKind {
    let Some(target) = escape::simplify_path(target) else {
        return LinkKind::Bad(format!("'{target}' is not a normalized path"));
    };
    if target == "/dev/null" {
        return LinkKind::Mask;
    }
    let (directory, file) = target.rsplit_once('/').unwrap_or(("", &target));
    if !search_path.iter().any(|d| d == directory) {
        return LinkKind::Linked;
    }
    match UnitName::parse(file) {
        // An instance that links to its own template is the instance, not an alias.
        Ok(name) if link.template().as_ref() == Some(&name) || &name == link => LinkKind::Linked,
        Ok(name) => match check_alias(link, &name) {
            Ok(()) => LinkKind::Alias(name),
            Err(reason) => LinkKind::Bad(reason),
        },
        Err(error) => LinkKind::Bad(format!("'{file}': {error}")),
    }
}

/// Whether `alias` may be another name of `target` (systemd.unit(5), "Aliases obey the
/// following restrictions").
pub fn check_alias(alias: &UnitName, target: &UnitName) -> Result<(), String> {
    use UnitType::{Automount, Mount, Slice, Swap};
    if alias.unit_type() != target.unit_type() {
        return Err(format!("{alias} and {target} differ in type"));
    }
    if matches!(alias.unit_type(), Mount | Automount | Slice | Swap) {
        return Err(format!("{} units have no aliases", alias.unit_type()));
    }
    let fits = match (alias.is_instance(), alias.is_template()) {
        (true, _) => target.is_template() || target.instance() == alias.instance(),
        (_, true) => target.is_template(),
        (false, false) => !target.is_instance() && !target.is_template(),
    };
    if fits { Ok(()) } else { Err(format!("{alias} cannot be an alias of {target}")) }
}

/// What a `.d`, `.wants`, `.requires` or `.upholds` directory is called for, and the type of unit
/// that its drop-ins are for. The owner may be a unit, a template, a `foo-.service` prefix or a type.
pub fn directory_kind(name: &str) -> Option<(&str, UnitType)> {
    let (owner, kind) = name.rsplit_once('.')?;
    if !matches!(kind, "d" | "wants" | "requires" | "upholds") {
        return None;
    }
    let suffix = owner.rsplit('.').next()?;
    UnitType::from_suffix(suffix).map(|unit_type| (owner, unit_type))
}

/// The name of the search directory of units that clients made (systemd.unit(5)).
pub const TRANSIENT: &str = "transient";

/// Whether the file at this path is of a unit that a client made.
pub fn is_transient(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    parts.next();
    parts.next() == Some(TRANSIENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn name(text: &str) -> UnitName {
        UnitName::parse(text).expect("a valid name")
    }

    /// What `systemd-analyze unit-paths` prints.
    fn peer(user: bool, e: &SearchEnvironment) -> Option<Vec<String>> {
        let mut command = Command::new("systemd-analyze");
        command.env_clear().args(user.then_some("--user")).arg("unit-paths");
        for (key, value) in [
            ("SYSTEMD_UNIT_PATH", &e.unit_path),
            ("HOME", &e.home),
            ("XDG_CONFIG_HOME", &e.config_home),
            ("XDG_CONFIG_DIRS", &e.config_dirs),
            ("XDG_DATA_HOME", &e.data_home),
            ("XDG_DATA_DIRS", &e.data_dirs),
            ("XDG_RUNTIME_DIR", &e.runtime_dir),
        ] {
            command.envs(value.as_ref().map(|v| (key, v)));
        }
        command.env("PATH", "/usr/bin:/bin");
        let out = command.output().ok().filter(|o| o.status.success())?;
        let lines = String::from_utf8(out.stdout).ok()?;
        Some(lines.lines().map(str::to_owned).collect())
    }

    #[test]
    fn search_paths_are_those_of_systemd() {
        let some = |text: &str| Some(text.to_owned());
        let home = SearchEnvironment { home: some("/h"), ..SearchEnvironment::default() };
        let full = SearchEnvironment {
            runtime_dir: some("/xr"),
            config_home: some("/xc"),
            config_dirs: some("/xd1:/xd2"),
            data_home: some("/xdh"),
            data_dirs: some("/xdd1:/xdd2"),
            ..home.clone()
        };
        let runtime = SearchEnvironment { runtime_dir: some("/xr"), ..home.clone() };
        let replaced = SearchEnvironment { unit_path: some("/a:/b"), ..home.clone() };
        let prepended = SearchEnvironment { unit_path: some("/a:/b:"), ..home.clone() };
        if peer(false, &home).is_none() {
            warren_testkit::not_run("systemd-analyze unit-paths does not work here");
            return;
        }
        for (user, scope) in [(false, Scope::System), (true, Scope::User)] {
            for e in [&home, &full, &runtime, &replaced, &prepended] {
                assert_eq!(Some(search_path(scope, e)), peer(user, e), "{scope:?} {e:?}");
            }
        }
    }

    #[test]
    fn dropin_directories_by_strength() {
        let check = |unit: &str, want: &[&str]| assert_eq!(dropin_directories(&name(unit)), want);
        check("a-b-c.service", &["a-b-c.service.d", "a-b-.service.d", "a-.service.d", "service.d"]);
        check(
            "a-b@x-y.service",
            &[
                "a-b@x-y.service.d",
                "a-b@.service.d",
                "a-.service.d",
                "a-@x-y.service.d",
                "a-@.service.d",
                "service.d",
            ],
        );
        check("a.target", &["a.target.d", "target.d"]);
    }

    #[test]
    fn the_strongest_dropin_of_a_name_applies() {
        // Place in the search path / directory / file; `!` masks, `+` is an alias's.
        let check = |files: &[&str], want: &[&str]| {
            let names = dropin_directories(&name("a-b-c.service"));
            let alias = dropin_directories(&name("x.service"));
            let found = files.iter().map(|text| {
                let path = text.trim_start_matches(['!', '+']);
                let parts: Vec<&str> = path.split('/').collect();
                let (names, alias_rank) =
                    if text.starts_with('+') { (&alias, 1) } else { (&names, 0) };
                let place = names.iter().position(|n| *n == format!("{}.service.d", parts[1]));
                Dropin {
                    alias_rank,
                    name_rank: place.unwrap_or(names.len() - 1),
                    of_type: parts[1] == "service.d",
                    path_rank: parts[0].parse().expect("a number"),
                    file_name: parts[2].to_owned(),
                    masks: text.starts_with('!'),
                    item: *text,
                }
            });
            assert_eq!(select_dropins(found.collect()), want, "{files:?}");
        };
        check(
            &["1/a-b-c/2.conf", "1/a-/1.conf", "1/a-/readme"],
            &["1/a-/1.conf", "1/a-b-c/2.conf"],
        );
        check(&["1/a-b-c/1.conf", "0/a-/1.conf"], &["0/a-/1.conf"]);
        check(&["1/a-b-/1.conf", "1/a-/1.conf"], &["1/a-b-/1.conf"]);
        check(&["1/a-/1.conf", "0/service.d/1.conf"], &["1/a-/1.conf"]);
        check(&["1/a-b-c/1.conf", "+0/x/1.conf"], &["1/a-b-c/1.conf"]);
        check(&["!0/a-b-c/1.conf", "1/a-/1.conf"], &[]);
    }

    #[test]
    fn links_and_aliases() {
        let path = ["/etc/systemd/system".to_owned(), "/lib/systemd/system".to_owned()];
        let check = |link: &str, target: &str, want: &str| {
            let got = match link_kind(&name(link), target, &path) {
                LinkKind::Mask => "mask".to_owned(),
                LinkKind::Alias(name) => name.to_string(),
                LinkKind::Linked => "linked".to_owned(),
                LinkKind::Bad(_) => "bad".to_owned(),
            };
            assert_eq!(got, want, "{link} {target}");
        };
        check("a.service", "/dev/null", "mask");
        check("a.service", "/lib/systemd/system/b.service", "b.service");
        check("a.service", "/lib/systemd/system/b.socket", "bad");
        check("a.service", "/opt/x", "linked");
        check("a@x.service", "/lib/systemd/system/a@.service", "linked");
        check("a@x.service", "/lib/systemd/system/b@.service", "b@.service");
        check("a@x.service", "/lib/systemd/system/b@x.service", "b@x.service");
        check("a@x.service", "/lib/systemd/system/b@y.service", "bad");
        check("a@.service", "/lib/systemd/system/b.service", "bad");
        check("a.service", "/lib/systemd/system/b@.service", "bad");
        check("a.mount", "/lib/systemd/system/b.mount", "bad");
    }
}
