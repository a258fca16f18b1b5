"""What a connector needs to run at all on a CPU, and nothing else: each switch says in the journal that it was set.

Mooncake's transfer between engines asks for the number of the accelerator that is in use, where there is none. NIXL
lets a thread of each agent ask for news without a pause, which takes a whole core from the engine beside it.
"""

from collections.abc import Callable, Mapping
from typing import Any

NIXL_LOOK_EVERY_US = 2000


def set_switches(connector: str) -> tuple[str, ...]:
    """Set what the connector class of this name needs on a machine without accelerator; say what was set."""
    if connector not in _NEEDS:
        return ()
    import torch

    return () if torch.accelerator.is_available() else tuple(said for switch in _NEEDS[connector] for said in switch())


def _device_number() -> tuple[str, ...]:
    import torch

    torch.accelerator.current_device_index = lambda: 0
    return ("switch: torch.accelerator.current_device_index() is 0, for this machine has no accelerator",)


def _slow_idle_look() -> tuple[str, ...]:
    try:
        from nixl import _api as api
    except ImportError:
        return ()
    if getattr(api.nixlBind.nixlAgentConfig, "testbed_switch", False):
        return ()
    api.nixlBind.nixlAgentConfig = patient(api.nixlBind.nixlAgentConfig)
    return (f"switch: NIXL's progress thread looks every {NIXL_LOOK_EVERY_US} us instead of without a pause",)


_NEEDS: Mapping[str, tuple[Callable[[], tuple[str, ...]], ...]] = {
    "MooncakeConnector": (_device_number,),
    "NixlPullConnector": (_slow_idle_look,),
    "MultiConnector": (_device_number, _slow_idle_look),
}


def patient(config: Any) -> Any:
    """The class of an agent's settings, whose progress thread pauses however often it is told not to."""

    class Patient(config):
        """The real settings, with a pause."""

        testbed_switch = True

        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, NIXL_LOOK_EVERY_US if name == "pthrDelay" else value)

    return Patient
