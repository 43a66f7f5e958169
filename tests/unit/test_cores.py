"""A process counts the cores that it may use, not those of the machine."""

import os

from svidag.run import cores


def test_a_pinned_process_has_the_cores_it_is_pinned_to(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cores.usable() == 1


def test_without_pinning_it_has_all(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cores, "_quota", lambda: None)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cores.usable() == 8


def test_a_container_that_gives_less_time_than_cores_counts(tmp_path, monkeypatch):
    groups = tmp_path / "cgroup"
    groups.write_text("0::/user/fit\n")
    (tmp_path / "user" / "fit").mkdir(parents=True)
    (tmp_path / "user" / "fit" / "cpu.max").write_text("max 100000\n")
    assert cores.quota(tmp_path, groups) is None
    (tmp_path / "user" / "cpu.max").write_text("150000 100000\n")
    assert cores.quota(tmp_path, groups) == 2
    monkeypatch.setattr(cores, "_quota", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert cores.usable() == 2


def test_the_older_kind_of_container_counts_too(tmp_path):
    groups = tmp_path / "cgroup"
    groups.write_text("4:cpu,cpuacct:/box\n3:memory:/box\n")
    box = tmp_path / "cpu" / "box"
    box.mkdir(parents=True)
    (box / "cpu.cfs_period_us").write_text("100000")
    (box / "cpu.cfs_quota_us").write_text("-1")
    assert cores.quota(tmp_path, groups) is None
    (box / "cpu.cfs_quota_us").write_text("300000")
    assert cores.quota(tmp_path, groups) == 3
