//! Compiles the small C++ shims against the headers of the torch wheel that LIBTORCH names.
//!
//! With the feature `no-libtorch` there are no headers and nothing to link: clippy and doc stop before linking.

use std::{env, path::PathBuf};

const SHIMS: [&str; 3] = ["shim/allocator.cpp", "shim/attention.cpp", "shim/device.cpp"];

fn main() {
    for shim in SHIMS {
        println!("cargo:rerun-if-changed={shim}");
    }
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    if env::var_os("CARGO_FEATURE_NO_LIBTORCH").is_some() {
        return;
    }
    let Some(libtorch) = env::var_os("LIBTORCH").map(PathBuf::from) else {
        println!("cargo:warning=LIBTORCH is not set; run `eval \"$(cargo xtask env)\"` first");
        return;
    };
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .include(libtorch.join("include"))
        .include(libtorch.join("include/torch/csrc/api/include"))
        .flag_if_supported("-w")
        .files(SHIMS)
        .compile("tunesmith_shim");
    println!(
        "cargo:rustc-link-search=native={}",
        libtorch.join("lib").display()
    );
    println!("cargo:rustc-link-lib=c10");
}
