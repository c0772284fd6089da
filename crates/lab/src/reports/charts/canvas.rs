//! The two widths of every picture, and the parts that pictures share.
//!
//! Shrinking a picture for a phone would also shrink its text. So each picture is drawn twice, and
//! the style sheet shows the one that fits; the other is hidden, also from screen readers.

use crate::reports::axes::{Axis, Scale};
use crate::reports::style::Look;
use crate::reports::svg::{Area, Hold, Picture, Place, Svg, fitted, text_width};

/// The width of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// For screens from 640 pixels, and paper.
    Wide,
    /// For phones.
    Narrow,
}

impl Width {
    /// Returns the width in pixels.
    pub(crate) fn px(self) -> f64 {
        match self {
            Self::Wide => 720.0,
            Self::Narrow => 358.0,
        }
    }

    /// Returns the class by which the style sheet shows one of the two.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// Draws both pictures with `draw`; empty if no value can be drawn.
pub(crate) fn both(draw: impl Fn(Width) -> Option<Picture>) -> String {
    [Width::Wide, Width::Narrow].into_iter().filter_map(draw).map(|p| p.html()).collect()
}

/// The rectangle for the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// Returns an axis label cut to the width, with a note on the scale if it is not linear.
pub(crate) fn axis_label(label: &str, axis: Option<&Axis>, width: Width) -> String {
    let scale = match axis.map(Axis::scale) {
        Some(Scale::Logarithmic) => ", logarithmic",
        _ => "",
    };
    fitted(label, width.px() - text_width(scale) - 12.0) + scale
}

/// Draws the vertical axis: a horizontal line at each tick, with the label above them.
pub(crate) fn vertical(svg: &mut Svg, plot: Plot, axis: &Axis, label: &str) {
    for (y, text) in axis.ticks(5) {
        svg.line("grid", Place { x: plot.left, y }, Place { x: plot.right, y });
        svg.text("soft", Place { x: plot.left - 6.0, y: y + 4.0 }, Hold::End, &text);
    }
    svg.text("soft", Place { x: 4.0, y: plot.top - 12.0 }, Hold::Start, label);
}

/// Draws the horizontal axis below the box: ticks, then the label.
pub(crate) fn horizontal(svg: &mut Svg, plot: Plot, ticks: &[(f64, String)], label: &str) {
    let at = |x| Place { x, y: plot.bottom };
    svg.line("axis", at(plot.left), at(plot.right));
    for (x, text) in ticks {
        svg.line("axis", at(*x), Place { x: *x, y: plot.bottom + 4.0 });
        // The last label may be wider than the space at the right of the box.
        let middle = x.min(svg.width() - text_width(text) / 2.0 - 2.0);
        svg.text("soft", Place { x: middle, y: plot.bottom + 18.0 }, Hold::Middle, text);
    }
    // A long label is centred below the box if possible, and always within the picture.
    let half = text_width(label) / 2.0 + 2.0;
    let most = (svg.width() - half).max(half);
    let middle = f64::midpoint(plot.left, plot.right).clamp(half, most);
    svg.text("soft", Place { x: middle, y: plot.bottom + 36.0 }, Hold::Middle, label);
}

/// Returns positions for `count` words along the box, and the maximum width of each.
pub(crate) fn slots(plot: Plot, count: usize) -> (Vec<f64>, f64) {
    let width = (plot.right - plot.left) / count.max(1) as f64;
    ((0..count).map(|index| plot.left + (index as f64 + 0.5) * width).collect(), width)
}

/// Lays out names with their signs in lines of the picture's width. Returns the number of lines.
/// With `svg` it also draws them; the middle of the first line is at `top`.
pub(crate) fn legend(
    mut svg: Option<&mut Svg>,
    width: Width,
    top: f64,
    names: &[(Look, &str)],
    sign: Sign,
) -> usize {
    const SIGN_PX: f64 = 30.0;
    let (mut x, mut line) = (4.0, 0);
    for (look, name) in names {
        let name = fitted(name, width.px() - SIGN_PX - 12.0);
        let needed = SIGN_PX + text_width(&name) + 14.0;
        if x > 4.0 && x + needed > width.px() {
            (x, line) = (4.0, line + 1);
        }
        let y = top + line as f64 * LEGEND_LINE_PX;
        if let Some(svg) = svg.as_deref_mut() {
            match sign {
                Sign::Line => {
                    svg.path(*look, &[Place { x, y }, Place { x: x + 24.0, y }]);
                    svg.marker(*look, Place { x: x + 12.0, y }, &name);
                }
                Sign::Area => {
                    let area = Area { x: x + 10.0, y: y - 6.0, width: 14.0, height: 12.0 };
                    svg.rect(&look.area_class(), area, 1.0);
                }
            }
            svg.text("", Place { x: x + SIGN_PX, y: y + 4.0 }, Hold::Start, &name);
        }
        x += needed;
    }
    line + 1
}

/// Height of a legend line.
pub(crate) const LEGEND_LINE_PX: f64 = 19.0;

/// The sign before a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Line,
    Area,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_in_the_middle_of_their_slots() {
        let plot = Plot { left: 100.0, right: 400.0, top: 0.0, bottom: 1.0 };
        assert_eq!(slots(plot, 3), (vec![150.0, 250.0, 350.0], 100.0));
    }

    #[test]
    fn a_legend_wraps_where_it_is_narrow() {
        let names: Vec<(Look, &str)> =
            (0..4).map(|index| (Look::series(index), "burstline-afpacket")).collect();
        let lines = |width| legend(None, width, 0.0, &names, Sign::Line);
        assert_eq!((lines(Width::Wide), lines(Width::Narrow)), (1, 2));
        let mut svg = Svg::new(358.0, 60.0);
        legend(Some(&mut svg), Width::Narrow, 10.0, &names, Sign::Line);
        let text = svg.finish("i", "narrow", "", "").html();
        assert_eq!(text.matches("burstline-afpacket</text>").count(), 4);
        assert!(text.contains("y=\"33.0\""), "the second line is {LEGEND_LINE_PX} lower: {text}");
    }
}
