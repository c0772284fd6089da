//! Checks that `include/burstline.h` is up to date. `make header` regenerates it.

use std::env;
use std::fs;
use std::path::Path;

/// Generates the header from the sources and `inline.h`.
fn generated(crate_folder: &Path) -> String {
    let mut config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml")).unwrap();
    config.trailer = Some(fs::read_to_string(crate_folder.join("inline.h")).unwrap());
    let builder = cbindgen::Builder::new().with_config(config);
    let sources = ["src/types.rs", "src/exports.rs", "src/publishing.rs"];
    let builder = sources.iter().fold(builder, |b, path| b.with_src(crate_folder.join(path)));
    let mut header = Vec::new();
    builder.generate().expect("the sources can be read").write(&mut header);
    String::from_utf8(header).unwrap()
}

#[test]
fn the_header_is_as_the_code_says() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = crate_folder.join("../../include/burstline.h");
    let generated = generated(crate_folder);
    if env::var_os("WRITE_HEADER").is_some() {
        fs::write(&path, generated).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    for (number, (ours, theirs)) in (1..).zip(committed.lines().zip(generated.lines())) {
        assert_eq!(ours, theirs, "include/burstline.h:{number}: run make header, and commit it");
    }
    assert_eq!(committed.len(), generated.len(), "include/burstline.h: run make header");
}
