"""verl's dump methods over the reference writer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from verl_dump import exits
from verl_dump.dumper import GenerationDumper
from verl_dump.encoding import encode, snapshot
from verl_dump.errors import failed
from verl_dump.files import Publisher, SameStep, locate
from verl_dump.policies import Collide, NonFinite, Ragged, Scalar, Unknown

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping


class DumpMixin:
    """Gives a trainer verl's dump methods; the dumper creates itself, whether or not `__init__` ran.

    The class attributes below are the arguments of `GenerationDumper`, read when the dumper is created, which
    is at the first dump or session. An attribute set on the instance before that counts as well.
    """

    dump_capabilities: ClassVar[frozenset[str]] = frozenset({"durable", "deadline", "warn"})

    dump_fsync: bool = True
    dump_max_pending: int = 64
    dump_max_pending_bytes: int = 512 << 20
    dump_on_full: Literal["block", "error"] = "block"
    dump_same_step: SameStep = "merge"
    dump_on_error: Literal["raise", "warn"] = "raise"
    dump_exit_timeout: float = 30.0
    dump_non_finite: NonFinite = "null"
    dump_unknown: Unknown = "error"
    dump_ragged: Ragged = "error"
    dump_collide: Collide = "rename"
    dump_scalar: Scalar = "error"

    global_steps: int

    @property
    def _dump_executor(self) -> GenerationDumper:
        dumper: GenerationDumper | None = self.__dict__.get("_generation_dumper")
        if dumper is None:
            names = GenerationDumper.__init__.__kwdefaults__ or {}
            options = {name: getattr(self, f"dump_{name}") for name in names}
            # `setdefault` makes two threads that come at once agree on one dumper.
            dumper = self.__dict__.setdefault("_generation_dumper", GenerationDumper(**options))
        return dumper

    def _init_dump_executor(self) -> None:
        """Do nothing: the first dump makes the dumper, and a later `fit()` goes on with it.

        A dumper is ready for the next `fit()` whenever it was drained, and one that was not drained still has
        dumps to write and failures to raise, which a new one in its place would lose.
        """

    def _dump_generations(
        self,
        inputs: Any,
        outputs: Any,
        gts: Any,
        scores: Any,
        reward_extra_infos_dict: Mapping[Any, Any] | None,
        dump_path: str | os.PathLike[str],
    ) -> None:
        """Hand over one batch for the present step; see `GenerationDumper.dump` for what is raised.

        Args:
            inputs: n prompts.
            outputs: n responses.
            gts: n ground truths, or None to leave the column out.
            scores: n scores.
            reward_extra_infos_dict: more columns of n values each.
            dump_path: the directory.
        """
        self._dump_executor.dump(
            dump_path,
            self.global_steps,
            inputs=inputs,
            outputs=outputs,
            gts=gts,
            scores=scores,
            extras=reward_extra_infos_dict,
        )

    def _shutdown_dump_executor(self, timeout: float | None = None) -> None:
        """Wait for all dumps, end the worker, and raise what failed; see `GenerationDumper.drain`.

        Args:
            timeout: seconds to wait at most.
        """
        dumper: GenerationDumper | None = self.__dict__.get("_generation_dumper")
        if dumper is not None:
            dumper.drain(timeout)

    @contextmanager
    def _dump_session(self) -> Iterator[GenerationDumper]:
        """Return a context manager for the body of `fit()` that drains on every way out of it, SIGTERM included."""
        with exits.terminable(), self._dump_executor as dumper:
            yield dumper

    @staticmethod
    def _write_generations(
        inputs: Any,
        outputs: Any,
        gts: Any,
        scores: Any,
        reward_extra_infos_dict: Mapping[Any, Any] | None,
        dump_path: str | os.PathLike[str],
        global_steps: int,
    ) -> None:
        """Write one batch before returning, atomically and synced.

        Args:
            inputs: n prompts.
            outputs: n responses.
            gts: n ground truths, or None to leave the column out.
            scores: n scores.
            reward_extra_infos_dict: more columns of n values each.
            dump_path: the directory.
            global_steps: the step.

        Raises:
            TypeError, ValueError: the batch cannot be written.
            DumpError: writing it failed.
        """
        step, path = locate(dump_path, global_steps)
        batch = snapshot(
            step, inputs=inputs, outputs=outputs, gts=gts, scores=scores, extras=reward_extra_infos_dict
        )
        try:
            Publisher().publish(path, encode(batch))
        except Exception as error:
            raise failed(step, path, error) from error
