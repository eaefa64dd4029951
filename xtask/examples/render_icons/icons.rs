//! From drawings to the files of an icon. Windows and macOS each have a container of their own, which holds the same PNGs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Edges in pixels: what hicolor themes, Windows and macOS ask for.
pub(crate) const SIZES: [u32; 9] = [16, 24, 32, 48, 64, 128, 256, 512, 1024];

/// Up to this edge the drawing is used that leaves out what would blur.
const SMALL: u32 = 24;

/// Edges in a Windows icon, which cannot tell more than 256.
const ICO: [u32; 7] = [16, 24, 32, 48, 64, 128, 256];

/// Kinds of pictures in an Apple icon; each edge but the first two also stands for half of it on a dense screen.
const ICNS: [(&[u8; 4], u32); 8] = [
    (b"ic11", 32),
    (b"ic12", 64),
    (b"ic07", 128),
    (b"ic08", 256),
    (b"ic13", 256),
    (b"ic09", 512),
    (b"ic14", 512),
    (b"ic10", 1024),
];

/// The icon as pixels, `size` by `size`.
pub(crate) fn render(folder: &Path, size: u32) -> Result<Pixmap> {
    let name = if size <= SMALL {
        "tunesmith-small.svg"
    } else {
        "tunesmith.svg"
    };
    let file = folder.join(name);
    let drawing = std::fs::read(&file).with_context(|| file.display().to_string())?;
    let tree = Tree::from_data(&drawing, &Options::default()).with_context(|| file.display().to_string())?;
    let mut pixels = Pixmap::new(size, size).context("there is no room for the pixels")?;
    let scale = size as f32 / tree.size().width();
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    Ok(pixels)
}

/// A Windows icon: a header, an entry of 16 bytes for each picture, the pictures.
pub(crate) fn ico(pngs: &BTreeMap<u32, Vec<u8>>) -> Vec<u8> {
    let mut head: Vec<u8> = Vec::new();
    for word in [0_u16, 1, ICO.len() as u16] {
        head.extend(word.to_le_bytes());
    }
    let mut body: Vec<u8> = Vec::new();
    let start = head.len() + 16 * ICO.len();
    for size in ICO {
        let png = &pngs[&size];
        // 256 does not fit into a byte and is written as 0.
        let edge = size as u8;
        head.extend([edge, edge, 0, 0, 1, 0, 32, 0]);
        head.extend((png.len() as u32).to_le_bytes());
        head.extend(((start + body.len()) as u32).to_le_bytes());
        body.extend(png);
    }
    head.extend(body);
    head
}

/// An Apple icon: pieces of a kind, their length with these eight bytes, and a picture.
pub(crate) fn icns(pngs: &BTreeMap<u32, Vec<u8>>) -> Vec<u8> {
    let mut body: Vec<u8> = Vec::new();
    for (kind, size) in ICNS {
        let png = &pngs[&size];
        body.extend(kind);
        body.extend((8 + png.len() as u32).to_be_bytes());
        body.extend(png);
    }
    let mut file = b"icns".to_vec();
    file.extend((8 + body.len() as u32).to_be_bytes());
    file.extend(body);
    file
}
