//! Writes pictures as text, with the few SVG elements that charts need.
//!
//! The page's style sheet sets colours, fonts and strokes by class, so one picture serves light
//! mode, dark mode and print. All texts are escaped here.

use std::fmt::Write;

use crate::reports::escape;
use crate::reports::style::Look;

/// The anchor of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Start,
    Middle,
    End,
}

/// A position in pixels, to the right and down from the upper left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// A rectangle by its upper left, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A picture being built.
#[derive(Debug)]
pub(crate) struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// A finished picture with its description.
#[derive(Debug)]
pub(crate) struct Picture {
    /// Height in pixels.
    pub(crate) height: f64,
    /// What the picture shows, in words.
    pub(crate) description: String,
    width: f64,
    body: String,
    id: String,
    class: &'static str,
    title: String,
}

impl Picture {
    /// Returns it as a separate file that includes a style sheet.
    pub(crate) fn alone(&self, style: &str) -> String {
        let Self { width, height, body, .. } = self;
        let [title, description] = [&self.title, &self.description].map(|text| escape::html(text));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" \
             height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n<style>{style}</style>\n\
             {body}</svg>\n"
        )
    }

    /// Returns the element for a page whose style sheet has the classes.
    pub(crate) fn html(&self) -> String {
        let Self { width, height, body, id, class, .. } = self;
        let [title, description] = [&self.title, &self.description].map(|text| escape::html(text));
        format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\" xmlns=\"http://www.w3.org/2000/svg\">\n\
             <title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{description}</desc>\n\
             {body}</svg>\n"
        )
    }
}

// Writing to a string cannot fail, so the results are ignored here.
impl Svg {
    /// Creates an empty picture.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// Returns the width in pixels.
    pub(crate) fn width(&self) -> f64 {
        self.width
    }

    /// Adds a straight line.
    pub(crate) fn line(&mut self, class: &str, from: Place, to: Place) {
        let (Place { x: x1, y: y1 }, Place { x: x2, y: y2 }) = (from, to);
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// Adds a line through points, in the look of its series. Skips points that coincide with the
    /// previous one.
    pub(crate) fn path(&mut self, look: Look, points: &[Place]) {
        const TOLD_APART_PX: f64 = 0.5;
        let mut way = String::new();
        let mut last: Option<Place> = None;
        for (index, &place) in points.iter().enumerate() {
            let Place { x, y } = place;
            let is_end = index + 1 == points.len();
            let is_near = last.is_some_and(|last| {
                (x - last.x).abs() < TOLD_APART_PX && (y - last.y).abs() < TOLD_APART_PX
            });
            if is_near && !is_end {
                continue;
            }
            let letter = if last.is_none() { 'M' } else { 'L' };
            let _ = write!(way, "{letter}{x:.1} {y:.1}");
            last = Some(place);
        }
        let class = look.line_class();
        let _ = writeln!(self.body, r#"<path class="{class}" d="{way}"/>"#);
    }

    /// Adds a rectangle. `opacity` applies to its filling, in `[0, 1]`.
    pub(crate) fn rect(&mut self, class: &str, area: Area, opacity: f64) {
        let Area { x, y, width, height } = area;
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\" fill-opacity=\"{opacity:.2}\"/>"
        );
    }

    /// Adds one line of text with its baseline at `at`.
    pub(crate) fn text(&mut self, class: &str, at: Place, hold: Hold, text: &str) {
        let anchor = match hold {
            Hold::Start => "start",
            Hold::Middle => "middle",
            Hold::End => "end",
        };
        let (Place { x, y }, text) = (at, escape::html(text));
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    /// Adds the sign of a series, whose shape distinguishes it without colours.
    pub(crate) fn marker(&mut self, look: Look, at: Place, says: &str) {
        let (class, way) = (look.marker_class(), look.marker_way());
        let (Place { x, y }, says) = (at, escape::html(says));
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" transform=\"translate({x:.1} {y:.1})\" d=\"{way}\">\
             <title>{says}</title></path>"
        );
    }

    /// Inserts another picture with its upper left at `at`.
    pub(crate) fn inside(&mut self, at: Place, picture: &Picture) {
        let (Place { x, y }, body) = (at, &picture.body);
        let _ = writeln!(self.body, "<g transform=\"translate({x:.1} {y:.1})\">\n{body}</g>");
    }

    /// Finishes the picture. `title` and `description` are for screen readers.
    pub(crate) fn finish(
        self,
        id: &str,
        class: &'static str,
        title: &str,
        description: &str,
    ) -> Picture {
        let Self { width, height, body } = self;
        let [id, title, description] = [id, title, description].map(str::to_owned);
        Picture { height, description, width, body, id, class, title }
    }
}

/// Returns the approximate width of a text; the font depends on the reader's machine.
pub(crate) fn text_width(text: &str) -> f64 {
    const LETTER_PX: f64 = 6.6;
    text.chars().count() as f64 * LETTER_PX
}

/// Returns the text cut to `width`, with a sign if it was cut.
pub(crate) fn fitted(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let letters = (width / text_width("x")) as usize;
    let kept: String = text.chars().take(letters.saturating_sub(1).max(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_carry_coordinates_and_escaped_text() {
        let mut svg = Svg::new(100.0, 50.0);
        svg.line("axis", Place { x: 0.0, y: 1.0 }, Place { x: 2.0, y: 3.25 });
        svg.text("label", Place { x: 5.0, y: 6.0 }, Hold::End, "<a>");
        svg.path(Look::series(1), &[Place { x: 1.0, y: 2.0 }, Place { x: 3.0, y: 4.0 }]);
        let text = svg.finish("p1", "wide", "t & u", "d").html();
        for wanted in [
            "viewBox=\"0 0 100 50\"",
            "x1=\"0.0\" y1=\"1.0\" x2=\"2.0\" y2=\"3.2\"",
            "text-anchor=\"end\">&lt;a&gt;</text>",
            "d=\"M1.0 2.0L3.0 4.0\"",
            "<title id=\"p1-t\">t &amp; u</title>",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }

    #[test]
    fn a_line_has_its_ends_and_what_can_be_told_apart() {
        let mut svg = Svg::new(100.0, 50.0);
        let points = [[1.0, 2.0], [1.3, 2.2], [1.6, 2.2], [5.0, 2.0], [5.1, 2.0]];
        svg.path(Look::series(0), &points.map(|[x, y]| Place { x, y }));
        let text = svg.finish("p", "wide", "", "").html();
        assert!(text.contains("d=\"M1.0 2.0L1.6 2.2L5.0 2.0L5.1 2.0\""), "{text}");
    }

    #[test]
    fn a_text_that_does_not_fit_is_cut_and_says_so() {
        assert_eq!(fitted("short", 100.0), "short");
        let cut = fitted("a name that is rather long", 60.0);
        assert!(cut.ends_with('…') && text_width(&cut) <= 66.0, "{cut}");
        assert_eq!(fitted("ab", 1.0), "a…");
    }
}
