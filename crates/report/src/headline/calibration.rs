//! Headline and validity of a device that was measured and trained nothing.

use tunesmith_measure::calibration::{Validity, validity as validity_of};
use tunesmith_measure::practical_peak;

use super::{Headline, Verdict, wrong_values};
use crate::ReportInput;
use crate::format::{capitalised, number, percent, plural};

pub(super) fn headline(record: &ReportInput) -> Headline {
    let device = match record.device.name.as_str() {
        "" => "This device",
        name => name,
    };
    let dtype = record.dtype.name();
    let peak = record
        .calibration
        .as_ref()
        .and_then(|calibration| practical_peak(calibration, record.dtype));
    match (peak, record.spec_peak) {
        (Some(peak), Some(spec)) => Headline::new(
            Verdict::Ok,
            format!(
                "{device} does {} of its {} TFLOPS in {dtype}",
                number(peak.tflops.0),
                number(spec.0)
            ),
            vec![format!(
                "Matrix products reach {} of the spec sheet",
                percent(peak.tflops.0 / spec.0)
            )],
        ),
        (Some(peak), None) => Headline::new(
            Verdict::Ok,
            format!("{device} does {} TFLOPS in {dtype}", number(peak.tflops.0)),
            vec!["Its spec-sheet peak is unknown, so no share of it is given".to_owned()],
        ),
        (None, _) => Headline::new(
            Verdict::Unknown,
            format!("No peak of {device} is known in {dtype}"),
            Vec::new(),
        ),
    }
}

pub(super) fn validity(record: &ReportInput) -> Headline {
    let Some(calibration) = &record.calibration else {
        return Headline::new(Verdict::Unknown, "Nothing was measured".to_owned(), Vec::new());
    };
    let checked = calibration.gemm.len() + calibration.kernels.len();
    if checked == 0 {
        return Headline::new(Verdict::Unknown, "No value was checked".to_owned(), Vec::new());
    }
    let (validity, why) = validity_of(calibration);
    let verdict = match validity {
        Validity::Valid => Verdict::Ok,
        Validity::CutShort => Verdict::Note,
        Validity::Disturbed => Verdict::Warn,
        Validity::WrongValues => Verdict::Stop,
    };
    let sentence = format!(
        "{}: {} against float64",
        capitalised(validity.word()),
        plural(checked as u64, "check")
    );
    let mut details = vec![capitalised(&why)];
    if validity == Validity::WrongValues {
        details = wrong_values(record);
    }
    Headline::new(verdict, sentence, details)
}
