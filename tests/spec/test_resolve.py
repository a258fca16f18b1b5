"""A name is looked for next to the file, then in the working tree, then in the packaged copies."""

from pathlib import PurePath

from testbed.spec.resolve import candidates, not_found

ROOTS = (PurePath("tree"), PurePath("packaged"))


def found(name: str, beside: str | None = "mine") -> list[str]:
    """The candidates for a topology."""
    folder = None if beside is None else PurePath(beside)
    return [str(path) for path in candidates(name, "topologies", beside=folder, roots=ROOTS)]


def test_the_order_is_beside_tree_packaged() -> None:
    assert found("pd") == ["mine/pd.yaml", "tree/topologies/pd.yaml", "packaged/topologies/pd.yaml"]


def test_a_flag_has_nothing_beside_it() -> None:
    assert found("pd", None) == ["tree/topologies/pd.yaml", "packaged/topologies/pd.yaml"]


def test_configs_have_a_folder_for_each_kind() -> None:
    assert candidates("cpu", "slo", beside=None, roots=ROOTS[:1]) == (PurePath("tree/configs/slo/cpu.yaml"),)


def test_a_path_is_taken_as_a_path() -> None:
    assert found("x/pd.yaml") == ["mine/x/pd.yaml", "x/pd.yaml"]
    assert found("pd.yaml", None) == ["pd.yaml"]
    assert found("/a/pd.yaml") == ["/a/pd.yaml"]


def test_a_name_that_is_nowhere_is_refused_with_the_nearest_name() -> None:
    error = not_found("colocted", "topologies", [PurePath("a.yaml")], ["pd", "colocated"], where="d.yaml:2")
    assert str(error) == (
        'd.yaml:2: there is no topologies file "colocted"; looked at a.yaml\nhint: did you mean "colocated"?'
    )
    assert not_found("gpu", "slo", [], ["strict", "cpus"], where="d").hint == "known are cpus, strict"
    assert not_found("x", "slo", [], [], where="d").hint is None
