//! [`Few`]: a list that is nearly always short, and then takes no memory of its own.

use std::array;
use std::iter::{Chain, Flatten};
use std::slice;
use std::vec;

/// How many there may be before memory is asked for.
const INLINE: usize = 4;

/// A list whose first items are held inline.
#[derive(Clone, Debug)]
pub struct Few<T> {
    first: [Option<T>; INLINE],
    /// Empty until the inline places are taken.
    more: Vec<T>,
}

impl<T> Few<T> {
    pub const fn new() -> Self {
        Self { first: [const { None }; INLINE], more: Vec::new() }
    }

    pub fn push(&mut self, item: T) {
        match self.first.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(item),
            None => self.more.push(item),
        }
    }

    pub fn iter(&self) -> Chain<Flatten<slice::Iter<'_, Option<T>>>, slice::Iter<'_, T>> {
        self.first.iter().flatten().chain(&self.more)
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.first[0].is_none()
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::new();
        few.extend(items);
        few
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = Chain<Flatten<array::IntoIter<Option<T>, INLINE>>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().flatten().chain(self.more)
    }
}

#[cfg(all(test, not(tollgate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_beyond_the_inline_places() {
        for len in 0..10 {
            let few: Few<usize> = (0..len).collect();
            assert_eq!((few.len(), few.is_empty(), few.more.len()), (len, len == 0, len.saturating_sub(INLINE)));
            assert!(few.iter().copied().eq(0..len));
            assert!(few.into_iter().eq(0..len));
        }
    }
}
