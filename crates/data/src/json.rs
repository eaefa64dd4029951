//! A JSON file that holds one list of rows, as ShareGPT's and Alpaca's do.

use serde_json::Value;

use crate::LineProblem;
use crate::conversation::kind;
use crate::dataset::{Fault, Place, Row};

/// Keys under which a file's only list may stand.
const LISTS: [&str; 3] = ["data", "rows", "train"];

/// Tells `each` of every row in order.
pub(crate) fn read(bytes: &[u8], each: &mut dyn FnMut(Row) -> Result<(), Fault>) -> Result<(), Fault> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let value: Value = serde_json::from_slice(bytes).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or(&reason).to_owned();
        let problem = LineProblem::NotJson {
            column: error.column(),
            reason,
            part_of_larger: false,
        };
        Fault::Row(Place::Line(error.line().max(1)), problem)
    })?;
    let list = match value {
        Value::Array(list) => list,
        Value::Object(mut object) => {
            let held = LISTS.iter().find_map(|key| {
                object
                    .get_mut(*key)
                    .and_then(Value::as_array_mut)
                    .map(std::mem::take)
            });
            held.ok_or_else(|| {
                let keys: Vec<&str> = object.keys().map(String::as_str).collect();
                Fault::File(format!(
                    "expected a list of rows, found an object with {}",
                    keys.join(", ")
                ))
            })?
        }
        other => {
            return Err(Fault::File(format!(
                "expected a list of rows, found {}",
                kind(&other)
            )));
        }
    };
    for (index, value) in list.into_iter().enumerate() {
        let place = Place::Row(index + 1);
        match value {
            Value::Object(columns) => each(Row { place, columns })?,
            other => return Err(Fault::Row(place, LineProblem::NotObject { found: kind(&other) })),
        }
    }
    Ok(())
}
