//! Selects the pictures of a record: its own chart, distributions, losses over time, and CPU time
//! by stage.
//!
//! Contents are computed once and drawn in every width, on a page or as files.

use std::rc::Rc;

use crate::record::{Record, Row, Status};

use crate::reports::accounts::{self, Account};
use crate::reports::bars::{self, Bar, Group, Words};
use crate::reports::canvas::Width;
use crate::reports::chart::{self, Chart, Kind};
use crate::reports::heat;
use crate::reports::lines::{self, Vertical};
use crate::reports::select;
use crate::reports::style::Look;
use crate::reports::svg::Picture;

/// Maximum number of bars in a picture of stages. Above it, only the first and last points remain.
const STAGE_BARS_MAX: usize = 16;

/// Pictures of the same values at different points.
#[derive(Debug)]
pub(crate) struct Set {
    /// A suffix that identifies the set within the record; empty for the record's own chart.
    pub(crate) suffix: &'static str,
    /// The pictures, at least one.
    pub(crate) figures: Vec<Figure>,
    /// Number of pictures left out.
    pub(crate) left_out: usize,
}

/// One picture.
#[derive(Debug)]
pub(crate) struct Figure {
    /// The caption.
    pub(crate) caption: String,
    /// Whether the caption only repeats the axes.
    pub(crate) is_plain: bool,
    /// The title if the picture is shown alone.
    title: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Panel { chart: Rc<Chart>, index: usize, kind: Kind },
    Stages { groups: Vec<Group>, names: Vec<String> },
}

/// Returns the sets of a record, its own chart first, without those that cannot be drawn.
pub(crate) fn sets(record: &Record) -> Vec<Set> {
    let kind = chart::kind(record);
    let mut sets = match kind {
        Kind::Cumulative => vec![panels("", record, chart::cumulative(record), kind)],
        _ => vec![panels("", record, chart::of(record), kind)],
    };
    let is_counted = record.rows.iter().any(|row| !row.distributions.is_empty());
    if is_counted && kind != Kind::Cumulative {
        let chart = chart::cumulative(record);
        sets.push(panels("distribution", record, chart, Kind::Cumulative));
    }
    sets.push(panels("losses", record, chart::losses(record), Kind::Lines));
    sets.extend(stages(record));
    for set in &mut sets {
        set.figures.retain(|figure| figure.draw(Width::Narrow, "").is_some());
    }
    sets.retain(|set| !set.figures.is_empty());
    sets
}

impl Figure {
    /// Draws it. `None` if no value can be drawn.
    pub(crate) fn draw(&self, width: Width, id: &str) -> Option<Picture> {
        let title = &self.title;
        match &self.what {
            What::Panel { chart, index, kind } => {
                let panel = chart.panels.get(*index)?;
                match kind {
                    Kind::Bars => bars::panel(chart, panel, width, id, title),
                    Kind::Heat => heat::draw(chart, panel, width, id, title),
                    Kind::Lines => lines::draw(chart, panel, Vertical::Amounts, width, id, title),
                    Kind::Cumulative => {
                        lines::draw(chart, panel, Vertical::Shares, width, id, title)
                    }
                }
            }
            What::Stages { groups, names } => {
                let parts = names.iter().enumerate();
                let parts: Vec<_> =
                    parts.map(|(i, name)| (Look::series(i), name.as_str())).collect();
                let axis = "rho, % of a core per Gbit/s (line)";
                let description =
                    &format!("{axis}, by contender; the table of stages has the values.");
                bars::draw(groups, &Words { axis, parts: &parts, title, description }, width, id)
            }
        }
    }
}

fn panels(suffix: &'static str, record: &Record, chart: Chart, kind: Kind) -> Set {
    let (left_out, chart) = (chart.left_out, Rc::new(chart));
    let figure = |index: usize| {
        let panel = chart.panels[index].title.as_str();
        let (caption, title) = match panel {
            "" => {
                let axes = &chart.axes;
                (format!("{} by {}", axes.y_label, axes.x_label), record.title.clone())
            }
            panel => (panel.to_owned(), format!("{}: {panel}", record.title)),
        };
        let what = What::Panel { chart: Rc::clone(&chart), index, kind };
        let is_plain = panel.is_empty() && matches!(kind, Kind::Lines | Kind::Cumulative);
        Figure { caption, is_plain, title, what }
    };
    let figures = (0..chart.panels.len()).map(figure).collect();
    Set { suffix, figures, left_out }
}

/// Returns rho by contender, with the stages of each account stacked.
fn stages(record: &Record) -> Vec<Set> {
    let set = |account: &Account<'_>| Set {
        suffix: account.suffix,
        figures: stage_figure(record, &account.names, account.caption).into_iter().collect(),
        left_out: 0,
    };
    accounts::of(record).iter().map(set).collect()
}

/// Stacks these stages.
fn stage_figure(record: &Record, names: &[&str], caption: &str) -> Option<Figure> {
    let look = |name: &str| names.iter().position(|other| *other == name).map(Look::series);
    let is_shown = |row: &&Row| row.stages.iter().any(|stage| look(&stage.name).is_some());
    let keys = select::varying(record, &[select::CONTENDER]);
    let mut groups: Vec<Group> = Vec::new();
    for row in record.rows.iter().filter(is_shown) {
        let title = select::described(row, &keys);
        let parts = row.stages.iter().filter_map(|stage| {
            let look = look(&stage.name)?;
            stage.rho.is_finite().then_some((look, stage.rho.max(0.0)))
        });
        let kind = match row.status {
            Status::Model => bars::Kind::Model,
            _ => bars::Kind::Measured,
        };
        let (label, parts) = (row.contender.clone(), parts.collect());
        let bar = Bar { label, parts, spread: None, kind };
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { title, bars: vec![bar] }),
        }
    }
    let last = groups.len().checked_sub(1)?;
    let count: usize = groups.iter().map(|group| group.bars.len()).sum();
    let mut caption = caption.to_owned();
    if count > STAGE_BARS_MAX && last > 1 {
        groups.drain(1..last);
        caption += ", at the first and the last point";
    }
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let title = format!("{}: {caption}", record.title);
    Some(Figure { caption, is_plain: false, title, what: What::Stages { groups, names } })
}
