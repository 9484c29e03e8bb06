//! Where units are searched for on this host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warren_unit::Scope;
use warren_unit::search::{SearchEnvironment, search_path};

use crate::root::Root;

/// What the search path depends on, from this process's environment. `unit_path` stands in for
/// `$SYSTEMD_UNIT_PATH`.
pub fn search_environment(unit_path: Option<&str>) -> SearchEnvironment {
    let variable = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    SearchEnvironment {
        unit_path: unit_path.map(str::to_owned).or_else(|| std::env::var("SYSTEMD_UNIT_PATH").ok()),
        home: variable("HOME"),
        config_home: variable("XDG_CONFIG_HOME"),
        config_dirs: variable("XDG_CONFIG_DIRS"),
        data_home: variable("XDG_DATA_HOME"),
        data_dirs: variable("XDG_DATA_DIRS"),
        runtime_dir: variable("XDG_RUNTIME_DIR"),
    }
}

/// The search directories, highest precedence first, each once: `/lib` is a link to `/usr/lib` on
/// most hosts. `own` is where our units lie that stand in for systemd's own daemons: where systemd
/// does not look. They count more than what distributions install.
pub fn search_directories(
    scope: Scope,
    environment: &SearchEnvironment,
    own: Option<PathBuf>,
) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        search_path(scope, environment).into_iter().map(PathBuf::from).collect();
    if let Some(own) = own.filter(|_| scope == Scope::System && environment.unit_path.is_none()) {
        insert_own_units(&mut all, own);
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in all {
        if !paths.iter().any(|other| same_directory(other, &path)) {
            paths.push(path);
        }
    }
    paths
}

fn insert_own_units(paths: &mut Vec<PathBuf>, own: PathBuf) {
    let vendor = |path: &PathBuf| path.ends_with("lib/systemd/system");
    let at = paths.iter().position(vendor).unwrap_or(paths.len());
    paths.insert(at, own);
}

/// Whether a path lies where configuration does. One elsewhere may be on a server that does not answer.
pub fn is_configuration(path: &Path) -> bool {
    ["/etc", "/run", "/usr", "/opt"].iter().any(|top| path.starts_with(top))
}

/// Whether two paths lead to one directory.
pub fn same_directory(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(x), Ok(y)) if x == y)
}

/// The directories of a search path, under whatever path a link says: on most hosts `/lib` is a link
/// to `/usr/lib`, and any directory may be one.
pub struct Places<'r> {
    root: &'r Root,
    search_path: Vec<String>,
    identities: Vec<Option<(u64, u64)>>,
    /// Where the directories of this host are, links followed.
    real: Vec<Option<PathBuf>>,
    /// What was asked before: a directory, and which of the search path it is.
    known: BTreeMap<String, Option<usize>>,
}

impl<'r> Places<'r> {
    /// Those of this root. Of a directory that is not there nothing is known.
    pub fn new(root: &'r Root, search_path: &[String]) -> Places<'r> {
        let identities = search_path.iter().map(|path| root.identity(path)).collect();
        let real = |path: &String| Path::new(path).canonicalize().ok().filter(|_| root.is_own());
        let real = search_path.iter().map(real).collect();
        let known = BTreeMap::new();
        Places { root, search_path: search_path.to_vec(), identities, real, known }
    }

    /// The path of a file as the search path has it: with the first name there of the directory that it is in, if
    /// it is one of those by this path, or by that with no links in it, or lies where configuration does.
    pub fn as_searched(&mut self, path: String) -> String {
        let Some((directory, name)) = path.rsplit_once('/') else { return path };
        let found = match self.known.get(directory) {
            Some(found) => *found,
            None => {
                let found = self.find(directory);
                self.known.insert(directory.to_owned(), found);
                found
            }
        };
        match found.and_then(|index| self.search_path.get(index)) {
            Some(searched) => format!("{searched}/{name}"),
            None => path,
        }
    }

    /// The first of the search path that is the same directory as this one of it.
    fn first_of(&self, index: usize) -> usize {
        let own = self.identities[index];
        self.identities.iter().position(|other| own.is_some() && *other == own).unwrap_or(index)
    }

    /// Which of the search path this directory is. One of this host that is not there by its path is opened
    /// only where configuration lies: another may be on a server that does not answer.
    fn find(&self, directory: &str) -> Option<usize> {
        let is_real = |real: &Option<PathBuf>| real.as_deref() == Some(Path::new(directory));
        let by_path = self.search_path.iter().position(|path| path == directory);
        let by_path = by_path.or_else(|| self.real.iter().position(is_real));
        let by_path = by_path.map(|index| self.first_of(index));
        if by_path.is_some() || self.root.is_own() && !is_configuration(Path::new(directory)) {
            return by_path;
        }
        let own = self.root.identity(directory);
        self.identities.iter().position(|identity| own.is_some() && *identity == own)
    }
}

/// Where `enable` and `enable --runtime` write: the usual directories if they are searched, else
/// the first one. A user's are below `$XDG_CONFIG_HOME`, or `~/.config`, and `$XDG_RUNTIME_DIR`.
pub fn config_directories(search_path: &[String], scope: Scope) -> (String, String) {
    config_directories_in(search_path, scope, &search_environment(None))
}

fn config_directories_in(
    search_path: &[String],
    scope: Scope,
    environment: &SearchEnvironment,
) -> (String, String) {
    let usual = match scope {
        Scope::System => ("/etc/systemd/system".to_owned(), "/run/systemd/system".to_owned()),
        Scope::User => {
            let below =
                |base: &Option<String>| base.as_ref().map(|base| format!("{base}/systemd/user"));
            let home = environment.home.as_ref().map(|home| format!("{home}/.config"));
            let config = below(&environment.config_home).or_else(|| below(&home));
            (config.unwrap_or_default(), below(&environment.runtime_dir).unwrap_or_default())
        }
    };
    let first = search_path.first().cloned().unwrap_or_default();
    let pick = |wanted: String| match search_path.contains(&wanted) {
        true => wanted,
        false => first.clone(),
    };
    (pick(usual.0), pick(usual.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_units_count_more_than_the_distribution_s_and_less_than_the_admin_s() {
        let environment = SearchEnvironment::default();
        let paths = search_directories(Scope::System, &environment, Some("/own".into()));
        let place = |path: &str| paths.iter().position(|p| p == Path::new(path));
        let [admin, run, own] = ["/etc/systemd/system", "/run/systemd/system", "/own"].map(place);
        assert!(admin.is_some() && run.is_some() && own.is_some(), "{paths:?}");
        assert!(admin < own && run < own, "{paths:?}");
        let vendor = paths.iter().position(|path| path.ends_with("lib/systemd/system"));
        assert!(vendor.is_some() && own < vendor, "{paths:?}");
    }

    /// A temporary directory lies where no configuration is.
    #[test]
    fn a_directory_is_known_by_its_path_and_looked_at_only_where_configuration_lies() {
        let top = std::env::temp_dir().join(format!("warren-places-{}", std::process::id()));
        let path = |name: &str| top.join(name).to_string_lossy().into_owned();
        std::fs::create_dir_all(path("real")).expect("mkdir");
        for link in ["link", "far"] {
            std::os::unix::fs::symlink("real", path(link)).expect("a link");
        }
        let mut places = Places::new(&Root::OWN, &[path("link")]);
        for (directory, searched) in [("link", "link"), ("real", "link"), ("far", "far")] {
            let found = places.as_searched(path(&format!("{directory}/a.service")));
            assert_eq!(found, path(&format!("{searched}/a.service")));
        }
        std::fs::remove_dir_all(&top).expect("what the test made can be removed");
    }

    #[test]
    fn a_user_s_links_are_made_where_the_user_s_configuration_is() {
        let environment = |config_home: Option<&str>| SearchEnvironment {
            home: Some("/home/a".to_owned()),
            config_home: config_home.map(str::to_owned),
            runtime_dir: Some("/run/user/1".to_owned()),
            ..SearchEnvironment::default()
        };
        for (config_home, want) in [
            (None, "/home/a/.config/systemd/user"),
            (Some("/srv/config"), "/srv/config/systemd/user"),
        ] {
            let environment = environment(config_home);
            let paths = search_path(Scope::User, &environment);
            let found = config_directories_in(&paths, Scope::User, &environment);
            assert_eq!(found, (want.to_owned(), "/run/user/1/systemd/user".to_owned()));
        }
    }
}
