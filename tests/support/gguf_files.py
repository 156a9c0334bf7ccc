"""GGUF files and wheels that tests make: a tiny Llama with a byte-level tokenizer and random weights."""

import zipfile

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from transformers.convert_slow_tokenizer import bytes_to_unicode

WIDTH, INNER, LAYERS, HEADS, KV_HEADS = 64, 96, 2, 4, 2
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_gguf(path, seed=0, leave_out=""):
    """Write a model whose matrices have 8 bits, without the tensor of a name."""
    writer = gguf.GGUFWriter(path, "llama")
    tokens = [*bytes_to_unicode().values(), "th", "<|im_start|>", "<|im_end|>"]
    _write_shape(writer, len(tokens))
    _write_tokenizer(writer, tokens)
    rng = np.random.default_rng(seed)
    for name, shape in _shapes(len(tokens)).items():
        weights = rng.normal(0, 0.3, shape).astype(np.float32)
        if name == leave_out:
            continue
        if len(shape) == 1:
            writer.add_tensor(name, weights + 1)
        else:
            blocks = gguf.quants.quantize(weights, Kind.Q8_0)
            writer.add_tensor(name, blocks, raw_dtype=Kind.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_wheel(folder, gguf_file, module="tiny_model"):
    """Write the wheel of a package, version 1.0, that contains a file, and return its path."""
    path, info = folder / f"{module}-1.0-py3-none-any.whl", f"{module}-1.0.dist-info"
    name = module.replace("_", "-")
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.write(gguf_file, f"{module}/tiny.gguf")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def _write_shape(writer, vocabulary):
    writer.add_name("tiny")
    writer.add_vocab_size(vocabulary)
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)


def _write_tokenizer(writer, tokens):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 2) + [gguf.TokenType.CONTROL] * 2)
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(len(tokens) - 2)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_chat_template(TEMPLATE)


def _shapes(vocabulary):
    kv = WIDTH // HEADS * KV_HEADS
    shapes = {"token_embd.weight": (vocabulary, WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (WIDTH,),
            f"blk.{layer}.attn_q.weight": (WIDTH, WIDTH),
            f"blk.{layer}.attn_k.weight": (kv, WIDTH),
            f"blk.{layer}.attn_v.weight": (kv, WIDTH),
            f"blk.{layer}.attn_output.weight": (WIDTH, WIDTH),
            f"blk.{layer}.ffn_norm.weight": (WIDTH,),
            f"blk.{layer}.ffn_gate.weight": (INNER, WIDTH),
            f"blk.{layer}.ffn_up.weight": (INNER, WIDTH),
            f"blk.{layer}.ffn_down.weight": (WIDTH, INNER),
        }
    return shapes
