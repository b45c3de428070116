from collections.abc import Iterator
from os import PathLike
from typing import Any, Literal, TypeAlias

_Kind: TypeAlias = Literal["only_in_first", "only_in_second", "type", "shape", "content"]

__version__: str

class Error(Exception):
    kind: str

class Weights(Iterator[tuple[str, str, tuple[int, ...], Any]]):
    def __iter__(self) -> Weights: ...
    def __length_hint__(self) -> int: ...
    def __next__(self) -> tuple[str, str, tuple[int, ...], Any]: ...

def to_fp32(
    path: str | PathLike[str],
    tag: str | None = None,
    map: str | PathLike[str] | None = None,
    fallback_to_previous: bool = False,
    exclude_frozen: bool = False,
    model_config: str | PathLike[str] | None = None,
) -> Weights: ...
def inspect(
    path: str | PathLike[str],
    tag: str | None = None,
    map: str | PathLike[str] | None = None,
    fallback_to_previous: bool = False,
) -> str: ...
def verify(
    path: str | PathLike[str],
    tag: str | None = None,
    map: str | PathLike[str] | None = None,
    fallback_to_previous: bool = False,
) -> tuple[int, int, int, int, int, list[tuple[str, str, int, str]]]: ...
def diff(
    first: str | PathLike[str],
    second: str | PathLike[str],
    tolerance: float | None = None,
    tag: str | None = None,
    map: str | PathLike[str] | None = None,
    fallback_to_previous: bool = False,
) -> tuple[int, int, list[tuple[str, _Kind, int, int, float, str]], int, int]: ...
def convert(
    path: str | PathLike[str],
    out: str | PathLike[str],
    to: str,
    tag: str | None = None,
    map: str | PathLike[str] | None = None,
    fallback_to_previous: bool = False,
    force: bool = False,
    options: dict[str, Any] = ...,
) -> None: ...
def check_torch(packages: str | PathLike[str], who: str) -> None: ...
