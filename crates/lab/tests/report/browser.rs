//! Checks in a browser that nothing on the page is wider than a phone, and nothing is fetched.
//!
//! Chromium measures the page. If it is not installed (`scripts/setup report`), the test is skipped
//! with a message.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use burstline_lab::reports;
use burstline_skip::skip;

use crate::fixtures::{Folder, all, collection};

const CHROMIUM: &str = "chromium";

/// Width of a phone in CSS pixels.
const PHONE_PX: u32 = 390;

/// Puts the page into a frame as wide as a phone, and lists elements wider than the frame. A
/// Chromium window cannot be that narrow.
const HARNESS: &str = r#"<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="frame" style="border:0;width:WIDTHpx;height:900px" srcdoc="PAGE"></iframe>
<pre id="found">not measured</pre>
<script>
addEventListener("load", () => {
  const page = document.getElementById("frame").contentDocument;
  const wide = [...page.body.querySelectorAll("*")].filter(e =>
    !e.closest(".scroll") && (e.getBoundingClientRect().right > WIDTH + 0.5 ||
      e.getBoundingClientRect().left < -0.5));
  const cut = [...page.querySelectorAll("svg text")].filter(e => {
    const text = e.getBoundingClientRect(), box = e.closest("svg").getBoundingClientRect();
    return text.left < box.left - 1 || text.right > box.right + 1 || text.bottom > box.bottom + 1;
  });
  const open = [...page.querySelectorAll(".scroll")].filter(e =>
    e.getBoundingClientRect().right > WIDTH + 0.5);
  const small = [...page.querySelectorAll("svg")].filter(e => e.clientWidth > 0 &&
    e.clientWidth < 0.9 * e.viewBox.baseVal.width);
  const seen = [...page.querySelectorAll("svg")].filter(e => e.clientWidth > 0);
  document.getElementById("found").textContent = [
    "width " + page.scrollingElement.scrollWidth,
    "beyond " + wide.map(e => e.tagName + "." + e.getAttribute("class")).join(" "),
    "shrunk " + small.length,
    "pictures " + seen.length + " of " + page.querySelectorAll("svg").length,
    "cut " + cut.map(e => e.textContent).join("; "),
    "open " + open.length,
    "end"].join("\n");
});
</script>"#;

fn is_installed() -> bool {
    let version = Command::new(CHROMIUM).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Runs Chromium on a file, with a separate profile, offline.
fn chromium(folder: &Folder, page: &Path, flags: &[&str]) -> String {
    let profile = folder.path().join("profile");
    let output = Command::new("timeout")
        .args([
            "120",
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--timeout=20000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(flags)
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const NO_CHROMIUM: &str = "chromium is not installed: scripts/setup report";

fn measured(width: u32) -> Option<Vec<String>> {
    if !is_installed() {
        skip(NO_CHROMIUM);
        return None;
    }
    let folder = Folder::new(&format!("browser-{width}"));
    let page = reports::html(&collection(&format!("browser-page-{width}"), &all()));
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let harness = HARNESS.replace("WIDTH", &width.to_string()).replace("PAGE", &page);
    let file = folder.write("harness.html", harness);
    let dom = chromium(&folder, &file, &["--dump-dom", "--window-size=1400,1000"]);
    Some(found(&dom))
}

/// Returns the lines that a harness wrote.
fn found(dom: &str) -> Vec<String> {
    let from = dom.find("<pre id=\"found\">").expect("chromium printed the page") + 16;
    let found = &dom[from..from + dom[from..].find("</pre>").unwrap()];
    found.lines().map(str::to_owned).collect()
}

#[test]
fn nothing_is_wider_than_a_phone_and_letters_are_not_shrunk() {
    let Some(found) = measured(PHONE_PX) else { return };
    assert_eq!(found[0], format!("width {PHONE_PX}"), "{found:?}");
    assert_eq!(found[1].trim(), "beyond", "{found:?}");
    assert_eq!(found[2], "shrunk 0", "{found:?}");
    let pictures: Vec<u32> = found[3].split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!(pictures[0] * 2, pictures[1], "one of two is seen: {found:?}");
    assert_eq!(found[4].trim(), "cut", "words end inside their pictures: {found:?}");
    assert_eq!(found[5], "open 0", "what scrolls is itself no wider than the phone: {found:?}");
}

#[test]
fn on_a_desktop_the_wide_pictures_are_seen() {
    let Some(found) = measured(1280) else { return };
    assert_eq!(found[0], "width 1280", "{found:?}");
    let pictures: Vec<u32> = found[3].split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!((pictures[0] * 2, pictures[0] > 0), (pictures[1], true), "{found:?}");
    assert_eq!((found[1].trim(), found[4].trim(), found[5].as_str()), ("beyond", "cut", "open 0"));
}

/// Shows the charts as another page would: images as wide as a phone's column.
const CHARTS: &str = r#"<!doctype html><meta charset="utf-8"><body>
IMAGES
<pre id="found">not measured</pre>
<script>
addEventListener("load", () => {
  const said = [...document.images].map(e => e.alt + " " + e.naturalWidth + " " + e.width);
  document.getElementById("found").textContent = said.join("\n");
});
</script>"#;

#[test]
fn charts_of_their_own_are_pictures_that_a_phone_shows_as_large_as_they_are() {
    if !is_installed() {
        skip(NO_CHROMIUM);
        return;
    }
    let folder = Folder::new("charts");
    let charts = reports::charts(&collection("charts-page", &all()));
    let image =
        |name: &str| format!("<img style=\"max-width:100%\" src=\"{name}\" alt=\"{name}\">");
    let images: String = charts.iter().map(|chart| image(&chart.name)).collect();
    for chart in &charts {
        folder.write(&chart.name, &chart.text);
    }
    let page = folder.write("page.html", CHARTS.replace("IMAGES", &images));
    let dom = chromium(&folder, &page, &["--dump-dom", "--window-size=500,1000"]);
    let found = found(&dom);
    assert_eq!(found.len(), charts.len(), "{found:?}");
    for (line, chart) in found.iter().zip(&charts) {
        assert_eq!(*line, format!("{} 374 374", chart.name), "it is read, and not shrunk");
    }
}

/// For the eye:
/// `REPORT_PICTURES=folder cargo test -p burstline-lab --test report -- --ignored pictures`.
#[test]
#[ignore = "for the eye: REPORT_PICTURES names its folder"]
fn pictures_are_taken_where_they_are_asked_for() {
    let into = std::env::var_os("REPORT_PICTURES").expect("REPORT_PICTURES names a folder");
    let into = Path::new(&into);
    fs::create_dir_all(into).unwrap();
    let folder = Folder::new("pictures");
    let page = folder.write("report.html", reports::html(&collection("pictured", &all())));
    fs::copy(&page, into.join("report.html")).unwrap();
    for chart in reports::charts(&collection("pictured-charts", &all())) {
        fs::write(into.join(&chart.name), &chart.text).unwrap();
    }
    let shot = |name: &str| format!("--screenshot={}", into.join(name).display());
    let (desktop, dark) = (shot("desktop.png"), shot("dark.png"));
    chromium(&folder, &page, &[&desktop, "--window-size=1280,9000"]);
    let forced = "--blink-settings=preferredColorScheme=0";
    chromium(&folder, &page, &[&dark, "--window-size=1280,9000", forced]);
    let print = format!("--print-to-pdf={}", into.join("print.pdf").display());
    chromium(&folder, &page, &[&print, "--no-pdf-header-footer"]);
    let text = fs::read_to_string(&page).unwrap().replace('&', "&amp;").replace('"', "&quot;");
    let frame = HARNESS.replace("height:900px", "height:16000px");
    let frame = frame.replace("WIDTH", &PHONE_PX.to_string()).replace("PAGE", &text);
    let frame = folder.write("phone.html", frame);
    chromium(&folder, &frame, &[&shot("phone.png"), "--window-size=500,16000"]);
}
