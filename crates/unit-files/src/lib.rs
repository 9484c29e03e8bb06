//! What a host's disk says about units, for its users: the manager, `warren verify`,
//! `warren enable --root=`.
//!
//! `warren-unit` is pure; this is what it asks. It must not know what units do, nor keep anything:
//! the manager's ground state, which is watched, is the manager's own. Start at [`Root`], through
//! which everything is found that may lie in the file system of another machine; [`tree()`] lists,
//! [`carry_out`] changes.

mod change;
mod host;
mod manager_file;
mod presets;
mod root;
mod search;
mod tree;

pub use change::{absolute_target, carry_out};
pub use host::context;
pub use manager_file::read as manager_defaults;
pub use presets::{read as presets, read_for as presets_for};
pub use root::Root;
pub use search::{
    Places, config_directories, is_configuration, same_directory, search_directories,
    search_environment,
};
pub use tree::{add_named_files, tree};
