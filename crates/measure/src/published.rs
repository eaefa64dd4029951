//! Published measurements that tests of formulas reproduce, with source and licence in the file.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Published {
    pub(crate) tokens_per_sequence: f64,
    pub(crate) runs: Vec<PublishedRun>,
    pub(crate) sweep: Vec<SweepPoint>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct PublishedRun {
    pub(crate) name: String,
    pub(crate) claimed_tokens_per_sec: f64,
    pub(crate) corrected_tokens_per_sec: f64,
    pub(crate) overcount_factor: f64,
    pub(crate) final_tokens: f64,
    pub(crate) secs: f64,
    pub(crate) reports: usize,
    pub(crate) peak_gib: f64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct SweepPoint {
    pub(crate) generation_batch: f64,
    pub(crate) backward_batch: f64,
    pub(crate) tokens_per_sec: f64,
}

pub(crate) fn published() -> Published {
    serde_json::from_str(include_str!("../fixtures/published-7900xtx.json")).unwrap()
}
