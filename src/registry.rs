//! How a receipt finds its limiter again.
//!
//! An [`Allowed`](crate::Allowed) is an owned value that may outlive its limiter, and counting references on every check
//! would make one contended cache line of them. So each limiter gets an *address* when it is built: a small place that is
//! never freed, only handed on to a later limiter under a new tenancy. A receipt carries both numbers and looks behind
//! the address only when it is given back.

use crate::algorithm::Charged;
use std::fmt;
use std::sync::{Mutex, RwLock, Weak};

/// A limiter as a receipt sees it.
pub(crate) trait GiveBack: Send + Sync {
    /// Undoes a charge of `cost`, and returns the tokens put back.
    fn give_back(&self, fingerprint: u64, cost: u64, charged: Charged) -> u64;
}

struct Address(RwLock<Tenancy>);

struct Tenancy {
    number: u64,
    limiter: Option<Weak<dyn GiveBack>>,
}

/// Addresses that no limiter has at the moment. Locked when a limiter is built or dropped, never by a call.
static VACANT: Mutex<Vec<&'static Address>> = Mutex::new(Vec::new());

/// A limiter's own entry, which ends with it.
pub(crate) struct Entry {
    address: &'static Address,
    tenancy: u64,
}

impl Entry {
    pub(crate) fn new(limiter: Weak<dyn GiveBack>) -> Self {
        let vacant = VACANT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
        let address =
            vacant.unwrap_or_else(|| Box::leak(Box::new(Address(RwLock::new(Tenancy { number: 0, limiter: None })))));
        let mut tenancy = address.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        tenancy.number += 1;
        tenancy.limiter = Some(limiter);
        Self { address, tenancy: tenancy.number }
    }

    /// The receipt for a charge of `cost`.
    #[inline]
    pub(crate) fn receipt(&self, fingerprint: u64, cost: u64) -> Receipt {
        Receipt { limiter: Some(self.address), tenancy: self.tenancy, fingerprint, cost }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.address.0.write().unwrap_or_else(|poisoned| poisoned.into_inner()).limiter = None;
        VACANT.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.address);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("tenancy", &self.tenancy).finish_non_exhaustive()
    }
}

/// What an admitted call was charged, and where.
pub(crate) struct Receipt {
    limiter: Option<&'static Address>,
    tenancy: u64,
    fingerprint: u64,
    cost: u64,
}

impl Receipt {
    /// The receipt of a call that was charged nothing.
    pub(crate) const NOTHING: Self = Self { limiter: None, tenancy: 0, fingerprint: 0, cost: 0 };

    /// A receipt for `cost` of what this one is for.
    pub(crate) fn part(&self, cost: u64) -> Self {
        Self { cost: cost.min(self.cost), ..*self }
    }

    /// Undoes the charge, which came to `charged`.
    pub(crate) fn give_back(self, charged: Charged) -> u64 {
        // Only a limiter that is being built or dropped holds the lock for writing, so there is never a wait: where this
        // fails, the limiter of this receipt is gone.
        let Some(Ok(tenancy)) = self.limiter.map(|address| address.0.try_read()) else { return 0 };
        if tenancy.number != self.tenancy {
            return 0;
        }
        let limiter = tenancy.limiter.as_ref().and_then(Weak::upgrade);
        drop(tenancy);
        limiter.map_or(0, |limiter| limiter.give_back(self.fingerprint, self.cost, charged))
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("cost", &self.cost).finish_non_exhaustive()
    }
}
