//! The summary of a shutdown, in the words of its chart: from the same events, by the same analysis.

use warren_trace::analysis::Analysis;
use warren_trace::export::show;
use warren_trace::record::Recording;

use crate::recording::files::{Material, recording};

/// How long it took, of what, and how many units it was; without a full stop.
pub fn words(material: Material) -> String {
    // Who waited for whom was recorded; the order of all units would cost more than the rest.
    let recording = Recording { edges: Vec::new(), ..recording(material) };
    show::words(&Analysis::of(&recording))
}
