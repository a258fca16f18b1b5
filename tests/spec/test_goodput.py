"""The words after --goodput."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import SpecError
from testbed.spec.goodput import METRICS, AnswerLimits, answer_limits

CLASSES = ("long_doc", "short_chat")


def test_limits_in_milliseconds_hold_for_every_class() -> None:
    limits = AnswerLimits(ttft_s=0.3, tpot_s=0.05, e2e_s=5.0)
    assert answer_limits(["ttft:300", "tpot:50", "e2el:5000"], CLASSES) == dict.fromkeys(CLASSES, limits)


def test_a_class_keeps_the_common_limits_that_it_does_not_replace() -> None:
    found = answer_limits(["ttft:300", "tpot:50", "long_doc:ttft:2000"], CLASSES)
    assert found["long_doc"] == AnswerLimits(ttft_s=2.0, tpot_s=0.05)
    assert found["short_chat"] == AnswerLimits(ttft_s=0.3, tpot_s=0.05)


def test_a_class_without_any_limit_is_left_out() -> None:
    assert answer_limits(["long_doc:tpot:50"], CLASSES) == {"long_doc": AnswerLimits(tpot_s=0.05)}
    assert answer_limits([], CLASSES) == {}


def test_aiperfs_names_and_its_one_string_mean_the_same() -> None:
    theirs = ["time_to_first_token:300 inter_token_latency:50 request_latency:5000"]
    assert answer_limits(theirs, CLASSES) == answer_limits(["ttft:300", "tpot:50", "e2el:5000"], CLASSES)


def test_a_class_whose_name_has_a_dot_is_one() -> None:
    assert answer_limits(["groups.cold:ttft:9"], ["groups.cold"]) == {"groups.cold": AnswerLimits(ttft_s=0.009)}


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("ttft", "is no limit"), ("a:b:c:d", "is no limit"), ("ttft:fast", "is no number of milliseconds"),
        ("ttft:0", "must be above 0 ms"), ("ttft:-3", "must be above 0 ms"), ("ttft:nan", "must be above 0 ms"),
        ("ttft:inf", "must be above 0 ms"), ("itl:50", "can't be limited"), ("tfft:50", 'did you mean "ttft"?'),
        ("long_dok:ttft:50", 'did you mean "long_doc"?'), ("other:ttft:50", "classes are long_doc, short_chat"),
    ],
)
def test_a_word_that_is_no_limit_is_refused_with_what_to_write(word: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        answer_limits([word], CLASSES)
    assert told in str(caught.value)
    assert str(caught.value).startswith("--goodput: ")


def test_one_thing_is_limited_once() -> None:
    with pytest.raises(SpecError, match="limits what another word limits already"):
        answer_limits(["e2el:5000", "request_latency:4000"], CLASSES)


@given(st.sampled_from(sorted(METRICS)), st.floats(min_value=0.001, max_value=1e9))
def test_every_limit_that_is_written_is_read(name: str, limit_ms: float) -> None:
    found = answer_limits([f"{name}:{limit_ms!r}"], ["any"])["any"]
    assert getattr(found, METRICS[name]) == pytest.approx(limit_ms / 1000)
