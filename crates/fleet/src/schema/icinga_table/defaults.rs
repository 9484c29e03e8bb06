//! What writers write when nobody says it: long texts, as a dump of 2.13.6 shows them.

use crate::types::{Entry, Unset};

/// A point of a host in a time series.
pub(super) const HOST_POINTS: Unset = Unset::Entries(&[
    ("measurement", Entry::Text("$host.check_command$")),
    ("tags", Entry::Entries(&[("hostname", Entry::Text("$host.name$"))])),
]);

/// A point of a service in a time series.
pub(super) const SERVICE_POINTS: Unset = Unset::Entries(&[
    ("measurement", Entry::Text("$service.check_command$")),
    (
        "tags",
        Entry::Entries(&[
            ("hostname", Entry::Text("$host.name$")),
            ("service", Entry::Text("$service.name$")),
        ]),
    ),
]);

/// A line of performance data of a host.
pub(super) const HOST_FORMAT: &str = "DATATYPE::HOSTPERFDATA\tTIMET::$host.last_check$\tHOSTNAME::$host.name$\t\
    HOSTPERFDATA::$host.perfdata$\tHOSTCHECKCOMMAND::$host.check_command$\tHOSTSTATE::$host.state$\t\
    HOSTSTATETYPE::$host.state_type$";

/// A line of performance data of a service.
pub(super) const SERVICE_FORMAT: &str = "DATATYPE::SERVICEPERFDATA\tTIMET::$service.last_check$\t\
    HOSTNAME::$host.name$\tSERVICEDESC::$service.name$\tSERVICEPERFDATA::$service.perfdata$\t\
    SERVICECHECKCOMMAND::$service.check_command$\tHOSTSTATE::$host.state$\tHOSTSTATETYPE::$host.state_type$\t\
    SERVICESTATE::$service.state$\tSERVICESTATETYPE::$service.state_type$";
