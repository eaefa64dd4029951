//! What a user does on the page, by the labels that they see, and its pictures.

use std::{fs, path::PathBuf, sync::Arc};

use egui::{Key, Modifiers, Theme, vec2};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use tunesmith_data::Role;
use tunesmith_lab::{
    run::{LiveRun, lines},
    testing::write_checkpoint,
};
use tunesmith_probe::testing::{AmdCard, TestMachine};
use tunesmith_protocol::{StopHow, Trainer};
use tunesmith_setup::{Folders, environments::Engine};

use super::*;
use crate::{
    commands::{Action, Command},
    services,
    state::Task,
};

/// Tall enough that nothing has to be scrolled to.
const TALL: egui::Vec2 = vec2(1280.0, 5200.0);

pub(super) struct Bench {
    pub(super) state: State,
    pub(super) view: TuneView,
    sent: Vec<Command>,
    /// Work that was begun and would wait for the user.
    dialogs: usize,
    home: tempfile::TempDir,
    _machine: TestMachine,
}

impl Bench {
    fn new(machine: TestMachine) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders::all_under(home.path());
        let mut state = State::new(folders, Saved::default(), machine.root().to_owned());
        state.page = Page::Tune;
        let work = services::look(&mut state).unwrap();
        work.run()(&mut state);
        let mut bench = Self {
            state,
            view: TuneView::default(),
            sent: Vec::new(),
            dialogs: 0,
            home,
            _machine: machine,
        };
        bench.look_around(true);
        bench
    }

    pub(super) fn on_card() -> Self {
        let card = AmdCard::rx_7900_xtx("0000:03:00.0");
        Self::new(TestMachine::linux().memory_gib(32).amd(card).usable_devices())
    }

    pub(super) fn on_processor() -> Self {
        Self::new(TestMachine::linux().memory_gib(16))
    }

    /// What is here, as it is on a machine whose engine is installed, or is not.
    fn look_around(&mut self, installed: bool) {
        let machine = Arc::clone(self.state.machine.seen.ready().unwrap());
        let root = self.state.root.clone();
        let mut around = reading::around(&root, &self.state.folders, &machine, &DeviceWish::Auto, &[]);
        around.engine = if installed {
            Ok(())
        } else {
            Err(Problem::new(
                "torch_not_installed",
                "no torch is installed",
                vec![],
            ))
        };
        let generation = (self.state.machine.generation, self.state.pages.tune.ends);
        let tune = &mut self.state.pages.tune;
        tune.around.ask(generation);
        tune.around.answer(generation, Ok(Arc::new(around)));
    }

    /// As it is where the second trainer is here, or is not.
    fn second(&mut self, here: Result<(), Problem>) {
        let tune = &mut self.state.pages.tune;
        let around = Around {
            second: SecondTrainer {
                here,
                download_bytes: Some(1 << 30),
                disk_bytes: Some(3 << 30),
            },
            ..Around::clone(tune.around().unwrap())
        };
        tune.around.answer(tune.generation(), Ok(Arc::new(around)));
    }

    /// The default model, as set-up leaves it: the tokenizer is not looked at, for it cannot be opened.
    fn has_model(&mut self) -> PathBuf {
        let folder = self.home.path().join("model");
        fs::create_dir_all(&folder).unwrap();
        self.view.form.model = Some(ModelChoice::Path(folder.clone()));
        folder
    }

    pub(super) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn draw(&mut self, ui: &mut Ui) {
        let ground = tokens(ui).ground;
        ui.painter().rect_filled(ui.ctx().viewport_rect(), 0.0, ground);
        let mut out = Commands::new();
        tune_ui(&self.state, &mut self.view, ui, &mut out);
        for command in out.take() {
            match command {
                Command::Do(action) => self.act(action),
                other => self.sent.push(other),
            }
        }
        while let Some(work) = needs(&mut self.state) {
            work.run()(&mut self.state);
        }
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

    fn went_to(&self) -> Option<Page> {
        self.sent.iter().rev().find_map(|command| match command {
            Command::Go(page) => Some(*page),
            _ => None,
        })
    }
}

fn harness(bench: Bench) -> Harness<'static, Bench> {
    let mut harness = Harness::builder()
        .with_size(TALL)
        .with_context_setup(theme::install)
        .build_ui_state(|ui, bench: &mut Bench| bench.draw(ui), bench);
    harness.run_steps(6);
    harness
}

fn click(harness: &mut Harness<'_, Bench>, label: &str) {
    harness.get_by_label(label).click();
    harness.run_steps(6);
}

fn retype(harness: &mut Harness<'_, Bench>, label: &str, text: &str) {
    let field = harness.get_by_role_and_label(egui::accesskit::Role::TextInput, label);
    field.focus();
    harness.run_steps(2);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
    harness.run_steps(2);
    harness
        .get_by_role_and_label(egui::accesskit::Role::TextInput, label)
        .type_text(text);
    harness.run_steps(6);
}

#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.0).map_err(|error| error.to_string())
    }
}

fn drop_file(harness: &mut Harness<'_, Bench>, path: &Path) {
    harness
        .input_mut()
        .dropped_files
        .push(Arc::new(Dropped(path.to_owned())));
    harness.run_steps(6);
}

fn sent_recipe(bench: &Bench) -> Recipe {
    match bench.started() {
        Some(TaskWork::Train { recipe, .. }) => Recipe::parse(recipe, "sent").unwrap(),
        other => panic!("no training was started: {other:?}"),
    }
}

#[test]
fn start_sends_the_recommended_recipe_and_shows_the_run() {
    let mut bench = Bench::on_card();
    let model = bench.has_model();
    let offer = bench
        .state
        .machine
        .get()
        .unwrap()
        .plan
        .as_ref()
        .unwrap()
        .recipe
        .recipe
        .clone()
        .unwrap();
    let mut harness = harness(bench);
    click(&mut harness, "Start fine-tuning");
    let bench = harness.state();
    let recipe = sent_recipe(bench);
    assert_eq!(recipe.name, offer.id);
    assert_eq!(recipe.model.path, Some(model));
    assert_eq!(bench.went_to(), Some(Page::Live));
    assert!(matches!(
        bench.started(),
        Some(TaskWork::Train {
            device: None,
            evaluate: true,
            ..
        })
    ));
}

#[test]
fn ctrl_enter_starts_too() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    let mut harness = harness(bench);
    harness.key_press_modifiers(Modifiers::COMMAND, Key::Enter);
    harness.run_steps(3);
    assert_eq!(sent_recipe(harness.state()).name, "quickstart");
}

#[test]
fn a_model_that_is_not_here_is_fetched_first_and_its_size_is_on_the_button() {
    let mut harness = harness(Bench::on_processor());
    click(&mut harness, "Download 89 MiB and start");
    let bench = harness.state();
    assert_eq!(
        bench.started(),
        Some(&TaskWork::Fetch {
            model: "smollm2-135m-instruct".to_owned()
        })
    );
    assert_eq!(bench.went_to(), None);
}

#[test]
fn a_model_of_a_hub_that_nobody_knows_is_asked_about_before_anything_else() {
    let mut bench = Bench::on_card();
    bench.view.form.model = Some(ModelChoice::Source("owner/model".to_owned()));
    let mut harness = harness(bench);
    harness.get_by_label_contains("how large model is has not been asked yet");
    harness.get_by_label("Ask the model hub…");
    click(&mut harness, "Start fine-tuning");
    assert!(harness.state().started().is_none());
}

#[test]
fn what_the_hub_said_is_on_the_button_and_in_the_notices() {
    let mut bench = Bench::on_card();
    bench.view.form.model = Some(ModelChoice::Source("owner/model".to_owned()));
    let id: HubId = "owner/model".parse().unwrap();
    let hub = &mut bench.state.pages.tune.hub;
    hub.ask(id.to_string());
    hub.answer(
        id.to_string(),
        Ok(HubPlan {
            id: id.clone(),
            asked: id.clone(),
            licence: Some("mit".to_owned()),
            gated: true,
            files: Vec::new(),
            total_bytes: 3 << 30,
            fetch_bytes: 3 << 30,
        }),
    );
    let mut harness = harness(bench);
    harness.get_by_label("The model's licence is mit, says the model hub");
    harness.get_by_label_contains("want to know who takes it");
    click(&mut harness, "Download 3.0 GiB and start");
    let model = id.to_string();
    assert_eq!(harness.state().started(), Some(&TaskWork::Fetch { model }));
}

#[test]
fn a_model_is_chosen_by_its_id_or_its_path_and_given_back() {
    let mut harness = harness(Bench::on_card());
    click(&mut harness, "Model");
    click(&mut harness, "One of a model hub…");
    retype(&mut harness, "Id of the model", "no id");
    click(&mut harness, "Use this model");
    harness.get_by_label_contains("no such source is known");
    click(&mut harness, "Model");
    click(&mut harness, "A file or folder of your own…");
    retype(&mut harness, "Path of the model", "here.gguf");
    click(&mut harness, "Use this model");
    harness.get_by_label_contains("the whole path is needed");
    retype(&mut harness, "Path of the model", "/models/mine.gguf");
    click(&mut harness, "Use this model");
    assert_eq!(
        harness.state().view.form.model,
        Some(ModelChoice::Path("/models/mine.gguf".into()))
    );
    click(&mut harness, "Back to the recipe's");
    assert_eq!(harness.state().view.form.model, None);
}

#[test]
fn what_does_not_fit_can_be_tried_all_the_same() {
    let mut bench = Bench::on_card();
    bench.view.form.set("train.micro_batch", "512".to_owned());
    bench.view.form.set("train.recompute", "none".to_owned());
    let harness = harness(bench);
    harness.get_by_label_contains("Qwen2.5-7B-Instruct does not fit on");
    harness.get_by_label_contains("and start all the same");
    harness.get_by_label("changed by you");
}

#[test]
fn what_keeps_a_training_from_starting_is_said_with_the_page_that_helps() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    bench.look_around(false);
    let mut harness = harness(bench);
    harness.get_by_label("no torch is installed");
    click(&mut harness, "Start fine-tuning");
    assert!(harness.state().started().is_none());
    click(&mut harness, "Open Set-up");
    assert_eq!(harness.state().went_to(), Some(Page::Setup));
}

#[test]
fn a_task_that_runs_is_waited_for() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    let work = TaskWork::Resume { run: "r".to_owned() };
    bench.state.tasks.begin(work, 0.0);
    let mut harness = harness(bench);
    harness.get_by_label_contains("Fine-tuning is under way");
    click(&mut harness, "Open Live run");
    assert_eq!(harness.state().went_to(), Some(Page::Live));
}

#[test]
fn a_download_shows_how_far_it_is_and_can_be_stopped() {
    let mut bench = Bench::on_processor();
    let id = bench.state.tasks.begin(
        TaskWork::Fetch {
            model: "owner/model".to_owned(),
        },
        0.0,
    );
    let progress = tunesmith_protocol::Progress {
        stage: "fetch".to_owned(),
        done: 1 << 30,
        total: 4 << 30,
        unit: "bytes".to_owned(),
        eta_secs: Some(90.0),
    };
    bench
        .state
        .tasks
        .apply(tunesmith_protocol::Notice::Progress { task: id, progress }, 1.0);
    let mut harness = harness(bench);
    harness.get_by_label("25 %, 1.0 GiB of 4.0 GiB, about 1 min 30 s left");
    click(&mut harness, "Stop the download");
    assert!(matches!(
        harness.state().sent.last(),
        Some(Command::Stop(StopHow::Now))
    ));
    assert!(
        harness
            .state()
            .state
            .tasks
            .running()
            .is_some_and(|task: &Task| !task.trains())
    );
}

#[test]
fn another_recipe_is_chosen_from_the_list_with_its_fit() {
    let mut harness = harness(Bench::on_card());
    harness.get_by_label("recommended here");
    assert!(harness.query_all_by_label("fits").count() > 3);
    click(&mut harness, "Three steps to see that training works");
    let bench = harness.state();
    assert_eq!(bench.view.form.origin, Origin::Bundled("smoke".to_owned()));
    assert!(harness.query_by_label("recommended here").is_none());
    harness.get_by_label_contains("3 steps");
}

#[test]
fn a_recipe_of_ones_own_is_dropped_and_a_wrong_one_says_its_line_and_cure() {
    let bench = Bench::on_processor();
    let text = BUNDLED[0].1.replace("\nsteps =", "\nstpes =");
    let wrong = bench.file("wrong.toml", &text);
    let right = bench.file("right.toml", &BUNDLED[1].1.replace("Three steps", "My steps"));
    let mut harness = harness(bench);
    drop_file(&mut harness, &wrong);
    harness.get_by_label("wrong.toml is no recipe that can be used");
    harness.get_by_label_contains("unknown key `stpes`");
    harness.get_by_label("did you mean `steps`?");
    drop_file(&mut harness, &right);
    harness.get_by_label("your recipe");
    harness.get_by_label_contains("My steps");
    click(&mut harness, "Choose a recipe file…");
    assert_eq!(harness.state().dialogs, 1);
}

const CSV: &str = "frage,sql,nummer\nHow many?,SELECT COUNT(*) FROM t,1\nWhich?,SELECT a FROM t,2\nWhy?,SELECT b FROM t,3\n";

#[test]
fn a_dropped_file_is_previewed_and_its_columns_can_be_chosen() {
    let bench = Bench::on_processor();
    let path = bench.file("rows.csv", CSV);
    let mut harness = harness(bench);
    drop_file(&mut harness, &path);
    // The prompt's column has no usual name: the file cannot be used before it is chosen.
    harness.get_by_label("Its columns do not tell what is what");
    click(&mut harness, "prompt");
    click(&mut harness, "frage");
    harness.get_by_label_contains("CSV · 3 rows");
    harness.get_by_label("SELECT a FROM t");
    let data = harness.state().view.form.data.clone().unwrap();
    assert_eq!(data.columns[&Role::Prompt], "frage");
    assert_eq!(data.path, path);
    harness.get_by_label_contains("Your data is not scored");
    harness.state_mut().has_model();
    harness.run_steps(6);
    click(&mut harness, "Start fine-tuning");
    let recipe = sent_recipe(harness.state());
    assert_eq!(recipe.data.path, Some(path));
    assert_eq!(recipe.data.columns[&Role::Prompt], "frage");
    assert_eq!(recipe.title, "model learns from rows.csv");
    assert!(matches!(
        harness.state().started(),
        Some(TaskWork::Train { evaluate: false, .. })
    ));
    click(&mut harness, "Remove");
    assert_eq!(harness.state().view.form.data, None);
    harness.get_by_label_contains("text-to-SQL, which comes with the program: ");
}

#[test]
fn a_path_is_typed_and_a_relative_one_is_refused() {
    let bench = Bench::on_processor();
    let path = bench.file("rows.csv", &CSV.replace("frage", "question"));
    let mut harness = harness(bench);
    retype(&mut harness, "Path of a data set", "rows.csv");
    click(&mut harness, "Use");
    harness.get_by_label_contains("the whole path is needed");
    retype(&mut harness, "Path of a data set", &path.to_string_lossy());
    click(&mut harness, "Use");
    harness.get_by_label_contains("CSV · 3 rows");
    assert!(
        harness
            .query_by_label_contains("the whole path is needed")
            .is_none()
    );
}

#[test]
fn a_file_that_cannot_be_read_says_where_and_what_to_do() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    let path = bench.file(
        "rows.jsonl",
        "{\"prompt\": \"a\", \"completion\": \"b\"}\nnot json\n",
    );
    let mut harness = harness(bench);
    drop_file(&mut harness, &path);
    harness.get_by_label("This data cannot be read");
    harness.get_by_label_contains("line 2");
    harness.get_by_label_contains("the data cannot be read as it is");
    click(&mut harness, "Start fine-tuning");
    assert!(harness.state().started().is_none());
}

#[test]
fn a_wrong_value_is_told_at_its_field_and_can_be_given_back() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    let mut harness = harness(bench);
    click(&mut harness, "Advanced settings");
    retype(&mut harness, "Rank", "0");
    harness.get_by_label("an adapter has an inner dimension between 1 and 1024");
    harness.get_by_label("Advanced settings · 1 changed · 1 cannot work");
    click(&mut harness, "Start fine-tuning");
    assert!(harness.state().started().is_none());
    click(&mut harness, "Give Rank the recipe's value back");
    assert!(
        harness
            .query_by_label_contains("inner dimension between")
            .is_none()
    );
    retype(&mut harness, "Rank", "8");
    harness.get_by_label("Advanced settings · 1 changed");
    click(&mut harness, "Start fine-tuning");
    assert_eq!(sent_recipe(harness.state()).lora.rank, 8);
}

#[test]
fn modules_and_choices_are_set_without_typing() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    let mut harness = harness(bench);
    click(&mut harness, "Advanced settings");
    click(&mut harness, "down_proj");
    click(&mut harness, "Schedule");
    click(&mut harness, "linear");
    click(&mut harness, "The recipe as a file");
    harness.get_by_label_contains("schedule = \"linear\"");
    click(&mut harness, "Start fine-tuning");
    let recipe = sent_recipe(harness.state());
    assert_eq!(recipe.lora.target_modules.len(), 6);
    assert!(!recipe.lora.target_modules.contains(&"down_proj".to_owned()));
}

#[test]
fn the_second_trainer_says_what_it_takes_and_trains_where_it_is_here() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    bench.second(Err(Problem::new(
        "trainer_not_installed",
        "transformers and PEFT have no environment yet",
        vec!["install it on the page Set-up".to_owned()],
    )));
    let mut harness = harness(bench);
    click(&mut harness, "Advanced settings");
    click(&mut harness, "Trainer");
    click(&mut harness, "transformers + PEFT");
    harness.get_by_label("Advanced settings · 1 changed");
    harness.get_by_label("Its environment is not here yet: 1.0 GiB over the network, 3.0 GiB on the disk");
    harness.get_by_label("transformers and PEFT have no environment yet: install it on the page Set-up");
    click(&mut harness, "Start fine-tuning");
    assert!(harness.state().started().is_none());
    click(&mut harness, "See its set-up");
    assert_eq!(harness.state().state.page, Page::Setup);
    assert_eq!(harness.state().state.pages.setup.engine, Engine::Hf);

    harness.state_mut().second(Ok(()));
    harness.run_steps(6);
    harness.get_by_label("Its environment is here and takes 3.0 GiB of the disk");
    retype(&mut harness, "Threads", "2");
    click(&mut harness, "Start fine-tuning");
    assert!(matches!(
        harness.state().started(),
        Some(TaskWork::Train {
            trainer: Trainer::Hf,
            threads: Some(2),
            ..
        })
    ));
}

#[test]
fn threads_that_cannot_be_keep_it_from_starting() {
    let mut bench = Bench::on_processor();
    bench.has_model();
    let mut harness = harness(bench);
    click(&mut harness, "Advanced settings");
    retype(&mut harness, "Threads", "none");
    harness.get_by_label("this takes a whole number from 1 to 1024");
    click(&mut harness, "Start fine-tuning");
    assert!(harness.state().started().is_none());
}

#[test]
fn a_restart_keeps_the_form() {
    let mut harness = harness(Bench::on_processor());
    click(&mut harness, "Three steps to see that training works");
    click(&mut harness, "Advanced settings");
    retype(&mut harness, "Steps", "wrong");
    let bench = harness.state_mut();
    bench.view.keep(&mut bench.state.saved);
    let text = serde_json::to_string(&bench.state.saved).unwrap();
    let saved: Saved = serde_json::from_str(&text).unwrap();
    let restored = TuneView::restored(&saved);
    assert_eq!(restored.form, bench.view.form);
    assert_eq!(restored.form.origin, Origin::Bundled("smoke".to_owned()));
    assert_eq!(restored.form.typed["train.steps"], "wrong");
}

#[test]
fn a_run_that_was_cut_short_can_go_on_or_be_left() {
    let mut bench = Bench::on_processor();
    let runs = bench.state.folders.runs();
    let live = LiveRun::create(&runs, &quickstart(), "0123456789").unwrap();
    let folder = live.folder().to_owned();
    fs::write(folder.join("events.jsonl"), steps(30)).unwrap();
    write_checkpoint(&folder, 20);
    drop(live);
    assert_eq!(lines(&runs, &[]).unwrap()[0].resume_step, Some(20));
    bench.look_around(true);
    let mut harness = harness(bench);
    harness.get_by_label_contains("A run was cut short at step 20 of 96");
    click(&mut harness, "Resume");
    assert!(matches!(harness.state().started(), Some(TaskWork::Resume { .. })));
    click(&mut harness, "Leave it");
    assert!(harness.query_by_label_contains("A run was cut short").is_none());
    assert_eq!(harness.state().state.saved.left_alone.len(), 1);
}

/// What an engine says of this many steps.
fn steps(count: u64) -> String {
    let step = |step| {
        tunesmith_protocol::encode(&tunesmith_protocol::Event::Step(tunesmith_protocol::Step {
            step,
            loss: Some(1.0),
            grad_norm: Some(0.5),
            lr: 1e-4,
            dt_secs: 0.5,
            elapsed_secs: step as f64,
            real_tokens: 100 * step,
            padded_tokens: 100 * step,
            supervised_tokens: 20 * step,
            squared_lengths: 10,
            peak_bytes: None,
        }))
    };
    (1..=count).map(step).collect()
}

#[test]
fn a_machine_without_a_card_gets_the_quickstart_in_plain_words() {
    let harness = harness(Bench::on_processor());
    harness.get_by_label_contains("SmolLM2-135M-Instruct fits on the processor");
    harness.get_by_label_contains("the smallest model that learns the task");
}

#[test]
fn files_that_hover_over_the_window_are_told_where_they_would_go() {
    let mut harness = harness(Bench::on_processor());
    harness
        .input_mut()
        .hovered_files
        .push(egui::HoveredFile::default());
    harness.run_steps(3);
    harness.get_by_label_contains("Drop a data set, a recipe");
    harness.input_mut().hovered_files.clear();
    harness.run_steps(2);
    assert!(
        harness
            .query_by_label_contains("Drop a data set, a recipe")
            .is_none()
    );
}

pub(super) fn picture(bench: Bench, size: egui::Vec2, theme_wish: Theme) -> Harness<'static, Bench> {
    let mut harness = Harness::builder()
        .with_size(size)
        .with_theme(theme_wish)
        .with_context_setup(theme::install)
        .wgpu()
        .build_ui_state(|ui, bench: &mut Bench| bench.draw(ui), bench);
    harness.run_steps(8);
    harness
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    for (theme, name) in [(Theme::Dark, "tune-dark"), (Theme::Light, "tune-light")] {
        let mut harness = picture(Bench::on_card(), vec2(1280.0, 820.0), theme);
        harness.snapshot(name);
        results.extend_harness(&mut harness);
    }
}
