//! Charts from an analysis: text, SVG, Chrome's trace format, HTML.
//!
//! Each exporter is a function from one analysis (the text and HTML ones also from two) to a
//! string. [`show`] has what they share: times, dates and the headline. What must not be here: a
//! decision about what was critical, or a rounding that another exporter would do differently.

pub mod chrome;
mod data;
pub mod html;
mod json;
pub mod show;
pub mod svg;
pub mod table;

#[cfg(test)]
mod tests;
