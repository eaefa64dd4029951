"""Makes the numeric fixtures in crates/engine/tests/fixtures/, so that the engine's tests need no Python.

    python make_fixtures.py [--check]

One folder for each architecture: a tiny random model (`config.json`, `model.safetensors`), an adapter to start from with a random
B (`adapter_start/`, PEFT's format), rows (`rows.safetensors`), and what transformers and PEFT say to them (`expected.json`):

* `logits`: of one prompt, base and with the adapter: chosen vocabulary entries at every position, and the largest absolute value
  of all entries, which relative errors are measured against.
* `four_bit`: loss and gradient norm of the same ten steps on a base in 4 bits, by bitsandbytes besides.
* `training`: settings, and loss, gradient norm and learning rate of ten steps by the conventions in `reference.py`; L2 norms of
  the adapter's matrices after them.
* `generation`: twelve greedy tokens after two prompts of different length, base and with the adapter, each generated alone, and the
  smallest lead of a chosen token's logit over the next best one.

Beside them `nf4.safetensors`: tensors, and the bytes that bitsandbytes' processor back end makes of them in 4 bits (`nf4.py`); its
metadata names the version.

`--check` makes everything anew in a temporary folder and compares it byte for byte with what is checked in; the exit status is 1
where they differ. Weights, rows and prompts depend on seeds alone. The numbers of `expected.json` are computed in 32-bit floats on
one thread and written with eight digits; another processor may round the last of them differently.
"""

from __future__ import annotations

import environment  # noqa: F401  (first: libraries read it while they are imported)

import argparse
import copy
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

import nf4
import tiny_models
from reference import Settings, adapter_parameters, add_adapter, greedy, logits_of, save_adapter, train, write_rows

FIXTURES = Path(__file__).resolve().parents[2] / "crates" / "engine" / "tests" / "fixtures"
SETTINGS = Settings(rank=4, weight_decay=0.1)
NEW_TOKENS = 12
# A lead below this could be lost to rounding, and the continuation would prove nothing.
SMALLEST_LEAD = 1e-3
FOUR_BIT = "nf4.safetensors"
MOST_BYTES = 1_500_000


def main() -> int:
    """Makes the fixtures, or checks them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with what is checked in instead of replacing it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory(prefix="tunesmith-fixtures-") as temporary:
        made = Path(temporary) / "fixtures"
        for architecture in tiny_models.ARCHITECTURES:
            make(architecture, made / architecture)
        # One entry: the order of several is not kept.
        made_by = f"xtask/python/make_fixtures.py with bitsandbytes {nf4.version()} and torch {torch.__version__}"
        save_file(nf4.fixture(), made / FOUR_BIT, metadata={"made_by": made_by})
        files = sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file())
        size = sum((made / file).stat().st_size for file in files)
        print(f"{len(files)} files, {size} bytes")
        if size > MOST_BYTES:
            raise ValueError(f"{size} bytes are too many for a repository, the limit is {MOST_BYTES}")
        if arguments.check:
            return check(made, files)
        for architecture in tiny_models.ARCHITECTURES:
            shutil.rmtree(FIXTURES / architecture, ignore_errors=True)
            shutil.copytree(made / architecture, FIXTURES / architecture)
        shutil.copy(made / FOUR_BIT, FIXTURES / FOUR_BIT)
    return 0


def check(made: Path, files: list[Path]) -> int:
    """Names files that differ from the ones checked in, or are not among them."""
    checked_in = {
        path.relative_to(FIXTURES) for name in tiny_models.ARCHITECTURES for path in (FIXTURES / name).rglob("*") if path.is_file()
    }
    if (FIXTURES / FOUR_BIT).exists():
        checked_in.add(Path(FOUR_BIT))
    different = [file for file in files if file not in checked_in or (made / file).read_bytes() != (FIXTURES / file).read_bytes()]
    different += sorted(checked_in - set(files))
    for file in different:
        print(f"differs: {file}")
    print("differs" if different else "the same, byte for byte")
    return 1 if different else 0


def make(architecture: str, folder: Path) -> None:
    """One architecture's folder."""
    size = tiny_models.FIXTURE_SIZE
    folder.mkdir(parents=True)
    tiny_models.save(tiny_models.make(architecture, size, seed=21), folder, older_config=architecture != "qwen3")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = tiny_models.random_rows(size.vocab, count=8, shortest=4, longest=24, seed=13)
    write_rows(folder / "rows.safetensors", rows)
    peft_model = add_adapter(copy.deepcopy(model), SETTINGS, seed=8, random_b=True)
    save_adapter(peft_model, folder / "adapter_start")

    prompt, *prompts = tiny_models.random_prompts(size.vocab, [16, 5, 13], seed=17)
    token_ids = list(range(0, size.vocab, 17))
    logits: dict[str, Any] = {"input_ids": prompt, "token_ids": token_ids}
    generation: dict[str, Any] = {"prompts": prompts}
    for name, subject in (("base", model), ("adapter", peft_model)):
        values = logits_of(subject, [prompt])[0]
        logits[name] = {"largest": rounded(values.abs().max().item()), "values": [rounded(v) for v in values[:, token_ids].tolist()]}
        continuations = [greedy(subject, ids, NEW_TOKENS) for ids in prompts]
        lead = min(lead for _, lead in continuations)
        if lead < SMALLEST_LEAD:
            raise ValueError(f"{architecture}, {name}: the next best token is {lead} behind; choose another seed")
        generation[name] = {"tokens": [tokens for tokens, _ in continuations], "smallest_lead": rounded(lead)}
    if logits["base"] == logits["adapter"]:
        raise ValueError(f"{architecture}: the adapter changes nothing")

    four_bit = add_adapter(nf4.four_bit_model(model, folder), SETTINGS, seed=8, random_b=True)
    four_bit_curve = train(four_bit, rows, SETTINGS)
    curve = train(peft_model, rows, SETTINGS)
    norms = {name.replace(".default.", "."): rounded(p.norm().item()) for name, p in sorted(adapter_parameters(peft_model).items())}
    expected = {
        "made_by": "xtask/python/make_fixtures.py",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__},
        "logits": logits,
        "training": {
            "settings": {**asdict(SETTINGS), "schedule": "cosine", "order": "sequential"},
            "loss": rounded(curve.loss),
            "grad_norm": rounded(curve.grad_norm),
            "lr": curve.lr,
            "adapter_norms_after": norms,
        },
        "four_bit": {
            "bitsandbytes": nf4.version(),
            "loss": rounded(four_bit_curve.loss),
            "grad_norm": rounded(four_bit_curve.grad_norm),
        },
        "generation": generation,
    }
    (folder / "expected.json").write_text(readable(expected) + "\n")


def rounded(value: Any) -> Any:
    """Numbers with eight significant digits: all that 32-bit floats hold."""
    return [rounded(inner) for inner in value] if isinstance(value, list) else float(f"{value:.8g}")


def readable(value: Any, indent: str = "") -> str:
    """JSON with one line for each list of numbers."""
    if isinstance(value, dict):
        inner = ",\n".join(f"{indent}  {json.dumps(name)}: {readable(item, indent + '  ')}" for name, item in value.items())
        return f"{{\n{inner}\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        inner = ",\n".join(f"{indent}  {json.dumps(item)}" for item in value)
        return f"[\n{inner}\n{indent}]"
    return json.dumps(value)


if __name__ == "__main__":
    sys.exit(main())
