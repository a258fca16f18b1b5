"""Least time that bytes need on a path.

`transfer_bound_s` is a bound: nothing may beat it at the nominal rate of the path. The two with operations are models
of how a transfer is cut up, and tell why a real one is slower.
"""

from testbed.errors import BoundError


def bytes_per_s_of_gbit(gbit_per_s: float) -> float:
    """Bytes per second of a link that is sold as `gbit_per_s` x 10^9 bits per second."""
    return gbit_per_s * 1e9 / 8


def transfer_bound_s(num_bytes: float, bytes_per_s: float) -> float:
    """Least seconds for `num_bytes` at `bytes_per_s`.

    Raises: BoundError for negative bytes or a rate that is not above 0.
    """
    if num_bytes < 0 or bytes_per_s <= 0:
        raise BoundError(f"{num_bytes} bytes at {bytes_per_s} bytes/s; want bytes >= 0 and a rate > 0")
    return num_bytes / bytes_per_s


def transfer_serial_s(num_bytes: float, bytes_per_s: float, *, operations: int, operation_s: float) -> float:
    """Model: `operations` one after the other, each with `operation_s` beside its bytes."""
    return transfer_bound_s(num_bytes, bytes_per_s) + _operations_s(operations, operation_s, 1)


def transfer_pipelined_s(
    num_bytes: float, bytes_per_s: float, *, operations: int, operation_s: float, in_flight: int,
) -> float:
    """Model: up to `in_flight` operations at once, so that the slower of bytes and operations decides."""
    return max(transfer_bound_s(num_bytes, bytes_per_s), _operations_s(operations, operation_s, in_flight))


def _operations_s(operations: int, operation_s: float, in_flight: int) -> float:
    if operations < 0 or operation_s < 0 or in_flight < 1:
        raise BoundError(f"{operations} operations of {operation_s} s, {in_flight} in flight, are not possible")
    return operations * operation_s / in_flight
