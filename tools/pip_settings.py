"""What pip is configured with on this machine, for uv does not read pip's settings."""

import ast
import subprocess
import sys


def pip_settings(python: str = sys.executable) -> dict[str, str]:
    """What `pip config list` of that Python says."""
    listed = subprocess.run(
        [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True, timeout=60
    )
    return parse_settings(listed.stdout)


def parse_settings(listed: str) -> dict[str, str]:
    """Settings by bare name, such as `find-links`; the environment wins over files, as it does for pip."""
    settings: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        name, _, value = line.partition("=")
        settings[name.removeprefix(":env:").rpartition(".")[2]] = str(ast.literal_eval(value))
    return settings


def uv_sources(settings: dict[str, str]) -> list[str]:
    """The flags that make uv look where pip looks: another main index, and folders of wheels."""
    flags = [part for folder in settings.get("find-links", "").split() for part in ("--find-links", folder)]
    index = settings.get("index-url")
    return [*flags, "--index-url", index] if index else flags
