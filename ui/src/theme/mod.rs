//! How the window looks: every colour, size and font, in one place. Pages take what they need from [`Tokens`] and the
//! constants here, and from nowhere else.

mod fonts;
mod tokens;

use egui::{
    Color32, Context, CornerRadius, FontFamily, FontId, Margin, Shadow, Stroke, Style, TextStyle, Theme, Ui,
    Visuals,
    style::{Selection, WidgetVisuals, Widgets},
    vec2,
};

pub use tokens::{SERIES, Tokens, Tone};

/// The grid that distances are multiples of, in points.
pub const GRID: f32 = 4.0;
/// Between two panels.
pub const GAP: f32 = 16.0;
/// Between a panel's edge and what is in it.
pub const INSET: f32 = 16.0;
/// Height of a row of a list.
pub const ROW: f32 = 28.0;
/// Widest column of content.
pub const COLUMN: f32 = 1100.0;
/// Corner of a panel.
pub const CORNER: u8 = 8;
/// Corner of a button, a field and a badge.
pub const SMALL_CORNER: u8 = 5;

/// Size of the sentence that opens a page.
pub const TITLE: f32 = 24.0;
/// Size of a panel's heading.
pub const HEADING: f32 = 17.0;
/// Size of text.
pub const BODY: f32 = 15.0;
/// Size of what stands beside the text.
pub const SMALL: f32 = 13.0;

/// The heavier of the two weights.
pub fn semibold() -> FontFamily {
    FontFamily::Name("semibold".into())
}

/// The sentence that opens a page.
pub fn title_font() -> FontId {
    FontId::new(TITLE, semibold())
}

/// The one large figure of a panel.
pub fn figure_font() -> FontId {
    FontId::new(34.0, semibold())
}

/// A panel's heading.
pub fn heading_font() -> FontId {
    FontId::new(HEADING, semibold())
}

/// Text that stands out in a line.
pub fn strong_font() -> FontId {
    FontId::new(BODY, semibold())
}

/// The tokens of the theme that a [`Ui`] is drawn in.
pub fn tokens(ui: &Ui) -> &'static Tokens {
    of(ui.visuals().dark_mode)
}

/// The tokens of a theme.
pub fn of(dark: bool) -> &'static Tokens {
    if dark { &tokens::DARK } else { &tokens::LIGHT }
}

/// Makes a context look like this: fonts once, and the style of both themes.
pub fn install(ctx: &Context) {
    ctx.set_fonts(fonts::definitions());
    ctx.add_glyph_rasterizer(fonts::raised_minus());
    for theme in [Theme::Dark, Theme::Light] {
        ctx.set_style_of(theme, style(theme == Theme::Dark));
    }
}

fn style(dark: bool) -> Style {
    let tokens = of(dark);
    let mut style = Style {
        visuals: visuals(dark, tokens),
        animation_time: 0.1,
        ..Style::default()
    };
    style.text_styles = [
        (TextStyle::Small, FontId::new(SMALL, FontFamily::Proportional)),
        (TextStyle::Body, FontId::new(BODY, FontFamily::Proportional)),
        (TextStyle::Button, FontId::new(BODY, FontFamily::Proportional)),
        (TextStyle::Monospace, FontId::new(SMALL, FontFamily::Monospace)),
        (TextStyle::Heading, heading_font()),
        (TextStyle::Name("title".into()), title_font()),
    ]
    .into();
    let spacing = &mut style.spacing;
    spacing.item_spacing = vec2(2.0 * GRID, 2.0 * GRID);
    spacing.button_padding = vec2(3.0 * GRID, 1.5 * GRID);
    spacing.interact_size = vec2(40.0, ROW);
    spacing.icon_width = 18.0;
    spacing.icon_width_inner = 10.0;
    spacing.menu_margin = Margin::same(8);
    spacing.tooltip_width = 420.0;
    spacing.combo_width = 120.0;
    spacing.text_edit_width = 240.0;
    spacing.slider_width = 180.0;
    spacing.scroll = egui::style::ScrollStyle::solid();
    spacing.scroll.bar_width = 8.0;
    spacing.scroll.foreground_color = false;
    style.interaction.selectable_labels = true;
    style.interaction.tooltip_delay = 0.3;
    style
}

fn visuals(dark: bool, tokens: &Tokens) -> Visuals {
    let base = if dark { Visuals::dark() } else { Visuals::light() };
    let corner = CornerRadius::same(SMALL_CORNER);
    let widget = |fill: Color32, line: Color32, text: Color32| WidgetVisuals {
        bg_fill: fill,
        weak_bg_fill: fill,
        bg_stroke: Stroke::new(1.0, line),
        corner_radius: corner,
        fg_stroke: Stroke::new(1.0, text),
        expansion: 0.0,
    };
    Visuals {
        dark_mode: dark,
        override_text_color: None,
        weak_text_color: Some(tokens.weak_text),
        widgets: Widgets {
            noninteractive: widget(tokens.panel, tokens.line, tokens.text),
            inactive: widget(tokens.control, tokens.control_line, tokens.text),
            hovered: widget(
                tokens.control_hovered,
                tokens.control_line_strong,
                tokens.strong_text,
            ),
            active: widget(
                tokens.control_pressed,
                tokens.control_line_strong,
                tokens.strong_text,
            ),
            open: widget(tokens.control_hovered, tokens.control_line, tokens.strong_text),
        },
        selection: Selection {
            bg_fill: tokens.selection,
            stroke: Stroke::new(2.0, tokens.accent),
        },
        hyperlink_color: tokens.link,
        faint_bg_color: tokens.faint,
        extreme_bg_color: tokens.field,
        text_edit_bg_color: Some(tokens.field),
        code_bg_color: tokens.code,
        warn_fg_color: tokens.tone(Tone::Warn).text,
        error_fg_color: tokens.tone(Tone::Stop).text,
        window_corner_radius: CornerRadius::same(CORNER),
        menu_corner_radius: CornerRadius::same(CORNER),
        window_fill: tokens.panel,
        window_stroke: Stroke::new(1.0, tokens.line),
        window_shadow: Shadow {
            offset: [0, 4],
            blur: 16,
            spread: 0,
            color: tokens.shadow,
        },
        popup_shadow: Shadow {
            offset: [0, 2],
            blur: 8,
            spread: 0,
            color: tokens.shadow,
        },
        panel_fill: tokens.ground,
        striped: false,
        ..base
    }
}
