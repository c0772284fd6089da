//! Draws horizontal bars: amounts by name, so that names can be read; or stages of work, stacked.
//!
//! A bar always begins at 0, and its value is at its end. Calculated values have a dashed outline;
//! values from a document are hollow.

use crate::reports::axes::Axis;
use crate::reports::canvas::{self, LEGEND_LINE_PX, Plot, Sign, Width};
use crate::reports::chart::{self, Chart, Panel};
use crate::reports::numbers;
use crate::reports::style::Look;
use crate::reports::svg::{Area, Hold, Picture, Place, Svg, fitted};

/// Space for values at the ends of bars.
const VALUES_PX: f64 = 64.0;
/// Space for names at the left of bars, if they have any.
const NAMES_PX: f64 = 190.0;

/// A group of bars.
#[derive(Debug)]
pub(crate) struct Group {
    /// The group's title; empty if none is needed.
    pub(crate) title: String,
    /// The bars, from top to bottom.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug)]
pub(crate) struct Bar {
    /// Its name.
    pub(crate) label: String,
    /// The parts, from left to right.
    pub(crate) parts: Vec<(Look, f64)>,
    /// The smallest and the largest sample.
    pub(crate) spread: Option<(f64, f64)>,
    /// The origin of its value.
    pub(crate) kind: Kind,
}

/// Where a bar's value is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Measured.
    Measured,
    /// Calculated.
    Model,
    /// From a document.
    Document,
}

/// The texts around the bars.
#[derive(Debug)]
pub(crate) struct Words<'a> {
    /// The axis, with its unit.
    pub(crate) axis: &'a str,
    /// Names of the parts of bars; empty if bars have one part.
    pub(crate) parts: &'a [(Look, &'a str)],
    /// Title for screen readers.
    pub(crate) title: &'a str,
    /// Description for screen readers.
    pub(crate) description: &'a str,
}

impl Bar {
    /// Returns the sum of its parts.
    fn length(&self) -> f64 {
        self.parts.iter().map(|(_, value)| value).sum()
    }
}

/// Converts a chart panel with words on the horizontal axis: one group per word.
pub(crate) fn groups(chart: &Chart, panel: &Panel) -> Vec<Group> {
    let is_single = panel.series.iter().all(|series| series.name.is_empty());
    let mut groups = Vec::new();
    for (index, word) in chart.axes.words.iter().enumerate() {
        let mut bars = Vec::new();
        for series in &panel.series {
            let here = series.points.iter().filter(|point| point.x as usize == index);
            bars.extend(here.map(|point| Bar {
                label: if is_single { word.clone() } else { series.name.clone() },
                parts: vec![(series.look, point.y)],
                spread: point.spread,
                kind: match point.is_model {
                    _ if series.is_document => Kind::Document,
                    true => Kind::Model,
                    false => Kind::Measured,
                },
            }));
        }
        if !bars.is_empty() {
            let title = if is_single { String::new() } else { word.clone() };
            groups.push(Group { title, bars });
        }
    }
    groups
}

/// Draws groups of bars, one below the other. `None` if no value can be drawn.
pub(crate) fn draw(groups: &[Group], words: &Words, width: Width, id: &str) -> Option<Picture> {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let highs = bars().filter_map(|bar| bar.spread.map(|spread| spread.1));
    let lengths: Vec<f64> = bars().map(Bar::length).chain(highs).collect();
    let legend_lines = match words.parts {
        [] => 0,
        parts => canvas::legend(None, width, 0.0, parts, Sign::Area),
    };
    let top = 8.0 + legend_lines as f64 * LEGEND_LINE_PX;
    let (left, line) = match width {
        Width::Wide => (NAMES_PX, 22.0),
        Width::Narrow => (6.0, 36.0),
    };
    let titles = groups.iter().filter(|group| !group.title.is_empty()).count();
    let bottom = top + bars().count() as f64 * line + titles as f64 * 24.0 + 6.0;
    let plot = Plot { left, right: width.px() - VALUES_PX, top, bottom };
    let axis = Axis::of_lengths(&lengths, plot.left, plot.right)?;
    let mut svg = Svg::new(width.px(), bottom + 44.0);
    if !words.parts.is_empty() {
        canvas::legend(Some(&mut svg), width, 10.0, words.parts, Sign::Area);
    }
    let ticks = axis.ticks(5);
    for &(x, _) in &ticks {
        svg.line("grid", Place { x, y: top }, Place { x, y: bottom });
    }
    let mut y = top;
    for group in groups {
        if !group.title.is_empty() {
            let title = fitted(&group.title, width.px() - 8.0);
            svg.text("head", Place { x: 4.0, y: y + 17.0 }, Hold::Start, &title);
            y += 24.0;
        }
        for bar in &group.bars {
            one(&mut svg, bar, &axis, width, y);
            y += line;
        }
    }
    let label = canvas::axis_label(words.axis, None, width);
    canvas::horizontal(&mut svg, plot, &ticks, &label);
    Some(svg.finish(id, width.class(), words.title, words.description))
}

fn one(svg: &mut Svg, bar: &Bar, axis: &Axis, width: Width, y: f64) {
    let label = match width {
        Width::Wide => fitted(&bar.label, NAMES_PX - 14.0),
        Width::Narrow => fitted(&bar.label, width.px() - 10.0),
    };
    let (label_at, hold, bar_y) = match width {
        Width::Wide => (Place { x: NAMES_PX - 8.0, y: y + 15.0 }, Hold::End, y + 3.0),
        Width::Narrow => (Place { x: 6.0, y: y + 14.0 }, Hold::Start, y + 18.0),
    };
    svg.text("", label_at, hold, &label);
    let mut from = 0.0;
    for (look, value) in &bar.parts {
        let (start, end) = (axis.place(from), axis.place(from + value));
        let (class, opacity) = match bar.kind {
            Kind::Measured => (look.area_class(), 1.0),
            Kind::Model => (look.area_class().replace("area", "model"), 0.35),
            Kind::Document => (look.of_document().marker_class(), 1.0),
        };
        let (x, width) = (start.min(end), (end - start).abs().max(0.5));
        svg.rect(&class, Area { x, y: bar_y, width, height: 15.0 }, opacity);
        from += value;
    }
    let middle = bar_y + 7.5;
    let mut end = axis.place(bar.length().max(0.0));
    if let Some((least, most)) = bar.spread {
        let [from, to] = [least, most].map(|value| Place { x: axis.place(value), y: middle });
        svg.line("spread", from, to);
        end = end.max(axis.place(most));
    }
    svg.text(
        "",
        Place { x: end + 5.0, y: middle + 4.0 },
        Hold::Start,
        &numbers::value(bar.length()),
    );
}

/// Draws a chart's panel as bars.
pub(crate) fn panel(
    chart: &Chart,
    panel: &Panel,
    width: Width,
    id: &str,
    title: &str,
) -> Option<Picture> {
    let description = chart::in_words(&chart.axes, panel);
    let axis = &chart.axes.y_label;
    draw(
        &groups(chart, panel),
        &Words { axis, parts: &[], title, description: &description },
        width,
        id,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(label: &str, values: &[f64], kind: Kind) -> Bar {
        let parts = values.iter().enumerate().map(|(i, v)| (Look::series(i), *v)).collect();
        Bar { label: label.to_owned(), parts, spread: None, kind }
    }

    const WORDS: Words<'_> =
        Words { axis: "% per Gbit/s", parts: &[], title: "t", description: "d" };

    #[test]
    fn a_bar_begins_at_zero_and_is_as_long_as_its_value() {
        let bars = vec![bar("a", &[20.0], Kind::Measured), bar("b", &[5.0], Kind::Document)];
        let groups = [Group { title: String::new(), bars }];
        let text = draw(&groups, &WORDS, Width::Wide, "i").unwrap().html();
        // From 190 to 656: 466 pixels represent 20.
        assert!(text.contains("x=\"190.0\" y=\"11.0\" width=\"466.0\""), "{text}");
        assert!(
            text.contains("class=\"hollow c0\" x=\"190.0\" y=\"33.0\" width=\"116.5\""),
            "{text}"
        );
        assert!(text.contains(">% per Gbit/s<") && text.contains(">20</text>"), "{text}");
    }

    #[test]
    fn parts_lie_end_to_end() {
        let bars = vec![bar("a", &[30.0, 10.0], Kind::Measured)];
        let parts = [(Look::series(0), "poll"), (Look::series(1), "copy")];
        let words = Words { parts: &parts, ..WORDS };
        let groups = [Group { title: "64 bytes".to_owned(), bars }];
        let text = draw(&groups, &words, Width::Narrow, "i").unwrap().html();
        // From 6 to 294: 288 pixels represent 40.
        assert!(
            text.contains("class=\"area c0\" x=\"6.0\"") && text.contains("width=\"216.0\""),
            "{text}"
        );
        assert!(
            text.contains("class=\"area c1\" x=\"222.0\"") && text.contains("width=\"72.0\""),
            "{text}"
        );
        assert!(text.contains(">40</text>") && text.contains(">poll</text>"), "{text}");
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(draw(&[], &WORDS, Width::Wide, "i").is_none());
    }
}
