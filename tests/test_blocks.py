"""Large batches, which are written in blocks."""

import json

import pytest

from verl_dump.encoding import encode, snapshot


@pytest.mark.parametrize("size", [10, 300_000, 2_000_000], ids=["small", "some-a-block", "one-a-block"])
def test_blocks_are_the_lines_and_nothing_else(size):
    """However rows fall into blocks, the file is their lines in order, with nothing between them."""
    outputs = [f"{row}".ljust(size, "x") for row in range(9)]
    batch = snapshot(4, inputs=["q"] * 9, outputs=outputs, scores=[0.5] * 9)
    lines = b"".join(encode(batch)).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == [
        {"input": "q", "output": output, "score": 0.5, "step": 4} for output in outputs
    ]
