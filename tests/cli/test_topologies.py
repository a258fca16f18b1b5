"""The verbs about topologies, without a deployment: plans for machines that are not here, and users' mistakes."""

from pathlib import Path

import pytest

from testbed.cli.main import VERBS, run

GPU = ("--hardware", "h100", "--no-validate")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's deployments are seen, and nothing is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(VERBS, arguments)
    found = capsys.readouterr()
    return code, found.out, found.err


def test_a_topology_is_planned_for_gpus_that_are_not_here(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = said(capsys, "plan", "pd", *GPU, "--single-node", "--set", "model=llama-3.1-8b")
    assert code == 0
    assert "1 x prefill: a GPU of 74.51 GiB x 0.45 = 33.53 GiB - weights 14.96" in out
    assert "router.json" in out
    assert not (tmp_path / "state").exists(), "nothing is started or written"


def test_a_topology_may_be_named_by_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(Path(__file__).parents[2] / "topologies" / "pd_nixl.yaml")
    code, out, _ = said(capsys, "plan", path, *GPU, "--set", "model=qwen3-8b")
    assert code == 0
    assert out.startswith("topology pd_nixl\n")


def test_keys_that_fell_away_with_a_kind_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("--set", "tier.kind=none", "--set", "model=qwen3-8b")
    _, out, _ = said(capsys, "plan", "topologies/colocated.yaml", *GPU, *settings)
    assert "dropped with the old kind: tier.memory, tier.load_deadline, tier.backing" in out


def test_a_plan_that_does_not_fit_is_an_error_of_the_machine_with_its_sum(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "plan", "pd", *GPU, "--single-node", "--set", "model=llama-3.3-70b")
    assert (code, out) == (3, "")
    assert "the plan does not fit" in err


def test_machines_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    wide = ("--set", "model=qwen3-8b", "--set", "engines.1.gpus=8")
    assert said(capsys, "plan", "pd", *GPU, *wide)[0] == 3
    code, out, _ = said(capsys, "plan", "pd", *GPU, *wide, "--nodes", "2")
    assert code == 0
    assert ", on node-1, 8 GPU" in next(line for line in out.splitlines() if line.startswith("  decode-0: ports"))


def test_a_model_from_a_hub_is_not_run_on_a_processor(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "plan", "pd", "--set", "model=qwen3-8b", "--no-validate")
    assert code == 3
    assert "--hardware h100" in err


def test_a_model_that_is_not_here_is_planned_but_not_deployed(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "up", "pd", "--hardware", "h100", "--set", "model=qwen3-8b")
    assert code == 3
    assert "fetch Qwen/Qwen3-8B" in err


@pytest.mark.parametrize("verb", ["logs", "restart"])
@pytest.mark.parametrize("part", ["pd", "pd/", "/router"])
def test_a_part_is_named_by_its_deployment_and_its_component(
    verb: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = said(capsys, verb, part)
    assert code == 2
    assert "is not NAME/COMPONENT" in err


@pytest.mark.parametrize("verb", ["logs", "restart"])
def test_a_deployment_that_is_not_there_is_told_with_what_is(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, verb, "pd/router")
    assert code == 3
    assert "there is no deployment 'pd' (none is up)" in err
