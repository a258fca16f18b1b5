"""Our id out of the engine's."""

import pytest

from testbed.probe.identity import our_id


@pytest.mark.parametrize(
    ("engine_id", "ours"),
    [
        ("cmpl-R7.timeouts.0.42-0-89abcdef", "R7.timeouts.0.42"),
        ("chatcmpl-20261129-223000-demo.tier.0.7-89abcdef", "20261129-223000-demo.tier.0.7"),
        ("cmpl-20261129-223000-demo.tier.0.7-0-89abcdef", "20261129-223000-demo.tier.0.7"),
        ("something else", "something else"),
    ],
)
def test_the_engines_id_gives_ours_back(engine_id: str, ours: str) -> None:
    assert our_id(engine_id) == ours
