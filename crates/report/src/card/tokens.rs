//! Puts the page's design tokens into rules, for a renderer that knows no variables.

/// Rules in which every `var(--name)` is the value that the page's light theme gives it.
pub(super) fn resolve(rules: &str) -> String {
    let css = include_str!("../../templates/report.css");
    let block = css
        .split_once(":root {")
        .and_then(|(_, rest)| rest.split_once('}'))
        .map_or("", |(block, _)| block);
    let mut out = rules.to_owned();
    for token in block.split(';') {
        if let Some((name, value)) = token.split_once(':')
            && let Some(name) = name.trim().strip_prefix("--")
        {
            out = out.replace(&format!("var(--{name})"), value.trim());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_is_left_in_any_rule_of_the_card() {
        let rules = concat!(
            include_str!("../../templates/chart.css"),
            include_str!("../../templates/card.css")
        );
        let resolved = resolve(rules);
        assert!(!resolved.contains("var("), "{resolved}");
        assert!(resolved.contains("#e8590c"));
    }
}
