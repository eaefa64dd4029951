//! Reads `domains.toml`, the hand-written part of the data set, and makes tables with rows from it.
//!
//! A domain names its tables and columns, gives the values that its texts and numbers may take, and says how
//! people speak of them: "cheapest", "written by", "with more than 300 pages".

use jiff::civil::Date;
use serde::Deserialize;

use super::GenerateError;
use super::dice::Dice;
use crate::sql::Value;
use crate::text_to_sql::{Column, ColumnType, Schema, Table};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DomainFile {
    domain: Vec<Domain>,
}

/// One domain: the description of one schema and of the English that goes with it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Domain {
    /// The id of its schema.
    pub(super) id: String,
    /// Tables, parents before children.
    #[serde(rename = "table")]
    pub(super) tables: Vec<TableSpec>,
}

/// A table of a domain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableSpec {
    /// Name in SQL.
    pub(super) name: String,
    /// What one row is called, if not by the table's name.
    noun: Option<String>,
    /// What several rows are called, if regular spelling does not give it.
    plural: Option<String>,
    /// Number of rows to make.
    rows: usize,
    /// Rows are people: "who" instead of "that".
    #[serde(default)]
    person: bool,
    /// For a table that links two others: the verb in "students who took a course".
    pub(super) did: Option<String>,
    /// Columns in order.
    pub(super) columns: Vec<ColumnSpec>,
}

/// A column of a domain's table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnSpec {
    /// Name in SQL.
    pub(super) name: String,
    /// What it is called, if not by its name.
    say: Option<String>,
    /// What several of its values are called, if regular spelling does not give it.
    says: Option<String>,
    /// Texts that it may hold. At least one per row makes it the name of the row.
    #[serde(default, deserialize_with = "split")]
    pub(super) values: Vec<String>,
    /// Smallest and largest number and the step between them.
    range: Option<[f64; 3]>,
    /// First and last day.
    dates: Option<[String; 2]>,
    /// The numbers are years.
    #[serde(default)]
    year: bool,
    /// The table whose `id` this column refers to.
    pub(super) to: Option<String>,
    /// Ways to say that a row has the value `{}`; each can follow the noun and "are" alike ("from {}").
    #[serde(default, deserialize_with = "split")]
    pub(super) is: Vec<String>,
    /// The value can stand before the noun ("Fantasy books").
    #[serde(default)]
    pub(super) adj: bool,
    /// The number counts these things ("pages").
    pub(super) things: Option<String>,
    /// Participle before the value ("costing", "published").
    pub(super) verb: Option<String>,
    /// Unit after the value ("dollars").
    pub(super) unit: Option<String>,
    /// Comparative for a larger value ("taller than").
    pub(super) more: Option<String>,
    /// Comparative for a smaller value ("shorter than").
    pub(super) less: Option<String>,
    /// Superlative for the largest value ("most expensive").
    pub(super) max: Option<String>,
    /// Superlative for the smallest value ("cheapest").
    pub(super) min: Option<String>,
    /// A total of this column means something.
    #[serde(default)]
    pub(super) sum: bool,
    /// Some rows have no value; how to say so, after the noun.
    pub(super) blank: Option<String>,
    /// How to say that a row has a value, after the noun.
    pub(super) filled: Option<String>,
}

/// Texts that stand in one string, separated by bars.
fn split<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(text.split('|').map(|part| part.trim().to_owned()).collect())
}

/// What a column means to the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Number that other tables refer to.
    Id,
    /// Reference to the id of another table.
    Ref,
    /// Text that is different in every row.
    Name,
    /// Text that several rows share.
    Category,
    /// Quantity.
    Number,
    /// Year.
    Year,
    /// Day in ISO form.
    Date,
}

impl TableSpec {
    pub(super) fn noun(&self) -> String {
        self.noun.clone().unwrap_or_else(|| self.name.replace('_', " "))
    }

    pub(super) fn plural(&self) -> String {
        self.plural.clone().unwrap_or_else(|| plural_of(&self.noun()))
    }

    /// The relative pronoun for its rows.
    pub(super) fn who(&self) -> &'static str {
        if self.person { "who" } else { "that" }
    }

    /// Whether its rows are people.
    pub(super) fn is_person(&self) -> bool {
        self.person
    }

    /// The column that tells its rows apart by a text.
    pub(super) fn name_column(&self) -> Option<&ColumnSpec> {
        self.columns.iter().find(|column| self.kind(column) == Kind::Name)
    }

    /// Columns of a kind that always have a value.
    pub(super) fn of_kind(&self, kinds: &[Kind]) -> Vec<&ColumnSpec> {
        self.columns
            .iter()
            .filter(|column| column.blank.is_none() && kinds.contains(&self.kind(column)))
            .collect()
    }

    /// The column that refers to the table `parent`.
    pub(super) fn reference_to(&self, parent: &str) -> Option<&ColumnSpec> {
        self.columns
            .iter()
            .find(|column| column.to.as_deref() == Some(parent))
    }

    pub(super) fn kind(&self, column: &ColumnSpec) -> Kind {
        if column.name == "id" {
            Kind::Id
        } else if column.to.is_some() {
            Kind::Ref
        } else if column.values.len() >= self.rows {
            Kind::Name
        } else if !column.values.is_empty() {
            Kind::Category
        } else if column.dates.is_some() {
            Kind::Date
        } else if column.year {
            Kind::Year
        } else {
            Kind::Number
        }
    }
}

impl ColumnSpec {
    /// What one value is called: "title", "number of pages".
    pub(super) fn say(&self) -> String {
        self.say.clone().unwrap_or_else(|| match &self.things {
            Some(things) => format!("number of {things}"),
            None => self.name.replace('_', " "),
        })
    }

    /// What several values are called: "titles", "numbers of pages".
    pub(super) fn says(&self) -> String {
        self.says.clone().unwrap_or_else(|| match &self.things {
            Some(things) => format!("numbers of {things}"),
            None => plural_of(&self.say()),
        })
    }

    fn is_real(&self) -> bool {
        self.range
            .is_some_and(|numbers| numbers.iter().any(|number| number.fract() != 0.0))
    }
}

/// Regular English plural of the last word.
pub(super) fn plural_of(noun: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| noun.ends_with(ending));
    if ends(&["s", "x", "ch", "sh", "z"]) {
        format!("{noun}es")
    } else if noun.ends_with('y') && !ends(&["ay", "ey", "oy", "uy"]) {
        format!("{}ies", &noun[..noun.len() - 1])
    } else {
        format!("{noun}s")
    }
}

/// Reads the domains.
///
/// # Errors
/// [`GenerateError::Domains`] if the text is no valid TOML of this form.
pub(super) fn read_domains(text: &str) -> Result<Vec<Domain>, GenerateError> {
    let file: DomainFile = toml::from_str(text).map_err(|error| GenerateError::Domains(error.to_string()))?;
    Ok(file.domain)
}

/// Makes the schema of a domain, rows included.
///
/// # Errors
/// [`GenerateError::Domains`] if a column gives no values, or refers to a table that does not stand before it.
pub(super) fn make_schema(domain: &Domain, dice: &mut Dice) -> Result<Schema, GenerateError> {
    let mut tables: Vec<Table> = Vec::new();
    for spec in &domain.tables {
        let mut columns = Vec::new();
        for column in &spec.columns {
            let parents = column
                .to
                .as_ref()
                .and_then(|to| tables.iter().find(|table| &table.name == to));
            columns.push(
                make_column(spec, column, parents.map(|table| table.rows.len()), dice).map_err(
                    |problem| {
                        GenerateError::Domains(format!(
                            "{}.{}.{}: {problem}",
                            domain.id, spec.name, column.name
                        ))
                    },
                )?,
            );
        }
        make_pairs_unique(spec, &mut columns, dice);
        let rows = (0..spec.rows)
            .map(|row| columns.iter().map(|column| column[row].clone()).collect())
            .collect();
        let columns = spec
            .columns
            .iter()
            .map(|column| Column {
                name: column.name.clone(),
                kind: column_type(spec, column),
            })
            .collect();
        tables.push(Table {
            name: spec.name.clone(),
            columns,
            rows,
        });
    }
    Ok(Schema {
        id: domain.id.clone(),
        domain: domain.id.replace('_', " "),
        tables,
    })
}

fn column_type(spec: &TableSpec, column: &ColumnSpec) -> ColumnType {
    match spec.kind(column) {
        Kind::Name | Kind::Category | Kind::Date => ColumnType::Text,
        Kind::Number if column.is_real() => ColumnType::Real,
        Kind::Id | Kind::Ref | Kind::Year | Kind::Number => ColumnType::Int,
    }
}

fn make_column(
    spec: &TableSpec,
    column: &ColumnSpec,
    parents: Option<usize>,
    dice: &mut Dice,
) -> Result<Vec<Value>, String> {
    let rows = spec.rows;
    let mut values: Vec<Value> = match spec.kind(column) {
        Kind::Id => return Ok((1..=rows).map(|id| Value::Integer(id as i64)).collect()),
        Kind::Ref => {
            let parents = parents.ok_or("the table that it refers to has to stand before it")?;
            spread(rows, parents, dice)
                .into_iter()
                .map(|parent| Value::Integer(parent as i64 + 1))
                .collect()
        }
        // Names keep the order in which they were written.
        Kind::Name => return Ok(column.values[..rows].iter().cloned().map(Value::Text).collect()),
        Kind::Category => {
            let texts = &column.values;
            let random = |row: usize, dice: &mut Dice| {
                if row < texts.len() {
                    row
                } else {
                    dice.below(texts.len())
                }
            };
            (0..rows)
                .map(|row| Value::Text(texts[random(row, dice)].clone()))
                .collect()
        }
        Kind::Number | Kind::Year => {
            let [low, high, step] = column.range.ok_or("it needs values, range or dates")?;
            let steps = ((high - low) / step).round() as usize + 1;
            draw(rows, steps, dice)
                .into_iter()
                .map(|index| number(low + index as f64 * step, column.is_real()))
                .collect()
        }
        Kind::Date => {
            let days = column.dates.as_ref().ok_or("it needs dates")?;
            let day = |text: &str| text.parse::<Date>().map_err(|error| error.to_string());
            let (first, last) = (day(&days[0])?, day(&days[1])?);
            let span = (last - first).get_days().unsigned_abs() as usize + 1;
            draw(rows, span, dice)
                .into_iter()
                .map(|index| {
                    let date = first.saturating_add(jiff::Span::new().days(index as i64));
                    Value::Text(date.to_string())
                })
                .collect()
        }
    };
    dice.shuffle(&mut values);
    if column.blank.is_some() {
        for value in values.iter_mut().take((rows / 4).max(2)) {
            *value = Value::Null;
        }
        dice.shuffle(&mut values);
    }
    Ok(values)
}

/// Draws `rows` of `choices` indices, each at most once where there are clearly more choices than rows.
fn draw(rows: usize, choices: usize, dice: &mut Dice) -> Vec<usize> {
    if choices < rows + rows / 4 {
        return (0..rows).map(|_| dice.below(choices)).collect();
    }
    let mut drawn: Vec<usize> = Vec::with_capacity(rows);
    while drawn.len() < rows {
        let index = dice.below(choices);
        if !drawn.contains(&index) {
            drawn.push(index);
        }
    }
    drawn
}

/// A parent for each of `rows` children. Some parents get several, and, where there are enough, one gets none.
fn spread(rows: usize, parents: usize, dice: &mut Dice) -> Vec<usize> {
    let mut order: Vec<usize> = (0..parents).collect();
    dice.shuffle(&mut order);
    order.truncate(if parents >= 5 { parents - 1 } else { parents });
    (0..rows)
        .map(|row| {
            if row < order.len() {
                order[row]
            } else {
                // The smaller of two draws: the first parents of the order get more children.
                let (a, b) = (dice.below(order.len()), dice.below(order.len()));
                order[a.min(b)]
            }
        })
        .collect()
}

/// In a table that links two others, no pair may occur twice; a repeated pair gets another second partner.
fn make_pairs_unique(spec: &TableSpec, columns: &mut [Vec<Value>], dice: &mut Dice) {
    let links: Vec<usize> = (0..spec.columns.len())
        .filter(|&index| spec.kind(&spec.columns[index]) == Kind::Ref)
        .collect();
    let [first, second] = links[..] else { return };
    let mut partners = columns[second].clone();
    partners.dedup();
    for row in 1..spec.rows {
        for _ in 0..100 {
            let taken = (0..row).any(|other| {
                columns[first][other] == columns[first][row] && columns[second][other] == columns[second][row]
            });
            if !taken {
                break;
            }
            if let Some(partner) = dice.pick(&partners) {
                columns[second][row] = partner.clone();
            }
        }
    }
}

fn number(value: f64, real: bool) -> Value {
    // Two decimals at most: the sum of steps must not leave traces such as 12.600000000000001.
    if real {
        Value::Real((value * 100.0).round() / 100.0)
    } else {
        Value::Integer(value.round() as i64)
    }
}
