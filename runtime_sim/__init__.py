"""The vNPU machine: instruction set, numerics, execution, timing and verification.

Needs NumPy and ml_dtypes only; never imports tvm, onnx or codegen.
"""
