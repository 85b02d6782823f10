"""Read the command line, run one command, turn what goes wrong into a line and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import ModuleType

from runtime_sim.errors import VnpuError
from tvm_vnpu import __version__
from tvm_vnpu.cli import compile as compile_command
from tvm_vnpu.cli import disasm, evaluate, explain, profile, run, sweep, tune
from tvm_vnpu.cli.arguments import Parser, refuse_empty
from tvm_vnpu.cli.console import Console, drop_stdout

COMMANDS: tuple[ModuleType, ...] = (
    compile_command, run, evaluate, profile, explain, disasm, sweep, tune,
)  # fmt: skip
USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 1, 130

_EPILOG = """\
MODEL is an .onnx file. DATA is an .npz file (keys are input names, samples along axis 0), a folder
of .npy files, a folder of images, or module:function (yields dicts of arrays).
Exit code: 0, or 2 for an error you can put right, 1 for one in vnpu itself, 130 when interrupted.
"""


def parser() -> Parser:
    """Return the parser of the whole command line."""
    top = Parser(
        prog="vnpu",
        description="Quantise, compile, run and profile models on the vNPU.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"vnpu {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        sub = commands.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(sub)
        sub.add_argument("--json", action="store_true", help="print JSON on stdout, nothing else")
        sub.add_argument(
            "-v", "--verbose", action="count", default=0, help="log; traceback on internal errors"
        )
        sub.set_defaults(execute=module.execute)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (default: this process's) and return the exit code."""
    verbose = 0
    if sys.stderr is None:  # closed before Python started
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    try:
        parsed = parser().parse_args(arguments)
        verbose = parsed.verbose
        refuse_empty(parsed)
        _start_logging(verbose)
        with _warnings(verbose), Console(parsed.json) as console:
            parsed.execute(parsed, console)
        return 0
    except VnpuError as error:
        return _fail(f"error: {error}", USER_ERROR, verbose > 1)
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "interrupted", INTERRUPTED, False)
    except BrokenPipeError:
        drop_stdout()  # whoever read it has gone
        return 0
    except Exception as error:  # the last line of defence: one line instead of a traceback
        hint = "" if verbose else "; run again with -v for the traceback"
        text = " ".join(str(error).split())
        return _fail(
            f"internal error: {type(error).__name__}: {text}{hint}", INTERNAL_ERROR, verbose > 0
        )


def _fail(message: str, code: int, trace: bool) -> int:
    with contextlib.suppress(OSError, ValueError):  # stderr is full or closed: the code is left
        if trace:
            sys.stderr.write(traceback.format_exc())
        sys.stderr.write("vnpu: " + " ".join(message.splitlines()) + "\n")
        sys.stderr.flush()
    return code


@contextlib.contextmanager
def _warnings(verbose: int) -> Iterator[None]:
    """Keep warnings of NumPy and others from the user, who cannot act on them, unless asked."""
    with warnings.catch_warnings():
        if not verbose:
            warnings.simplefilter("ignore")
        yield


def _start_logging(verbose: int) -> None:
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(level=level, format="%(name)s: %(message)s", stream=sys.stderr, force=True)
