"""Register the driver under the name that compiled regions look up."""

from __future__ import annotations

import tvm

from tvm_vnpu.frontend.run_region import DRIVER_NAME, run_region

tvm.register_func(DRIVER_NAME, run_region, override=True)
