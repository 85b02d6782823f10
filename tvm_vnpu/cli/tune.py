"""vnpu tune: search for schedules of a model's operators, and look after the logs."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from tvm_vnpu.cli.arguments import UsageError, add_model_options, shapes_of
from tvm_vnpu.cli.console import Console
from tvm_vnpu.tuner.defaults import BATCH, TRIALS

if TYPE_CHECKING:
    from tvm_vnpu.tuner.measure import Measurer
    from tvm_vnpu.tuner.task import Task
    from tvm_vnpu.tuner.tune import Settings, Step

MAX_JOBS = 1024
NAME = "tune"
HELP = "search for faster schedules"
DESCRIPTION = """\
Search for schedules of the operators of a MODEL file and append every measurement to a log;
`vnpu compile MODEL --tune-log LOG` then uses the best. What the log holds already is not measured
again: a run that was interrupted goes on with the same command. A float model gets placeholder
ranges, which cycles do not depend on. Winners are checked by the verifier and against NumPy.
  --merge LOG... -o FILE     put logs together
  --best LOG [-o FILE]       print the best of every operator, or keep only those
  --plot LOG -o FILE.svg     draw how the tuners got on
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="an .onnx file")
    parser.add_argument("-o", "--output", metavar="LOG", help="the log, or the file to write")
    parser.add_argument("--trials", type=int, default=TRIALS, metavar="N",
                        help=f"points to try for each operator (default: {TRIALS})")  # fmt: skip
    parser.add_argument("--tuner", default="xgb", metavar="NAME", help="xgb, ga, random or grid")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="repeats a run exactly")
    parser.add_argument("--early-stop", type=int, metavar="N",
                        help="leave an operator after N trials that gained nothing")  # fmt: skip
    parser.add_argument("--batch", type=int, default=BATCH, metavar="N",
                        help=f"points proposed at once (default: {BATCH})")  # fmt: skip
    parser.add_argument("--transfer", action="append", default=[], metavar="LOG",
                        help="an earlier log that the cost model learns from")  # fmt: skip
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="processes that measure (default: one for each core)")  # fmt: skip
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="measure on Dask: tcp://HOST:PORT, or `local`")  # fmt: skip
    modes = parser.add_argument_group("logs").add_mutually_exclusive_group()
    modes.add_argument("--merge", nargs="+", metavar="LOG", help="put logs together")
    modes.add_argument("--best", metavar="LOG", help="the best of every operator of a log")
    modes.add_argument("--plot", metavar="LOG", help="draw a log as SVG")
    add_model_options(parser)


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Tune, or do what is asked with logs."""
    modes = {name: getattr(arguments, name) for name in ("merge", "best", "plot")}
    asked = next((name for name, value in modes.items() if value is not None), None)
    if (asked is None) == (arguments.model is None):
        raise UsageError(
            "vnpu tune takes a MODEL, or one of --merge, --best and --plot",
            fix="see `vnpu tune --help`",
        )
    if arguments.output is None and asked != "best":
        raise UsageError("-o is missing", fix="name the file to write")
    handlers = {None: _tune, "merge": _merge, "best": _best, "plot": _plot}
    handlers[asked](arguments, console)


def _merge(arguments: argparse.Namespace, console: Console) -> None:
    from tvm_vnpu.tuner.records import merge_logs

    count = merge_logs(arguments.merge, arguments.output)
    text = f"{count:,} records of {len(arguments.merge)} logs written to {arguments.output}"
    console.result(text, {"records": count, "logs": arguments.merge, "output": arguments.output})


def _best(arguments: argparse.Namespace, console: Console) -> None:
    from tvm_vnpu.tuner.log_summary import best_of_tasks, best_records, summary_text
    from tvm_vnpu.tuner.records import read_log, write_log

    records = read_log(arguments.best)
    best = best_of_tasks(records)
    if not best:
        raise UsageError("the tuning log has no trials", seen=arguments.best)
    text = summary_text(best)
    if arguments.output is not None:
        write_log(best_records(records), arguments.output)
        text += f"\nwritten to {arguments.output}"
    console.result(text, [entry.to_dict() for entry in best])


def _plot(arguments: argparse.Namespace, console: Console) -> None:
    from tvm_vnpu.report.output_file import output_file
    from tvm_vnpu.tuner.plot import curves, svg
    from tvm_vnpu.tuner.records import read_log

    records = read_log(arguments.plot)
    if os.path.exists(arguments.output) and os.path.samefile(arguments.plot, arguments.output):
        raise UsageError("the plot would replace the log", seen=arguments.output,
                         fix="name another file")  # fmt: skip
    picture = svg(records, arguments.plot)
    with output_file(arguments.output, "the plot") as stream:
        stream.write(picture)
    console.result(f"plot written to {arguments.output}", curves(records))


def _tune(arguments: argparse.Namespace, console: Console) -> None:
    from tvm_vnpu.tuner.tune import Settings, TuningInterrupted

    settings = Settings(
        arguments.tuner, arguments.trials, arguments.seed, arguments.early_stop, arguments.batch
    )
    _check(arguments, settings)
    tasks = _tasks(arguments)
    from tvm_vnpu.tuner.tune import tune_tasks

    with _measurer(arguments) as measurer:
        try:
            tuned = tune_tasks(
                tasks,
                settings.tuner,
                settings.trials,
                arguments.output,
                seed=settings.seed,
                early_stop=settings.early_stop,
                batch=settings.batch,
                measure=measurer,
                transfer=arguments.transfer,
                progress=lambda step: _show(console, step),
            )
        except TuningInterrupted as stop:
            console.result(str(stop.tuned), stop.tuned.to_dict())
            raise
    console.result(f"{tuned}\nlog: {arguments.output}", tuned.to_dict())


def _check(arguments: argparse.Namespace, settings: Settings) -> None:
    """Refuse what is cheap to refuse before TVM is imported."""
    from codegen.profiles import profile
    from runtime_sim.npu import load
    from tvm_vnpu.tuner.tune import check_log

    settings.check()
    shapes_of(arguments)
    load(arguments.npu)
    if arguments.rounding is not None:
        profile(arguments.rounding)
    for path in arguments.transfer:
        from tvm_vnpu.tuner.records import read_log

        read_log(path)
    if arguments.jobs is not None and not 1 <= arguments.jobs <= MAX_JOBS:
        raise UsageError(
            "tuning needs a process", seen=f"{arguments.jobs} jobs", limit=f"1 to {MAX_JOBS}"
        )
    if not os.path.exists(arguments.model):  # else the log would be made for nothing
        raise UsageError("no such model file", seen=arguments.model)
    check_log(arguments.output)


def _tasks(arguments: argparse.Namespace) -> list[Task]:
    from runtime_sim.npu import load
    from tvm_vnpu.artifact.prepare import placeholder_module, read_model
    from tvm_vnpu.tuner import extract_tasks

    config = load(arguments.npu)
    module = placeholder_module(read_model(arguments.model, shapes_of(arguments)), config)
    tasks: list[Task] = extract_tasks(module, npu=config, rounding=arguments.rounding)
    return tasks


def _measurer(arguments: argparse.Namespace) -> Measurer:
    from tvm_vnpu.tuner.measure import InProcess
    from tvm_vnpu.tuner.processes import Processes
    from tvm_vnpu.worker_processes import cores

    if arguments.scheduler is not None:
        from tvm_vnpu.tuner.dask_workers import DaskWorkers

        return DaskWorkers(arguments.scheduler, arguments.jobs)
    jobs = arguments.jobs or cores()
    return InProcess() if jobs == 1 else Processes(jobs)


def _show(console: Console, step: Step) -> None:
    gained = (1 - step.best / step.default) * 100
    note = f"operator {step.task + 1} of {step.tasks}, best {step.best:,} cycles (-{gained:.1f} %)"
    console.progress("tune", step.done, step.total, note)
