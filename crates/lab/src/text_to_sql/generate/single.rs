//! Questions about one table that pick rows: lists, counts, look-ups, and conditions of every kind.

use super::dice::Dice;
use super::domain::{ColumnSpec, Domain, Kind, TableSpec};
use super::phrase::{
    Filter, Op, between, cells, column_ref, compares, contains, differs, equals, is_null, one_of, show, texts,
};
use super::query::{Draft, Glue, Output, ask_count, ask_list, fill, noun_phrase, render};
use crate::sql::Value;
use crate::text_to_sql::{Schema, Table};

/// A domain with its rows: what questions are made from.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) domain: &'a Domain,
    pub(super) schema: &'a Schema,
}

impl<'a> World<'a> {
    /// The rows of a table.
    pub(super) fn rows(self, table: &TableSpec) -> &'a Table {
        let found = self.schema.tables.iter().find(|other| other.name == table.name);
        // Schema and domain list the same tables: the one was made from the other.
        found.unwrap_or(&self.schema.tables[0])
    }

    /// A random table.
    pub(super) fn table(self, dice: &mut Dice) -> Option<&'a TableSpec> {
        dice.pick(&self.domain.tables)
    }

    /// A query without joins or with those that its parts need; see [`render`].
    pub(super) fn render(self, base: &TableSpec, what: &str, conditions: &str, tail: &str) -> Option<String> {
        render(self.domain, base, what, conditions, tail)
    }
}

/// A distinct pair of values of a column, chosen at random.
fn two_values(table: &Table, column: &ColumnSpec, dice: &mut Dice) -> Option<(Value, Value)> {
    let values = cells(table, &column.name);
    let (a, b) = (dice.pick(&values)?.clone(), dice.pick(&values)?.clone());
    (a != b).then_some((a, b))
}

/// A value between those of the column, or one of them: thresholds of both kinds occur.
pub(super) fn threshold(table: &Table, column: &ColumnSpec, exact: bool, dice: &mut Dice) -> Option<Value> {
    let (a, b) = two_values(table, column, dice)?;
    if exact || dice.chance(35) {
        return Some(a);
    }
    Some(match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => {
            let middle = i64::midpoint(a, b);
            let rounded = if middle >= 200 && !(1800..2100).contains(&middle) {
                middle / 10 * 10
            } else {
                middle
            };
            Value::Integer(rounded)
        }
        (Value::Real(a), Value::Real(b)) => {
            let middle = f64::midpoint(a, b);
            let rounded = if middle >= 10.0 {
                middle.round()
            } else {
                (middle * 2.0).round() / 2.0
            };
            Value::Real(rounded)
        }
        (a, _) => a,
    })
}

/// A condition on a number, year or date.
pub(super) fn number_filter(
    world: World,
    table: &TableSpec,
    column: &ColumnSpec,
    dice: &mut Dice,
) -> Option<Filter> {
    let op = match dice.below(20) {
        0..=6 => Op::More,
        7..=12 => Op::Less,
        13..=15 => Op::AtLeast,
        16..=17 => Op::AtMost,
        _ => Op::Equal,
    };
    let exact = matches!(op, Op::Equal | Op::AtLeast | Op::AtMost);
    let value = threshold(world.rows(table), column, exact, dice)?;
    Some(compares(table, column, op, &value, dice))
}

/// Any condition on one column, except those that a category of their own is made of.
pub(super) fn any_filter(world: World, table: &TableSpec, dice: &mut Dice) -> Option<Filter> {
    let columns = table.of_kind(&[Kind::Category, Kind::Number, Kind::Year, Kind::Date]);
    let column = *dice.pick(&columns)?;
    if table.kind(column) != Kind::Category {
        return number_filter(world, table, column, dice);
    }
    let values = texts(world.rows(table), &column.name);
    let value = dice.pick(&values)?;
    Some(if dice.chance(78) {
        equals(table, column, value, dice)
    } else {
        differs(table, column, value, dice)
    })
}

/// What a list of rows of the table shows: its name, sometimes with another column.
pub(super) fn output(table: &TableSpec, two: bool, dice: &mut Dice) -> Option<Output> {
    let name = table.name_column();
    let others = table.of_kind(&[Kind::Category, Kind::Number, Kind::Year, Kind::Date]);
    let first = match name {
        Some(name) => name,
        None => *dice.pick(&others)?,
    };
    let single = |column: &ColumnSpec| Output {
        sql: column_ref(table, column),
        one: column.say(),
        many: column.says(),
    };
    if !two && name.is_some() {
        return Some(single(first));
    }
    let second = *dice.pick(&others)?;
    if second.name == first.name {
        return None;
    }
    // "level and number of students": the other way round it reads as one long name.
    let long = |column: &ColumnSpec| column.say().contains(' ');
    let (first, second) = if name.is_none() && long(first) {
        (second, first)
    } else {
        (first, second)
    };
    if long(first) && long(second) {
        return None;
    }
    let (first, second) = (single(first), single(second));
    Some(Output {
        sql: format!("{}, {}", first.sql, second.sql),
        one: format!("{} and {}", first.one, second.one),
        many: format!("{} and {}", first.many, second.many),
    })
}

/// Whether a list would show a column whose value the question has just given; nobody asks for that.
pub(super) fn shows_what_is_given(output: &Output, filters: &[&Filter]) -> bool {
    output.sql.split(", ").any(|column| {
        let given = format!("{column} = ");
        filters.iter().any(|filter| filter.sql.starts_with(&given))
    })
}

/// A list or a count of the rows that fulfil the conditions.
pub(super) fn list_or_count(
    world: World,
    table: &TableSpec,
    filters: &[&Filter],
    glue: Glue,
    count_percent: usize,
    dice: &mut Dice,
) -> Option<Draft> {
    let word = if glue == Glue::And { " AND " } else { " OR " };
    let conditions = |filters: &[&Filter]| {
        filters
            .iter()
            .map(|f| f.sql.as_str())
            .collect::<Vec<_>>()
            .join(word)
    };
    let many = noun_phrase(table, true, filters, glue)?;
    let one = noun_phrase(table, false, filters, glue)?;
    let (what, question) = if dice.chance(count_percent) {
        ("COUNT(*)".to_owned(), ask_count(&many, dice))
    } else {
        let two = dice.chance(18);
        let output = output(table, two, dice)?;
        if shows_what_is_given(&output, filters) {
            return None;
        }
        let question = ask_list(&output, &many, &one, "", dice);
        (output.sql, question)
    };
    // Each condition has to matter: the query without it returns something else.
    let mut must_differ = Vec::new();
    for left_out in 0..filters.len() {
        let mut rest = filters.to_vec();
        rest.remove(left_out);
        must_differ.push(world.render(table, &what, &conditions(&rest), "")?);
    }
    let sql = world.render(table, &what, &conditions(filters), "")?;
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// Lists with one condition or none, and look-ups of a named row.
pub(super) fn list(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    match dice.below(100) {
        0..=24 => lookup(world, table, dice),
        25..=32 => {
            let two = dice.chance(50);
            let output = output(table, two, dice)?;
            let (many, one) = (table.plural(), table.noun());
            let question = ask_list(&output, &many, &one, "", dice);
            let sql = world.render(table, &output.sql, "", "")?;
            Some(Draft {
                question,
                sql,
                must_differ: Vec::new(),
                must_agree: Vec::new(),
            })
        }
        _ => {
            let filter = any_filter(world, table, dice)?;
            list_or_count(world, table, &[&filter], Glue::And, 0, dice)
        }
    }
}

/// "What is the price of 'Winter Tea'?"
fn lookup(world: World, table: &TableSpec, dice: &mut Dice) -> Option<Draft> {
    let name = table.name_column()?;
    let column = *dice.pick(&table.of_kind(&[Kind::Category, Kind::Number, Kind::Year, Kind::Date]))?;
    let rows = texts(world.rows(table), &name.name);
    let value = dice.pick(&rows)?;
    let quoted = if table.is_person() {
        value.clone()
    } else {
        show(value, 60, dice)
    };
    let (say, noun, name_say) = (column.say(), table.noun(), name.say());
    let template = dice.word(&[
        "What is the {say} of the {noun} {value}?",
        "What is the {say} of the {noun} {value}?",
        "What is the {say} of {value}?",
        "Give the {say} of the {noun} {value}.",
        "Find the {say} of the {noun} with the {name} {value}.",
        "Tell me the {say} of {value}.",
        "What {say} does the {noun} {value} have?",
        "Show the {say} of the {noun} whose {name} is {value}.",
    ]);
    let question = fill(
        template,
        &[
            ("say", &say),
            ("noun", &noun),
            ("value", &quoted),
            ("name", &name_say),
        ],
    );
    let condition = format!("{} = '{value}'", column_ref(table, name));
    let sql = world.render(table, &column_ref(table, column), &condition, "")?;
    Some(Draft {
        question,
        sql,
        must_differ: Vec::new(),
        must_agree: Vec::new(),
    })
}

/// Counts with one condition or none.
pub(super) fn count(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    if dice.chance(6) {
        let question = ask_count(&table.plural(), dice);
        let sql = world.render(table, "COUNT(*)", "", "")?;
        return Some(Draft {
            question,
            sql,
            must_differ: Vec::new(),
            must_agree: Vec::new(),
        });
    }
    let filter = any_filter(world, table, dice)?;
    list_or_count(world, table, &[&filter], Glue::And, 100, dice)
}

/// Lists and counts with two conditions on different columns.
pub(super) fn two_filters(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let (first, second) = (any_filter(world, table, dice)?, any_filter(world, table, dice)?);
    let column = |filter: &Filter| filter.sql.split('}').next().map(str::to_owned);
    if column(&first) == column(&second) {
        return None;
    }
    let glue = if dice.chance(70) { Glue::And } else { Glue::Or };
    list_or_count(world, table, &[&first, &second], glue, 35, dice)
}

/// Conditions with BETWEEN.
pub(super) fn between_values(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let column = *dice.pick(&table.of_kind(&[Kind::Number, Kind::Year, Kind::Date]))?;
    let rows = world.rows(table);
    let (a, b) = (
        threshold(rows, column, false, dice)?,
        threshold(rows, column, false, dice)?,
    );
    let smaller = match (&a, &b) {
        (Value::Integer(a), Value::Integer(b)) => a < b,
        (Value::Real(a), Value::Real(b)) => a < b,
        (Value::Text(a), Value::Text(b)) => a < b,
        _ => return None,
    };
    let (low, high) = if smaller { (a, b) } else { (b, a) };
    let filter = between(table, column, &low, &high, dice);
    let mut draft = list_or_count(world, table, &[&filter], Glue::And, 35, dice)?;
    // Nobody can tell from "between" whether the bounds belong to it, so they must not matter.
    let reference = column_ref(table, column).replace(['{', '}'], "");
    let bare = reference.split_once('.').map_or("", |(_, name)| name);
    let (_, range) = draft.sql.split_once(" WHERE ")?;
    let (low, high) = range.split_once(" BETWEEN ")?.1.split_once(" AND ")?;
    draft.must_agree.push(
        draft
            .sql
            .replace(range, &format!("{bare} > {low} AND {bare} < {high}")),
    );
    Some(draft)
}

/// Conditions with IN and NOT IN.
pub(super) fn in_values(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let column = *dice.pick(&table.of_kind(&[Kind::Category]))?;
    let mut values = texts(world.rows(table), &column.name);
    values.sort();
    values.dedup();
    dice.shuffle(&mut values);
    let wanted = if dice.chance(60) { 2 } else { 3 };
    if values.len() <= wanted {
        return None;
    }
    values.truncate(wanted);
    let negated = dice.chance(25);
    let filter = one_of(table, column, &values, negated, dice);
    list_or_count(world, table, &[&filter], Glue::And, 35, dice)
}

/// Conditions with LIKE.
pub(super) fn like(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let column = *dice.pick(&table.of_kind(&[Kind::Name, Kind::Name, Kind::Category]))?;
    let values = texts(world.rows(table), &column.name);
    let value = dice.pick(&values)?;
    let letters: Vec<char> = value.chars().collect();
    let words: Vec<&str> = value.split(' ').collect();
    let kind = dice.below(3);
    let part: String = match kind {
        0 if words.len() > 1 && dice.chance(40) => words[0].to_owned(),
        0 => letters[..=dice.below(2).min(letters.len() - 1)].iter().collect(),
        1 if words.len() > 1 && dice.chance(50) => words[words.len() - 1].to_owned(),
        1 => letters[letters.len().saturating_sub(1 + dice.below(3))..]
            .iter()
            .collect(),
        _ if words.len() > 1 && dice.chance(60) => (*dice.pick(&words)?).to_owned(),
        _ => {
            let start = dice.below(letters.len().saturating_sub(3).max(1));
            letters[start..(start + 3).min(letters.len())].iter().collect()
        }
    };
    if part.trim() != part || part.is_empty() || part == *value {
        return None;
    }
    let (filter, with_capitals) = contains(table, column, kind, &part, dice);
    let mut draft = list_or_count(world, table, &[&filter], Glue::And, 35, dice)?;
    let conditions = with_capitals
        .replace(&format!("{{{}.", table.name), "")
        .replace('}', "");
    draft.must_agree.push(format!(
        "{} WHERE {conditions}",
        draft.sql.split(" WHERE ").next()?
    ));
    Some(draft)
}

/// Conditions with IS NULL and IS NOT NULL.
pub(super) fn null(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let blank: Vec<&ColumnSpec> = table
        .columns
        .iter()
        .filter(|column| column.blank.is_some())
        .collect();
    let column = *dice.pick(&blank)?;
    let without = dice.chance(60);
    let filter = is_null(table, column, without, dice);
    list_or_count(world, table, &[&filter], Glue::And, 40, dice)
}
