"""Turn the GGUF of SmolLM2 into a folder that engines read. Run as `python -m testbed.engines.gguf GGUF FOLDER`.

A module of its own because torch and transformers are imported here: the caller runs it in a child process.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def convert(gguf: Path, folder: Path) -> None:
    """Dequantise `gguf` to float32 safetensors in `folder`, with config and tokenizer beside it."""
    source = str(gguf.parent)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32,
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=gguf.name).save_pretrained(folder)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
