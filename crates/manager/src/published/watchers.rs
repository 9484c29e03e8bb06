//! Who is woken when something new is published.

use crate::base::answers::Bell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bells of threads that look at something when it is new.
#[derive(Debug, Default)]
pub struct Watchers(Mutex<Vec<Weak<Bell>>>);

/// A bell rings each time until this is gone.
#[derive(Debug)]
pub struct Watch<'a> {
    watchers: &'a Watchers,
    bell: Weak<Bell>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let mut watchers = self.watchers.lock();
        if let Some(at) = watchers.iter().position(|watcher| watcher.ptr_eq(&self.bell)) {
            watchers.swap_remove(at);
        }
    }
}

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Bell>>> {
        // Nothing that holds it panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a bell ring each time, for as long as the value is kept.
    pub fn watch(&self, bell: &Arc<Bell>) -> Watch<'_> {
        let bell = Arc::downgrade(bell);
        self.lock().push(bell.clone());
        Watch { watchers: self, bell }
    }

    /// Rings all bells.
    pub fn wake(&self) {
        self.lock().retain(|watcher| {
            watcher.upgrade().is_some_and(|bell| {
                bell.ring();
                true
            })
        });
    }
}
