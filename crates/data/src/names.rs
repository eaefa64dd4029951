//! The name that was probably meant.

/// The column that was probably meant to be one of `wanted`, with that one.
pub(crate) fn suggest<'a>(
    columns: impl IntoIterator<Item = &'a String>,
    wanted: &[&'static str],
) -> Option<(String, &'static str)> {
    columns.into_iter().find_map(|found| {
        nearest(&found.to_lowercase(), wanted.iter().copied()).map(|meant| (found.clone(), meant))
    })
}

/// The candidate within two typing mistakes.
pub(crate) fn nearest<'a>(found: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(found, &candidate.to_lowercase()),
                candidate,
            )
        })
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, candidate)| candidate)
}
