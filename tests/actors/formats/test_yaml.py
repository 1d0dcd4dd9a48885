from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.actors.strategies_plans import plans, steady
from tests.actors.workflow.test_workflow import improve, judge, save, write

from redraft.actors.formats.yaml_reader import print_plan, read_plan
from redraft.actors.plans.check import check_ready
from redraft.actors.workflow.workflow import Workflow, parallel, repeat, step
from redraft.events.errors import PlanError
from redraft.events.messages.conditions import outputs, plateau, score
from redraft.events.messages.plan import Option, Plan, Retry, Step

ARTICLE = """\
name: article
steps:
  - generate: {actor: write}
  - repeat:
      name: Refinement
      until: score >= 0.9 or plateau(gain=0.01, over=2)
      max_iterations: 5
      body:
        - critique: {actor: judge, timeout: 2m, retry: {attempts: 3}}
        - refine: {actor: improve}
  - publish: {actor: save}
"""


def test_the_python_form_and_the_yaml_form_give_equal_plans() -> None:
    article = (
        Workflow("article")
        .start_with(write)
        .repeat_until(
            (score >= 0.9) | plateau(gain=0.01, over=2),
            max_iterations=5,
            name="Refinement",
            body=[step(judge, timeout=120), improve],
        )
        .finally_(save)
    )
    assert read_plan(ARTICLE) == article.plan


def test_every_setting_has_its_place() -> None:
    text = """\
name: book
on_failure: publish_best
steps:
  - parallel:
      name: Drafts
      wait: 2
      steps:
        - generate: {actor: write, with: {style: plain, warmth: 0.5, words: 800, strict: true, "no": "off"}}
        - generate: {actor: write, name: again, timeout: 1.5m, with: {rules: [E, 501], notes: {a: b}}}
      judge: {actor: rate, retry: {attempts: 1, initial: 0, factor: 1.5, maximum: 1h}}
  - repeat:
      name: Chapters
      until: outputs >= 5
      max_iterations: 5
      keep: last
      rollback_margin: 0.25
      body:
        - repeat:
            until: score >= 0.9
            max_iterations: 2
            body:
              - parallel:
                  name: Panel
                  combine: weights
                  weights: [1, 2.5]
                  steps: [{critique: {actor: a}}, {critique: {actor: b}}]
  - parallel: {name: Out, wait: first, steps: [{publish: {actor: a}}, {publish: {actor: b}}]}
"""
    style: dict[str, Option] = {"style": "plain", "warmth": 0.5, "words": 800, "strict": True, "no": "off"}
    notes: dict[str, Option] = {"rules": ["E", 501], "notes": {"a": "b"}}
    panel = parallel("Panel", step("a", role="critic"), step("b", role="critic"), combine="weights", weights=[1, 2.5])
    book = (
        Workflow("book")
        .start_with(
            parallel(
                "Drafts",
                step(write, options=style),
                step(write, name="again", timeout=90, options=notes),
                wait=2,
                judge=step("rate", role="critic", retry=Retry(1, 0, 1.5, 3600)),
            )
        )
        .repeat_until(
            outputs >= 5,
            name="Chapters",
            max_iterations=5,
            keep="last",
            rollback_margin=0.25,
            body=[repeat("Refinement", until=score >= 0.9, max_iterations=2, body=[panel])],
        )
        .finally_(parallel("Out", step("a", role="publisher"), step("b", role="publisher"), wait="first"))
        .on_failure("publish_best")
    )
    read = read_plan(text)
    assert read == book.plan
    assert read_plan(print_plan(read)) == read


@pytest.mark.check
@steady
@given(plans())
def test_what_is_printed_is_read_as_the_same_plan(plan: Plan) -> None:
    read = read_plan(print_plan(plan))
    assert read == plan
    assert repr(read) == repr(plan), "equal, but 1 is not True and not 1.0"


def test_a_plan_is_printed_as_people_write_it() -> None:
    assert print_plan(read_plan(ARTICLE)) == (
        "name: article\n"
        "steps:\n"
        "- generate: {actor: write}\n"
        "- repeat:\n"
        "    name: Refinement\n"
        "    until: score >= 0.9 or plateau(gain=0.01, over=2)\n"
        "    max_iterations: 5\n"
        "    body:\n"
        "    - critique: {actor: judge, timeout: 2m}\n"
        "    - refine: {actor: improve}\n"
        "- publish: {actor: save}\n"
    )


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("90s", 90), ("2m", 120), ("1h", 3600), ("1.5m", 90), ("0.5", 0.5), ("'2m'", 120), ("1e2", 100)],
)
def test_times_are_read_in_seconds_minutes_and_hours(written: str, seconds: float) -> None:
    plan = read_plan(f"name: a\nsteps: [generate: {{actor: w, timeout: {written}}}]")
    assert plan.steps == (Step("generator", "w", "w", seconds),)


LOOP = "steps[1].repeat"
WRITE = "steps[0].generate"
WRONG_WORDS = {
    "max_iterations: 5": [
        ("max_iteration: 5", f"7: {LOOP}.max_iteration: no such key; did you mean max_iterations?"),
        ("", f"5: {LOOP}: max_iterations is missing; add max_iterations:"),
        ("max_iterations: 0", "7: Refinement: max_iterations is 0; write a whole number"),
        ("max_iterations: 2.5", f"7: {LOOP}.max_iterations: '2.5' is here; write a whole number"),
        ("max_iterations: '5'", f"7: {LOOP}.max_iterations: '5' in quotes is here; write a whole number"),
        ("max_iterations: yes", f"7: {LOOP}.max_iterations: 'yes' is here; write a whole number"),
        ("max_iterations: 010", f"7: {LOOP}.max_iterations: '010' is here; write a whole number"),
        ("max_iterations: " + "9" * 5000, f"7: {LOOP}.max_iterations: '99999"),
        ("max_iterations:", f"7: {LOOP}.max_iterations: nothing is here; write a whole number"),
        ("max_iterations: 5\n      max_iterations: 6", f"8: {LOOP}.max_iterations: this key comes twice"),
        ("max_iterations: 5\n      keep: first", "8: Refinement: keep is 'first'; write best or last"),
        ("max_iterations: 5\n      keep: yes", "8: Refinement: keep is 'yes'; write best or last"),
        ("max_iterations: 5\n      rollback_margin: 2", "8: Refinement: rollback_margin is 2; write a number, 0 to 1"),
        (
            "max_iterations: 5\n      rollback_margin: .nan",
            f"8: {LOOP}.rollback_margin: '.nan' is here; write a finite",
        ),
    ],
    "until: score >= 0.9 or plateau(gain=0.01, over=2)": [
        ("until: score >= 9", "6: Refinement: until: scores are 0..1"),
        ("until: outputs >= 1", "6: Refinement: until uses outputs"),
        ("until: 9", f"6: {LOOP}.until: YAML reads '9' as a number"),
    ],
    "name: Refinement": [
        ("name: no", f"5: {LOOP}.name: YAML reads 'no' as a yes or no; put it in quotes"),
        ("name: 2024-01-01", f"5: {LOOP}.name: YAML reads '2024-01-01' as a date"),
        ("name: 12", f"5: {LOOP}.name: YAML reads '12' as a number"),
        ("name: [a]", f"5: {LOOP}.name: a list is here; write text"),
        ("name:", f"5: {LOOP}.name: nothing is here; write text"),
        ("name: a/b", "5: 'a/b': name 'a/b' cannot be used; write only letters, digits"),
    ],
    "name: article": [
        ("name: my article", "1: name 'my article' cannot be used"),
        ("nam: article", "1: nam: no such key; did you mean name?"),
        ("on: article", "1: YAML reads 'on' as a yes or no; put it in quotes to make it text"),
    ],
    "generate: {actor: write}": [
        ("generte: {actor: write}", "3: steps[0].generte: no such key; did you mean generate?"),
        ("generate: write", f"3: {WRITE}: text is here; write a mapping, such as {{actor: …}}"),
        ("generate:", f"3: {WRITE}: nothing is here; write a mapping"),
        ("generate: {}", f"3: {WRITE}: actor is missing; add actor:"),
        ("write", "3: steps[0]: text is here; write a mapping, such as {generate: …}"),
        ("{}", "3: steps[0]: 0 steps in one item; begin each with '- '"),
        ("critique: {actor: write}", "3: write: nothing has written a draft yet for this critic"),
    ],
    "actor: write": [
        ("actor: write, actor: write", f"3: {WRITE}.actor: this key comes twice; keep one"),
        ("actor: write, timeout: 2 minutes", f"3: {WRITE}.timeout: '2 minutes' is here; write a time"),
        ("actor: write, timeout: 1:30", f"3: {WRITE}.timeout: '1:30' is here; write a time"),
        ("actor: write, timeout: -5", f"3: {WRITE}.timeout: '-5' is here; write a time"),
        ("actor: write, timeout: [5]", f"3: {WRITE}.timeout: a list is here; write a time"),
        ("actor: write, timeout: 0", "3: write: timeout is 0.0; write seconds, above 0"),
        ("actor: write, with: {a: no}", f"3: {WRITE}.with.a: 'no' may be text or a yes or no"),
        ("actor: write, with: {a: 010}", f"3: {WRITE}.with.a: '010' is here; write a whole number"),
        ("actor: write, with: {a: .inf}", f"3: {WRITE}.with.a: '.inf' is here; write a finite number"),
        ("actor: write, with: {a: }", f"3: {WRITE}.with.a: nothing is here; write text"),
        ("actor: write, with: {a: [1.5]}", f"3: {WRITE}.with.a[0]: YAML reads '1.5' as a number"),
        ("actor: write, with: {a: {b: {c: d}}}", f"3: {WRITE}.with.a.b: a mapping is here; write text"),
        ("actor: write, with: {a: 99999999999999999999}", "3: write: with.a is 99999999999999999999"),
        ("actor: write, with: [a]", f"3: {WRITE}.with: a list is here; write a mapping"),
        ("actor: &a write", "3: anchors and aliases are not read here ('a'); write the value out"),
        ("actor: *a", "3: anchors and aliases are not read here ('a')"),
        ("actor: !!str write", "3: tags are not read here ('tag:yaml.org,2002:str')"),
        ("actor: !!python/name:os.system x", "3: tags are not read here"),
        ("actor: write, <<: {a: b}", f"3: {WRITE}: YAML reads '<<' as a merge"),
    ],
    "timeout: 2m": [("timeout: 25h", "9: Refinement/judge: timeout is 90000.0; write seconds")],
    "attempts: 3": [
        ("attempts: 0", "9: Refinement/judge: retry.attempts is 0"),
        ("factor: 0.5", "9: Refinement/judge: retry.factor is 0.5"),
        ("atempts: 3", f"9: {LOOP}.body[0].critique.retry.atempts: no such key; did you mean attempts?"),
    ],
    "actor: improve": [("actor: judge", "10: Refinement/judge: name 'judge' is already that of a node beside it")],
    "publish: {actor: save}": [
        ("publish: {actor: save}\n    refine: {actor: x}", "11: steps[2]: 2 steps in one item"),
        ("publish: {actor: save", "this is not YAML: "),
        ("publish: {actor: save}}", "11: this is not YAML: "),
        ("publish: {actor: sa\x07ve}", "11: character 306 of the file may not stand in YAML; remove it"),
        ("publish: {actor: save}\n---\nname: b", "12: a second document begins here"),
        ("repeat: {}", "11: steps[2].repeat: until is missing; add until:"),
        ("parallel: {name: P, steps: [repeat: {}]}", "11: steps[2].parallel.steps[0].repeat: no such key; there are"),
        ("parallel: {name: P, steps: []}", "11: P: steps: 0 given; give at least two"),
        ("publish: {actor: save}\non_failure: explode", "12: on_failure is 'explode'; write fail or publish_best"),
        ("\tpublish: {actor: save}", "11: this is not YAML: found character '\\t'"),
    ],
}
REFUSED = [(right, *each) for right, wrongs in WRONG_WORDS.items() for each in wrongs]


@pytest.mark.parametrize(("right", "wrong", "fault"), REFUSED, ids=[wrong[:40] or "gone" for _, wrong, _ in REFUSED])
def test_a_wrong_line_is_named_with_file_line_and_place(right: str, wrong: str, fault: str) -> None:
    assert right in ARTICLE
    refusal = _refusal(ARTICLE.replace(right, wrong))
    assert refusal.startswith("article.yaml:")
    assert fault in refusal.removeprefix("article.yaml:")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "article.yaml:1: the file is empty; write name: and steps:"),
        ("# only a comment\n", "article.yaml:1: the file is empty"),
        ("null", "article.yaml:1: nothing is here; write a mapping, such as {name: …}"),
        ("- a\n- b", "article.yaml:1: a list is here; write a mapping"),
        ("name: a\n", "article.yaml:1: steps is missing; add steps:"),
        ("name: a\nsteps: []", "article.yaml:1: the workflow 'a' has no steps"),
        ("name: a\nsteps: {generate: {actor: w}}", "article.yaml:2: steps: a mapping is here; write a list"),
        ("x" * 262_145, "article.yaml: 262,145 bytes, more than 262,144"),
        ("é" * 140_000, "article.yaml: 280,000 bytes, more than 262,144"),
        ("[" * 200_000, "article.yaml:1: this nests more than 50 deep"),
        ("- " * 100_000, "article.yaml:1: this nests more than 50 deep"),
        ("{a: " * 60_000, "article.yaml:1: this nests more than 50 deep"),
        ("? " * 100_000, "article.yaml:1: this nests more than 50 deep"),
        ("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]", "article.yaml:1: anchors and aliases are not read here"),
        ("%YAML 9.9\n---\na: b", "article.yaml:1: this is not YAML: found incompatible YAML document"),
        ("name: \ud800", "article.yaml:1: character 7 of the file may not stand in YAML"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_plan_is_refused(text: str, fault: str) -> None:
    assert _refusal(text).startswith(fault)


_LINES = ARTICLE.splitlines()
_PIECES = ("repeat:", "- ", "  ", "{", "}", "[", "]", ": ", ", ", "#", "'", "&a", "*a", "!!int", "no", "5", "\t", "|")


@steady
@given(
    st.integers(0, len(_LINES) - 1),
    st.integers(0, 60),
    st.integers(0, 8),
    st.sampled_from(_PIECES) | st.text(max_size=5),
)
def test_a_changed_text_is_read_or_refused_in_one_line(line: int, column: int, gone: int, piece: str) -> None:
    changed = _LINES[line][:column] + piece + _LINES[line][column + gone :]
    refusal = _refusal("\n".join([*_LINES[:line], changed, *_LINES[line + 1 :]]))
    assert not refusal or refusal.startswith("article.yaml:")


@steady
@given(st.text(max_size=200))
def test_any_text_is_refused_in_one_line(text: str) -> None:
    assert _refusal(text).startswith("article.yaml:")


def _refusal(text: str) -> str:
    """The one line with which a text is refused; nothing when it is read."""
    try:
        read_plan(text, "article.yaml", check_ready)
    except PlanError as refusal:
        said = str(refusal)
        if len(said.splitlines()) != 1 or len(said) > 350:
            raise AssertionError(f"not one short line: {said!r}") from refusal
        return said
    return ""
