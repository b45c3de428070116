"""Checkpoints of any format: Troupe's, DeepSpeed's, PyTorch's, Megatron's, Hugging Face's, GGUF.

Each function is a command of `troupe checkpoint`, with its options as keywords. Files are read and written without the
GIL, Ctrl-C ends the work, and what is wrong is a `troupe.Error`. What a command would say on the way is a warning.
Needs neither torch nor numpy, save where a tensor is made one of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, cast

from troupe import _native

if TYPE_CHECKING:
    import numpy
    import numpy.typing

__all__ = [
    "Damage", "Difference", "Differences", "Inspection", "Options", "Tensor", "Verification",
    "convert", "diff", "inspect", "to_fp32", "verify",
]  # fmt: skip

Path: TypeAlias = str | PathLike[str]


class Tensor:
    """A tensor in memory of its own. `torch.from_dlpack(t)`, `numpy.asarray(t)` and `t.numpy()` share that memory."""

    __slots__ = ("_array", "dtype", "shape")

    def __init__(self, dtype: str, shape: tuple[int, ...], array: Any) -> None:
        self.dtype = dtype
        """'float32', 'bfloat16', 'int64' and the like, as numpy and torch call them."""
        self.shape = shape
        self._array = array

    def __dlpack__(self, **how: Any) -> Any:
        return self._array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return cast(tuple[int, int], self._array.__dlpack_device__())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.typing.NDArray[Any]:
        import numpy

        array = self.numpy()
        return numpy.array(array, dtype=dtype, copy=copy) if copy or dtype not in (None, array.dtype) else array

    def numpy(self) -> numpy.typing.NDArray[Any]:
        """A view as numpy's. Of bfloat16, which numpy has not, torch makes one: `torch.from_dlpack(t)`."""
        import numpy

        if self.dtype == "bfloat16":
            raise TypeError("numpy has no bfloat16: use torch.from_dlpack(tensor), or convert to another type")
        return numpy.asarray(self._array)

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}, {list(self.shape)})"


def _named(name: str, dtype: str, shape: tuple[int, ...], array: Any) -> tuple[str, Tensor]:
    return name, Tensor(dtype, shape, array)


def to_fp32(
    path: Path,
    *,
    tag: str | None = None,
    map: Path | None = None,
    exclude_frozen: bool = False,
    model_config: Path | None = None,
    fallback_to_previous: bool = False,
) -> Iterator[tuple[str, Tensor]]:
    """The weights in fp32 under the model's names, one tensor in memory at a time: what `to-fp32` would write."""
    weights = _native.to_fp32(path, tag, map, fallback_to_previous, exclude_frozen, model_config)
    return starmap(_named, weights)  # which holds none of them, unlike a generator


class Piece(TypedDict, total=False):
    """Elements of a tensor that lie in one place of a file."""

    file: str
    first: int
    count: int
    offset_bytes: int
    digest: str


class TensorEntry(TypedDict, total=False):
    """A tensor that a checkpoint holds; `stored_as` where that is not its dtype."""

    name: str
    kind: str
    moment: str | None
    dtype: str
    shape: list[int]
    bytes: int
    pieces: list[Piece]
    stored_as: str


class Inspection(TypedDict):
    """What `inspect` says; None where the checkpoint does not say it."""

    folder: str
    format: str
    save_id: str | None
    run: dict[str, Any]
    files: list[dict[str, Any]]
    tensors: list[TensorEntry]
    tied: list[dict[str, Any]]
    unknown_names: list[dict[str, Any]]
    elements: int
    bytes: int


def inspect(
    path: Path, *, tag: str | None = None, map: Path | None = None, fallback_to_previous: bool = False
) -> Inspection:
    """What the checkpoint holds: tensors, files, the run's state. Reads no tensor."""
    return cast(Inspection, json.loads(_native.inspect(path, tag, map, fallback_to_previous)))


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong; `tensor` is empty where the whole file is refused."""

    file: str
    tensor: str
    offset_bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` read, and what it compared with a digest or CRC-32; the first thousand damages."""

    tensors: int
    pieces: int
    bytes: int
    compared_bytes: int
    damages: int
    listed: list[Damage]

    @property
    def is_whole(self) -> bool:
        return self.damages == 0


def verify(
    path: Path, *, tag: str | None = None, map: Path | None = None, fallback_to_previous: bool = False
) -> Verification:
    """Reads every byte and compares every digest. What is damaged is listed, not raised."""
    tensors, pieces, size, compared, damages, listed = _native.verify(path, tag, map, fallback_to_previous)
    return Verification(tensors, pieces, size, compared, damages, [Damage(*one) for one in listed])


DifferenceKind: TypeAlias = Literal["only_in_first", "only_in_second", "type", "shape", "content"]


@dataclass(frozen=True, slots=True)
class Difference:
    """How one tensor differs; of its content the first element, how many, and the largest difference."""

    tensor: str
    kind: DifferenceKind
    element: int
    elements: int
    largest: float
    text: str


@dataclass(frozen=True, slots=True)
class Differences:
    """What `diff` compared, and how they differ, by name."""

    tensors: int
    bytes: int
    differences: list[Difference]
    left_out_moments: int
    left_out_weights: int

    @property
    def are_equal(self) -> bool:
        return not self.differences


def diff(
    first: Path,
    second: Path,
    *,
    tolerance: float | None = None,
    tag: str | None = None,
    map: Path | None = None,
    fallback_to_previous: bool = False,
) -> Differences:
    """Compares the tensors of two checkpoints of any two formats. Without `tolerance` every bit counts."""
    tensors, size, found, moments, weights = _native.diff(
        first, second, tolerance, tag, map, fallback_to_previous
    )
    return Differences(tensors, size, [Difference(*one) for one in found], moments, weights)


class Options(TypedDict, total=False):
    """Of `convert`: the command's own options. One that it has not is refused with the list of those it has."""

    adapter: Path | None
    allow_overflow: bool | None
    dtype: str | None
    ema: bool | None
    exclude_frozen: bool | None
    heads: int | None
    ignore_keys: list[str] | None
    integer_steps: bool | None
    job: Path | None
    map_back: Path | None
    max_shard_size: str | None
    model_config: Path | None
    dp: int | None
    partition: list[int] | None
    pp: int | None
    qkv_version: float | None
    ranks: int | None
    stage: int | None
    to_qkv_version: float | None
    tokenizer: Path | None
    tp: int | None
    type: str | None


def convert(
    path: Path,
    out: Path,
    to: Literal[
        "fp32", "hf", "merge-adapter", "peft", "gguf", "deepspeed", "universal", "dcp", "reshape"
    ] = "fp32",
    *,
    tag: str | None = None,
    map: Path | None = None,
    fallback_to_previous: bool = False,
    force: bool = False,
    **options: Unpack[Options],
) -> None:
    """Writes `out`, whole or not at all, as `troupe checkpoint to-<to>`, `merge-adapter` or `reshape` does."""
    plain = {name: fspath(value) if isinstance(value, PathLike) else value for name, value in options.items()}
    _native.convert(path, out, to, tag, map, fallback_to_previous, force, plain)
