//! Draws heat maps: tables whose cells are filled more for larger values.
//!
//! It uses one hue and prints each value, so no information depends on colour vision.

use crate::reports::canvas::Width;
use crate::reports::chart::{self, Chart, Panel, Point, Series};
use crate::reports::numbers;
use crate::reports::svg::{Area, Hold, Picture, Place, Svg, fitted, text_width};

/// Opacity for the smallest and the largest value.
const FAINT: f64 = 0.06;
const STRONG: f64 = 0.6;

const CELL_HEIGHT_PX: f64 = 40.0;

/// Draws one panel. `None` if no value can be drawn.
pub(crate) fn draw(
    chart: &Chart,
    panel: &Panel,
    width: Width,
    id: &str,
    title: &str,
) -> Option<Picture> {
    let measured = || chart.panels.iter().flat_map(|p| &p.series).filter(|s| !s.is_document);
    let values = measured().flat_map(|series| &series.points).map(|point| point.y);
    let values: Vec<f64> = values.filter(|value| value.abs() < 1e300).collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    Some(Map { chart, panel, least, most, title }.draw(width, id))
}

struct Map<'a> {
    chart: &'a Chart,
    panel: &'a Panel,
    least: f64,
    most: f64,
    title: &'a str,
}

impl Map<'_> {
    fn draw(&self, width: Width, id: &str) -> Picture {
        let words: Vec<&str> = self.chart.axes.words.iter().map(String::as_str).collect();
        let lines = lines(self.panel);
        let names: Vec<&str> = lines.iter().map(|line| line.name).collect();
        // A phone is taller than wide, so many columns become many rows.
        let is_turned = width == Width::Narrow && words.len() > 4 && words.len() > names.len();
        let (columns, rows) = if is_turned { (&names, &words) } else { (&words, &names) };
        let longest = rows.iter().map(|name| text_width(name)).fold(0.0, f64::max);
        let left = (longest + 16.0).clamp(40.0, 0.4 * width.px());
        let cell = (width.px() - left - 4.0) / columns.len().max(1) as f64;
        let bottom = 48.0 + rows.len() as f64 * CELL_HEIGHT_PX;
        let mut svg = Svg::new(width.px(), bottom + 24.0);
        let label = format!("{}, by {}", self.chart.axes.y_label, self.chart.axes.x_label);
        svg.text("soft", Place { x: 4.0, y: 14.0 }, Hold::Start, &fitted(&label, width.px() - 8.0));
        for (index, name) in columns.iter().enumerate() {
            let x = left + (index as f64 + 0.5) * cell;
            svg.text("", Place { x, y: 38.0 }, Hold::Middle, &fitted(name, cell - 4.0));
        }
        for (row, name) in rows.iter().enumerate() {
            let y = 44.0 + row as f64 * CELL_HEIGHT_PX;
            svg.text(
                "",
                Place { x: left - 8.0, y: y + 24.0 },
                Hold::End,
                &fitted(name, left - 12.0),
            );
            for column in 0..columns.len() {
                let (line, word) = if is_turned { (column, row) } else { (row, column) };
                let at = Place { x: left + column as f64 * cell, y };
                self.cell(&mut svg, &lines[line], word, at, cell);
            }
        }
        let (least, most) = (numbers::value(self.least), numbers::value(self.most));
        let scale = format!("faintest {least}, fullest {most}; empty: not run");
        svg.text("soft", Place { x: 4.0, y: bottom + 16.0 }, Hold::Start, &scale);
        let description = chart::in_words(&self.chart.axes, self.panel);
        svg.finish(id, width.class(), self.title, &description)
    }

    fn cell(&self, svg: &mut Svg, line: &Line, word: usize, at: Place, width: f64) {
        let Place { x, y } = at;
        let at_word = |series: Option<&Series>| {
            series.and_then(|series| series.points.iter().find(|p| p.x as usize == word).copied())
        };
        let area = Area { x, y, width: width - 2.0, height: CELL_HEIGHT_PX - 2.0 };
        let middle = x + width / 2.0;
        let said: Option<Point> = at_word(line.said);
        match at_word(line.measured) {
            Some(point) => {
                let share = (point.y - self.least) / (self.most - self.least);
                let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
                let class = if point.is_model { "model cell" } else { "cell" };
                svg.rect(class, area, FAINT + share * (STRONG - FAINT));
                let value_y = if said.is_some() { y + 17.0 } else { y + 24.0 };
                let value = fitted(&numbers::value(point.y), width - 4.0);
                svg.text("head", Place { x: middle, y: value_y }, Hold::Middle, &value);
            }
            None => svg.rect("none", area, 0.0),
        }
        if let Some(said) = said {
            let value = format!("said {}", numbers::value(said.y));
            svg.text(
                "soft",
                Place { x: middle, y: y + 32.0 },
                Hold::Middle,
                &fitted(&value, width - 4.0),
            );
        }
    }
}

/// Measured and documented values under a name; either may be missing.
struct Line<'a> {
    name: &'a str,
    measured: Option<&'a Series>,
    said: Option<&'a Series>,
}

fn lines(panel: &Panel) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for series in &panel.series {
        let name = series.name.as_str();
        if !series.is_document {
            lines.push(Line { name, measured: Some(series), said: None });
            continue;
        }
        let is_same = |line: &&mut Line<'_>| {
            line.measured.is_some_and(|other| other.look.of_document() == series.look)
        };
        match lines.last_mut().filter(is_same) {
            Some(line) => line.said = Some(series),
            None => lines.push(Line { name, measured: None, said: Some(series) }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::chart::Axes;
    use crate::reports::style::Look;

    fn chart(words: &[&str], values: &[&[f64]]) -> Chart {
        let series = values.iter().enumerate().map(|(index, values)| {
            let points = values.iter().enumerate();
            let point =
                |(x, &y): (usize, &f64)| Point { x: x as f64, y, spread: None, is_model: false };
            let points = points.map(point).collect();
            let (name, look) = (format!("line {index}"), Look::series(index));
            Series { name, look, is_document: false, points }
        });
        let panels = vec![Panel { title: String::new(), series: series.collect() }];
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let axes = Axes { x_label: "placement".into(), y_label: "Mpps".into(), words };
        Chart { axes, panels, left_out: 0 }
    }

    fn drawn(chart: &Chart, width: Width) -> String {
        draw(chart, &chart.panels[0], width, "i", "t").unwrap().html()
    }

    #[test]
    fn the_largest_is_fullest_and_each_says_its_value() {
        let chart = chart(&["A_AA", "A_AB", "A_BB"], &[&[12.0, 9.0, 6.0], &[6.0, 6.0]]);
        let text = drawn(&chart, Width::Narrow);
        assert_eq!(text.matches("fill-opacity=\"0.60\"").count(), 1);
        assert_eq!(text.matches("fill-opacity=\"0.06\"").count(), 3);
        assert_eq!(text.matches("class=\"none\"").count(), 1, "one was not run");
        assert!(text.contains(">12</text>") && text.contains("faintest 6, fullest 12"), "{text}");
    }

    #[test]
    fn many_columns_are_lines_on_a_phone() {
        let words = ["1", "2", "3", "4", "5", "6"];
        let chart = chart(&words, &[&[1.0; 6]]);
        // Two header lines, six cells below each other, and one line for the scale.
        assert!(drawn(&chart, Width::Narrow).contains("viewBox=\"0 0 358 312\""));
        assert!(drawn(&chart, Width::Wide).contains("viewBox=\"0 0 720 112\""));
    }
}
