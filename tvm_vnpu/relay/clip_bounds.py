"""Keep the bounds of integer clips within their type, or TVM's own build fails.

FakeQuantizationToInteger turns the bounds of a clip into integers without a look at the type
(relu6 at a scale of 6 / 206 becomes 206 on int8); TVM then refuses to cast the constant.
"""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_vnpu.relay.ops.clamps import limits

_TYPES = ("int8", "uint8", "int32")


@relay.transform.function_pass(opt_level=0)
class ClampClipBounds:
    """Limit the bounds of each clip of integers to its type: it clips the same values."""

    def transform_function(
        self, function: relay.Function, mod: tvm.IRModule, context: tvm.transform.PassContext
    ) -> relay.Function:
        """Return the function with bounds limited."""
        del mod, context
        return _Rewrite().visit(function)


class _Rewrite(relay.ExprMutator):
    def visit_call(self, call: relay.Call) -> relay.Expr:
        visited = super().visit_call(call)
        name = str(getattr(call.op, "name", ""))
        if name != "clip" or str(call.checked_type.dtype) not in _TYPES:
            return visited
        whole = limits(str(call.checked_type.dtype))
        low, high = (
            min(max(int(v), int(whole.low[0])), int(whole.high[0]))
            for v in (call.attrs.a_min, call.attrs.a_max)
        )
        if (low, high) == (call.attrs.a_min, call.attrs.a_max):
            return visited
        clip = relay.clip(visited.args[0], low, high)
        return relay.Call(clip.op, clip.args, clip.attrs, clip.type_args, call.span)
