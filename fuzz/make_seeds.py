"""Writes what fuzzing starts from: the tiny model in fixture/, and the first inputs of each target in the folder given.

Run it where the targets change: `python3 fuzz/make_seeds.py FOLDER` writes FOLDER/<target>/seed-*. The corpus that is kept
(corpus/) has grown from these. Standard library alone; every byte follows from this file.
"""

import json
import struct
import sys
from pathlib import Path

HERE = Path(__file__).parent
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def names_and_shapes(hidden, inner, heads, kv_heads, head_dim, vocabulary, architecture="llama", tied=True):
    """Every tensor of a model with one layer, by its Hugging Face name."""
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": [vocabulary, hidden],
        layer + "input_layernorm.weight": [hidden],
        layer + "self_attn.q_proj.weight": [heads * head_dim, hidden],
        layer + "self_attn.k_proj.weight": [kv_heads * head_dim, hidden],
        layer + "self_attn.v_proj.weight": [kv_heads * head_dim, hidden],
        layer + "self_attn.o_proj.weight": [hidden, heads * head_dim],
        layer + "post_attention_layernorm.weight": [hidden],
        layer + "mlp.gate_proj.weight": [inner, hidden],
        layer + "mlp.up_proj.weight": [inner, hidden],
        layer + "mlp.down_proj.weight": [hidden, inner],
        "model.norm.weight": [hidden],
    }
    if architecture == "qwen2":
        for part, rows in [("q", heads), ("k", kv_heads), ("v", kv_heads)]:
            shapes[f"{layer}self_attn.{part}_proj.bias"] = [rows * head_dim]
    if architecture == "qwen3":
        for part in "qk":
            shapes[f"{layer}self_attn.{part}_norm.weight"] = [head_dim]
    if not tied:
        shapes["lm_head.weight"] = [vocabulary, hidden]
    return shapes


def elements(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def safetensors(tensors):
    """A file of (name, dtype, shape, bytes)."""
    header, weights = {}, b""
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(weights), len(weights) + len(data)]}
        weights += data
    header = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(header)) + header + weights


def model_safetensors(dtype, shapes):
    size = {"F32": 4, "F16": 2, "BF16": 2}[dtype]
    return safetensors([(name, dtype, shape, bytes(elements(shape) * size)) for name, shape in shapes.items()])


# GGUF

TYPES = {"u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"), "i32": (5, "<i")}
TYPES |= {"f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q"), "i64": (11, "<q"), "f64": (12, "<d")}
# Weight formats: code, elements and bytes of a block.
FORMATS = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22)}
FORMATS |= {"Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110)}
FORMATS |= {"Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "BF16": (30, 1, 2)}

RENAMED = [
    ("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output"),
    ("model.layers.", "blk."), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"), ("post_attention_layernorm", "ffn_norm"),
    ("input_layernorm", "attn_norm"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
]


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    """The code of a value's type, and its bytes."""
    if kind == "text":
        return 8, text(content)
    if kind.startswith("list "):
        items = [value(kind[5:], item) for item in content]
        code = items[0][0] if items else 0
        return 9, struct.pack("<IQ", code, len(items)) + b"".join(data for _, data in items)
    code, form = TYPES[kind]
    return code, struct.pack(form, content)


def gguf(metadata, tensors, version=3):
    """A file of metadata {key: (type, value)} and tensors (GGUF name, shape as torch has it, format)."""
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, (kind, content) in metadata.items():
        code, data = value(kind, content)
        out += text(key) + struct.pack("<I", code) + data
    weights = b""
    for name, shape, form in tensors:
        code, block_elements, block_bytes = FORMATS[form]
        weights += bytes(-len(weights) % 32)
        out += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", size) for size in reversed(shape))
        out += struct.pack("<IQ", code, len(weights))
        weights += bytes(elements(shape) // block_elements * block_bytes)
    return out + bytes(-len(out) % 32) + weights


def gguf_model(architecture, form, pre, hidden=32, rope=None, tied=True):
    """A whole model; tensors whose rows are no whole blocks are in F16."""
    inner = 32 if hidden == 32 else 2
    shapes = names_and_shapes(hidden, inner, 1, 1, 2, 12, architecture, tied)
    name = architecture
    metadata = {
        "general.architecture": ("text", name),
        f"{name}.embedding_length": ("u32", hidden),
        f"{name}.feed_forward_length": ("u32", inner),
        f"{name}.block_count": ("u32", 1),
        f"{name}.attention.head_count": ("u32", 1),
        f"{name}.attention.head_count_kv": ("u32", 1),
        f"{name}.attention.key_length": ("u32", 2),
        f"{name}.context_length": ("u32", 64),
        f"{name}.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
        "tokenizer.ggml.model": ("text", "gpt2"),
        "tokenizer.ggml.pre": ("text", pre),
        "tokenizer.ggml.tokens": ("list text", ["a", "b", "ab", "<|im_start|>", "<|im_end|>", "u", "s", "\u010a", "1", "us", "e", "r"]),
        "tokenizer.ggml.token_type": ("list i32", [1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, 4]),
        "tokenizer.ggml.merges": ("list text", ["a b", "u s"]),
        "tokenizer.ggml.bos_token_id": ("u32", 3),
        "tokenizer.ggml.eos_token_id": ("u32", 4),
        "tokenizer.chat_template": ("text", CHATML),
    }
    metadata |= {f"{name}.{key}": content for key, content in (rope or {}).items()}
    tensors = []
    for tensor, shape in shapes.items():
        for old, new in RENAMED:
            tensor = tensor.replace(old, new)
        fits = len(shape) > 1 and shape[-1] % FORMATS[form][1] == 0
        tensors.append((tensor, shape, form if fits else "F16"))
    return gguf(metadata, tensors)


# Tokenizers

def byte_letters():
    """The letter that stands for each byte in a byte-level vocabulary."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(0x100, 0x200))
    return [chr(byte) if byte in visible else chr(next(hidden)) for byte in range(256)]


def added(id, content, special=True):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": id, "content": content, **flags, "special": special}


def byte_level(**more):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **more}


def bpe(vocabulary, merges=(), **more):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
    model |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    return model | {"vocab": {token: id for id, token in enumerate(vocabulary)}, "merges": list(merges)} | more


def tokenizer(model, **parts):
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []}
    whole |= {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}
    return whole | parts


def fixture_tokenizer():
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    return tokenizer(
        bpe([*byte_letters(), *special]),
        added_tokens=[added(256 + at, token) for at, token in enumerate(special)],
        pre_tokenizer=byte_level(),
        decoder=byte_level(),
    )


def tokenizers():
    letters = ["a", "b", "c", "ab", "[UNK]", "<|im_end|>", "\u0120", "abc"]
    ends = [added(5, "<|im_end|>")]
    words = {token: id for id, token in enumerate(letters)}
    split = {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|\\s+(?!\\S)|\\w+"}, "behavior": "Isolated", "invert": False}
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[UNK]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"[UNK]": {"id": "[UNK]", "ids": [4], "tokens": ["[UNK]"]}},
    }
    pieces = [["<unk>", 0.0], ["\u2581", -1.0], ["a", -2.0], ["ab", -2.5], ["<|im_end|>", -9.0]]
    return [
        tokenizer(bpe(letters, ["a b", "ab c"]), added_tokens=ends, pre_tokenizer=byte_level(), decoder=byte_level()),
        tokenizer(
            bpe(letters, [["a", "b"]], unk_token="[UNK]", fuse_unk=True, ignore_merges=True),
            added_tokens=[*ends, added(7, "abc", False)],
            normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
            pre_tokenizer={"type": "Sequence", "pretokenizers": [split, byte_level(use_regex=False)]},
            post_processor=template,
            decoder=byte_level(),
        ),
        tokenizer(
            {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": False},
            normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
            decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        ),
        tokenizer(
            {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9, "vocab": words},
            normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            pre_tokenizer={"type": "BertPreTokenizer"},
            post_processor={"type": "BertProcessing", "sep": ["[UNK]", 4], "cls": ["a", 0]},
            decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        ),
        tokenizer(
            {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
            truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 1},
            padding={"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 4, "pad_type_id": 0, "pad_token": "[UNK]"},
            normalizer={"type": "Strip", "strip_left": True, "strip_right": True},
            pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}]},
            decoder={"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 1, "stop": 0}]},
        ),
    ]


# Configurations

def config(architecture="llama", hidden=4, inner=4, heads=1, kv_heads=1, head_dim=2, vocabulary=259, **more):
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": architecture, "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": 1, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocabulary, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": True, "hidden_act": "silu",
        "bos_token_id": 258, "eos_token_id": 257, "torch_dtype": "float32", **more,
    }


TOKENIZER_CONFIG = {"chat_template": CHATML, "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}
INDEX = {"metadata": {"total_size": 1}, "weight_map": {"model.norm.weight": "weights.safetensors"}}


def rows_file():
    ids = struct.pack("<5i", 1, 2, 3, 4, 5)
    return safetensors([
        ("input_ids", "I32", [5], ids), ("offsets", "I64", [3], struct.pack("<3q", 0, 3, 5)),
        ("supervised", "U8", [5], bytes([0, 1, 1, 0, 1])),
    ])


def configurations():
    """Inputs of the target `config`: a byte for the file, then its content (the order of FILES in src/models.rs)."""
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128}
    named = [{"name": "default", "template": CHATML}, {"name": "rag", "template": "x"}]
    return [
        (0, config()), (0, config(rope_scaling={"type": "linear", "factor": 2.0})), (0, config(rope_parameters=llama3)),
        (0, config("qwen2", sliding_window=64, use_sliding_window=False)), (0, config("qwen3", attention_bias=False)),
        (1, {"eos_token_id": [257, 258], "bos_token_id": 1}),
        (2, TOKENIZER_CONFIG), (2, {"chat_template": named, "eos_token": {"content": "<|im_end|>"}}),
        (3, INDEX), (4, {"chat_template": CHATML}),
    ]


TEMPLATES = [
    CHATML,
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% generation %}{{ m.content | trim | upper }}{% endgeneration %}{{ eos_token }}{% endfor %}",
    "{%- set ns = namespace(n=0) -%}{%- for m in messages -%}{%- set ns.n = ns.n + 1 -%}{{ loop.index0 ~ m['content'].split('\\n')[0] }}"
    "{%- if not loop.last %}{{ '-' * ns.n }}{% endif -%}{%- endfor -%}{{ ns.n }}",
    "{% macro turn(m) %}[{{ m.role }}] {{ m | tojson(indent=2) }}{% endmacro %}{{ turn(messages[0]) }}{{ messages[1:] | length }}"
    "{{ messages | map(attribute='role') | join(',') }}{{ strftime_now('%d %b %Y') }}",
    "{{ '%s-{}'.format(1) }}{{ messages[-1].content.strip().replace('a', 'b').startswith('b') }}{{ range(9) | list | reverse | first }}"
    "{% if tools is defined and tools %}x{% elif documents is none %}y{% endif %}{{ {'a': [1, 2.5]} | tojson }}",
]

RECIPE = """name = "mine"
title = "A title"
[model]
source = "smollm2-135m-instruct"
[data]
path = "rows.jsonl"
max_length = 512
long_rows = "drop"
[lora]
rank = 8
alpha = 16.0
target_modules = ["q_proj", "v_proj"]
[optimizer]
learning_rate = 2e-4
warmup_steps = 2
schedule = "linear"
[train]
steps = 20
micro_batch = 2
recompute = "layer"
dtype = "f32"
time_box_minutes = 1.5
[evaluate]
questions = 3
"""

ROWS = [
    '{"prompt": "p", "completion": "c", "system": "s"}\n{"id": 7, "instruction": "i", "input": "x", "output": "o"}\n',
    '\ufeff{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},'
    ' {"role": "user", "content": "r"}, {"role": "assistant", "content": "b", "tool_calls": []}]}\r\n\r\n{"prompt": "\\u00e9\\ud83d\\ude00", "completion": "<b>"}\n',
    '{"promt": "p", "completion": "c"}\n', '{"conversations": [{"from": "human", "value": "q"}]}\n',
    '[{"prompt": "p"},\n{"prompt": "q"}]\n', '{"prompt": ["p"], "completion": 3, "id": [1]}\n',
]

LINES = [
    '{"type":"hello","protocol":1,"engine":"e","engine_version":"1","torch":"2.11.0","backend":"cpu","threads":2}',
    '{"type":"progress","stage":"train","done":3,"total":20,"unit":"steps","eta_secs":1.5}',
    '{"type":"step","step":3,"loss":1.25,"grad_norm":0.5,"lr":1e-4,"dt_secs":0.1,"elapsed_secs":2.0,"real_tokens":10,"padded_tokens":10,'
    '"supervised_tokens":4,"squared_lengths":50,"peak_bytes":null}',
    '{"type":"check","name":"dead_adapters","value":0.0}', '{"type":"checkpoint","step":20,"path":"checkpoints/step-000020"}',
    '{"type":"log","level":"warn","text":"t"}', '{"type":"error","code":"oom","message":"m","hints":["h"]}', '{"type":"bye","status":"ok"}',
    '{"type":"result","kind":"train","steps":20,"first_step_secs":1.0,"total_secs":2.0,"load_secs":0.5,"trainable_parameters":9,"peak_bytes":1,'
    '"peak_process_bytes":2,"adapter":"adapter"}',
    '{"type":"stop","how":"save"}', '{"type":"job","run_dir":"/r","device":"cpu","threads":2,"kind":"calibrate","budget_secs":20.0,"bf16_in_hardware":false}',
    '{"type":"job","run_dir":"/r","resume_from":"/c","device":"cuda:0","kind":"train","model":"m","rows":"r","dtype":"f32","lora":{"rank":8,"alpha":16.0,'
    '"target_modules":["q_proj"]},"optimizer":{"learning_rate":1e-4,"beta1":0.9,"beta2":0.999,"eps":1e-8,"weight_decay":0.0,"warmup_steps":2,"schedule":"cosine",'
    '"max_grad_norm":1.0},"batch":{"micro_batch":2,"accumulation":1},"steps":20,"checkpoint_every":5,"recompute":"layer","order":"shuffled","seed":1}',
    '{"type":"job","run_dir":"/r","device":"cpu","kind":"answer","model":"m","prompts":"p","dtype":"bf16","stop_tokens":[2],"max_new_tokens":9,"batch_size":4,'
    '"sampling":{"temperature":0.7,"top_p":0.9,"top_k":40,"seed":1}}',
    '{"id":"q17","input_ids":[1,9690,198,2]}', "MIOpen(HIP): Warning",
]


def main(folder):
    fixture = HERE / "fixture"
    shapes = names_and_shapes(4, 4, 1, 1, 2, 259)
    dump = lambda content: json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    fixture.mkdir(exist_ok=True)
    (fixture / "config.json").write_bytes(dump(config()))
    (fixture / "tokenizer.json").write_bytes(dump(fixture_tokenizer()))
    (fixture / "tokenizer_config.json").write_bytes(dump(TOKENIZER_CONFIG))
    (fixture / "model.safetensors").write_bytes(model_safetensors("F16", shapes))

    seeds = {
        "gguf": [
            gguf_model("llama", "F16", "smollm", hidden=4),
            gguf_model("llama", "Q8_0", "llama-bpe", rope={"rope.scaling.type": ("text", "linear"), "rope.scaling.factor": ("f32", 2.0)}),
            gguf_model("qwen2", "Q4_0", "qwen2", tied=False), gguf_model("qwen3", "BF16", "qwen2", hidden=4),
            *[gguf_model("llama", form, "smollm") for form in ["Q4_1", "Q5_0", "Q5_1"]],
            *[gguf_model("llama", form, "smollm", hidden=256) for form in ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]],
            gguf({"general.alignment": ("u32", 64), "l": ("list list u8", [[1, 2]]), "t": ("list bool", [True]), "d": ("f64", 0.5)}, [("t", [2, 3], "F32")], 2),
        ],
        "safetensors": [*[model_safetensors(dtype, shapes) for dtype in ["F16", "F32", "BF16"]], rows_file()],
        "config": [bytes([file]) + dump(content) for file, content in configurations()],
        "tokenizer": [dump(content) for content in tokenizers()],
        "chat_template": [template.encode() for template in TEMPLATES],
        "recipe": [RECIPE.encode(), RECIPE.encode() + b"\0train.steps=3\nmodel.path=x.gguf\nlora.target_modules=q_proj,k_proj\ntrain.seed = 7"],
        "rows": [content.encode() for content in ROWS],
        "protocol": [line.encode() for line in LINES],
    }
    for target, inputs in seeds.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(inputs):
            (folder / target / f"seed-{number:02}").write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
