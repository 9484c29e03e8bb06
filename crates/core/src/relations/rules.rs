//! Rules of `[X-Warren]`: units that stop one another, and that return when a rule allows it.
