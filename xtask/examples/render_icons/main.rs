//! Renders the app's icon in every size and form that systems ask for: `cargo xtask icons`. An example and not a part of
//! xtask, so that nobody compiles a renderer who only wants to build.

mod icons;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .context("give the folder that holds tunesmith.svg")?;
    let mut pngs = BTreeMap::new();
    for size in icons::SIZES {
        pngs.insert(size, icons::render(&folder, size)?.encode_png()?);
    }
    std::fs::create_dir_all(folder.join("png"))?;
    let mut files: Vec<(String, Vec<u8>)> = pngs
        .iter()
        .map(|(size, png)| (format!("png/{size}.png"), png.clone()))
        .collect();
    files.push(("tunesmith.ico".to_owned(), icons::ico(&pngs)));
    files.push(("tunesmith.icns".to_owned(), icons::icns(&pngs)));
    for (name, bytes) in files {
        let file = folder.join(name);
        std::fs::write(&file, &bytes).with_context(|| file.display().to_string())?;
        eprintln!("{} ({} bytes)", file.display(), bytes.len());
    }
    Ok(())
}
