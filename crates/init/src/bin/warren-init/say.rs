//! Lines on the console.

/// A line on the console. Nothing can be done when that fails.
pub fn say(message: &str) {
    warren_sys::terminal::say(format!("warren-init: {message}\n").as_bytes());
}
