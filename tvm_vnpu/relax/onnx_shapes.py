"""Input shapes of an ONNX model: static sizes, one symbolic batch, or a readable refusal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import onnx
from tvm import tirx

from runtime_sim.errors import VnpuError
from tvm_vnpu.relax.names import identifier

Shape = list[int | tirx.Var]
_MAX_ELEMENTS = 1 << 31


def model_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Return the graph inputs a caller has to give, without those that have initialisers."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def resolve_shapes(
    graph: onnx.GraphProto, given: Mapping[str, Sequence[int]] | None
) -> dict[str, Shape]:
    """Return the shape of every model input; a dynamic axis 0 becomes a symbolic batch.

    `given` pins inputs by name. All dynamic axes 0 are one symbol, whatever their dim_param: a
    model whose inputs differ in length is told so by pinning them. Raises VnpuError for an unknown
    name, a shape that does not fit, an empty or absurdly large input, or another dynamic axis.
    """
    inputs = model_inputs(graph)
    _check_given_names(inputs, given or {})
    declared = {value.name: _declared(value) for value in inputs}
    batch = tirx.Var(
        _batch_name([declared[n] for n in declared if n not in (given or {})]), "int64"
    )
    shapes: dict[str, Shape] = {}
    for name, sizes in declared.items():
        if given and name in given:
            shapes[name] = _pinned(name, sizes, given[name])
        else:
            shapes[name] = _with_symbolic_batch(name, sizes, batch)
        _check_size(name, shapes[name])
    return shapes


def _batch_name(shapes: Sequence[list[int | str] | None]) -> str:
    """Return the name of the batch: that of the dynamic axes 0 where they agree on one."""
    names = {shape[0] for shape in shapes if shape and isinstance(shape[0], str)} - {"", "?"}
    return identifier(str(names.pop())) if len(names) == 1 else "batch"


def _check_size(name: str, shape: Shape) -> None:
    static = [size for size in shape if isinstance(size, int)]
    if 0 in static:
        raise VnpuError(
            f"input {name!r} has an axis of size 0",
            seen=_text([size if isinstance(size, int) else "N" for size in shape]),
            limit="sizes from 1",
            fix="export the model with an input that is not empty",
        )
    if math.prod(static) > _MAX_ELEMENTS:
        raise VnpuError(
            f"input {name!r} is too large",
            seen=f"{math.prod(static)} elements",
            limit=_MAX_ELEMENTS,
            fix="give a smaller shape",
        )


def _check_given_names(
    inputs: Sequence[onnx.ValueInfoProto], given: Mapping[str, Sequence[int]]
) -> None:
    names = [value.name for value in inputs]
    for name in given:
        if name not in names:
            raise VnpuError(
                "shape given for an input the model does not have",
                seen=repr(name),
                limit=f"the inputs are {', '.join(names)}",
                fix="use one of these names in --shape",
            )


def _declared(value: onnx.ValueInfoProto) -> list[int | str] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [  # some exporters write -1 for an axis they do not know
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param
        for dim in tensor.shape.dim
    ]


def _pinned(name: str, declared: list[int | str] | None, given: Sequence[int]) -> Shape:
    sizes = [int(size) for size in given]
    fits = declared is None or (
        len(declared) == len(sizes)
        and all(isinstance(d, str) or d == size for d, size in zip(declared, sizes))
    )
    if not fits or any(size < 1 for size in sizes):
        raise VnpuError(
            f"shape given for input {name!r} does not fit the model",
            seen=",".join(map(str, sizes)),
            limit=f"the model declares {_text(declared)}",
            fix="give one positive size per axis, equal to the declared one where it is fixed",
        )
    return list(sizes)


def _with_symbolic_batch(name: str, declared: list[int | str] | None, batch: tirx.Var) -> Shape:
    if declared is None:
        raise VnpuError(
            f"input {name!r} has no shape in the model",
            seen="unknown rank",
            fix=f"give it with --shape {name}=SIZE,...",
        )
    shape: Shape = []
    for axis, size in enumerate(declared):
        if isinstance(size, int):
            shape.append(size)
        elif axis == 0:
            shape.append(batch)
        else:
            example = ",".join(str(d) if isinstance(d, int) else "SIZE" for d in declared)
            raise VnpuError(
                f"input {name!r} has a dynamic axis {axis}",
                seen=_text(declared),
                limit="only axis 0, the batch, may be dynamic",
                fix=f"give its size with --shape {name}={example}",
            )
    return shape


def _text(declared: list[int | str] | None) -> str:
    if declared is None:
        return "no shape"
    return "(" + ", ".join(str(size) if size != "" else "?" for size in declared) + ")"
