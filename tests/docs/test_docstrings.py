"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import svidag

MODULES = ["svidag", *(m.name for m in pkgutil.walk_packages(svidag.__path__, "svidag."))]


def examples(name):
    """The docstrings of a module that have examples."""
    found = doctest.DocTestFinder().find(importlib.import_module(name))
    return [one for one in found if one.examples]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for one in examples(name):
        runner.run(one)
    assert runner.failures == 0


def test_most_modules_show_how_they_are_used():
    assert sum(len(examples(name)) > 0 for name in MODULES) > len(MODULES) / 3
