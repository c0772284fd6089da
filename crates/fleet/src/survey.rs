//! All sensors, some at a time.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{Answer, Outcome, Patience, Question, Sensors, ask};

/// Asks every sensor, `at_a_time` of them at once. Each answer is in a file of `folder` that has
/// the sensor's name. Answers have the order of the sensors; `done` hears of each as it comes.
pub fn survey(
    sensors: &Sensors,
    question: &Question,
    patience: Patience,
    folder: &Path,
    at_a_time: usize,
    is_stopped: &(dyn Fn() -> bool + Sync),
    done: &(dyn Fn(usize, &Answer) + Sync),
) -> Vec<Answer> {
    let count = sensors.sensors.len();
    let (next, answers) = (Mutex::new(0..count), Mutex::new(vec![None; count]));
    let work = || {
        loop {
            let number = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(number) = number else { return };
            let sensor = &sensors.sensors[number];
            let config = sensors.config.as_deref();
            let answer = match new_file(&folder.join(&sensor.name)) {
                Ok(spool) => ask(sensor, question, config, patience, spool, is_stopped),
                Err(error) => Answer {
                    outcome: Outcome::Failed(format!("make its spool file: {error}")),
                    report: None,
                    bytes: 0,
                },
            };
            done(number, &answer);
            answers.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(answer);
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_a_time.clamp(1, count.max(1)) {
            scope.spawn(work);
        }
    });
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.into_iter().flatten().collect()
}

fn new_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}
