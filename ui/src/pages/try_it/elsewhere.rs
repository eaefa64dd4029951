//! The adapter in other programs: where it lies, and the lines that load it onto its base.

use egui::{Label, RichText, Ui};
use tunesmith_protocol::DType;

use super::{ChosenRun, chosen::Base};
use crate::{
    commands::{Command, Commands},
    theme, widgets,
};

/// The folder, the lines, and what to beware of.
pub(super) fn elsewhere_ui(run: &ChosenRun, ui: &mut Ui, out: &mut Commands) {
    widgets::panel(ui, "Use it elsewhere", |ui| {
        let folder = run.adapter.display().to_string();
        ui.horizontal(|ui| {
            let room = (ui.available_width() - 200.0).max(120.0);
            ui.scope(|ui| {
                ui.set_max_width(room);
                ui.add(Label::new(RichText::new(&folder).monospace()).truncate());
            });
            if widgets::small_button(ui, "Open the folder").clicked() {
                out.push(Command::Open(run.adapter.clone()));
            }
            widgets::copy_button(ui, "the adapter's folder", &folder, out);
        });
        widgets::caption(
            ui,
            "The adapter in PEFT's format. With transformers and PEFT these lines load it onto its base:",
        );
        widgets::command_block(ui, &peft_lines(run), out);
        ui.add_space(theme::GRID);
        widgets::caption(
            ui,
            &format!(
                "The adapter records its base: adapter_config.json names it, tunesmith_base.json has the fingerprint {} of its weights. On other weights it answers too, only worse, and nothing warns",
                run.fingerprint.chars().take(12).collect::<String>()
            ),
        );
        widgets::caption(
            ui,
            "To merge it, load the base unquantised as above and call model.merge_and_unload(); merged into a quantised base, most of what was learned is rounded away",
        );
    });
}

/// Python that loads the base model and the adapter on it.
fn peft_lines(run: &ChosenRun) -> String {
    let Base {
        place,
        file,
        revision,
    } = &run.base;
    let mut arguments = vec![quoted(place)];
    if let Some(revision) = revision {
        arguments.push(format!("revision={}", quoted(revision)));
    }
    if let Some(file) = file {
        arguments.push(format!("gguf_file={}", quoted(file)));
    }
    let arguments = arguments.join(", ");
    let dtype = match run.dtype {
        DType::F32 => "float32",
        DType::Bf16 => "bfloat16",
        DType::F16 => "float16",
    };
    let adapter = quoted(&run.adapter.display().to_string());
    format!(
        "import torch\n\
         from peft import PeftModel\n\
         from transformers import AutoModelForCausalLM, AutoTokenizer\n\
         \n\
         tokenizer = AutoTokenizer.from_pretrained({arguments})\n\
         base = AutoModelForCausalLM.from_pretrained({arguments}, dtype=torch.{dtype})\n\
         model = PeftModel.from_pretrained(base, {adapter})"
    )
}

/// A text as Python writes it; JSON's escapes are Python's too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn run(base: Base, dtype: DType) -> ChosenRun {
        ChosenRun {
            id: "r1".to_owned(),
            title: String::new(),
            model: String::new(),
            adapter: PathBuf::from("/runs/r1/adapter"),
            base,
            dtype,
            fingerprint: String::new(),
            has_questions: true,
        }
    }

    #[test]
    fn a_model_from_a_hub_is_loaded_at_its_commit() {
        let base = Base {
            place: "owner/name".to_owned(),
            file: None,
            revision: Some("0123abc".to_owned()),
        };
        let lines = peft_lines(&run(base, DType::Bf16));
        let base = r#"from_pretrained("owner/name", revision="0123abc", dtype=torch.bfloat16)"#;
        assert!(lines.contains(base), "{lines}");
        assert!(
            lines.ends_with(r#"PeftModel.from_pretrained(base, "/runs/r1/adapter")"#),
            "{lines}"
        );
    }

    #[test]
    fn a_file_on_this_machine_is_loaded_from_its_folder_and_paths_are_quoted() {
        let base = Base {
            place: r"C:\models".to_owned(),
            file: Some("a \"b\".gguf".to_owned()),
            revision: None,
        };
        let lines = peft_lines(&run(base, DType::F32));
        assert!(
            lines.contains(r#"("C:\\models", gguf_file="a \"b\".gguf", dtype=torch.float32)"#),
            "{lines}"
        );
    }
}
