//! Queries all sensors, some at a time.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use burstline_sys::late::Opening;

use crate::{Answer, Outcome, Patience, Question, Sensors, ask};

/// Queries every sensor, at most `at_a_time` of them concurrently. Each answer is in a file of
/// `folder` with the sensor's name. Answers have the order of the sensors; `done` is called as each
/// arrives.
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
        for _ in 1..at_a_time.clamp(1, count.max(1)) {
            let helper = thread::Builder::new().name("survey".to_owned());
            // If the system provides no more threads, fewer sensors are queried concurrently.
            if helper.spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.into_iter().flatten().collect()
}

fn new_file(path: &Path) -> io::Result<File> {
    Opening::write().create_new().open(path)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use burstline_sys::temporary::TemporaryFolder;

    use super::*;
    use crate::Sensor;

    /// Marks the process that gets no threads.
    const TRY: &str = "BURSTLINE_TEST_TRY";

    fn sensor(name: &str) -> Sensor {
        Sensor {
            name: name.to_owned(),
            host: "no-such-host.invalid".to_owned(),
            port: None,
            files: vec!["/rec".to_owned()],
            program: "burstline".to_owned(),
        }
    }

    fn survey_of_two() {
        let sensors = Sensors { config: None, sensors: vec![sensor("a"), sensor("b")] };
        let second = Duration::from_secs(1);
        let patience = Patience { connect: second, silence: second, bytes_most: 1 };
        let folder = TemporaryFolder::create("burstline-survey").unwrap();
        let (question, path) = (Question::default(), folder.path());
        let answers = survey(&sensors, &question, patience, path, 2, &|| false, &|_, _| {});
        assert_eq!(answers.len(), 2);
        for answer in answers {
            let Outcome::Failed(why) = answer.outcome else { panic!("{answer:?}") };
            assert!(why.starts_with("start "), "{why}");
        }
    }

    #[test]
    fn without_threads_each_sensor_still_has_an_answer() {
        if std::env::var_os(TRY).is_some() {
            return survey_of_two();
        }
        let test = "survey::tests::without_threads_each_sensor_still_has_an_answer";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--test-threads=1", "--nocapture"]);
        // No address space has room for this stack.
        command.env(TRY, "1").env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    }
}
