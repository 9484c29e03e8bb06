//! What epoll(7) calls each source of a turn.
//! What must not be here: what is done when a source is ready.
//! Pure: read by the receiving thread.

pub const TOKEN_SIGNAL: u64 = 0;
pub const TOKEN_NATIVE: u64 = 1;
pub const TOKEN_SYSLOG: u64 = 2;
pub const TOKEN_STREAM: u64 = 3;
pub const TOKEN_UPKEEP: u64 = 4;
pub const TOKEN_LINK: u64 = 5;
pub const TOKEN_CONTROL: u64 = 6;
pub const TOKEN_KMSG: u64 = 7;
pub const TOKEN_AUDIT: u64 = 8;
pub const TOKEN_MOUNTS: u64 = 9;
/// Some stream of root's or a service's, and of others.
pub const TOKEN_ROOT_STREAMS: u64 = 10;
pub const TOKEN_OTHER_STREAMS: u64 = 11;
/// Streams have this and higher ones, among themselves.
pub const TOKEN_STREAMS: u64 = 16;
/// Connections to the control socket have this and higher ones.
pub const TOKEN_QUESTIONS: u64 = 1 << 63;
