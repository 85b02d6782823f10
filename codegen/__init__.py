"""The NPU compiler: integer operator graph to schedules, C kernels and command streams.

Imports `runtime_sim` for the instruction table, configurations and numerics; never imports tvm.
"""
