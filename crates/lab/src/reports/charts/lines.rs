//! Draws lines: a metric over sizes or rates, a curve over all lengths, a cumulative distribution.

use crate::reports::axes::Axis;
use crate::reports::canvas::{self, LEGEND_LINE_PX, Plot, Sign, Width};
use crate::reports::chart::{self, Chart, Panel, Point, Series};
use crate::reports::numbers;
use crate::reports::svg::{Hold, Picture, Place, Svg, fitted, text_width};

/// From this many points on, signs and ranges would cover the line.
const MARKED_POINTS_MAX: usize = 40;
/// Number of signs on a longer line, to distinguish it without colours.
const SIGNS_OF_LONG_LINE: usize = 6;
/// Height of the rectangle for the data.
const PLOT_HEIGHT_PX: f64 = 220.0;
/// Space for names at the right.
const NAMES_PX: f64 = 178.0;
/// Minimum distance between two names at the right.
const NAME_GAP_PX: f64 = 17.0;

/// The kind of vertical axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vertical {
    /// Amounts.
    Amounts,
    /// Shares of a total, spaced by nines: 90 %, 99 %, 99.9 %.
    Shares,
}

/// Draws one panel. All panels of a chart have the same axes, so that they can be compared.
pub(crate) fn draw(
    chart: &Chart,
    panel: &Panel,
    vertical: Vertical,
    width: Width,
    id: &str,
    title: &str,
) -> Option<Picture> {
    let names: Vec<_> =
        panel.series.iter().map(|series| (series.look, series.name.as_str())).collect();
    let legend_lines = match width {
        Width::Wide => 0,
        Width::Narrow => canvas::legend(None, width, 0.0, &names, Sign::Line),
    };
    let legend_px = legend_lines as f64 * LEGEND_LINE_PX;
    let (left, right) = match width {
        Width::Wide => (60.0, width.px() - NAMES_PX),
        Width::Narrow => (50.0, width.px() - 16.0),
    };
    let top = 28.0 + legend_px;
    let plot = Plot { left, right, top, bottom: top + PLOT_HEIGHT_PX };
    let plot = Plot { left: left.max(labels_px(&axes(chart, vertical, plot)?.1)), ..plot };
    let (x_axis, y_axis) = axes(chart, vertical, plot)?;
    let mut svg = Svg::new(width.px(), plot.bottom + 44.0);
    if width == Width::Narrow {
        canvas::legend(Some(&mut svg), width, 10.0, &names, Sign::Line);
    }
    let y_label = canvas::axis_label(&chart.axes.y_label, Some(&y_axis), width);
    canvas::vertical(&mut svg, plot, &y_axis, &y_label);
    let (ticks, place) = x_places(chart, x_axis.as_ref(), plot);
    let x_label = canvas::axis_label(&chart.axes.x_label, x_axis.as_ref(), width);
    canvas::horizontal(&mut svg, plot, &ticks, &x_label);
    // Lines from documents are drawn below measured ones.
    let (said, measured): (Vec<_>, Vec<_>) = panel.series.iter().partition(|s| s.is_document);
    for series in said.into_iter().chain(measured) {
        line(&mut svg, series, &place, &y_axis);
    }
    if width == Width::Wide {
        name_lines(&mut svg, panel, plot, &y_axis);
    }
    let description = match vertical {
        Vertical::Amounts => chart::in_words(&chart.axes, panel),
        Vertical::Shares => chart::shares_in_words(&chart.axes, panel),
    };
    Some(svg.finish(id, width.class(), title, &description))
}

/// Returns axes for all panels; words use slots instead of an axis.
fn axes(chart: &Chart, vertical: Vertical, plot: Plot) -> Option<(Option<Axis>, Axis)> {
    let points = || chart.panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.points);
    let x_values: Vec<f64> = points().map(|point| point.x).collect();
    let y_values: Vec<f64> = points()
        .flat_map(|point| [Some(point.y), point.spread.map(|s| s.0), point.spread.map(|s| s.1)])
        .flatten()
        .collect();
    let y_axis = match vertical {
        Vertical::Amounts => Axis::of_amounts(&y_values, plot.bottom, plot.top)?,
        Vertical::Shares => Axis::of_shares(&y_values, plot.bottom, plot.top),
    };
    let x_axis = match vertical {
        _ if !chart.axes.words.is_empty() => None,
        Vertical::Amounts => Some(Axis::of_places(&x_values, plot.left, plot.right)?),
        Vertical::Shares => Some(Axis::of_values(&x_values, plot.left, plot.right)?),
    };
    Some((x_axis, y_axis))
}

/// Returns the space for the labels of the vertical axis.
fn labels_px(axis: &Axis) -> f64 {
    axis.ticks(5).iter().map(|(_, label)| text_width(label)).fold(0.0, f64::max) + 12.0
}

/// Returns ticks of the horizontal axis, and a function from a point's x to its position.
fn x_places(
    chart: &Chart,
    axis: Option<&Axis>,
    plot: Plot,
) -> (Vec<(f64, String)>, impl Fn(f64) -> f64) {
    let (centers, slot) = canvas::slots(plot, chart.axes.words.len());
    let values = chart.panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.points);
    let mut values: Vec<f64> = values.map(|point| point.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let ticks = match axis {
        Some(axis) if values.len() <= 16 => axis.ticks_at(&values),
        Some(axis) => axis.ticks(6),
        None => {
            let words = centers.iter().zip(&chart.axes.words);
            words.map(|(&x, word)| (x, fitted(word, slot - 4.0))).collect()
        }
    };
    let axis = axis.cloned();
    let place = move |x: f64| match &axis {
        Some(axis) => axis.place(x),
        None => centers.get(x as usize).copied().unwrap_or(plot.left),
    };
    (ticks, place)
}

fn line(svg: &mut Svg, series: &Series, place: &impl Fn(f64) -> f64, y_axis: &Axis) {
    let at = |point: &Point| Place { x: place(point.x), y: y_axis.place(point.y) };
    let is_marked = series.points.len() <= MARKED_POINTS_MAX;
    if is_marked {
        for point in &series.points {
            if let Some((least, most)) = point.spread {
                let x = place(point.x);
                let [from, to] = [least, most].map(|value| Place { x, y: y_axis.place(value) });
                svg.line("spread", from, to);
            }
        }
    }
    let places: Vec<Place> = series.points.iter().map(at).collect();
    svg.path(series.look, &places);
    let every = if is_marked { 1 } else { series.points.len() / SIGNS_OF_LONG_LINE };
    for point in series.points.iter().step_by(every.max(1)) {
        let says = format!("{}: {}", series.name, numbers::value(point.y));
        svg.marker(series.look, at(point), &says);
    }
}

/// Writes names at the right, each as close to its line's end as the others permit.
fn name_lines(svg: &mut Svg, panel: &Panel, plot: Plot, y_axis: &Axis) {
    let mut ends: Vec<(f64, &Series)> = panel
        .series
        .iter()
        .filter_map(|series| Some((y_axis.place(series.points.last()?.y), series)))
        .collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = ends.iter().map(|(y, _)| *y).collect();
    let x = plot.right + 16.0;
    for (y, (_, series)) in apart(&wanted, plot.top, plot.bottom).into_iter().zip(&ends) {
        svg.path(series.look, &[Place { x, y }, Place { x: x + 22.0, y }]);
        svg.marker(series.look, Place { x: x + 11.0, y }, &series.name);
        let name = fitted(&series.name, NAMES_PX - 46.0);
        svg.text("", Place { x: x + 28.0, y: y + 4.0 }, Hold::Start, &name);
    }
}

/// Returns heights at least [`NAME_GAP_PX`] apart, in order, close to the wanted ones, and inside
/// the box if they fit.
fn apart(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::new();
    for &y in wanted {
        let lowest = placed.last().map_or(top, |before| before + NAME_GAP_PX);
        placed.push(y.max(lowest));
    }
    let mut limit = bottom;
    for y in placed.iter_mut().rev() {
        *y = y.min(limit);
        limit = *y - NAME_GAP_PX;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reports::chart::Axes;
    use crate::reports::style::Look;

    fn chart(points: &[(f64, f64)]) -> Chart {
        let point = |&(x, y): &(f64, f64)| Point { x, y, spread: None, is_model: false };
        let points = points.iter().map(point).collect();
        let (look, name) = (Look::series(0), "ours".to_owned());
        let series = vec![Series { name, look, is_document: false, points }];
        let axes = Axes { x_label: "x".into(), y_label: "Mpps".into(), words: Vec::new() };
        Chart { axes, panels: vec![Panel { title: String::new(), series }], left_out: 0 }
    }

    fn drawn(chart: &Chart, vertical: Vertical, width: Width) -> String {
        draw(chart, &chart.panels[0], vertical, width, "i", "t").unwrap().html()
    }

    #[test]
    fn points_are_where_their_values_are() {
        // Wide: the box is 60 to 542 by 28 to 248; 64 to 1024 bytes are four doublings.
        let text = drawn(
            &chart(&[(64.0, 10.0), (256.0, 5.0), (1024.0, 0.0)]),
            Vertical::Amounts,
            Width::Wide,
        );
        assert!(text.contains("d=\"M60.0 28.0L301.0 138.0L542.0 248.0\""), "{text}");
        for tick in
            [">64<", ">256<", ">1024<", ">0<", ">10<", ">Mpps<", ">x, logarithmic<", ">ours<"]
        {
            assert!(text.contains(tick), "{tick} in {text}");
        }
    }

    #[test]
    fn a_narrow_one_has_its_legend_above_and_a_distribution_ends_at_one() {
        let points = [(10.0, 0.0), (50.0, 0.9), (100.0, 0.99), (100.0, 1.0)];
        let text = drawn(&chart(&points), Vertical::Shares, Width::Narrow);
        // The box is 50 to 342 by 47 to 267, and two nines high; a tenth spans all of it.
        assert!(text.contains("d=\"M50.0 267.0L254.1 157.0L342.0 47.0L342.0 47.0\""), "{text}");
        for part in ["class=\"narrow\"", ">90 %<", ">99 %<", "ours: 50 % up to 50, 99 % up to 100"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_long_line_has_few_signs_and_no_spread() {
        let points: Vec<(f64, f64)> = (60..1515).map(|l| (f64::from(l), f64::from(l))).collect();
        let text = drawn(&chart(&points), Vertical::Amounts, Width::Narrow);
        let signs = text.matches("class=\"sign").count();
        assert!((SIGNS_OF_LONG_LINE..=SIGNS_OF_LONG_LINE + 3).contains(&signs), "{signs}");
    }

    #[test]
    fn names_keep_apart_in_order_and_inside() {
        assert_eq!(apart(&[100.0, 101.0, 200.0], 0.0, 300.0), [100.0, 117.0, 200.0]);
        assert_eq!(apart(&[299.0, 300.0], 0.0, 300.0), [283.0, 300.0]);
        assert_eq!(apart(&[0.0, 0.0, 0.0], 0.0, 300.0), [0.0, 17.0, 34.0]);
    }

    #[test]
    fn what_cannot_be_drawn_is_not() {
        let chart = chart(&[(1.0, f64::MAX)]);
        assert!(draw(&chart, &chart.panels[0], Vertical::Amounts, Width::Wide, "i", "t").is_none());
    }
}
