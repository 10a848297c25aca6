"""Measures the tests by the defects that they catch: `python -m benchmarks.mutation`, or `tox -e mutation`.

Each mutant is the code with one small defect in it. It counts as killed when a test that passes on the code fails on it.
"""
