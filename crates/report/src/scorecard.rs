//! What works here, as is or by a workaround, and what was not used or not tested (U4): each line tagged with whom it
//! concerns, AMD, the stack or the host. Every line is derived from the calibration, the doctor or the run's record, and says from
//! which; nothing is filled by hand, and what no record tells is not tested.

use serde::{Deserialize, Serialize};
use tunesmith_measure::judge::{Judgement, Severity};
use tunesmith_protocol::{AttentionBackend, Calibration, DType, KernelName, RunStatus};

use crate::format::{number, plural};
use crate::record::{DoctorRecord, DoctorStatus};
use crate::{ReportInput, TrainingRecord};

/// How well something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Without anything being done for it.
    Works,
    /// With a flag, a mask or something to live with.
    Workaround,
    /// It was tried and does not.
    Fails,
    /// It is there and this did without.
    NotUsed,
    /// No record tells.
    NotTested,
}

impl State {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [
        Self::Fails,
        Self::Workaround,
        Self::Works,
        Self::NotUsed,
        Self::NotTested,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Workaround => "workaround",
            Self::Fails => "does not work",
            Self::NotUsed => "not used",
            Self::NotTested => "not tested",
        }
    }
}

/// Whom a line concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Concern {
    /// The maker of the card: hardware, driver, firmware and ROCm. Called `device` where the card is not AMD's.
    Amd,
    /// The same on a device of another maker.
    Device,
    /// Torch, engines, packages.
    Stack,
    /// The machine around the card, its system and its settings.
    Host,
}

impl Concern {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Amd => "AMD",
            Self::Device => "device",
            Self::Stack => "stack",
            Self::Host => "host",
        }
    }
}

/// Which record a line was derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The calibration.
    Calibration,
    /// The doctor.
    Doctor,
    /// The run, or the runs of the experiment.
    Run,
    /// None.
    Nothing,
}

impl Evidence {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Calibration => "calibration",
            Self::Doctor => "doctor",
            Self::Run => "run record",
            Self::Nothing => "no record",
        }
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// What it is about.
    pub what: String,
    /// How well it works.
    pub state: State,
    /// Whom it concerns.
    pub concern: Concern,
    /// What was seen, a clause.
    pub seen: String,
    /// Where.
    pub evidence: Evidence,
}

/// The lines: what fails first, what was not tested last.
pub(crate) fn scorecard(record: &ReportInput) -> Vec<Score> {
    let mut card = Card {
        device: if record.device.gfx.is_some() || record.device.backend == "hip" {
            Concern::Amd
        } else {
            Concern::Device
        },
        lines: Vec::new(),
    };
    card.calibration(record.calibration.as_ref());
    card.trainings(record);
    if let Some(doctor) = &record.doctor {
        card.doctor(doctor);
    } else {
        let not = "the doctor's findings are not part of this report";
        card.add(
            "Set-up of the machine",
            State::NotTested,
            Concern::Host,
            not,
            Evidence::Nothing,
        );
    }
    card.lines
        .sort_by_key(|line| State::ALL.iter().position(|state| *state == line.state));
    card.lines
}

struct Card {
    device: Concern,
    lines: Vec<Score>,
}

impl Card {
    fn add(
        &mut self,
        what: &str,
        state: State,
        concern: Concern,
        seen: impl Into<String>,
        evidence: Evidence,
    ) {
        self.lines.push(Score {
            what: what.to_owned(),
            state,
            concern,
            seen: seen.into(),
            evidence,
        });
    }

    fn calibration(&mut self, calibration: Option<&Calibration>) {
        let device = self.device;
        for dtype in [DType::Bf16, DType::F16, DType::F32] {
            let what = format!("Matrix products in {}", dtype.name());
            let of_format: Vec<_> = calibration
                .into_iter()
                .flat_map(|calibration| &calibration.gemm)
                .filter(|gemm| gemm.dtype == dtype)
                .collect();
            let best = of_format.iter().map(|gemm| gemm.mean_tflops).fold(0.0, f64::max);
            let (state, seen) = if of_format.is_empty() {
                (
                    State::NotTested,
                    "no product was measured in this format".to_owned(),
                )
            } else if of_format.iter().any(|gemm| !gemm.values.passed) {
                (State::Fails, "wrong values against float64".to_owned())
            } else if of_format.iter().all(|gemm| gemm.emulated) {
                (
                    State::Workaround,
                    format!(
                        "right values, imitated by the processor at {} TFLOPS",
                        number(best)
                    ),
                )
            } else {
                (
                    State::Works,
                    format!(
                        "right values in {}, up to {} TFLOPS",
                        plural(of_format.len() as u64, "layout"),
                        number(best)
                    ),
                )
            };
            let evidence = if of_format.is_empty() {
                Evidence::Nothing
            } else {
                Evidence::Calibration
            };
            self.add(&what, state, device, seen, evidence);
        }
        self.kernel(
            calibration,
            "Attention, forward and backward",
            Concern::Stack,
            |kernel| {
                matches!(
                    kernel,
                    KernelName::AttentionForward | KernelName::AttentionBackward
                )
            },
        );
        self.kernel(
            calibration,
            "LoRA layer, forward and backward",
            Concern::Stack,
            |kernel| {
                matches!(
                    kernel,
                    KernelName::LoraLayerForward | KernelName::LoraLayerBackward
                )
            },
        );
        self.kernel(calibration, "4-bit storage (NF4)", Concern::Stack, |kernel| {
            kernel == KernelName::Nf4RoundTrip
        });
        if let Some(calibration) = calibration {
            self.back_ends(calibration);
        }
    }

    fn kernel(
        &mut self,
        calibration: Option<&Calibration>,
        what: &str,
        concern: Concern,
        belongs: impl Fn(KernelName) -> bool,
    ) {
        let checks: Vec<_> = calibration
            .into_iter()
            .flat_map(|calibration| &calibration.kernels)
            .filter(|check| belongs(check.kernel))
            .collect();
        let wrong = checks.iter().filter(|check| !check.values.passed).count();
        let made = plural(checks.len() as u64, "check");
        match (checks.len(), wrong) {
            (0, _) => self.add(
                what,
                State::NotTested,
                concern,
                "no value was checked",
                Evidence::Nothing,
            ),
            (_, 0) => self.add(
                what,
                State::Works,
                concern,
                format!("{made} against float64, all right"),
                Evidence::Calibration,
            ),
            (_, wrong) => self.add(
                what,
                State::Fails,
                concern,
                format!("{wrong} of {made} against float64 wrong"),
                Evidence::Calibration,
            ),
        }
    }

    /// Back ends of attention, each by the name that torch gives the kernel (C4).
    fn back_ends(&mut self, calibration: &Calibration) {
        for backend in AttentionBackend::NAMED
            .into_iter()
            .chain([AttentionBackend::Other])
        {
            let measured: Vec<_> = calibration
                .attention
                .iter()
                .filter(|one| one.backend == backend)
                .collect();
            let Some(first) = measured.first() else { continue };
            let what = format!("Attention by {}", backend.name());
            let missing = measured.iter().find_map(|one| one.unavailable.as_deref());
            let ran = measured.iter().any(|one| one.forward_secs.is_some());
            let wrong = measured
                .iter()
                .any(|one| one.values.is_some_and(|values| !values.passed));
            let taken = measured.iter().any(|one| one.dispatched);
            let (state, seen) = if wrong {
                (State::Fails, "wrong values against float64".to_owned())
            } else if !ran {
                (
                    State::NotUsed,
                    missing.map_or_else(|| "it did not run".to_owned(), |why| format!("not there: {why}")),
                )
            } else if taken {
                let proof = first
                    .proof
                    .as_deref()
                    .map_or_else(String::new, |proof| format!(", proved by {proof}"));
                (State::Works, format!("torch takes it by itself{proof}"))
            } else {
                (
                    State::NotUsed,
                    "it runs where it is asked for; torch takes another".to_owned(),
                )
            };
            self.add(&what, state, Concern::Stack, seen, Evidence::Calibration);
        }
    }

    fn trainings(&mut self, record: &ReportInput) {
        if let Some(experiment) = &record.experiment {
            let made = experiment.runs.len();
            let counts = experiment.runs.iter().filter(|run| run.counts).count();
            let state = if counts == made && made > 0 {
                State::Works
            } else if counts > 0 {
                State::Workaround
            } else {
                State::Fails
            };
            let seen = format!(
                "{counts} of {} of the experiment count",
                plural(made as u64, "run")
            );
            self.add(
                "Training of an adapter",
                state,
                Concern::Stack,
                seen,
                Evidence::Run,
            );
        } else if let Some(training) = &record.training {
            self.training(training);
        } else {
            let not = "this report is of a calibration";
            self.add(
                "Training of an adapter",
                State::NotTested,
                Concern::Stack,
                not,
                Evidence::Nothing,
            );
        }
    }

    fn training(&mut self, training: &TrainingRecord) {
        let steps = plural(training.summary.valid_steps as u64, "valid step");
        let what = if training.four_bit_base {
            "Training of an adapter on a 4-bit base"
        } else {
            "Training of an adapter"
        };
        let by_choice = matches!(training.status, RunStatus::Cancelled | RunStatus::TimeBoxed);
        let (state, seen) = match (training.status, training.judge.worst()) {
            (RunStatus::Ok, None | Some(Severity::Green)) => (State::Works, steps),
            (RunStatus::Ok, Some(Severity::Amber)) => (
                State::Workaround,
                format!("{steps}; the judge warns: {}", warned(&training.judge)),
            ),
            _ if by_choice && training.summary.valid_steps > 0 => {
                (State::Works, format!("{steps}, then it was stopped"))
            }
            _ => (
                State::Fails,
                format!("ended as {} after {steps}", training.status.name()),
            ),
        };
        self.add(what, state, Concern::Stack, seen, Evidence::Run);
        if !training.four_bit_base {
            let not = "the frozen base was held in full";
            self.add(
                "Training on a 4-bit base",
                State::NotUsed,
                Concern::Stack,
                not,
                Evidence::Run,
            );
        }
        let (state, seen) = match (&training.before, &training.after) {
            (Some(_), Some(after)) => (
                State::Works,
                format!("{} before and after", plural(after.questions, "question")),
            ),
            (None, None) => (State::NotUsed, "no question was asked".to_owned()),
            _ => (State::Workaround, "one side alone was scored".to_owned()),
        };
        self.add(
            "Scoring before and after",
            state,
            Concern::Stack,
            seen,
            Evidence::Run,
        );
    }

    fn doctor(&mut self, doctor: &DoctorRecord) {
        let device = self.device;
        for finding in &doctor.findings {
            let concern = match finding.group.as_str() {
                "card" | "kernel" | "kernel_log" => device,
                "settings" | "environment" => Concern::Stack,
                _ => Concern::Host,
            };
            let state = match finding.status {
                DoctorStatus::Warn => State::Workaround,
                DoctorStatus::Fail => State::Fails,
            };
            let cure = finding
                .cure
                .as_deref()
                .map_or_else(String::new, |cure| format!("; cure: {cure}"));
            self.add(
                &finding.title,
                state,
                concern,
                format!("{}{cure}", finding.found),
                Evidence::Doctor,
            );
        }
        for [name, value, why] in &doctor.flags {
            self.add(
                &format!("{name}={value}"),
                State::Workaround,
                device,
                why.clone(),
                Evidence::Doctor,
            );
        }
        if doctor.in_order > 0 {
            let seen = format!("{} in order", plural(doctor.in_order as u64, "check"));
            self.add(
                "The rest of the set-up",
                State::Works,
                Concern::Host,
                seen,
                Evidence::Doctor,
            );
        }
        if doctor.unknown > 0 {
            let seen = format!(
                "{} could not be told from what may be read",
                plural(doctor.unknown as u64, "check")
            );
            self.add(
                "What the doctor could not see",
                State::NotTested,
                Concern::Host,
                seen,
                Evidence::Doctor,
            );
        }
    }
}

fn warned(judge: &Judgement) -> String {
    let names: Vec<&str> = judge.notable().iter().map(|finding| finding.id.title()).collect();
    names.join(", ")
}
