"""What tells one processor from another."""

from testbed.engines.processor import installed_versions, parse_cpuinfo, read_processor

TWO_CORES = """\
processor\t: 0
model name\t: AMD EPYC 7713
flags\t\t: fpu avx2 sse2

processor\t: 1
model name\t: AMD EPYC 7713
flags\t\t: fpu avx2 sse2
"""
ARM = """\
processor\t: 0
CPU implementer\t: 0x41
CPU part\t: 0xd0c
Features\t: fp asimd bf16
"""


def test_name_and_cores_of_a_known_processor() -> None:
    processor = parse_cpuinfo(TWO_CORES, cores=2)
    assert (processor.name, processor.cores) == ("AMD EPYC 7713", 2)


def test_the_order_of_the_flags_does_not_matter_but_each_flag_does() -> None:
    digest = parse_cpuinfo(TWO_CORES, 2).flags_sha256
    assert parse_cpuinfo(TWO_CORES.replace("fpu avx2 sse2", "sse2 fpu avx2"), 2).flags_sha256 == digest
    assert parse_cpuinfo(TWO_CORES.replace("avx2", "avx512f"), 2).flags_sha256 != digest


def test_a_processor_without_a_name_is_called_by_its_numbers() -> None:
    processor = parse_cpuinfo(ARM, 1)
    assert processor.name == "0x41 0xd0c"
    assert processor.flags_sha256 != parse_cpuinfo(ARM.replace(" bf16", ""), 1).flags_sha256


def test_a_cpuinfo_that_says_nothing_is_still_a_processor() -> None:
    assert parse_cpuinfo("", 4).name == "unnamed processor"


def test_this_machine_has_a_core() -> None:
    assert read_processor().cores >= 1
    assert set(installed_versions()) == {"vllm", "torch"}
