"""What is switched for a connector to run at all, and that it is not where it need not be."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from testbed.probe.switches import NIXL_LOOK_EVERY_US, patient, set_switches


def torch_with(accelerator: bool, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for torch on a machine with an accelerator, or without one."""
    module: Any = ModuleType("torch")
    module.accelerator = SimpleNamespace(is_available=lambda: accelerator, current_device_index=lambda: 3)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


class Settings:
    """An agent's settings, as far as they are set."""

    pthrDelay = 7
    lthrDelay = 7


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in for NIXL."""
    package: Any = ModuleType("nixl")
    package._api = SimpleNamespace(nixlBind=SimpleNamespace(nixlAgentConfig=Settings))
    monkeypatch.setitem(sys.modules, "nixl", package)
    return package._api


def test_the_number_of_a_device_is_given_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_with(False, monkeypatch)
    [said] = set_switches("MooncakeConnector")
    assert "current_device_index" in said
    assert torch.accelerator.current_device_index() == 0


def test_the_idle_thread_pauses_though_it_is_told_not_to(api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_with(False, monkeypatch)
    [said] = set_switches("NixlPullConnector")
    assert "2000 us" in said
    settings = api.nixlBind.nixlAgentConfig()
    settings.pthrDelay, settings.lthrDelay = 0, 5
    assert (settings.pthrDelay, settings.lthrDelay) == (NIXL_LOOK_EVERY_US, 5)
    assert set_switches("NixlPullConnector") == (), "set once"


@pytest.mark.parametrize("name", ["MooncakeConnector", "NixlPullConnector", "MultiConnector"])
def test_nothing_is_switched_on_a_machine_with_an_accelerator(
    name: str, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = torch_with(True, monkeypatch)
    assert set_switches(name) == ()
    assert torch.accelerator.current_device_index() == 3
    assert api.nixlBind.nixlAgentConfig is Settings


def test_nothing_is_switched_for_a_connector_that_needs_nothing() -> None:
    assert set_switches("LMCacheMPConnector") == ()
    assert set_switches("MooncakeStoreConnector") == ()


def test_settings_are_patient_from_their_class_on() -> None:
    assert patient(Settings).testbed_switch
