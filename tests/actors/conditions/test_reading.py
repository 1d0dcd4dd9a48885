"""Numbers of conditions are read on the scales that critics declare, and names are those of their criteria."""

from __future__ import annotations

import operator
from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from redraft.actors.conditions.holding import check_reading
from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.reading import check_name_declared, compare, print_until, share_of_gain
from redraft.actors.conditions.text import check_condition, parse_condition
from redraft.actors.formats.mermaid import print_mermaid
from redraft.actors.workflow.roles import critic
from redraft.events.errors import ActorError, ConditionError
from redraft.events.messages.conditions import (
    Compare,
    Oscillating,
    Plateau,
    confidence,
    criterion,
    lowest,
    oscillating,
    plateau,
    points,
    score,
)
from redraft.events.messages.plan import Criterion, Plan, Repeat, Step
from redraft.events.messages.scales import Scale, score_text, to_share

ACCURACY, TONE = Criterion("accuracy"), Criterion("tone", scale=(0.0, 100.0))
PLAIN = Step("critic", "plain", "plain")
JUDGE = Step("critic", "judge", "judge", scale=(1.0, 10.0), criteria=(ACCURACY, TONE))
OTHER = Step("critic", "other", "other", scale=(0.0, 5.0), criteria=(ACCURACY,))
TONED = Step("critic", "toned", "toned", criteria=(Criterion("tone"),))


@pytest.mark.parametrize(
    ("text", "critics"),
    [
        ("score >= 8", (JUDGE,)),
        ("score >= 8 and score <= 8 and accuracy >= 8", (JUDGE,)),
        ("score > 8 or score < 8 or tone > 8", (JUDGE,)),
        ("score >= 0.9", (JUDGE,)),  # below the scale, so it is a share
        ("score >= 0.9", (PLAIN,)),
        ("score >= 90 of 100", (PLAIN,)),
        ("score >= 1 of 10 and score < 100 of 100", (JUDGE,)),
        ("accuracy >= 8 and tone >= 60 and min(criteria) > 0.5", (JUDGE,)),
        ("judge.accuracy >= 8 and other.accuracy >= 4 and accuracy >= 0.5", (JUDGE, OTHER)),
        ("judge.score >= 8 or score >= 0.8", (JUDGE, OTHER)),
        ("confidence >= 0.7 and judge.confidence > 0.5", (JUDGE,)),
        ("plateau(gain=2) or plateau(gain=1 of 10, of=accuracy) or plateau()", (JUDGE,)),
        ("oscillating(window=3, of=judge.tone)", (JUDGE,)),
    ],
)
def test_a_condition_that_fits_what_its_critics_declare(text: str, critics: tuple[Step, ...]) -> None:
    condition = parse_condition(text)
    assert check_reading(condition, critics) == condition == parse_condition(print_condition(condition))


@pytest.mark.parametrize(
    ("text", "critics", "fault"),
    [
        ("score >= 1", (JUDGE,), "write score >= 1 of 10, or score >= 100 of 100"),
        ("score >= 0.9", (OTHER,), "write score >= 0.9 of 5, or score >= 90 of 100"),
        ("plateau(gain=1)", (JUDGE,), "write gain=1 of 10, or gain=100 of 100"),
        ("score >= 11", (JUDGE,), "scores are 1..10, so score >= 11 is out of range"),
        ("score > 10", (JUDGE,), "score > 10 can never hold, as scores are 1..10"),
        ("confidence > 1", (JUDGE,), "confidence > 1 can never hold, as confidence is 0..1"),
        ("acc >= 8", (JUDGE,), "acc is no criterion or measure that a critic here declares; did you mean accuracy?"),
        ("not score >= 1 of 10", (JUDGE,), "the condition can never hold"),
        ("score >= 9 and score < 2", (JUDGE,), "can never hold, whatever is measured; its parts exclude each other"),
        ("score >= 0.9 and (approved or accuracy < 2 and accuracy >= 80 of 100) and score < 8", (JUDGE,), "can never"),
        ("score >= 0.2 or score < 0.9", (PLAIN,), "the condition always holds"),
        ("score >= 1 of 10", (JUDGE,), "always holds, as scores are 1..10, so score >= 1 of 10 decides nothing"),
        ("score >= 0.9 or score <= 10", (JUDGE,), "the condition always holds, as scores are 1..10"),
        ("score >= 0", (PLAIN,), "the condition always holds, as scores are 0..1"),
        ("approved or errors >= 0", (PLAIN,), "the condition always holds, whatever is measured"),
        ("score >= 8", (PLAIN,), "scores are 0..1, so score >= 8 is out of range"),
        (
            "score >= 8",
            (JUDGE, OTHER),
            "the scales of score differ here, so it is a share, 0..1, and score >= 8 is out of",
        ),
        ("score >= 8", (JUDGE, OTHER), "such as 0.9, or name a critic: judge.score >= 8"),
        ("accuracy >= 4", (JUDGE, OTHER), "name a critic: judge.accuracy >= 4 or other.accuracy >= 4"),
        ("tone >= 80", (JUDGE, TONED), "name a critic: judge.tone >= 80"),
        ("accuracy >= 80", (JUDGE, OTHER), "out of range; write a number such as 0.9"),
        ("min(criteria) >= 4", (JUDGE, OTHER), "out of range; write a number such as 0.9"),
        ("score >= 8 of 10", (PLAIN,), "score >= 8 of 10 names no scale that is declared here; write of 100 or 1"),
        (
            "score >= 8 of 10",
            (JUDGE, OTHER),
            "8 of 10 names one scale, and those of score differ here; write of 100 or 1, or name a critic: judge.score",
        ),
        (
            "plateau(gain=1 of 10)",
            (JUDGE, OTHER),
            "gain 1 of 10 names one scale, and those of score differ here; write of 100 or 1",
        ),
        (
            "acuracy >= 8",
            (JUDGE,),
            "acuracy is no criterion or measure that a critic here",
        ),
        ("eror == 0", (JUDGE,), "did you mean errors?"),
        ("judge.tome >= 8", (JUDGE,), "did you mean judge.tone?"),
        ("quality >= 8", (PLAIN,), "declare criteria with @critic(criteria={…})"),
        ("oscillating(of=tona)", (JUDGE,), "did you mean tone?"),
        ("plateau(gain=11 of 10)", (JUDGE,), "plateau: gain is 11 of 10; write a number, 0 to 9, such as 1 of 10"),
        ("plateau(gain=10)", (JUDGE,), "plateau: gain is 10; write a number, 0 to 9, such as 1 of 10"),
        (
            "confidence >= 7",
            (JUDGE,),
            "confidence is 0..1, so confidence >= 7 is out of range; write a number such as 0.9",
        ),
    ],
)
def test_a_condition_that_does_not_fit_says_how_to_write_it(text: str, critics: tuple[Step, ...], fault: str) -> None:
    with pytest.raises(ConditionError) as refused:
        check_reading(parse_condition(text), critics)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "critics"),
    [("accuracy >= 80", (JUDGE, OTHER)), ("min(criteria) >= 4", (JUDGE, OTHER)), ("confidence >= 7", (JUDGE,))],
)
def test_no_hint_says_what_would_not_help(text: str, critics: tuple[Step, ...]) -> None:
    with pytest.raises(ConditionError) as refused:
        check_reading(parse_condition(text), critics)
    assert str(refused.value).endswith("write a number such as 0.9")


@pytest.mark.parametrize(
    "scale", [(-100.0, 100.0), (0.0, 100.0), (0.25, 100.0), (-1.0, 1.0), (0.25, 1.0), (0.0, 10.0), (-10.0, 5.0)]
)
def test_the_two_spellings_that_are_offered_mean_the_number_on_the_scale_and_the_share(scale: Scale) -> None:
    critics = (Step("critic", "judge", "judge", scale=scale),)
    on_it, share = (parse_condition(text) for text in spellings("score >= 0.5", critics))
    for condition, least in ((on_it, to_share(0.5, scale)), (share, 0.5)):
        assert isinstance(condition, Compare)
        assert check_reading(condition, critics) == condition
        assert [compare(condition, least + each, critics) for each in (-1e-4, 0, 1e-4)] == [False, True, True]
    if scale[1] - scale[0] >= 1:
        gains = [parse_condition(f"plateau({text})") for text in spellings("plateau(gain=0.5)", critics)]
        assert [check_reading(each, critics) for each in gains] == gains
        read = [share_of_gain(each.gain, each.top, 0.01, "score", critics) for each in gains if type(each) is Plateau]
        assert read == [pytest.approx(0.5 / (scale[1] - scale[0]), abs=1e-9), 0.5]


def spellings(text: str, critics: tuple[Step, ...]) -> tuple[str, str]:
    """The two conditions that the refusal of an ambiguous one offers."""
    with pytest.raises(ConditionError) as refused:
        check_reading(parse_condition(text), critics)
    on_it, share = str(refused.value).rpartition("; write ")[2].split(", or ")
    return on_it, share


def test_python_builds_what_the_text_says() -> None:
    built = (criterion.accuracy >= 8) & (criterion.judge.tone >= 6) & (lowest >= 5) & (confidence >= 0.7)
    assert built == parse_condition("accuracy >= 8 and judge.tone >= 6 and min(criteria) >= 5 and confidence >= 0.7")
    assert (score >= points(1, of=10)) == parse_condition("score >= 1 of 10")
    assert (criterion["fact-check.accuracy"] >= 8) == parse_condition("fact-check.accuracy >= 8")


@pytest.mark.parametrize(("points_", "holds"), [(8.0, True), (7.999999, False), (10.0, True), (1.0, False)])
def test_a_number_is_compared_on_its_scale_without_errors_of_rounding(points_: float, holds: bool) -> None:
    scale: Scale = (1.0, 10.0)
    assert compare(Compare("score", ">=", 8.0), to_share(points_, scale), (JUDGE,)) is holds
    assert compare(Compare("score", ">=", 0.7), to_share(points_, scale), (JUDGE,)) is (points_ >= 7.4)


def test_a_gain_is_a_share_of_its_scale() -> None:
    assert share_of_gain(2, None, 0.01, "score", (JUDGE,)) == pytest.approx(2 / 9)
    assert share_of_gain(0.01, None, 0.01, "score", (JUDGE,)) == 0.01
    assert share_of_gain(1, 10.0, 0.1, "score", (JUDGE,)) == pytest.approx(1 / 9)
    assert share_of_gain(50, None, 0.1, "tone", (JUDGE,)) == 0.5
    assert share_of_gain(0.3, msgspec.UNSET, 0.1, "score", (PLAIN,)) == 0.3


@pytest.mark.parametrize(
    ("share", "scale", "text"),
    [
        (8 / 9, (1.0, 10.0), "9 of 10"),
        (1.0, (0.0, 100.0), "100 of 100"),
        (0.0, (1.0, 10.0), "1 of 10"),
        (0.5, (1.0, 10.0), "5.5 of 10"),
        (0.88888, (1.0, 10.0), "8.999 of 10"),
        (0.7407407407, (1.0, 10.0), "7.667 of 10"),
        (2 / 3, None, "0.667"),
        (0.8496, None, "0.849"),
        (0.8999, None, "0.899"),
        (0.9, (0.0, 1.0), "0.90"),
    ],
)
def test_a_score_is_shown_on_its_scale_never_rounded_up_to_a_threshold(
    share: float, scale: Scale | None, text: str
) -> None:
    assert score_text(share, scale) == text
    if text.endswith(" of 10"):
        assert score_text(share, scale, beside=True).startswith(f"{text} (0.") or share in (0.0, 1.0)


@pytest.mark.parametrize("name", ["2nd", "and", "not", "fact-check", "3-b", "class", "of", "1e5", "2", "007", "3-4"])
def test_a_critic_of_any_name_stands_in_conditions(name: str) -> None:
    step = Step("critic", "judge", name, scale=(1, 10), criteria=(Criterion("tone"),), measures=("words",))
    text = f"({name}.tone >= 8 of 10 and not {name}.score < 5 and change({name}.words) < 0.1) or {name}.words == 1e3"
    condition = parse_condition(text)
    assert print_condition(condition) == text.replace("1e3", "1000")
    assert check_reading(condition, (step,)) == condition
    assert f"{name}.tone >= 8" in print_condition(criterion[f"{name}.tone"] >= 8)


@pytest.mark.parametrize("name", ["and", "class", "pass", "is", "None"])
def test_a_criterion_or_measure_that_no_condition_could_name_is_refused(name: str) -> None:
    for said in ({"criteria": {name: "x"}}, {"measures": (name,)}):
        with pytest.raises(ActorError, match=f"'{name}' cannot be used in a condition; write letters"):
            critic(**said)(lambda draft: 1)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "scale", "said"),
    [
        ("score >= 5 of 7", (0, 100), "declared here; write of 100 or 1"),
        ("score >= 5 of 7", (1, 10), "declared here; write of 10, 100 or 1"),
        ("score >= 5 of 7", (0, 2), "declared here; write of 2, 100 or 1"),
        ("plateau(gain=5 of 7)", (0, 100), "declared here; write of 100 or 1"),
    ],
)
def test_the_scales_that_may_be_named_come_once_each(text: str, scale: Scale, said: str) -> None:
    with pytest.raises(ConditionError) as refused:
        check_reading(parse_condition(text), (Step("critic", "judge", "judge", scale=scale),))
    assert str(refused.value).endswith(said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("score", "score is a word of conditions; use another"),
        ("scor", "scor is nearly score, a word of conditions; use another"),
    ],
)
def test_a_measure_by_a_word_of_conditions_is_told_once(name: str, said: str) -> None:
    with pytest.raises(ActorError) as refused:
        critic(measures=(name,))(lambda draft: 1)
    assert str(refused.value) == f"@critic: measures: {said}"


def test_a_condition_that_is_shown_says_where_a_share_is_meant_beside_a_scale() -> None:
    text = (
        "(score >= 0.9 and not accuracy < 0.5) or score >= 8 or confidence >= 0.7 or errors == 0 or plain.score >= 0.9"
    )
    loop = Repeat("Loop", parse_condition(text), 3, (JUDGE, PLAIN))
    assert print_until(loop) == text.replace("accuracy < 0.5", "accuracy < 0.5 of 1")
    alone = replace(loop, body=(JUDGE,), until=parse_condition("score >= 0.9 and not accuracy < 0.5 and tone >= 8"))
    assert print_until(alone) == "score >= 0.9 of 1 and not accuracy < 0.5 of 1 and tone >= 8"
    assert print_mermaid(Plan("p", (Step("generator", "w", "w"), alone))).count("score #62;= 0.9 of 1") == 1
    check_reading(parse_condition(print_until(alone)), (JUDGE,))


def test_a_gain_in_python_names_its_scale_and_its_criterion() -> None:
    made = plateau(gain=points(1, of=10), over=3, of=criterion.judge.accuracy)
    assert made == parse_condition("plateau(gain=1 of 10, over=3, of=judge.accuracy)")
    assert plateau() == Plateau()
    assert oscillating() == Oscillating()
    assert oscillating(3, of="tone") == parse_condition("oscillating(window=3, of=tone)")
    with pytest.raises(ConditionError, match=r"gain is '1 of 10'; .*, or points\(1, of=10\)"):
        check_condition(plateau(gain="1 of 10"))  # type: ignore[arg-type]


@pytest.mark.parametrize("sign", [operator.ge, operator.gt, operator.le, operator.lt])
def test_a_criterion_without_its_name_is_refused(sign: Callable[[object, object], object]) -> None:
    with pytest.raises(ConditionError, match=r"what is compared with 8 has no name; write criterion\.accuracy >= 8"):
        sign(criterion, 8)


@pytest.mark.parametrize("name", ["errors", "outputs", "words"])
def test_what_has_no_scale_is_not_offered_where_a_criterion_stands(name: str) -> None:
    counts = Step("critic", "prose", "prose", measures=("words",))
    with pytest.raises(ConditionError) as refused:
        check_name_declared(name, (JUDGE, counts))
    assert "did you mean" not in str(refused.value)
    assert not {"errors,", "outputs,", "words,"} & set(str(refused.value).split("there are")[-1].split())


def test_only_what_can_stand_in_every_condition_is_listed() -> None:
    with pytest.raises(ConditionError) as refused:
        check_reading(parse_condition("zzz >= 8"), (JUDGE,))
    listed = str(refused.value).partition("there are ")[2].split(", ")
    assert {"accuracy", "min(criteria)", "score", "errors", "approved"} < set(listed)
    assert not {"outputs", "elapsed", "tokens", "cost"} & set(listed)
