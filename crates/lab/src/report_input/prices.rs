//! What the user says a kilowatt-hour and the card cost: `prices.toml` in the configuration folder, for every report (U8).

use std::path::{Path, PathBuf};

use tunesmith_measure::cost::Prices;

use crate::{
    files::{FileError, read_text, write_whole},
    pipeline::LabError,
};

/// The file.
pub fn prices_file(config: &Path) -> PathBuf {
    config.join("prices.toml")
}

/// The prices that were kept; none where there is no file.
///
/// # Errors
/// [`LabError::NotPossible`] for a file that is no list of prices.
pub fn prices(config: &Path) -> Result<Prices, LabError> {
    let path = prices_file(config);
    if !path.exists() {
        return Ok(Prices::default());
    }
    let text = read_text(&path)?;
    toml::from_str(&text).map_err(|error| LabError::NotPossible {
        message: format!("{} holds no prices: {}", path.display(), error.message()),
        hints: vec![
            "write for example: currency = \"EUR\", per_kwh = 0.30, card = 999.0, card_hours = 10000.0, each on a line of its own"
                .to_owned(),
        ],
    })
}

/// Keeps prices for every report that is made from now on.
///
/// # Errors
/// [`FileError`] when the file cannot be written.
pub fn keep_prices(config: &Path, prices: &Prices) -> Result<(), FileError> {
    let mut text = "# What things cost, for the part \"Energy and cost\" of a report.\n".to_owned();
    if !prices.currency.is_empty() {
        text.push_str(&format!(
            "currency = {}\n",
            toml::Value::from(prices.currency.as_str())
        ));
    }
    for (name, value) in [
        ("per_kwh", prices.per_kwh),
        ("card", prices.card),
        ("card_hours", prices.card_hours),
    ] {
        if let Some(value) = value {
            text.push_str(&format!("{name} = {}\n", toml::Value::from(value)));
        }
    }
    crate::files::make_folder(config)?;
    write_whole(&prices_file(config), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_kept_and_what_is_no_price_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(prices(folder.path()).unwrap(), Prices::default());
        let kept = Prices {
            currency: "EUR \"old\"".into(),
            per_kwh: Some(0.3),
            card: Some(999.0),
            card_hours: None,
        };
        keep_prices(folder.path(), &kept).unwrap();
        assert_eq!(prices(folder.path()).unwrap(), kept);
        std::fs::write(prices_file(folder.path()), "per_kwh = \"cheap\"").unwrap();
        let error = prices(folder.path()).unwrap_err();
        assert!(error.to_string().contains("holds no prices") && !error.hints().is_empty());
    }
}
