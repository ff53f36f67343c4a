//! The limiters under test, each at the same limits. What one of them cannot do is said where it is set up.

pub mod bare;
pub mod direct;
pub mod governor;
pub mod maps;
pub mod mutexes;
pub mod tollgate;
mod word;
