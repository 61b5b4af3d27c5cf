"""A graph of ATen operators (what torch.export and AOTAutograd make) as an ONNX model in memory. Sizes are constants: they
are those of the graph's example values."""
from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

import torch
from torch.fx import GraphModule, Node

from . import _onnx_file as onnx
from ._decompose import own_decompositions

Handler = Callable[..., Any]
OPERATORS: dict[str, Handler] = {}


class Unsupported(Exception):
    """No conversion: the message names the operator or the type."""


def operator(*names: str) -> Callable[[Handler], Handler]:
    """Registers what converts the ATen operators of these names, in all their overloads. It is called with the
    converter, the node, and the node's arguments; it returns the names of the results.
    """
    def register(handler: Handler) -> Handler:
        for name in names:
            OPERATORS[name] = handler
        return handler

    return register


def name_of(target: Any) -> str:
    """"add" for aten.add.Tensor; "getitem" for the function that takes results apart."""
    packet = getattr(target, "overloadpacket", target)
    return str(getattr(packet, "__name__", packet))


def element_of(dtype: torch.dtype) -> int:
    name = str(dtype).removeprefix("torch.")
    if name not in onnx.ELEMENTS:
        raise Unsupported(f"tensors of {dtype}")
    return onnx.ELEMENTS[name]


def content_of(tensor: torch.Tensor) -> memoryview:
    """The memory of a tensor on the host, row by row; copied only if it does not lie so."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy() if flat.numel() else b"").cast("B")


def shape_of(node: Node) -> list[int]:
    return [int(size) for size in node.meta["val"].shape]


def dtype_of(node: Node) -> torch.dtype:
    return node.meta["val"].dtype  # type: ignore[no-any-return]


class Output(NamedTuple):
    """A result of a graph that the model computes; other results are numbers, which are no places."""

    index: int


class Converter:
    """Collects the nodes and tensors of the model while it walks over the graph."""

    def __init__(self, weights: Mapping[Node, torch.Tensor]) -> None:
        self._weights = weights
        self._names: dict[Node, Any] = {}
        self._nodes: list[Any] = []
        self._tensors: list[Any] = []
        self._inputs: list[Any] = []
        self._constants: dict[Any, str] = {}
        self._count = 0

    # ---- what conversions of operators use ----

    def emit(self, op: str, *inputs: Union[str, Node, None], results: int = 1, **attributes: onnx.Attribute) -> Any:
        """A node of ONNX; the name of its result, or a list of names. None is an input that is left out."""
        outputs = [self._fresh() for _ in range(results)]
        self._nodes.append(onnx.node(op, [self.name(i) if i is not None else "" for i in inputs], outputs, attributes))
        return outputs[0] if results == 1 else outputs

    def name(self, value: Union[str, Node]) -> str:
        if isinstance(value, str):
            return value
        name = self._names[value]
        if not isinstance(name, str):
            raise Unsupported(f"{name_of(value.target)} as one tensor")
        return name

    def all_names(self, node: Node) -> Any:
        return self._names[node]

    def constant(self, value: Any, dtype: torch.dtype = torch.int64) -> str:
        """A number or a list of them as a tensor."""
        key = (repr(value), dtype)
        if key not in self._constants:
            self._constants[key] = self.tensor(torch.tensor(value, dtype=dtype))
        return self._constants[key]

    def tensor(self, value: torch.Tensor) -> str:
        name = self._fresh()
        self._tensors.append(onnx.tensor(name, element_of(value.dtype), value.shape, content_of(value)))
        return name

    def as_type(self, value: Any, dtype: torch.dtype) -> str:
        """A tensor or a number in the type."""
        if not isinstance(value, Node):
            return self.constant(value, dtype)
        if dtype_of(value) == dtype:
            return self.name(value)
        return self.cast(value, dtype)

    def cast(self, value: Union[str, Node], dtype: torch.dtype) -> str:
        return self.emit("Cast", value, to=element_of(dtype))  # type: ignore[no-any-return]

    def reshape(self, value: Union[str, Node], shape: Sequence[int]) -> str:
        return self.emit("Reshape", value, self.constant([int(s) for s in shape]), allowzero=1)  # type: ignore[no-any-return]

    def slice(self, value: Union[str, Node], dim: int, start: int, stop: int, step: int = 1) -> str:
        return self.emit("Slice", value, self.constant([start]), self.constant([stop]), self.constant([dim]),
                         self.constant([step]))  # type: ignore[no-any-return]

    # ---- the walk ----

    def convert(self, graph: torch.fx.Graph) -> tuple[bytes, list[Any]]:
        """The model, and what each result of the graph is: an :class:`Output`, or a node or value that the graph
        returns as it is.
        """
        result: list[Any] = []
        for node in graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                self._names[node] = self.tensor(_attribute(graph.owning_module, str(node.target)))
            elif node.op == "call_function":
                if node.users or name_of(node.target) in _EFFECTS:
                    self._names[node] = self._call(node)
            elif node.op == "output":
                result = list(node.args[0]) if isinstance(node.args[0], (tuple, list)) else [node.args[0]]
            else:
                raise Unsupported(f"{node.op} {node.target}")
        outputs, places = self._outputs(result)
        return onnx.model(self._nodes, self._tensors, self._inputs, outputs), places

    def _placeholder(self, node: Node) -> None:
        if node in self._weights:
            self._names[node] = self.tensor(self._weights[node]) if node.users else ""
        elif isinstance(node.meta.get("val"), torch.Tensor):
            self._names[node] = node.name
            self._inputs.append(onnx.value_info(node.name, element_of(dtype_of(node)), shape_of(node)))

    def _call(self, node: Node) -> Any:
        name = name_of(node.target)
        handler = OPERATORS.get(name)
        if handler is None:
            raise Unsupported(name)
        try:
            return handler(self, node, *node.args, **node.kwargs)
        except Unsupported as error:
            raise Unsupported(str(error) if name in str(error) else f"{name}: {error}") from None
        except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            # Arguments that nobody thought of, and numbers that do not fit their type.
            raise Unsupported(f"{name} with these arguments ({error})") from None

    def _outputs(self, result: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        outputs: list[Any] = []
        places: list[Any] = []
        for value in result:
            if not isinstance(value, Node) or value.op == "placeholder":
                places.append(value)
                continue
            if not isinstance(value.meta.get("val"), torch.Tensor):
                raise Unsupported(f"{name_of(value.target)} as a result")
            name = self.emit("Identity", value)
            places.append(Output(len(outputs)))
            outputs.append(onnx.value_info(name, element_of(dtype_of(value)), shape_of(value)))
        return outputs, places

    def _fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"


_EFFECTS = ("copy_", "index_put_", "_assert_async")


def _attribute(module: Optional[GraphModule], path: str) -> torch.Tensor:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    if not isinstance(value, torch.Tensor):
        raise Unsupported(f"{path}, which is no tensor")
    return value


def decompositions() -> dict[Any, Callable[..., Any]]:
    """How to express operators by others; those that are converted as they are stay."""
    table = {**torch.export.default_decompositions(), **own_decompositions()}
    return {op: how for op, how in table.items() if name_of(op) not in OPERATORS}
