"""A process counts the cores that it may use, not those of the machine."""

import os

from svidag.run import cores


def test_a_pinned_process_has_the_cores_it_is_pinned_to(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cores.usable() == 1


def test_without_pinning_it_has_all(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cores.usable() == 8
