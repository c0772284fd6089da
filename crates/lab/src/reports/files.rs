//! Writes charts as separate files, for other pages: a README, slides.
//!
//! A file is complete in itself. It has a title, names and units, and below them where and when it
//! was measured and any doubts. It has the width of a phone, so it is not shrunk there and two fit
//! side by side on a desktop. It has its own background, because a page may be dark when its
//! reader's system is not.

use super::canvas::Width;
use super::collect::{Collection, Entry};
use super::drawn::{self, Set};
use super::select;
use super::style;
use super::svg::{Area, Hold, Picture, Place, Svg, text_width};

/// Maximum number of pictures in a file, below each other.
const PANELS_MAX: usize = 4;
/// Margin around everything.
const MARGIN_PX: f64 = 8.0;
/// Line heights of the title, and of the text below a picture.
const TITLE_LINE_PX: f64 = 18.0;
const FOOT_LINE_PX: f64 = 15.0;
/// Width of title letters relative to other text.
const TITLE_WIDTH: f64 = 1.25;

/// A chart as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartFile {
    /// The record's name with the kind of chart: `numa-rtc.svg`, `latency-distribution.svg`.
    pub name: String,
    /// SVG.
    pub text: String,
}

/// Returns all charts of all records.
pub(super) fn all(collection: &Collection) -> Vec<ChartFile> {
    collection.entries.iter().flat_map(of).collect()
}

/// Returns all charts of a record.
pub(super) fn of(entry: &Entry) -> Vec<ChartFile> {
    drawn::sets(&entry.record).iter().map(|set| file(entry, set)).collect()
}

fn file(entry: &Entry, set: &Set) -> ChartFile {
    let stem = entry.file.strip_suffix(".json").unwrap_or(&entry.file);
    let name = match set.suffix {
        "" => format!("{stem}.svg"),
        suffix => format!("{stem}-{suffix}.svg"),
    };
    let pictures = set.figures.iter().take(PANELS_MAX).enumerate();
    let drawn = pictures.filter_map(|(index, figure)| {
        let caption = if figure.is_plain { "" } else { figure.caption.as_str() };
        Some((caption, figure.draw(Width::Narrow, &format!("p{index}"))?))
    });
    let drawn: Vec<(&str, Picture)> = drawn.collect();
    let left_out = set.figures.len().saturating_sub(PANELS_MAX) + set.left_out;
    ChartFile { name, text: text(entry, &drawn, left_out) }
}

/// Returns the whole file: title, pictures with captions, and the notes below.
fn text(entry: &Entry, pictures: &[(&str, Picture)], left_out: usize) -> String {
    let inner_px = Width::Narrow.px();
    let title = wrapped(&entry.record.title, inner_px / TITLE_WIDTH);
    let captions = pictures.iter().map(|(caption, _)| wrapped(caption, inner_px));
    let captions: Vec<Vec<String>> = captions.collect();
    let foot: Vec<String> =
        foot(entry, left_out).iter().flat_map(|line| wrapped(line, inner_px)).collect();
    let heights = pictures.iter().map(|(_, picture)| picture.height + TITLE_LINE_PX).sum::<f64>();
    let caption_lines = captions.iter().map(Vec::len).sum::<usize>();
    let lines_px = (title.len() + caption_lines) as f64 * TITLE_LINE_PX;
    let height = 2.0 * MARGIN_PX + lines_px + heights + foot.len() as f64 * FOOT_LINE_PX;
    let width = inner_px + 2.0 * MARGIN_PX;
    let mut svg = Svg::new(width, height);
    svg.rect("page", Area { x: 0.0, y: 0.0, width, height }, 1.0);
    let mut y = MARGIN_PX;
    let lines = |svg: &mut Svg, y: &mut f64, class: &str, lines: &[String], line_px: f64| {
        for line in lines {
            *y += line_px;
            svg.text(class, Place { x: MARGIN_PX + 4.0, y: *y - 4.0 }, Hold::Start, line);
        }
    };
    lines(&mut svg, &mut y, "title", &title, TITLE_LINE_PX);
    for ((_, picture), caption) in pictures.iter().zip(&captions) {
        lines(&mut svg, &mut y, "soft", caption, TITLE_LINE_PX);
        y += TITLE_LINE_PX / 2.0;
        svg.inside(Place { x: MARGIN_PX, y }, picture);
        y += picture.height + TITLE_LINE_PX / 2.0;
    }
    lines(&mut svg, &mut y, "soft", &foot, FOOT_LINE_PX);
    let description: Vec<&str> = pictures.iter().map(|(_, p)| p.description.as_str()).collect();
    svg.finish("", "", &entry.record.title, &description.join(" ")).alone(&style::picture())
}

/// Returns the place and time of the measurement, and its doubts.
fn foot(entry: &Entry, left_out: usize) -> Vec<String> {
    let record = &entry.record;
    let machine = &record.machine;
    let kind = if machine.is_virtual { ", virtual machine" } else { "" };
    let cores = if machine.cores == 1 { "core" } else { "cores" };
    let day = record.started.split('T').next().unwrap_or_default();
    let commit = record.commit.as_deref().unwrap_or("of no known commit");
    let quick = if record.is_quick { ", quick run" } else { "" };
    let mut lines = vec![
        format!("{}, {} {cores}{kind}, Linux {}", machine.cpu, machine.cores, machine.kernel),
        format!("{day}, burstline {commit}{quick}"),
    ];
    if left_out > 0 {
        lines.push(format!("{left_out} more panels are in the report"));
    }
    let doubts = select::distinct(record.doubts.iter().map(|doubt| doubt.name.as_str()));
    if !doubts.is_empty() {
        lines.push(format!("doubts listed in the report: {}", doubts.join(", ")));
    }
    lines
}

/// Wraps text at words to the given width; a longer word gets its own line.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) + text_width(" ") <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        let lines = wrapped("How many of so many packets", 100.0);
        assert_eq!(lines, ["How many of so", "many packets"]);
        assert_eq!(wrapped("unbreakable", 10.0), ["unbreakable"]);
        assert!(wrapped(" ", 10.0).is_empty());
    }
}
