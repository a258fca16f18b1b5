"""The stand-in server is an engine, as far as the client relies on one."""

from pathlib import Path

from testbed.drive.endpoint import Endpoint
from testbed.stub.process import running_stub
from tests.contract_engine import ask_plainly, drive_forced


def test_the_stand_in_keeps_the_contract_of_an_engine(tmp_path: Path) -> None:
    with running_stub("--ttft-ms", "10", "--itl-ms", "2") as stub:
        endpoint = Endpoint(stub.base_url, "stub")
        drive_forced(endpoint, range(100, 140), tmp_path)
        ask_plainly(endpoint, range(100, 140))
