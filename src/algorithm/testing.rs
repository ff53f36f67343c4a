//! What the tests of the algorithms share: random calls, and an algorithm side by side with an oracle.
//!
//! An [`Oracle`] is an algorithm as its rule is told, in numbers of any size and with nothing packed. [`Pair`] takes both
//! through the same calls and compares whatever can be asked.

use super::{Algorithm, Charged, PAYLOAD_MAX, UPTIME};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestCaseResult;

pub(super) const YEAR: u64 = UPTIME / 30;

/// From 1 to a limit, most often near an end of that.
#[derive(Clone, Copy, Debug)]
pub(super) enum Amount {
    Low(u64),
    High(u64),
    Part(u32),
}

impl Amount {
    pub(super) fn of(self, limit: u64) -> u64 {
        let amount = match self {
            Self::Low(more) => 1 + more,
            Self::High(less) => limit.saturating_sub(less),
            Self::Part(part) => part_of(limit, part),
        };
        amount.clamp(1, limit)
    }
}

fn part_of(whole: u64, part: u32) -> u64 {
    ((u128::from(whole) * u128::from(part)) >> 32) as u64
}

#[derive(Clone, Debug)]
pub(super) enum Call {
    Take(Amount),
    GiveBack(Index),
    Refund(Amount),
    RefundTooMuch(u64),
    Reset,
}

/// How far the clock moves before a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Nanos(u64),
    /// A part of the time in which all is forgotten, shared out among the tokens.
    Token(u32),
    /// A part of the time in which all is forgotten.
    Refill(u32),
    /// So many halves of that, or up to a nanosecond less or more.
    Halves(u64, i64),
    /// As long as the last refusal said, or up to a nanosecond less or more.
    Wait(i64),
    /// Until the client is idle, or up to a nanosecond less or more.
    Idle(i64),
}

impl Step {
    /// The step for a client with this word, at an instant, after a refusal that said to wait so long.
    pub(super) fn nanos(self, algorithm: &impl Algorithm, word: u64, latest: u64, wait: u64) -> u64 {
        let all = algorithm.longest_idle();
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Token(part) => part_of(all / algorithm.limit(), part),
            Self::Refill(part) => part_of(all, part),
            Self::Halves(halves, off) => (all / 2).saturating_mul(halves).saturating_add_signed(off),
            Self::Wait(off) => wait.saturating_add_signed(off),
            Self::Idle(off) => algorithm.idle_at(word).saturating_sub(latest).saturating_add_signed(off),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) step: Step,
    /// How much older the caller's reading of the clock is than the latest.
    pub(super) late_by: u64,
    pub(super) call: Call,
}

/// Any `u64`, as likely a small one as a large one.
pub(super) fn any_size() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift)
}

pub(super) fn any_amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        (0..3_u64).prop_map(Amount::Low),
        (0..3_u64).prop_map(Amount::High),
        any::<u32>().prop_map(Amount::Part),
    ]
}

pub(super) fn any_take() -> impl Strategy<Value = Call> {
    any_amount().prop_map(Call::Take)
}

pub(super) fn any_give_back() -> impl Strategy<Value = Call> {
    any::<Index>().prop_map(Call::GiveBack)
}

pub(super) fn any_call() -> impl Strategy<Value = Call> {
    prop_oneof![
        12 => any_take(),
        3 => any_give_back(),
        2 => any_amount().prop_map(Call::Refund),
        1 => select(vec![1 << 63, u64::MAX / 3, u64::MAX]).prop_map(Call::RefundTooMuch),
        1 => Just(Call::Reset),
    ]
}

pub(super) fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..2_u64).prop_map(Step::Nanos),
        2 => any_size().prop_map(|nanos| Step::Nanos(nanos >> 6)),
        2 => any::<u32>().prop_map(Step::Token),
        2 => any::<u32>().prop_map(Step::Refill),
        1 => (1..4_u64, -1..=1_i64).prop_map(|(halves, off)| Step::Halves(halves, off)),
        2 => (-1..=1_i64).prop_map(Step::Wait),
        1 => (-1..=1_i64).prop_map(Step::Idle),
    ]
}

pub(super) fn any_lateness() -> impl Strategy<Value = u64> {
    prop_oneof![6 => Just(0), 1 => 0..3_u64, 1 => any_size()]
}

/// Calls in the order in which they reach the word, some with a reading of the clock that is not the latest.
pub(super) fn calls(call: impl Strategy<Value = Call>) -> impl Strategy<Value = Vec<Event>> {
    let event = (any_step(), any_lateness(), call).prop_map(|(step, late_by, call)| Event { step, late_by, call });
    vec(event, 1..60)
}

/// The uptime at which the calls begin.
pub(super) fn any_start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), any_size().prop_map(|nanos| nanos % UPTIME), (UPTIME - YEAR..=UPTIME)]
}

/// An algorithm as its rule is told.
pub(super) trait Oracle {
    /// What a receipt knows of a charge.
    type Charge: Clone;

    fn admits(&self, now: u64, cost: u64) -> bool;

    fn remaining(&self, now: u64) -> u64;

    fn take(&mut self, now: u64, cost: u64) -> Self::Charge;

    /// Undoes a charge of `cost`; returns the tokens put back.
    fn give_back(&mut self, now: u64, cost: u64, charge: &Self::Charge) -> u64;

    /// Puts back what finds room; returns the tokens put back.
    fn refund(&mut self, now: u64, tokens: u64) -> u64;

    /// Returns whether less than everything was there.
    fn reset(&mut self, now: u64) -> bool;

    /// Whether a client of whom nothing is known would have the same answers from `now` on.
    fn is_idle(&self, now: u64) -> bool;
}

/// A charge that was admitted.
#[derive(Clone, Debug)]
pub(super) struct Receipt<C> {
    /// The caller's reading of the clock.
    pub(super) now: u64,
    /// The latest reading.
    pub(super) latest: u64,
    /// What of the cost was not given back.
    pub(super) kept: u64,
    pub(super) charged: Charged,
    cost: u64,
    charge: C,
    open: bool,
}

/// A client's word, and what it points to.
pub(super) struct Client<A: Algorithm> {
    pub(super) algorithm: A,
    pub(super) word: u64,
}

impl<A: Algorithm> Client<A> {
    fn would_charge(&self, now: u64, cost: u64) -> bool {
        let charged = self.algorithm.charge(self.word, now, cost);
        // SAFETY: it was never in the word.
        charged.map(|payload| unsafe { A::free(payload) }).is_some()
    }

    fn write(&mut self, payload: u64) -> TestCaseResult {
        prop_assert!((1..=PAYLOAD_MAX).contains(&payload), "payload {}", payload);
        self.replace(payload);
        Ok(())
    }

    fn replace(&mut self, payload: u64) {
        let old = std::mem::replace(&mut self.word, payload);
        // SAFETY: nobody else has the word, and it has let go of the old payload.
        unsafe { A::free(old) };
    }

    /// Whether the answers fit each other, past the horizon too.
    fn is_consistent(&self, now: u64) -> TestCaseResult {
        let Self { algorithm, word, .. } = self;
        let (word, limit) = (*word, algorithm.limit());
        let (remaining, reset_after) = (algorithm.remaining(word, now), algorithm.reset_after(word, now));
        prop_assert!(remaining <= limit);
        prop_assert!(remaining == 0 || self.would_charge(now, remaining));
        for cost in [1, limit] {
            let wait = algorithm.retry_after(word, now, cost);
            match wait {
                Some(wait) => {
                    let then = now.checked_add(wait);
                    prop_assert!(then.is_some_and(|then| self.would_charge(then, cost)));
                    prop_assert!(wait == 0 || !self.would_charge(now + wait - 1, cost));
                }
                None => prop_assert!(!self.would_charge(u64::MAX, cost)),
            }
            let snapshot = algorithm.snapshot(word, now, cost);
            prop_assert_eq!(snapshot.retry_after(cost), wait);
            prop_assert_eq!((snapshot.remaining(), snapshot.reset_after()), (remaining, reset_after));
        }
        prop_assert!(now.checked_add(reset_after).is_some());
        match algorithm.idle_at(word) {
            u64::MAX => prop_assert!(!algorithm.is_idle(word, u64::MAX)),
            idle_at => {
                prop_assert!(algorithm.is_idle(word, idle_at));
                prop_assert!(idle_at == 0 || !algorithm.is_idle(word, idle_at - 1));
            }
        }
        Ok(())
    }
}

impl<A: Algorithm> Drop for Client<A> {
    fn drop(&mut self) {
        self.replace(0);
        self.algorithm.close();
    }
}

/// The same plan in an algorithm and in its oracle.
pub(super) struct Pair<A: Algorithm, O: Oracle> {
    pub(super) client: Client<A>,
    pub(super) oracle: O,
    pub(super) receipts: Vec<Receipt<O::Charge>>,
    latest: u64,
}

/// How long a refused call is to wait.
type Wait = Option<u64>;

impl<A: Algorithm, O: Oracle> Pair<A, O> {
    pub(super) fn new(algorithm: A, oracle: O) -> Self {
        Self { client: Client { algorithm, word: 0 }, oracle, receipts: Vec::new(), latest: 0 }
    }

    /// Takes both through all calls, and compares them before and after each.
    pub(super) fn run(&mut self, start: u64, events: &[Event]) -> TestCaseResult {
        let mut wait = 0;
        self.latest = start;
        for event in events {
            let now = self.step(event.step, wait).saturating_sub(event.late_by);
            self.agree(now)?;
            wait = self.call(now, &event.call)?.unwrap_or(wait);
            self.agree(now)?;
        }
        Ok(())
    }

    /// The same, and compares them with another pair that forgets the client whenever it is idle.
    pub(super) fn run_beside(&mut self, forgetful: &mut Self, start: u64, events: &[Event]) -> TestCaseResult {
        let mut wait = 0;
        (self.latest, forgetful.latest) = (start, start);
        // No call comes with an instant before one at which the client was forgotten: the table sees to that.
        let mut floor = 0;
        for event in events {
            let now = self.step(event.step, wait).saturating_sub(event.late_by).max(floor);
            forgetful.latest = self.latest;
            if self.client.algorithm.is_idle(self.client.word, now) {
                floor = now;
                forgetful.client.replace(0);
            }
            self.agree(now)?;
            self.answer_alike(forgetful, now)?;
            let answers = (self.call(now, &event.call)?, forgetful.act(now, &event.call)?);
            prop_assert_eq!(answers.0, answers.1);
            self.answer_alike(forgetful, now)?;
            wait = answers.0.unwrap_or(wait);
        }
        Ok(())
    }

    fn step(&mut self, step: Step, wait: u64) -> u64 {
        let nanos = step.nanos(&self.client.algorithm, self.client.word, self.latest, wait);
        self.latest = self.latest.saturating_add(nanos).min(UPTIME);
        self.latest
    }

    fn answer_alike(&self, other: &Self, now: u64) -> TestCaseResult {
        let (algorithm, limit) = (&self.client.algorithm, self.client.algorithm.limit());
        prop_assert_eq!(algorithm.remaining(self.client.word, now), algorithm.remaining(other.client.word, now));
        prop_assert_eq!(algorithm.reset_after(self.client.word, now), algorithm.reset_after(other.client.word, now));
        for cost in [1, limit / 2, limit] {
            let wait = |word| algorithm.retry_after(word, now, cost);
            prop_assert_eq!(wait(self.client.word), wait(other.client.word));
        }
        Ok(())
    }

    /// What can be asked without changing anything.
    fn agree(&self, now: u64) -> TestCaseResult {
        let (oracle, Client { algorithm, word }) = (&self.oracle, &self.client);
        let (word, limit) = (*word, algorithm.limit());
        let remaining = algorithm.remaining(word, now);
        prop_assert_eq!(remaining, oracle.remaining(now));
        prop_assert!(remaining <= limit);
        prop_assert!(remaining == 0 || self.admits(now, remaining)?);
        prop_assert!(remaining == limit || !self.admits(now, remaining + 1)?);

        for cost in [1, 2, limit / 2, limit - 1, limit, remaining, remaining + 1] {
            if (1..=limit).contains(&cost) {
                self.waits(now, cost)?;
            }
        }
        prop_assert_eq!(algorithm.retry_after(word, now, limit + 1), None);
        prop_assert_eq!(algorithm.retry_after(word, now, u64::MAX), None);

        let reset_after = algorithm.reset_after(word, now);
        if reset_after < u64::MAX - now {
            let then = now + reset_after;
            prop_assert_eq!(oracle.remaining(then), limit);
            prop_assert!(reset_after == 0 || oracle.remaining(then - 1) < limit);
        }

        prop_assert_eq!(algorithm.is_idle(word, now), oracle.is_idle(now));
        let idle_at = algorithm.idle_at(word);
        if idle_at < u64::MAX {
            prop_assert!(algorithm.is_idle(word, idle_at) && oracle.is_idle(idle_at));
            prop_assert!(idle_at == 0 || !algorithm.is_idle(word, idle_at - 1) && !oracle.is_idle(idle_at - 1));
            prop_assert!(idle_at.saturating_sub(self.latest) <= algorithm.longest_idle());
        }

        for cost in [1, limit] {
            let snapshot = algorithm.snapshot(word, now, cost);
            prop_assert_eq!(snapshot.limit(), limit);
            prop_assert_eq!(snapshot.remaining(), remaining);
            prop_assert_eq!(snapshot.reset_after(), reset_after);
            prop_assert_eq!(snapshot.retry_after(cost), algorithm.retry_after(word, now, cost));
        }
        Ok(())
    }

    /// Whether both admit a cost.
    fn admits(&self, now: u64, cost: u64) -> Result<bool, TestCaseError> {
        let admitted = self.client.would_charge(now, cost);
        prop_assert_eq!(admitted, self.oracle.admits(now, cost), "a cost of {} at {}", cost, now);
        Ok(admitted)
    }

    /// A cost is admitted after its wait, and not a nanosecond before.
    fn waits(&self, now: u64, cost: u64) -> TestCaseResult {
        match self.client.algorithm.retry_after(self.client.word, now, cost) {
            Some(wait) => {
                let then = now + wait;
                prop_assert!(self.admits(then, cost)?, "refused after a wait of {}", wait);
                prop_assert!(wait == 0 || !self.admits(then - 1, cost)?, "admitted before a wait of {}", wait);
            }
            None => {
                prop_assert!(self.client.algorithm.longest_idle() > 1 << 62, "no wait is that long");
                prop_assert!(!self.admits(UPTIME, cost)?);
                prop_assert!(!self.client.would_charge(u64::MAX, cost));
            }
        }
        Ok(())
    }

    fn call(&mut self, now: u64, call: &Call) -> Result<Wait, TestCaseError> {
        let before = self.client.algorithm.remaining(self.client.word, now);
        let wait = self.act(now, call)?;
        let after = self.client.algorithm.remaining(self.client.word, now);
        match call {
            Call::Refund(amount) => self.has_refunded(now, before, amount.of(self.client.algorithm.limit()), after)?,
            Call::RefundTooMuch(tokens) => self.has_refunded(now, before, *tokens, after)?,
            Call::Reset => prop_assert_eq!(after, self.client.algorithm.limit()),
            _ => {}
        }
        Ok(wait)
    }

    fn has_refunded(&self, now: u64, before: u64, tokens: u64, after: u64) -> TestCaseResult {
        let expected = before.saturating_add(tokens).min(self.client.algorithm.limit());
        // Who is late may see more used than the limit, and pays that off first.
        prop_assert!(after == expected || now < self.latest && before == 0 && after < expected);
        Ok(())
    }

    fn act(&mut self, now: u64, call: &Call) -> Result<Wait, TestCaseError> {
        let limit = self.client.algorithm.limit();
        match call {
            Call::Take(amount) => return self.take(now, amount.of(limit)),
            Call::GiveBack(receipt) => self.give_back(now, *receipt)?,
            Call::Refund(amount) => self.refund(now, amount.of(limit))?,
            Call::RefundTooMuch(tokens) => self.refund(now, *tokens)?,
            Call::Reset => self.reset(now)?,
        }
        Ok(None)
    }

    fn take(&mut self, now: u64, cost: u64) -> Result<Wait, TestCaseError> {
        let Some(payload) = self.client.algorithm.charge(self.client.word, now, cost) else {
            prop_assert!(!self.oracle.admits(now, cost), "refused what the oracle admits");
            return Ok(self.client.algorithm.retry_after(self.client.word, now, cost));
        };
        prop_assert!(self.oracle.admits(now, cost), "admitted what the oracle refuses");
        let charge = self.oracle.take(now, cost);
        let charged = self.client.algorithm.snapshot(payload, now, cost).charged();
        self.receipts.push(Receipt { now, latest: self.latest, kept: cost, charged, cost, charge, open: true });
        self.client.write(payload)?;
        Ok(None)
    }

    /// Gives a charge back to both, once.
    fn give_back(&mut self, now: u64, receipt: Index) -> TestCaseResult {
        if self.receipts.is_empty() {
            return Ok(());
        }
        let receipt = receipt.index(self.receipts.len());
        let Receipt { cost, charged, ref charge, open: true, .. } = self.receipts[receipt] else { return Ok(()) };
        let returned = self.oracle.give_back(now, cost, charge);
        self.receipts[receipt].open = false;
        self.receipts[receipt].kept -= returned;
        let given = self.client.algorithm.give_back(self.client.word, now, cost, charged);
        self.put(given, returned)
    }

    fn refund(&mut self, now: u64, tokens: u64) -> TestCaseResult {
        let returned = self.oracle.refund(now, tokens);
        self.put(self.client.algorithm.refund(self.client.word, now, tokens), returned)
    }

    /// Checks and writes what a return of tokens came to.
    fn put(&mut self, returned: Option<(u64, u64)>, expected: u64) -> TestCaseResult {
        prop_assert_eq!(returned.map_or(0, |(_, tokens)| tokens), expected);
        prop_assert!(returned.is_none_or(|(_, tokens)| tokens > 0), "written for nothing");
        returned.map_or(Ok(()), |(payload, _)| self.client.write(payload))
    }

    fn reset(&mut self, now: u64) -> TestCaseResult {
        let expected = self.oracle.reset(now);
        let reset = self.client.algorithm.reset(self.client.word, now);
        prop_assert_eq!(reset.is_some(), expected);
        reset.map_or(Ok(()), |payload| self.client.write(payload))
    }
}

/// Takes an algorithm alone through calls at any times, up to the last nanosecond that there is.
pub(super) fn survives_the_end_of_time<A: Algorithm>(algorithm: A, mut times: Vec<(u64, Call)>) -> TestCaseResult {
    times.sort_by_key(|(now, _)| *now);
    let limit = algorithm.limit();
    let mut client = Client { algorithm, word: 0 };
    let mut charges: Vec<(u64, Charged)> = Vec::new();
    for (now, call) in &times {
        let (now, word) = (*now, client.word);
        let put = |returned: Option<(u64, u64)>| returned.map(|(payload, _)| payload);
        let written = match call {
            Call::Take(amount) => {
                let cost = amount.of(limit);
                algorithm.charge(word, now, cost).inspect(|&payload| {
                    charges.push((cost, algorithm.snapshot(payload, now, cost).charged()));
                })
            }
            Call::GiveBack(_) => {
                charges.pop().and_then(|(cost, charged)| put(algorithm.give_back(word, now, cost, charged)))
            }
            Call::Refund(amount) => put(algorithm.refund(word, now, amount.of(limit))),
            Call::RefundTooMuch(tokens) => put(algorithm.refund(word, now, *tokens)),
            Call::Reset => algorithm.reset(word, now),
        };
        written.map_or(Ok(()), |payload| client.write(payload))?;
        client.is_consistent(now)?;
    }
    let end = u64::MAX;
    if let left @ 1.. = algorithm.remaining(client.word, end) {
        let drained = algorithm.charge(client.word, end, left);
        prop_assert!(drained.is_some());
        drained.map_or(Ok(()), |payload| client.write(payload))?;
    }
    for now in [end, end - 1] {
        prop_assert_eq!(algorithm.remaining(client.word, now), 0);
        prop_assert_eq!(algorithm.retry_after(client.word, now, 1), None);
        prop_assert!(!client.would_charge(now, 1));
        prop_assert!(!algorithm.is_idle(client.word, now));
        prop_assert_eq!(algorithm.reset_after(client.word, now), u64::MAX - now);
    }
    prop_assert_eq!(algorithm.idle_at(client.word), u64::MAX);
    Ok(())
}
