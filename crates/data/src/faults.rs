//! Faults of rows, put in on purpose so that tests see them caught (X14). Compiled by the feature `inject-faults` alone
//! and chosen by the variable `TUNESMITH_INJECT_FAULT`.

use crate::Row;

#[cfg(not(debug_assertions))]
compile_error!("inject-faults is for tests; a release never has it");

/// Spoils a finished row as the chosen fault would have.
pub(crate) fn spoil(row: &mut Row, end_tokens: &[u32], vocabulary: usize) {
    let Ok(fault) = std::env::var("TUNESMITH_INJECT_FAULT") else {
        return;
    };
    match fault.as_str() {
        // The prompt's length was read as 2.
        "prompt_in_loss" => row.supervised.iter_mut().skip(2).for_each(|mark| *mark = true),
        "all_masked" => row.supervised.fill(false),
        // The padding token is the end token, and labels were masked by its id.
        "pad_masking" => {
            for (mark, id) in row.supervised.iter_mut().zip(&row.input_ids) {
                *mark &= !end_tokens.contains(id);
            }
        }
        "outside_vocabulary" => {
            if let Some(first) = row.input_ids.first_mut() {
                *first = vocabulary as u32;
            }
        }
        _ => {}
    }
}
