//! Dependencies that follow from execution settings, paths and slices (systemd.exec(5) and
//! systemd.resource-control(5), "IMPLICIT DEPENDENCIES"), for every type that has them.

use super::{Loader, known};
use crate::diagnostic::Code;
use crate::escape;
use crate::name::{UnitName, UnitType};
use crate::relation::Relation;
use crate::settings::{Id, id};
use crate::value::{self, Fault};

impl Loader<'_, '_> {
    /// An edge to the mount unit of every prefix of a simplified absolute path.
    pub(super) fn mounts_for(&mut self, path: &str) {
        for mount in self.mounts_on_the_way(path) {
            self.add(Relation::MountsFor, mount);
        }
    }

    /// The same where the mounts are wished for only (systemd.unit(5), WantsMountsFor=).
    pub(super) fn mounts_wanted_for(&mut self, path: &str) {
        for mount in self.mounts_on_the_way(path) {
            self.add_two(Relation::Wants, Relation::After, mount);
        }
    }

    /// The mount units of a path and of what is above it, but this one. A path that is too long for a
    /// name cannot have a mount unit.
    fn mounts_on_the_way(&self, path: &str) -> Vec<UnitName> {
        let mut found = Vec::new();
        let mut end = path.len();
        while end > 1 {
            let prefix = &path[..end];
            found.extend(UnitName::for_path(prefix, UnitType::Mount));
            end = prefix.rfind('/').unwrap_or(0);
        }
        found.push(known::root_mount());
        found.retain(|mount| mount != self.merged.name());
        found
    }

    /// Slice= or the default slice (systemd.resource-control(5), Slice=).
    pub(super) fn slice(&mut self) {
        let written = self.merged.value(id!(Cgroup "Slice"), |text| {
            let name = UnitName::parse(text).map_err(|e| Fault::new(0, e.to_string()))?;
            match name.unit_type() == UnitType::Slice && name.is_valid_slice() {
                true => Ok(name),
                false => Err(Fault::new(0, format!("'{name}' is not a slice"))),
            }
        });
        let slice = written.unwrap_or_else(|| self.default_slice());
        self.add_two(Relation::Requires, Relation::After, slice.clone());
        self.add(Relation::InSlice, slice.clone());
        self.slice = Some(slice);
    }

    fn default_slice(&self) -> UnitName {
        let name = self.merged.name();
        if name.as_str() == "init.scope" || self.is_extrinsic_mount() {
            return known::root_slice();
        }
        let is_process = !matches!(name.unit_type(), UnitType::Mount | UnitType::Swap);
        if !self.is_system() && !is_process {
            return known::root_slice();
        }
        let base = if self.is_system() { known::system_slice() } else { known::app_slice() };
        if !name.is_instance() {
            return base;
        }
        let sub = format!("{}-{}.slice", base.stem(), escape::escape(name.prefix()));
        UnitName::parse(&sub).unwrap_or(base)
    }

    /// Whether it is a mount that was there before the manager, and stays when all units are down: the
    /// root, `/usr` and `/etc`, what the initrd needs or has mounted, and the kernel's own file systems.
    /// systemd 252 has these in the root slice and gives them no default dependencies.
    pub(super) fn is_extrinsic_mount(&self) -> bool {
        let name = self.merged.name();
        if name.unit_type() != UnitType::Mount {
            return false;
        }
        let options = self.merged.text(id!(Mount "Options")).unwrap_or_default();
        ["-", "usr", "etc"].into_iter().any(|place| is_mount_of(name, place, false))
            || ["dev", "proc", "sys", "run-initramfs"].iter().any(|p| is_mount_of(name, p, true))
            || options.split(',').any(|option| option == "x-initrd.mount")
    }

    /// What units with processes get.
    pub(super) fn execution(&mut self) {
        self.execution_paths();
        self.execution_directories();
        if !self.is_system() {
            return;
        }
        if self.merged.flag(id!(Exec "DynamicUser"), false) || self.has_private_tmp() {
            self.add_two(Relation::Wants, Relation::After, known::tmp_mount());
            self.mounts_for("/var/tmp");
            self.add(Relation::After, known::tmpfiles_setup_service());
        }
        if self.merged.has(id!(Exec "RootImage")) {
            self.add(Relation::After, known::udevd_service());
        }
        // The root was mounted before anybody could log, and the socket comes after it.
        if *self.merged.name() != known::root_mount() {
            self.logging();
        }
    }

    fn logging(&mut self) {
        if !self.output_is_logged() {
            return;
        }
        if let Some(namespace) = self.merged.text(id!(Exec "LogNamespace")) {
            for socket in ["systemd-journald", "systemd-journald-varlink"] {
                let name = format!("{socket}@{}.socket", escape::escape(&namespace));
                if let Ok(name) = UnitName::parse(&name) {
                    self.add_two(Relation::Requires, Relation::After, name);
                }
            }
        } else {
            self.add(Relation::After, known::journald_socket());
        }
    }

    fn has_private_tmp(&self) -> bool {
        let value = self.merged.text(id!(Exec "PrivateTmp"));
        value.is_some_and(|text| value::boolean(&text) == Ok(true))
    }

    fn output_is_logged(&self) -> bool {
        let asked = |setting| self.merged.text(setting).and_then(|text| value::output(&text).ok());
        let input = self.merged.text(id!(Exec "StandardInput"));
        let output = match asked(id!(Exec "StandardOutput")) {
            None => {
                !passes_output_on(input.as_deref()) && self.defaults.standard_output.is_logged()
            }
            Some(output) => output.is_logged(),
        };
        output || asked(id!(Exec "StandardError")).is_some_and(|error| error.is_logged())
    }

    fn execution_paths(&mut self) {
        for setting in
            [id!(Exec "WorkingDirectory"), id!(Exec "RootDirectory"), id!(Exec "RootImage")]
        {
            let Some(text) = self.merged.text(setting) else { continue };
            // With `-` it may be missing, and nothing is mounted for it.
            if let Ok(path) = value::path(&text) {
                self.mounts_for(&path);
            }
        }
    }

    fn execution_directories(&mut self) {
        let context = self.merged.context();
        let kinds: [(Id, &str); 5] = [
            (id!(Exec "RuntimeDirectory"), &context.runtime_dir),
            (id!(Exec "StateDirectory"), &context.state_dir),
            (id!(Exec "CacheDirectory"), &context.cache_dir),
            (id!(Exec "LogsDirectory"), &context.log_dir),
            (id!(Exec "ConfigurationDirectory"), &context.config_dir),
        ];
        for (setting, base) in kinds {
            let below_var = setting != id!(Exec "RuntimeDirectory")
                && setting != id!(Exec "ConfigurationDirectory");
            if below_var && self.is_system() && self.merged.has(setting) {
                self.add(Relation::After, known::remount_fs_service());
            }
            for (entry, at, word) in self.merged.words(setting) {
                let relative = word.split(':').next().unwrap_or_default();
                match value::path(&format!("{base}/{relative}")) {
                    Ok(path) if !relative.starts_with('/') => self.mounts_for(&path),
                    _ => {
                        let message = format!("'{relative}' is not a relative path");
                        self.merged.fault(&entry, Code::BadValue, &Fault::new(at, message));
                    }
                }
            }
        }
    }
}

/// Whether StandardOutput= defaults to what StandardInput= is connected to.
fn passes_output_on(input: Option<&str>) -> bool {
    input.is_some_and(|text| text.starts_with("tty") || text.starts_with("fd") || text == "socket")
}

/// Whether it is the mount of a place, or of one below it where that counts.
fn is_mount_of(name: &UnitName, place: &str, or_below: bool) -> bool {
    let rest = name.stem().strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || (or_below && rest.starts_with('-')))
}
