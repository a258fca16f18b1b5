"""The scale of a workload: measured speed in, lengths, rates and duration out, with hand-worked numbers."""

import pytest

from testbed.errors import BoundError, SpecError
from testbed.spec.workload import Workload
from testbed.workload.scale import Scale, Speed, choose_scale, session_work_s

SPEED = Speed(points=((100, 0.5), (200, 1.0), (400, 3.0)), decode_s_per_token=0.1)


def workload(**changes: object) -> Workload:
    fixed_chat = {
        "arrival": {"process": "poisson", "rate": 1.0}, "system_prompt": {"tokens": 50}, "turns": 2, "think": "1s",
        "input": {"fixed": 25}, "output": {"fixed": 20}, "stop": "forced", "timeout": "60s",
    }
    documents = {
        "arrival": {"process": "constant", "rate": 0.5}, "input": {"fixed": 20}, "output": {"fixed": 10},
        "documents": {"count": 3, "tokens": {"uniform": [600, 1000]}, "popularity": {"zipf": 0}},
        "stop": "natural", "timeout": "60s", **changes,
    }
    return Workload.model_validate(
        {"name": "w", "duration": "10s", "classes": {"chat": fixed_chat, "docs": documents}}
    )


def scale(load: Workload, max_model_len: int = 4096, min_documents: int = 4) -> Scale:
    return choose_scale(
        load, SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=max_model_len, min_documents=min_documents
    )


@pytest.mark.parametrize(
    ("tokens", "seconds"),
    [
        (200, 1.0),
        (150, 0.75),  # half way between 0.5 and 1.0
        (300, 2.0),  # half way between 1.0 and 3.0
        (500, 4.0),  # the last line drawn on: 3.0 + 100 x 0.01
        (50, 0.25),  # the first line drawn back: 0.5 - 50 x 0.005
    ],
)
def test_prefill_follows_straight_lines_through_the_points(tokens: int, seconds: float) -> None:
    assert SPEED.prefill_s(tokens) == pytest.approx(seconds)


def test_a_fixed_cost_stays_below_the_first_point_and_no_prompt_is_free() -> None:
    # 0.4 s + 2 ms a token at both points; at 50 tokens 0.4 + 0.1
    assert Speed(((100, 0.6), (200, 0.8)), 0.1).prefill_s(50) == pytest.approx(0.5)
    # the line 100 -> 1, 200 -> 3 hits zero at 50 tokens; the line to the origin gives 0.5 s
    assert Speed(((100, 1.0), (200, 3.0)), 0.1).prefill_s(50) == pytest.approx(0.5)


def test_one_point_is_a_line_to_the_origin() -> None:
    assert Speed(((100, 0.5),), 0.1).prefill_s(300) == pytest.approx(1.5)


@pytest.mark.parametrize("points", [(), ((100, 1.0), (100, 2.0)), ((100, 1.0), (200, 0.9)), ((100, 0.0),)])
def test_points_that_do_not_rise_are_refused(points: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(BoundError, match="must rise"):
        Speed(points, 0.1)


@pytest.mark.parametrize("seconds", [0.3, 1.0, 2.0, 7.7])
def test_tokens_in_a_time_is_the_longest_prompt_that_fits(seconds: float) -> None:
    tokens = SPEED.tokens_in(seconds)
    assert SPEED.prefill_s(tokens) <= seconds < SPEED.prefill_s(tokens + 1)


def test_work_of_a_chat_session_counts_every_prompt_in_full() -> None:
    # turn 1: 50 + 25 = 75 tokens, 0.375 s; turn 2: 50 + 25 + 20 + 25 = 120 tokens, 0.6 s
    # decode: 2 x 20 x 0.1 x 0.5 = 2 s
    assert session_work_s(workload().classes["chat"], SPEED, 1.0, 4096) == pytest.approx(2.975)


def test_the_median_document_takes_the_wanted_time() -> None:
    # 200 tokens in 1.0 s; the median of 600..1000 is 800
    assert scale(workload()).length_ratio == pytest.approx(200 / 800)


def test_rates_are_set_so_that_the_expected_load_is_the_target() -> None:
    # docs: 200 + 20 = 220 tokens, 1.0 + 20 x 0.01 = 1.2 s, decode 10 x 0.1 x 0.5 = 0.5 s, so 1.7 s of work
    # load = 1.0 x 2.975 + 0.5 x 1.7 = 3.825
    assert scale(workload()).rate_ratio == pytest.approx(0.5 / 3.825)


def test_the_duration_holds_the_wanted_number_of_document_requests() -> None:
    # 4 requests at 0.5 x 0.130719 = 0.0653595 a second: 61.2 s
    assert scale(workload()).duration_s == pytest.approx(61.2)


def test_the_duration_is_never_below_what_was_written() -> None:
    assert scale(workload(), min_documents=0).duration_s == 10.0


def test_documents_shrink_until_the_longest_one_fits_the_context() -> None:
    # room beside question and answer: 160 - 20 - 10 = 130; the longest document has 1000
    assert scale(workload(), max_model_len=160).length_ratio == pytest.approx(0.13)


def test_a_context_without_room_for_a_document_is_refused() -> None:
    with pytest.raises(SpecError, match="no room for a document"):
        scale(workload(), max_model_len=30)


def test_the_derivation_shows_the_formula_with_its_numbers() -> None:
    text = scale(workload()).derivation
    assert "200 tokens prefilled in 1 s / median document 800" in text
    assert "0.5 / (1/s x 2.98 s (chat) + 0.5/s x 1.7 s (docs)) = 0.5 / 3.83 = 0.1307" in text
    assert "duration = 4 requests of docs / 0.06536 per s = 61.2 s" in text


def texts(arrival: object, **changes: object) -> Workload:
    """A workload without documents: 100 tokens in, 40 out."""
    text = {"input": {"fixed": 100}, "output": {"fixed": 40}, "stop": "forced", "timeout": "60s"}
    return Workload.model_validate(
        {"name": "w", "duration": "10s", "arrival": arrival, "classes": {"text": text}} | changes
    )


POISSON = {"process": "poisson", "rate": 2.0}


def test_without_documents_inputs_and_answers_shrink_until_a_request_takes_no_longer_than_it_may() -> None:
    # 26 tokens out take 2.6 s and leave 0.4 s, in which 80 come in; 27 leave 0.3 s, in which 60 do. Of 40 there are 27
    # from a ratio of 26.5 / 40 = 0.6625 on, where 66 come in and take 0.33 s: so up to there
    made = choose_scale(
        texts(POISSON), SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=4096, request_s=3.0
    )
    assert made.text_ratio == pytest.approx(0.6625, abs=1e-5)
    # work: 66.25 tokens, 0.33125 s, and 26 answers at half a step: 1.3 s; 2 a second of that
    assert made.rate_ratio == pytest.approx(0.5 / (2 * 1.63125), rel=1e-4)
    assert "text_ratio = 0.6625: inputs and answers" in made.derivation


def test_a_machine_that_is_fast_enough_makes_nothing_longer() -> None:
    made = choose_scale(
        texts(POISSON), SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=4096, request_s=60.0
    )
    assert (made.text_ratio, made.length_ratio) == (1.0, 1.0)


def test_texts_shrink_until_they_fit_the_context() -> None:
    # half of 100 and half of 40 are 70
    made = choose_scale(
        texts(POISSON), SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=70, request_s=60.0
    )
    assert round(100 * made.text_ratio) + round(40 * made.text_ratio) == 70


def test_where_there_are_documents_nothing_else_is_scaled_in_length() -> None:
    made = choose_scale(
        workload(), SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=4096, request_s=0.1
    )
    assert made.text_ratio == 1.0


def test_so_many_requests_last_as_long_as_their_rate_says() -> None:
    # work 0.5 + 40 x 0.1 x 0.5 = 2.5 s; ratio 0.5 / (2 x 2.5) = 0.1, so 0.2 a second: 30 requests in 150 s
    made = choose_scale(
        texts(POISSON, duration=None, requests=30), SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=4096
    )
    assert made.rate_ratio == pytest.approx(0.1)
    assert made.duration_s == pytest.approx(150.0)


def test_a_closed_loop_has_no_rate_and_lasts_as_long_as_its_work() -> None:
    closed = texts({"process": "closed", "concurrency": 4}, duration=None, requests=30)
    made = choose_scale(closed, SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=4096)
    assert made.rate_ratio == 1.0
    assert made.duration_s == pytest.approx(30 * 2.5)


def test_the_load_of_a_varying_rate_is_that_of_its_mean() -> None:
    # 3 a second for 5 s and 1 for 5 s: a mean of 2, as before
    steps = {"process": "step", "steps": [{"rate": 3, "for": "5s"}, {"rate": 1, "for": "5s"}]}
    made = choose_scale(texts(steps), SPEED, target_load=0.5, document_prefill_s=1.0, max_model_len=4096)
    assert made.rate_ratio == pytest.approx(0.1)


def test_classes_that_divide_an_arrival_have_their_shares_of_its_rate() -> None:
    both = workload()
    shared = Workload.model_validate({
        "name": "w", "duration": "10s", "arrival": {"process": "poisson", "rate": 1.5}, "classes": {
            name: {
                **traffic.model_dump(exclude={"arrival", "timeout", "think", "turns"}, exclude_none=True),
                "timeout": "60s", "think": "1s", "turns": traffic.turns, "share": share,
            }
            for (name, traffic), share in zip(both.classes.items(), (2 / 3, 1 / 3), strict=True)
        },
    })
    # 1.0 and 0.5 a second, as each class had by itself
    assert scale(shared).rate_ratio == pytest.approx(scale(both).rate_ratio)


def test_work_of_a_round_is_four_prompts_with_their_prefix() -> None:
    groups = {"prefix": {"fixed": 160}, "change_at": 16}
    traffic = texts(POISSON, classes={
        "rounds": {
            "prefix_groups": groups, "input": {"fixed": 20}, "output": {"fixed": 10}, "stop": "natural",
            "timeout": "9s",
        }
    }).classes["rounds"]
    # half of 160 and 20: 100 tokens, 0.5 s, and 10 x 0.1 x 0.5 = 0.5 s; four of them
    assert session_work_s(traffic, SPEED, 0.5, 4096) == pytest.approx(4.0)
