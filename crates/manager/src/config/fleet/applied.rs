//! What rules made, and how it differs from what they made before.

use std::collections::BTreeSet;

use warren_fleet::made::Product;

/// What rules made, by path below the layer's directory.
pub type Applied = imbl::OrdMap<Box<str>, Product>;

/// Paths of what differs between two states of the layer.
pub(super) type Paths = BTreeSet<Box<str>>;

/// What rules made before a load and after it.
#[derive(Clone, Debug)]
pub struct RulesChange {
    /// Before.
    pub before: Applied,
    /// After.
    pub after: Applied,
}
