//! A client by its user and process.

use crate::base::server_mounts::process;
use warren_core::protocol::request::Asker;

/// A client by its user and process.
pub(crate) fn client(asker: Asker) -> String {
    let user = match asker.uid {
        0 => "root".to_owned(),
        uid => format!("user {uid}"),
    };
    match asker.pid {
        0 => "the manager".to_owned(),
        Asker::OUTSIDE => format!("{user} from outside"),
        pid => format!("{user} ({})", process(pid)),
    }
}
