//! Questions about two or three tables: a child with its parent, a parent with its children, and two tables
//! linked by a third.

use super::dice::Dice;
use super::domain::{ColumnSpec, Kind, TableSpec};
use super::phrase::{Filter, Op, Place, column_ref, show, texts};
use super::query::{Draft, Glue, Output, ask_count, ask_list, fill, noun_phrase};
use super::ranked::top_over;
use super::single::{World, any_filter, list_or_count, output};
use super::summary::{aggregate_over, function};

/// A table, its reference to another, and that other table.
struct Relation<'a> {
    child: &'a TableSpec,
    reference: &'a ColumnSpec,
    parent: &'a TableSpec,
}

/// A random reference of the domain; those of linking tables count too.
fn relation<'a>(world: World<'a>, dice: &mut Dice) -> Option<Relation<'a>> {
    let tables = &world.domain.tables;
    let mut relations = Vec::new();
    for child in tables {
        for reference in &child.columns {
            if let Some(parent) = tables
                .iter()
                .find(|table| Some(&table.name) == reference.to.as_ref())
            {
                relations.push((child, reference, parent));
            }
        }
    }
    let &(child, reference, parent) = dice.pick(&relations)?;
    Some(Relation {
        child,
        reference,
        parent,
    })
}

impl Relation<'_> {
    /// "by {}": how a child is said to belong to a parent.
    fn belongs<'b>(&'b self, dice: &mut Dice) -> Option<&'b String> {
        dice.pick(&self.reference.is)
    }

    /// Children of a parent that is called by its name: "books by Ann Lee".
    fn of_named(&self, world: World, dice: &mut Dice) -> Option<Filter> {
        let name = self.parent.name_column()?;
        let names = texts(world.rows(self.parent), &name.name);
        let value = dice.pick(&names)?;
        let shown = if self.parent.is_person() {
            value.clone()
        } else if dice.chance(30) {
            format!("the {} {}", self.parent.noun(), show(value, 40, dice))
        } else {
            show(value, 30, dice)
        };
        let text = self.belongs(dice)?.replace("{}", &shown);
        let sql = format!("{} = '{value}'", column_ref(self.parent, name));
        Some(Filter {
            place: Place::After,
            many: text.clone(),
            one: text,
            sql,
        })
    }

    /// Children of parents that fulfil a condition: "books by authors from Norway".
    fn of_filtered(&self, world: World, dice: &mut Dice) -> Option<Filter> {
        let filter = any_filter(world, self.parent, dice)?;
        let parents = noun_phrase(self.parent, true, &[&filter], Glue::And)?;
        let text = self.belongs(dice)?.replace("{}", &parents);
        Some(Filter {
            place: Place::After,
            many: text.clone(),
            one: text,
            sql: filter.sql,
        })
    }

    fn any_of(&self, world: World, dice: &mut Dice) -> Option<Filter> {
        if dice.chance(50) {
            self.of_named(world, dice)
        } else {
            self.of_filtered(world, dice)
        }
    }
}

/// Lists that need a join.
pub(super) fn join(world: World, dice: &mut Dice) -> Option<Draft> {
    if let Some(draft) = linked(world, 45, false, dice) {
        return Some(draft);
    }
    let relation = relation(world, dice)?;
    match dice.below(10) {
        0..=4 => {
            let filter = relation.any_of(world, dice)?;
            list_or_count(world, relation.child, &[&filter], Glue::And, 0, dice)
        }
        5 | 6 => parent_of(world, &relation, dice),
        7 => pairs(world, &relation, dice),
        _ => parents_with(world, &relation, dice),
    }
}

/// "What is the country of the author of 'Winter Tea'?"
fn parent_of(world: World, relation: &Relation, dice: &mut Dice) -> Option<Draft> {
    let (child, parent) = (relation.child, relation.parent);
    let name = child.name_column()?;
    let columns = parent.of_kind(&[Kind::Name, Kind::Name, Kind::Category, Kind::Number, Kind::Year]);
    let column = *dice.pick(&columns)?;
    let names = texts(world.rows(child), &name.name);
    let value = dice.pick(&names)?;
    let shown = if child.is_person() {
        value.clone()
    } else {
        show(value, 50, dice)
    };
    let template = dice.word(&[
        "What is the {say} of the {parent} of the {child} {value}?",
        "What is the {say} of the {parent} of {value}?",
        "Find the {say} of the {parent} of the {child} {value}.",
        "Give the {say} of the {parent} that the {child} {value} belongs to.",
        "Show the {say} of the {parent} of {value}.",
    ]);
    let question = fill(
        template,
        &[
            ("say", &column.say()),
            ("parent", &parent.noun()),
            ("child", &child.noun()),
            ("value", &shown),
        ],
    );
    let condition = format!("{} = '{value}'", column_ref(child, name));
    let sql = world.render(child, &column_ref(parent, column), &condition, "")?;
    Some(Draft {
        question,
        sql,
        must_differ: Vec::new(),
        must_agree: Vec::new(),
    })
}

/// "List the title of each book together with the name of its author."
fn pairs(world: World, relation: &Relation, dice: &mut Dice) -> Option<Draft> {
    let (child, parent) = (relation.child, relation.parent);
    let first = output(child, false, dice)?;
    let name = parent.name_column()?;
    let filter = if dice.chance(40) {
        Some(any_filter(world, child, dice)?)
    } else {
        None
    };
    let filters: Vec<&Filter> = filter.iter().collect();
    let one = noun_phrase(child, false, &filters, Glue::And)?;
    let template = dice.word(&[
        "Show the {out} of each {one} together with the {name} of its {parent}.",
        "List the {out} of every {one} with the {name} of its {parent}.",
        "For each {one}, give the {out} and the {name} of the {parent}.",
        "For every {one}, show the {out} and the {name} of its {parent}.",
    ]);
    let template = if child.is_person() {
        template.replace("its", "their")
    } else {
        template.to_owned()
    };
    let question = fill(
        &template,
        &[
            ("out", &first.one),
            ("one", &one),
            ("name", &name.say()),
            ("parent", &parent.noun()),
        ],
    );
    let what = format!("{}, {}", first.sql, column_ref(parent, name));
    let condition = filter.as_ref().map_or("", |filter| filter.sql.as_str());
    let must_differ = if filter.is_some() {
        vec![world.render(child, &what, "", "")?]
    } else {
        Vec::new()
    };
    Some(Draft {
        question,
        sql: world.render(child, &what, condition, "")?,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// "Which authors have a book with more than 300 pages? Give each name once."
fn parents_with(world: World, relation: &Relation, dice: &mut Dice) -> Option<Draft> {
    let (child, parent) = (relation.child, relation.parent);
    let name = parent.name_column()?;
    let filter = any_filter(world, child, dice)?;
    let many = noun_phrase(child, true, &[&filter], Glue::And)?;
    let one = noun_phrase(child, false, &[&filter], Glue::And)?;
    let template = dice.word(&[
        "List the different {names} of {parents} that have at least one {one}.",
        "What are the different {names} of the {parents} with at least one {one}?",
        "Give the {names} of all {parents} with {many}, each only once.",
        "Show the distinct {names} of the {parents} that have {many}.",
        "Find the {names} of the {parents} that have at least one {one}, without repeats.",
    ]);
    let template = template.replace(" that ", &format!(" {} ", parent.who()));
    let question = fill(
        &template,
        &[
            ("names", &name.says()),
            ("parents", &parent.plural()),
            ("one", &one),
            ("many", &many),
        ],
    );
    let what = format!("DISTINCT {}", column_ref(parent, name));
    let sql = world.render(child, &what, &filter.sql, "")?;
    let must_differ = vec![world.render(child, &what, "", "")?];
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// Questions over two tables linked by a third: "the students who took Biology".
///
/// `None` in a domain without such a table, or, where there is one, unless chance (in percent) wants it.
fn linked(world: World, percent: usize, counted: bool, dice: &mut Dice) -> Option<Draft> {
    let link = world.domain.tables.iter().find(|table| table.did.is_some())?;
    if !dice.chance(percent) {
        return None;
    }
    let did = link.did.as_ref()?;
    let mut sides = link
        .columns
        .iter()
        .filter_map(|column| column.to.as_ref())
        .filter_map(|to| world.domain.tables.iter().find(|table| &table.name == to));
    let (subject, object) = (sides.next()?, sides.next()?);
    // Either the subjects of a named object or the objects of a named subject.
    let forward = dice.chance(55);
    let (asked, named) = if forward {
        (subject, object)
    } else {
        (object, subject)
    };
    let name = named.name_column()?;
    let names = texts(world.rows(named), &name.name);
    let value = dice.pick(&names)?;
    let shown = if named.is_person() {
        value.clone()
    } else {
        show(value, 35, dice)
    };
    let text = if forward {
        format!("{} {did} {shown}", subject.who())
    } else {
        format!("that {shown} {did}")
    };
    let filter = Filter {
        place: Place::That,
        many: text.clone(),
        one: text,
        sql: format!("{} = '{value}'", column_ref(named, name)),
    };
    let many = noun_phrase(asked, true, &[&filter], Glue::And)?;
    if counted {
        let question = if forward && dice.chance(50) {
            format!("How many {} {did} {shown}?", subject.plural())
        } else {
            ask_count(&many, dice)
        };
        let sql = world.render(link, "COUNT(*)", &filter.sql, "")?;
        let must_differ = vec![world.render(link, "COUNT(*)", "", "")?];
        return Some(Draft {
            question,
            sql,
            must_differ,
            must_agree: Vec::new(),
        });
    }
    let column = asked.name_column()?;
    let output = Output {
        sql: column_ref(asked, column),
        one: column.say(),
        many: column.says(),
    };
    let one = noun_phrase(asked, false, &[&filter], Glue::And)?;
    let question = ask_list(&output, &many, &one, "", dice);
    let sql = world.render(link, &output.sql, &filter.sql, "")?;
    Some(Draft {
        question,
        sql,
        must_differ: Vec::new(),
        must_agree: Vec::new(),
    })
}

/// Counts, functions, groups and orders that need a join.
pub(super) fn join_aggregate(world: World, dice: &mut Dice) -> Option<Draft> {
    if let Some(draft) = linked(world, 25, true, dice) {
        return Some(draft);
    }
    let relation = relation(world, dice)?;
    let child = relation.child;
    match dice.below(10) {
        0 | 1 => {
            let filter = relation.any_of(world, dice)?;
            list_or_count(world, child, &[&filter], Glue::And, 100, dice)
        }
        2 | 3 => {
            let filter = relation.any_of(world, dice)?;
            aggregate_over(world, child, Some(&filter), dice)
        }
        4 => {
            // "the games by studios from Poland with the lowest price" could mean the studios' price.
            let filter = relation.of_named(world, dice)?;
            top_over(world, child, Some(&filter), dice)
        }
        5 | 6 => per_parent(world, &relation, dice),
        7 => most_children(world, &relation, dice),
        _ => parents_by_count(world, &relation, dice),
    }
}

/// "For each author with books, show the name and the number of books."
fn per_parent(world: World, relation: &Relation, dice: &mut Dice) -> Option<Draft> {
    let (child, parent) = (relation.child, relation.parent);
    let name = parent.name_column()?;
    let key = column_ref(parent, name);
    let (value, english) = if dice.chance(55) {
        ("COUNT(*)".to_owned(), format!("number of {}", child.plural()))
    } else {
        let column = *dice.pick(&child.of_kind(&[Kind::Number]))?;
        let (function, english) = function(child, column, dice)?;
        (
            format!("{function}({})", column_ref(child, column)),
            format!("{english} of its {}", child.plural()),
        )
    };
    let english = if parent.is_person() {
        english.replace(" its ", " their ")
    } else {
        english
    };
    // An inner join leaves out parents without children, so the question leaves them out as well.
    let template = dice.word(&[
        "For each {parent} that has any {children}, show the {name} and the {f}.",
        "Show the {name} of each {parent} with at least one {child}, and the {f}.",
        "List the {name} of every {parent} that has {children}, together with the {f}.",
    ]);
    let template = template.replace(" that ", &format!(" {} ", parent.who()));
    let question = fill(
        &template,
        &[
            ("parent", &parent.noun()),
            ("children", &child.plural()),
            ("child", &child.noun()),
            ("name", &name.say()),
            ("f", &english),
        ],
    );
    let sql = world.render(child, &format!("{key}, {value}"), "", &format!("GROUP BY {key}"))?;
    Some(Draft {
        question,
        sql,
        must_differ: Vec::new(),
        must_agree: Vec::new(),
    })
}

/// "What is the name of the author with the most books?"
fn most_children(world: World, relation: &Relation, dice: &mut Dice) -> Option<Draft> {
    let (child, parent) = (relation.child, relation.parent);
    let name = parent.name_column()?;
    let key = column_ref(parent, name);
    let template = dice.word(&[
        "What is the {name} of the {parent} with the most {children}?",
        "Which {parent} has the most {children}? Give the {name}.",
        "Find the {name} of the {parent} that has the most {children}.",
        "Give the {name} of the {parent} with the largest number of {children}.",
    ]);
    let template = template.replace(" that ", &format!(" {} ", parent.who()));
    let question = fill(
        &template,
        &[
            ("name", &name.say()),
            ("parent", &parent.noun()),
            ("children", &child.plural()),
        ],
    );
    let tail = |direction: &str| format!("GROUP BY {key} ORDER BY COUNT(*) {direction} LIMIT 1");
    let sql = world.render(child, &key, "", &tail("DESC"))?;
    let must_differ = vec![world.render(child, &key, "", &tail("ASC"))?];
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// "List the names of the authors with more than 2 books."
fn parents_by_count(world: World, relation: &Relation, dice: &mut Dice) -> Option<Draft> {
    let (child, parent) = (relation.child, relation.parent);
    let name = parent.name_column()?;
    let key = column_ref(parent, name);
    let op = *dice.pick(&[Op::More, Op::AtLeast, Op::Equal])?;
    let bound = 2 + dice.below(3);
    let phrase = format!("with {} {bound} {}", op.amount(true, dice), child.plural());
    let filter = Filter {
        place: Place::After,
        many: phrase.clone(),
        one: phrase,
        sql: String::new(),
    };
    let many = noun_phrase(parent, true, &[&filter], Glue::And)?;
    let one = noun_phrase(parent, false, &[&filter], Glue::And)?;
    let output = Output {
        sql: key.clone(),
        one: name.say(),
        many: name.says(),
    };
    let question = ask_list(&output, &many, &one, "", dice);
    let tail = format!("GROUP BY {key}");
    let sql = world.render(
        child,
        &key,
        "",
        &format!("{tail} HAVING COUNT(*) {} {bound}", op.sql()),
    )?;
    let must_differ = vec![world.render(child, &key, "", &tail)?];
    Some(Draft {
        question,
        sql,
        must_differ,
        must_agree: Vec::new(),
    })
}

/// "List the names of the authors without any books."
pub(super) fn childless(world: World, dice: &mut Dice) -> Option<Draft> {
    let relation = relation(world, dice)?;
    let (child, parent) = (relation.child, relation.parent);
    let children = child.plural();
    let condition = format!(
        "{{{}.id}} NOT IN (SELECT {} FROM {})",
        parent.name, relation.reference.name, child.name
    );
    let text = match dice.below(3) {
        0 => format!("without any {children}"),
        1 => format!("with no {children}"),
        _ => format!("{} do not have any {children}", parent.who()),
    };
    let one = text.replace(" do not have ", " does not have ");
    let place = if text.starts_with("with") {
        Place::After
    } else {
        Place::That
    };
    let filter = Filter {
        place,
        many: text,
        one,
        sql: condition,
    };
    list_or_count(world, parent, &[&filter], Glue::And, 20, dice)
}
