//! The C library's heap: giving back what a burst of work left behind.

/// Few arenas: this program's threads allocate little, and every arena keeps what it once had.
pub fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes plain numbers and is called before other threads exist.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// Large blocks go back to the kernel as soon as they are freed: each has pages of its own. For a program that now and
/// then needs much for a moment; the library would otherwise keep blocks of up to 32 MB after the first of their size
/// (mallopt(3), `M_MMAP_THRESHOLD`).
pub fn return_large_blocks() {
    /// The library's own first limit, in bytes.
    #[cfg(target_env = "gnu")]
    const LARGE: libc::c_int = 128 * 1024;
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes plain numbers and is called before other threads exist.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Gives free memory at the end of the heap and whole free pages inside it back to the kernel.
/// Takes time in proportion to the heap: for after a load or a large answer, not for
/// every turn or call.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
