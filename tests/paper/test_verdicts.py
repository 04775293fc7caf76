"""Verdicts follow their rule, numbers over seeds are what they say, and are written legibly."""

import math

import numpy as np
import pytest

from bequest.paper.report import measures, palette
from bequest.paper.report.measures import Sample
from bequest.paper.report.verdicts import Check, Grade, against, every, target, verdict

INSIDE, BETTER, DIFFERS = Grade.IN_RANGE, Grade.BETTER, Grade.DIFFERS
MET, MISSED, AT_ROUNDING = Grade.MET, Grade.MISSED, Grade.AT_ROUNDING


@pytest.mark.parametrize(
    ("values", "better", "grade"),
    [
        ((1.0, 2.0, 3.0), "smaller", INSIDE),
        ((1.0, 2.0, 3.0), "neither", INSIDE),
        ((0.1, 0.2, 0.3), "smaller", BETTER),
        ((0.1, 0.2, 0.3), "larger", DIFFERS),
        ((0.1, 0.2, 0.3), "neither", DIFFERS),
        ((7.0, 8.0, 9.0), "smaller", DIFFERS),
        ((7.0, 8.0, 9.0), "larger", BETTER),
        ((7.0, 8.0, 9.0), "neither", DIFFERS),
        ((2.04, 3.0), "neither", INSIDE),  # printed as 2.0, it may be anything up to 2.05
        ((2.06, 3.0), "neither", DIFFERS),
        ((1.0, math.inf), "smaller", INSIDE),
        ((math.inf, math.inf), "smaller", DIFFERS),
    ],
)
def test_a_printed_number_against_a_sample(values, better, grade):
    assert against(Sample(values), 2.0, better=better) is grade


def test_a_statement_has_to_hold_on_every_seed():
    assert every([True, True]) is INSIDE
    assert every([True, False]) is DIFFERS


def test_a_target_of_our_own_is_met_or_missed():
    assert target(reached=True) is MET
    assert target(reached=False) is MISSED


@pytest.mark.parametrize(
    ("grades", "told"),
    [
        ([INSIDE, INSIDE], "in the paper's range: all 2 checks below"),
        ([INSIDE, BETTER], "better: reason 1"),
        ([DIFFERS, BETTER, DIFFERS], "differs, because reason 0; reason 2"),
        ([MET, MET], "met: all 2 checks below"),
        ([MET, MISSED, MISSED], "missed, because reason 1; reason 2"),
        ([AT_ROUNDING, MET, MISSED], "missed, because reason 2"),
        ([MET, AT_ROUNDING], "at rounding, because reason 1"),
    ],
)
def test_the_verdict_is_that_of_the_worst_checks_with_their_reasons(grades, told):
    checks = [Check("", "", grade, f"reason {i}") for i, grade in enumerate(grades)]
    assert str(verdict(checks)) == told


def test_quantiles_are_numpys():
    values = np.random.default_rng(0).standard_normal(20)
    sample = Sample.of(values)
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    assert (sample.lower, sample.median, sample.upper) == pytest.approx((low, middle, high))
    assert (sample.worst, sample.smallest) == (values.max(), values.min())
    assert Sample.of(values, bad="small").worst == values.min()


def test_what_diverged_is_worse_than_any_number_and_never_averaged():
    sample = Sample.of([1.0, 2.0, None, float("nan"), math.inf])
    assert sample.diverged == 3
    assert sample.lower == 2.0
    assert math.isinf(sample.median)
    assert math.isinf(sample.worst)
    low, middle, high = measures.quartiles([np.array([1.0, np.nan]), np.array([3.0, 5.0])])
    np.testing.assert_array_equal(low, [1.5, math.inf])
    np.testing.assert_array_equal(middle, [2.0, math.inf])
    np.testing.assert_array_equal(high, [2.5, math.inf])


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_that_is_none_is_a_word(value):
    assert measures.number(value) == measures.fixed(value, 2) == "diverged"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (9.996, "10.0"),
        (999.6, "1000"),
        (0.00999, "1.0·10⁻²"),
        (0.01, "0.0100"),
        (123456.0, "1.2·10⁵"),
        (-2.5, "−2.50"),
    ],
)
def test_numbers_are_written_with_three_digits(value, written):
    assert measures.number(value) == written


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK])
@pytest.mark.parametrize("ground", ["page", "panel"])
def test_small_text_can_be_read_in_every_colour_it_is_written_in(theme, ground):
    for role in sorted(set(theme) - {"page", "panel", "faint", "grid"}):
        light, dark = sorted((luminance(theme[role]), luminance(theme[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, role


def test_both_themes_have_the_same_roles_and_no_colour_twice():
    assert set(palette.LIGHT) == set(palette.DARK)
    assert len(set(palette.LIGHT.values())) == len(palette.LIGHT)
    assert len(set(palette.METHODS.values())) == len(palette.METHODS)
