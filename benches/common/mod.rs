//! What the parts of the suite share.
//!
//! - `subject` is the trait and the list of all that is measured, `peers` how each is set up, `limits` what they limit;
//! - `keys` and `workload` are the calls that come, `race` the threads that make them, `rounds` who goes when;
//! - `records` are the figures as they are kept in CSV, `tables` what is printed of them, `form` how many are taken.
#![allow(dead_code, reason = "each benchmark uses a part of this")]

pub mod form;
pub mod keys;
pub mod limits;
pub mod output;
pub mod peers;
pub mod race;
pub mod records;
pub mod rounds;
pub mod subject;
pub mod tables;
pub mod workload;
