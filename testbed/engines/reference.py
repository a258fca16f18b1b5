"""Greedy answers by transformers at float32. Run as `python -m testbed.engines.reference FOLDER`; prints JSON.

A module of its own because torch and transformers are imported here: the caller runs it in a child process.
"""

import inspect
import json.decoder
import random
import socket
import sys
import textwrap
from pathlib import Path

import msgspec
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from testbed.engines.agreement import Reference
from testbed.journal.manifest import GoldenAnswer

PROMPT_TOKENS = (24, 60, 130, 260)  # the last two cross a block of 128
ANSWER_TOKENS = 16
_LEAST_DISTINCT = 12
_TEXTS = (textwrap, socket, random, json.decoder)  # their docstrings: real prose, on every machine


def prompts(folder: Path, vocab_size: int) -> list[list[int]]:
    """Prompts of real text; seeded ids where the tokenizer knows no words."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [_prompt(tokenizer.encode(_text(index)), index, vocab_size) for index in range(len(PROMPT_TOKENS))]


def _prompt(ids: list[int], index: int, vocab_size: int) -> list[int]:
    wanted = PROMPT_TOKENS[index]
    if len(set(ids[:wanted])) >= _LEAST_DISTINCT and len(ids) >= wanted:
        return ids[:wanted]
    return random.Random(index).choices(range(3, vocab_size), k=wanted)


def _text(index: int) -> str:
    """The docstrings of one standard module, as one text."""
    module = _TEXTS[index]
    parts = [inspect.getdoc(member) for _, member in sorted(vars(module).items()) if callable(member)]
    return " ".join(part for part in [module.__doc__, *parts] if part)


def greedy(model: torch.nn.Module, prompt: list[int], max_tokens: int) -> GoldenAnswer:
    """The most likely tokens one by one, the end token not heeded, with each runner-up and its distance."""
    ids = torch.tensor([prompt])
    cache = None
    chosen: list[int] = []
    second: list[int] = []
    gaps: list[float] = []
    for _ in range(max_tokens):
        answer = model(input_ids=ids, past_key_values=cache, use_cache=True)
        cache = answer.past_key_values
        best = torch.log_softmax(answer.logits[0, -1].float(), dim=-1).topk(2)
        chosen.append(int(best.indices[0]))
        second.append(int(best.indices[1]))
        gaps.append(float(best.values[0] - best.values[1]))
        ids = best.indices[:1].unsqueeze(0)
    return GoldenAnswer(token_ids=chosen, second_ids=second, gaps_nats=gaps, finish_reason="length")


def main(folder: Path) -> None:
    """Print the answers to all prompts."""
    with torch.inference_mode():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        answers = [
            Reference(tuple(prompt), greedy(model, prompt, ANSWER_TOKENS))
            for prompt in prompts(folder, model.config.vocab_size)
        ]
    print(msgspec.json.encode(answers).decode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
