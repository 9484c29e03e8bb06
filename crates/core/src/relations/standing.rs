//! Relations that hold all the time: `Upholds=`, `BindsTo=`, `StopWhenUnneeded=` (systemd.unit(5)).
