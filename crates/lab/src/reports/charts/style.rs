//! The style sheet, and the looks of series.
//!
//! The colours are those of Okabe and Ito, which people with common colour blindness can
//! distinguish. Colours too faint on white come last; on black they are lighter. A printer may have
//! only black, so each series has a different sign and dash pattern.

/// Number of different looks before they repeat.
const LOOKS: usize = 8;

/// The look of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    index: usize,
    is_document: bool,
}

impl Look {
    /// Returns the look of series `index`; from the ninth on they repeat.
    pub(crate) fn series(index: usize) -> Self {
        Self { index: index % LOOKS, is_document: false }
    }

    /// Returns the look for a document's values: hollow signs, a dotted line.
    pub(crate) fn of_document(self) -> Self {
        Self { is_document: true, ..self }
    }

    /// Returns the class of its line.
    pub(crate) fn line_class(self) -> String {
        let kind = if self.is_document { "said" } else { "line" };
        format!("{kind} c{0} d{0}", self.index)
    }

    /// Returns the class of its sign.
    pub(crate) fn marker_class(self) -> String {
        let kind = if self.is_document { "hollow" } else { "sign" };
        format!("{kind} c{}", self.index)
    }

    /// Returns the class of an area in its colour.
    pub(crate) fn area_class(self) -> String {
        format!("area c{}", self.index)
    }

    /// Returns the outline of its sign around (0, 0).
    pub(crate) fn marker_way(self) -> &'static str {
        match self.index {
            0 => "M4.5 0A4.5 4.5 0 1 1 -4.5 0A4.5 4.5 0 1 1 4.5 0Z",
            1 => "M-4 -4H4V4H-4Z",
            2 => "M0 -5.2L5 3.8H-5Z",
            3 => "M0 -5.6L5.6 0L0 5.6L-5.6 0Z",
            4 => "M0 5.2L5 -3.8H-5Z",
            5 => "M-1.6 -5H1.6V-1.6H5V1.6H1.6V5H-1.6V1.6H-5V-1.6H-1.6Z",
            6 => "M-3 -5H3L5.5 0L3 5H-3L-5.5 0Z",
            _ => "M-4.5 -4.5H4.5L-4.5 4.5H4.5Z",
        }
    }
}

/// Returns the style sheet of a report.
pub(crate) fn page() -> String {
    [PALETTE, PAGE, PICTURE, FITTING].concat()
}

/// Returns the style sheet of a picture in a separate file.
pub(crate) fn picture() -> String {
    [
        PALETTE,
        "svg .page{fill:var(--page)}svg text.title{font-size:14px;font-weight:600}\n",
        PICTURE,
    ]
    .concat()
}

/// Colours in light and dark mode.
const PALETTE: &str = "
:root{color-scheme:light dark;--page:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d0d7de;
--band:#f3f5f7;
--warn:#fff3d6;--link:#0058a3;
--c0:#0072b2;--c1:#d55e00;--c2:#008f68;--c3:#b3528b;--c4:#a87400;--c5:#3b93c9;--c6:#555;
--c7:#7f4a2a}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--ink:#e6e9ec;--soft:#a3adb7;--rule:#3a424a;
--band:#1d2227;--warn:#3a2f12;--link:#7fc1ff;
--c0:#56b4e9;--c1:#f08038;--c2:#2fc79a;--c3:#e093bd;--c4:#e6b32e;--c5:#8fd0f5;--c6:#c0c0c0;
--c7:#c79a78}}
";

/// Style of everything but pictures.
const PAGE: &str = "\
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0 auto;padding:16px;max-width:1020px;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif;
overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:.3em 0}
h2{font-size:1.3rem;line-height:1.25;margin:2.2em 0 .4em;padding-top:.8em;
border-top:2px solid var(--rule)}
h3{font-size:1rem;margin:1.4em 0 .3em}
p,ul,dl{margin:.5em 0}ul{padding-left:1.2em}
a{color:var(--link)}
code{font:.9em ui-monospace,\"DejaVu Sans Mono\",Menlo,Consolas,monospace}
.soft{color:var(--soft)}.small{font-size:.875rem}
.tag{display:inline-block;border:1px solid var(--soft);border-radius:4px;padding:0 .4em;
font-size:.8rem;
white-space:nowrap}
.doubts{background:var(--warn);border-left:4px solid var(--c4);padding:.4em .8em;margin:.8em 0}
.doubts ul{margin:.2em 0}
dl.facts{display:grid;grid-template-columns:6em 1fr;gap:.15em 1em}
dl.facts dt{color:var(--soft)}dl.facts dd{margin:0}
figure{margin:1em 0}figcaption{font-weight:600;margin-bottom:.3em}
.panels{display:grid;gap:1em}
svg{display:block;width:100%;height:auto}
svg.wide{max-width:860px}svg.narrow{display:none}
.scroll{overflow-x:auto;margin:.8em 0}
.scroll:focus-visible{outline:2px solid var(--link)}
table{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums;
overflow-wrap:normal}
th,td{padding:.25em .6em;text-align:right;border-bottom:1px solid var(--rule);vertical-align:top}
thead th{border-bottom:2px solid var(--soft);vertical-align:bottom}
th[scope=row]{white-space:nowrap}
th[scope=row],th.word,td.word{text-align:left}
td.word{min-width:8em;max-width:24em}
tbody tr:nth-child(even),tbody tr:nth-child(even) th{background:var(--band)}
.scroll th:first-child{position:sticky;left:0}.scroll tr:nth-child(odd) th:first-child{
background:var(--page)}
td small{display:block;color:var(--soft);white-space:nowrap}
td.said{color:var(--soft);font-style:italic}
details{margin:.8em 0}.doubts details{margin:0}summary{cursor:pointer}
";

/// Style of pictures.
const PICTURE: &str = "\
svg text{fill:var(--ink);
font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}
svg text.soft{fill:var(--soft)}svg text.head{font-weight:600}
svg .grid{stroke:var(--rule);stroke-width:1}svg .axis{stroke:var(--soft);stroke-width:1}
svg .spread{stroke:var(--soft);stroke-width:1.2}
svg .said,svg .line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}
svg .said{stroke-width:1.4;stroke-dasharray:1.5 3.5!important;stroke-linecap:round}
svg .sign{fill:var(--c);stroke:var(--page);stroke-width:1}
svg .hollow{fill:var(--page);stroke:var(--c);stroke-width:1.8}
svg .area{fill:var(--c);stroke:var(--page);stroke-width:1}
svg .model{fill:var(--c);stroke:var(--c);stroke-width:1.5;stroke-dasharray:4 3}
svg .cell{fill:var(--c0);stroke:var(--rule);stroke-width:1}
svg .none{fill:none;stroke:var(--rule);stroke-width:1}
svg .given{stroke:var(--ink);stroke-width:2.5}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}
.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}
.d1{stroke-dasharray:7 3}.d2{stroke-dasharray:2.5 2.5}.d3{stroke-dasharray:9 3 2 3}
.d4{stroke-dasharray:14 4}.d5{stroke-dasharray:5 2 2 2 2 2}.d6{stroke-dasharray:3 5}
.d7{stroke-dasharray:10 2 2 2}
";

/// Style for phones, large screens and paper.
const FITTING: &str = "\
@media(max-width:640px){svg.wide{display:none}svg.narrow{display:block}
dl.facts{display:block}dl.facts dt{margin-top:.4em}h1{font-size:1.45rem}
.scroll table{width:max-content}thead th{max-width:9em}}
@media(min-width:900px){.panels.many{grid-template-columns:1fr 1fr}.panels.many svg.wide{
display:none}
.panels.many svg.narrow{display:block;max-width:470px}}
@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--soft:#444;--rule:#bbb;--band:#f5f5f5;
--warn:#fff;--link:#000;
--c0:#0072b2;--c1:#d55e00;--c2:#008f68;--c3:#b3528b;--c4:#a87400;--c5:#3b93c9;--c6:#555;
--c7:#7f4a2a}
body{max-width:none;padding:0;font-size:10pt}h2{break-after:avoid}h3{break-after:avoid}
figure,tr,.doubts{break-inside:avoid}section{break-before:auto}
.scroll{overflow:visible}table{font-size:7.5pt}th,td{padding:.2em .35em}
td small{white-space:normal}td.word{min-width:0}
svg.wide{display:block!important;max-width:17cm}svg.narrow{display:none!important}
.panels.many{grid-template-columns:1fr}
details.raw{display:none}.doubts{border:1px solid #888;border-left-width:4px}}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_differ_in_sign_until_they_repeat() {
        let ways: Vec<_> = (0..LOOKS).map(|index| Look::series(index).marker_way()).collect();
        for (index, way) in ways.iter().enumerate() {
            assert!(!ways[..index].contains(way), "{index}");
            assert!(PICTURE.contains(&format!(".c{index}{{")), "{index}");
            assert!(index == 0 || PICTURE.contains(&format!(".d{index}{{")), "{index}");
        }
        assert_eq!(Look::series(LOOKS), Look::series(0));
        assert_ne!(Look::series(1), Look::series(1).of_document());
    }

    #[test]
    fn the_style_sheet_fetches_nothing() {
        for word in ["url(", "@import", "http", "<"] {
            assert!(!page().contains(word) && !picture().contains(word), "{word}");
        }
    }
}
