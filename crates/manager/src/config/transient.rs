//! Files that clients have written: of transient units, and of settings that are changed while a unit is loaded
//! (org.freedesktop.systemd1(5), StartTransientUnit and SetUnitProperties).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use warren_unit::UnitName;
use warren_unit::search::TRANSIENT;

use crate::base::replace_file::replace;

/// Where files of clients lie, if the search path has such places.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// Units.
    transient: Option<PathBuf>,
    /// Settings until the next boot.
    runtime_control: Option<PathBuf>,
    /// Settings for good.
    control: Option<PathBuf>,
}

impl ClientFiles {
    /// The places among these search directories, strongest first.
    pub fn of(paths: &[PathBuf]) -> ClientFiles {
        let ends = |path: &&PathBuf, end: &str| path.file_name().is_some_and(|name| name == end);
        let control = |path: &&PathBuf| path.extension().is_some_and(|kind| kind == "control");
        let is_volatile = |path: &&PathBuf| path.starts_with("/run");
        ClientFiles {
            transient: paths.iter().find(|path| ends(path, TRANSIENT)).cloned(),
            runtime_control: paths.iter().filter(control).find(is_volatile).cloned(),
            control: paths.iter().filter(control).find(|path| !is_volatile(path)).cloned(),
        }
    }

    /// Writes the files of transient units.
    ///
    /// # Errors
    /// There is no place for them, or it cannot be written to; nothing is left then.
    pub fn write_units(&self, units: &[(UnitName, String)]) -> io::Result<()> {
        let directory = place(
            self.transient.as_deref(),
            "the unit search path has no place for transient units",
        )?;
        fs::create_dir_all(directory)?;
        for (name, text) in units {
            if let Err(error) = replace(&directory.join(name.as_str()), text) {
                units.iter().for_each(|(name, _)| self.remove(name));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes settings of a unit, each as a drop-in of its own.
    ///
    /// # Errors
    /// There is no place for them, or it cannot be written to.
    pub fn write_settings(
        &self,
        unit: &UnitName,
        runtime: bool,
        dropins: &[(&'static str, String)],
    ) -> io::Result<()> {
        let directory = if runtime { &self.runtime_control } else { &self.control };
        let directory =
            place(directory.as_deref(), "the unit search path has no place for changed settings")?;
        let directory = directory.join(format!("{unit}.d"));
        fs::create_dir_all(&directory)?;
        dropins
            .iter()
            .try_for_each(|(name, text)| replace(&directory.join(format!("50-{name}.conf")), text))
    }

    /// Whether this is the directory of transient units.
    pub fn is_of_units(&self, directory: &Path) -> bool {
        self.transient.as_deref() == Some(directory)
    }

    /// Whether a file of a transient unit lies here.
    pub fn is_transient(&self, path: &str) -> bool {
        Path::new(path).parent().is_some_and(|parent| self.is_of_units(parent))
    }

    /// Removes the file of a transient unit, and what was set of it until the next boot.
    pub fn remove(&self, unit: &UnitName) {
        if let Some(directory) = &self.transient {
            let gone = fs::remove_file(directory.join(unit.as_str()));
            debug_assert!(
                gone.is_ok() || gone.is_err_and(|error| error.kind() == ErrorKind::NotFound)
            );
        }
        for directory in [&self.transient, &self.runtime_control].into_iter().flatten() {
            let dropins = directory.join(format!("{unit}.d"));
            for entry in fs::read_dir(&dropins).into_iter().flatten().flatten() {
                let _ = fs::remove_file(entry.path());
            }
            let _ = fs::remove_dir(&dropins);
        }
    }
}

fn place<'a>(directory: Option<&'a Path>, missing: &str) -> io::Result<&'a Path> {
    directory.ok_or_else(|| io::Error::new(ErrorKind::NotFound, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_clients_have_places_in_the_search_path_and_go_as_they_came() {
        let scratch = warren_testkit::Scratch::new("client-files");
        let base = scratch.path("");
        let name = |text: &str| UnitName::parse(text).expect("a valid name");
        let paths = |names: &[&str]| names.iter().map(|n| PathBuf::from(*n)).collect::<Vec<_>>();
        let all = paths(&[
            "/etc/systemd/system.control",
            "/run/systemd/system.control",
            "/run/systemd/transient",
        ]);
        let places = ClientFiles::of(&all);
        assert_eq!(
            [places.control, places.runtime_control, places.transient],
            [0, 1, 2].map(|i| Some(all[i].clone()))
        );
        let none = ClientFiles::of(&paths(&["/etc/systemd/system"]));
        assert!(none.write_units(&[]).is_err());
        assert!(none.write_settings(&name("a.service"), true, &[]).is_err());

        let places = ClientFiles {
            transient: Some(base.join("transient")),
            runtime_control: Some(base.join("run.control")),
            control: Some(base.join("etc.control")),
        };
        let unit = name("a.service");
        places.write_units(&[(unit.clone(), "[Unit]\n".to_owned())]).expect("it can be written");
        let dropins = [("MemoryMax", "[Service]\nMemoryMax=5\n".to_owned())];
        places.write_settings(&unit, true, &dropins).expect("it can be written");
        places.write_settings(&unit, false, &dropins).expect("it can be written");
        let of_run = base.join("run.control/a.service.d/50-MemoryMax.conf");
        assert!(places.is_transient(&base.join("transient/a.service").to_string_lossy()));
        assert!(!places.is_transient(&of_run.to_string_lossy()) && of_run.exists());
        places.remove(&unit);
        assert!(!of_run.exists() && !base.join("transient/a.service").exists());
        assert!(base.join("etc.control/a.service.d/50-MemoryMax.conf").exists(), "it is for good");
    }
}
