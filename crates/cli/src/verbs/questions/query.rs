//! `burstline query`.

use std::process::ExitCode;

use burstline_fleet::{Answered, Query, QueryError, READY, Ready, Span, Values, tree_text};
use burstline_port::did_you_mean;
use burstline_sys::temporary;
use burstline_sys::users::Account;

use crate::args::QueryArgs;
use crate::confinement;
use crate::failure::Failure;
use crate::view::{self, query as pages};

/// Number of rows printed at a time.
const ROWS_AT_A_TIME: usize = 1024;

/// Queries a tree of flow records.
pub(crate) fn query(args: &QueryArgs) -> Result<ExitCode, Failure> {
    let ready = Ready::of(&args.question);
    let sql = sql(args, ready)?;
    if args.show {
        return view::say(&sql);
    }
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Failure::usage("--from must be before --to: no record can be in between"));
    }
    // Before Python starts: no engine would help.
    tree_text(&args.tree).map_err(failed)?;
    // Folders that killed queries left. Those of root are nobody's, or the named user's.
    let successor = args.successor.clone().unwrap_or_else(Account::nobody);
    temporary::remove_abandoned("burstline-query-", &[Account::nobody().user, successor.user]);
    let span = Span { from_ns: args.from, to_ns: args.to };
    confinement::with_engine(&args.tree, args.successor.as_ref(), &|tree, engine| {
        let asked = Query { tree, sql: &sql, span }.ask_of(engine).map_err(failed)?;
        match (args.csv, args.json) {
            (true, _) => in_rows(asked),
            (_, true) => in_object(asked),
            _ => in_table(args, asked, ready),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn failed(error: QueryError) -> Failure {
    Failure::new(error.to_string())
}

fn sql(args: &QueryArgs, ready: Option<&Ready>) -> Result<String, Failure> {
    let question = &args.question;
    if let Some(ready) = ready {
        let values = Values { limit: args.limit, address: args.address };
        let needs = || Failure::usage(format!("{question} needs --address IP"));
        return ready.filled(values).ok_or_else(needs);
    }
    if args.address.is_some() || args.show {
        let what = "--address and --show are for ready questions, not for your own SQL";
        return Err(Failure::usage(what));
    }
    // SQL has several words.
    if !question.trim().contains(char::is_whitespace) {
        let names = READY.map(|ready| ready.name);
        let near = did_you_mean(question, names.into_iter());
        let names = names.join(", ");
        return Err(Failure::usage(format!(
            "{question:?} is not a ready question{near}: {names}; SQL begins with SELECT"
        )));
    }
    Ok(question.clone())
}

fn in_rows(mut asked: Answered) -> Result<(), Failure> {
    let mut text = pages::csv_head(&asked.columns);
    let mut rows = 0;
    while let Some(row) = asked.next_row().map_err(failed)? {
        text += &pages::csv_row(&row);
        rows += 1;
        if rows % ROWS_AT_A_TIME == 0 {
            view::print(&std::mem::take(&mut text))?;
        }
    }
    Ok(view::print(&text)?)
}

fn in_object(mut asked: Answered) -> Result<(), Failure> {
    let mut rows = Vec::new();
    while let Some(row) = asked.next_row().map_err(failed)? {
        rows.push(row);
    }
    Ok(view::print(&pages::object(&asked.columns, &asked.types, rows))?)
}

fn in_table(args: &QueryArgs, mut asked: Answered, ready: Option<&Ready>) -> Result<(), Failure> {
    let chart = args.chart.as_deref().or(ready.map(|ready| ready.chart));
    let chart = match chart {
        Some(name) => {
            Some(asked.columns.iter().position(|column| column == name).ok_or_else(|| {
                let columns = asked.columns.join(", ");
                Failure::usage(format!("--chart {name}: no such column; there are {columns}"))
            })?)
        }
        None => None,
    };
    let (mut rows, mut more) = (Vec::new(), 0);
    while let Some(row) = asked.next_row().map_err(failed)? {
        match (rows.len() as u64) < args.limit {
            true => rows.push(row),
            false => more += 1,
        }
    }
    Ok(view::print(&pages::table(&asked.columns, &asked.types, &rows, more, chart))?)
}
