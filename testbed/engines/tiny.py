"""A tiny random Llama, the same bytes for the same seed on every machine: for tests, and where no network is.

Its text means nothing, but its answers depend on the whole prompt, so that wrong KV shows in them.
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

NUM_LAYERS, HIDDEN, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, INTERMEDIATE = 8, 512, 8, 4, 64, 1024
VOCAB_SIZE, MAX_POSITIONS, SEED = 512, 16384, 1234
BOS, EOS = 1, 2

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE, "num_hidden_layers": NUM_LAYERS, "num_attention_heads": NUM_HEADS,
    "num_key_value_heads": NUM_KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": MAX_POSITIONS, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "hidden_act": "silu", "bos_token_id": BOS, "eos_token_id": EOS,
    "torch_dtype": "float16", "attention_bias": False, "mlp_bias": False,
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
    "model_max_length": MAX_POSITIONS,
    "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
}


def write_tiny(folder: Path) -> None:
    """Write weights (float16), config, tokenizer and chat template into the existing `folder`."""
    _write_json(folder / "config.json", CONFIG)
    _write_json(folder / "generation_config.json", {"bos_token_id": BOS, "eos_token_id": EOS})
    _write_json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)
    save_file(tiny_weights(SEED), folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer().save(str(folder / "tokenizer.json"))


def tiny_weights(seed: int) -> dict[str, NDArray[np.float16]]:
    """All tensors by name. Scales are such that attention is peaked and the runner-up is seldom close."""
    random = np.random.default_rng(seed)

    def draw(rows: int, columns: int, scale: float | None = None) -> NDArray[np.float16]:
        deviation = columns**-0.5 if scale is None else scale
        return (random.standard_normal((rows, columns), dtype=np.float32) * np.float32(deviation)).astype(np.float16)

    ones = np.ones(HIDDEN, dtype=np.float16)
    tensors = {"model.embed_tokens.weight": draw(VOCAB_SIZE, HIDDEN, 1.0), "model.norm.weight": ones}
    for layer in range(NUM_LAYERS):
        name = f"model.layers.{layer}."
        tensors[name + "self_attn.q_proj.weight"] = draw(NUM_HEADS * HEAD_DIM, HIDDEN, 0.08)
        tensors[name + "self_attn.k_proj.weight"] = draw(NUM_KV_HEADS * HEAD_DIM, HIDDEN, 0.08)
        tensors[name + "self_attn.v_proj.weight"] = draw(NUM_KV_HEADS * HEAD_DIM, HIDDEN)
        tensors[name + "self_attn.o_proj.weight"] = draw(HIDDEN, NUM_HEADS * HEAD_DIM)
        tensors[name + "mlp.gate_proj.weight"] = draw(INTERMEDIATE, HIDDEN)
        tensors[name + "mlp.up_proj.weight"] = draw(INTERMEDIATE, HIDDEN)
        tensors[name + "mlp.down_proj.weight"] = draw(HIDDEN, INTERMEDIATE)
        tensors[name + "input_layernorm.weight"] = ones
        tensors[name + "post_attention_layernorm.weight"] = ones
    return tensors | {"lm_head.weight": draw(VOCAB_SIZE, HIDDEN, 0.15)}


def _tokenizer() -> Tokenizer:
    vocabulary = {"<unk>": 0, "<s>": BOS, "</s>": EOS} | {f"t{i}": i for i in range(3, VOCAB_SIZE)}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
