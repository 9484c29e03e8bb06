//! What a fuzzer calls: what reads the bytes of clients, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_log_daemon::fuzz::input(data));` is a whole target.

/// Reads bytes as a datagram, as a syslog line and as an output stream cut in two.
///
/// # Panics
/// If a client gets a reserved or invalid name in, or a stream reads differently when it is cut.
pub fn input(data: &[u8]) {
    use crate::input::stream::{Header, LINE_BYTES_DEFAULT, LineBreak, Stream};
    use crate::input::{native, stream, syslog};
    let _ = crate::input::audit::parse(data);
    let parsed = native::parse(data);
    let names = parsed.entries.iter().flat_map(|fields| fields.iter().map(|field| field.0));
    names.for_each(|name| assert!(warren_log_store::entry::is_valid_name(name) && name[0] != b'_'));
    let line = syslog::parse(data);
    assert!(line.get("MESSAGE").is_some() && line.get("PRIORITY").is_some());
    let read = |pieces: [&[u8]; 2]| {
        let (mut reader, mut lines) = (Stream::new(LINE_BYTES_DEFAULT), Vec::new());
        let mut note = |header: &Header, text: &[u8], line_break: LineBreak| {
            lines.push(stream::fields(header, text, line_break));
        };
        let good = pieces.iter().all(|piece| reader.push(piece, &mut note).is_ok());
        if good {
            reader.cut(LineBreak::Eof, &mut note);
        }
        (lines, good)
    };
    let (whole, cut) = (read([data, b""]), data.split_at(data.len() / 2));
    assert_eq!(whole, read([cut.0, cut.1]));
}

/// Reads bytes as a message of the manager about streams, units and entries, and as a record of the kernel.
pub fn handover(data: &[u8]) {
    let (packets, faults) = crate::input::handover::parse(data);
    assert!(packets.len() + faults.len() <= data.len() + 1, "each takes some bytes");
    let _ = crate::input::kmsg::parse(data);
    let _ = crate::input::command_line::of(data);
}

/// Reads bytes as memory that a log daemon left, and as the records of one frame of it.
///
/// # Panics
/// If it is read beyond its end.
pub fn pending(data: &[u8]) {
    use crate::input::pending::read;
    assert!(read(data).1 <= data.len());
    let mut framed = (data.len() as u32).to_le_bytes().to_vec();
    framed.extend(crc32fast::hash(data).to_le_bytes());
    framed.extend_from_slice(data);
    let (content, end) = read(&framed);
    assert!(end == 0 || end == framed.len());
    assert!(content.entries.len() <= data.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_log_store::store::fault::Numbers;

    /// How many inputs a test makes.
    const INPUTS: usize = 2_000;

    #[test]
    fn made_up_inputs_do_no_harm() {
        let mut numbers = Numbers(14);
        let pieces: [&[u8]; 16] = [
            b"MESSAGE=",
            b"\n",
            b"A\n",
            b"\x03\0\0\0\0\0\0\0",
            b"abc",
            b"\0",
            b"<30>",
            b"tag[7]: ",
            b"Feb  5 17:32:18 ",
            b"id\nunit\n6\n1\n0\n0\n0\n",
            b"_PID=1",
            b"=",
            b"\xff",
            b"<999>",
            &[b'x'; 3000],
            b"\n\n",
        ];
        for _ in 0..INPUTS {
            let made: Vec<&[u8]> =
                (0..numbers.below(9)).map(|_| pieces[numbers.below(16)]).collect();
            input(&made.concat());
            let header: &[u8] = b"id\nunit\n6\n1\n0\n0\n0\n";
            input(&[header, &made.concat()].concat());
        }
    }
}
