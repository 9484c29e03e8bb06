//! What units of several types can do: freeze, have remarks, leave files behind, be limited.
//!
//! Owns: one file a feature, with its rules as functions over the parts of the machine.
//! Must not: know how a unit of one type starts or stops; that is in `types`.

pub(crate) mod cgroup_place;
pub mod cleanup;
pub(crate) mod command_lines;
pub(crate) mod connections;
pub(crate) mod device_sight;
pub(crate) mod dynamic_user;
pub mod ephemeral_root;
pub(crate) mod freezer;
pub(crate) mod ipc;
pub(crate) mod limits;
pub mod private_tmp;
pub(crate) mod remarks;
pub mod restart_mode;
pub(crate) mod runtime_limit;
pub(crate) mod shutdown_state;
pub(crate) mod slice_limits;
pub(crate) mod start_limit;
pub(crate) mod stop_budget;
pub(crate) mod survival;
