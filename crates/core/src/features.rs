//! What units of several types can do: freeze, be marked, leave files behind, be limited.
//!
//! Owns: one file a feature, each with what it adds to the machine.
//! Must not: know how a unit of one type starts or stops; that is in `types`.

mod admin_marks;
mod cgroup_place;
pub mod cleanup;
mod command_lines;
mod dependency_groups;
mod edited_times;
mod freezer;
mod limits;
mod runtime_limit;
mod shutdown_state;
pub(crate) mod stop_budget;
mod unit_gc;
