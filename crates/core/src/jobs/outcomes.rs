//! What the end of a run starts: `OnFailure=`, `OnSuccess=` and the actions of the same kind (systemd.unit(5)).
