//! How several limits are charged together: all of them, or none.
//!
//! There is no moment at which two words change at once, so this takes from one after the other, and gives back what it
//! took when a later one refuses. Three rules make that fit to be seen by others:
//!
//! - **Look first.** All are looked at before any is taken from. While nobody else calls, a refusal is found here, and has
//!   written nothing. Only who is overtaken between look and take has something to give back.
//! - **Take in one order.** Everybody takes in the order of ranks, whatever the order in which limits were listed, and
//!   stops at the first refusal. So of two calls that are after the last token of the same limits, the one that gets the
//!   first gets all: they cannot refuse each other.
//! - **One sum for each limit.** Parts of one rank draw from one word. They are charged as one, for the sum of their costs.
//!
//! What is held and given back was taken all the while: another call can find it missing and be refused, and none can find
//! it there twice. So there is never an admission too many.

use crate::few::Few;
use std::iter;

/// One limit's part in a decision.
pub trait Part {
    /// Which word it draws from.
    type Rank: Ord + Copy;
    /// What a look that finds enough has seen.
    type Seen;
    /// What was taken.
    type Taken;
    /// Why there was not enough.
    type Refusal;

    fn rank(&self) -> Self::Rank;

    fn cost(&self) -> u64;

    /// Whether `cost` could be taken now. Takes nothing.
    fn look(&self, cost: u64) -> Result<Self::Seen, Self::Refusal>;

    /// Takes `cost`, all or nothing.
    fn take(&self, cost: u64) -> Result<Self::Taken, Self::Refusal>;

    fn give_back(&self, taken: Self::Taken);
}

/// One item for each group of parts with the same rank, in ascending order of ranks.
pub type Groups<P, T> = Few<(<P as Part>::Rank, T)>;

/// What a look at a part, or a take that failed, came to.
pub type Outcome<P> = Result<<P as Part>::Seen, <P as Part>::Refusal>;

/// Takes from all parts, or from none and says what each group came to.
pub fn take_all<P: Part>(parts: &Few<P>) -> Result<Groups<P, P::Taken>, Groups<P, Outcome<P>>> {
    let groups: Few<(&P, u64)> = groups(parts).collect();
    // What there is one of, the take itself decides.
    if groups.len() > 1 {
        let seen: Groups<P, _> = groups.iter().map(|&(part, cost)| (part.rank(), part.look(cost))).collect();
        if seen.iter().any(|(_, outcome)| outcome.is_err()) {
            return Err(seen);
        }
    }
    let mut taken = Groups::<P, _>::new();
    for &(part, cost) in groups.iter() {
        match part.take(cost) {
            Ok(held) => taken.push((part.rank(), held)),
            Err(refusal) => {
                groups.iter().zip(taken).for_each(|((part, _), (_, held))| part.give_back(held));
                let (refusing, mut refusal) = (part.rank(), Some(refusal));
                let outcome = |&(part, cost): &(&P, u64)| match refusal.take_if(|_| part.rank() == refusing) {
                    Some(refusal) => (refusing, Err(refusal)),
                    None => (part.rank(), part.look(cost)),
                };
                return Err(groups.iter().map(outcome).collect());
            }
        }
    }
    Ok(taken)
}

/// A part of each group with the sum of the group's costs, in ascending order of ranks. A sum that does not fit stays at
/// [`u64::MAX`], which is above every limit.
///
/// Takes no memory for it, and so time with the square of the number of parts, of which there are few.
fn groups<P: Part>(parts: &Few<P>) -> impl Iterator<Item = (&P, u64)> {
    let above = |rank: Option<P::Rank>| {
        parts.iter().filter(|part| rank.is_none_or(|rank| part.rank() > rank)).min_by_key(|part| part.rank())
    };
    let sum = |rank| parts.iter().filter(|part| part.rank() == rank).map(P::cost).fold(0, u64::saturating_add);
    iter::successors(above(None), move |part| above(Some(part.rank()))).map(move |part| (part, sum(part.rank())))
}
