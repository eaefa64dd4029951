//! The experiments that come with the program.

/// Name and text of each.
pub const READY: [(&str, &str); 11] = [
    (
        "bf16-or-4bit",
        include_str!("../../../../recipes/experiments/bf16-or-4bit.toml"),
    ),
    (
        "attention",
        include_str!("../../../../recipes/experiments/attention.toml"),
    ),
    (
        "checkpointing",
        include_str!("../../../../recipes/experiments/checkpointing.toml"),
    ),
    (
        "where-time-goes",
        include_str!("../../../../recipes/experiments/where-time-goes.toml"),
    ),
    (
        "packing",
        include_str!("../../../../recipes/experiments/packing.toml"),
    ),
    (
        "sweep-sequence",
        include_str!("../../../../recipes/experiments/sweep-sequence.toml"),
    ),
    (
        "sweep-batch",
        include_str!("../../../../recipes/experiments/sweep-batch.toml"),
    ),
    (
        "sweep-rank",
        include_str!("../../../../recipes/experiments/sweep-rank.toml"),
    ),
    (
        "other-base",
        include_str!("../../../../recipes/experiments/other-base.toml"),
    ),
    (
        "max-batch",
        include_str!("../../../../recipes/experiments/max-batch.toml"),
    ),
    (
        "thermal",
        include_str!("../../../../recipes/experiments/thermal.toml"),
    ),
];

/// The text of a ready experiment.
pub(super) fn text_of(name: &str) -> Option<&'static str> {
    READY
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
