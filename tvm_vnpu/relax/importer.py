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
from onnx import numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from runtime_sim.errors import VnpuError
from tvm_vnpu.relax.names import IO_ATTR, PROFILE_ATTR, identifier, io_attr, with_name
from tvm_vnpu.relax.naming_builder import NamingBlockBuilder, is_operator_call
from tvm_vnpu.relax.onnx_checks import check_graph, type_name
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


def _cause(error: BaseException) -> str:
    """Return the first line of an error that may not say what it is, as KeyError."""
    text = _first_line(error)
    return f"{type(error).__name__}: {text}" if isinstance(error, LookupError) else text


def from_onnx(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> tvm.IRModule:
    """Import an ONNX model as a Relax module with one function `main`.

    Every call carries its ONNX node's name in its span and in its variable; `vnpu.io` keeps the
    input and output names. Integer weights stay integer. Dynamic axes 0 of the inputs become one
    symbolic batch, whatever they are called (torch.onnx.export gives each its own name); pin the
    inputs with `shapes` where they differ. Raises VnpuError for dynamic other axes, unknown
    operators, nodes that cannot be converted or make empty tensors, and anything else in the model
    that TVM's importer does not take.
    """
    try:
        return _imported(model, shapes)
    except VnpuError:
        raise
    except Exception as error:  # onnx and TVM raise any type for a model they do not expect
        raise VnpuError("the model cannot be imported", seen=_cause(error)) from error


def _imported(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None) -> tvm.IRModule:
    model = cleaned(model)
    graph = model.graph
    check_graph(graph)
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


class _Importer(onnx_frontend.ONNXGraphImporter):
    """TVM's importer with named bindings and the converters of `onnx_converters`."""

    def __init__(self, shapes: Mapping[str, Sequence[Any]]) -> None:
        super().__init__(shapes, {}, sanitize=False)
        self.bb = NamingBlockBuilder()
        self._input_vars: set[str] = set()
        self._node: onnx.NodeProto | None = None

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """End the open block if the import fails; a builder destroyed with one warns on stderr.

        What TVM raises becomes a VnpuError that names the node it was at.
        """
        try:
            yield
        except Exception as error:
            with contextlib.suppress(tvm.error.InternalError):  # no block is open yet
                self.bb._end_block()
            if isinstance(error, VnpuError) or self._node is None:
                raise
            raise _not_imported(self._node.name, self._node.op_type, error) from error

    def _construct_nodes(self, graph: onnx.GraphProto) -> None:
        super()._construct_nodes(graph)
        self._node = None

    def _parse_value_proto(self, value_proto: Any) -> str:
        if isinstance(value_proto, onnx.NodeProto):
            self._node = value_proto
        return super()._parse_value_proto(value_proto)

    def _new_var(self, var_name: str, shape: list, dtype: str = "float32") -> relax.Var:
        base = name = identifier(var_name)
        suffix = 1
        while name in self._input_vars:
            name, suffix = f"{base}_{suffix}", suffix + 1
        self._input_vars.add(name)
        return super()._new_var(name, shape, dtype)

    def _parse_array(self, tensor_proto: onnx.TensorProto) -> tvm.runtime.Tensor:
        where = f"constant {tensor_proto.name!r} cannot be imported"
        seen = f"{type_name(tensor_proto.data_type)} of shape {tuple(tensor_proto.dims)}"
        try:
            numpy_helper.to_array(tensor_proto)
        except Exception as error:
            raise VnpuError(
                where,
                seen=f"{seen}: {_first_line(error)}",
                fix="check that the model file is complete",
            ) from error
        try:
            return super()._parse_array(tensor_proto)
        except Exception as error:
            raise VnpuError(
                where,
                seen=seen,
                limit="types TVM's Relax ONNX importer reads",
                fix="store it as int8, uint8, int32 or float32",
            ) from error

    def _parse_attr(self, attr_proto: Sequence[onnx.AttributeProto]) -> dict[str, Any]:
        # TVM refuses lists without elements, which ONNX allows: an empty list is the default
        return super()._parse_attr([a for a in attr_proto if not _is_empty_list(a)])

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
            result = self._bind(result, name)
            _check_not_empty(result, name, op_name)
            return result
        except VnpuError:
            raise
        except Exception as error:
            raise _not_imported(name, op_name, error) from error
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


def _not_imported(name: str, op_name: str, error: Exception) -> VnpuError:
    return VnpuError(f"cannot import node {name!r} ({op_name})", seen=_cause(error))


def _check_not_empty(result: relax.Expr, name: str, op_name: str) -> None:
    """Raise VnpuError where a node makes a tensor of no values.

    Arithmetic on shapes may: it is done in lists of int64.
    """
    for field in result.fields if isinstance(result, relax.Tuple) else [result]:
        dims = getattr(field.ty, "shape", None) if isinstance(field.ty, relax.TensorType) else None
        sizes = [int(dim) if hasattr(dim, "value") else None for dim in dims or []]
        lowest = min((size for size in sizes if size is not None), default=1)
        if lowest < 0 or (lowest == 0 and not (len(sizes) == 1 and field.ty.dtype == "int64")):
            text = ", ".join("?" if size is None else str(size) for size in sizes)
            raise VnpuError(
                f"node {name!r} ({op_name}) makes an empty tensor",
                seen=f"output shape ({text})",
                limit="sizes from 1",
                fix="check weight, kernel, stride and padding against the input",
            )


def _is_empty_list(attribute: onnx.AttributeProto) -> bool:
    kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
    return kind in ("FLOATS", "INTS", "STRINGS") and not getattr(attribute, kind.lower())
