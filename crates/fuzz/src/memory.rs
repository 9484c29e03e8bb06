//! How much memory a target may take.

use std::sync::Mutex;

use peak_alloc::PeakAlloc;

use crate::Target;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Memory is counted for the whole process, so one target runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a target over an input.
///
/// # Panics
/// If a property is broken, or the target had more memory at once than it may for so many bytes.
pub fn run(target: &Target, data: &[u8]) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    (target.run)(data);
    let bytes = ALLOCATOR.peak_usage().saturating_sub(before);
    let bytes_max = target.bytes_max(data.len());
    let (name, length) = (target.name, data.len());
    assert!(
        bytes <= bytes_max,
        "{name} took {bytes} bytes of memory for {length} bytes, at most {bytes_max}"
    );
}
