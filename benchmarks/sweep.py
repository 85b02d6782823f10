"""A sweep of EfficientNet-Lite0 over nine configurations, and how long it takes.

    python -m benchmarks.sweep [--quick]

The same as `vnpu sweep efficientnet_lite0.onnx --set array=8x8,16x16,32x32 --set
spm_kib=128,256,512`, one process for each core. `--quick` takes three of them. Fails when the nine
take more than two minutes or one has no figures.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import onnx

from benchmarks.harness import argument_parser, results_folder, write_result
from examples.efficientnet_lite0.model import onnx_model
from tvm_vnpu.sweep import sweep

NPU = "vnpu-256"
ARRAYS, SPM_KIB = ("8x8", "16x16", "32x32"), (128, 256, 512)
MAX_SECONDS = 120.0
_SHOWN = (
    "cycles", "time_ms", "inferences_per_second", "utilization", "lower_bound_cycles",
    "dram_read_bytes", "dram_written_bytes", "spm_peak_bytes", "acc_peak_bytes", "regions",
    "cpu_operators",
)  # fmt: skip


def main() -> int:
    """Sweep, print, record; the exit code says whether it was fast enough."""
    arguments = argument_parser("A sweep over nine NPU configurations.").parse_args()
    settings = {"array": ARRAYS, "spm_kib": SPM_KIB[1:2] if arguments.quick else SPM_KIB}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "efficientnet_lite0.onnx"
        onnx.save(onnx_model(), str(model))
        begin = time.perf_counter()
        result = sweep(model, settings, npu=NPU)
        seconds = time.perf_counter() - begin
    rows = [row.to_dict() for row in result.rows]
    figures = {
        "configurations": len(rows),
        "seconds": round(seconds, 1),
        "rows": [{key: row[key] for key in (*settings, *_SHOWN)} for row in rows],
    }
    write_result(
        "sweep", figures, {"npu": NPU, "cpu_cores": os.cpu_count()}, results_folder(arguments)
    )
    print(f"{result}\n\n{len(rows)} configurations in {seconds:.1f} s")
    failed = [row for row in result.rows if row.figures is None]
    if failed or seconds > MAX_SECONDS:
        print(f"{len(failed)} failed; {seconds:.1f} s, at most {MAX_SECONDS:.0f}", file=sys.stderr)
    return int(bool(failed) or seconds > MAX_SECONDS)


if __name__ == "__main__":
    raise SystemExit(main())
