//! Questions about one table that sum it up: functions over a column, distinct values, groups.

use super::dice::Dice;
use super::domain::{ColumnSpec, Kind, TableSpec};
use super::phrase::{Filter, Op, column_ref, number_text};
use super::query::{Draft, Glue, fill, noun_phrase};
use super::single::{World, any_filter, threshold};
use crate::sql::Value;

/// A function over a column, as English and as SQL.
pub(super) fn function(
    table: &TableSpec,
    column: &ColumnSpec,
    dice: &mut Dice,
) -> Option<(&'static str, String)> {
    let timed = table.kind(column) != Kind::Number;
    let name = match dice.below(10) {
        0..=3 if !timed => "AVG",
        4..=6 if column.sum => "SUM",
        0..=6 if timed || !column.sum => dice.word(&["MIN", "MAX"]),
        7 | 8 => "MAX",
        _ => "MIN",
    };
    let name = ["AVG", "SUM", "MIN", "MAX"]
        .into_iter()
        .find(|other| *other == name)?;
    let words: &[&str] = match (name, timed) {
        ("AVG", _) => &["average", "average", "mean"],
        ("SUM", _) => &["total", "total", "sum of the"],
        ("MAX", true) => &["latest"],
        ("MIN", true) => &["earliest"],
        ("MAX", false) => &["highest", "maximum", "largest"],
        _ => &["lowest", "minimum", "smallest"],
    };
    let word = dice.word(words);
    let say = if word == "sum of the" {
        column.says()
    } else {
        column.say()
    };
    Some((name, format!("{word} {say}")))
}

/// AVG, SUM, MIN and MAX, with a condition or without.
pub(super) fn aggregate(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let filter = if dice.chance(65) {
        Some(any_filter(world, table, dice)?)
    } else {
        None
    };
    aggregate_over(world, table, filter.as_ref(), dice)
}

/// A function over the rows that fulfil a condition.
pub(super) fn aggregate_over(
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
    let (name, english) = function(table, column, dice)?;
    let many = noun_phrase(table, true, filter.as_slice(), Glue::And)?;
    let template = dice.word(&[
        "What is the {f} of the {many}?",
        "What is the {f} of all {many}?",
        "What is the {f} of {many}?",
        "Find the {f} of the {many}.",
        "Give the {f} of all {many}.",
        "Give me the {f} of the {many}.",
        "Tell me the {f} among the {many}.",
        "Show the {f} of all {many}.",
        "Calculate the {f} of the {many}.",
    ]);
    let timed = name == "MIN" || name == "MAX";
    let template = if timed {
        template.replace("Calculate", "Find")
    } else {
        template.replace(" among ", " of ")
    };
    let question = fill(&template, &[("f", &english), ("many", &many)]);
    let condition = filter.map_or("", |filter| filter.sql.as_str());
    let query = |function: &str, condition: &str| {
        world.render(table, &format!("{function}({reference})"), condition, "")
    };
    let mut must_differ = Vec::new();
    if filter.is_some() {
        must_differ.push(query(name, "")?);
    }
    // Over a single row, or over equal ones, all functions agree.
    must_differ.push(query(if name == "MAX" { "MIN" } else { "MAX" }, condition)?);
    Some(Draft {
        question,
        sql: query(name, condition)?,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// DISTINCT values of a column, listed or counted.
pub(super) fn distinct(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let column = *dice.pick(&table.of_kind(&[Kind::Category]))?;
    let filter = if dice.chance(45) {
        Some(any_filter(world, table, dice)?)
    } else {
        None
    };
    let reference = column_ref(table, column);
    if filter
        .as_ref()
        .is_some_and(|filter| filter.sql.starts_with(&reference))
    {
        return None;
    }
    let filters: Vec<&Filter> = filter.iter().collect();
    let many = noun_phrase(table, true, &filters, Glue::And)?;
    let counted = dice.chance(45);
    let template = if counted {
        dice.word(&[
            "How many different {says} do the {many} have?",
            "How many different {says} are there among the {many}?",
            "How many distinct {says} are there among all {many}?",
            "Count the different {says} of the {many}.",
            "What is the number of distinct {says} of the {many}?",
        ])
    } else {
        dice.word(&[
            "What are the different {says} of the {many}?",
            "List the distinct {says} of all {many}.",
            "Show the different {says} of the {many}.",
            "Which different {says} do the {many} have?",
            "List every {say} of the {many} only once.",
            "Give the {says} of all {many} without repeats.",
            "Show each {say} that occurs among the {many}, without repeats.",
            "Which distinct {says} occur among the {many}?",
        ])
    };
    let question = fill(
        template,
        &[("says", &column.says()), ("say", &column.say()), ("many", &many)],
    );
    let condition = filter.as_ref().map_or("", |filter| filter.sql.as_str());
    let inner = |distinct: &str| {
        if counted {
            format!("COUNT({distinct}{reference})")
        } else {
            format!("{distinct}{reference}")
        }
    };
    let mut must_differ = vec![world.render(table, &inner(""), condition, "")?];
    if filter.is_some() {
        must_differ.push(world.render(table, &inner("DISTINCT "), "", "")?);
    }
    let sql = world.render(table, &inner("DISTINCT "), condition, "")?;
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// GROUP BY with a count or another function.
pub(super) fn group(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let key = *dice.pick(&table.of_kind(&[Kind::Category]))?;
    let (key_sql, say) = (column_ref(table, key), key.say());
    let many = table.plural();
    let (value, question) = if dice.chance(50) {
        let template = dice.word(&[
            "How many {many} are there for each {say}? Show the {say} and the count.",
            "For each {say}, show the {say} and the number of {many}.",
            "List each {say} with its number of {many}.",
            "Show every {say} and how many {many} it has.",
            "Give each {say} and the number of {many} with it.",
            "Count the {many} per {say} and show the {say} with the count.",
        ]);
        (
            "COUNT(*)".to_owned(),
            fill(template, &[("many", &many), ("say", &say)]),
        )
    } else {
        let column = *dice.pick(&table.of_kind(&[Kind::Number, Kind::Number, Kind::Year, Kind::Date]))?;
        let (name, english) = function(table, column, dice)?;
        let template = dice.word(&[
            "What is the {f} of the {many} for each {say}? Show the {say} too, first.",
            "For each {say}, show the {say} and the {f} of its {many}.",
            "List each {say} with the {f} of its {many}.",
            "Show every {say} and the {f} of its {many}.",
            "Give each {say} together with the {f} of the {many} that have it.",
        ]);
        let reference = column_ref(table, column);
        (
            format!("{name}({reference})"),
            fill(template, &[("f", &english), ("many", &many), ("say", &say)]),
        )
    };
    let sql = world.render(
        table,
        &format!("{key_sql}, {value}"),
        "",
        &format!("GROUP BY {key_sql}"),
    )?;
    Some(Draft {
        question,
        sql,
        must_differ: Vec::new(),
        must_agree: Vec::new(),
    })
}

/// GROUP BY with HAVING.
pub(super) fn having(world: World, dice: &mut Dice) -> Option<Draft> {
    let table = world.table(dice)?;
    let key = *dice.pick(&table.of_kind(&[Kind::Category]))?;
    let (key_sql, many) = (column_ref(table, key), table.plural());
    let (condition, phrase) = if dice.chance(60) {
        let op = *dice.pick(&[Op::More, Op::More, Op::AtLeast, Op::AtLeast, Op::Less, Op::Equal])?;
        let bound = 2 + dice.below(4);
        let things = if bound == 1 { table.noun() } else { many.clone() };
        let english = format!("{} {bound} {things}", op.amount(true, dice));
        (format!("COUNT(*) {} {bound}", op.sql()), english)
    } else {
        let column = *dice.pick(&table.of_kind(&[Kind::Number]))?;
        let value = threshold(world.rows(table), column, false, dice)?;
        let number = match value {
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number_text(number),
            _ => return None,
        };
        let (op, word) = *dice.pick(&[
            (">", "above"),
            (">", "greater than"),
            ("<", "below"),
            ("<", "less than"),
        ])?;
        let unit = column
            .unit
            .as_ref()
            .map_or_else(String::new, |unit| format!(" {unit}"));
        let (name, english) = if column.sum && dice.chance(40) {
            ("SUM", "a total")
        } else {
            ("AVG", "an average")
        };
        let reference = column_ref(table, column);
        (
            format!("{name}({reference}) {op} {number}"),
            format!(
                "{english} {} {word} {number}{unit} over their {many}",
                column.say()
            ),
        )
    };
    let average = phrase.contains(" over their ");
    let phrase = phrase.replace(&format!(" over their {many}"), "");
    let template = if average {
        dice.word(&[
            "Which {says} have {phrase} for their {many}?",
            "List the {says} whose {many} have {phrase}.",
            "Find the {says} whose {many} have {phrase}.",
            "Show each {say} whose {many} have {phrase}.",
        ])
    } else {
        dice.word(&[
            "Which {says} have {phrase}?",
            "List the {says} that have {phrase}.",
            "Find the {says} with {phrase}.",
            "Show each {say} that has {phrase}.",
            "What are the {says} with {phrase}?",
        ])
    };
    let question = fill(
        template,
        &[
            ("says", &key.says()),
            ("say", &key.say()),
            ("phrase", &phrase),
            ("many", &many),
        ],
    );
    let tail = format!("GROUP BY {key_sql}");
    let sql = world.render(table, &key_sql, "", &format!("{tail} HAVING {condition}"))?;
    let must_differ = vec![world.render(table, &key_sql, "", &tail)?];
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}
