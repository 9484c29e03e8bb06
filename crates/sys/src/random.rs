//! Random bytes from the kernel.

/// 128 random bits. Never blocks: before the kernel's pool is ready they are those of two clocks, which are
/// unlikely to come again and can be guessed.
pub fn u128() -> u128 {
    let mut bytes = [0u8; 16];
    let flags = rustix::rand::GetRandomFlags::NONBLOCK;
    if !matches!(rustix::rand::getrandom(&mut bytes, flags), Ok(16)) {
        let clocks = [crate::time::monotonic_ns(), crate::time::realtime_ns()];
        bytes[..8].copy_from_slice(&clocks[0].to_le_bytes());
        bytes[8..].copy_from_slice(&clocks[1].to_le_bytes());
    }
    u128::from_le_bytes(bytes)
}
