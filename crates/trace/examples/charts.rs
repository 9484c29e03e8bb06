//! Writes charts of made-up recordings: `cargo run -p warren-trace --example charts -- DIRECTORY
//! SETS`. What the browser test opens, and what one looks at while working on a chart.

use std::error::Error;
use std::path::Path;

use warren_trace::analysis::Analysis;
use warren_trace::analysis::repeat::Repeats;
use warren_trace::export::{chrome, html, svg, table};
use warren_trace::sample::host;
use warren_trace::words::Subject;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, sets] = words.as_slice() else {
        return Err("usage: charts DIRECTORY SETS".into());
    };
    let directory = Path::new(directory);
    let sets: usize = sets.parse()?;
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text);

    let boot = host(Subject::Boot, sets, 1).record();
    let boot = Analysis::of(&boot);
    write("boot.html", html::html(&boot))?;
    write("boot.svg", svg::svg(&boot))?;
    write("boot.json", chrome::chrome(&boot))?;
    write("boot.txt", table::table(&boot))?;

    let shutdown = host(Subject::Shutdown, sets, 1).record();
    let shutdown = Analysis::of(&shutdown);
    write("shutdown.html", html::html(&shutdown))?;
    write("shutdown.svg", svg::svg(&shutdown))?;
    write("shutdown.txt", table::table(&shutdown))?;

    let mut other = host(Subject::Boot, sets + 1, 2);
    other.units[2].own_us /= 3;
    let other = other.record();
    let other = Analysis::of(&other);
    write("compare.html", html::compared(&boot, &other))?;
    write("compare.txt", table::compared(&boot, &other))?;

    let mut repeats = Repeats::default();
    repeats.add(&boot);
    repeats.add(&other);
    write("repeat.html", html::repeated(&boot, &repeats))?;
    write("repeat.json", chrome::repeated(&boot, &repeats))?;
    write("repeat.txt", table::repeated(&boot, &repeats))?;
    Ok(())
}
