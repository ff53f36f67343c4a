//! Quotas from any text.

use tollgate::Quota;

/// A text is a valid quota, which displays as a text for itself, or there is a short reason why not.
pub fn parse(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parsed = text.parse::<Quota>();
    match &parsed {
        Ok(quota) => {
            assert_eq!(quota.validate(), Ok(()));
            assert_eq!(quota.to_string().parse(), Ok(*quota));
        }
        Err(error) => assert!(error.to_string().len() < 400),
    }
    // Whitespace at the ends and the case of letters change nothing about a quota.
    if parsed.is_ok() {
        assert_eq!(format!("\t{text} ").parse(), parsed);
        assert_eq!(text.to_ascii_uppercase().parse(), parsed);
    }
}
