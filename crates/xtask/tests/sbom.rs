//! The bill of materials: `scripts/sbom` lists what a build for users links, with Cargo.lock's
//! versions.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use burstline_skip::skip;
use serde_json::Value;

#[test]
fn each_part_of_the_program_is_named_with_licence_and_checksum() {
    for program in ["jq", "git"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip(format!("{program} is not installed: scripts/setup jq"));
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let output = Command::new(root.join("scripts/sbom")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let components = bill["components"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for component in components {
        let (name, version) = (text(&component["name"]), text(&component["version"]));
        let package = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        assert!(lock.contains(&package), "{component}");
        assert!(!text(&component["licenses"][0]["expression"]).is_empty(), "{component}");
        let sum = text(&component["hashes"][0]["content"]);
        assert!(name.starts_with("burstline-") || lock.contains(&sum) && sum.len() == 64, "{name}");
    }
    // Linked, linked by one of ours, and only used in tests.
    let names: HashSet<_> = components.iter().map(|component| text(&component["name"])).collect();
    let has = |name: &str| names.contains(name);
    assert!(has("burstline-engine") && has("clap") && has("rustix") && !has("proptest"));
    // Each dependency of a package is also listed.
    let references: HashSet<_> = components.iter().map(|one| text(&one["bom-ref"])).collect();
    let needs = bill["dependencies"].as_array().unwrap().iter();
    let needs: Vec<_> = needs.flat_map(|one| one["dependsOn"].as_array().unwrap()).collect();
    assert!(needs.len() > references.len());
    assert!(needs.iter().all(|need| references.contains(&text(need))), "{needs:?}");
}
