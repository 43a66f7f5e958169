"""Knowledge files: each format, each hazard, and the round trip."""

import os
import re
import stat
from pathlib import Path

import pytest
import yaml

from svidag.prior import Prior


@pytest.fixture
def read(tmp_path: Path):
    def read(name: str, text: str) -> Prior:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return Prior.from_file(path)

    return read


# YAML


def test_yaml_with_every_word(read):
    prior = read(
        "knowledge.yaml",
        """
        p: 0.1            # on every pair
        confidence: 30
        shrink_to: 0.2
        nu_min: 2
        kappa: 1e2
        eta: 3
        beliefs:
          - {from: PKA, to: Raf, p: 0.9, confidence: 20}
          - {from: PKC, to: Raf, p: 5e-1}
        required:
          - [Raf, Mek]
          - {from: Mek, to: Erk}
        forbidden: [[Akt, PKC]]
        tiers: [[PKC, PKA], [Raf, Mek]]
        closed_tiers: [0]
        search_space: [[Raf, Mek], [Mek, Erk], [PKA, Raf], [PKC, Raf]]
        """,
    )
    assert prior == Prior(
        p=0.1,
        confidence={("PKA", "Raf"): 20, ("PKC", "Raf"): 30},
        shrink_to=0.2,
        nu_min=2,
        kappa=100,
        eta=3,
        beliefs={("PKA", "Raf"): 0.9, ("PKC", "Raf"): 0.5},
        required=[("Raf", "Mek"), ("Mek", "Erk")],
        forbidden=[("Akt", "PKC")],
        tiers=[["PKC", "PKA"], ["Raf", "Mek"]],
        closed_tiers=[0],
        search_space=[("Raf", "Mek"), ("Mek", "Erk"), ("PKA", "Raf"), ("PKC", "Raf")],
    )


def test_expected_parents_from_yaml_without_an_ending(read):
    assert read("knowledge", "expected_parents: 3\nbeliefs: []\nrequired:\n") == Prior(
        expected_parents=3
    )


def test_the_same_statement_twice_is_one(read):
    text = (
        "beliefs: [{from: a, to: b, p: 0.9}, {from: a, to: b, p: 0.90}]\nrequired: [[a, c], [a, c]]"
    )
    assert read("k.yml", text) == Prior(beliefs={("a", "b"): 0.9}, required=[("a", "c")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("belief: []", "'belief' is not a known word; did you mean 'beliefs'?"),
        ("zzz: []", "'zzz' is not a known word; known are"),
        ("1: []", "1 is not a known word"),
        ("[a, b]", "expected words such as 'beliefs'"),
        ("required: [[no, a]]", "required[0] must be a variable name, which is text; got False"),
        ("required: [[a, 1]]", "put quotes around a name that reads as something else"),
        ("tiers: [[a, null]]", "an entry of tiers[0] must be a variable name, which is text"),
        ("tiers: [[2020-01-01]]", "got datetime.date(2020, 1, 1)"),
        ("required: [[a, b], [c]]", "required[1] must be a pair (cause, effect), got ['c']"),
        ("required: {from: a, to: b}", "required must be a list"),
        ("required: [{from: a, too: b}]", "required[0] has the unknown word 'too'"),
        ("required: [{from: a}]", "required[0] must have 'from' and 'to'"),
        ("beliefs: [[a, b, 0.9]]", "beliefs[0] must be {from: …, to: …, p: …}"),
        ("beliefs: [{from: a, to: b}]", "beliefs[0] ('a' → 'b') has no 'p'"),
        ("beliefs: [{from: a, to: b, p: often}]", "p of beliefs[0] ('a' → 'b') must be"),
        ("beliefs: [{from: a, to: b, p: .nan}]", "between 0 and 1, got nan"),
        ("beliefs: [{from: a, to: b, p: 1.5}]", "between 0 and 1, got 1.5"),
        ("beliefs: [{from: a, to: b, p: 1, confidence: -1}]", "confidence of beliefs[0]"),
        (
            "beliefs: [{from: a, to: b, p: 1, confid: 1}]",
            "word 'confid'; did you mean 'confidence'?",
        ),
        ("beliefs: {a: 0.5}", "a key of beliefs must be a pair"),
        (
            "beliefs: [{from: a, to: b, p: 0.1}, {from: a, to: b, p: 0.2}]",
            "beliefs[1] gives 'a' → 'b' 0.2, but an earlier entry gave 0.1",
        ),
        ("required: [[a, b]]\nforbidden: [[a, b]]", "required lists 'a' → 'b', but forbidden"),
        ("required: [[a, b]]\nrequired: [[b, c]]", "'required' is given twice"),
        ("p: [", "is not valid YAML"),
        ("p: 0.1: 2", "line 1, column 7"),
        ("", "is empty"),
        ("# nothing", "is empty"),
        ("p: !!python/object/apply:os.getcwd []", "aliases and tags are not used"),
        ("p: !!timestamp x", "aliases and tags are not used"),
        ("a: &x [b]\ntiers: *x", "aliases and tags are not used"),
        ("tiers: [[0x_]]", "invalid literal"),
        ("tiers: [[a]]\ntemporal_order: [[b]]", "both 'tiers' and 'temporal_order'"),
        ("required: " + "[" * 600 + "]" * 600, "is nested too deeply"),
    ],
)
def test_yaml_errors_name_the_file_and_the_entry(read, text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read("wrong.yaml", text)
    assert "wrong.yaml: " in str(caught.value)


def test_quoted_names_are_text(read):
    prior = read("k.yaml", "required: [['no', \"1\"], ['null', '2020-01-01'], [\"1e3\", '=']]")
    assert prior.required == (("no", "1"), ("null", "2020-01-01"), ("1e3", "="))


def test_a_bomb_of_aliases_is_refused_at_the_first(read):
    bomb = 'a: &a ["x","x"]\n'
    for this, last in zip("bcdefghijklmnop", "abcdefghijklmno", strict=True):
        bomb += f"{this}: &{this} [{','.join([f'*{last}'] * 9)}]\n"
    with pytest.raises(ValueError, match="line 2, column 8"):
        read("bomb.yaml", bomb)


def test_files_that_are_too_long_or_not_text(tmp_path):
    path = tmp_path / "data.yaml"
    path.write_bytes(b"a" * 4_000_001)
    with pytest.raises(ValueError, match=r"data\.yaml: a knowledge file has at most"):
        Prior.from_file(path)
    path.write_bytes(b"p: \xff")
    with pytest.raises(ValueError, match=r"data\.yaml: is not UTF-8 text \(byte 3\)"):
        Prior.from_file(str(path))
    with pytest.raises(FileNotFoundError):
        Prior.from_file(tmp_path / "absent.yaml")


# Other programs' words


def test_pgmpy_words_in_python_and_in_json(read):
    words = {
        "forbidden_edges": [["tub", "asia"]],
        "required_edges": [["smoke", "bronc"]],
        "temporal_order": [["asia", "smoke"], ["tub"], ["bronc"]],
        "search_space": None,
    }
    expected = Prior(
        forbidden=[("tub", "asia")],
        required=[("smoke", "bronc")],
        tiers=[["asia", "smoke"], ["tub"], ["bronc"]],
    )
    assert Prior.from_dict(words) == expected
    assert Prior.from_dict(words | {"required_edges": {("smoke", "bronc")}}) == expected
    assert read("expert.json", repr(words).replace("'", '"').replace("None", "null")) == expected


def test_pgmpy_search_space(read):
    prior = read("expert.yaml", "search_space: [[a, b]]\nrequired_edges: [[a, b]]")
    assert prior.search_space == prior.required == (("a", "b"),)


def test_benchpress_constraints(read):
    prior = read(
        "edgeConstraints.json",
        """{
          "tiers": [["1", "6"], ["3"], ["5", "2"]],
          "context_tier": [], "context_all": null,
          "tier_settings": {"forbid_within_tiers": true, "can_only_cause_next_tier": true},
          "forbidden_groups": [{"cause": ["7", "8"], "effect": ["9"]}],
          "required_groups": [{"cause": ["1"], "effect": ["3"]}],
          "forbidden_edges": [["5", "7"]],
          "required_edges": [["8", "7"]]
        }""",
    )
    assert prior == Prior(
        tiers=[["1", "6"], ["3"], ["5", "2"]],
        closed_tiers=[0, 1, 2],
        forbidden=[
            *[("1", "5"), ("1", "2"), ("6", "5"), ("6", "2")],
            *[("5", "7"), ("7", "9"), ("8", "9")],
        ],
        required=[("8", "7"), ("1", "3")],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"context_all": ["a"]}', "'context_all' of benchpress has no counterpart"),
        ('{"tier_settings": {"closed": true}}', "tier_settings has the words"),
        ('{"forbidden_groups": [{"cause": ["a"]}]}', "forbidden_groups[0] must have 'cause' and"),
        ('{"required_groups": [{"cause": "a", "effect": ["b"]}]}', "cause of required_groups[0]"),
        ('{"p": 0.1, "p": 0.2}', "'p' is given twice"),
        ('{"p": NaN}', "between 0 and 1, got nan"),
        ('{"p": 0.1', "is not valid JSON: Expecting ',' delimiter: line 1 column 10"),
        ("[" * 100_000, "is nested too deeply"),
        ("[]", "expected words such as"),
    ],
)
def test_json_errors(read, text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read("wrong.json", text)
    assert "wrong.json: " in str(caught.value)


def test_groups_cannot_stand_for_more_pairs_than_memory_holds():
    many = [str(k) for k in range(1001)]
    group = {"cause": many, "effect": [f"x{k}" for k in many]}
    with pytest.raises(ValueError, match=r"forbidden_groups\[0\] stands for more than 1000000"):
        Prior.from_dict({"forbidden_groups": [group]})


# CSV


def test_csv_of_beliefs_and_statuses(read):
    prior = read(
        "edges.csv",
        "from,to,p,confidence,status\nage,bmi,0.9,20,\nbmi,sbp,.2,,\nage,sbp,,,required\n"
        '"sbp","age",,,Forbidden\n\n',
    )
    assert prior == Prior(
        beliefs={("age", "bmi"): 0.9, ("bmi", "sbp"): 0.2},
        confidence={("age", "bmi"): 20},
        required=[("age", "sbp")],
        forbidden=[("sbp", "age")],
    )


def test_bnlearn_lists_are_told_apart_by_name_as_r_writes_them(read):
    text = '"","from","to"\r\n"1","A","B, C"\r\n"2","B, C","D"\r\n'
    pairs = (("A", "B, C"), ("B, C", "D"))
    assert read("whitelist.csv", text) == Prior(required=pairs)
    assert read("my_blacklist.csv", text) == Prior(forbidden=pairs)


def test_other_delimiters_and_headings(read):
    assert read("k.csv", "\ufefffrom;to;prob\na;b;0.3") == Prior(beliefs={("a", "b"): 0.3})
    assert read("k.tsv", "From\tTo\tlist\na\tb\tblacklist") == Prior(forbidden=[("a", "b")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("from,to\na,b", "line 2: a row has either 'p' or a 'status'"),
        ("from,to,p\na,b,", "line 2: a row has either 'p'"),
        ("from,to,p,status\na,b,0.1,required", "line 2: a row has either 'p'"),
        ("from,to,confidence,status\na,b,1,required", "line 2: a row has either 'p'"),
        ("from,to,status\na,b,perhaps", "line 2: status must be one of"),
        ("from,to,p\na,b,0.1\na,c,high", "line 3: expected a number, got 'high'"),
        ("from,to,p\na,b", "line 2: there are 3 columns, but 2 values"),
        ("from,to,p\na,,0.1", "line 2: both 'from' and 'to' must name a variable"),
        ("from,to,p\na,b,7", "must be a finite number between 0 and 1, got 7.0"),
        ("from,to,p\na,b,0.1\na,b,0.2", "but an earlier entry gave 0.1"),
        ("cause,effect\na,b", "line 1: the columns are"),
        ("from,from,to\na,b,c", "line 1: the columns are"),
        ("from,p\na,0.1", "line 1: there must be columns 'from' and 'to'"),
        ("", "line 1: there must be columns"),
        ('from,to,p\n"a"x,b,0.1', "line 2 is not valid CSV"),
    ],
)
def test_csv_errors_name_the_line(read, text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read("wrong.csv", text)
    assert "wrong.csv: " in str(caught.value)


# Tetrad


def test_tetrad_file(read):
    prior = read(
        "knowledge.txt",
        """/knowledge

// saved by hand
addtemporal
1 age sex
2 smoking "blood pressure"
4* cancer stroke
2 diet

forbiddirect
diet cancer

requiredirect
smoking cancer

forbiddengroup
age sex
stroke
""",
    )
    assert prior == Prior(
        tiers=[["age", "sex"], ["smoking", "blood pressure", "diet"], ["cancer", "stroke"]],
        closed_tiers=[2],
        forbidden=[("diet", "cancer"), ("age", "stroke"), ("sex", "stroke")],
        required=[("smoking", "cancer")],
    )


def test_tetrad_file_as_the_program_saves_nothing(read):
    text = "/knowledge\naddtemporal\n\nforbiddirect\n\nrequiredirect\n"
    assert read("empty.txt", text) == Prior()


def test_tetrad_tier_that_causes_only_the_next(read):
    prior = read("k.txt", "addtemporal\n1*- a b\n2 c\n3 d\nrequiredgroup\na\nc\n")
    assert prior.forbidden == (("a", "d"), ("b", "d"))
    assert prior.closed_tiers == (0,)
    assert prior.required == (("a", "c"),)


def test_tetrad_names_separated_by_commas(read):
    prior = read("k.txt", '/knowledge comma\naddtemporal\n0, Exam 1\n1, Exam 2, "Last, First"\n')
    assert prior.tiers == (("Exam 1",), ("Exam 2", "Last, First"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/knowledge\nage sex", "line 2: expected one of ('addtemporal'"),
        ("addtemporal\nage sex", "line 2: a tier starts with its number (2 or 2*), got 'age'"),
        ("addtemporal\n-1 sex", "line 2: a tier starts with its number"),
        ("forbiddirect\na b c", "line 2 must be a pair"),
        ("/knowledge\nrequiredirect\n\na a", "line 4 is 'a' → 'a'"),
        ("forbiddengroup\na b", "line 2: a group is a line of causes and a line of effects"),
        ("addtemporal\n1 a\n2 a", "'a' is in tiers[0] and in tiers[1]"),
    ],
)
def test_tetrad_errors_name_the_line(read, text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read("wrong.txt", text)
    assert "wrong.txt: " in str(caught.value)


# Writing

FULL = Prior(
    p=0.1,
    shrink_to=0.3,
    beliefs={("no", "1"): 1 / 3, ("a b", "é: #"): 1e-9},
    confidence={("no", "1"): 12.5},
    required=[("1", "null")],
    forbidden=[("null", "1")],
    tiers=[["no"], ["1", "null"]],
    closed_tiers=[0],
    kappa=1e-7,
)


@pytest.mark.parametrize(
    "prior", [Prior(), FULL, Prior(beliefs={("a", "b"): 0.2}, confidence=3), Prior(p=0.5)]
)
def test_round_trip_of_files_and_of_plain_data(prior, tmp_path):
    prior.to_file(tmp_path / "k.yaml")
    assert Prior.from_file(tmp_path / "k.yaml") == prior
    assert Prior.from_dict(prior.to_dict()) == prior
    assert yaml.safe_load((tmp_path / "k.yaml").read_text(encoding="utf-8")) == prior.to_dict()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "k.yaml"
    Prior(p=0.1).to_file(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        Prior(p=0.2).to_file(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_written_files_have_ordinary_permissions(tmp_path):
    Prior().to_file(tmp_path / "k.yaml")
    (tmp_path / "other").touch()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("k.yaml", "other")]
    assert modes[0] == modes[1]


def test_only_yaml_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.yaml or \.yml, got .*k\.json"):
        Prior().to_file(tmp_path / "k.json")
