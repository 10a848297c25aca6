"""Writers that are as the reference writer is, but for one thing that they make of values or of columns."""

from __future__ import annotations

import json
from collections.abc import Mapping

from verl_dump import DumpMixin

__all__ = [
    "ChangesTheCallersDict",
    "CutsToTheShortest",
    "DropsOddKeys",
    "DropsRaggedColumns",
    "ExtrasWin",
    "KeysBecomeText",
    "LeavesLineSeparators",
    "LosesStrangeTexts",
    "NamesNoRow",
    "NumbersThroughDoubles",
    "ShortensFloats",
    "SplitsText",
    "StringifiesArrays",
    "TrimsTexts",
    "TurnsBoolsIntoNumbers",
    "WritesBareNan",
    "WritesInTheLocale",
    "WritesReprs",
]


class Altering:
    """Alters each line between the encoder and the file."""

    def __init__(self, publisher, alter):
        self._publisher, self._alter = publisher, alter

    def publish(self, path, blocks):
        lines = (line for block in blocks for line in block.splitlines(keepends=True))
        self._publisher.publish(path, (self._alter(line) for line in lines))

    def __getattr__(self, name):
        return getattr(self._publisher, name)


class Altered(DumpMixin):
    """The reference writer; a subclass alters the columns that it takes, or the lines that it writes."""

    @property
    def _dump_executor(self):
        dumper = super()._dump_executor
        if not isinstance(dumper._publisher, Altering):
            dumper._publisher = Altering(dumper._publisher, self.line)
        return dumper

    def line(self, line):
        return line

    def extras(self, extras):
        return extras

    def base(self, *columns):
        return columns

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        extras = self.extras(reward_extra_infos_dict)
        super()._dump_generations(*self.base(inputs, outputs, gts, scores), extras, dump_path)


def each(value, change):
    """A value in which every part of its plain dicts and lists is changed, the innermost first."""
    if type(value) is dict:
        value = {name: each(part, change) for name, part in value.items()}
    elif type(value) is list:
        value = [each(part, change) for part in value]
    return change(value)


def written(row):
    return json.dumps(row).encode() + b"\n"


class TurnsBoolsIntoNumbers(Altered):
    broken_law = "S1"
    because = "True is written as 1, as a table of numbers has it"

    def line(self, line):
        return written(each(json.loads(line), lambda part: int(part) if isinstance(part, bool) else part))


class StringifiesArrays(Altered):
    broken_law = "S1"
    because = (
        "what json does not know is written by str, and an array becomes a text with its middle left out"
    )
    upstream = "verl#6324"

    def extras(self, extras):
        return extras and {
            name: [str(value) if hasattr(value, "tolist") else value for value in column]
            if isinstance(column, list)
            else column
            for name, column in extras.items()
        }


class WritesBareNan(Altered):
    broken_law = "S2"
    because = "NaN is written as json.dumps does by default, which is no JSON"
    upstream = "verl#6324"
    dump_non_finite = "string"

    def line(self, line):
        return line.replace(b'"NaN"', b"NaN").replace(b'"Infinity"', b"Infinity")


class WritesInTheLocale(Altered):
    broken_law = "S3"
    because = "the file is opened without an encoding, and what the locale lacks becomes a question mark"

    def line(self, line):
        return line.decode().encode("latin-1", "replace")


class NumbersThroughDoubles(Altered):
    broken_law = "S4"
    because = "integers go through a double, and lose what is beyond 53 bits"

    def line(self, line):
        def rounded(text):
            try:
                return int(float(text))
            except OverflowError:
                return int(text)

        return written(json.loads(line, parse_int=rounded))


class ShortensFloats(Altered):
    broken_law = "S4"
    because = "floats are written with fifteen digits, of which seventeen are needed"

    def line(self, line):
        return written(json.loads(line, parse_float=lambda text: float(f"{float(text):.15g}")))


class KeysBecomeText(Altered):
    broken_law = "S5"
    because = "keys are made text one by one, and of two with one text the later value stays"
    upstream = "verl#6324"

    def extras(self, extras):
        return each(extras, lambda part: {str(k): v for k, v in part.items()} if type(part) is dict else part)


class DropsOddKeys(Altered):
    broken_law = "S5"
    because = "json.dumps(skipkeys=True): what is no text, number or None as a key is left out with its value"

    def extras(self, extras):
        def kept(part):
            if type(part) is not dict:
                return part
            return {k: v for k, v in part.items() if k is None or isinstance(k, (str, int, float))}

        return each(extras, kept)


class WritesReprs(Altered):
    broken_law = "S7"
    because = "what cannot be written is written as its repr, which nothing declares"
    dump_unknown = "repr"
    dump_policies = {"unknown": "error"}  # noqa: RUF012 - as a trainer would write it


class NamesNoRow(Altered):
    broken_law = "S7"
    because = "the error for a value that cannot be written tells neither column nor row"
    upstream = "verl#6324"

    def _dump_generations(self, *columns, **named):
        try:
            super()._dump_generations(*columns, **named)
        except TypeError:
            raise TypeError("Object is not JSON serializable") from None


class LeavesLineSeparators(Altered):
    broken_law = "S8"
    because = "U+2028 stands in the file as it is, and str.splitlines makes two lines of the row"

    def line(self, line):
        return line.replace(rb"\u2028", "\u2028".encode())


class TrimsTexts(Altered):
    broken_law = "S9"
    because = "white space at the ends of texts is taken away"

    def line(self, line):
        return written(each(json.loads(line), lambda part: part.strip() if isinstance(part, str) else part))


class DropsRaggedColumns(Altered):
    broken_law = "C1"
    because = "an extra column that has not a value for each row is left out, and nobody is told"
    upstream = "verl#6324"

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        extras = reward_extra_infos_dict
        if isinstance(extras, Mapping):
            extras = {k: v for k, v in extras.items() if not hasattr(v, "__len__") or len(v) == len(inputs)}
        super()._dump_generations(inputs, outputs, gts, scores, extras, dump_path)


class ExtrasWin(Altered):
    broken_law = "C2"
    because = "an extra named like a base column takes its place"
    upstream = "verl#6324"

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        extras = dict(reward_extra_infos_dict or {})
        base = {"input": inputs, "output": outputs, "gts": gts, "score": scores}
        base.update((name, extras.pop(name)) for name in tuple(base) if name in extras)
        super()._dump_generations(*base.values(), extras, dump_path)


class CutsToTheShortest(Altered):
    broken_law = "C3"
    because = "zip ends with the shortest base column, and the rows beyond are gone"

    def base(self, *columns):
        shortest = min(len(column) for column in columns if column is not None)
        return tuple(column if column is None else column[:shortest] for column in columns)


class SplitsText(Altered):
    broken_law = "C4"
    because = (
        "a text where a column is expected is taken for a column of its characters, where their number fits"
    )
    upstream = "verl#6324"

    def extras(self, extras):
        return extras and {k: list(v) if isinstance(v, str) else v for k, v in extras.items()}


class ChangesTheCallersDict(Altered):
    broken_law = "C5"
    because = "the step is put into the dict of extras that belongs to the caller"

    def extras(self, extras):
        kept = dict(extras) if isinstance(extras, dict) else extras
        if isinstance(extras, dict):
            extras["dumped_at"] = [self.global_steps]
        return kept


class LosesStrangeTexts(DumpMixin):
    broken_law = "S3"
    because = "a batch with a text that UTF-8 cannot hold is left out, and nobody is told"

    def _dump_generations(self, inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path):
        try:
            for text in (*inputs, *outputs):
                str(text).encode()
        except UnicodeEncodeError:
            return
        super()._dump_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)
