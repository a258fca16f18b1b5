"""vLLM's own ExampleConnector as a tier: a folder per prompt, a file per layer. Its loads are synchronous.

It is there to be looked at, not to be fast: the engine promises at once and reads the files within the step that needs
them. A prompt is found as a whole or not at all, and one token more than whole blocks is never found, for it is saved
under another name than it is looked up. It says nothing of a file that is broken or gone: the engine ends.
"""

import hashlib
import shutil
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.journal.events import ORDERS_KEY, PATH_KEY
from testbed.spec.topology import LoadFailure

NAME = "files"
CONNECTOR = "ExampleConnector"
LOAD_PATH = "file_read"


def transfer_config(folder: str, failure: LoadFailure, orders_path: str) -> dict[str, Any]:
    """What an engine gets as `--kv-transfer-config`; `folder` is where the files lie."""
    return {
        "kv_connector": f"Probed{CONNECTOR}",
        "kv_connector_module_path": "testbed.probe.connector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": failure.policy,
        "kv_connector_extra_config": {"shared_storage_path": folder, ORDERS_KEY: orders_path, PATH_KEY: LOAD_PATH},
    }


@dataclass(frozen=True)
class Deleted:
    """How many objects are gone, and how many were kept."""

    deleted: int
    skipped: int


class FileTier:
    """The folder, asked as any tier is. An object is the folder of one prompt."""

    def __init__(self, folder: Path, block_tokens: int) -> None:
        self._folder = folder
        self.chunk_tokens = block_tokens

    def close(self) -> None:
        """Nothing is held open."""

    def learn(self, prompts: Iterable[tuple[int, ...]]) -> None:
        """Names cost nothing here."""

    def folder_of(self, prompt: tuple[int, ...]) -> Path:
        """Where the connector saves a prompt: named by the whole blocks of all its tokens but the last.

        Units: a token is eight bytes, lowest first.
        """
        whole = (len(prompt) - 1) // self.chunk_tokens * self.chunk_tokens
        return self._folder / hashlib.md5(array("q", prompt[:whole]).tobytes(), usedforsecurity=False).hexdigest()

    def objects_in_memory(self) -> int:
        """How many prompts are saved."""
        return sum(one.is_dir() for one in self._folder.iterdir()) if self._folder.exists() else 0

    def saves_in_flight(self) -> int:
        """None: a save is over before the engine goes on."""
        return 0

    def delete_prompt(self, prompt: tuple[int, ...]) -> Deleted:
        """Remove what is saved of one prompt."""
        folder = self.folder_of(prompt)
        if not folder.is_dir():
            return Deleted(0, 0)
        shutil.rmtree(folder)
        return Deleted(1, 0)

    def clear_memory(self) -> None:
        """Remove all that is saved, and nothing but that."""
        for one in list(self._folder.iterdir()) if self._folder.exists() else []:
            if one.is_dir():
                shutil.rmtree(one)

    def counters(self) -> dict[str, float]:
        """What can be counted from outside."""
        return {"objects": float(self.objects_in_memory())}
