//! How the benchmark suite writes into documents. The suite itself is run by `benches/run smoke`.

#[path = "../benches/report/document.rs"]
mod document;

use document::fill;

#[test]
fn a_part_is_put_between_its_marks_whatever_was_there() {
    let text = "above\n<!-- begin one -->\nold\n<!-- end one -->\n<!-- begin two -->\n<!-- end two -->\nbelow\n";
    let filled = fill(text, "one", "| new |\n").unwrap();
    assert_eq!(
        filled,
        "above\n<!-- begin one -->\n| new |\n<!-- end one -->\n<!-- begin two -->\n<!-- end two -->\nbelow\n"
    );
    assert_eq!(fill(&filled, "one", "| new |\n").unwrap(), filled);
}

#[test]
fn a_mark_that_is_missing_is_named() {
    let error = fill("<!-- begin one -->", "one", "").unwrap_err();
    assert_eq!(error, "the mark <!-- end one --> is missing, or not in its place");
    assert!(fill("<!-- end one --><!-- begin one -->", "one", "").is_err());
}

#[test]
fn the_documents_have_all_marks() {
    for name in
        ["machine", "targets", "slower", "throughput charts", "contention", "tails", "churn", "memory", "algorithms"]
    {
        fill(include_str!("../docs/benchmarks.md"), name, "").unwrap();
    }
    fill(include_str!("../README.md"), "benchmarks", "").unwrap();
}
