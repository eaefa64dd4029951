//! The icons that packages carry are the ones that the drawings make.

// A test helper that cannot go on should say so at once.
#![allow(clippy::unwrap_used)]

#[path = "../examples/render_icons/icons.rs"]
mod icons;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use resvg::tiny_skia::Pixmap;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/icons")
}

fn pngs() -> BTreeMap<u32, Vec<u8>> {
    let read = |size: u32| std::fs::read(folder().join(format!("png/{size}.png"))).unwrap();
    icons::SIZES.into_iter().map(|size| (size, read(size))).collect()
}

/// Versions of the renderer may round differently; another drawing looks different.
#[test]
fn every_picture_shows_its_drawing() {
    for (size, png) in pngs() {
        let kept = Pixmap::decode_png(&png).unwrap();
        let drawn = icons::render(&folder(), size).unwrap();
        assert_eq!((kept.width(), kept.height()), (size, size));
        let off: u64 = kept
            .data()
            .iter()
            .zip(drawn.data())
            .map(|(kept, drawn)| u64::from(kept.abs_diff(*drawn)))
            .sum();
        let mean = off as f64 / kept.data().len() as f64;
        assert!(
            mean < 1.0,
            "{size}: levels differ by {mean:.2} on average; run `cargo xtask icons`"
        );
        // A picture of nothing would be alike too.
        assert!(drawn.pixels().iter().any(|pixel| pixel.red() > 200), "{size}");
    }
}

#[test]
fn windows_and_apple_icons_hold_these_pictures() {
    let pngs = pngs();
    for (name, made) in [
        ("tunesmith.ico", icons::ico(&pngs)),
        ("tunesmith.icns", icons::icns(&pngs)),
    ] {
        let kept = std::fs::read(folder().join(name)).unwrap();
        assert!(
            kept == made,
            "{name} holds other pictures; run `cargo xtask icons`"
        );
    }
}
