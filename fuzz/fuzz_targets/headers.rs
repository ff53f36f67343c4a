//! Whatever the headers are, trust is what was configured.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tollgate_fuzz::client::headers(data);
});
