"""Turn splits of integers into slices: each part is then an operator of its own.

The parts of a split are a tuple, which regions and composites do not have inside; slices meet their
readers wherever those are, and TVM computes the same on the CPU.
"""

from __future__ import annotations

from tvm import relay

from tvm_vnpu.relay.reader import INTEGERS, dtype_of, known_shape
from tvm_vnpu.relay.rewrite import operator_name


def split_as_slices(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return the parts of a split of int8 or uint8 of static shape as a tuple of slices."""
    if operator_name(old) != "split" or dtype_of(old.args[0]) not in INTEGERS:
        return new
    shape = known_shape(old.args[0])
    if shape is None:
        return new
    axis, begin = int(old.attrs.axis) % len(shape), 0
    parts = []
    for part in old.checked_type.fields:
        end = begin + int(part.shape[axis])
        one = relay.strided_slice(new.args[0], [begin], [end], [1], axes=[axis])
        parts.append(relay.Call(one.op, one.args, one.attrs, one.type_args, old.span))
        begin = end
    return relay.Tuple(parts)
