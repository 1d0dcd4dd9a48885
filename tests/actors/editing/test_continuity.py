"""Issues of the same words keep their identity from draft to draft, by the places where they stand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from redraft.actors.editing.continuity import continue_issues, have_equals
from redraft.actors.editing.issues import locate_issues
from redraft.events.messages.content import Critique, Issue


def slips(text: str) -> tuple[Issue, ...]:
    """The issues of a text as a worker sends them: each `Teh` is misspelled."""
    places = [at for at in range(len(text)) if text.startswith("Teh", at)]
    said = tuple(Issue("misspelled", "Teh", (at, at + 3)) for at in places)
    return locate_issues(Critique(0.5, issues=said), text, ()).issues


def told(*texts: str) -> list[list[int]]:
    """For each of these drafts the issues that it has: by number, in the order in which they first came."""
    known = slips(texts[0])
    numbers = [issue.id for issue in known]
    found = [numbers.copy()]
    for before, text in pairwise(texts):
        known = continue_issues(slips(text), text, known, before)
        numbers += [issue.id for issue in known if issue.id not in numbers]
        found.append([issue.id for issue in known])
    return [[numbers.index(each) for each in ids] for ids in found]


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (("Teh tide and Teh moon.", "The tide and Teh moon."), [[0, 1], [1]]),
        (("Teh tide and Teh moon.", "Teh tide and The moon."), [[0, 1], [0]]),
        (("Teh tide and Teh moon.", "The tide and Teh moon.", "So: The tide and Teh moon!"), [[0, 1], [1], [1]]),
        (("Teh tide and Teh moon.", "The tide and Teh moon.", "Teh tide and Teh moon."), [[0, 1], [1], [0, 1]]),
        (("Teh tide.", "Teh sea. Teh tide."), [[0], [1, 0]]),
        (("Teh a. Teh b. Teh c. Teh d.", "Tall. The a. Teh b. The c. Teh dog."), [[0, 1, 2, 3], [1, 3]]),
        (("Teh moon", "Tall Teh moon, Teh sea"), [[0], [0, 1]]),
        (("Teh | Teh | Teh", "The | Teh | Teh"), [[0, 1, 2], [1, 2]]),
        (("Teh. " * 90, "Teh. " * 40 + "The. " + "Teh. " * 49), [[*range(90)], [*range(40), *range(41, 90)]]),
        (("x\n" * 5000 + "Teh a.\nTeh b.", "y\n" * 5000 + "The a.\nTeh b."), [[0, 1], [1]]),
        (("Teh a. Teh b. " + "x " * 5000, "Teh b. " + "y " * 5000), [[0, 1], [1]]),
    ],
)
def test_an_issue_is_the_one_that_stood_at_its_place(texts: tuple[str, ...], ids: list[list[int]]) -> None:
    assert told(*texts) == ids


def test_an_id_that_the_critic_gave_stays_and_is_taken() -> None:
    before, text = "Teh a. Teh b.", "The a. Teh b. Teh c."
    first, second = slips(before)
    kept, new = slips(text)
    own = replace(new, id="mine")
    assert [each.id for each in continue_issues((kept, own), text, (first, second), before)] == [second.id, "mine"]


def test_issues_of_the_same_words_are_known_also_before_their_quotes_are_filled_in() -> None:
    one, two = slips("Teh a. Teh b.")
    assert have_equals((one, replace(two, quote="", id="")))
    assert have_equals((two,))
    assert not have_equals((one, Issue("dull", id="mine"), Issue("dull", "Teh")))
