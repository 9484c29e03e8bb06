//! The generation that a manager begins with: made of the files, or, after the death of the last
//! incarnation, the one that was in force then.
//!
//! In the second case the files are looked at afterwards, by the loader's thread: what was edited
//! meanwhile waits for a reload, as it would have without the crash.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use warren_core::graph::Graph;
use warren_core::persist::run_state::Restored;
use warren_core::settings::Settings;
use warren_unit::{Diagnostic, UnitName};

use crate::config::fleet;
use crate::config::fleet::{Applied, Fleet};
use crate::config::generation_file::GenerationFile;
use crate::config::loader::Loader;
use crate::mount::kernel_mounts::FoundMounts;

/// What was found.
pub struct First {
    /// The generation.
    pub graph: Arc<Graph>,
    /// Where it and those after it are written down.
    pub file: GenerationFile,
    /// What is wrong with the files, if they were read.
    pub diagnostics: Vec<Diagnostic>,
    /// What rules made; nothing as long as the loader has not evaluated those in force again.
    pub applied: Applied,
    /// The search directories, highest precedence first.
    pub paths: Vec<PathBuf>,
    /// Those of them that lie on a disk.
    pub paths_on_disk: Vec<PathBuf>,
    rest: Rest,
}

/// What is still to be done for a loader.
enum Rest {
    Nothing(Box<Loader>),
    Read {
        paths: Vec<PathBuf>,
        settings: Settings,
        fleet: Box<Option<Fleet>>,
        mounts: Receiver<FoundMounts>,
    },
}

impl First {
    /// What is in writing of the generation that was in force, or a new file.
    ///
    /// # Errors
    /// Nothing can be written down.
    pub fn open_file(
        restored: Option<&Restored>,
        written: Option<OwnedFd>,
    ) -> Result<GenerationFile, warren_sys::Error> {
        let (names, generation) = known(restored);
        match written {
            Some(fd) => Ok(GenerationFile::open(fd, names, generation)),
            None => GenerationFile::create(),
        }
    }

    /// Takes what is in writing, or reads the files. What is mounted is waited for where it is
    /// needed: nothing, if it cannot be found out.
    pub fn find(
        paths: Vec<PathBuf>,
        fleet: Option<Fleet>,
        settings: &Settings,
        restored: Option<&Restored>,
        file: GenerationFile,
        mounts: Receiver<FoundMounts>,
    ) -> First {
        if let Some(graph) = file.graph().cloned() {
            let rest =
                Rest::Read { paths, settings: settings.clone(), fleet: Box::new(fleet), mounts };
            return First::kept(graph, file, rest);
        }
        let (names, generation) = known(restored);
        let names = Arc::new(Graph::with_names(names).renumbered(generation));
        let mounts = mounts.recv().unwrap_or_default();
        let loader = Loader::new(paths, settings.clone(), fleet, mounts);
        let mut first = First::from_files(&names, file, loader);
        if let Some(restored) = restored {
            let running = restored.runs.iter().filter(|(_, run)| !run.active_state().is_down());
            let graph = Arc::unwrap_or_clone(first.graph);
            first.graph = Arc::new(graph.with_running(running.map(|(&unit, _)| unit)));
        }
        first
    }

    fn kept(graph: Arc<Graph>, file: GenerationFile, rest: Rest) -> First {
        let (mut paths, mut paths_on_disk) = (Vec::new(), Vec::new());
        if let Rest::Read { paths: on_disk, fleet, .. } = &rest {
            paths_on_disk.clone_from(on_disk);
            paths.clone_from(on_disk);
            if let Some(fleet) = &**fleet {
                paths.insert(fleet::place_in(&paths), fleet.directory().to_owned());
            }
        }
        let (diagnostics, applied) = (Vec::new(), Applied::new());
        First { graph, file, diagnostics, applied, paths, paths_on_disk, rest }
    }

    fn from_files(names: &Arc<Graph>, file: GenerationFile, mut loader: Loader) -> First {
        let loading = loader.load_all(names);
        First {
            graph: loading.graph,
            file,
            diagnostics: loading.diagnostics,
            applied: loader.applied(),
            paths: loader.paths(),
            paths_on_disk: loader.paths_on_disk(),
            rest: Rest::Nothing(Box::new(loader)),
        }
    }

    /// What the loader's thread goes on with. Takes as long as reading all files, where they were
    /// not read yet.
    pub fn into_loader(self) -> (Loader, Arc<Graph>, GenerationFile) {
        let loader = match self.rest {
            Rest::Nothing(loader) => *loader,
            Rest::Read { paths, settings, fleet, mounts } => {
                let mounts = mounts.recv().unwrap_or_default();
                Loader::resumed(paths, settings, *fleet, mounts, &self.graph)
            }
        };
        (loader, self.graph, self.file)
    }
}

/// Names by id, and the number of the generation, as far as the last incarnation left them.
fn known(restored: Option<&Restored>) -> (Vec<Option<UnitName>>, u64) {
    let names = restored.map(|r| r.names.clone()).unwrap_or_default();
    (names, restored.and_then(|r| r.manager).map_or(0, |m| m.generation))
}
