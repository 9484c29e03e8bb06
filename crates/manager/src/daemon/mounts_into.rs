//! Clients have something mounted for a service that runs.

use warren_bus::backend::MountInto;
use warren_bus::{BusError, ReplySender};
use warren_core::model::ids::UnitId;
use warren_core::settings::TypeSettings;
use warren_sys::process;

use crate::daemon::Daemon;
use crate::spawn::mounts_into::not_private;

impl Daemon {
    /// For the main process: those of other commands have mounts of their own (systemctl(1), "bind").
    pub(super) fn mount_into(&mut self, unit: UnitId, mount: &MountInto, reply: ReplySender) {
        let process = match self.private_main(unit) {
            Ok(process) => process,
            Err(error) => return reply.send(Err(error)),
        };
        let pidfd = match self.process.table.pidfd(process) {
            Some(held) => held.try_clone_to_owned().map_err(|e| e.to_string()),
            None => process::pidfd_open(process.cast_signed()).map_err(|e| e.what()),
        };
        match pidfd {
            Ok(pidfd) => self.spawning.mounts_into.begin(mount, pidfd, reply),
            Err(why) => reply.send(Err(BusError::failed(why))),
        }
    }

    /// The main process of a service whose processes get mounts of their own.
    fn private_main(&mut self, unit: UnitId) -> Result<u32, BusError> {
        let not_running = || BusError::invalid_args("Unit is not running");
        let graph = self.core.graph().clone();
        let definition = graph.get(unit).ok_or_else(not_running)?;
        let process = self.core.unit_run(unit).main_process().ok_or_else(not_running)?.pid;
        let TypeSettings::Service(config) = self.core.settings().compile_running(definition).own
        else {
            return Err(not_running());
        };
        let has_root = config.exec.root_directory.is_some();
        let is_private = has_root || self.spawning.views.plan(&config.exec).has_mounts();
        if is_private { Ok(process) } else { Err(not_private()) }
    }
}
