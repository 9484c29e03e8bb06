//! The greeting of the bus; messages are the bus's own target.

use warren_bus::sasl::{Greeting, MAX_GREETING_BYTES, NoGreeting};

/// Reads bytes as a greeting, all at once and one by one.
///
/// # Panics
/// If pieces change what is understood, or answers are longer than what was said allows.
pub fn greeting(data: &[u8]) {
    let whole = greet(data, data.len());
    // An overlong greeting is refused at another place when it comes in pieces.
    if data.len() <= MAX_GREETING_BYTES {
        assert_eq!(whole, greet(data, 1), "pieces change nothing");
    }
}

/// Whether messages follow, whether descriptors do, and the answers; `piece` bytes come at once.
fn greet(data: &[u8], piece: usize) -> Result<(bool, bool, Vec<u8>), NoGreeting> {
    let mut greeting = Greeting::new(1000, [b'0'; 32]);
    greeting.allow_fds();
    let (mut answer, mut received) = (Vec::new(), Vec::new());
    for part in data.chunks(piece.max(1)) {
        received.extend_from_slice(part);
        let used = greeting.feed(&received, &mut answer)?;
        assert!(used <= received.len() && answer.len() <= 64 * (data.len() + 1));
        received.drain(..used);
        if greeting.is_done() {
            break;
        }
    }
    Ok((greeting.is_done(), greeting.has_fds(), answer))
}
