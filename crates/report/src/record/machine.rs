//! The device and the machine around it, as a report tells of them.

use serde::{Deserialize, Serialize};
use tunesmith_measure::cost::EnergyRead;

/// What computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// As people call it: the card's name, or the processor's where no card computed. Empty where it is not known.
    pub name: String,
    /// The card's true gfx target (X2), where it has one.
    #[serde(default)]
    pub gfx: Option<String>,
    /// `cpu`, `cuda` or `hip`; empty where it is not known.
    #[serde(default)]
    pub backend: String,
}

impl DeviceRecord {
    /// Whether a processor computed, and not a card.
    pub fn is_processor(&self) -> bool {
        self.backend == "cpu"
    }
}

/// What the doctor found, and when it looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorRecord {
    /// When, RFC 3339.
    pub taken: String,
    /// Its answer in a line.
    pub opening: String,
    /// How many checks were in order.
    pub in_order: usize,
    /// How many could not be told.
    pub unknown: usize,
    /// What was not in order.
    pub findings: Vec<DoctorFinding>,
    /// Variables of the environment that the plan for this machine set, each a workaround: name, value and why.
    #[serde(default)]
    pub flags: Vec<[String; 3]>,
}

/// Something that the doctor found not to be in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorFinding {
    /// Name of the check, e.g. `kfd-access`.
    pub id: String,
    /// What it belongs to: the doctor's group, e.g. `kernel`.
    pub group: String,
    /// What is checked.
    pub title: String,
    /// How bad it is.
    pub status: DoctorStatus,
    /// What was read.
    pub found: String,
    /// What cures it, where something does.
    #[serde(default)]
    pub cure: Option<String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DoctorStatus {
    /// It can be lived with.
    Warn,
    /// It cannot.
    Fail,
}

/// What the card's sensors told while it trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Energy read over the training, where there is a sensor for power or energy.
    #[serde(default)]
    pub energy: Option<EnergyRead>,
    /// Samples over time, thinned.
    #[serde(default)]
    pub points: Vec<TelemetryPoint>,
}

/// One moment. What could not be read is absent, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TelemetryPoint {
    /// Seconds since the training began.
    pub at_secs: f64,
    /// Hottest sensor of the chip, in degrees Celsius: the junction on AMD's cards, else the edge.
    #[serde(default)]
    pub celsius: Option<f64>,
    /// Clock of the compute units, in MHz.
    #[serde(default)]
    pub core_mhz: Option<f64>,
    /// Power, in watts.
    #[serde(default)]
    pub watts: Option<f64>,
    /// How busy the compute units are, 0 to 100.
    #[serde(default)]
    pub load_percent: Option<f64>,
    /// Memory of the card in use by everyone, in bytes.
    #[serde(default)]
    pub vram_bytes: Option<u64>,
}
