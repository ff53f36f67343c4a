//! Text of words and numbers, for headers and refusals: these should take little time, as most are for whoever sends too
//! much.

/// Adds to a text what `write!` would, in a fraction of its time.
pub(super) trait Append {
    fn word(&mut self, word: &str) -> &mut Self;

    fn number(&mut self, number: u64) -> &mut Self;
}

impl Append for String {
    #[inline]
    fn word(&mut self, word: &str) -> &mut Self {
        self.push_str(word);
        self
    }

    #[inline]
    fn number(&mut self, number: u64) -> &mut Self {
        self.word(itoa::Buffer::new().format(number))
    }
}
