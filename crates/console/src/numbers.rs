//! Numbers in few columns.

/// A number of bytes in at most five characters, with a unit of 1,024.
pub fn bytes(count: u64) -> String {
    let (mut value, mut units) = (count as f64, "BKMGTPE".chars());
    let mut unit = units.next();
    while value >= 999.5
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1024.0, Some(next));
    }
    let unit = unit.unwrap_or('E');
    match unit != 'B' && value < 9.95 {
        true => format!("{value:.1}{unit}"),
        false => format!("{value:.0}{unit}"),
    }
}

/// A share of one processor in percent, in at most five characters.
pub fn percent(share: f32) -> String {
    match share {
        ..99.95 => format!("{share:.1}"),
        _ => format!("{share:.0}"),
    }
}

/// A span of time in seconds or its two largest units.
pub fn span(us: u64) -> String {
    let seconds = us / 1_000_000;
    let two = |large: u64, unit: char, small: u64, of: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{of}"),
    };
    match seconds {
        0 => format!("{}ms", us / 1000),
        1..60 if us < 10_000_000 => format!("{:.1}s", us as f64 / 1e6),
        1..60 => format!("{seconds}s"),
        60..3600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3600..86_400 => two(seconds / 3600, 'h', seconds / 60 % 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds / 3600 % 24, 'h'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_short() {
        let sizes = [0, 999, 1000, 1536, 10 << 20, 3 << 30, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0B", "999B", "1.0K", "1.5K", "10M", "3.0G", "16E"]);
        assert_eq!([0.0, 7.25, 99.9, 1600.4].map(percent), ["0.0", "7.2", "99.9", "1600"]);
        let spans = [900, 42_000, 1_500_000, 42_000_000, 61_000_000, 7_260_000_000, 90_000_000_000];
        assert_eq!(spans.map(span), ["0ms", "42ms", "1.5s", "42s", "1m1s", "2h1m", "1d1h"]);
    }
}
