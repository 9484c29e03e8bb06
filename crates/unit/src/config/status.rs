//! What the console shows of units while the machine starts and shuts down (systemd-system.conf(5), "ShowStatus=").

words! {
    /// ShowStatus=
    ShowStatus {
        /// Nothing.
        No = "no",
        /// What fails.
        Error = "error",
        /// The same.
        Auto = "auto",
        /// Each unit that starts or stops.
        Yes = "yes",
    }
}

words! {
    /// StatusUnitFormat=
    StatusUnitFormat {
        /// The unit's name.
        Name = "name",
        /// Its description.
        Description = "description",
        /// Both.
        Combined = "combined",
    }
}

impl ShowStatus {
    /// Whether the end of a job is shown that has failed, or not.
    pub fn shows(self, has_failed: bool) -> bool {
        match self {
            ShowStatus::No => false,
            ShowStatus::Error | ShowStatus::Auto => has_failed,
            ShowStatus::Yes => true,
        }
    }
}
