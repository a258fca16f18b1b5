"""Keys in a real Redis: ours are removed, all others stay."""

import pytest
import redis as client

from testbed.deploy.processes import free_port
from testbed.errors import RunError, SpecError
from testbed.tiers.redis import RedisKeys, address


def test_only_keys_with_our_prefix_are_removed(url: str) -> None:
    with client.Redis.from_url(url) as direct:
        for key in ("site/a/models/m@1", "site/a/models/m@2", "site/b/models/m@1", "else"):
            direct.set(key, b"x")
        keys = RedisKeys(url, "site/a/models/m@")
        assert keys.count() == 2
        assert keys.remove() == 2
        assert (keys.count(), keys.remove()) == (0, 0)
        assert direct.exists("site/b/models/m@1", "else") == 2
        keys.close()


def test_a_prefix_with_wildcards_means_itself(url: str) -> None:
    with client.Redis.from_url(url) as direct:
        direct.set("s*[1]?@1", b"x")
        direct.set("sABC1X@1", b"x")
        keys = RedisKeys(url, "s*[1]?@")
        assert keys.remove() == 1
        assert direct.exists("sABC1X@1") == 1
        keys.close()


def test_a_redis_that_is_not_there_is_said_at_once() -> None:
    port = free_port("127.0.0.1")
    keys = RedisKeys(f"redis://127.0.0.1:{port}/0", "p", limit_s=1.0)
    with pytest.raises(RunError, match="does not answer"):
        keys.count()
    keys.close()


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:1", "redis://user:secret@127.0.0.1:1", "redis://", "redis://h:99999", "redis://h:1/3", "redis://h:x"],
)
def test_a_url_of_another_form_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(SpecError) as refused:
        address(url)
    assert "secret" not in str(refused.value)


def test_the_port_of_a_url_defaults_to_that_of_redis() -> None:
    assert address("redis://10.0.0.5") == ("10.0.0.5", 6379)
