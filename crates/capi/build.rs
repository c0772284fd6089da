//! Sets the shared library's soname, which ends with `ABI_VERSION` of `src/types.rs`.

#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libburstline.so.0");
}
