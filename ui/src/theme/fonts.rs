//! The bundled faces. Their digits all have one width, so that columns of figures line up.

use std::sync::Arc;

use egui::{
    Color32, ColorImage, FontData, FontDefinitions, FontFamily,
    epaint::text::{GlyphBitmap, GlyphRasterizer, GlyphRasterizerRequest, RasterizedGlyph},
    vec2,
};

use super::semibold;

pub(super) fn definitions() -> FontDefinitions {
    let mut fonts = FontDefinitions::empty();
    let faces: [(&str, &'static [u8]); 3] = [
        (
            "source-sans",
            include_bytes!("../../../assets/fonts/SourceSansPro-Regular.ttf"),
        ),
        (
            "source-sans-semibold",
            include_bytes!("../../../assets/fonts/SourceSansPro-Semibold.ttf"),
        ),
        (
            "jetbrains-mono",
            include_bytes!("../../../assets/fonts/JetBrainsMono-Regular.ttf"),
        ),
    ];
    for (name, bytes) in faces {
        fonts
            .font_data
            .insert(name.to_owned(), Arc::new(FontData::from_static(bytes)));
    }
    // The mono face has the signs that the text face lacks.
    let families = [
        (FontFamily::Proportional, ["source-sans", "jetbrains-mono"]),
        (semibold(), ["source-sans-semibold", "jetbrains-mono"]),
        (FontFamily::Monospace, ["jetbrains-mono", "source-sans"]),
    ];
    for (family, names) in families {
        fonts
            .families
            .insert(family, names.into_iter().map(str::to_owned).collect());
    }
    fonts
}

/// The raised minus of `10⁻⁴`, which neither face has: a bar as high as their raised digits.
pub(super) fn raised_minus() -> GlyphRasterizer {
    GlyphRasterizer::new(
        "tunesmith: raised minus",
        |request: &GlyphRasterizerRequest<'_>| {
            if request.cluster != "\u{207b}" {
                return None;
            }
            let em = request.font_size_px;
            let width = (0.3 * em).round().max(2.0) as usize;
            let height = (0.07 * em).round().max(1.0) as usize;
            Some(RasterizedGlyph {
                bitmap: GlyphBitmap {
                    image: ColorImage::filled([width, height], Color32::WHITE),
                    offset_px: vec2((0.03 * em).round(), -(0.55 * em).round()),
                    is_color: false,
                },
                advance_px: 0.36 * em,
            })
        },
    )
}
