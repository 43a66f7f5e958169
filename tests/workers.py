"""Which tests run one after another in the same process, and which of them begin.

A process that runs the tests of one file compiles their programs and makes their fits once; two
processes that share a file do so twice. The longest files come first, so that all processes
end together.
"""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

PARTED = re.compile(r"(.+::test_every_method_keeps_the_contract)\[(.+)-\w+\]")
LONGEST = (
    "tests/docs/test_documents.py",
    "tests/contract/test_published.py",
    "tests/docs/test_docstrings.py",
    "tests/exact/test_pseudo_marginal.py",
    "tests/contract/test_order_mcmc.py",
    "tests/contract/test_mixtures.py",
    "tests/contract/test_resumption.py",
    "tests/exact/test_node_inference.py",
    "tests/exact/test_default_route.py",
    "tests/exact/test_growth.py",
    "tests/contract/test_methods.py",
    "tests/docs/",
    "tests/report/",
    "tests/contract/",
    "tests/exact/",
    "tests/unit/test_decisions.py",
    "tests/laws/test_projection_laws.py",
    "tests/laws/",
)
"""By measured CPU time: files and folders, the longest first. All others follow."""
LAST = ("tests/unit/test_import.py", "tests/unit/test_drawing.py")
"""Start processes of their own, which find what numba compiled for the others."""


def group_of(test: str) -> str:
    """The tests that belong together: those of a file, or of one method where all are tested."""
    if found := PARTED.match(test):
        return "-".join(found.groups())
    return test.partition("::")[0]


def rank_of(test: str) -> int:
    if test.startswith(LAST):
        return len(LONGEST) + 1
    return next((k for k, name in enumerate(LONGEST) if test.startswith(name)), len(LONGEST))


class Groups(LoadScopeScheduling):
    """Gives a free process the next group."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
