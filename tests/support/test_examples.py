"""What ``make test`` tries a part of, and that ``make test-all`` runs the rest."""

from __future__ import annotations

import re

import pytest

from tests.support.examples import few_of_products
from tests.support.sources import ROOT

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.product
@pytest.mark.parametrize("m", range(10))
@pytest.mark.parametrize("n", range(4))
def test_product(m, n): ...

@pytest.mark.parametrize("n", range(10))
def test_other(n): ...

@pytest.mark.product
@pytest.mark.parametrize("n", [0])
def test_single(n): ...
"""


def test_of_a_product_the_first_case_and_some_others_run_and_of_other_tests_all(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini("[pytest]\nmarkers = product")
    items = pytester.getitems(TESTS)
    few, most = few_of_products(items)
    assert sorted([*few, *most], key=items.index) == items
    assert items[0] in few
    assert 15 <= len(most) < 39
    assert {item.name.partition("[")[0] for item in most} == {"test_product"}
    assert (few, most) == few_of_products(items)


def test_what_make_test_leaves_out_runs_in_make_test_all() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (rest,) = re.findall(
        r'^test-all:.*\n\t\$\(PYTEST\) -m "not integrations and \((.*) or not \(\$\(QUICK\)\)\)" '
        r"--hypothesis-profile=full$",
        makefile,
        re.MULTILINE,
    )
    assert rest == "hypothesis or sampled or product"
