//! Faces of the system for scripts that the bundled ones lack: data sets, prompts and answers are in any language. Nothing
//! is looked for before such a sign is to be drawn. Drawing only notes the sign and shows a box; a face is looked for in
//! the background, and then the text is drawn anew. What is looked at of a file is the table of its signs, and whole files
//! are read only of the faces that are used.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use directories::UserDirs;
use egui::{Context, FallbackRequest, FontData, FontInsert, FontProvider};
use skrifa::raw::{FontData as Table, FontRead, tables::cmap::Cmap};

use super::Work;
use crate::state::State;

/// Folders below a folder of fonts that are still looked into.
const DEEPEST: usize = 6;
/// Most files that are looked at.
const MOST_FILES: usize = 5_000;
/// Longest table of signs, in bytes: the largest real ones have a few hundred thousand.
const LONGEST_TABLE: u32 = 16 << 20;
/// What in a file's name makes a face less suited to text between other text, and by how much.
const UNSUITED: [(&str, u32); 11] = [
    ("color", 8),
    ("bold", 4),
    ("black", 4),
    ("italic", 4),
    ("oblique", 4),
    ("condensed", 2),
    ("thin", 2),
    ("light", 2),
    ("medium", 1),
    ("serif", 1),
    ("mono", 1),
];

/// A face that was found.
struct Face {
    /// Its table of signs.
    table: Vec<u8>,
    insert: FontInsert,
}

#[derive(Default)]
struct Known {
    faces: Vec<Face>,
    /// Signs to be looked for.
    wanted: BTreeSet<char>,
    /// Signs that were looked for, found or not.
    sought: BTreeSet<char>,
}

/// The faces of the system.
pub struct SystemFaces {
    folders: Vec<PathBuf>,
    known: Mutex<Known>,
}

impl SystemFaces {
    /// Lets a context ask for the faces of this system.
    pub fn install(ctx: &Context) -> Arc<Self> {
        let faces = Arc::new(Self::in_folders(usual_folders()));
        ctx.add_font_provider(faces.clone());
        faces
    }

    fn in_folders(folders: Vec<PathBuf>) -> Self {
        Self {
            folders,
            known: Mutex::default(),
        }
    }

    /// Whether a sign is to be looked for.
    pub fn is_wanted(&self) -> bool {
        !self.known().wanted.is_empty()
    }

    /// The work that looks for a face, where a sign has none; what it finds is drawn with from then on.
    pub fn needs(self: &Arc<Self>, ctx: &Context) -> Option<Work> {
        let mut known = self.known();
        if known.wanted.is_empty() {
            return None;
        }
        let wanted = std::mem::take(&mut known.wanted);
        known.sought.extend(&wanted);
        let (faces, ctx) = (Arc::clone(self), ctx.clone());
        Some(Work::new("looking for a face", move || {
            let found = find(&faces.folders, wanted);
            move |_: &mut State| {
                if !found.is_empty() {
                    faces.known().faces.extend(found);
                    // Signs that had no face are asked for anew.
                    let faces: Arc<dyn FontProvider> = faces;
                    ctx.set_font_providers(vec![faces]);
                }
            }
        }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // What is known is whole between any two of its changes.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FontProvider for SystemFaces {
    fn font_for(&self, request: &FallbackRequest<'_>) -> Option<FontInsert> {
        let sign = request.cluster.chars().next()?;
        let mut known = self.known();
        let face = known.faces.iter().find(|face| has(&face.table, sign));
        let insert = face.map(|face| face.insert.clone());
        if insert.is_none() && !known.sought.contains(&sign) {
            known.wanted.insert(sign);
        }
        insert
    }
}

/// Where systems keep their fonts.
fn usual_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = [
        "/usr/share/fonts",
        "/usr/local/share/fonts",
        "/run/current-system/sw/share/X11/fonts",
        "/System/Library/Fonts",
        "/Library/Fonts",
    ]
    .map(PathBuf::from)
    .to_vec();
    let below = |name: &str, rest: &str| Some(Path::new(&env::var_os(name)?).join(rest));
    folders.extend(below("WINDIR", "Fonts"));
    folders.extend(below("LOCALAPPDATA", "Microsoft/Windows/Fonts"));
    if let Some(user) = UserDirs::new() {
        folders.extend(user.font_dir().map(Path::to_owned));
        folders.push(user.home_dir().join(".fonts"));
    }
    folders
}

/// A face for each of the signs, as far as there is one; plain ones before others.
fn find(folders: &[PathBuf], mut wanted: BTreeSet<char>) -> Vec<Face> {
    let mut files = Vec::new();
    for folder in folders {
        collect(folder, DEEPEST, &mut files);
    }
    files.sort_by_cached_key(|path| (unsuited(path), path.clone()));
    let mut found = Vec::new();
    for path in files {
        if wanted.is_empty() {
            break;
        }
        let Some(table) = table_of(&path) else { continue };
        let before = wanted.len();
        wanted.retain(|sign| !has(&table, *sign));
        if wanted.len() < before
            && let Ok(bytes) = fs::read(&path)
        {
            let name = path.to_string_lossy();
            let insert = FontInsert::new(&name, FontData::from_owned(bytes), Vec::new());
            found.push(Face { table, insert });
        }
    }
    found
}

/// The files of fonts in a folder and below. What cannot be read is passed over.
fn collect(folder: &Path, deep: usize, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if files.len() >= MOST_FILES {
            return;
        }
        let path = entry.path();
        let ending = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if matches!(ending.as_str(), "ttf" | "otf" | "ttc" | "otc") {
            files.push(path);
        } else if deep > 0 && ending.is_empty() && path.is_dir() {
            collect(&path, deep - 1, files);
        }
    }
}

fn unsuited(path: &Path) -> u32 {
    let name = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    let held = UNSUITED.iter().filter(|(part, _)| name.contains(part));
    held.map(|(_, weight)| weight).sum()
}

/// The table in which a file of fonts lists its signs; of a collection that of its first face. `None` where it is no such
/// file.
fn table_of(path: &Path) -> Option<Vec<u8>> {
    let number = |bytes: &[u8]| Some(u32::from_be_bytes(bytes.try_into().ok()?));
    let mut file = File::open(path).ok()?;
    let mut head = [0; 16];
    file.read_exact(&mut head).ok()?;
    let mut start = 0;
    if head.starts_with(b"ttcf") {
        start = number(&head[12..])?;
        file.seek(SeekFrom::Start(start.into())).ok()?;
        file.read_exact(&mut head[..12]).ok()?;
    }
    file.seek(SeekFrom::Start(u64::from(start) + 12)).ok()?;
    for _ in 0..u16::from_be_bytes([head[4], head[5]]) {
        let mut record = [0; 16];
        file.read_exact(&mut record).ok()?;
        if record.starts_with(b"cmap") {
            let (place, length) = (number(&record[8..12])?, number(&record[12..])?);
            if length > LONGEST_TABLE {
                return None;
            }
            file.seek(SeekFrom::Start(place.into())).ok()?;
            let mut table = vec![0; length as usize];
            file.read_exact(&mut table).ok()?;
            return Some(table);
        }
    }
    None
}

/// Whether a table has a sign. The first glyph of every face stands for all that it lacks.
fn has(table: &[u8], sign: char) -> bool {
    let glyph = Cmap::read(Table::new(table))
        .ok()
        .and_then(|table| table.map_codepoint(sign));
    glyph.is_some_and(|glyph| glyph.to_u32() != 0)
}

#[cfg(test)]
mod tests {
    use egui::{FontDefinitions, FontFamily, FontId, RawInput};

    use super::*;

    /// In the mono face and in no other that comes with the program.
    const FRAME: char = '│';
    /// In none of them.
    const HAN: char = '中';

    fn assets() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/fonts")
    }

    /// A context with the text face alone, that asks for the faces in a folder.
    fn context(faces: &Arc<SystemFaces>) -> Context {
        let ctx = Context::default();
        let mut fonts = FontDefinitions::empty();
        let bytes = fs::read(assets().join("SourceSansPro-Regular.ttf")).unwrap();
        fonts
            .font_data
            .insert("text".to_owned(), Arc::new(FontData::from_owned(bytes)));
        for family in [FontFamily::Proportional, FontFamily::Monospace] {
            fonts.families.insert(family, vec!["text".to_owned()]);
        }
        ctx.set_fonts(fonts);
        ctx.add_font_provider(faces.clone());
        ctx
    }

    fn draws(ctx: &Context, sign: char) -> bool {
        let mut has = false;
        let mut output = ctx.run_ui(RawInput::default(), |ui| {
            has = ui
                .ctx()
                .fonts_mut(|fonts| fonts.has_glyph(&FontId::proportional(15.0), sign));
        });
        // Nothing is painted.
        output.textures_delta.clear();
        has
    }

    #[test]
    fn a_sign_that_the_faces_lack_is_drawn_once_one_was_found() {
        let faces = Arc::new(SystemFaces::in_folders(vec![assets()]));
        let ctx = context(&faces);
        assert!(!faces.is_wanted(), "nothing is looked for before it is wanted");
        assert!(!draws(&ctx, FRAME));
        assert!(faces.is_wanted());
        let work = faces.needs(&ctx).unwrap();
        work.run()(&mut State::for_tests());
        assert!(draws(&ctx, FRAME));
        assert!(!faces.is_wanted());
    }

    #[test]
    fn a_sign_that_no_face_has_is_looked_for_once() {
        let faces = Arc::new(SystemFaces::in_folders(vec![assets(), "/nonexistent".into()]));
        let ctx = context(&faces);
        assert!(!draws(&ctx, HAN));
        faces.needs(&ctx).unwrap().run()(&mut State::for_tests());
        assert!(!draws(&ctx, HAN));
        assert!(faces.needs(&ctx).is_none());
    }

    #[test]
    fn what_is_no_font_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut endless: Vec<u8> = vec![0; 16];
        endless[4..6].copy_from_slice(&u16::MAX.to_be_bytes());
        let mut far = b"ttcf\0\0\0\0\0\0\0\x01".to_vec();
        far.extend(u32::MAX.to_be_bytes());
        let mut long: Vec<u8> = vec![0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        long.extend(b"cmap\0\0\0\0\0\0\0\0");
        long.extend(u32::MAX.to_be_bytes());
        for (name, bytes) in [
            ("empty.ttf", Vec::new()),
            ("endless.ttf", endless),
            ("far.ttc", far),
            ("long.otf", long),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            assert_eq!(table_of(&path), None, "{name}");
        }
        assert!(!has(b"no table", 'a'));
        assert!(find(&[folder.path().to_owned()], BTreeSet::from([HAN])).is_empty());
    }

    #[test]
    fn plain_faces_go_before_others() {
        let rank = |name: &str| unsuited(Path::new(name));
        assert_eq!(rank("NotoSansCJK-Regular.ttc"), 0);
        assert!(rank("NotoSansCJK-Regular.ttc") < rank("NotoSerifCJK-Regular.ttc"));
        assert!(rank("NotoSerifCJK-Regular.ttc") < rank("NotoSansCJK-Bold.ttc"));
        assert!(rank("NotoEmoji-Regular.ttf") < rank("NotoColorEmoji.ttf"));
    }
}
