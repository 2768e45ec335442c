//! What is no longer needed and large: freeing it costs by the number of chunks, which nobody
//! should wait for.

use std::any::Any;

use parking_lot::Mutex;

/// So many things at most wait to be freed; further ones are freed at once.
const MOST: usize = 256;

/// Things to be freed by a tick.
#[derive(Default)]
pub(super) struct Later(Mutex<Vec<Box<dyn Any + Send>>>);

impl Later {
    /// Frees it later.
    pub(super) fn free<T: Send + 'static>(&self, thing: T) {
        let thing: Box<dyn Any + Send> = Box::new(thing);
        let mut waiting = self.0.lock();
        if waiting.len() < MOST {
            waiting.push(thing);
            return;
        }
        drop(waiting);
        drop(thing);
    }

    /// Frees what waits.
    pub(super) fn now(&self) {
        let waiting = std::mem::take(&mut *self.0.lock());
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn no_more_wait_than_there_is_room_for_and_all_are_freed() {
        let (later, thing) = (Later::default(), Arc::new(()));
        for _ in 0..MOST + 3 {
            later.free(Arc::clone(&thing));
        }
        assert_eq!(Arc::strong_count(&thing), MOST + 1);
        later.now();
        assert_eq!(Arc::strong_count(&thing), 1);
    }
}
