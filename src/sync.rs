//! The atomics of the engine: `std`'s, or under `cfg(tollgate_loom)` those of the model checker.
//!
//! loom remembers one last access per atomic, so a load followed by a CAS of one thread hides the load from its search,
//! and interleavings that the hardware allows are never explored. Each atomic of the models therefore carries a shadow,
//! and every access first performs a read-modify-write on it. The canary in `loom-tests` shows that this restores the
//! missing outcomes, and that they are still missing without it.

#[cfg(tollgate_loom)]
pub use model::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, Plain};
#[cfg(not(tollgate_loom))]
pub(crate) use real::Plain;
#[cfg(not(tollgate_loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(tollgate_loom))]
mod real {
    /// A field that is written once, before its owner is published, and read by everyone afterwards.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Plain<T>(T);

    impl<T: Copy> Plain<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(value)
        }

        #[inline]
        pub(crate) fn get(&self) -> T {
            self.0
        }

        /// Copies values to the end of a list, in one piece: `extend_from_slice` would clone a generic type value by value.
        #[inline]
        pub(crate) fn append(list: &mut Vec<Self>, values: &[Self]) {
            list.reserve(values.len());
            let end = list.spare_capacity_mut().as_mut_ptr();
            // SAFETY: there is room, the two do not overlap as one of them is borrowed exclusively, and values are `Copy`.
            unsafe {
                end.cast::<Self>().copy_from_nonoverlapping(values.as_ptr(), values.len());
                list.set_len(list.len() + values.len());
            }
        }
    }
}

#[cfg(tollgate_loom)]
#[allow(missing_docs)]
mod model {
    pub use loom::sync::atomic::Ordering;
    use loom::sync::atomic::{self, AtomicUsize as Shadow};

    /// A field whose only write the model checker watches, so that publishing its owner too weakly is a reported race.
    #[derive(Debug)]
    pub struct Plain<T>(loom::cell::UnsafeCell<T>);

    // SAFETY: after `new` the cell is only read, and loom itself reports a read that may race with that one write.
    unsafe impl<T: Send + Sync> Sync for Plain<T> {}

    impl<T: Copy> Plain<T> {
        pub fn new(value: T) -> Self {
            let cell = loom::cell::UnsafeCell::new(value);
            // SAFETY: nobody else has the cell yet.
            cell.with_mut(|inner| unsafe { *inner = value });
            Self(cell)
        }

        pub fn get(&self) -> T {
            // SAFETY: the cell is never written after `new`.
            self.0.with(|inner| unsafe { *inner })
        }

        pub fn append(list: &mut Vec<Self>, values: &[Self]) {
            list.extend_from_slice(values);
        }
    }

    impl<T: Copy> Clone for Plain<T> {
        fn clone(&self) -> Self {
            Self::new(self.get())
        }
    }

    macro_rules! shadowed {
        ($name:ident, $inner:ty, $value:ty $(, $param:ident)?) => {
            #[derive(Debug)]
            pub struct $name$(<$param>)? {
                inner: $inner,
                shadow: Shadow,
            }

            impl$(<$param>)? $name$(<$param>)? {
                pub fn new(value: $value) -> Self {
                    Self { inner: <$inner>::new(value), shadow: Shadow::new(0) }
                }

                fn touch(&self) -> &$inner {
                    self.shadow.fetch_add(0, Ordering::Relaxed);
                    &self.inner
                }

                pub fn load(&self, order: Ordering) -> $value {
                    self.touch().load(order)
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    self.touch().store(value, order)
                }

                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.touch().swap(value, order)
                }

                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.touch().compare_exchange(current, new, success, failure)
                }
            }
        };
    }

    macro_rules! shadowed_integer {
        ($name:ident, $inner:ty, $value:ty) => {
            shadowed!($name, $inner, $value);

            impl $name {
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_add(value, order)
                }

                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_or(value, order)
                }

                pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_max(value, order)
                }

                pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_min(value, order)
                }

                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    self.touch().fetch_sub(value, order)
                }
            }
        };
    }

    shadowed!(AtomicPtr, atomic::AtomicPtr<T>, *mut T, T);
    shadowed_integer!(AtomicU64, atomic::AtomicU64, u64);
    shadowed_integer!(AtomicUsize, atomic::AtomicUsize, usize);
}
