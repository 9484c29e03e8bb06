//! Metrics as text: that of Prometheus (0.0.4), which every reader takes, and OpenMetrics 1.0. Pure.
//!
//! Own code, since the crates for it keep the values themselves, one object for each series, and write one of the two
//! formats each.

use std::fmt::{Display, Write};

use crate::family::{Family, Kind};

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a client with that `Accept:`: OpenMetrics for who names it.
    pub fn accepted(accept: &str) -> Format {
        match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Text,
        }
    }

    /// Its `Content-Type:`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes metrics down.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    text: String,
    series: usize,
}

impl Exposition {
    /// With nothing in it.
    pub fn new(format: Format) -> Exposition {
        Exposition { format, text: String::with_capacity(64 << 10), series: 0 }
    }

    /// A metric with all its series: the values of its labels, and its value. Nothing where there are none.
    pub fn family<'a, L, V>(&mut self, family: &Family, series: impl IntoIterator<Item = (L, V)>)
    where
        L: AsRef<[&'a str]>,
        V: Display,
    {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return;
        }
        self.head(family);
        let end = if family.kind == Kind::Counter { "_total" } else { "" };
        for (values, value) in series {
            assert_eq!(values.as_ref().len(), family.labels.len(), "{}", family.name);
            self.text.push_str(family.name);
            self.text.push_str(end);
            self.labels(family.labels.iter().copied().zip(values.as_ref().iter().copied()));
            let _ = writeln!(self.text, " {value}");
            self.series += 1;
        }
    }

    /// A metric with one series and no labels.
    pub fn one(&mut self, family: &Family, value: impl Display) {
        self.family::<[&str; 0], _>(family, [([], value)]);
    }

    /// A histogram of times: upper bounds in µs, one count more than bounds, and the sum of all in µs.
    pub fn histogram(&mut self, family: &Family, bounds_us: &[u64], counts: &[u64], sum_us: u64) {
        self.head(family);
        let mut so_far = 0;
        let bounds = bounds_us.iter().map(|us| seconds(*us)).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(counts) {
            so_far += count;
            let _ = writeln!(self.text, "{}_bucket{{le=\"{bound}\"}} {so_far}", family.name);
            self.series += 1;
        }
        let _ = writeln!(self.text, "{}_sum {}", family.name, seconds(sum_us));
        let _ = writeln!(self.text, "{}_count {so_far}", family.name);
        self.series += 2;
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.series
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn head(&mut self, family: &Family) {
        let is_total = self.format == Format::Text && family.kind == Kind::Counter;
        let end = if is_total { "_total" } else { "" };
        let (name, kind) = (family.name, family.kind.as_str());
        let _ = writeln!(self.text, "# HELP {name}{end} {}", family.help);
        let _ = writeln!(self.text, "# TYPE {name}{end} {kind}");
    }

    fn labels<'a>(&mut self, labels: impl Iterator<Item = (&'static str, &'a str)>) {
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            before = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            for c in value.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if before == ',' {
            self.text.push('}');
        }
    }
}

/// µs as seconds, exactly: no digit is made up or lost.
pub fn seconds(us: u64) -> String {
    let (whole, rest) = (us / 1_000_000, us % 1_000_000);
    match rest {
        0 => format!("{whole}"),
        _ => format!("{whole}.{}", format!("{rest:06}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{FAILURES, JOBS, TURNS, UP};

    fn check(format: Format, expected: &str) {
        let mut out = Exposition::new(format);
        out.one(&UP, 1);
        out.family(&JOBS, [(["a \"b\" \\ c\nd"], 5)]);
        out.family(&FAILURES, [(["WR-0030"], 2)]);
        out.family::<[&str; 1], u64>(&JOBS, []);
        out.histogram(&TURNS, &[100, 1_500_000], &[2, 1, 4], 2_000_001);
        assert_eq!(out.series(), 8);
        let text = out.finish();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(samples.join("\n"), expected);
    }

    #[test]
    fn both_formats() {
        let samples = "warren_unit_failures_total{code=\"WR-0030\"} 2\n\
            # TYPE warren_manager_turn_seconds histogram\n\
            warren_manager_turn_seconds_bucket{le=\"0.0001\"} 2\n\
            warren_manager_turn_seconds_bucket{le=\"1.5\"} 3\n\
            warren_manager_turn_seconds_bucket{le=\"+Inf\"} 7\n\
            warren_manager_turn_seconds_sum 2.000001\n\
            warren_manager_turn_seconds_count 7";
        let first = "# TYPE warren_up gauge\nwarren_up 1\n# TYPE warren_jobs gauge\n\
            warren_jobs{state=\"a \\\"b\\\" \\\\ c\\nd\"} 5\n";
        let text = format!("{first}# TYPE warren_unit_failures_total counter\n{samples}");
        check(Format::Text, &text);
        let open = format!("{first}# TYPE warren_unit_failures counter\n{samples}\n# EOF");
        check(Format::OpenMetrics, &open);
    }

    #[test]
    fn seconds_are_exact() {
        for (us, expected) in [(0, "0"), (1, "0.000001"), (1_000_000, "1"), (61_250_000, "61.25")] {
            assert_eq!(seconds(us), expected);
        }
        assert_eq!(seconds(u64::MAX), "18446744073709.551615");
    }

    #[test]
    fn who_names_openmetrics_gets_it() {
        let of_prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
            version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(of_prometheus), Format::OpenMetrics);
        assert_eq!(Format::accepted("*/*"), Format::Text);
        assert_eq!(Format::accepted(""), Format::Text);
    }
}
