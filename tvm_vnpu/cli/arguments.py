"""Arguments that several commands share, and a parser that raises instead of exiting."""

from __future__ import annotations

import argparse
import math
import re
import struct
from typing import TYPE_CHECKING, NoReturn

from runtime_sim.errors import VnpuError

if TYPE_CHECKING:
    from tvm_vnpu.data.images import ImageOptions

_SHAPE = re.compile(r"(.+)=([0-9]{1,12}(?:,[0-9]{1,12})*)")
_PIXELS = re.compile(r"[0-9]{1,5}")
_MAX_PIXELS = 1 << 14


class UsageError(VnpuError):
    """The command line is wrong."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the parser's message."""
        raise UsageError(message, fix=f"see `{self.prog} --help`")


def refuse_empty(arguments: argparse.Namespace) -> None:
    """Raise UsageError for a value that is empty: a path of that name would be the folder here."""
    for name, value in vars(arguments).items():
        if isinstance(value, str) and not value.strip():
            raise UsageError(f"the value of {name} is empty", seen=repr(value), fix="give one")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --npu, --shape and --rounding."""
    parser.add_argument(
        "--npu",
        default="vnpu-256",
        metavar="NAME|FILE.toml",
        help="a preset or a configuration file (default: vnpu-256)",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="the size of an input whose axes are dynamic; once for each input",
    )
    parser.add_argument(
        "--rounding",
        metavar="PROFILE",
        help="semantics profile (default: the one the model's origin asks for)",
    )


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of DATA that is a folder of images."""
    group = parser.add_argument_group("for a folder of images; values are N or N,N,N")
    group.add_argument("--mean", metavar="M", help="subtracted from pixel / 255 (default 0)")
    group.add_argument("--std", metavar="S", help="divides after that (default 1)")
    group.add_argument(
        "--size", metavar="H,W", help="resize; one number: the shorter side (default: the model's)"
    )
    group.add_argument("--crop", metavar="H,W", help="then a window in the middle")


def shapes_of(arguments: argparse.Namespace) -> dict[str, tuple[int, ...]] | None:
    """Return the values of --shape by input name. Raises UsageError for a malformed one."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in arguments.shape:
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise UsageError(
                "--shape is malformed",
                seen=repr(text),
                limit="NAME=SIZE,SIZE,...",
                fix="for example --shape input=1,3,224,224",
            )
        if match[1] in shapes:
            raise UsageError("--shape is given twice for one input", seen=match[1])
        shapes[match[1]] = tuple(int(size) for size in match[2].split(","))
    return shapes or None


def images_of(arguments: argparse.Namespace) -> ImageOptions:
    """Return the image options. Raises UsageError for a malformed one."""
    from tvm_vnpu.data.images import ImageOptions

    return ImageOptions(
        mean=_numbers("mean", arguments.mean),
        std=_numbers("std", arguments.std, positive=True),
        size=_sizes("size", arguments.size),
        crop=_sizes("crop", arguments.crop),
    )


def _numbers(name: str, text: str | None, positive: bool = False) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        values = (math.nan,)
    if any(
        not math.isfinite(number) or (positive and number <= 0) for number in map(_single, values)
    ):
        limit = "finite numbers above 0" if positive else "finite numbers"
        raise UsageError(f"--{name} is malformed", seen=repr(text), limit=f"{limit}, with commas")
    return values


def _single(value: float) -> float:
    """Return a number as float32, which is what it is used as."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf


def _sizes(name: str, text: str | None) -> tuple[int, ...]:
    parts = re.split(r"[x,]", text) if text is not None else []
    sizes = [int(part) if _PIXELS.fullmatch(part) else 0 for part in parts]
    if len(sizes) > 2 or not all(1 <= size <= _MAX_PIXELS for size in sizes):
        raise UsageError(
            f"--{name} is malformed",
            seen=repr(text),
            limit=f"N or HEIGHT,WIDTH, each from 1 to {_MAX_PIXELS}",
        )
    return tuple(sizes)
