//! The base that an adapter was trained on: kept beside it, compared when it is put on one (T8).

use std::path::Path;

use serde::{Deserialize, Serialize};
use tunesmith_protocol::{Base, Level, OtherBase, Quantization};

use crate::out::log;

/// Its name in an adapter's folder; a file of our own beside PEFT's, which other programs ignore.
pub(crate) const FILE: &str = "tunesmith_base.json";

/// What an adapter was trained on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AdapterBase {
    #[serde(flatten)]
    pub(crate) base: Base,
    /// Its file's name, or its id on a hub.
    #[serde(default)]
    pub(crate) model: String,
    /// Its commit on a hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
}

/// Tells, and warns by name, where the adapter in `dir` was trained on another base than it is `put_on`. Fingerprints are
/// compared where both are known. An adapter that does not say, or not readably, is put on without a word.
pub(crate) fn other_base(dir: &Path, put_on: &Base) -> Option<OtherBase> {
    let text = std::fs::read_to_string(dir.join(FILE)).ok()?;
    let trained_on = serde_json::from_str::<AdapterBase>(&text).ok()?.base;
    let warning = warning(&trained_on, put_on)?;
    log(Level::Warn, warning);
    Some(OtherBase {
        trained_on,
        put_on: put_on.clone(),
    })
}

fn warning(trained_on: &Base, put_on: &Base) -> Option<String> {
    if let (Some(then), Some(now)) = (&trained_on.fingerprint, &put_on.fingerprint)
        && then != now
    {
        let short = |text: &str| text.chars().take(12).collect::<String>();
        return Some(format!(
            "the adapter was trained on the weights {} and is put on {}: it is a difference to the former and means nothing there",
            short(then),
            short(now)
        ));
    }
    let same = (trained_on.dtype, trained_on.quantization) == (put_on.dtype, put_on.quantization);
    if same {
        return None;
    }
    let cure = if trained_on.quantization == Quantization::None {
        "model.quantization = \"none\""
    } else {
        "model.quantization = \"nf4\""
    };
    Some(format!(
        "the adapter was trained on {} and is put on {}: it answers worse than on its own base (2.8 points were seen); {cure} and train.dtype = \"{}\" are its own",
        trained_on.form(),
        put_on.form(),
        trained_on.dtype.name()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tunesmith_protocol::DType;

    fn base(fingerprint: Option<&str>, dtype: DType, quantization: Quantization) -> Base {
        Base {
            fingerprint: fingerprint.map(str::to_owned),
            dtype,
            quantization,
        }
    }

    #[test]
    fn another_precision_quantisation_or_model_is_named() {
        let bf16 = base(Some("a"), DType::Bf16, Quantization::None);
        assert_eq!(warning(&bf16, &bf16), None);
        assert_eq!(
            warning(&bf16, &base(None, DType::Bf16, Quantization::None)),
            None,
            "what is not known is not complained about"
        );
        let four_bit = base(Some("a"), DType::Bf16, Quantization::Nf4);
        let text = warning(&bf16, &four_bit).unwrap();
        assert!(
            text.contains("trained on bf16 and is put on 4-bit (nf4) in bf16"),
            "{text}"
        );
        let text = warning(&four_bit, &bf16).unwrap();
        assert!(text.contains("model.quantization = \"nf4\""), "{text}");
        let text = warning(&bf16, &base(Some("b"), DType::Bf16, Quantization::None)).unwrap();
        assert!(text.contains("weights a and is put on b"), "{text}");
    }

    #[test]
    fn a_record_from_before_there_was_a_4_bit_base_reads_as_none() {
        let text = r#"{"fingerprint":"a","dtype":"f32","model":"m.gguf"}"#;
        let read: AdapterBase = serde_json::from_str(text).unwrap();
        assert_eq!(read.base, base(Some("a"), DType::F32, Quantization::None));
    }
}
