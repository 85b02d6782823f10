"""Random QNN graphs, as pre-quantised models hold them, in either layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.relay import qnn_graphs_moves, qnn_graphs_products, qnn_graphs_unary

_STEP = 74.0
"""Standard deviation of values drawn evenly from 8 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A quantised tensor of a graph: its expression, (H, W, C) or (C,), and parameters."""

    expr: relay.Expr
    extent: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int


@dataclass(slots=True, eq=False)
class GraphSource:
    """Draws one graph. `layout`: NCHW or NHWC; `steps`: how many operators it has."""

    random: np.random.Generator
    layout: str
    values: list[Value] = field(default_factory=list)
    used: list[str] = field(default_factory=list)
    params: list[relay.Var] = field(default_factory=list)

    # --- drawing --------------------------------------------------------------------------------

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def integer(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def array(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        info = np.iinfo(dtype)
        return self.random.integers(info.min, info.max + 1, shape).astype(dtype)

    def zero_point(self, dtype: str) -> int:
        info = np.iinfo(dtype)
        return int(self.pick(info.min, 0, self.integer(info.min, info.max)))

    def scale(self, near: float) -> float:
        """Return a scale near `near`; sometimes a power of two away from it, or tiny."""
        factor = self.pick(1.0, float(self.random.uniform(0.4, 2.5)), 0.5, 2.0, 0.25)
        return float(np.float32(near * float(factor)))

    # --- shapes ---------------------------------------------------------------------------------

    def shape(self, extent: tuple[int, ...]) -> tuple[int, ...]:
        if len(extent) == 3 and self.layout == "NCHW":
            return (1, extent[2], extent[0], extent[1])
        return (1, *extent)

    @property
    def channel_axis(self) -> int:
        return 1 if self.layout == "NCHW" else 3

    def images(self) -> list[Value]:
        return [value for value in self.values if len(value.extent) == 3]

    def rows(self) -> list[Value]:
        return [value for value in self.values if len(value.extent) == 1]

    def image(self) -> Value:
        images = self.images()
        return images[-1] if self.chance(0.7) else images[self.integer(0, len(images) - 1)]

    def add(self, name: str, value: Value) -> None:
        self.used.append(name)
        self.values.append(value)

    # --- inputs ---------------------------------------------------------------------------------

    def input(self) -> None:
        extent = (self.integer(3, 11), self.integer(3, 11), int(self.pick(1, 2, 3, 8, 12)))
        dtype = str(self.pick("int8", "int8", "uint8"))
        scale, zero_point = self.scale(0.05), self.zero_point(dtype)
        floating = self.chance(0.3)
        name = f"x{len(self.params)}"
        var = relay.var(name, shape=self.shape(extent), dtype="float32" if floating else dtype)
        self.params.append(var)
        expr: relay.Expr = var
        if floating:
            expr = relay.qnn.op.quantize(
                var, relay.const(scale), relay.const(zero_point), out_dtype=dtype
            )
        self.values.append(Value(expr, extent, dtype, scale, zero_point))

    def feeds(self) -> dict[str, np.ndarray]:
        """Return random inputs."""
        feeds = {}
        for var in self.params:
            shape = tuple(int(size) for size in var.type_annotation.shape)
            dtype = str(var.type_annotation.dtype)
            if dtype == "float32":
                feeds[str(var.name_hint)] = self.random.normal(0, 3, shape).astype("float32")
            else:
                feeds[str(var.name_hint)] = self.array(shape, dtype)
        return feeds

    # --- pieces ---------------------------------------------------------------------------------

    def clamped(self, expr: relay.Expr, dtype: str, zero_point: int) -> relay.Expr:
        """Return the tensor, often behind a clamp."""
        info = np.iinfo(dtype)
        low, high = sorted((self.integer(info.min, info.max), self.integer(info.min, info.max)))
        kind = self.pick("none", "none", "clip", "relu", "maximum", "both")
        if kind == "clip":
            return relay.clip(expr, low, high)
        if kind == "relu":
            return relay.clip(expr, zero_point, info.max)
        if kind == "maximum":
            return relay.maximum(expr, relay.const(low, dtype))
        if kind == "both":
            return relay.minimum(
                relay.maximum(expr, relay.const(low, dtype)), relay.const(high, dtype)
            )
        return expr

    def requantized(
        self, sums: relay.Expr, scales: np.ndarray, near: float, axis: int
    ) -> tuple[relay.Expr, str, float, int]:
        """Return (tensor, dtype, scale, zero point) of requantised accumulators."""
        dtype = str(self.pick("int8", "int8", "int8", "uint8"))
        scale, zero_point = self.scale(near), self.zero_point(dtype)
        if self.chance(0.15):  # a clamp of the accumulator, as FakeQuantizationToInteger leaves
            sums = relay.clip(sums, 0, int(6 / float(scales.max())))
        expr = relay.qnn.op.requantize(
            sums, relay.const(scales if scales.size > 1 else scales.reshape(())),
            relay.const(0), relay.const(scale), relay.const(zero_point),
            axis=axis, out_dtype=dtype,
        )  # fmt: skip
        return self.clamped(expr, dtype, zero_point), dtype, scale, zero_point

    def layer_constants(
        self, x: Value, shape: tuple[int, ...], channels: int, depth: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
        """Return weights, weight scales and zero points, bias and the scale of a result."""
        dtype = str(self.pick("int8", "int8", "int8", "uint8"))
        weight = self.array(shape, dtype)
        scales = self.random.uniform(0.002, 0.02, channels).astype("float32")
        if self.chance(0.3):
            scales = scales[:1]
        zero = int(np.iinfo(dtype).max // 2 + 1) if dtype == "uint8" else 0
        zero_points = np.array([int(self.pick(zero, zero, self.integer(0, 9)))], "int32")
        spread = _STEP * _STEP * float(np.sqrt(depth))
        bias = self.random.normal(0, spread / 2, channels).astype("int32")
        near = x.scale * float(scales.mean()) * spread / 40
        return weight, scales, zero_points, bias, near

    def biased(self, sums: relay.Expr, bias: np.ndarray, axis: int, rank: int) -> relay.Expr:
        kind = self.pick("bias_add", "bias_add", "add", "none")
        if kind == "none":
            return sums
        if kind == "bias_add":
            return relay.nn.bias_add(sums, relay.const(bias), axis=axis)
        shape = [1] * rank
        shape[axis] = -1
        return relay.add(sums, relay.const(bias.reshape(shape)))

    # --- operators ------------------------------------------------------------------------------

    def conv2d(self) -> None:
        x = self.image()
        height, width, channels = x.extent
        kernel = [int(self.pick(1, 2, 3, 3, 5)) for _ in range(2)]
        padding = [self.integer(0, k - 1) for k in (*kernel, *kernel)]
        dilation = [int(self.pick(1, 1, 1, 2)) for _ in range(2)]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        spans = (height + padding[0] + padding[2], width + padding[1] + padding[3])
        if any(span < r for span, r in zip(spans, reach, strict=True)):
            return
        groups = int(self.pick(1, 1, 1, 1, channels, 2 if channels % 2 == 0 else 1))
        out = channels if groups == channels and groups > 1 else groups * self.integer(1, 9)
        strides = [int(self.pick(1, 1, 2, 3)) for _ in range(2)]
        depth = kernel[0] * kernel[1] * channels // groups
        shape = (out, channels // groups, *kernel)
        weight, w_scale, w_zp, bias, near = self.layer_constants(x, shape, out, depth)
        kernel_layout = "OIHW"
        if self.layout == "NHWC":
            depthwise = groups == channels and groups > 1
            weight = weight.transpose(2, 3, 0, 1) if depthwise else weight.transpose(2, 3, 1, 0)
            kernel_layout = "HWOI" if depthwise else "HWIO"
        sums = relay.qnn.op.conv2d(
            x.expr, relay.const(weight), relay.const(x.zero_point),
            relay.const(w_zp.reshape(())), relay.const(x.scale),
            relay.const(w_scale if w_scale.size > 1 else w_scale.reshape(())),
            kernel_size=kernel, channels=out, strides=strides, padding=padding,
            dilation=dilation, groups=groups, data_layout=self.layout,
            kernel_layout=kernel_layout,
        )  # fmt: skip
        sums = self.biased(sums, bias, self.channel_axis, 4)
        product = np.float32(x.scale) * w_scale
        expr, dtype, scale, zp = self.requantized(sums, product, near, self.channel_axis)
        sizes = [(span - r) // s + 1 for span, r, s in zip(spans, reach, strides, strict=True)]
        self.add("conv2d", Value(expr, (sizes[0], sizes[1], out), dtype, scale, zp))

    def dense(self) -> None:
        rows = self.rows()
        if not rows:
            self.flatten()
            rows = self.rows()
        x = rows[-1]
        depth, out = x.extent[0], self.integer(1, 20)
        if depth > 700:
            return
        weight, w_scale, w_zp, bias, near = self.layer_constants(x, (out, depth), out, depth)
        sums = relay.qnn.op.dense(
            x.expr, relay.const(weight), relay.const(x.zero_point),
            relay.const(w_zp.reshape(())), relay.const(x.scale),
            relay.const(w_scale if w_scale.size > 1 else w_scale.reshape(())), units=out,
        )  # fmt: skip
        sums = self.biased(sums, bias, 1, 2)
        product = np.float32(x.scale) * w_scale
        expr, dtype, scale, zp = self.requantized(sums, product, near, 1)
        self.add("dense", Value(expr, (out,), dtype, scale, zp))

    def eltwise(self) -> None:
        a = self.image()
        partners = [v for v in self.images() if v.extent == a.extent and v.dtype == a.dtype]
        b = partners[self.integer(0, len(partners) - 1)]
        name = str(self.pick("add", "add", "subtract", "mul"))
        other = b.expr
        if self.chance(0.2):
            other = relay.const(self.array(self.shape((1, 1, a.extent[2])), a.dtype))
        near = a.scale * b.scale * 60 if name == "mul" else max(a.scale, b.scale)
        same = self.chance(0.2)
        scale = a.scale if same else self.scale(near)
        zero_point = a.zero_point if same else self.zero_point(a.dtype)
        expr = getattr(relay.qnn.op, name)(
            a.expr, other, *map(relay.const, (a.scale, a.zero_point, b.scale, b.zero_point)),
            relay.const(scale), relay.const(zero_point),
        )  # fmt: skip
        expr = self.clamped(expr, a.dtype, zero_point)
        self.add(name, Value(expr, a.extent, a.dtype, scale, zero_point))

    def compare(self) -> None:
        a = self.image()
        partners = [v for v in self.images() if v.extent == a.extent and v.dtype == a.dtype]
        b = partners[self.integer(0, len(partners) - 1)]
        name = str(self.pick("maximum", "minimum"))
        expr = getattr(relay, name)(a.expr, b.expr)
        self.add(name, Value(expr, a.extent, a.dtype, a.scale, a.zero_point))

    def concat(self) -> None:
        a = self.image()
        axis = self.integer(0, 2)
        others = [
            v for v in self.images() if v.dtype == a.dtype and all(
                n == m for i, (n, m) in enumerate(zip(v.extent, a.extent, strict=True)) if i != axis
            )
        ]  # fmt: skip
        if not others:
            return
        parts = [a, *(others[self.integer(0, len(others) - 1)] for _ in range(self.integer(1, 2)))]
        scale, zero_point = self.scale(max(p.scale for p in parts)), self.zero_point(a.dtype)
        relay_axis = (2, 3, 1)[axis] if self.layout == "NCHW" else axis + 1
        expr = relay.qnn.op.concatenate(
            relay.Tuple([p.expr for p in parts]),
            relay.Tuple([relay.const(p.scale) for p in parts]),
            relay.Tuple([relay.const(p.zero_point) for p in parts]),
            relay.const(scale), relay.const(zero_point), relay_axis,
        )  # fmt: skip
        extent = list(a.extent)
        extent[axis] = sum(p.extent[axis] for p in parts)
        self.add("concat", Value(expr, tuple(extent), a.dtype, scale, zero_point))

    def requantize(self) -> None:
        x = self.image()
        dtype = str(self.pick("int8", "uint8"))
        scale, zero_point = self.scale(x.scale), self.zero_point(dtype)
        expr = relay.qnn.op.requantize(
            x.expr, relay.const(x.scale), relay.const(x.zero_point), relay.const(scale),
            relay.const(zero_point), out_dtype=dtype,
        )  # fmt: skip
        expr = self.clamped(expr, dtype, zero_point)
        self.add("requantize", Value(expr, x.extent, dtype, scale, zero_point))

    def clip(self) -> None:
        x = self.image()
        expr = self.clamped(x.expr, x.dtype, x.zero_point)
        self.add("clip", Value(expr, x.extent, x.dtype, x.scale, x.zero_point))

    def pooling(self, x: Value) -> tuple[dict[str, Any], tuple[int, int, int]] | None:
        size = [int(self.pick(1, 2, 2, 3)) for _ in range(2)]
        strides = [int(self.pick(1, 2, 2, 3)) for _ in range(2)]
        padding = [self.integer(0, s - 1) for s in (*size, *size)]
        height, width, channels = x.extent
        spans = (height + padding[0] + padding[2], width + padding[1] + padding[3])
        if any(span < s for span, s in zip(spans, size, strict=True)):
            return None
        out = [(span - s) // t + 1 for span, s, t in zip(spans, size, strides, strict=True)]
        attrs: dict[str, Any] = {
            "pool_size": size,
            "strides": strides,
            "padding": padding,
            "layout": self.layout,
        }
        return attrs, (out[0], out[1], channels)

    def max_pool(self) -> None:
        x = self.image()
        drawn = self.pooling(x)
        if self.chance(0.2):
            expr = relay.nn.global_max_pool2d(x.expr, layout=self.layout)
            drawn = None
            extent = (1, 1, x.extent[2])
        elif drawn is None:
            return
        else:
            attrs, extent = drawn
            expr = relay.nn.max_pool2d(x.expr, **attrs)
        self.add("max_pool2d", Value(expr, extent, x.dtype, x.scale, x.zero_point))

    def avg_pool(self) -> None:
        x = self.image()
        drawn = self.pooling(x)
        if drawn is None:
            return
        attrs, extent = drawn
        attrs["count_include_pad"] = True
        if self.chance(0.5):
            expr = relay.qnn.op.avg_pool2d(
                x.expr, *map(relay.const, (x.scale, x.zero_point, x.scale, x.zero_point)),
                attrs["pool_size"], attrs["strides"], attrs["padding"], (1, 1), False, True,
                self.layout,
            )  # fmt: skip
        else:
            expr = relay.nn.avg_pool2d(relay.cast(x.expr, "int32"), **attrs)
            expr = relay.cast(expr, x.dtype)
        self.add("avg_pool2d", Value(expr, extent, x.dtype, x.scale, x.zero_point))

    def mean(self) -> None:
        x = self.image()
        wide: relay.Expr = relay.cast(x.expr, "int32")
        scale, zero_point = x.scale, x.zero_point
        rescales = self.chance(0.4)
        if rescales:
            scale, zero_point = self.scale(x.scale / 2), self.zero_point(x.dtype)
            wide = relay.qnn.op.requantize(
                x.expr, *map(relay.const, (x.scale, x.zero_point, scale, zero_point)),
                out_dtype="int32",
            )  # fmt: skip
        kind = self.pick("mean", "global", "keep")
        axes = (2, 3) if self.layout == "NCHW" else (1, 2)
        if kind == "global":
            expr = relay.nn.global_avg_pool2d(wide, layout=self.layout)
        else:
            expr = relay.mean(wide, axis=axes, keepdims=kind == "keep")
        if rescales or self.chance(0.5):
            before = scale, zero_point
            if not rescales:
                scale, zero_point = self.scale(x.scale / 2), self.zero_point(x.dtype)
            expr = relay.qnn.op.requantize(
                expr, *map(relay.const, (*before, scale, zero_point)), out_dtype=x.dtype
            )
        else:
            expr = relay.cast(expr, x.dtype)
        extent = (x.extent[2],) if kind == "mean" else (1, 1, x.extent[2])
        self.add("mean", Value(expr, extent, x.dtype, scale, zero_point))

    def flatten(self) -> None:
        x = self.image()
        expr = self.pick(relay.nn.batch_flatten, lambda e: relay.reshape(e, (1, -1)))(x.expr)
        count = int(np.prod(x.extent))
        self.add("flatten", Value(expr, (count,), x.dtype, x.scale, x.zero_point))

    def reshape(self) -> None:
        x = self.image()
        height, width, channels = x.extent
        extent = self.pick((width, height, channels), (height * width, 1, channels))
        expr = relay.reshape(x.expr, self.shape(extent))
        self.add("reshape", Value(expr, extent, x.dtype, x.scale, x.zero_point))

    def operators(self) -> dict[str, Callable[[], None]]:
        """Return the steps by name."""
        return {
            "conv2d": self.conv2d, "dense": self.dense, "eltwise": self.eltwise,
            "compare": self.compare, "concat": self.concat, "requantize": self.requantize,
            "clip": self.clip, "max_pool": self.max_pool, "avg_pool": self.avg_pool,
            "mean": self.mean, "flatten": self.flatten, "reshape": self.reshape,
        } | qnn_graphs_moves.steps(self) | qnn_graphs_products.steps(self) | (
            qnn_graphs_unary.steps(self)
        )  # fmt: skip


_WEIGHTS = {"conv2d": 4, "eltwise": 3, "concat": 2}


@dataclass(frozen=True, slots=True, eq=False)
class DrawnGraph:
    """A graph, inputs for it, and the names of its operators."""

    mod: tvm.IRModule
    feeds: dict[str, np.ndarray]
    operators: tuple[str, ...]
    rounding: str


def draw_graph(seed: int) -> DrawnGraph:
    """Return the graph of a seed: one to eight operators, one or several outputs."""
    random = np.random.default_rng(seed)
    source = GraphSource(random, str(random.choice(["NCHW", "NCHW", "NHWC"])))
    source.input()
    steps = source.integer(1, 8)
    table = source.operators()
    names = [name for name in table for _ in range(_WEIGHTS.get(name, 1))]
    for _ in range(40):
        if len(source.used) >= steps:
            break
        table[str(source.pick(*names))]()
    outputs = [source.values[-1]]
    if len(source.values) > 2 and source.chance(0.3):
        outputs.append(source.values[source.integer(1, len(source.values) - 2)])
    results = [_leaving(source, value) for value in outputs]
    body = results[0] if len(results) == 1 else relay.Tuple(results)
    params = [var for var in source.params if var in relay.analysis.free_vars(body)]
    mod = tvm.IRModule.from_expr(relay.Function(params, body))
    source.params = params
    feeds = source.feeds()
    rounding = str(random.choice(["UPWARD", "TONEAREST"]))
    return DrawnGraph(relay.transform.InferType()(mod), feeds, tuple(source.used), rounding)


def _leaving(source: GraphSource, value: Value) -> relay.Expr:
    if source.chance(0.3):
        return relay.qnn.op.dequantize(
            value.expr, relay.const(value.scale), relay.const(value.zero_point)
        )
    return value.expr
