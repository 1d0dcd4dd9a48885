from __future__ import annotations

import pytest

from redraft.events.messages.scales import LARGEST_END, mean_of, on_scale, score_text, to_share


@pytest.mark.parametrize("scale", [(0, 1e30), (0, 1e300), (-1.5e308, 1.5e308), (0.0, float("inf"))])
def test_a_scale_that_an_older_record_holds_is_written_whatever_it_is(scale: tuple[float, float]) -> None:
    for share in (0.0, 0.5, 1.0):
        assert f" of {scale[1]:g}" in score_text(share, scale)
    assert score_text(0.5, (0, 1e30)) == "5e+29 of 1e+30"


def test_the_largest_scale_keeps_its_decimals() -> None:
    assert score_text(0.5, (0, LARGEST_END)) == "500000000000000 of 1e+15"


@pytest.mark.parametrize("value", [2734, 1_000, 999_999])
def test_the_mean_of_one_criterion_is_its_score_on_a_wide_scale_too(value: int) -> None:
    scale = (1, 1_000_000)
    assert on_scale(mean_of([to_share(value, scale)]), scale) == value
