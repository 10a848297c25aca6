"""`verl_dump.verify.strict`: what is wrong with a line is said exactly, at its byte, however the line is cut."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from verl_dump.verify import strict
from verl_dump.verify.strict import ABSENT, Checker, Step

Known = tuple[list[tuple[str, int, str]], "frozenset[str] | None", Any]


def read(*pieces: bytes) -> Known:
    """What is known of a line that comes in these pieces."""
    checker = Checker()
    for piece in pieces:
        checker.feed(piece)
    facts = checker.end()
    return [(each.kind, each.position, each.message) for each in facts.problems], facts.keys, facts.step


def known(line: bytes) -> Known:
    """What is known of a line, the same whether it comes whole, in two pieces, or byte by byte."""
    whole = read(line)
    for at in range(len(line)):
        assert read(line[:at], line[at:]) == whole
    assert read(*(line[at : at + 1] for at in range(len(line)))) == whole
    return whole


TORN = {
    "empty": (b"", "before the first value"),
    "space": (b" \t\r\n", "before the first value"),
    "word-alone": (b"tru", "before the first value"),
    "open": (b"{", "inside an object"),
    "key": (b'{"a', "inside a key"),
    "escape": (b'{"a": "\\', "inside a string"),
    "unit": (b'{"a": "\\u12', "inside a string"),
    "colon": (b'{"a"', "inside an object"),
    "value": (b'{"a":', "inside an object"),
    "array": (b'{"a": [', "inside an array"),
    "array-value": (b'{"a": [1', "inside an array"),
    "array-closed": (b'{"a": [1]', "inside an object"),
    "comma": (b'{"a": 1,', "inside an object"),
    "minus": (b'{"a": -', "inside an object"),
    "fraction": (b'{"a": 1.', "inside an object"),
    "exponent": (b'{"a": 1e+', "inside an object"),
    "word": (b'{"a": nul', "inside an object"),
    "infinity": (b'{"a": -Inf', "inside an object"),
}


@pytest.mark.parametrize("case", list(TORN))
def test_a_torn_line_ends_at_its_last_byte(case: str) -> None:
    """A line that ends too early is torn at its end, and it is said inside what it ends."""
    line, place = TORN[case]
    assert known(line) == ([("torn-line", len(line), f"the line ends {place}")], None, ABSENT)


NUL = "a NUL byte, as a crash of the machine leaves it,"
WRONG = {
    "no-key": (b"{1: 2}", 1, "'1' where a key should be"),
    "comma-first": (b"{,}", 1, "',' where a key should be"),
    "comma-last": (b'{"a": 1,}', 8, "'}' where a key should be"),
    "quote": (b"{'a': 1}", 1, '"\'" where a key should be'),
    "no-colon": (b'{"a" 1}', 5, "'1' where a colon should be"),
    "array-comma": (b"[1,]", 3, "']' where a value should be"),
    "array-brace": (b"[1}", 2, "'}' where a comma should be"),
    "object-bracket": (b'{"a": 1]', 7, "']' where a comma should be"),
    "no-comma": (b'{"a": 1 "b": 2}', 8, "'\"' where a comma should be"),
    "hexadecimal": (b'{"a": 0x1}', 7, "'x' where a comma should be"),
    "two": (b"{} {}", 3, "more text after the value"),
    "word": (b'{"a": nope}', 6, "'n' where a value should be"),
    "plus": (b'{"a": +1}', 6, "'+' where a value should be"),
    "minuses": (b'{"a": --1}', 6, "'-' where a value should be"),
    "minus-word": (b'{"a": -x}', 6, "'-' where a value should be"),
    "point": (b'{"a": .5}', 6, "'.' where a value should be"),
    "tilde": (b'{"a": ~}', 6, "'~' where a value should be"),
    "delete": (b'{"a": \x7f}', 6, "byte 0x7f where a value should be"),
    "control": (b'{"a": \x1f}', 6, "byte 0x1f where a value should be"),
    "nul": (b'{"a": \x00}', 6, f"{NUL} where a value should be"),
    "one": (b'{"a": \x01}', 6, "byte 0x01 where a value should be"),
    "byte-order-mark": (b"\xef\xbb\xbf{}", 0, "byte 0xef, as of a byte order mark, where a value should be"),
    "zero-first": (b'{"a": 01}', 6, "a malformed number"),
    "points": (b'{"a": 1.2.3}', 6, "a malformed number"),
    "control-in-key": (b'{"a\x1f": 1}', 3, "a raw control character (byte 0x1f) in a string"),
    "nul-in-text": (b'{"a": "\x00"}', 7, f"a raw control character ({NUL}) in a string"),
    "escape": (b'{"a": "\\x"}', 7, "an escape that JSON does not have"),
    "unit": (b'{"a": "\\u12g4"}', 7, "an escape that JSON does not have"),
    "capital": (b'{"a": "\\U0041"}', 7, "an escape that JSON does not have"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_the_first_wrong_byte_is_named(case: str) -> None:
    """A line that is no JSON is wrong at the first byte that cannot stand there, and is read no further."""
    line, position, message = WRONG[case]
    assert known(line) == ([("not-json", position, message)], None, ABSENT)


def half(position: int, unit: str) -> tuple[str, int, str]:
    """Half of a surrogate pair."""
    return "lone-surrogate", position, f"\\u{unit} is half of a pair"


def twice(position: int, key: str) -> tuple[str, int, str]:
    """A key that stands twice."""
    return "duplicate-key", position, f"the key '{key}' stands in one object twice"


def nan(position: int, word: str) -> tuple[str, int, str]:
    """A word that is no number."""
    return "non-finite", position, f"a bare {word}"


LONG = "k" * 39
READ = {
    "all": (b' {"a" : [1, -0.5e+3, true, false, null, {}, [ ], 0E-0 ] , "b" :5} ', [], "ab"),
    "escapes": (
        b'{"\\u0061": "\\\\\\/\\b\\f\\n\\r\\t\\"\\ud83d\\ude00\\uDBFF\\uDFFF\\uD800\\uDC00\\u00e9"}',
        [],
        "a",
    ),
    "no-halves": (b'{"a": "\\ud7ff\\ue000"}', [], "a"),
    "characters": ('{"é": "ü😀"}'.encode(), [], "é"),
    "nothing": (b"{}", [], ""),
    "high": (b'{"a": "\\ud83d"}', [half(7, "d83d")], "a"),
    "high-and-text": (b'{"a": "\\uDBFFx"}', [half(7, "DBFF")], "a"),
    "high-twice": (b'{"a": "\\ud83d\\ud83d\\ude00"}', [half(7, "d83d")], "a"),
    "high-and-letter": (b'{"a": "\\ud83d\\u0041"}', [half(7, "d83d")], "a"),
    "high-and-escape": (b'{"a": "\\ud83d\\n"}', [half(7, "d83d")], "a"),
    "low": (b'{"a": "\\udc00"}', [half(7, "dc00")], "a"),
    "low-twice": (b'{"a": "\\udfff\\udc00"}', [half(7, "dfff"), half(13, "dc00")], "a"),
    "words": (
        b'{"a": NaN, "b": Infinity, "c": [-Infinity, -NaN]}',
        [nan(6, "NaN"), nan(16, "Infinity"), nan(32, "-Infinity"), nan(43, "-NaN")],
        "abc",
    ),
    "infinite": (
        b'{"a": 1e999, "b": -1.5E+400}',
        [("non-finite", 6, "1e999 reads as infinity"), ("non-finite", 18, "-1.5E+400 reads as infinity")],
        "ab",
    ),
    "in-order": (
        b'{"a": NaN, "b": "\xff\xfe", "b": 1}',
        [nan(6, "NaN"), ("not-utf8", 17, "byte 0xff is no UTF-8"), twice(25, "b")],
        "ab",
    ),
    "cut-character": (b'{"a": "\xe2\x82"}', [("not-utf8", 7, "byte 0xe2 is no UTF-8")], "a"),
    "keys-of-bytes": (
        b'{"\xe9": 1, "\xe8": 3}',
        [("not-utf8", 2, "byte 0xe9 is no UTF-8")],
        ["\udce9", "\udce8"],
    ),
    "keys-twice": (
        b'{"a": 1, "a": 2, "b": {"a": 1, "a": 3}, "\\u0061": 4}',
        [twice(12, "a"), twice(34, "a"), twice(48, "a")],
        "ab",
    ),
    "empty-key-twice": (b'{"": 1, "": 2}', [twice(10, "")], [""]),
    "long-key-twice": (
        f'{{"{LONG}xy": 1, "{LONG}xy": 2}}'.encode(),
        [twice(92, f"{LONG}…")],
        [f"{LONG}xy"],
    ),
}


@pytest.mark.parametrize("case", list(READ))
def test_what_can_be_read_to_its_end_has_keys(case: str) -> None:
    """A row that can be read to its end has its keys, and every problem in it in order."""
    line, problems, keys = READ[case]
    assert known(line) == (problems, frozenset(keys), ABSENT)


@pytest.mark.parametrize(
    "line", [b"12", b'"step"', b"null", b"[]", b'[{"step": 5}]', b'["step", 5]', b'[{"a": {"step": 5}}]']
)
def test_what_is_no_object_is_no_row(line: bytes) -> None:
    """A value that is no object is one problem at its beginning, and has neither keys nor a step."""
    assert known(line) == ([("not-object", 0, "a row must be an object")], None, ABSENT)


def test_problems_of_a_torn_line_come_before_its_end() -> None:
    """In a line that ends too early, what is wrong before is found as well, and half a character at its end."""
    torn = "the line ends inside a string"
    assert known(b'{"a": "\xe2\x82')[0] == [
        ("not-utf8", 7, "byte 0xe2 is no UTF-8"),
        ("torn-line", 9, torn),
    ]
    assert known(b'{"a": "\\ud83d\\ude')[0] == [half(7, "d83d"), ("torn-line", 17, torn)]
    assert known(b'{"a": "\\ud83d')[0] == [half(7, "d83d"), ("torn-line", 13, torn)]


FORTY = b"0." + b"1" * 38
STEPS = {
    "integer": (b"5", 5),
    "negative": (b"-12", -12),
    "minus-zero": (b"-0", 0),
    "float": (b"5.0", Step("5.0")),
    "exponent": (b"5e0", Step("5e0")),
    "forty": (FORTY, Step(FORTY.decode())),
    "longer": (FORTY + b"1", Step(FORTY[:39].decode() + "…")),
    "word": (b"null", Step("null")),
    "text": (b'"step"', Step("a text")),
    "object": (b'{"step": 3}', Step("an object")),
    "array": (b"[3, 4]", Step("an array")),
}


@pytest.mark.parametrize("case", list(STEPS))
@pytest.mark.parametrize("more", [b"", b', "a": 7', b', "b": {"step": 8}'], ids=["alone", "key", "object"])
def test_the_step_is_that_of_the_row_itself(case: str, more: bytes) -> None:
    """The step is an integer, or a text that shows what it is; what stands deeper is none."""
    value, step = STEPS[case]
    problems, _, found = known(b'{"step": ' + value + more + b"}")
    assert (problems, found, type(found)) == ([], step, type(step))


def test_the_last_of_two_steps_counts() -> None:
    """Of two steps the last one is taken, as readers take it."""
    assert known(b'{"step": 1, "step": 2}')[2] == 2


def test_keys_are_counted_while_their_objects_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are compared up to a number in all open objects, those of a closed object make room, and it is said once."""
    monkeypatch.setattr(strict, "_KEYS", 3)
    assert known(b'[{"a": 1, "b": {"c": 1}, "d": {}}, {"a": 1, "b": 2, "c": 3}]')[0] == [
        ("not-object", 0, "a row must be an object")
    ]
    message = "of more than 3 keys, the others were not compared"
    problems, keys, _ = known(b'{"a": {"x": 1, "y": 1}, "b": 1, "c": 1, "d": 1, "e": 1, "d": 1, "a": 1}')
    assert problems == [("not-compared", 43, message), twice(67, "a")]
    assert keys == frozenset("abc")


def test_levels_are_bounded() -> None:
    """A line may be ten thousand levels deep, and no deeper."""
    line = b'{"a": ' + b"[" * 9_999
    assert read(line + b"]" * 9_999 + b"}") == ([], frozenset("a"), ABSENT)
    wrong = ("not-json", len(line), "nested deeper than 10,000 levels")
    assert read(line + b"[" + b"]" * 10_000 + b"}") == ([wrong], None, ABSENT)


def test_numbers_are_bounded() -> None:
    """A number may have 65,536 characters, wherever it stands, and an integer of over 4,300 is shown and not read."""
    text = b'{"a": "' + b"x" * 70_000 + b'", "b": 1, "c": '
    huge = ("huge-number", len(text), "an integer of 65,536 characters")
    assert read(text + b"1" * 65_536 + b"}")[0] == [huge]
    wrong = ("not-json", len(text), "a number of more than 65,536 characters")
    assert read(text + b"1" * 65_537 + b"}")[0] == [wrong]
    wrong = ("not-json", 6, "'.' where a value should be")
    assert read(b'{"a": ' + b"." * 70_000 + b"}")[0] == [wrong]
    assert type(read(b'{"step": ' + b"1" * 4_300 + b"}")[2]) is int
    assert read(b'{"step": ' + b"1" * 4_301 + b"}")[2] == Step("1" * 39 + "…")


@pytest.mark.parametrize(
    ("digits", "problems"),
    [
        (b"1" + b"0" * 308, []),
        (b"2" + b"0" * 308, [("huge-number", 6, "an integer of 309 characters")]),
    ],
    ids=["double", "more"],
)
def test_integers_beyond_the_doubles_are_huge(digits: bytes, problems: list[object]) -> None:
    """An integer that is no double any more is said to be huge."""
    assert read(b'{"a": ' + digits + b"}")[0] == problems


@pytest.mark.parametrize("cut", [1, 4_098, 4_099, 4_100], ids=["whole", "at-the-limit", "behind", "later"])
def test_keys_of_any_length_are_compared(cut: int) -> None:
    """A key of over 4,096 bytes is known by its beginning and a digest, however it is cut."""
    key = b"k" * 4_096

    def pieces(line: bytes) -> Iterator[bytes]:
        yield line[:cut]
        yield line[cut:]

    assert read(*pieces(b'{"' + key + b'": 1}'))[1] == frozenset({key.decode()})
    assert read(*pieces(b'{"' + key + b'xyz": 1, "' + key + b'xyZ": 1}'))[0] == []
    problems, keys, _ = read(*pieces(b'{"' + key + b'xyz": 1, "' + key + b'xyz": 1}'))
    assert problems == [twice(8_208, "k" * 39 + "…")]
    (name,) = keys
    assert name.startswith("k" * 40 + "… (")
    assert read(*pieces(b'{"' + key + b'x": 1}'))[1] != frozenset({f"{key.decode()}x"})
    ((name,),) = [read(*pieces(b'{"a' + "é".encode() * 4_000 + b'": 1}'))[1]]
    assert name.startswith("a" + "é" * 19 + "\ufffd… (")


def test_any_number_of_escapes_is_read() -> None:
    """A text may hold any number of escapes."""
    assert read(b'{"a": "' + b"\\n" * 1_000 + b'", "step": 5}') == ([], frozenset({"a", "step"}), 5)


@pytest.mark.parametrize(
    "begin", [b'"', b'{"', b'"\\ud83d', b'"\\ud83d\\n'], ids=["text", "key", "half", "escape"]
)
def test_memory_does_not_grow_with_a_text(begin: bytes) -> None:
    """A text of a megabyte in pieces takes a fraction of that, whatever it begins with."""
    checker = Checker()
    checker.feed(begin)
    tracemalloc.start()
    try:
        for _ in range(100):
            checker.feed(b"x" * 10_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000
