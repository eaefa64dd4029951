//! What was said of the tasks so far, short enough to be kept and whole enough that a window which comes later, after
//! a crash or because somebody closed the last one, shows what the first one showed.
//!
//! Of each kind of task the last one is kept, and the one at hand. Results are kept whole. Of steps there is one list,
//! without those that a resume took back; of progress the last; pieces of an answer are joined and go when the answer is
//! there; of the log the newest lines stay. The run's folder is the truth and has what is left out here.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Instant,
};

use tunesmith_protocol::{Notice, Step, TaskId, TaskWork};

/// Lines of the log that are kept of a task.
const MOST_LOG_LINES: usize = 4096;

/// Steps that are kept of a task, about 24 MB; a longer training shows its newest ones.
const MOST_STEPS: usize = 200_000;

/// The tasks of a service.
#[derive(Default)]
pub(super) struct Stories {
    stories: Vec<Story>,
    /// Every number that a task has had.
    used: BTreeSet<TaskId>,
}

/// One task.
struct Story {
    task: TaskId,
    work: TaskWork,
    began: Instant,
    /// Everything but steps and progress, with its time, in order.
    told: VecDeque<(Instant, Notice)>,
    /// How many of `told` are lines of the log.
    log_lines: usize,
    progress: Option<(Instant, Notice)>,
    /// The run whose steps these are.
    run: Option<String>,
    steps: VecDeque<Step>,
    steps_total: u64,
    ended: Option<(Instant, Notice)>,
}

impl Stories {
    /// The number for a task that nobody has numbered.
    pub(super) fn free_number(&self) -> TaskId {
        self.used.last().map_or(1, |last| last + 1)
    }

    /// Whether a task has had this number.
    pub(super) fn knows(&self, task: TaskId) -> bool {
        self.used.contains(&task)
    }

    /// A task begins; it takes the place of the last of its kind.
    pub(super) fn begin(&mut self, task: TaskId, work: TaskWork) {
        self.used.insert(task);
        let begun = kind(&work);
        self.stories.retain(|story| kind(&story.work) != begun);
        self.stories.push(Story {
            task,
            work,
            began: Instant::now(),
            told: VecDeque::new(),
            log_lines: 0,
            progress: None,
            run: None,
            steps: VecDeque::new(),
            steps_total: 0,
            ended: None,
        });
    }

    /// A task says something. What belongs to none is nobody's story.
    pub(super) fn take(&mut self, task: TaskId, notice: &Notice) {
        // The task at hand began last.
        if let Some(story) = self.stories.iter_mut().rev().find(|story| story.task == task) {
            story.take(notice);
        }
    }

    /// What a window that has just come is told.
    pub(super) fn tell(&self) -> Vec<Notice> {
        let now = Instant::now();
        self.stories.iter().flat_map(|story| story.tell(now)).collect()
    }
}

impl Story {
    fn take(&mut self, notice: &Notice) {
        let now = Instant::now();
        match notice {
            Notice::Step { step, total, .. } => return self.step(step, *total),
            Notice::Progress { .. } => {
                self.progress = Some((now, notice.clone()));
                return;
            }
            Notice::Ended { .. } => {
                self.progress = None;
                self.ended = Some((now, notice.clone()));
                return;
            }
            Notice::Stage { .. } | Notice::Experiment { .. } => self.progress = None,
            Notice::Run { run, .. } => {
                // An experiment has one run after the other, each with a curve of its own.
                if self.run.as_ref().is_some_and(|before| before != run) {
                    self.steps.clear();
                }
                self.run = Some(run.clone());
            }
            Notice::Piece { side, text, .. } => {
                if let Some((
                    _,
                    Notice::Piece {
                        side: of,
                        text: so_far,
                        ..
                    },
                )) = self.told.back_mut()
                    && *of == *side
                {
                    so_far.push_str(text);
                    return;
                }
            }
            Notice::Answered { side, .. } => self
                .told
                .retain(|(_, told)| !matches!(told, Notice::Piece { side: of, .. } if of == side)),
            Notice::Log { .. } => {
                self.log_lines += 1;
                if self.log_lines > MOST_LOG_LINES
                    && let Some(oldest) = self.told.iter().position(|(_, told)| is_log(told))
                {
                    self.told.remove(oldest);
                    self.log_lines -= 1;
                }
            }
            _ => {}
        }
        self.told.push_back((now, notice.clone()));
    }

    fn step(&mut self, step: &Step, total: u64) {
        self.steps_total = total;
        while self.steps.back().is_some_and(|last| last.step >= step.step) {
            self.steps.pop_back();
        }
        if self.steps.len() == MOST_STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(step.clone());
    }

    fn tell(&self, now: Instant) -> Vec<Notice> {
        let earlier = |(at, notice): &(Instant, Notice)| Notice::Earlier {
            secs_ago: now.saturating_duration_since(*at).as_secs_f64(),
            notice: Box::new(notice.clone()),
        };
        let task = Notice::Task {
            task: self.task,
            work: self.work.clone(),
        };
        let steps = self.steps.iter().map(|step| Notice::Step {
            task: self.task,
            step: step.clone(),
            total: self.steps_total,
        });
        let mut told = vec![earlier(&(self.began, task))];
        told.extend(self.told.iter().map(earlier));
        told.extend(steps);
        told.extend(self.progress.iter().map(earlier));
        told.extend(self.ended.iter().map(earlier));
        told
    }
}

/// Tasks of which a window shows the last one. A training that goes on is a training.
fn kind(work: &TaskWork) -> u8 {
    match work {
        TaskWork::Train { .. } | TaskWork::Resume { .. } => 0,
        TaskWork::Calibrate { .. } => 1,
        TaskWork::Fetch { .. } => 2,
        TaskWork::Answer { .. } => 3,
        TaskWork::Setup { .. } => 4,
        TaskWork::Report { .. } => 5,
        TaskWork::Experiment { .. } => 6,
    }
}

fn is_log(notice: &Notice) -> bool {
    matches!(notice, Notice::Log { .. })
}

#[cfg(test)]
mod tests {
    use tunesmith_protocol::{Answer, Finish, Level, Progress, RunStatus, Side};

    use super::*;

    fn training() -> (Stories, TaskId) {
        let mut stories = Stories::default();
        let task = stories.free_number();
        stories.begin(task, TaskWork::Resume { run: "r".to_owned() });
        (stories, task)
    }

    fn log(task: TaskId, text: &str) -> Notice {
        Notice::Log {
            task,
            level: Level::Info,
            text: text.to_owned(),
        }
    }

    fn step(task: TaskId, number: u64, loss: f64) -> Notice {
        Notice::Step {
            task,
            step: Step {
                step: number,
                loss: Some(loss),
                grad_norm: Some(0.5),
                lr: 1e-4,
                dt_secs: 0.5,
                elapsed_secs: number as f64,
                real_tokens: 100,
                padded_tokens: 100,
                supervised_tokens: 20,
                squared_lengths: 10,
                peak_bytes: None,
            },
            total: 9,
        }
    }

    fn progress(task: TaskId, done: u64) -> Notice {
        Notice::Progress {
            task,
            progress: Progress {
                stage: "train".to_owned(),
                done,
                total: 9,
                unit: "steps".to_owned(),
                eta_secs: Some(3.0),
            },
        }
    }

    fn ended(task: TaskId) -> Notice {
        Notice::Ended {
            task,
            status: RunStatus::Ok,
            run: Some("r".to_owned()),
            result: serde_json::Value::Null,
            failure: None,
            last_lines: Vec::new(),
        }
    }

    /// What is told, without the ages.
    fn told(stories: &Stories) -> Vec<Notice> {
        let bare = |notice| match notice {
            Notice::Earlier { secs_ago, notice } => {
                assert!((0.0..60.0).contains(&secs_ago), "{secs_ago}");
                *notice
            }
            notice => notice,
        };
        stories.tell().into_iter().map(bare).collect()
    }

    #[test]
    fn a_window_that_comes_late_is_told_the_whole_story_in_order() {
        let (mut stories, task) = training();
        for notice in [
            log(task, "a"),
            progress(task, 1),
            step(task, 1, 2.0),
            progress(task, 2),
            step(task, 2, 1.9),
            log(task, "b"),
            // The run goes on from its first step.
            step(task, 2, 1.5),
            progress(task, 3),
        ] {
            stories.take(task, &notice);
        }
        let work = TaskWork::Resume { run: "r".to_owned() };
        let begins = Notice::Task { task, work };
        let before = [
            begins,
            log(task, "a"),
            log(task, "b"),
            step(task, 1, 2.0),
            step(task, 2, 1.5),
        ];
        let mut expected = before.to_vec();
        expected.push(progress(task, 3));
        assert_eq!(told(&stories), expected);
        stories.take(task, &ended(task));
        let mut expected = before.to_vec();
        expected.push(ended(task));
        assert_eq!(told(&stories), expected);
    }

    #[test]
    fn of_each_kind_the_last_is_kept_and_no_number_is_given_twice() {
        let (mut stories, first) = training();
        stories.take(first, &ended(first));
        let report = stories.free_number();
        stories.begin(report, TaskWork::Report { run: "r".to_owned() });
        let second = stories.free_number();
        stories.begin(second, TaskWork::Resume { run: "s".to_owned() });
        let tasks: Vec<TaskId> = told(&stories)
            .into_iter()
            .map(|notice| match notice {
                Notice::Task { task, .. } => task,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(tasks, [report, second]);
        assert!([first, report, second].iter().all(|task| stories.knows(*task)));
        assert_eq!(stories.free_number(), second + 1);
        // A task that is not told of any more says nothing.
        stories.take(first, &log(first, "late"));
        assert_eq!(told(&stories).len(), 2);
    }

    #[test]
    fn a_flood_leaves_the_newest_of_log_and_steps_and_every_result() {
        let (mut stories, task) = training();
        let stage = Notice::Stage {
            task,
            stage: "train".to_owned(),
            title: "training".to_owned(),
        };
        stories.take(task, &stage);
        for line in 0..MOST_LOG_LINES + 7 {
            stories.take(task, &log(task, &line.to_string()));
        }
        for number in 1..=MOST_STEPS as u64 + 3 {
            stories.take(task, &step(task, number, 1.0));
        }
        let told = told(&stories);
        assert_eq!(told[1], stage);
        assert_eq!(told[2], log(task, "7"));
        assert_eq!(told.len(), 2 + MOST_LOG_LINES + MOST_STEPS);
        assert_eq!(told[2 + MOST_LOG_LINES], step(task, 4, 1.0));
    }

    #[test]
    fn an_answer_takes_the_place_of_its_pieces_and_a_new_run_that_of_the_old_curve() {
        let mut stories = Stories::default();
        let task = stories.free_number();
        stories.begin(
            task,
            TaskWork::Experiment {
                experiment: "e".to_owned(),
                resume: false,
                again: false,
                retry_failed: false,
            },
        );
        let piece = |side, text: &str| Notice::Piece {
            task,
            side,
            text: text.to_owned(),
        };
        let answered = Notice::Answered {
            task,
            side: Side::Base,
            answer: Answer {
                id: "prompt".to_owned(),
                text: "ab".to_owned(),
                tokens: 2,
                finish: Finish::Stop,
            },
        };
        for notice in [piece(Side::Base, "a"), piece(Side::Base, "b")] {
            stories.take(task, &notice);
        }
        assert_eq!(told(&stories)[1..], [piece(Side::Base, "ab")]);
        stories.take(task, &answered);
        stories.take(task, &piece(Side::Tuned, "c"));
        assert_eq!(told(&stories)[1..], [answered.clone(), piece(Side::Tuned, "c")]);

        let run = |run: &str| Notice::Run {
            task,
            run: run.to_owned(),
            folder: run.into(),
        };
        for notice in [run("one"), step(task, 1, 1.0), run("two"), step(task, 1, 3.0)] {
            stories.take(task, &notice);
        }
        let curve: Vec<Notice> = told(&stories)
            .into_iter()
            .filter(|notice| matches!(notice, Notice::Step { .. }))
            .collect();
        assert_eq!(curve, [step(task, 1, 3.0)]);
    }
}
