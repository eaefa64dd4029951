//! Puts the parts of a question together: SQL from parts that name their columns as `{table.column}`, and the
//! noun phrase that says which rows are meant.

use super::dice::Dice;
use super::domain::{Domain, TableSpec};
use super::phrase::{Filter, Place};

/// A question before it is checked, with queries that show whether it is a good one.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The question in English.
    pub(super) question: String,
    /// The gold query.
    pub(super) sql: String,
    /// Simpler queries whose result has to differ, or a part of the question would not matter.
    pub(super) must_differ: Vec<String>,
    /// Other readings whose result has to be the same, or the question would be ambiguous.
    pub(super) must_agree: Vec<String>,
}

/// Writes a query: `SELECT what FROM base [JOIN …] [WHERE conditions] [tail]`.
///
/// Every table named in the parts beside `base` is joined by the reference that `base` has to it, and then all
/// columns carry their table; without a join none does. `None` if `base` has no such reference.
pub(super) fn render(
    domain: &Domain,
    base: &TableSpec,
    what: &str,
    conditions: &str,
    tail: &str,
) -> Option<String> {
    let parts = [what, conditions, tail];
    let mut joins = Vec::new();
    for table in &domain.tables {
        let mark = format!("{{{}.", table.name);
        if table.name == base.name || !parts.iter().any(|part| part.contains(&mark)) {
            continue;
        }
        let reference = base.reference_to(&table.name)?;
        joins.push(format!(
            "JOIN {0} ON {1}.{2} = {0}.id",
            table.name, base.name, reference.name
        ));
    }
    let mut clauses = vec![format!("SELECT {what} FROM {}", base.name)];
    clauses.extend(joins.iter().cloned());
    if !conditions.is_empty() {
        clauses.push(format!("WHERE {conditions}"));
    }
    if !tail.is_empty() {
        clauses.push(tail.to_owned());
    }
    let sql = clauses.join(" ");
    let joined = !joins.is_empty();
    let mut out = String::new();
    let mut rest = sql.as_str();
    while let Some((before, tail)) = rest.split_once('{') {
        let (name, after) = tail.split_once('}')?;
        out += before;
        out += if joined { name } else { name.split_once('.')?.1 };
        rest = after;
    }
    Some(out + rest)
}

/// How two conditions are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Glue {
    And,
    Or,
}

/// The English for rows that fulfil one or two conditions, after the noun, and the word before it.
///
/// `None` where the two cannot be said together well.
pub(super) fn noun_phrase(table: &TableSpec, many: bool, filters: &[&Filter], glue: Glue) -> Option<String> {
    let noun = if many { table.plural() } else { table.noun() };
    let text = |filter: &Filter| {
        if many {
            filter.many.clone()
        } else {
            filter.one.clone()
        }
    };
    Some(match (filters, glue) {
        ([], _) => noun,
        ([only], _) if only.place == Place::Before => format!("{} {noun}", only.many),
        ([only], _) => format!("{noun} {}", text(only)),
        ([first, second], Glue::And) if first.place == Place::Before && second.place != Place::Before => {
            format!("{} {noun} {}", first.many, text(second))
        }
        ([first, second], Glue::And) => match (first.place, second.place) {
            (Place::After, Place::Whose | Place::That) => format!("{noun} {} {}", text(first), text(second)),
            (a, b) if a == b && a != Place::Before => format!("{noun} {} and {}", text(first), text(second)),
            _ => return None,
        },
        ([first, second], Glue::Or) => match (first.place, second.place) {
            (a, b) if a == b && a != Place::Before => format!("{noun} {} or {}", text(first), text(second)),
            _ => return None,
        },
        _ => return None,
    })
}

/// Fills `{key}` marks of a template.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |text, (key, value)| {
        text.replace(&format!("{{{key}}}"), value)
    })
}

/// What a list shows: in SQL, and in English for one and for several rows.
#[derive(Debug, Clone)]
pub(super) struct Output {
    /// `{book.title}` or `{book.title}, {book.price}`.
    pub(super) sql: String,
    /// "title", "title and price".
    pub(super) one: String,
    /// "titles", "titles and prices".
    pub(super) many: String,
}

/// A question that asks to list `output` for the rows of a noun phrase; `order` says how they are sorted.
pub(super) fn ask_list(output: &Output, many: &str, one: &str, order: &str, dice: &mut Dice) -> String {
    let template = dice.word(&[
        "What are the {outs} of the {many}{order}?",
        "What are the {outs} of all {many}{order}?",
        "List the {outs} of all {many}{order}.",
        "List the {outs} of the {many}{order}.",
        "Show the {outs} of the {many}{order}.",
        "Show me the {outs} of {many}{order}.",
        "Give the {outs} of all {many}{order}.",
        "Give me the {outs} of the {many}{order}.",
        "Find the {outs} of {many}{order}.",
        "Find the {outs} of all {many}{order}.",
        "I need the {outs} of the {many}{order}.",
        "Tell me the {outs} of {many}{order}.",
        "Return the {outs} of all {many}{order}.",
        "Can you list the {outs} of the {many}{order}?",
        "For every {one}, show the {out}{order}.",
        "Show the {out} of each {one}{order}.",
        "List the {out} of every {one}{order}.",
        "Get the {out} of each {one}{order}.",
        "Which {many} are there? Give the {outs}{order}.",
        "Which {many} do we have? List the {outs}{order}.",
        "I would like to see the {outs} of all {many}{order}.",
        "Please list the {outs} of the {many}{order}.",
        "Could you show the {outs} of all {many}{order}?",
    ]);
    let order = if order.is_empty() {
        String::new()
    } else {
        format!(", {order}")
    };
    fill(
        template,
        &[
            ("outs", &output.many),
            ("out", &output.one),
            ("many", many),
            ("one", one),
            ("order", &order),
        ],
    )
}

/// A question that asks how many rows a noun phrase has.
pub(super) fn ask_count(many: &str, dice: &mut Dice) -> String {
    // "How many books have …?" beside "How many books that have … are there?"
    let relative = [
        " that have ",
        " that are ",
        " that do ",
        " who have ",
        " who are ",
        " who do ",
    ];
    let mut found = relative.iter().filter(|words| many.contains(**words));
    if let (Some(words), None) = (found.next(), found.next())
        && !many.contains(" and ")
        && !many.contains(" or ")
        && dice.chance(65)
    {
        let verb = words.trim_start().split_once(' ').map_or("", |(_, verb)| verb);
        return format!("How many {}?", many.replacen(words, &format!(" {verb}"), 1));
    }
    let template = dice.word(&[
        "How many {many} are there?",
        "How many {many} are there?",
        "How many {many} do we have?",
        "Count the {many}.",
        "Count all {many}.",
        "What is the number of {many}?",
        "Give the number of {many}.",
        "Find the number of {many}.",
        "Tell me how many {many} there are.",
        "I want to know how many {many} there are.",
        "What is the total number of {many}?",
    ]);
    fill(template, &[("many", many)])
}
