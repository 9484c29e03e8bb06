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

/// How the manager's lines on the console look, as far as something is said of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStyle {
    /// LogColor=: lines on a terminal have a colour by how grave they are.
    pub color: Option<bool>,
    /// LogLocation=: they say where in the manager's code they come from.
    pub location: Option<bool>,
    /// LogTime=: they begin with the time.
    pub time: Option<bool>,
}

impl LineStyle {
    /// What is said here, and where nothing is, what the other says.
    pub fn or(self, other: LineStyle) -> LineStyle {
        LineStyle {
            color: self.color.or(other.color),
            location: self.location.or(other.location),
            time: self.time.or(other.time),
        }
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
