//! An event of the log, and its line: text for people, or a JSON object.

use burstline_sys::clock;
use serde_json::{Map, Value};

use crate::args::LogFormat;
use crate::foreign::{harmless, one_line};
use crate::words::time_text;

/// A log event.
pub(in super::super) struct Event<'a> {
    pub(in super::super) job: Option<&'a str>,
    /// The event's name in JSON.
    pub(in super::super) name: &'static str,
    /// Text for people.
    pub(in super::super) text: &'a str,
    /// Additional fields for programs.
    pub(in super::super) fields: Vec<(&'static str, Value)>,
}

impl Event<'_> {
    /// Returns the line of an event that happens now.
    pub(super) fn line(&self, format: LogFormat) -> String {
        let now = time_text(clock::realtime_ns());
        let now = now.get(.."2026-11-21 21:44:01.123".len()).unwrap_or(&now);
        match format {
            LogFormat::Text => {
                let job = self.job.map_or(String::new(), |job| format!("{job}: "));
                format!("{now} UTC {job}{}\n", one_line(self.text))
            }
            LogFormat::Json => {
                let mut object = Map::new();
                object.insert("time".to_owned(), format!("{}Z", now.replace(' ', "T")).into());
                if let Some(job) = self.job {
                    object.insert("job".to_owned(), job.into());
                }
                object.insert("event".to_owned(), self.name.into());
                if !self.text.is_empty() {
                    object.insert("text".to_owned(), self.text.into());
                }
                let fields = self.fields.iter().map(|(key, value)| (*key, value.clone()));
                object.extend(fields.map(|(key, value)| (key.to_owned(), value)));
                // JSON escapes only ASCII control characters.
                format!("{}\n", harmless(&Value::Object(object).to_string()))
            }
        }
    }
}

/// Lines that found no room, until the log says so.
#[derive(Debug, Default)]
pub(super) struct Dropped(u64);

impl Dropped {
    /// Offers a line to `put`, which returns whether there was room. Before it a line says how many
    /// were dropped, if any.
    pub(super) fn offer(
        &mut self,
        format: LogFormat,
        line: String,
        mut put: impl FnMut(String) -> bool,
    ) {
        if self.0 > 0 {
            let text = format!("{} lines of this log were dropped: no room", self.0);
            let fields = vec![("lines", self.0.into())];
            let told = Event { job: None, name: "dropped", text: &text, fields };
            if put(told.line(format)) {
                self.0 = 0;
            }
        }
        if !put(line) {
            self.0 += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_has_what_a_terminal_obeys() {
        let text = "a\x1b[2J\u{9b}31m\u{202e}b";
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = Event { job: Some("a"), name: "message", text, fields: vec![] }.line(format);
            let is_order = |letter: char| letter.is_control() || letter == '\u{202e}';
            assert!(!line.trim_end_matches('\n').contains(is_order), "{line:?}");
            if format == LogFormat::Json {
                let event: Value = serde_json::from_str(&line).unwrap();
                assert_eq!(event["text"], text);
            }
        }
    }
}
