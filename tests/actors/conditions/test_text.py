from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.actors.strategies_plans import conditions, steady

from redraft.actors.conditions.printing import print_condition
from redraft.actors.conditions.text import MAX_CHARACTERS, check_printable, parse_condition, terms
from redraft.events.errors import ConditionError
from redraft.events.messages.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Measure,
    Not,
    Oscillating,
    Plateau,
    State,
    approved,
    change,
    cost,
    criterion,
    elapsed,
    errors,
    exit_,
    oscillating,
    outputs,
    plateau,
    score,
    state,
    tokens,
)

READ = [
    ("score >= 0.9", score >= 0.9),
    ("score >= 0.9 or plateau(gain=0.01, over=2)", (score >= 0.9) | plateau(gain=0.01, over=2)),
    ("(score >= 0.8) & (errors == 0) | plateau()", (score >= 0.8) & (errors == 0) | plateau()),
    ("score >= 0.8 and errors == 0 or plateau()", (score >= 0.8) & (errors == 0) | plateau()),
    ("0.9 <= score", score >= 0.9),
    ("0.9 < score", score > 0.9),
    ("0.2 >= score", score <= 0.2),
    ("0.2 > score", score < 0.2),
    ("0 == errors", errors == 0),
    ("outputs >= 5", outputs >= 5),
    ("elapsed > 90.5 or tokens > 5_000 or cost > 1e2", (elapsed > 90.5) | (tokens > 5000) | (cost > 100)),
    ("not approved", ~approved),
    ("~approved", ~approved),
    ("not score >= 0.5", ~(score >= 0.5)),
    ("~(score >= 0.5)", ~(score >= 0.5)),
    ("plateau(0.05)", plateau(0.05)),
    ("plateau(0.05, 3)", plateau(0.05, 3)),
    ("plateau(over=3)", plateau(over=3)),
    ("oscillating()", oscillating()),
    ("exit()", exit_()),
    ("not exit() or score > 0.5", ~exit_() | (score > 0.5)),
    ("oscillating(7)", oscillating(7)),
    ("oscillating(window=7)", oscillating(7)),
    ("approved | approved | approved", AnyOf((approved, approved, approved))),
    ("approved | (approved or approved)", AnyOf((approved, approved, approved))),
    ("(approved or approved) or approved", AnyOf((AnyOf((approved, approved)), approved))),
    ("((((approved))))", approved),
    ("  score\n  >= 0.9\n", score >= 0.9),
    ("state.done", State("done")),
    ("not state.done", ~state.done),
    ("state.revenue_ok and score >= 0.8", state.revenue_ok & (score >= 0.8)),
    ("score >= 0.8 and state.revenue_ok", (score >= 0.8) & state.revenue_ok),
    ("state.n >= 3", state.n >= 3),
    ("3 <= state.n", state.n >= 3),
    ("state.n == -2.5", state.n == -2.5),
    ("state.audience == 'children'", state.audience == "children"),
    ('state.audience == "it\'s 1 of 10"', state.audience == "it's 1 of 10"),
    ("state.audience == 'größer als 2nd.x' or approved", (state.audience == "größer als 2nd.x") | approved),
    ("state.state == 'not (a and b)'", state.state == "not (a and b)"),
]

CLOSER = [
    ("|", "0.9", "plateau()", lambda: score >= 0.9 | plateau()),
    ("&", "0.9", "plateau()", lambda: score >= 0.9 & approved),
    ("|", "errors", "(errors == 0)", lambda: score >= 0.9 | errors == 0),
    ("&", "errors", "(errors == 0)", lambda: score >= 0.9 & errors == 0),
    ("&", "criterion['tone']", "(criterion['tone'] <= 0.9)", lambda: score >= 0.9 & criterion.tone >= 0.5),
    ("|", "score", "plateau()", lambda: plateau() | score >= 0.9),
    ("&", "errors", "(errors == 0)", lambda: errors & score),
    ("&", "score", "plateau()", lambda: approved & score >= 0.9),
]


@pytest.mark.parametrize(("sign", "beside", "second", "write"), CLOSER)
def test_a_comparison_without_parentheses_is_explained_in_python_too(
    sign: str, beside: str, second: str, write: Callable[[], object]
) -> None:
    with pytest.raises(ConditionError) as refused:
        write()
    reason = f"in Python {sign} binds closer than a comparison, so each comparison needs parentheses"
    assert str(refused.value) == f"{sign} stands beside {beside}: {reason}; write (score >= 0.9) {sign} {second}"


def test_a_chain_of_comparisons_in_python_is_named() -> None:
    with pytest.raises(TypeError, match=r"or a chain of comparisons; write \(score >= 0\.5\) & \(score <= 0\.9\)"):
        assert 0.5 <= score <= 0.9


@pytest.mark.parametrize(
    ("measured", "name"),
    [(score, "score"), (change(criterion.words), "change('words')"), (criterion.tone, "criterion")],
)
def test_what_is_measured_is_named_where_it_is_no_condition(measured: Measure, name: str) -> None:
    with pytest.raises(ConditionError) as refused:
        terms(measured)
    assert str(refused.value).startswith(name)
    assert "is not a condition; write one such as score >= 0.9" in str(refused.value)


def test_a_term_without_its_parentheses_is_explained() -> None:
    with pytest.raises(ConditionError, match=r"exit_ is no condition without parentheses; write exit_\(\)"):
        (score >= 0.9) | exit_  # type: ignore[operator]


REFUSED = [
    ("state.audience >= 'x'", "column 19: a text is compared with ==; write state.audience == 'x'"),
    ("state.done == True", "column 15: what is true or false stands by itself; write state.done"),
    ("state.done == False", "write not state.done"),
    ("state.n >= 9 of 10", "column 12: a value of the state has no scale; write one number"),
    ("state.x == 'a\\'b'", "means nothing here"),
    ("state.n != 3", "write `not (… == …)`"),
    ("exit", "column 1: exit needs parentheses; write exit()"),
    ("exit(3)", "column 6: exit takes no arguments; write exit()"),
    ("", "the text is empty"),
    (" \n ", "the text is empty"),
    ("scor >= 0.9", "column 1: 'scor' is not known; did you mean score?"),
    ("score >= 0.9 or aproved", "column 17: 'aproved' is not known; did you mean approved?"),
    ("  scor >= 0.9", "column 3: 'scor'"),
    ("platau()", "column 1: 'platau' is not known; did you mean plateau?"),
    ("errors < 0", "errors < 0 can never hold"),
    ("errors == 1.5", "errors == 1.5 can never hold"),
    ("score >= nan", "column 10: write a finite number here"),
    ("score >= inf", "column 10: write a finite number here"),
    ("score >= 9 of 10 of 10", "column 10: a number is on one scale; write `of` once, as in 9 of 10"),
    ("plateau(of=errors)", "column 12: 'errors' is no criterion; write one, such as accuracy"),
    ("tokens > 1e999", "column 10: the number is too large"),
    ("tokens > 1" + "0" * 400, "column 10: the number is too large"),
    ("score >= errors", "column 10: write a finite number here"),
    ("score >= True", "column 10: write a finite number here"),
    ("score >= 1j", "column 11: 'j' follows 1"),
    ("0.5 < score < 0.9", "one comparison follows another; write two and join them with `and`"),
    ("score >= 0.9 | plateau()", "column 10: '|' binds closer than a comparison; write 'or'"),
    ("approved & score >= 0.9", "column 1: '&' binds closer than a comparison; write 'and'"),
    ("score >= 0.9 | errors == 0", "'|' binds closer than a comparison; write 'or'"),
    ("~score >= 0.9", "'~' binds closer than a comparison; write 'not'"),
    ("score", "score is not a condition by itself; compare it with a number, such as score >= 0.9"),
    ("plateau", "plateau needs parentheses; write plateau(gain=0.01, over=2)"),
    ("oscillating", "oscillating needs parentheses; write oscillating(window=4)"),
    ("approved()", "approved takes no parentheses; write approved"),
    ("approved == 1", "approved is not compared"),
    ("score(0.9)", "score takes no parentheses; write score >= 0.9"),
    ("open(1)", "'open' is not known; there are plateau, oscillating"),
    ("plateau()()", "only plateau, oscillating, exit take parentheses"),
    ("plateau(gian=0.1)", "column 9: 'gian' is not known; did you mean gain?"),
    ("plateau(0.1, 2, accuracy, 3)", "column 27: plateau takes 3 arguments"),
    ("plateau(0.1, gain=0.1)", "column 14: gain is given twice"),
    ("plateau(gain=score)", "column 14: write a finite number here"),
    ("plateau(gain=0)", "gain is 0.0; write a rise of the score above 0"),
    ("plateau(gain=-0.1)", "gain is -0.1"),
    ("plateau(over=0)", "over is 0; write a whole number"),
    ("plateau(over=2.5)", "column 14: over counts judged drafts; write a whole number"),
    ("plateau(over=True)", "over counts judged drafts"),
    ("oscillating(0)", "window is 0"),
    ("oscillating(-1)", "window is -1"),
    ("oscillating(window=10000000)", "window is 10000000"),
    ("score != 0.9", "column 7: '!=' means nothing here; write `not (… == …)`"),
    ("score ≥ 0.9", "column 7: '≥' means nothing here; write `>=`"),
    ("score => 0.9", "column 7: '=>' means nothing here; write `>=`"),
    ("score >= 0.9 || approved", "column 14: '||' means nothing here; write `or`"),
    ("score >= 0.9 && approved", "column 14: '&&' means nothing here; write `and`"),
    ("score >= 90%", "column 12: '%' means nothing here; write a share of 1"),
    ("score = 0.9", "column 7: cannot be read from here"),
    ("score is 0.9", "this does not compare; write one of >= > <= < =="),
    ("score in 0.9", "this does not compare"),
    ("score >= 0.9 OR approved", "column 14: 'OR' is written in small letters here: 'or'"),
    ("score >= 0.9or approved", "column 13: 'o' follows 0.9"),
    ("elapsed > 90s", "column 13: 's' follows 90; numbers have no unit (elapsed is seconds)"),
    ("approved approved", "column 10: cannot be read from here"),
    ("(score >= 0.9", "cannot be read from here"),
    ("score >= 0.9)", "column 13: cannot be read from here"),
    ("approved or", "column 12: something is missing at the end"),
    (" score >= ", "column 10: something is missing at the end"),
    ("approved if approved else approved", "this is not a condition"),
    ("lambda: approved", "column 7: ':' means nothing here"),
    ("[approved]", "column 1: '[' means nothing here"),
    ("score.real.part >= 0.9", "column 11: '.' means nothing here"),
    ("__import__('os')", "column 1: '__import__' is not known"),
    ("score >= 'high'", "column 10: write a finite number here"),
    ("(yield)", "this is not a condition"),
    ("await approved", "this is not a condition"),
    ("approved + approved", "column 10: '+' means nothing here"),
    ("approved - approved", "this is not a condition"),
    ("-approved", "this is not a condition"),
    ("approved, approved", "this is not a condition"),
    ("True", "this is not a condition"),
    ("0.9", "this is not a condition"),
    ("1 >= 0", "only score, errors, outputs, elapsed, tokens, cost, criteria and measures are compared"),
    ("\x00", "means nothing here"),
    ("approved # or not", "column 10: '#' means nothing here"),
    ("x" * (MAX_CHARACTERS + 1), "2,001 characters, more than 2,000"),
    ("(" * 1_000 + "approved" + ")" * 900, "column 51: more than 50 levels deep"),
    ("~" * 1_900 + "approved", "column 51: more than 50 levels deep"),
    ("not " * 490 + "approved", "more than 50 levels deep"),
    ("not (" * 40 + "approved" + ")" * 40, "more than 20 deep"),
    ("plateau(" * 45 + ")" * 45, "write a finite number here"),
    ("approved|" * 210 + "approved", "more than 200 terms"),
    ("plateau()|" * 190 + "approved", "characters as text; write fewer terms"),
]


@pytest.mark.parametrize(("text", "condition"), READ)
def test_a_text_is_the_condition_that_python_would_build(text: str, condition: Condition) -> None:
    assert parse_condition(text) == condition


@pytest.mark.parametrize(("text", "fault"), REFUSED, ids=[text[:30] or "nothing" for text, _ in REFUSED])
def test_a_wrong_text_is_refused_in_one_line(text: str, fault: str) -> None:
    with pytest.raises(ConditionError) as refusal:
        parse_condition(text)
    assert fault in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 250


@steady
@given(conditions)
def test_what_is_printed_is_read_as_the_same_condition(condition: Condition) -> None:
    assert parse_condition(print_condition(condition)) == condition


_NAMES = ("score", "errors", "approved", "plateau", "oscillating", "gain", "over", "and", "or", "not", "lambda", "if")
_SIGNS = ("|", "&", "~", "(", ")", "=", "==", ">=", "<", "-", ",", "0.9", "2", "1e9", "\n")


@steady
@given(st.text(max_size=60) | st.lists(st.sampled_from(_NAMES + _SIGNS), max_size=30).map(" ".join))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    condition, refusal = _read(text)
    assert len(refusal.splitlines()) <= 1
    assert condition is None or parse_condition(print_condition(condition)) == condition


def _read(text: str) -> tuple[Condition | None, str]:
    try:
        return parse_condition(text), ""
    except ConditionError as refusal:
        return None, str(refusal)


def test_printing_uses_the_words_and_no_more_parentheses_than_people_need() -> None:
    condition = (score >= 0.8) & (errors == 0) | plateau(0.02) | ~(approved | oscillating(3))
    printed = "(score >= 0.8 and errors == 0) or plateau(gain=0.02, over=2) or not (approved or oscillating(window=3))"
    assert print_condition(condition) == printed


@pytest.mark.parametrize(
    ("condition", "fault"),
    [
        (AnyOf(()), "AnyOf joins 0 conditions"),
        (AllOf((approved,)), "AllOf joins 1 conditions"),
        (AnyOf(score >= 0.9), "AnyOf takes one tuple of conditions"),  # type: ignore[arg-type]
        (Not(True), "True is not a condition"),  # type: ignore[arg-type]
        (score, "is not a condition"),
        (Compare("score", ">=", float("nan")), "write a finite number"),
        (Compare("score", ">=", True), "write a finite number"),
        (Compare("tokens", ">=", 10**400), "write a finite number"),
        (Compare("tokens", ">=", 10**5000), "write a finite number"),
        (Compare("taste", ">=", 1), "'taste' is not measured"),  # type: ignore[arg-type]
        (Compare("score", "!=", 1), "'!=' does not compare"),  # type: ignore[arg-type]
        (Plateau(0.1, True), "over is True"),
        (Oscillating(2.0), "window is 2.0"),  # type: ignore[arg-type]
        (AllOf((errors >= 0, Not(errors >= 0))), "can never hold"),
    ],
)
def test_a_condition_that_is_built_wrong_is_refused(condition: Condition, fault: str) -> None:
    with pytest.raises(ConditionError, match=fault):
        check_printable(condition)


def test_a_condition_that_nests_without_end_is_refused() -> None:
    condition: Condition = approved
    for _ in range(100_000):
        condition = Not(condition)
    with pytest.raises(ConditionError, match="more than 20 deep"):
        check_printable(condition)
    while isinstance(condition, Not):
        condition = condition.condition
