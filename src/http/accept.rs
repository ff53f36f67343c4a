//! Which form of a refusal's body a client asks for.

use http::{HeaderMap, header::ACCEPT};

/// Forms of a refusal's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `application/problem+json`
    Problem,
    /// `text/plain`
    Text,
}

impl Form {
    /// The one that is preferred, or the first where neither is.
    pub(super) fn preferred(headers: &HeaderMap) -> Self {
        let (mut problem, mut text) = (Weight::default(), Weight::default());
        let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
        for range in lines.flat_map(|line| line.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let (kind, quality) = (parts.next().unwrap_or_default(), quality(parts));
            let is = |name| kind.eq_ignore_ascii_case(name);
            problem.note(
                quality,
                match kind {
                    _ if is("application/problem+json") || is("application/json") => 3,
                    _ if is("application/*") => 2,
                    _ if is("*/*") => 1,
                    _ => 0,
                },
            );
            text.note(
                quality,
                match kind {
                    _ if is("text/plain") => 3,
                    _ if is("text/*") => 2,
                    _ if is("*/*") => 1,
                    _ => 0,
                },
            );
        }
        if text.quality > problem.quality { Self::Text } else { Self::Problem }
    }
}

/// The quality of the most specific range that matched.
#[derive(Default)]
struct Weight {
    quality: f32,
    specific: u8,
}

impl Weight {
    fn note(&mut self, quality: f32, specific: u8) {
        if specific > self.specific {
            *self = Self { quality, specific };
        } else if specific > 0 && specific == self.specific {
            self.quality = self.quality.max(quality);
        }
    }
}

/// The `q` among the parameters, from 0 to 1; 1 where there is none, 0 where it is no such number.
fn quality<'a>(mut parameters: impl Iterator<Item = &'a str>) -> f32 {
    let value = parameters.find_map(|parameter| parameter.strip_prefix("q=").or(parameter.strip_prefix("Q=")));
    value.map_or(1.0, |value| value.parse().ok().filter(|quality| (0.0..=1.0).contains(quality)).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn preferred(lines: &[&str]) -> Form {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT, line.parse().unwrap());
        }
        Form::preferred(&headers)
    }

    #[test]
    fn the_heavier_and_more_specific_range_wins() {
        for lines in [
            &[][..],
            &[""],
            &["*/*"],
            &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
            &["application/json"],
            &["text/plain;q=0.5, application/problem+json"],
            &["text/plain;q=2"],
            &["text/plain;q=0"],
            &["text/*;q=0.3, */*;q=0.3"],
            &["image/png"],
        ] {
            assert_eq!(preferred(lines), Form::Problem, "{lines:?}");
        }
        for lines in [
            &["text/plain"][..],
            &["TEXT/Plain ; Q=1.0"],
            &["text/*, application/json;q=0.9"],
            &["application/json;q=0.1", "text/plain;q=0.2"],
            &["*/*, application/*;q=0, application/problem+json;q=0.1"],
        ] {
            assert_eq!(preferred(lines), Form::Text, "{lines:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_has_an_answer(value in "[ -~]{0,200}") {
            preferred(&[&value]);
        }
    }
}
