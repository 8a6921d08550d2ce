"""Makes tests/golden/models/data: tiny random models of every family as GGUF files with F32 weights,
and the logits that transformers gives for them in float32.

    python -m venv v && v/bin/pip install torch==2.13.0 transformers==5.19.0 numpy gguf==0.19.0
    v/bin/python tests/golden/models/make_tiny_models.py

Weights are drawn so that every part of the computation moves the logits by far more than rounding
does: matrices N(0, 2 / sqrt(fan_in)), embeddings N(0, 1), norm weights U(0.5, 1.5), biases
N(0, 0.5). With the libraries' own initialisation a dropped bias or a wrong rope base would not show.

<case>.gguf    the model
<case>.golden  int32 tokens, int32 vocabulary, token ids (int32), logits (float32, row by row)
"""

import math
import pathlib

import gguf
import numpy as np
import torch
from transformers import (Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM)

OUT = pathlib.Path(__file__).parent / "data"
TOKENS = 80
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32, rope_theta=10000.0)

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
LLAMA_NAMES = NAMES | {"post_attention_layernorm": "ffn_norm"}
GEMMA_NAMES = NAMES | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def randomise(model, seed, gemma):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if name.endswith("bias"):
                parameter.normal_(0, 0.5, generator=generator)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5, generator=generator)
                if gemma:
                    parameter.sub_(1)
            elif "embed_tokens" in name:
                parameter.normal_(0, 1, generator=generator)
            else:
                parameter.normal_(0, 2 / math.sqrt(parameter.shape[1]), generator=generator)


def gguf_name(name, table):
    stem, kind = name.rsplit(".", 1)
    if stem.startswith("model.layers."):
        _, _, layer, part = stem.split(".", 3)
        return f"blk.{layer}.{table[part]}.{kind}"
    return f"{table[stem]}.{kind}"


def permuted(values, heads):
    """The row order of q and k in llama files: rope's pairs beside each other."""
    halves = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def llama3_factors(rotary_dim):
    factors = []
    for pair in range(rotary_dim // 2):
        wave = 2 * math.pi * LLAMA3["rope_theta"] ** (2 * pair / rotary_dim)
        original = LLAMA3["original_max_position_embeddings"]
        low, high, factor = (LLAMA3[k] for k in ("low_freq_factor", "high_freq_factor", "factor"))
        if wave < original / high:
            factors.append(1.0)
        elif wave > original / low:
            factors.append(factor)
        else:
            smooth = (original / wave - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, dtype=np.float32)


def write_gguf(path, model, config, arch, extra):
    gemma = arch == "gemma3"
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_name(path.stem)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_vocab_size(config.vocab_size)
    rope = config.rope_parameters["full_attention"] if gemma else config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    for key, value in extra.items():
        if isinstance(value, str):
            writer.add_string(f"{arch}.{key}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{arch}.{key}", value)
        else:
            writer.add_uint32(f"{arch}.{key}", value)
    if rope.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(head_dim))
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy().astype(np.float32)
        if gemma and "norm" in name:
            values = values + 1  # as converters write it
        if not gemma and ".q_proj." in name:
            values = permuted(values, config.num_attention_heads)
        if not gemma and ".k_proj." in name:
            values = permuted(values, config.num_key_value_heads)
        writer.add_tensor(gguf_name(name, GEMMA_NAMES if gemma else LLAMA_NAMES),
                          np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(case, seed, arch, model_class, config, extra={}):
    config._attn_implementation = "eager"
    model = model_class(config).eval().float()
    randomise(model, seed, arch == "gemma3")
    ids = torch.randint(0, config.vocab_size, (1, TOKENS),
                        generator=torch.Generator().manual_seed(seed + 1))
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0].float().numpy()
    write_gguf(OUT / f"{case}.gguf", model, config, arch, extra)
    with open(OUT / f"{case}.golden", "wb") as file:
        np.array([TOKENS, config.vocab_size], dtype="<i4").tofile(file)
        ids[0].numpy().astype("<i4").tofile(file)
        logits.astype("<f4").tofile(file)
    print(f"{case}: {sum(p.numel() for p in model.parameters())} parameters, "
          f"logits of {logits.std():.2f}")


def main():
    torch.set_num_threads(1)
    OUT.mkdir(exist_ok=True)
    llama = dict(vocab_size=101, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                 rms_norm_eps=1e-5, tie_word_embeddings=False,
                 rope_parameters=dict(rope_type="default", rope_theta=10000.0))
    make("llama_plain", 10, "llama", LlamaForCausalLM, LlamaConfig(**llama))
    make("llama_bias", 20, "llama", LlamaForCausalLM,
         LlamaConfig(**llama | dict(attention_bias=True, mlp_bias=True, rms_norm_eps=1e-2,
                                    tie_word_embeddings=True)))
    make("llama3_scaled", 30, "llama", LlamaForCausalLM,
         LlamaConfig(**llama | dict(rope_parameters=LLAMA3)))
    make("mistral_window", 40, "llama", MistralForCausalLM,
         MistralConfig(**llama | dict(sliding_window=16, head_dim=24, hidden_size=48)))
    gemma = dict(vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=7,
                 num_attention_heads=2, num_key_value_heads=1, head_dim=32,
                 query_pre_attn_scalar=32, max_position_embeddings=256, sliding_window=16,
                 rms_norm_eps=1e-6)
    make("gemma3", 50, "gemma3", Gemma3ForCausalLM, Gemma3TextConfig(**gemma))
    # One global layer after one local one, rope of the global layer stretched, logits capped.
    make("gemma3_wide_heads", 60, "gemma3", Gemma3ForCausalLM,
         Gemma3TextConfig(**gemma | dict(
             num_hidden_layers=2, head_dim=256, query_pre_attn_scalar=256,
             final_logit_softcapping=20.0,
             layer_types=["sliding_attention", "full_attention"],
             rope_parameters=dict(
                 full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                 sliding_attention=dict(rope_type="default", rope_theta=1e4)))),
         {"attention.sliding_window_pattern": 2, "rope.scaling.type": "linear",
          "rope.scaling.factor": 8.0, "final_logit_softcapping": 20.0})


main()
