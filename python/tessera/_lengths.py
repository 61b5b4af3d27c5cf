"""Open dimensions of sessions: what their names stand for, and inputs that are padded to sizes of a few buckets."""
from __future__ import annotations

import re
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

Sizes = dict[str, int]
DeclaredShape = Sequence[Union[int, str, None]]
Shape = tuple[int, ...]
Cuts = dict[str, list[tuple[int, int]]]  # by dimension: outputs and axes
Padding = dict[str, tuple[int, int]]  # by dimension: its size, and that of its bucket


def sizes_of(declared: Mapping[str, DeclaredShape], shapes: Mapping[str, Shape]) -> Sizes:
    """The sizes of named dimensions in inputs of these shapes. ValueError: one has two sizes."""
    found: dict[str, tuple[int, str]] = {}
    for name, shape in shapes.items():
        for axis, size in zip(declared[name], shape):
            if not isinstance(axis, str):
                continue
            first, where = found.setdefault(axis, (size, name))
            if first != size:
                raise ValueError(f"{axis} is {first} in input {where!r} and {size} in {name!r}")
    return {axis: size for axis, (size, _) in found.items()}


def shapes_of(declared: Mapping[str, DeclaredShape], given: Mapping[str, Any]) -> dict[str, Shape]:
    """Shapes of all inputs from sizes of named dimensions and shapes of inputs, by name."""
    axes = {axis for shape in declared.values() for axis in shape if isinstance(axis, str)}
    for name in given:
        if name not in axes and name not in declared:
            known = ", ".join([*declared, *sorted(axes)])
            raise ValueError(f"no input and no dimension {name!r}; there are: {known}")
    shapes = {}
    for name, shape in declared.items():
        if name in given:
            shapes[name] = tuple(int(size) for size in given[name])
            continue
        sizes = [given.get(axis) if isinstance(axis, str) else axis for axis in shape]
        if None in sizes:
            raise ValueError(f"input {name!r} has the shape {list(shape)}: give it, or the size of each dimension")
        shapes[name] = tuple(int(size) for size in sizes if size is not None)
    return shapes


class Buckets:
    """Pads inputs with zeros to the sizes of a few buckets, so that as few programs serve all sizes. Results are those
    of the inputs alone only where the model takes no notice of padding (an attention mask says what is padding): a
    session compares, once for each dimension.
    """

    def __init__(self, buckets: Mapping[str, Iterable[int]], declared: Mapping[str, DeclaredShape]) -> None:
        self._declared = declared
        self._sizes = {name: sorted({int(size) for size in sizes}) for name, sizes in buckets.items()}
        self._cuts: Cuts = {}  # by dimension that was compared: outputs and axes
        axes = sorted({axis for shape in declared.values() for axis in shape if isinstance(axis, str)})
        for name, sizes in self._sizes.items():
            if name not in axes:
                raise ValueError(f"buckets: no dimension {name!r}; there are: {', '.join(axes) or 'none'}")
            if not sizes or sizes[0] < 1:
                raise ValueError(f"buckets of {name!r} are sizes from 1 on, not {sizes}")
            mixed = [axis for axis in axes if axis != name and re.search(rf"\b{re.escape(name)}\b", axis)]
            if mixed:
                raise ValueError(f"buckets: {name!r} cannot be padded, it is a part of {mixed[0]!r}")

    def padding(self, sizes: Sizes) -> Padding:
        """From each size to that of the smallest bucket that has room: beyond the largest one, to a multiple of it.
        Nothing for sizes that are buckets.
        """
        out = {}
        for name, buckets in self._sizes.items():
            if name not in sizes:
                continue  # an input of another rank, which is refused by who compiles it
            size = sizes[name]
            to = next((b for b in buckets if b >= size), -(-size // buckets[-1]) * buckets[-1])
            if to != size:
                out[name] = (size, to)
        return out

    def shapes(self, shapes: Mapping[str, Shape], padding: Padding) -> dict[str, Shape]:
        """Of padded inputs."""
        return {name: tuple(padding[axis][1] if axis in padding else size
                            for axis, size in zip(self._declared[name], shape)) for name, shape in shapes.items()}

    def compared(self, padding: Padding) -> bool:
        return all(name in self._cuts for name in padding)

    def pad(self, name: str, value: Any, padding: Padding) -> Any:
        """An input with zeros behind its elements."""
        import numpy

        value = numpy.asarray(value)
        more = [(0, padding[axis][1] - size if isinstance(axis, str) and axis in padding else 0)
                for axis, size in zip(self._declared[name], value.shape)]
        return numpy.pad(value, more) if any(behind for _, behind in more) else value

    def cut(self, outputs: Sequence[Any], padding: Padding, cuts: Optional[Cuts] = None) -> list[Any]:
        """Outputs without what was computed of padding."""
        results = list(outputs)
        for name, (size, _) in padding.items():
            for output, axis in (cuts or self._cuts)[name]:
                at = [slice(None)] * results[output].ndim
                at[axis] = slice(size)
                results[output] = results[output][tuple(at)]
        return results

    def compare(self, names: Sequence[str], exact: Sequence[Any], outputs: Sequence[Any], padding: Padding,
                allowed: float) -> str:
        """Learns which axes of outputs to cut from a run of the inputs alone and one of the padded ones. Returns why
        padding changes the results; empty: it does not, or two dimensions cannot be told apart this time.
        """
        if len(set(padding.values())) < len(padding):
            return ""
        cuts: Cuts = {name: [] for name in padding}
        for i, (want, got) in enumerate(zip(exact, outputs)):
            for axis, sizes in enumerate(zip(want.shape, got.shape)):
                if sizes[0] == sizes[1]:
                    continue
                name = next((name for name, both in padding.items() if both == sizes), None)
                if name is None:
                    return f"gives output {names[i]!r} the shape {list(got.shape)} in place of {list(want.shape)}"
                cuts[name].append((i, axis))
        for name, want, got in zip(names, exact, self.cut(outputs, padding, cuts)):
            changed = _difference(want, got, allowed)
            if changed:
                return f"changes output {name!r}{changed}"
        self._cuts.update(cuts)  # at once: other threads may be running
        return ""


def _difference(want: Any, got: Any, allowed: float) -> str:
    """Empty: at most that part of the largest magnitude; integers are equal."""
    import numpy

    if not numpy.issubdtype(want.dtype, numpy.floating):
        return "" if numpy.array_equal(want, got) else " in integers"
    largest = float(numpy.max(numpy.abs(want), initial=0.0))
    difference = float(numpy.max(numpy.abs(want - got), initial=0.0))
    return "" if difference <= allowed * largest else f" by up to {difference:.2g} of {largest:.2g}"
