//! Conditions, superlatives and orders, each as English and as SQL at once, so that the two cannot drift apart.
//!
//! SQL parts name their columns as `{table.column}`; [`super::query::render`] writes them with or without the
//! table, depending on whether the query joins.

use super::dice::Dice;
use super::domain::{ColumnSpec, Kind, TableSpec};
use crate::sql::Value;
use crate::text_to_sql::Table;

/// Where the English of a condition stands, which decides what it can be combined with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Before the noun: "Fantasy books".
    Before,
    /// After the noun: "books with more than 300 pages".
    After,
    /// After the noun with "whose": "books whose price is above 20 dollars".
    Whose,
    /// After the noun with "that" or "who": "books that are not in French".
    That,
}

/// A condition on rows.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    /// Where its English stands.
    pub(super) place: Place,
    /// English for several rows.
    pub(super) many: String,
    /// English for one row.
    pub(super) one: String,
    /// SQL, with columns as `{table.column}`.
    pub(super) sql: String,
}

impl Filter {
    fn new(place: Place, text: String, sql: String) -> Self {
        Self {
            place,
            many: text.clone(),
            one: text,
            sql,
        }
    }

    /// A condition that begins with "that are …" or "that have …".
    fn that(table: &TableSpec, many: &str, one: &str, rest: &str, sql: String) -> Self {
        let text = |verb: &str| format!("{} {verb} {rest}", table.who());
        Self {
            place: Place::That,
            many: text(many),
            one: text(one),
            sql,
        }
    }
}

/// `{table.column}`, the form in which SQL parts name a column.
pub(super) fn column_ref(table: &TableSpec, column: &ColumnSpec) -> String {
    format!("{{{}.{}}}", table.name, column.name)
}

/// "a price", "an age".
pub(super) fn with_article(noun: &str) -> String {
    let vowel =
        noun.starts_with(['a', 'e', 'i', 'o', 'u']) && !noun.starts_with("unit") && !noun.starts_with("use");
    let vowel = vowel || noun.starts_with("hour");
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

/// A text value as a question shows it: bare, or in single quotes in `percent` of the cases.
pub(super) fn show(value: &str, percent: usize, dice: &mut Dice) -> String {
    if dice.chance(percent) {
        format!("'{value}'")
    } else {
        value.to_owned()
    }
}

/// The values of a column, in the order of the rows.
pub(super) fn cells(table: &Table, column: &str) -> Vec<Value> {
    let index = table.columns.iter().position(|other| other.name == column);
    index.map_or_else(Vec::new, |index| {
        table.rows.iter().map(|row| row[index].clone()).collect()
    })
}

/// The texts of a column.
pub(super) fn texts(table: &Table, column: &str) -> Vec<String> {
    cells(table, column)
        .into_iter()
        .filter_map(|value| {
            if let Value::Text(text) = value {
                Some(text)
            } else {
                None
            }
        })
        .collect()
}

/// A number as SQL and questions write it: without a needless point.
pub(super) fn number_text(value: f64) -> String {
    format!("{value}")
}

/// A value of a number, year or date column as both SQL and question write it, without quotes.
fn bare(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number_text(*number),
        Value::Text(text) => text.clone(),
        Value::Null | Value::Blob(_) => String::new(),
    }
}

/// Rows whose text column equals `value`.
pub(super) fn equals(table: &TableSpec, column: &ColumnSpec, value: &str, dice: &mut Dice) -> Filter {
    let sql = format!("{} = '{value}'", column_ref(table, column));
    if column.adj && dice.chance(60) {
        return Filter::new(Place::Before, value.to_owned(), sql);
    }
    if dice.chance(70)
        && let Some(pattern) = dice.pick(&column.is)
    {
        return Filter::new(Place::After, pattern.replace("{}", &show(value, 15, dice)), sql);
    }
    let say = column.say();
    let value = show(value, 50, dice);
    if dice.chance(60) {
        Filter::new(Place::Whose, format!("whose {say} is {value}"), sql)
    } else {
        Filter::new(Place::After, format!("with the {say} {value}"), sql)
    }
}

/// Rows whose text column differs from `value`.
pub(super) fn differs(table: &TableSpec, column: &ColumnSpec, value: &str, dice: &mut Dice) -> Filter {
    let sql = format!("{} <> '{value}'", column_ref(table, column));
    if dice.chance(60)
        && let Some(pattern) = dice.pick(&column.is)
    {
        let rest = format!("not {}", pattern.replace("{}", &show(value, 15, dice)));
        return Filter::that(table, "are", "is", &rest, sql);
    }
    let say = column.say();
    let value = show(value, 50, dice);
    if dice.chance(50) {
        Filter::new(Place::Whose, format!("whose {say} is not {value}"), sql)
    } else {
        Filter::new(
            Place::After,
            format!("with {} other than {value}", with_article(&say)),
            sql,
        )
    }
}

/// Rows whose text column is one of, or none of, several values.
pub(super) fn one_of(
    table: &TableSpec,
    column: &ColumnSpec,
    values: &[String],
    negated: bool,
    dice: &mut Dice,
) -> Filter {
    let quoted: Vec<String> = values.iter().map(|value| format!("'{value}'")).collect();
    let not = if negated { "NOT " } else { "" };
    let sql = format!("{} {not}IN ({})", column_ref(table, column), quoted.join(", "));
    let shown = if dice.chance(35) { quoted } else { values.to_vec() };
    let (last, first) = shown
        .split_last()
        .map_or((String::new(), String::new()), |(last, first)| {
            (last.clone(), first.join(", "))
        });
    let say = column.say();
    let either = format!("{first} or {last}");
    let patterns: Vec<&String> = column
        .is
        .iter()
        .filter(|pattern| pattern.ends_with("{}"))
        .collect();
    if negated {
        return match dice.pick(&patterns) {
            Some(pattern) if dice.chance(50) => Filter::that(
                table,
                "are",
                "is",
                &format!("not {}", pattern.replace("{}", &either)),
                sql,
            ),
            _ if values.len() == 2 => Filter::new(
                Place::Whose,
                format!("whose {say} is neither {first} nor {last}"),
                sql,
            ),
            _ => Filter::new(Place::Whose, format!("whose {say} is not {either}"), sql),
        };
    }
    match dice.pick(&patterns) {
        Some(pattern) if dice.chance(55) => {
            // "from either Norway or Chile", but not "in the category either cake or bread".
            let after_preposition = pattern.split(' ').count() == 2;
            let either = if after_preposition && values.len() == 2 && dice.chance(40) {
                format!("either {either}")
            } else {
                either
            };
            Filter::new(Place::After, pattern.replace("{}", &either), sql)
        }
        _ if dice.chance(50) => Filter::new(Place::Whose, format!("whose {say} is {either}"), sql),
        _ => {
            let list = format!("{first} and {last}");
            Filter::new(Place::Whose, format!("whose {say} is one of {list}"), sql)
        }
    }
}

/// Rows whose text column begins with, ends with or contains a text. The second part is the same condition
/// with regard to capitals, by which the generator drops questions that capitals would make ambiguous.
pub(super) fn contains(
    table: &TableSpec,
    column: &ColumnSpec,
    kind: usize,
    part: &str,
    dice: &mut Dice,
) -> (Filter, String) {
    let (words, like, glob): (&[&str], String, String) = match kind {
        0 => (
            &["starts with", "begins with"],
            format!("{part}%"),
            format!("{part}*"),
        ),
        1 => (&["ends with", "ends in"], format!("%{part}"), format!("*{part}")),
        _ => (
            &["contains", "includes"],
            format!("%{part}%"),
            format!("*{part}*"),
        ),
    };
    let reference = column_ref(table, column);
    let verb = dice.word(words);
    let thing = if kind == 2 {
        dice.word(&["", "the text "])
    } else {
        ""
    };
    let say = column.say();
    let (place, text) = if dice.chance(65) {
        (Place::Whose, format!("whose {say} {verb} {thing}'{part}'"))
    } else {
        (
            Place::After,
            format!("with {} that {verb} {thing}'{part}'", with_article(&say)),
        )
    };
    (
        Filter::new(place, text, format!("{reference} LIKE '{like}'")),
        format!("{reference} GLOB '{glob}'"),
    )
}

/// Comparison operators of SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Equal,
    More,
    Less,
    AtLeast,
    AtMost,
}

impl Op {
    pub(super) fn sql(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::More => ">",
            Self::Less => "<",
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
        }
    }

    /// "more than", "at least": before a quantity; `fewer` for things that are counted.
    pub(super) fn amount(self, fewer: bool, dice: &mut Dice) -> &'static str {
        match self {
            Self::Equal => "exactly",
            Self::More => dice.word(&["more than", "more than", "over"]),
            Self::Less if fewer => "fewer than",
            Self::Less => dice.word(&["less than", "less than", "under"]),
            Self::AtLeast => "at least",
            Self::AtMost => dice.word(&["at most", "no more than"]),
        }
    }
}

/// Rows whose number, year or date compares with `value`.
pub(super) fn compares(
    table: &TableSpec,
    column: &ColumnSpec,
    op: Op,
    value: &Value,
    dice: &mut Dice,
) -> Filter {
    let shown = bare(value);
    let literal = if matches!(value, Value::Text(_)) {
        format!("'{shown}'")
    } else {
        shown.clone()
    };
    let sql = format!("{} {} {literal}", column_ref(table, column), op.sql());
    let say = column.say();
    let kind = table.kind(column);
    if kind != Kind::Number {
        let on = if kind == Kind::Date { "on" } else { "in" };
        let when = match op {
            Op::Equal => format!("{on} {shown}"),
            Op::More => format!("after {shown}"),
            Op::Less => format!("before {shown}"),
            Op::AtLeast => format!("{on} {shown} or later"),
            Op::AtMost => format!("{on} {shown} or earlier"),
        };
        return match &column.verb {
            Some(verb) if dice.chance(75) => Filter::new(Place::After, format!("{verb} {when}"), sql),
            _ => {
                let when = match op {
                    Op::Equal => shown,
                    Op::AtLeast => format!("{shown} or later"),
                    Op::AtMost => format!("{shown} or earlier"),
                    Op::More | Op::Less => when,
                };
                if dice.chance(60) {
                    Filter::new(Place::Whose, format!("whose {say} is {when}"), sql)
                } else {
                    Filter::new(
                        Place::After,
                        format!("with {} of {when}", with_article(&say))
                            .replace("of after", "after")
                            .replace("of before", "before"),
                        sql,
                    )
                }
            }
        };
    }
    if let Some(things) = &column.things {
        let amount = op.amount(true, dice);
        return if dice.chance(70) {
            Filter::new(Place::After, format!("with {amount} {shown} {things}"), sql)
        } else {
            Filter::that(table, "have", "has", &format!("{amount} {shown} {things}"), sql)
        };
    }
    let quantity = column
        .unit
        .as_ref()
        .map_or_else(|| shown.clone(), |unit| format!("{shown} {unit}"));
    let comparative = match op {
        Op::More => column.more.as_ref(),
        Op::Less => column.less.as_ref(),
        _ => None,
    };
    if let Some(comparative) = comparative
        && dice.chance(50)
    {
        return Filter::new(Place::After, format!("{comparative} {quantity}"), sql);
    }
    if let Some(verb) = &column.verb
        && dice.chance(55)
    {
        return Filter::new(
            Place::After,
            format!("{verb} {} {quantity}", op.amount(false, dice)),
            sql,
        );
    }
    let amount = match op {
        Op::Equal => "",
        Op::More => dice.word(&["above ", "greater than ", "over "]),
        Op::Less => dice.word(&["below ", "less than ", "under "]),
        Op::AtLeast => "at least ",
        Op::AtMost => "at most ",
    };
    if dice.chance(50) {
        Filter::new(Place::Whose, format!("whose {say} is {amount}{quantity}"), sql)
    } else {
        let of = if matches!(op, Op::More | Op::Less) {
            ""
        } else {
            "of "
        };
        Filter::new(
            Place::After,
            format!("with {} {of}{amount}{quantity}", with_article(&say)),
            sql,
        )
    }
}

/// Rows whose number, year or date lies between two values.
pub(super) fn between(
    table: &TableSpec,
    column: &ColumnSpec,
    low: &Value,
    high: &Value,
    dice: &mut Dice,
) -> Filter {
    let quote = |value: &Value| {
        if matches!(value, Value::Text(_)) {
            format!("'{}'", bare(value))
        } else {
            bare(value)
        }
    };
    let sql = format!(
        "{} BETWEEN {} AND {}",
        column_ref(table, column),
        quote(low),
        quote(high)
    );
    let range = format!("between {} and {}", bare(low), bare(high));
    let say = column.say();
    if let Some(things) = &column.things {
        return Filter::new(Place::After, format!("with {range} {things}"), sql);
    }
    let range = column
        .unit
        .as_ref()
        .map_or_else(|| range.clone(), |unit| format!("{range} {unit}"));
    match &column.verb {
        Some(verb) if dice.chance(60) => Filter::new(Place::After, format!("{verb} {range}"), sql),
        _ if dice.chance(50) => Filter::new(Place::Whose, format!("whose {say} is {range}"), sql),
        _ => Filter::new(Place::After, format!("with {} {range}", with_article(&say)), sql),
    }
}

/// Rows whose column has no value, or has one.
pub(super) fn is_null(table: &TableSpec, column: &ColumnSpec, null: bool, dice: &mut Dice) -> Filter {
    let sql = format!(
        "{} IS {}",
        column_ref(table, column),
        if null { "NULL" } else { "NOT NULL" }
    );
    let phrase = if null { &column.blank } else { &column.filled };
    let say = column.say();
    match phrase {
        Some(phrase) if !phrase.is_empty() && dice.chance(60) => {
            Filter::new(Place::After, phrase.clone(), sql)
        }
        _ if null && dice.chance(50) => {
            Filter::new(Place::After, format!("without {}", with_article(&say)), sql)
        }
        _ if null => Filter::that(table, "have", "has", &format!("no {say}"), sql),
        _ => Filter::that(table, "have", "has", &with_article(&say), sql),
    }
}

/// A superlative: English that picks out the largest or smallest, and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Superlative {
    /// [`Place::Before`] or [`Place::After`] the noun.
    pub(super) place: Place,
    /// "most expensive", "with the highest price".
    pub(super) text: String,
    /// How a list that starts with it is said to be sorted: "from highest to lowest price".
    pub(super) order: String,
}

/// A way to speak of the rows with the largest (`max`) or smallest values of a column.
pub(super) fn superlative(table: &TableSpec, column: &ColumnSpec, max: bool, dice: &mut Dice) -> Superlative {
    let say = column.say();
    let timed = table.kind(column) != Kind::Number;
    let (top, bottom) = if timed {
        ("latest", "earliest")
    } else {
        ("highest", "lowest")
    };
    let (this, other) = if max { (top, bottom) } else { (bottom, top) };
    // After an adjective ("the 3 oldest books") the order names the column, which else was just named.
    let named_order = match dice.below(3) {
        0 => format!("{this} {say} first"),
        1 => format!("from {this} to {other} {say}"),
        _ => format!("starting with the {this} {say}"),
    };
    let order = match dice.below(3) {
        0 => format!("{this} first"),
        1 => format!("from {this} to {other}"),
        _ => format!("starting with the {this}"),
    };
    let adjective = if max { &column.max } else { &column.min };
    let extra = match (&column.things, &column.verb) {
        (Some(things), _) => Some(format!(
            "with the {} {things}",
            if max { "most" } else { "fewest" }
        )),
        (None, Some(verb)) if timed => Some(format!(
            "{verb} {}",
            if max { "most recently" } else { "earliest" }
        )),
        _ => None,
    };
    match (adjective, extra) {
        (Some(adjective), _) if dice.chance(65) => {
            let order = if dice.chance(50) {
                format!("{adjective} first")
            } else {
                named_order
            };
            Superlative {
                place: Place::Before,
                text: adjective.clone(),
                order,
            }
        }
        (_, Some(extra)) if dice.chance(70) => Superlative {
            place: Place::After,
            text: extra,
            order: named_order,
        },
        _ => Superlative {
            place: Place::After,
            text: format!("with the {this} {say}"),
            order,
        },
    }
}

/// How a whole list is said to be sorted by a column.
pub(super) fn sorted(table: &TableSpec, column: &ColumnSpec, descending: bool, dice: &mut Dice) -> String {
    let say = column.say();
    let kind = table.kind(column);
    let direction = if descending { "descending" } else { "ascending" };
    if matches!(kind, Kind::Name | Kind::Category) {
        return match (descending, dice.below(3)) {
            (false, 0) => format!("in alphabetical order of {say}"),
            (false, 1) => format!("sorted alphabetically by {say}"),
            (true, 0) => format!("in reverse alphabetical order of {say}"),
            (true, _) => format!("sorted by {say} from Z to A"),
            (false, _) => format!("sorted by {say} from A to Z"),
        };
    }
    let (low, high) = if kind == Kind::Number {
        ("lowest", "highest")
    } else {
        ("earliest", "latest")
    };
    let (first, last) = if descending { (high, low) } else { (low, high) };
    let adjectives = if descending {
        (&column.max, &column.min)
    } else {
        (&column.min, &column.max)
    };
    match (adjectives, dice.below(6)) {
        ((Some(first), Some(last)), 0 | 1) => format!("from the {first} to the {last}"),
        (_, 0 | 2) => format!("sorted by {say} from {first} to {last}"),
        (_, 1 | 3) => format!("ordered by {say}, {first} first"),
        (_, 4) => format!("in {direction} order of {say}"),
        _ => format!("sorted by {say} in {direction} order"),
    }
}
