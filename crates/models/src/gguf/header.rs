//! The header of a GGUF file, read with limits: versions 2 and 3, every metadata type.
//!
//! Files come from the internet, so no length in one is believed before it is checked against the file's size and against a
//! limit far above what any real model needs. Nothing is allocated by a number from the file alone.

use std::collections::BTreeMap;
use std::io::Read;

use super::blocks::{self, Format};

/// A header larger than this is not a model's; the largest vocabularies need about 10 MB.
const MAX_HEADER_BYTES: u64 = 64 << 20;
const MAX_TENSORS: u64 = 65_536;
const MAX_KEYS: u64 = 65_536;
/// All list elements of a header together; a vocabulary with merges has about a million.
const MAX_LIST_ELEMENTS: u64 = 8 << 20;
const MAX_TEXT_BYTES: u64 = 8 << 20;
const MAX_NAME_BYTES: u64 = 1 << 10;
const MAX_DIMENSIONS: u32 = 4;
const MAX_NESTED_LISTS: u32 = 4;
const MAX_ALIGNMENT: u64 = 1 << 20;
const DEFAULT_ALIGNMENT: u64 = 32;

/// Why a header cannot be read; the caller adds the file's path.
#[derive(Debug)]
pub(crate) enum HeaderError {
    /// The system failed.
    Io(std::io::Error),
    /// The file ends this many bytes too early, or more.
    Truncated { missing: u64 },
    /// The bytes are no GGUF header.
    Invalid(String),
    /// The header is sound, but this needs something that is not built.
    Unsupported { what: String, supported: &'static str },
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, HeaderError> {
    Err(HeaderError::Invalid(reason.into()))
}

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    Text(String),
    List(Vec<Value>),
}

/// Where a tensor lies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TensorInfo {
    /// As torch has it: the file stores dimensions in the opposite order.
    pub(crate) shape: Vec<usize>,
    pub(crate) format: Format,
    /// From the start of the file, in bytes.
    pub(crate) start: u64,
}

impl TensorInfo {
    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Everything before the weights. Every tensor lies inside the file.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) metadata: BTreeMap<String, Value>,
    pub(crate) tensors: BTreeMap<String, TensorInfo>,
}

impl Header {
    /// Reads from the start of a file of `length` bytes.
    pub(crate) fn read(reader: impl Read, length: u64) -> Result<Self, HeaderError> {
        let mut source = Source {
            reader,
            position: 0,
            length,
            list_elements: 0,
        };
        if source.bytes::<4>()? != *b"GGUF" {
            return invalid("it does not start with GGUF");
        }
        match source.u32()? {
            2 | 3 => {}
            version if matches!(version.swap_bytes(), 1..=3) => {
                return Err(HeaderError::Unsupported {
                    what: "big-endian byte order".to_owned(),
                    supported: "little-endian byte order",
                });
            }
            version => {
                return Err(HeaderError::Unsupported {
                    what: format!("GGUF version {version}"),
                    supported: "GGUF version 2 or 3",
                });
            }
        }
        let tensor_count = source.count("tensors", MAX_TENSORS, 24)?;
        let key_count = source.count("metadata keys", MAX_KEYS, 13)?;

        let mut metadata = BTreeMap::new();
        for _ in 0..key_count {
            let key = source.text(MAX_NAME_BYTES)?;
            let kind = source.u32()?;
            let value = source.value(kind, 0)?;
            if metadata.insert(key.clone(), value).is_some() {
                return invalid(format!("the metadata key {key} stands in it twice"));
            }
        }
        let alignment = match metadata.get("general.alignment") {
            None => DEFAULT_ALIGNMENT,
            Some(Value::Unsigned(value)) if value.is_power_of_two() && *value <= MAX_ALIGNMENT => *value,
            Some(value) => {
                return invalid(format!("its alignment is {value:?}, which is not a power of two"));
            }
        };

        let mut stored = Vec::new();
        for _ in 0..tensor_count {
            stored.push(source.tensor(alignment)?);
        }
        let weights_start = source.position.next_multiple_of(alignment);

        let mut tensors = BTreeMap::new();
        let mut needed = weights_start;
        for StoredTensor {
            name,
            shape,
            format,
            offset,
            bytes,
        } in stored
        {
            let end = weights_start
                .checked_add(offset)
                .and_then(|start| start.checked_add(bytes));
            let Some(end) = end else {
                return invalid(format!("the tensor {name} lies beyond every file's end"));
            };
            needed = needed.max(end);
            let info = TensorInfo {
                shape,
                format,
                start: weights_start + offset,
            };
            if tensors.insert(name.clone(), info).is_some() {
                return invalid(format!("the tensor {name} stands in it twice"));
            }
        }
        if needed > length && tensor_count > 0 {
            return Err(HeaderError::Truncated {
                missing: needed - length,
            });
        }
        Ok(Self { metadata, tensors })
    }
}

struct StoredTensor {
    name: String,
    shape: Vec<usize>,
    format: Format,
    offset: u64,
    bytes: u64,
}

/// A reader that knows where it is and how much can still come.
struct Source<R> {
    reader: R,
    position: u64,
    length: u64,
    list_elements: u64,
}

impl<R: Read> Source<R> {
    /// Says whether so many more bytes can be read, before anything is allocated for them.
    fn expect(&self, bytes: u64) -> Result<(), HeaderError> {
        let end = self.position.saturating_add(bytes);
        if end > self.length {
            return Err(HeaderError::Truncated {
                missing: end - self.length,
            });
        }
        if end > MAX_HEADER_BYTES {
            return invalid(format!(
                "its header is longer than {} MiB",
                MAX_HEADER_BYTES >> 20
            ));
        }
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), HeaderError> {
        self.expect(buffer.len() as u64)?;
        self.reader.read_exact(buffer).map_err(HeaderError::Io)?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        let mut buffer = [0; N];
        self.fill(&mut buffer)?;
        Ok(buffer)
    }

    fn u32(&mut self) -> Result<u32, HeaderError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, HeaderError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// A number of things that take at least `least_bytes` each.
    fn count(&mut self, things: &str, limit: u64, least_bytes: u64) -> Result<u64, HeaderError> {
        let count = self.u64()?;
        if count > limit {
            return invalid(format!("it claims to hold {count} {things}"));
        }
        self.expect(count * least_bytes)?;
        Ok(count)
    }

    fn text(&mut self, limit: u64) -> Result<String, HeaderError> {
        let length = self.u64()?;
        if length > limit {
            return invalid(format!("a text in its header claims to be {length} bytes long"));
        }
        self.expect(length)?;
        let mut buffer = vec![0; length as usize];
        self.fill(&mut buffer)?;
        String::from_utf8(buffer).or_else(|_| invalid("a text in its header is not UTF-8"))
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<Value, HeaderError> {
        Ok(match kind {
            0 => Value::Unsigned(u8::from_le_bytes(self.bytes()?).into()),
            1 => Value::Signed(i8::from_le_bytes(self.bytes()?).into()),
            2 => Value::Unsigned(u16::from_le_bytes(self.bytes()?).into()),
            3 => Value::Signed(i16::from_le_bytes(self.bytes()?).into()),
            4 => Value::Unsigned(self.u32()?.into()),
            5 => Value::Signed(i32::from_le_bytes(self.bytes()?).into()),
            6 => Value::Float(f32::from_le_bytes(self.bytes()?).into()),
            7 => match self.bytes::<1>()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return invalid(format!("a truth value in its header is {other}")),
            },
            8 => Value::Text(self.text(MAX_TEXT_BYTES)?),
            9 => self.list(depth)?,
            10 => Value::Unsigned(self.u64()?),
            11 => Value::Signed(i64::from_le_bytes(self.bytes()?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes()?)),
            other => return invalid(format!("a value in its header has the unknown type {other}")),
        })
    }

    fn list(&mut self, depth: u32) -> Result<Value, HeaderError> {
        if depth == MAX_NESTED_LISTS {
            return invalid("lists in its header are nested too deeply");
        }
        let kind = self.u32()?;
        let least_bytes = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => 12,
            other => return invalid(format!("a list in its header has the unknown type {other}")),
        };
        let count = self.count(
            "list elements",
            MAX_LIST_ELEMENTS - self.list_elements,
            least_bytes,
        )?;
        self.list_elements += count;
        let mut values = Vec::with_capacity(count as usize);
        for _ in 0..count {
            values.push(self.value(kind, depth + 1)?);
        }
        Ok(Value::List(values))
    }

    fn tensor(&mut self, alignment: u64) -> Result<StoredTensor, HeaderError> {
        let name = self.text(MAX_NAME_BYTES)?;
        let dimensions = self.u32()?;
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return invalid(format!("the tensor {name} has {dimensions} dimensions"));
        }
        let mut shape = Vec::new();
        let mut elements: u64 = 1;
        for _ in 0..dimensions {
            let size = self.u64()?;
            // Bounded well below the range of usize, so that later products cannot overflow either.
            elements = match elements.checked_mul(size) {
                Some(product) if product > 0 && product < 1 << 40 => product,
                _ => return invalid(format!("the tensor {name} has an impossible size")),
            };
            shape.push(size as usize);
        }
        let code = self.u32()?;
        let offset = self.u64()?;
        let format = Format::from_code(code).map_err(|format| HeaderError::Unsupported {
            what: format!("the weight format {format}"),
            supported: blocks::SUPPORTED_FORMATS,
        })?;
        if !(shape[0] as u64).is_multiple_of(format.block_elements() as u64) {
            return invalid(format!(
                "the rows of the tensor {name} do not divide into blocks of {}",
                format.name()
            ));
        }
        if !offset.is_multiple_of(alignment) {
            return invalid(format!(
                "the tensor {name} does not start at a multiple of {alignment} bytes"
            ));
        }
        shape.reverse();
        let bytes = elements / format.block_elements() as u64 * format.block_bytes() as u64;
        Ok(StoredTensor {
            name,
            shape,
            format,
            offset,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Header, HeaderError> {
        Header::read(bytes, bytes.len() as u64)
    }

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    }

    fn start(version: u32, tensors: u64, keys: u64) -> Vec<u8> {
        [
            &b"GGUF"[..],
            &version.to_le_bytes(),
            &tensors.to_le_bytes(),
            &keys.to_le_bytes(),
        ]
        .concat()
    }

    fn key(name: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        [&text(name)[..], &kind.to_le_bytes(), value].concat()
    }

    fn tensor(name: &str, dimensions: &[u64], code: u32, offset: u64) -> Vec<u8> {
        let sizes: Vec<u8> = dimensions.iter().flat_map(|size| size.to_le_bytes()).collect();
        let count = (dimensions.len() as u32).to_le_bytes();
        [
            &text(name)[..],
            &count,
            &sizes,
            &code.to_le_bytes(),
            &offset.to_le_bytes(),
        ]
        .concat()
    }

    /// One of everything: each type of value, a list of lists, two tensors.
    fn everything() -> Vec<u8> {
        let list = [
            &8u32.to_le_bytes()[..],
            &2u64.to_le_bytes(),
            &text("a"),
            &text(""),
        ]
        .concat();
        let nested = [
            &9u32.to_le_bytes()[..],
            &1u64.to_le_bytes(),
            &0u32.to_le_bytes(),
            &2u64.to_le_bytes(),
            &[7, 8],
        ]
        .concat();
        let keys = [
            key("u8", 0, &[200]),
            key("i8", 1, &[255]),
            key("u16", 2, &300u16.to_le_bytes()),
            key("i16", 3, &(-300i16).to_le_bytes()),
            key("u32", 4, &70_000u32.to_le_bytes()),
            key("i32", 5, &(-70_000i32).to_le_bytes()),
            key("f32", 6, &1.5f32.to_le_bytes()),
            key("bool", 7, &[1]),
            key("text", 8, &text("h\u{e9}")),
            key("list", 9, &list),
            key("nested", 9, &nested),
            key("u64", 10, &u64::MAX.to_le_bytes()),
            key("i64", 11, &i64::MIN.to_le_bytes()),
            key("f64", 12, &0.1f64.to_le_bytes()),
            key("general.alignment", 4, &64u32.to_le_bytes()),
        ];
        let mut bytes = start(3, 2, keys.len() as u64);
        bytes.extend(keys.concat());
        bytes.extend(tensor("first", &[3, 2], 0, 0));
        bytes.extend(tensor("second", &[32], 8, 64));
        bytes.resize(bytes.len().next_multiple_of(64) + 64 + 34, 0);
        bytes
    }

    #[test]
    fn every_type_of_value_and_both_versions_are_read() {
        for version in [2u32, 3] {
            let mut bytes = everything();
            bytes[4..8].copy_from_slice(&version.to_le_bytes());
            let header = read(&bytes).unwrap();
            let list = |values: &[Value]| Value::List(values.to_vec());
            let expected = [
                ("u8", Value::Unsigned(200)),
                ("i8", Value::Signed(-1)),
                ("u16", Value::Unsigned(300)),
                ("i16", Value::Signed(-300)),
                ("u32", Value::Unsigned(70_000)),
                ("i32", Value::Signed(-70_000)),
                ("f32", Value::Float(1.5)),
                ("bool", Value::Bool(true)),
                ("text", Value::Text("h\u{e9}".to_owned())),
                (
                    "list",
                    list(&[Value::Text("a".to_owned()), Value::Text(String::new())]),
                ),
                ("nested", list(&[list(&[Value::Unsigned(7), Value::Unsigned(8)])])),
                ("u64", Value::Unsigned(u64::MAX)),
                ("i64", Value::Signed(i64::MIN)),
                ("f64", Value::Float(0.1)),
            ];
            for (name, value) in expected {
                assert_eq!(header.metadata[name], value, "{name}");
            }
            assert_eq!(header.tensors["first"].shape, [2, 3]);
            assert_eq!(header.tensors["second"].start % 64, 0);
            assert_eq!(header.tensors["second"].start, header.tensors["first"].start + 64);
        }
    }

    #[test]
    fn a_file_cut_anywhere_says_how_much_is_missing() {
        let bytes = everything();
        for length in 0..bytes.len() {
            match read(&bytes[..length]) {
                Err(HeaderError::Truncated { missing }) => assert!(missing as usize <= bytes.len() - length),
                other => panic!("cut to {length} bytes: {other:?}"),
            }
        }
    }

    #[test]
    fn lengths_that_no_file_has_are_refused_before_anything_is_allocated() {
        let huge = u64::MAX.to_le_bytes();
        let far_list = [&0u32.to_le_bytes()[..], &(1u64 << 60).to_le_bytes()].concat();
        let mut deep = Vec::new();
        for _ in 0..100_000 {
            deep.extend(9u32.to_le_bytes());
            deep.extend(1u64.to_le_bytes());
        }
        let cases = [
            ("tensor count", start(3, u64::MAX, 0)),
            ("key count", start(3, 0, u64::MAX)),
            (
                "key length",
                [start(3, 0, 1), huge.to_vec(), vec![0; 64]].concat(),
            ),
            (
                "text length",
                [start(3, 0, 1), key("k", 8, &huge), vec![0; 64]].concat(),
            ),
            (
                "list length",
                [start(3, 0, 1), key("k", 9, &far_list), vec![0; 64]].concat(),
            ),
            ("nested lists", [start(3, 0, 1), key("k", 9, &deep)].concat()),
            ("unknown type", [start(3, 0, 1), key("k", 77, &[0; 64])].concat()),
            (
                "alignment 0",
                [start(3, 0, 1), key("general.alignment", 4, &0u32.to_le_bytes())].concat(),
            ),
            (
                "alignment 24",
                [start(3, 0, 1), key("general.alignment", 4, &24u32.to_le_bytes())].concat(),
            ),
            (
                "alignment as text",
                [start(3, 0, 1), key("general.alignment", 8, &text("32"))].concat(),
            ),
            (
                "the same key twice",
                [start(3, 0, 2), key("k", 0, &[1]), key("k", 0, &[2])].concat(),
            ),
            ("no dimensions", [start(3, 1, 0), tensor("t", &[], 0, 0)].concat()),
            (
                "five dimensions",
                [start(3, 1, 0), tensor("t", &[1; 5], 0, 0)].concat(),
            ),
            (
                "size that overflows",
                [start(3, 1, 0), tensor("t", &[1 << 40, 1 << 40], 0, 0)].concat(),
            ),
            (
                "size zero",
                [start(3, 1, 0), tensor("t", &[32, 0], 0, 0)].concat(),
            ),
            (
                "broken block",
                [start(3, 1, 0), tensor("t", &[33], 8, 0)].concat(),
            ),
            (
                "crooked offset",
                [start(3, 1, 0), tensor("t", &[32], 0, 7)].concat(),
            ),
            (
                "offset that overflows",
                [start(3, 1, 0), tensor("t", &[32], 0, u64::MAX - 31)].concat(),
            ),
            (
                "the same tensor twice",
                [
                    start(3, 2, 0),
                    tensor("t", &[1], 0, 0),
                    tensor("t", &[1], 0, 32),
                    vec![0; 99],
                ]
                .concat(),
            ),
            ("another magic", [b"GGML".to_vec(), vec![0; 64]].concat()),
        ];
        for (name, bytes) in cases {
            assert!(
                matches!(read(&bytes), Err(HeaderError::Invalid(_))),
                "{name}: {:?}",
                read(&bytes)
            );
        }
        let far = [start(3, 1, 0), tensor("t", &[32], 0, 1 << 50)].concat();
        assert!(matches!(read(&far), Err(HeaderError::Truncated { missing }) if missing >= 1 << 50));
    }

    #[test]
    fn what_is_sound_but_not_built_is_refused_by_name() {
        let cases = [
            (start(1, 0, 0), "GGUF version 1"),
            (start(4, 0, 0), "GGUF version 4"),
            (start(3u32.swap_bytes(), 0, 0), "big-endian"),
            ([start(3, 1, 0), tensor("t", &[256], 16, 0)].concat(), "IQ2_XXS"),
            (
                [start(3, 1, 0), tensor("t", &[256], 999, 0)].concat(),
                "number 999",
            ),
        ];
        for (bytes, name) in cases {
            match read(&bytes) {
                Err(HeaderError::Unsupported { what, .. }) => assert!(what.contains(name), "{what}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&[&start(3, 2, 2)[..], &bytes].concat());
            let _ = read(&bytes);
        }

        #[test]
        fn no_change_of_a_sound_file_makes_it_panic_or_point_outside(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        ) {
            let mut bytes = everything();
            for (index, byte) in changes {
                let at = index.index(bytes.len());
                bytes[at] = byte;
            }
            if let Ok(header) = read(&bytes) {
                for info in header.tensors.values() {
                    let blocks = info.elements() / info.format.block_elements();
                    prop_assert!(info.start + (blocks * info.format.block_bytes()) as u64 <= bytes.len() as u64);
                }
            }
        }
    }
}
