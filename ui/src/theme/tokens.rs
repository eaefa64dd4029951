//! The colours by what they are for, dark and light. A test holds every text to a contrast of 4.5 to 1.

use egui::Color32;

const fn rgb(hex: u32) -> Color32 {
    Color32::from_rgb((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

/// Colours of a theme.
#[derive(Debug)]
pub struct Tokens {
    /// Behind everything.
    pub ground: Color32,
    /// A panel.
    pub panel: Color32,
    /// The rail and the strip.
    pub frame: Color32,
    /// Every second row, a hovered row.
    pub faint: Color32,
    /// What can be typed into.
    pub field: Color32,
    /// Behind a command.
    pub code: Color32,
    /// Lines between and around.
    pub line: Color32,
    /// Text.
    pub text: Color32,
    /// Headings and figures.
    pub strong_text: Color32,
    /// Units, captions, what matters less.
    pub weak_text: Color32,
    /// The one action, the current series.
    pub accent: Color32,
    /// The accent under the pointer.
    pub accent_hovered: Color32,
    /// Text on the accent.
    pub on_accent: Color32,
    /// A link.
    pub link: Color32,
    /// Behind selected text.
    pub selection: Color32,
    /// A button.
    pub control: Color32,
    /// Under the pointer.
    pub control_hovered: Color32,
    /// Pressed.
    pub control_pressed: Color32,
    /// Around a button.
    pub control_line: Color32,
    /// Around one that is under the pointer.
    pub control_line_strong: Color32,
    /// Grid lines of charts.
    pub grid: Color32,
    /// Shadows.
    pub shadow: Color32,
    tones: [ToneColours; 5],
}

/// Colours of a verdict.
#[derive(Clone, Copy, Debug)]
pub struct ToneColours {
    /// Its word and its shape, on ground, panel or its own fill.
    pub text: Color32,
    /// Behind it.
    pub fill: Color32,
}

/// A verdict, which has its word and its shape beside its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tone {
    /// All is well.
    Ok,
    /// Worth knowing.
    Note,
    /// May do harm.
    Warn,
    /// Nothing goes on like this.
    Stop,
    /// Not known, which is not well.
    Unknown,
}

impl Tone {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Stop => "stop",
            Self::Unknown => "unknown",
        }
    }
}

impl Tokens {
    /// Colours of a verdict.
    pub fn tone(&self, tone: Tone) -> ToneColours {
        self.tones[tone as usize]
    }

    /// Colour of a series: the first is the accent, further ones are the Okabe-Ito set without its orange and yellow.
    pub fn series(&self, index: usize) -> Color32 {
        if index == 0 {
            self.accent
        } else {
            SERIES[(index - 1) % SERIES.len()]
        }
    }
}

/// Colours of further series (Okabe and Ito, 2008), told apart by people who see colours differently.
pub const SERIES: [Color32; 5] = [
    rgb(0x0000_72B2),
    rgb(0x0000_9E73),
    rgb(0x00CC_79A7),
    rgb(0x0056_B4E9),
    rgb(0x00D5_5E00),
];

pub(super) static DARK: Tokens = Tokens {
    ground: rgb(0x0019_1816),
    panel: rgb(0x0022_211E),
    frame: rgb(0x0014_1312),
    faint: rgb(0x002A_2926),
    field: rgb(0x0017_1614),
    code: rgb(0x0017_1614),
    line: rgb(0x0037_3531),
    text: rgb(0x00D9_D6D0),
    strong_text: rgb(0x00F6_F4EF),
    weak_text: rgb(0x00A3_9F97),
    accent: rgb(0x00FF_8A4C),
    accent_hovered: rgb(0x00FF_A36F),
    on_accent: rgb(0x0020_1006),
    link: rgb(0x0089_BFF2),
    selection: rgb(0x005A_3A26),
    control: rgb(0x002E_2C28),
    control_hovered: rgb(0x0039_3732),
    control_pressed: rgb(0x0044_413B),
    control_line: rgb(0x0048_453F),
    control_line_strong: rgb(0x0077_7268),
    grid: rgb(0x0032_302C),
    shadow: Color32::from_black_alpha(110),
    tones: [
        ToneColours {
            text: rgb(0x006F_CF97),
            fill: rgb(0x001D_3226),
        },
        ToneColours {
            text: rgb(0x0089_BFF2),
            fill: rgb(0x001E_2E3E),
        },
        ToneColours {
            text: rgb(0x00F2_C14E),
            fill: rgb(0x0039_2F16),
        },
        ToneColours {
            text: rgb(0x00FF_8F87),
            fill: rgb(0x0042_201E),
        },
        ToneColours {
            text: rgb(0x00B4_AFA6),
            fill: rgb(0x002E_2C28),
        },
    ],
};

pub(super) static LIGHT: Tokens = Tokens {
    ground: rgb(0x00F4_F2EE),
    panel: rgb(0x00FF_FEFB),
    frame: rgb(0x00EA_E7E1),
    faint: rgb(0x00F5_F3EE),
    field: rgb(0x00FF_FFFF),
    code: rgb(0x00F3_F0EA),
    line: rgb(0x00DD_D8CF),
    text: rgb(0x0033_302B),
    strong_text: rgb(0x0018_1613),
    weak_text: rgb(0x0066_6157),
    accent: rgb(0x00C9_4A05),
    accent_hovered: rgb(0x00A8_3D03),
    on_accent: rgb(0x00FF_FFFF),
    link: rgb(0x0013_5FA8),
    selection: rgb(0x00FB_D9C3),
    control: rgb(0x00FA_F8F4),
    control_hovered: rgb(0x00F0_EDE6),
    control_pressed: rgb(0x00E4_E0D7),
    control_line: rgb(0x00C9_C3B8),
    control_line_strong: rgb(0x008C_8578),
    grid: rgb(0x00E8_E4DC),
    shadow: Color32::from_black_alpha(40),
    tones: [
        ToneColours {
            text: rgb(0x0012_6B3A),
            fill: rgb(0x00E0_F3E7),
        },
        ToneColours {
            text: rgb(0x0013_5FA8),
            fill: rgb(0x00E2_EEF9),
        },
        ToneColours {
            text: rgb(0x007A_5200),
            fill: rgb(0x00FB_EFD0),
        },
        ToneColours {
            text: rgb(0x00A8_1F18),
            fill: rgb(0x00FB_E4E1),
        },
        ToneColours {
            text: rgb(0x0059_554C),
            fill: rgb(0x00EB_E8E2),
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Contrast of two colours (WCAG 2.1, relative luminance).
    fn contrast(a: Color32, b: Color32) -> f64 {
        let luminance = |colour: Color32| {
            let channel = |value: u8| {
                let value = f64::from(value) / 255.0;
                if value <= 0.040_45 {
                    value / 12.92
                } else {
                    ((value + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * channel(colour.r()) + 0.7152 * channel(colour.g()) + 0.0722 * channel(colour.b())
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn every_text_can_be_read() {
        for (name, tokens) in [("dark", &DARK), ("light", &LIGHT)] {
            let backgrounds = [
                tokens.ground,
                tokens.panel,
                tokens.frame,
                tokens.faint,
                tokens.field,
                tokens.code,
            ];
            let texts = [tokens.text, tokens.strong_text, tokens.weak_text, tokens.link];
            let mut pairs: Vec<(Color32, Color32)> = texts
                .into_iter()
                .flat_map(|text| backgrounds.map(|background| (text, background)))
                .collect();
            pairs.extend([
                (tokens.on_accent, tokens.accent),
                (tokens.on_accent, tokens.accent_hovered),
                (tokens.accent, tokens.panel),
                (tokens.text, tokens.control),
                (tokens.strong_text, tokens.control_hovered),
                (tokens.strong_text, tokens.selection),
            ]);
            for tone in tokens.tones {
                pairs.extend([
                    (tone.text, tone.fill),
                    (tone.text, tokens.panel),
                    (tone.text, tokens.ground),
                ]);
            }
            let faint: Vec<String> = pairs
                .into_iter()
                .filter(|(text, background)| contrast(*text, *background) < 4.5)
                .map(|(text, background)| {
                    format!("{text:?} on {background:?}: {:.2}", contrast(text, background))
                })
                .collect();
            assert!(faint.is_empty(), "{name}: {faint:#?}");
        }
    }
}
