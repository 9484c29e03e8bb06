//! What a service sees of the file system: from settings to an ordered list of mounts.
//!
//! Owns: what each setting asks for, which of two settings for one path counts, and the order of mounts.
//! Must not: look at the file system; who carries a plan out resolves its paths first.
//! `settings` reads the values of settings into a [`Plan`], `presets` has the paths of those that name none
//! themselves, and [`arrange`] makes the steps of a plan whose paths are resolved.

pub mod arrange;
mod model;
mod presets;
mod settings;
mod tmpfs;

pub use model::{
    Access, Content, Entry, Namespaces, Plan, ProcessVisibility, Processes, Propagation, Purpose,
    Shared, Tmpfs, UserMap,
};
pub use presets::{DEVICE_DIRECTORIES, DEVICE_LINKS, DEVICE_NODES, TEMPORARY, api_file_systems};
pub use settings::{Taken, is_path_setting};

#[cfg(test)]
mod tests;
