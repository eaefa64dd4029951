"""4-bit weights as bitsandbytes stores them: tensors to compare bytes on, and models with a base in 4 bits.

The tensors are random and adversarial: zeros, denormals, constants, exact midpoints of two levels, outliers, lengths that are no
multiple of a block or of a nested block, inputs in three formats. Values depend on seeds alone. Infinities have no scale in 4 bits:
bitsandbytes makes NaN of their block without a word, the engine refuses the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bitsandbytes
import torch
from bitsandbytes.functional import dequantize_4bit, get_4bit_type, quantize_4bit
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel

from engine_client import Engine, EngineFailure

BLOCK = 64
NESTED_BLOCK = 256
COUNT = 100
PARTS = ("packed", "scales", "nested", "offset")


def version() -> str:
    """bitsandbytes' version, for the record."""
    return bitsandbytes.__version__


def quantised(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """What bitsandbytes' processor back end stores of a tensor, and what it unpacks it to."""
    packed, state = quantize_4bit(tensor, blocksize=BLOCK, compress_statistics=True, quant_type="nf4")
    state.dtype = torch.float32
    return {
        "packed": packed.flatten(),
        "scales": state.absmax.flatten(),
        "nested": state.state2.absmax.flatten(),
        "offset": state.offset.reshape(1),
        "unpacked": dequantize_4bit(packed, state).flatten(),
    }


def dynamic_map() -> torch.Tensor:
    """The 8-bit map that scales are looked up in."""
    _, state = quantize_4bit(torch.ones(BLOCK), blocksize=BLOCK, compress_statistics=True, quant_type="nf4")
    return state.state2.code


def midpoints() -> torch.Tensor:
    """A block whose largest value is one and that holds each midpoint of two levels, and its neighbours on both sides."""
    levels = get_4bit_type("nf4", device="cpu")
    middle = (levels[:-1] + levels[1:]) / 2
    up = torch.nextafter(middle, torch.full_like(middle, 2.0))
    down = torch.nextafter(middle, torch.full_like(middle, -2.0))
    return torch.cat([torch.ones(1), middle, up, down, -torch.ones(1), torch.zeros(BLOCK - 47)])


def adversarial() -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that are easy to get wrong."""
    generator = torch.Generator().manual_seed(40)

    def normal(count: int) -> torch.Tensor:
        return torch.randn(count, generator=generator)

    yield "zeros", torch.zeros(3 * BLOCK)
    yield "zeros_cut_short", torch.zeros(BLOCK + 5)
    yield "zero_block_among_others", torch.cat([normal(BLOCK), torch.zeros(BLOCK), normal(BLOCK)])
    yield "negative_zeros", -torch.zeros(2 * BLOCK)
    yield "denormals", normal(2 * BLOCK) * 1e-40
    yield "denormals_cut_short", normal(BLOCK + 7) * 1e-41
    yield "one_block_of_denormals", torch.cat([normal(BLOCK), normal(BLOCK) * 1e-40, normal(BLOCK)])
    yield "smallest", torch.full((2 * BLOCK,), 1e-45)
    yield "constant", torch.full((5 * BLOCK,), 0.37)
    yield "constant_negative", torch.full((BLOCK,), -2.5)
    yield "constant_blocks", torch.arange(1.0, 9.0).repeat_interleave(BLOCK)
    yield "midpoints", midpoints()
    yield "midpoints_scaled", torch.cat([midpoints() * 0.3, midpoints() * 7.0, midpoints() * 1e-30])
    yield "midpoints_cut_short", midpoints()[:47]
    yield "huge", normal(4 * BLOCK) * 2e37
    yield "largest", torch.cat([torch.tensor([torch.finfo(torch.float32).max]), normal(3 * BLOCK - 1)])
    yield "outlier", torch.cat([normal(7 * BLOCK), torch.tensor([1e6]), normal(BLOCK - 1)])
    yield "outlier_block_among_300", torch.cat([normal(299 * BLOCK), normal(BLOCK) * 1e4])
    yield "alternating", torch.tensor([1.0, -1.0]).repeat(BLOCK)
    yield "one_value", torch.tensor([0.123])
    yield "two_values", torch.tensor([0.5, -0.25])
    yield "one_less_than_a_block", normal(BLOCK - 1)
    yield "one_more_than_a_block", normal(BLOCK + 1)
    yield "one_more_than_a_nested_block", normal(BLOCK * NESTED_BLOCK + 1)
    yield "exactly_a_nested_block", normal(BLOCK * NESTED_BLOCK)
    yield "same_scale_everywhere", torch.cat([torch.ones(1), torch.zeros(BLOCK - 1)]).repeat(NESTED_BLOCK + 3)
    # More blocks than torch sums in one thread.
    yield "large", normal(BLOCK * 33_000 + 17)


def tensors() -> dict[str, torch.Tensor]:
    """The hundred tensors of the comparison: the adversarial ones, some of them also in 16 bits, and random ones."""
    made = dict(adversarial())
    for name in ("constant_blocks", "midpoints", "outlier", "one_more_than_a_block", "one_more_than_a_nested_block"):
        for kind, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
            made[f"{name}_{kind}"] = made[name].clamp(-60_000, 60_000).to(dtype)
    generator = torch.Generator().manual_seed(41)
    kinds = [torch.float32, torch.bfloat16, torch.float16]
    while len(made) < COUNT:
        index = len(made)
        count = int(torch.randint(1, 60_000, (1,), generator=generator))
        values = torch.randn(count, generator=generator) * 10.0 ** float(torch.randint(-4, 3, (1,), generator=generator))
        if index % 5 == 0:
            # Heavy tails, as some layers have them.
            values = values**3
        # Within the range of 16 bits: infinities are a test of their own.
        made[f"random_{index}"] = values.clamp(-60_000, 60_000).to(kinds[index % 3])
    return made


def fixture() -> dict[str, torch.Tensor]:
    """A few tensors with what bitsandbytes makes of them, for tests without Python.

    The mean of the scales depends on the order in which a processor's vectors add them; here it does not: there are three scales
    at most, or scales of so few bits that their sum is exact.
    """
    chosen = dict(adversarial())
    cases = {
        name: chosen[name]
        for name in ("zeros", "zeros_cut_short", "zero_block_among_others", "denormals", "one_block_of_denormals", "midpoints", "midpoints_scaled", "midpoints_cut_short")
    }
    cases |= {name: chosen[name] for name in ("constant_negative", "huge", "one_value", "one_less_than_a_block", "one_more_than_a_block")}
    generator = torch.Generator().manual_seed(42)
    cases["huge"] = cases["huge"][: 3 * BLOCK]
    cases["f16"] = torch.randn(2 * BLOCK + 9, generator=generator).to(torch.float16)
    cases["two_nested_blocks_bf16"] = torch.randn(BLOCK * (NESTED_BLOCK + 2), generator=generator).to(torch.bfloat16)
    stored: dict[str, torch.Tensor] = {"dynamic_map": dynamic_map()}
    for name, tensor in cases.items():
        stored[f"{name}.input"] = tensor.clone()
        parts = quantised(tensor)
        stored |= {f"{name}.{part}": parts[part] for part in PARTS}
    return stored


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal to the last bit: zeros of another sign differ."""
    return a.dtype == b.dtype and a.shape == b.shape and bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8)))


def compare_bytes(engine: Engine, work: Path) -> dict[str, Any]:
    """The hundred tensors in the engine and in bitsandbytes, and whether the engine refuses what cannot be stored."""
    work.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = {"tensors": 0, "values": 0, "differing": [], "unpacked": None, "refused": [], "errors": []}
    source, output = work / "tensors.safetensors", work / "quantised.safetensors"
    made = tensors()
    save_file(made, source)
    figures["tensors"], figures["values"] = len(made), sum(tensor.numel() for tensor in made.values())
    try:
        engine.run(work, "quantise", tensors=str(source), output=str(output))
        found = load_file(output)
        largest = 0.0
        for name, tensor in made.items():
            expected = quantised(tensor)
            wrong = [part for part in PARTS if not same_bytes(found[f"{name}.{part}"], expected[part])]
            if wrong:
                figures["differing"].append(f"{name}: {', '.join(wrong)}")
            scale = expected["unpacked"].abs().max().item()
            difference = (found[f"{name}.unpacked"].double() - expected["unpacked"].double()).abs().max().item()
            largest = max(largest, difference / scale if scale else difference)
        figures["unpacked"] = largest
    except (EngineFailure, OSError, KeyError, ValueError, RuntimeError) as error:
        figures["errors"].append(f"{type(error).__name__}: {error}")
    for name, bad in (("infinity", torch.inf), ("minus_infinity", -torch.inf), ("nan", torch.nan)):
        values = torch.ones(3 * BLOCK)
        values[BLOCK + 3] = bad
        save_file({name: values}, source)
        try:
            engine.run(work / name, "quantise", tensors=str(source), output=str(work / name / "quantised.safetensors"))
        except EngineFailure as failure:
            if "not_quantisable" in str(failure):
                figures["refused"].append(name)
    figures["passed"] = (
        not figures["errors"]
        and not figures["differing"]
        and len(figures["refused"]) == 3
        and figures["tensors"] == COUNT
        and figures["unpacked"] is not None
        and figures["unpacked"] <= 1e-6
    )
    return figures


def four_bit_model(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """The model with its base in 4 bits, as users of transformers and bitsandbytes load it, computing in 32 bits."""
    if not (folder / "config.json").exists():
        # Weights that were read from GGUF are plain floats by now; transformers still takes the model for a quantised one.
        vars(model).pop("hf_quantizer", None)
        vars(model.config).pop("quantization_config", None)
        model.save_pretrained(folder)
    config = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32,
    )
    return AutoModelForCausalLM.from_pretrained(folder, quantization_config=config, dtype=torch.float32, device_map="cpu")


def print_table(figures: dict[str, Any]) -> None:
    """The result for people."""
    print(f"4-bit weights: {figures['tensors']} tensors of {figures['values']:,} values, differing from bitsandbytes in a byte: {len(figures['differing'])}")
    for line in figures["differing"][:10]:
        print(f"  {line}")
    unpacked = "none" if figures["unpacked"] is None else f"{figures['unpacked']:.1e}"
    print(f"  unpacked: largest relative difference {unpacked}; refused: {', '.join(figures['refused']) or 'nothing'}")
    for error in figures["errors"]:
        print(f"  {error}")
