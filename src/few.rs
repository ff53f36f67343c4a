//! [`Few`]: a list that is nearly always short, and then takes no memory of its own.

use std::array;
use std::iter::{Chain, Flatten};
use std::slice;
use std::vec;

/// A list whose first `N` items are held inline.
#[derive(Clone, Debug)]
pub struct Few<T, const N: usize = 4> {
    first: [Option<T>; N],
    /// Empty until the inline places are taken.
    more: Vec<T>,
}

impl<T, const N: usize> Few<T, N> {
    pub const fn new() -> Self {
        Self { first: [const { None }; N], more: Vec::new() }
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

    #[cfg(feature = "tower")]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().flatten().chain(&mut self.more)
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<T, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Extend<T> for Few<T, N> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T, const N: usize> FromIterator<T> for Few<T, N> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::new();
        few.extend(items);
        few
    }
}

impl<T, const N: usize> IntoIterator for Few<T, N> {
    type Item = T;
    type IntoIter = Chain<Flatten<array::IntoIter<Option<T>, N>>, vec::IntoIter<T>>;

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
            assert_eq!((few.len(), few.is_empty(), few.more.len()), (len, len == 0, len.saturating_sub(4)));
            assert!(few.iter().copied().eq(0..len));
            assert!(few.into_iter().eq(0..len));
        }
    }
}
