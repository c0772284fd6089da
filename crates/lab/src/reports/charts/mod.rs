//! Draws charts of records as SVG: lines, bars and heat maps.

pub(crate) mod axes;
pub(crate) mod bars;
pub(crate) mod canvas;
pub(crate) mod chart;
pub(crate) mod drawn;
pub(crate) mod heat;
pub(crate) mod lines;
pub(crate) mod style;
pub(crate) mod svg;
