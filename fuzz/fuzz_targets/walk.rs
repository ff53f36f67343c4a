//! The client behind proxies is the one of a naive walk.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tollgate_fuzz::client::walk(data);
});
