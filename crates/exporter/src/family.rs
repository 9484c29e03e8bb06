//! The one table of metrics: what each is called, what it counts, and by what it is told apart. The reference page is
//! made of it. Pure.

/// What kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, until the program behind it is started again.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of what took no longer than each bound.
    Histogram,
}

impl Kind {
    /// The word of the formats.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// Its name; the samples of a counter have `_total` behind it.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it is, in one sentence.
    pub help: &'static str,
}

/// Makes a constant for each metric, and the table of all.
macro_rules! families {
    ($($constant:ident $kind:ident $name:literal [$($label:literal)*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Family = Family {
                name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help,
            };
        )*

        /// All of them, in the order in which they are written.
        pub const ALL: &[Family] = &[$($constant),*];
    };
}

families! {
    UP Gauge "warren_up" [] "1 if the manager answered, else 0.";
    BUILD Gauge "warren_build_info" ["version"] "1, with the version of the manager.";
    HOST Gauge "warren_host_state" ["state"] "1 for the state of the host that systemctl is-system-running prints, 0 for the others.";
    STOPPING Gauge "warren_stopping" [] "1 while everything is being stopped.";
    MANAGER_RESTARTS Counter "warren_manager_restarts" [] "How often init started a manager again.";
    MANAGER_CPU Counter "warren_manager_cpu_seconds" [] "CPU time of the manager.";
    MANAGER_MEMORY Gauge "warren_manager_resident_bytes" [] "Resident memory of the manager.";
    MANAGER_FDS Gauge "warren_manager_open_fds" [] "Descriptors that the manager has open; from Linux 6.2 on.";
    MANAGER_FDS_MAX Gauge "warren_manager_max_fds" [] "Descriptors that the manager may have open.";
    TURNS Histogram "warren_manager_turn_seconds" [] "How long the manager's loop was at work between two waits.";
    GENERATION Gauge "warren_generation" [] "Number of the generation of unit files that is in force.";
    RELOADS Counter "warren_reloads" [] "Reloads that were put in force.";
    RELOADS_SECONDS Counter "warren_reload_seconds" [] "How long all reloads took.";
    RELOADS_LOOP Counter "warren_reload_loop_seconds" [] "How long reloads held up the manager's loop.";
    RELOAD_LAST Gauge "warren_reload_last_seconds" [] "How long the last reload took.";
    RELOAD_LAST_LOOP Gauge "warren_reload_last_loop_seconds" [] "How long the last reload held up the manager's loop.";
    RELOAD_NOW Gauge "warren_reload_under_way_seconds" [] "For how long a reload has been under way; 0 if none is.";
    JOBS Gauge "warren_jobs" ["state"] "Jobs that are running, and jobs that are waiting.";
    JOB_AGE Gauge "warren_job_oldest_seconds" ["state"] "Age of the oldest job that is running, and of the oldest that is waiting.";
    JOBS_MADE Counter "warren_jobs_made" [] "Jobs that were made, by all managers since init began.";
    JOBS_FAILED Counter "warren_jobs_failed" [] "Jobs that failed, with those of earlier managers.";
    LOADED Gauge "warren_units_loaded" [] "Units that are loaded.";
    UNITS Gauge "warren_units" ["type" "state"] "Units by their type and state.";
    FAILURES Counter "warren_unit_failures" ["code"] "How often units failed and were not started again by Restart=, by the reason code.";
    RESTARTS Counter "warren_unit_restarts" ["code"] "How often Restart= started units again, by the reason code with which they had ended.";
    DEVICES_SEEN Gauge "warren_devices_seen" [] "1 if warren-deviced tells the manager of devices.";
    DEVICES_WAITING Gauge "warren_devices_waiting" [] "Devices that jobs wait for.";
    DEVICE_WAIT Gauge "warren_device_wait_seconds" [] "For how long the oldest of them has been waited for.";
    BOOT_LOAD Gauge "warren_boot_load_seconds" [] "How long the first load of unit files took.";
    BOOT Gauge "warren_boot_seconds" [] "How long the boot took, from the start of init to the last of the first jobs; missing until then.";
    BOOT_AT Gauge "warren_boot_finished_timestamp_seconds" [] "When the boot was over; missing until then.";
    SHUTDOWN Gauge "warren_shutdown_last_seconds" [] "How long the last shutdown took that was recorded.";
    TIMERS Gauge "warren_timers" [] "Timers that are loaded.";
    TIMER_NEXT Gauge "warren_timer_next_timestamp_seconds" ["timer"] "When the timer elapses next; missing if it does not.";
    TIMER_LAST Gauge "warren_timer_last_timestamp_seconds" ["timer"] "When the timer elapsed last; missing if it never did.";
    TIMER_MISSED Counter "warren_timer_missed" ["timer"] "Elapses of the timer that started nothing.";
    SLICE_CPU Counter "warren_slice_cpu_seconds" ["slice"] "CPU time of the slice with all below it.";
    SLICE_MEMORY Gauge "warren_slice_memory_bytes" ["slice"] "Memory of the slice with all below it.";
    SLICE_TASKS Gauge "warren_slice_tasks" ["slice"] "Tasks of the slice with all below it.";
    SLICE_READ Counter "warren_slice_read_bytes" ["slice"] "Bytes that the slice read from devices.";
    SLICE_WRITTEN Counter "warren_slice_written_bytes" ["slice"] "Bytes that the slice wrote to devices.";
    SLICE_PRESSURE Counter "warren_slice_pressure_seconds" ["slice" "resource" "kind"] "How long some, or all (full), tasks of the slice waited for the resource.";
    TOP_CPU Counter "warren_top_unit_cpu_seconds" ["unit"] "CPU time of the units that use most.";
    TOP_MEMORY Gauge "warren_top_unit_memory_bytes" ["unit"] "Memory of the units that use most.";
    TOP_TASKS Gauge "warren_top_unit_tasks" ["unit"] "Tasks of the units that use most.";
    TOP_READ Counter "warren_top_unit_read_bytes" ["unit"] "Bytes that the units that use most read from devices.";
    TOP_WRITTEN Counter "warren_top_unit_written_bytes" ["unit"] "Bytes that the units that use most wrote to devices.";
    UNIT_STATE Gauge "warren_unit_state" ["unit" "state" "code"] "1, with the state of a unit that --unit selects and its reason code.";
    UNIT_SINCE Gauge "warren_unit_state_since_timestamp_seconds" ["unit"] "When a selected unit came into its state.";
    UNIT_RESTARTS Gauge "warren_unit_restart_count" ["unit"] "Restarts of a selected unit by Restart= since its last requested start.";
    LOG_UP Gauge "warren_log_up" [] "1 if the log daemon answered the manager, else 0.";
    LOG_ENTRIES Counter "warren_log_entries" [] "Entries that the log daemon took.";
    LOG_BYTES Counter "warren_log_bytes" [] "Bytes of the entries that the log daemon took.";
    LOG_SUPPRESSED Counter "warren_log_suppressed" [] "Entries that a rate limit left out.";
    LOG_UNKEPT Counter "warren_log_unkept" [] "Entries for which neither disk nor memory had room.";
    LOG_LOST Counter "warren_log_lost" ["kind"] "What is not in the log, or not whole, by its kind.";
    LOG_STREAMS Gauge "warren_log_streams" [] "Streams of services that the log daemon has open.";
    LOG_IN_MEMORY Gauge "warren_log_kept_in_memory" [] "1 while entries are kept in memory because the disk takes nothing.";
    LEFT_OUT Gauge "warren_exporter_left_out" ["kind"] "Timers, slices and selected units that have no series of their own, because there are more than the exporter shows.";
    SWEEP_AGE Gauge "warren_exporter_sweep_age_seconds" [] "How old the choice of the units that use most is.";
    SWEEP Gauge "warren_exporter_sweep_seconds" [] "How long the exporter took to look at the cgroups of all units for it.";
    COLLECT Gauge "warren_exporter_collect_seconds" [] "How long it took to collect these metrics.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_formats_take() {
        let mut names: Vec<&str> = ALL.iter().map(|family| family.name).collect();
        for family in ALL {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(
                family.name.starts_with("warren_") && family.name.chars().all(plain),
                "{family:?}"
            );
            assert!(!family.name.ends_with("_total"), "{family:?}: the format adds it");
            assert!(
                family.help.ends_with('.') && !family.help.contains(['\\', '\n', '"']),
                "{family:?}"
            );
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
