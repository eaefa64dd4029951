//! Numbers as people read them: three significant digits, grouped thousands, units that say what they are.

/// A whole number with grouped thousands: `12,345`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits, whole above 1,000, a power of ten below 0.001: `1,235`, `12.3`, `0.118`, `2.00×10⁻⁴`.
pub fn number(value: f64) -> String {
    significant(value, 3)
}

/// A number with this many significant digits.
pub fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    if (999.5..1e15).contains(&size) {
        return format!("{sign}{}", count(size.round() as u64));
    }
    if !(0.001..1e15).contains(&size) {
        let text = format!("{size:.*e}", (digits - 1) as usize);
        return format!(
            "{sign}{}",
            text.split_once('e')
                .map_or(text.clone(), |(front, power)| ten_to(front, power))
        );
    }
    let decimals = (digits - 1 - size.log10().floor() as i32).max(0) as usize;
    format!("{sign}{size:.decimals$}")
}

/// A learning rate, without trailing zeros: `1×10⁻³`, `2.5×10⁻⁴`.
pub fn rate(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.2e}");
    text.split_once('e').map_or(text.clone(), |(front, power)| {
        ten_to(front.trim_end_matches('0').trim_end_matches('.'), power)
    })
}

/// An axis label: as few digits as the distance between ticks needs.
pub fn tick(value: f64, distance: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if value.abs() >= 1e6 || distance < 1e-3 {
        let text = format!("{value:.1e}");
        return text.split_once('e').map_or(text.clone(), |(front, power)| {
            ten_to(front.trim_end_matches(".0"), power)
        });
    }
    let decimals = (-distance.log10().floor()).max(0.0) as usize;
    if decimals == 0 && value > 0.0 {
        count(value.round() as u64)
    } else {
        format!("{value:.decimals$}")
    }
}

fn ten_to(front: &str, power: &str) -> String {
    let raised: String = power
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '0' => '⁰',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            _ => '⁹',
        })
        .collect();
    format!("{front}×10{raised}")
}

/// Points, one decimal: `41.0`.
pub fn points(value: f64) -> String {
    format!("{value:.1}")
}

/// A share as percent with its sign: `18.8 %`, two decimals below 1 %.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value != 0.0 && value.abs() < 1.0 {
        format!("{value:.2} %")
    } else {
        format!("{value:.1} %")
    }
}

/// A duration: `0.34 s`, `12.3 s`, `4 min 12 s`, `2 h 05 min`.
pub fn duration(secs: f64) -> String {
    if !secs.is_finite() || secs < 0.0 {
        return "unknown".to_owned();
    }
    if secs < 59.95 {
        return format!("{} s", number(secs));
    }
    let whole = secs.round() as u64;
    if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} min", whole / 3600, whole % 3600 / 60)
    }
}

/// Bytes in powers of two: `89 MiB`, `2.5 GiB`.
pub fn size(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let value = bytes as f64;
    match value {
        _ if value < KIB => plural(bytes, "byte"),
        _ if value < KIB * KIB => format!("{:.0} KiB", value / KIB),
        _ if value < KIB * KIB * KIB => format!("{:.0} MiB", value / KIB / KIB),
        _ => format!("{:.1} GiB", value / KIB / KIB / KIB),
    }
}

/// `1 step`, `12 steps`.
pub fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// At most this many characters, with an ellipsis where some are missing.
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// A sentence that begins with a capital, for findings that are written as clauses.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

/// Text for HTML and SVG, for the strings that are put together outside the template.
pub(crate) fn escape(text: &str) -> String {
    minijinja::HtmlEscape(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1166.18, "1,166"),
            (999.6, "1,000"),
            (123.45, "123"),
            (12.345, "12.3"),
            (1.2345, "1.23"),
            (0.11834, "0.118"),
            (0.0002, "2.00×10⁻⁴"),
            (-12.345, "−12.3"),
            (1_234_567.0, "1,234,567"),
            (f64::NAN, "unknown"),
            (f64::INFINITY, "unknown"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn durations_read_like_speech() {
        for (secs, text) in [
            (0.343, "0.343 s"),
            (12.34, "12.3 s"),
            (59.99, "1 min 00 s"),
            (252.0, "4 min 12 s"),
            (3599.6, "1 h 00 min"),
            (7500.0, "2 h 05 min"),
            (f64::NAN, "unknown"),
        ] {
            assert_eq!(duration(secs), text);
        }
    }

    #[test]
    fn ticks_have_no_more_digits_than_they_need() {
        assert_eq!(tick(1.5, 0.5), "1.5");
        assert_eq!(tick(2.0, 1.0), "2");
        assert_eq!(tick(1500.0, 500.0), "1,500");
        assert_eq!(tick(0.0002, 0.0001), "2×10⁻⁴");
        assert_eq!(tick(0.25, 0.05), "0.25");
    }

    #[test]
    fn learning_rates_are_short() {
        assert_eq!(rate(1e-3), "1×10⁻³");
        assert_eq!(rate(2.5e-4), "2.5×10⁻⁴");
        assert_eq!(rate(0.0), "0");
    }

    #[test]
    fn shares_below_a_percent_keep_their_digits() {
        assert_eq!(percent(0.1884), "18.8 %");
        assert_eq!(percent(0.0013), "0.13 %");
        assert_eq!(percent(0.0), "0.0 %");
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("äöüß", 4), "äöüß");
        assert_eq!(shorten("äöüßx", 4), "äöü…");
    }
}
