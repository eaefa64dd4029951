//! Of an experiment that asks where the time goes: its ladder, from the arms' figures and from what its runs knew of the
//! device (M5).

use tunesmith_measure::{
    comparison::Comparison,
    gap::{Around, GapError, Ladder, Measures, ladder, token_bytes},
    practical_peak,
};

use crate::run::Run;

use super::{Kind, record::Line, slots::Reader};

impl Reader<'_> {
    /// The ladder, or why there is none yet; nothing for an experiment of another kind.
    pub(super) fn ladder(&self, comparison: &Comparison) -> Option<Result<Ladder, GapError>> {
        if self.folder.experiment.kind != Kind::Gap {
            return None;
        }
        let planned = &self.folder.plan.arms;
        let arms: Vec<_> = planned
            .iter()
            .zip(&comparison.arms)
            .map(|(planned, arm)| (planned.measures, arm))
            .collect();
        Some(match self.around() {
            Some(around) => ladder(&arms, &around),
            // No run has begun: the first arm trains.
            None => Err(GapError::MissingLevel {
                level: planned.first().map_or_else(String::new, |arm| arm.name.clone()),
            }),
        })
    }

    /// What the newest run knew that had a peak; where none had, what the newest one knew.
    fn around(&self) -> Option<Around> {
        let mut newest = None;
        for line in self.lines.iter().rev() {
            let Line::Run { run, .. } = line else { continue };
            let Some(around) = self.around_of(run) else {
                continue;
            };
            if around.peak.is_some() {
                return Some(around);
            }
            newest.get_or_insert(around);
        }
        newest
    }

    fn around_of(&self, run: &str) -> Option<Around> {
        let run = Run::open(&self.runs_dir.join(run)).ok()?;
        let manifest = run.manifest.as_ref()?;
        let dtype = run.recipe.dtype(&manifest.device);
        let calibration = manifest.calibration.as_ref().map(|record| &record.result);
        let mut arms = self.folder.plan.arms.iter();
        let writes = arms.find(|arm| arm.measures == Measures::Decoding);
        Some(Around {
            dtype,
            peak: calibration.and_then(|of| Some(practical_peak(of, dtype)?.tflops)),
            copy: calibration.map(|of| of.copy),
            token_bytes: writes
                .map(|arm| token_bytes(&manifest.model.shape, dtype, arm.recipe.model.quantization)),
        })
    }
}
