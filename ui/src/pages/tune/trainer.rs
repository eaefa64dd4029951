//! Who trains, and on how many threads: no part of a recipe, for the same recipe can be trained by both trainers and then be
//! compared.

use egui::{Align, ComboBox, Id, Label, Layout, RichText, TextEdit, Ui, vec2};
use tunesmith_protocol::Trainer;
use tunesmith_report::format::{count, size};
use tunesmith_setup::{
    Folders, env_vars,
    environments::{self, Engine, InstallSpec},
    plan::plan,
};

use super::{
    Around,
    form::{Checked, MOST_THREADS, THREADS, TuneForm},
    weak,
};
use crate::{
    commands::Commands,
    problem,
    saved::DeviceWish,
    services,
    state::{Machine, Page, Problem},
    theme::{self, Tone, tokens},
    widgets,
};

/// Width of a field's name.
const NAME: f32 = 184.0;

/// The trainers: as they are chosen, and what each is.
const TRAINERS: [(Trainer, &str); 2] = [
    (Trainer::Native, "Tunesmith's own"),
    (Trainer::Hf, "transformers + PEFT"),
];

/// The second trainer, transformers and PEFT: whether it is here, and what it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondTrainer {
    /// Whether it can be started, or why it cannot.
    pub here: Result<(), Problem>,
    /// Bytes over the network until it is here; none where that is not known, or nothing is left to fetch.
    pub download_bytes: Option<u64>,
    /// Bytes on the disk, also of one that is yet to be installed; none where that is not known.
    pub disk_bytes: Option<u64>,
}

impl SecondTrainer {
    /// Looks for it; where it is not here, the plan for it says what it would take.
    pub(super) fn look(folders: &Folders, machine: &Machine, wish: &DeviceWish) -> Self {
        if env_vars::read(env_vars::HF_PYTHON).is_some() {
            return Self {
                here: Ok(()),
                download_bytes: None,
                disk_bytes: None,
            };
        }
        match environments::active(folders, Engine::Hf) {
            Ok(Some(environment)) => Self {
                here: Ok(()),
                download_bytes: None,
                disk_bytes: Some(environment.stamp.disk_bytes),
            },
            Ok(None) => Self::not_here(folders, machine, wish),
            Err(error) => Self {
                here: Err(problem!(error)),
                download_bytes: None,
                disk_bytes: None,
            },
        }
    }

    fn not_here(folders: &Folders, machine: &Machine, wish: &DeviceWish) -> Self {
        let request = services::plan_request(&machine.system, folders, wish, Engine::Hf);
        let plan = plan(&machine.system, &machine.knowledge, &request).ok();
        let install = plan.as_ref().and_then(|plan| plan.install.as_ref());
        Self {
            here: Err(Problem::new(
                "trainer_not_installed",
                "transformers and PEFT have no environment yet",
                vec![
                    "install the engine `hf` on the page Set-up, or let Tunesmith's own trainer train"
                        .to_owned(),
                ],
            )),
            download_bytes: install.and_then(InstallSpec::download_bytes),
            disk_bytes: install.and_then(InstallSpec::disk_bytes),
        }
    }

    /// What it takes, in a sentence.
    fn takes(&self) -> String {
        let on_disk = self
            .disk_bytes
            .map_or_else(|| "space that is not known".to_owned(), size);
        match (&self.here, self.download_bytes) {
            (Ok(()), _) if self.disk_bytes.is_none() => "It is here, in a Python of your own".to_owned(),
            (Ok(()), _) => format!("Its environment is here and takes {on_disk} of the disk"),
            (Err(_), Some(bytes)) => format!(
                "Its environment is not here yet: {} over the network, {on_disk} on the disk",
                size(bytes)
            ),
            (Err(_), None) => "Its environment is not here yet; Set-up says what it takes".to_owned(),
        }
    }
}

/// Both fields under a heading of their own.
pub(super) fn trainer_ui(
    around: Option<&Around>,
    checked: &Checked,
    form: &mut TuneForm,
    ui: &mut Ui,
    out: &mut Commands,
) {
    ui.add_space(2.0 * theme::GRID);
    widgets::subheading(ui, "Who trains");
    row(ui, "Trainer", |ui, name| {
        let chosen = TRAINERS
            .iter()
            .find(|(trainer, _)| *trainer == form.trainer)
            .map_or("", |(_, word)| *word);
        ComboBox::from_id_salt("trainer")
            .width(200.0)
            .selected_text(chosen)
            .show_ui(ui, |ui| {
                for (trainer, word) in TRAINERS {
                    if ui.selectable_label(form.trainer == trainer, word).clicked() {
                        form.trainer = trainer;
                    }
                }
            })
            .response
            .labelled_by(name);
        let help = "Tunesmith's own needs nothing else. The other is the usual Python way, to compare with on equal \
                    terms: the same rows, the same recipe, the same judge. It has an environment and a torch of its own";
        ui.add(Label::new(weak(ui, help)).wrap());
        if form.trainer == Trainer::Hf
            && let Some(around) = around
        {
            second_ui(&around.second, ui, out);
        }
    });
    row(ui, "Threads", |ui, name| {
        ui.horizontal(|ui| {
            ui.add(
                TextEdit::singleline(&mut form.threads)
                    .id_salt(THREADS)
                    .desired_width(120.0)
                    .hint_text("all"),
            )
            .labelled_by(name);
            ui.label(RichText::new("threads").color(tokens(ui).weak_text));
        });
        if let Some(error) = checked.errors.get(THREADS) {
            widgets::verdict_line(ui, Tone::Stop, &error.message);
        }
        let help = "On a processor. All cores that this program may use are usual; another number makes another run, \
                    whose numbers differ in their last digits, and its speed is counted against a calibration of its own";
        ui.add(Label::new(weak(ui, help)).wrap());
        let most = count(MOST_THREADS as u64);
        ui.add(Label::new(weak(ui, &format!("Takes: 1 to {most}; empty for all"))).wrap());
    });
}

/// What the second trainer takes, and the way to it where it is not here.
fn second_ui(second: &SecondTrainer, ui: &mut Ui, out: &mut Commands) {
    let tone = if second.here.is_ok() { Tone::Ok } else { Tone::Warn };
    widgets::verdict_line(ui, tone, &second.takes());
    if second.here.is_err() && widgets::link_button(ui, "See its set-up").clicked() {
        out.change("see the second trainer's set-up", |state| {
            state.pages.setup.choose(Engine::Hf);
            state.go(Page::Setup);
        });
    }
}

/// A field's name to the left of what `add` draws, which is told by whom it is named.
fn row(ui: &mut Ui, name: &str, add: impl FnOnce(&mut Ui, Id)) {
    ui.horizontal_top(|ui| {
        let label = ui
            .allocate_ui_with_layout(
                vec2(NAME, theme::ROW),
                Layout::left_to_right(Align::Center),
                |ui| {
                    ui.set_min_width(NAME);
                    ui.add(Label::new(name).truncate())
                },
            )
            .inner;
        ui.vertical(|ui| add(ui, label.id));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_second_trainer_takes_is_said_whether_it_is_here_or_not() {
        let missing = || Err(Problem::new("trainer_not_installed", "not here", Vec::new()));
        let takes = |here, download_bytes, disk_bytes| {
            SecondTrainer {
                here,
                download_bytes,
                disk_bytes,
            }
            .takes()
        };
        assert_eq!(
            takes(missing(), Some(1 << 30), Some(3 << 30)),
            "Its environment is not here yet: 1.0 GiB over the network, 3.0 GiB on the disk"
        );
        assert_eq!(
            takes(missing(), None, None),
            "Its environment is not here yet; Set-up says what it takes"
        );
        assert_eq!(
            takes(Ok(()), None, Some(3 << 30)),
            "Its environment is here and takes 3.0 GiB of the disk"
        );
        assert_eq!(takes(Ok(()), None, None), "It is here, in a Python of your own");
    }
}
