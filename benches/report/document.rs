//! Places in documents that a command fills.

/// Puts `content` between the marks of a name, in place of what was there.
pub fn fill(text: &str, name: &str, content: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- begin {name} -->"), format!("<!-- end {name} -->"));
    let missing = |mark: &str| format!("the mark {mark} is missing, or not in its place");
    let (before, rest) = text.split_once(&begin).ok_or_else(|| missing(&begin))?;
    let (_, after) = rest.split_once(&end).ok_or_else(|| missing(&end))?;
    Ok(format!("{before}{begin}\n{}\n{end}{after}", content.trim_end()))
}
