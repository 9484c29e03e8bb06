//! What the messages of measurements say.

/// Texts of a corpus, half of their digits drawn anew, or made up.
pub fn texts() -> std::io::Result<Vec<String>> {
    const COUNT: usize = 200_000;
    let shapes: Vec<String> = match std::env::var("CORPUS") {
        Ok(path) => {
            let lines = String::from_utf8_lossy(&std::fs::read(path)?).into_owned();
            lines
                .lines()
                .filter_map(|line| line.split_once('\t'))
                .map(|(_, text)| text.to_owned())
                .collect()
        }
        Err(_) => SHAPES.iter().map(|shape| (*shape).to_owned()).collect(),
    };
    let mut state = 1u64;
    let mut random = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    Ok((0..COUNT)
        .map(|at| {
            let digit = |c: char| match c.is_ascii_digit() && random() % 2 == 0 {
                true => char::from(b'0' + (random() % 10) as u8),
                false => c,
            };
            shapes[at % shapes.len()].chars().map(digit).collect()
        })
        .collect())
}

const SHAPES: [&str; 8] = [
    "Accepted publickey for deploy from 10.24.117.203 port 53122 ssh2: RSA 8f3a11",
    "pam_unix(sshd:session): session opened for user root(uid=0) by (uid=0)",
    "GET /api/v2/items/48213?page=17 200 0.0231 s 10.3.77.12 \"curl/8.4.0\"",
    "connect to upstream 192.168.40.17:8080 failed (111: Connection refused)",
    "worker 4711: job 98231-22 finished in 0.482 s, 18233 rows, 0 errors",
    "checkpoint complete: wrote 2293 buffers (14.0%); sync=0.021 s, total=3.330 s",
    "[17823.229117] eth0: link up, 1000 Mbps, full duplex, flow control rx/tx",
    "cache miss for key user:83112:profile, fetched from replica 3 in 12 ms",
];
