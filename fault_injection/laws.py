"""The laws of the contract: identifier, sentence, why, and where the defect was seen. Everything else refers here."""

from __future__ import annotations

from dataclasses import dataclass

from fault_injection.ways import DEMANDS, WAYS, Way


@dataclass(frozen=True)
class Law:
    """One numbered statement about histories.

    Args:
        id: stable identifier: a letter for the group, and a number.
        sentence: what must hold.
        why: what goes wrong where it does not.
        seen: where the defect was seen, or empty.
        needs: what a target must have for the law to be claimed: `asynchronous`, `fit` or a capability; empty for all.
    """

    id: str
    sentence: str
    why: str
    seen: str = ""
    needs: str = ""


GROUPS = {
    "D": "Data",
    "E": "Errors",
    "X": "Exits of fit()",
    "Q": "Queue",
    "S": "Serialization",
    "C": "Columns",
}
"""The groups of laws by their letter."""


def _law_of(way: Way) -> Law:
    """The law of one way out of `fit()`; data and errors are judged apart."""
    return Law(
        way.law,
        f"When {way.what}, {DEMANDS[way.data]}; {DEMANDS[way.errors]}.",
        way.why[:1].upper() + way.why[1:] + "." if way.why else "What is left behind here, nobody looks for.",
        way.seen,
        "fit",
    )


_LAWS = (
    Law(
        "D1",
        "A dump that was accepted and drained without error is on disk: every row, every column, in order, under {step}.jsonl.",
        "A run is analysed weeks later; rows that are not there by then cannot be had again.",
    ),
    Law(
        "D2",
        "A file under a final name is complete at every instant, also after a failure or a kill; nothing else matches *.jsonl.",
        "Readers glob *.jsonl and take what they find: half a file is half the truth.",
        "verl #6324 writes line by line under the final name; the viewer of verl #2469 globs *.jsonl",
    ),
    Law(
        "D3",
        "A failed dump leaves nothing behind: no partial file, no temporary file after drain; an older complete file stays, as does what is not the writer's.",
        "What a failure leaves looks like data to the next reader, and fills a disk that was full already.",
        "verl #6324 on a full disk: 402 of 2,000 rows and a torn one under the final name",
    ),
    Law(
        "D4",
        "The failure of one dump does not touch another: those before and after it are written.",
        "One bad moment of the disk must cost one step, not the rest of the run.",
    ),
    Law(
        "D5",
        "The file holds what was handed over, whatever the caller does to its objects once the call has returned.",
        "Trainers reuse their buffers; a live reference writes the next batch under this step's name.",
        "verl #6324 keeps references to the caller's lists; Lightning #20953: tensors changed after the call",
    ),
    Law(
        "D6",
        "Two dumps of one step into one directory never silently lose the first one's rows; a restarted run may replace them.",
        "Validation and rollouts may share a directory, and a step may dump twice.",
        "verl #6324 opens the same name again and overwrites it",
    ),
    Law(
        "D7",
        "After drain returns, the data survives a power loss: file contents and directory entry are synced.",
        "What a power loss takes away had been reported as saved; the checkpoint beside it goes on from a step without a dump.",
        "verl #6324 syncs neither file nor directory",
        needs="durable",
    ),
    Law(
        "E1",
        "Every failed dump is raised to the caller, by the next dump or by drain at the latest.",
        "A failure that nobody is told of is found when the file is needed.",
        "verl #7934: fit() returns success though the last dump has failed",
    ),
    Law(
        "E2",
        "A failure is raised exactly once; a caller that catches it can go on.",
        "A sticky error turns one bad write into a run that cannot dump any more.",
        "verl #6324 raises the first failure again at every later call",
    ),
    Law(
        "E3",
        "When several dumps failed, every failure can be reached from what was raised.",
        "Whoever repairs the run must know all the steps that are missing, not the first.",
        "verl #6324 raises the first failure and drops the others",
    ),
    Law(
        "E4",
        "The error tells step and path, keeps the original type and errno reachable, and keeps the traceback of the write.",
        "'No space left on device' without a path does not say which of twelve disks is full.",
        "verl #6324 with /dev/full behind the final name: the error at close names neither file nor step",
    ),
    Law(
        "E5",
        "A call that raises an earlier dump's failure does not lose its own batch, or says that it was not accepted.",
        "The caller who handles the old error must know whether this batch is safe.",
    ),
    Law(
        "E6",
        "A training error stays the primary error; failures of the dump found on the way out are attached to it.",
        "A bare finally that drains replaces the out-of-memory error that ended the run by the disk's.",
        "reported in NeMo-RL and UniRL",
        needs="fit",
    ),
    Law(
        "E7",
        "After drain, failed or not: worker ended, nothing pending or left open, a second drain is a no-op, and the next run starts clean.",
        "A leaked worker keeps the process alive and the old failures poison the next fit().",
        "verl #6324 does not reach the shutdown of its executor once a dump has failed",
    ),
    Law(
        "E8",
        "A worker that dies of anything (MemoryError, SystemExit, a thread that cannot start) is reported; nobody waits for ever.",
        "A dead worker behind a full queue hangs the trainer, and the cluster bills for it.",
        "TensorBoard #6167 and loguru #647: the caller waits for a dead worker for ever",
    ),
    Law(
        "E9",
        "In warn mode training goes on; every failure is logged with step and path and counted, and drain gives the summary.",
        "Who chooses to go on without the dump still wants to know what is missing.",
        "verl #5771 asks that a failure to log does not kill the job",
        needs="warn",
    ),
    Law(
        "E10",
        "A process that ends without draining does not do so silently.",
        "Exit code 0 and an empty stderr say that all is well.",
        "verl #7934 and #7936: success is returned while the last dump is pending or has failed",
    ),
    *map(_law_of, WAYS),
    Law(
        "Q1",
        "A dump does not wait for the disk: with the disk stalled it returns while there is room.",
        "The whole point of writing in the background is that the GPUs do not wait for a disk.",
        "verl #6338: the synchronous dump holds up the rollout step",
        needs="asynchronous",
    ),
    Law(
        "Q2",
        "What waits is bounded in bytes and in number (at most 1,024 dumps or 512 MiB here), and past the bound the call waits or says so.",
        "A stalled disk must slow training down, not end it by the out-of-memory killer.",
        "verl #6324: 200 dumps wait behind a stalled writer",
        needs="asynchronous",
    ),
    Law(
        "Q3",
        "Drain takes a deadline and past it says which steps are not on disk; a stuck write cannot hold the exit for ever.",
        "A dead network mount must not keep a finished job on its nodes.",
        "orbax has a deadline of 600 s, verl has none",
        needs="deadline",
    ),
    Law(
        "Q4",
        "Dumps are written in the order they were handed over.",
        "Followers of the directory take the highest step for the newest, and all below it for complete.",
        needs="asynchronous",
    ),
    Law(
        "Q5",
        "A dump after drain either works or raises a clear error; it is never accepted and forgotten.",
        "A trainer's fit() may be called twice.",
        needs="asynchronous",
    ),
    Law(
        "Q6",
        "Dumps may come from several threads; none is lost.",
        "Validation runs beside training in the asynchronous trainers.",
        needs="asynchronous",
    ),
    Law(
        "Q7",
        "A process forked while dumps are pending neither hangs, nor writes them twice, nor loses the parent's.",
        "Data loaders fork their workers in the middle of training.",
        needs="asynchronous",
    ),
    Law(
        "S1",
        "Python, numpy and torch values keep their JSON type at any depth, and arrays are lists of all of their elements.",
        "A reward written as '0.1' or an array with '...' in its middle cannot be computed with.",
        "verl #6062 stringified what json refuses, #6167 and #5810 ask for native types",
    ),
    Law(
        "S2",
        "Every line is RFC 8259 JSON; non-finite numbers follow one declared policy at any depth.",
        "NaN is no JSON: strict readers stop at the first one.",
        "verl writes NaN and Infinity bare",
    ),
    Law(
        "S3",
        "Files are UTF-8 whatever the locale; a lone surrogate neither kills the dump nor corrupts the line.",
        "Tokenizers cut characters in two, and containers run with LC_ALL=C.",
        "verl opens without an encoding; a surrogate fails in the middle of the file",
    ),
    Law(
        "S4",
        "Integers beyond 64 bits, and floats, read back exactly.",
        "Seeds and hashes are long, and a rounded score is another score.",
    ),
    Law(
        "S5",
        "Dict keys of any hashable kind never kill the dump, and two keys never silently merge into one.",
        "An encoder's default is never asked about keys, and 1 and '1' are one key in JSON.",
    ),
    Law(
        "S6",
        "A tensor of any dtype, layout, device and view is written as its value, or refused by an error with column and row.",
        "A reward function returns what the model gave it.",
        "verl's v0 trainers write 'tensor(...)', v1 raises in the worker for sparse, nested, meta and quantized ones",
    ),
    Law(
        "S7",
        "A value that cannot be written raises an error with column, row and type before anything is published, or is written by a declared fallback.",
        "An error out of the worker without row and column is searched for through a million values.",
        "verl #7588: one bad value kills the run",
    ),
    Law(
        "S8",
        "One row is one line for every reader, also for those that split at U+2028, U+0085, VT or FF.",
        "A row cut in two is two broken rows.",
    ),
    Law(
        "S9",
        "What is read back by json and by the readers that are asked is equal to what was handed over.",
        "A dump is written to be read.",
    ),
    Law(
        "C1",
        "A column whose length does not match is never dropped silently.",
        "A metric that vanishes for one step looks as if it had not been computed.",
        "verl #916 skips extras of another length",
    ),
    Law(
        "C2",
        "An extra named like a base column never silently replaces it, nor is lost.",
        "Reward functions do return 'score'.",
        "verl lets an extra called score, step or input replace the base column",
    ),
    Law(
        "C3",
        "Base columns of unequal length raise at the call, before anything is written.",
        "An IndexError out of the worker leaves half a file behind.",
        "verl #6324: two lines and an IndexError",
    ),
    Law(
        "C4",
        "A scalar, text, dict or None where a column is expected has one declared meaning or raises one clear error at the call.",
        "A text as long as the batch is split by character.",
        "verl #6324: a scalar raises in the worker",
    ),
    Law(
        "C5",
        "The caller's objects are not changed.",
        "The trainer goes on with them.",
        "verl #3576 wrote the request ids into the reward function's dict",
    ),
)

LAWS: dict[str, Law] = {law.id: law for law in _LAWS}
"""Every law by its identifier, in the order of the report."""


class UnknownLawError(ValueError):
    """A name that is neither a law nor a group, with those that are."""


def choose_laws(asked: list[str]) -> frozenset[str] | None:
    """The laws that a user asked for.

    Args:
        asked: identifiers (`E2`) or groups (`E`), each alone or several joined by commas.

    Returns:
        The identifiers, or None where nothing was asked for.

    Raises:
        UnknownLawError: a name is unknown.
    """
    names = [word.strip().upper() for each in asked for word in each.split(",") if word.strip()]
    chosen: set[str] = set()
    for name in names:
        of_name = {law for law in LAWS if name in (law, law.rstrip("0123456789"))}
        if not of_name:
            raise UnknownLawError(
                f"unknown law {name!r}; the laws are {', '.join(LAWS)}, the groups {', '.join(GROUPS)}"
            )
        chosen |= of_name
    return frozenset(chosen) if names else None
