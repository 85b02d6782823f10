"""ONNX to Relax, keeping what TVM's importer drops: node, input and output names."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import tvm
from google.protobuf.message import DecodeError
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from runtime_sim.errors import VnpuError
from tvm_vnpu.relax.names import IO_ATTR, PROFILE_ATTR, identifier, io_attr, with_name
from tvm_vnpu.relax.naming_builder import NamingBlockBuilder, is_operator_call
from tvm_vnpu.relax.onnx_cleanup import cleaned
from tvm_vnpu.relax.onnx_converters import CONVERTERS
from tvm_vnpu.relax.onnx_shapes import model_inputs, resolve_shapes
from tvm_vnpu.relax.weight_transpose import FoldWeightTranspose

_MIN_IR_VERSION = 3


def load_onnx(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read an ONNX file, with external data beside it if it has any.

    Raises VnpuError in one line if the file is missing, truncated or no ONNX model.
    """
    try:
        model = onnx.load(os.fspath(path))
    except FileNotFoundError as error:
        raise VnpuError("no such model file", seen=error.filename or path) from error
    except (OSError, DecodeError, ValueError, onnx.checker.ValidationError) as error:
        raise _unreadable(path, _first_line(error)) from error
    if model.ir_version < _MIN_IR_VERSION or not model.graph.output or not model.opset_import:
        raise _unreadable(path, f"IR version {model.ir_version}, {len(model.graph.node)} nodes")
    return model


def _unreadable(path: str | os.PathLike[str], seen: str) -> VnpuError:
    return VnpuError(
        f"cannot read {os.fspath(path)!r} as an ONNX model",
        seen=seen,
        fix="check that the file is complete and is an .onnx model",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def from_onnx(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> tvm.IRModule:
    """Import an ONNX model as a Relax module with one function `main`.

    Every call carries its ONNX node's name in its span and in its variable; `vnpu.io` keeps the
    input and output names. A dynamic axis 0 becomes a symbolic batch; integer weights stay integer.
    Raises VnpuError for dynamic other axes, unknown operators and nodes that cannot be converted.
    """
    model = cleaned(model)
    graph = model.graph
    _check_links(graph)
    importer = _Importer({name: list(s) for name, s in resolve_shapes(graph, shapes).items()})
    with _silence(), importer.closing():
        mod = importer.from_onnx(graph, _opset(model))
        attrs = {
            IO_ATTR: io_attr(
                [value.name for value in model_inputs(graph)],
                [value.name for value in graph.output],
            )
        }
        if any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in graph.node):
            attrs[PROFILE_ATTR] = "onnx"
        mod["main"] = mod["main"].with_attrs(attrs)
        mod = FoldWeightTranspose().apply(mod)
        return relax.transform.DeadCodeElimination()(mod)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep what TVM's importer prints and warns away from the user."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def _opset(model: onnx.ModelProto) -> int:
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    return versions[0] if versions else 1


def _check_links(graph: onnx.GraphProto) -> None:
    known = {value.name for value in graph.input} | {t.name for t in graph.initializer} | {""}
    for node in graph.node:
        for name in node.input:
            if name not in known:
                raise VnpuError(
                    f"node {node.name!r} reads a tensor that nothing before it makes",
                    seen=repr(name),
                    fix="check that the model file is complete and its nodes are in order",
                )
        known.update(node.output)
    for output in graph.output:
        if output.name not in known:
            raise VnpuError(
                "a model output is made by no node",
                seen=repr(output.name),
                fix="check that the model file is complete",
            )


class _Importer(onnx_frontend.ONNXGraphImporter):
    """TVM's importer with named bindings and the converters of `onnx_converters`."""

    def __init__(self, shapes: Mapping[str, Sequence[Any]]) -> None:
        super().__init__(shapes, {}, sanitize=False)
        self.bb = NamingBlockBuilder()
        self._input_vars: set[str] = set()

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """End the open block if the import fails; a builder destroyed with one warns on stderr."""
        try:
            yield
        except Exception:
            with contextlib.suppress(tvm.error.InternalError):  # no block is open yet
                self.bb._end_block()
            raise

    def _new_var(self, var_name: str, shape: list, dtype: str = "float32") -> relax.Var:
        base = name = identifier(var_name)
        suffix = 1
        while name in self._input_vars:
            name, suffix = f"{base}_{suffix}", suffix + 1
        self._input_vars.add(name)
        return super()._new_var(name, shape, dtype)

    def _parse_array(self, tensor_proto: onnx.TensorProto) -> tvm.runtime.Tensor:
        try:
            return super()._parse_array(tensor_proto)
        except Exception as error:
            kind = onnx.TensorProto.DataType.Name(tensor_proto.data_type)
            raise VnpuError(
                f"constant {tensor_proto.name!r} cannot be imported",
                seen=f"{kind} of shape {tuple(tensor_proto.dims)}",
                limit="types TVM's Relax ONNX importer reads",
                fix="store it as int8, uint8, int32 or float32",
            ) from error

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        known = onnx_frontend._get_convert_map()
        for node in graph.node:
            if node.op_type not in known and node.op_type not in ("If", "Constant"):
                raise VnpuError(
                    "operator cannot be imported",
                    seen=f"{node.op_type} (node {node.name!r})",
                    limit="TVM's Relax ONNX importer has no converter for it",
                    fix="rewrite the model without it, for example in QDQ form",
                )

    def _convert_operator(
        self, op_name: str, inputs: list[relax.Expr], attrs: dict[str, Any], opset: int
    ) -> relax.Expr:
        name = attrs["tvm_custom"]["name"]
        self.bb.begin_node(name)
        try:
            converter = CONVERTERS.get(op_name)
            result = converter(self.bb, inputs, attrs) if converter else None
            if result is None:
                result = super()._convert_operator(op_name, inputs, attrs, opset)
            return self._bind(result, name)
        except VnpuError:
            raise
        except Exception as error:
            raise VnpuError(
                f"cannot import node {name!r} ({op_name})", seen=_first_line(error)
            ) from error
        finally:
            self.bb.begin_node("")

    def _bind(self, result: relax.Expr, name: str) -> relax.Expr:
        """Bind a node's result to variables that carry its name."""
        if isinstance(result, relax.Tuple):
            return relax.Tuple([self._bind(field, name) for field in result.fields])
        if is_operator_call(result):
            return self.bb.emit(with_name(result, name), name)
        if isinstance(result, relax.TupleGetItem):
            return self.bb.emit(result, name)
        return result
