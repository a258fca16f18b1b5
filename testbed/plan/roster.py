"""Which engines a topology asks for, and on which machine each of them goes."""

from dataclasses import dataclass

from testbed.errors import DeployError
from testbed.plan.facts import GpuFacts
from testbed.spec.routing import LegRole
from testbed.spec.topology import Engine, Topology

NODE_HERE = "127.0.0.1"


@dataclass(frozen=True)
class Post:
    """One engine before it has ports: its name, the group that it is a replica of, and its machine's address."""

    name: str
    group: Engine
    node: str

    @property
    def role(self) -> LegRole:
        """What it does of a request."""
        return self.group.role


def roster(topology: Topology, gpus: GpuFacts | None) -> tuple[Post, ...]:
    """All engines in the order of the file: engine-0, or prefill-0 and decode-0, each kind counted by itself.

    With GPUs each goes to the first machine that has enough of them left, so that prefill and decode are near.
    Raises: DeployError, with the sum, where they do not fit.
    """
    counts: dict[str, int] = {}
    posts = []
    for group in topology.engines:
        word = "engine" if group.role == "both" else group.role
        for _ in range(group.replicas):
            number = counts[word] = counts.setdefault(word, -1) + 1
            posts.append(Post(f"{word}-{number}", group, NODE_HERE))
    if gpus is None:
        return _on_processor(posts)
    return tuple(posts) if gpus.shared else _on_gpus(posts, gpus)


def _on_processor(posts: list[Post]) -> tuple[Post, ...]:
    split = [post.name for post in posts if post.group.tensor_parallel > 1]
    if split:
        raise DeployError(
            f"{', '.join(split)} would be split over GPUs, and this is a plan for a processor",
            where="engines.tensor_parallel", hint="set it to 1, such as --set engines.0.tensor_parallel=1",
        )
    return tuple(posts)


def _on_gpus(posts: list[Post], gpus: GpuFacts) -> tuple[Post, ...]:
    left = dict.fromkeys(gpus.nodes, gpus.per_node)
    placed = []
    for post in posts:
        node = next((node for node, free in left.items() if free >= post.group.gpus), None)
        if node is None:
            asked = " + ".join(f"{one.name} {one.group.gpus}" for one in posts)
            total = sum(one.group.gpus for one in posts)
            raise DeployError(
                f"no machine has {post.group.gpus} GPUs left for {post.name}: {asked} = {total} asked;"
                f" there are {len(gpus.nodes)} x {gpus.per_node} {gpus.name}",
                where="engines.gpus", hint="ask for less, give --nodes, or --single-node for all on one GPU",
            )
        left[node] -= post.group.gpus
        placed.append(Post(post.name, post.group, node))
    return tuple(placed)
