//! Questions about one table that compare its rows: orders, superlatives, and rows set against the average or
//! against another row.

use super::dice::Dice;
use super::domain::{Kind, TableSpec};
use super::phrase::{Filter, Place, column_ref, show, sorted, superlative, texts, with_article};
use super::query::{Draft, Glue, Output, ask_list, fill, noun_phrase};
use super::single::{World, any_filter, list_or_count, output, shows_what_is_given};

/// Whole lists in an order.
pub(super) fn order(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let kinds = [Kind::Name, Kind::Number, Kind::Number, Kind::Year, Kind::Date];
    let column = *dice.pick(&table.of_kind(&kinds))?;
    let descending = dice.chance(if table.kind(column) == Kind::Name { 20 } else { 55 });
    let filter = if dice.chance(45) {
        Some(any_filter(world, table, dice)?)
    } else {
        None
    };
    let filters: Vec<&Filter> = filter.iter().collect();
    let two = dice.chance(25);
    let output = output(table, two, dice)?;
    let (many, one) = (
        noun_phrase(table, true, &filters, Glue::And)?,
        noun_phrase(table, false, &filters, Glue::And)?,
    );
    if shows_what_is_given(&output, &filters) {
        return None;
    }
    let question = ask_list(
        &output,
        &many,
        &one,
        &sorted(table, column, descending, dice),
        dice,
    );
    let condition = filter.as_ref().map_or("", |filter| filter.sql.as_str());
    let tail = format!(
        "ORDER BY {} {}",
        column_ref(table, column),
        if descending { "DESC" } else { "ASC" }
    );
    let sql = world.render(table, &output.sql, condition, &tail)?;
    let mut must_differ = vec![world.render(table, &output.sql, condition, "")?];
    if filter.is_some() {
        must_differ.push(world.render(table, &output.sql, "", &tail)?);
    }
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// The first rows in an order.
pub(super) fn top(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let filter = if dice.chance(35) {
        Some(any_filter(world, table, dice)?)
    } else {
        None
    };
    top_over(world, table, filter.as_ref(), dice)
}

/// The first rows, in an order, of those that fulfil a condition.
pub(super) fn top_over(
    world: World,
    table: &TableSpec,
    filter: Option<&Filter>,
    dice: &mut Dice,
) -> Option<Draft> {
    let column = *dice.pick(&table.of_kind(&[Kind::Number, Kind::Number, Kind::Year, Kind::Date]))?;
    let reference = column_ref(table, column);
    if filter.is_some_and(|filter| filter.sql.starts_with(&reference)) {
        return None;
    }
    let max = dice.chance(60);
    let limit = if dice.chance(60) { 1 } else { 2 + dice.below(4) };
    let best = superlative(table, column, max, dice);
    // "the books with more than 300 pages with the lowest price" is one "with" too many.
    if best.text.starts_with("with ") && filter.is_some_and(|filter| filter.many.starts_with("with ")) {
        return None;
    }
    let two = dice.chance(12);
    let output = output(table, two, dice)?;
    let question = if limit == 1 {
        ask_best(table, filter, &best.text, best.place, &output, dice)?
    } else {
        let count = limit.to_string();
        let (noun, plain) = (
            table.plural(),
            noun_phrase(table, true, filter.as_slice(), Glue::And)?,
        );
        // "the 3 cheapest Fantasy books", "the 3 Fantasy books with the lowest price"
        let many = match (best.place, filter) {
            (Place::Before, Some(filter)) if filter.place == Place::Before => {
                format!("{count} {} {} {noun}", best.text, filter.many)
            }
            (Place::Before, Some(filter)) => format!("{count} {} {noun} {}", best.text, filter.many),
            (Place::Before, None) => format!("{count} {} {noun}", best.text),
            (_, Some(filter)) if matches!(filter.place, Place::Whose | Place::That) => return None,
            _ => format!("{count} {plain} {}", best.text),
        };
        let template = dice.word(&[
            "List the {outs} of the {many}, {order}.",
            "What are the {outs} of the {many}, {order}?",
            "Show the {outs} of the {many}, {order}.",
            "Give me the {outs} of the {many}, {order}.",
            "Find the {outs} of the {many}, {order}.",
        ]);
        fill(
            template,
            &[("outs", &output.many), ("many", &many), ("order", &best.order)],
        )
    };
    let condition = filter.map_or("", |filter| filter.sql.as_str());
    let direction = |max: bool| if max { "DESC" } else { "ASC" };
    let tail = |max: bool, limit: usize| format!("ORDER BY {reference} {} LIMIT {limit}", direction(max));
    let sql = world.render(table, &output.sql, condition, &tail(max, limit))?;
    let mut must_differ = vec![
        world.render(table, &output.sql, condition, &tail(!max, limit))?,
        world.render(table, &output.sql, condition, &tail(max, limit + 1))?,
    ];
    if filter.is_some() {
        must_differ.push(world.render(table, &output.sql, "", &tail(max, limit))?);
    }
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// A question for the one row with a superlative.
fn ask_best(
    table: &TableSpec,
    filter: Option<&Filter>,
    text: &str,
    place: Place,
    output: &Output,
    dice: &mut Dice,
) -> Option<String> {
    let noun = table.noun();
    let plain = noun_phrase(table, false, filter.as_slice(), Glue::And)?;
    let row = match (place, filter) {
        (Place::Before, None) => format!("{text} {noun}"),
        (Place::Before, Some(filter)) if filter.place == Place::Before => {
            format!("{text} {} {noun}", filter.one)
        }
        (Place::Before, Some(filter)) => format!("{text} {noun} {}", filter.one),
        (_, Some(filter)) if matches!(filter.place, Place::Whose | Place::That) => return None,
        _ => format!("{plain} {text}"),
    };
    let has = text.strip_prefix("with ").map(|rest| format!("has {rest}"));
    if let Some(has) = has
        && filter.is_none()
        && dice.chance(40)
    {
        let template = dice.word(&[
            "Which {noun} {has}? Give the {out}.",
            "Give the {out} of the {noun} that {has}.",
        ]);
        let template = template.replace(" that ", &format!(" {} ", table.who()));
        return Some(fill(
            &template,
            &[("noun", &noun), ("has", &has), ("out", &output.one)],
        ));
    }
    let verb = if output.one == output.many || output.sql.contains(", ") {
        "are"
    } else {
        "is"
    };
    let template = dice.word(&[
        "What {is} the {out} of the {row}?",
        "What {is} the {out} of the {row}?",
        "Give the {out} of the {row}.",
        "Find the {out} of the {row}.",
        "Show the {out} of the {row}.",
        "Tell me the {out} of the {row}.",
    ]);
    Some(fill(
        template,
        &[("is", verb), ("out", &output.one), ("row", &row)],
    ))
}

/// Rows above or below the average, or beyond a named row; rows that share a value with a named row.
pub(super) fn subquery(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    match dice.below(10) {
        0..=4 => against_average(world, table, dice),
        5..=7 => against_row(world, table, dice),
        _ => same_as_row(world, table, dice),
    }
}

fn against_average(world: World, table: &TableSpec, dice: &mut Dice) -> Option<Draft> {
    let column = *dice.pick(&table.of_kind(&[Kind::Number]))?;
    let above = dice.chance(65);
    let (say, name) = (column.say(), &column.name);
    let all = table.plural();
    let template = if above {
        dice.word(&[
            "whose {say} is above the average {say}",
            "whose {say} is higher than the average {say} of all {all}",
            "with a {say} above average",
            "with a {say} greater than the average {say}",
        ])
    } else {
        dice.word(&[
            "whose {say} is below the average {say}",
            "whose {say} is lower than the average {say} of all {all}",
            "with a {say} below average",
            "with a {say} less than the average {say}",
        ])
    };
    let phrase = fill(template, &[("say", &say), ("all", &all)]);
    let phrase = phrase.replace(&format!("with a {say}"), &format!("with {}", with_article(&say)));
    let op = if above { ">" } else { "<" };
    let sql = format!(
        "{} {op} (SELECT AVG({name}) FROM {})",
        column_ref(table, column),
        table.name
    );
    let place = if phrase.starts_with("whose") {
        Place::Whose
    } else {
        Place::After
    };
    let filter = Filter {
        place,
        many: phrase.clone(),
        one: phrase,
        sql,
    };
    list_or_count(world, table, &[&filter], Glue::And, 30, dice)
}

fn against_row(world: World, table: &TableSpec, dice: &mut Dice) -> Option<Draft> {
    let name = table.name_column()?;
    let column = *dice.pick(&table.of_kind(&[Kind::Number, Kind::Year, Kind::Date]))?;
    let names = texts(world.rows(table), &name.name);
    let value = dice.pick(&names)?;
    let shown = if table.is_person() {
        value.clone()
    } else {
        show(value, 60, dice)
    };
    let more = dice.chance(65);
    let timed = table.kind(column) != Kind::Number;
    let comparative = if more { &column.more } else { &column.less };
    let say = column.say();
    let phrase = match (comparative, timed) {
        (Some(comparative), _) if dice.chance(60) => format!("{comparative} {shown}"),
        (_, true) => format!(
            "with {} {say} than {shown}",
            if more { "a later" } else { "an earlier" }
        ),
        (_, false) if column.things.is_some() => {
            let things = column.things.as_deref().unwrap_or_default();
            format!(
                "with {} {things} than {shown}",
                if more { "more" } else { "fewer" }
            )
        }
        (_, false) => format!(
            "with a {} {say} than {shown}",
            if more { "higher" } else { "lower" }
        ),
    };
    let op = if more { ">" } else { "<" };
    let sql = format!(
        "{} {op} (SELECT {} FROM {} WHERE {} = '{value}')",
        column_ref(table, column),
        column.name,
        table.name,
        name.name
    );
    let filter = Filter {
        place: Place::After,
        many: phrase.clone(),
        one: phrase,
        sql,
    };
    list_or_count(world, table, &[&filter], Glue::And, 30, dice)
}

fn same_as_row(world: World, table: &TableSpec, dice: &mut Dice) -> Option<Draft> {
    let name = table.name_column()?;
    let column = *dice.pick(&table.of_kind(&[Kind::Category]))?;
    let names = texts(world.rows(table), &name.name);
    let value = dice.pick(&names)?;
    let shown = if table.is_person() {
        value.clone()
    } else {
        show(value, 60, dice)
    };
    let (reference, name_sql) = (column_ref(table, column), column_ref(table, name));
    let phrase = format!("with the same {} as {shown}", column.say());
    let inner = format!(
        "{reference} = (SELECT {} FROM {} WHERE {} = '{value}')",
        column.name, table.name, name.name
    );
    let filter = Filter {
        place: Place::After,
        many: phrase.clone(),
        one: phrase,
        sql: format!("{inner} AND {name_sql} <> '{value}'"),
    };
    let mut draft = list_or_count(world, table, &[&filter], Glue::And, 25, dice)?;
    // "the other books with the same genre as …"
    let many = table.plural();
    let mark = format!("{many} with the same");
    if !draft.question.contains(&mark) {
        return None;
    }
    draft.question = draft.question.replace(&mark, &format!("other {mark}"));
    draft
        .must_differ
        .push(draft.sql.split(" AND ").next()?.to_owned());
    Some(draft)
}
