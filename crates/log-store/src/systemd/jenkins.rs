//! Bob Jenkins' lookup3 (public domain, burtleburtle.net/bob/c/lookup3.c), which `.journal` files
//! without keyed hashes use.

/// Both words of `hashlittle2` with seeds 0, the first one as the high half.
pub fn hash64(data: &[u8]) -> u64 {
    let seed = 0xdead_beef_u32.wrapping_add(data.len() as u32);
    let mut state = [seed; 3];
    let mut rest = data;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        add(&mut state, block);
        mix(&mut state);
        rest = after;
    }
    if !rest.is_empty() {
        add(&mut state, rest);
        finish(&mut state);
    }
    let [_, b, c] = state;
    u64::from(c) << 32 | u64::from(b)
}

/// Adds up to 12 bytes as three words.
fn add(state: &mut [u32; 3], bytes: &[u8]) {
    for (word, part) in state.iter_mut().zip(bytes.chunks(4)) {
        let mut filled = [0; 4];
        filled[..part.len()].copy_from_slice(part);
        *word = word.wrapping_add(u32::from_le_bytes(filled));
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, by: u32| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(by);
        *z = z.wrapping_add(*y);
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, by: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(by));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}

#[cfg(test)]
mod tests {
    use super::hash64;

    #[test]
    fn what_its_author_computed() {
        // lookup3.c, driver5(): c and b of hashlittle2 with both seeds 0.
        assert_eq!(hash64(b""), 0xdeadbeef_deadbeef);
        assert_eq!(hash64(b"Four score and seven years ago"), 0x17770551_ce7226e6);
    }
}
