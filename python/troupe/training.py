"""Training from Python: `train` runs a job as `troupe train` does, and a `Session` is stepped by the program.

The ranks of a job are threads of this process. While a call works, the GIL is free. The first Ctrl-C ends the call at
the end of the step, the second one at once, and both raise `KeyboardInterrupt`. What is wrong is a `troupe.Error` with
the command's sentence. Importing this module loads no torch; the first session does.
"""

from __future__ import annotations

import atexit
import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from troupe import _native
from troupe._native import Error
from troupe.checkpoint import Tensor

if TYPE_CHECKING:
    from troupe import _training

__all__ = [
    "Evaluation", "Forward", "Group", "Parameter", "Run", "Session", "Spike", "Step", "View", "train",
]  # fmt: skip

Config: TypeAlias = str | PathLike[str] | Mapping[str, Any]
_Path: TypeAlias = str | PathLike[str]

_PACKAGE = Path(__file__).resolve().parent


def _refused(text: str, kind: str = "bad_input") -> Error:
    error = Error(text)
    error.kind = kind
    return error


def _text(name: str, value: _Path | None) -> str | None:
    """Returns the text or path; refuses an empty one, such as the value of a variable that is not set."""
    if value is None:
        return None
    text = fspath(value)
    if not text:
        raise _refused(f"{name}: wanted a text, got ''")
    return text


def _opened(
    who: str,
    config: Config,
    set: Iterable[str],
    steps: int | None,
    resume: _Path | None,
    keeps_folder: bool = False,
    fresh: bool = False,
    export: _Path | None = None,
) -> _training.Session:
    _native.check_torch(_PACKAGE.parent, who)
    try:
        from troupe import _training
    except ImportError as e:
        raise _refused(f"{who} needs torch's libraries, which cannot be loaded: {e}", "limit") from e
    file, text, keys = None, None, None
    if isinstance(config, Mapping):
        keys = dict(config)
    elif isinstance(config, str) and "\n" in config:
        text = config
    else:
        file = _text("config", config)
    if isinstance(set, str):
        raise _refused("set: wanted a list of texts such as 'steps=10', got one text")
    return _training.open(
        file=file,
        text=text,
        keys=keys,
        set=list(set),
        steps=steps,
        resume=_text("resume", resume),
        keeps_folder=keeps_folder,
        fresh=fresh,
        export_folder=_text("export", export),
        programs=_PACKAGE / "bin",
    )


@dataclass(frozen=True, slots=True)
class Spike:
    """A loss that rose too far (`on_spike`), and the earlier state from which the run goes on."""

    step: int
    loss: float
    usual: float
    """Median of the losses before; 0 if there were too few."""
    back_to: int
    """Number of steps done in the state from which the run goes on."""
    first: int
    last: int
    """First and last step, from 1, whose samples are left out from now on."""


@dataclass(frozen=True, slots=True)
class Step:
    """The report of one optimizer step."""

    step: int
    """Number of the step, from 1."""
    loss: float
    """Mean loss over the global batch, in nats per token."""
    learning_rate: float
    grad_norm: float
    """Norm of the mean gradient, before clipping."""
    loss_scale: float
    skipped: bool
    """True: a gradient overflowed, and nothing was updated."""
    seconds: float
    tokens: int
    """Number of tokens of the global batch."""
    counted: int
    """Number of these tokens whose loss counts; 0: all."""
    save_asked: bool
    spike: Spike | None
    session: Session = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The mean loss over a validation set after `step` steps, in nats per token."""

    step: int
    loss: float
    set: str
    """Name of the set in `data.validation`; empty for the held-out part of the data."""
    session: Session = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a run of `train`."""

    steps: int
    """Number of steps done, those before the run was resumed included."""
    trained: int
    """Number of steps that this call has done."""
    skipped: int
    """Number of these that updated nothing, since a gradient overflowed."""
    loss: float | None
    """Loss of the last step; None if this call did none."""
    validation_losses: dict[str, float]
    """Loss of each validation set at the end, by its name; empty if there is none."""
    seconds: float
    folder: Path | None
    checkpoint: Path | None
    """The newest checkpoint; None if there is none."""
    exported: Path | None
    report: Path | None
    sample: str
    """The text that the section `sample` asks for."""
    no_sample: str
    """Why that text is missing; else empty."""

    @property
    def validation_loss(self) -> float | None:
        """Loss of the first validation set; None if there is none."""
        return next(iter(self.validation_losses.values()), None)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the model. `trained` is false for a frozen one."""

    name: str
    shape: tuple[int, ...]
    trained: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters with one learning rate and weight decay: those of the next step."""

    name: str
    learning_rate: float
    weight_decay: float
    elements: int


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward pass that waits for `Session.backward`."""

    number: int
    loss: float
    """Mean loss over the tokens that count, in nats."""
    log_probabilities: Tensor
    """fp32 [samples, tokens]: logarithm of the probability of the token that follows each input."""


class View(Tensor):
    """A rank's states in the memory in which it trains, without a copy.

    `numpy.asarray(view)` and `torch.from_dlpack(view)` show that memory. Later steps change it in place; read it
    between the session's calls. It is read-only: numpy refuses to write; torch knows no read-only tensors, so do not
    write through one. After the session is closed, the memory stays, with its last values.
    """

    __slots__ = ("first", "rank")

    def __init__(self, dtype: str, shape: tuple[int, ...], array: Any, first: int, rank: int) -> None:
        super().__init__(dtype, shape, array)
        self.first = first
        """Index of the first element in the flat parameter; a rank may have a part of it."""
        self.rank = rank

    def __repr__(self) -> str:
        return f"View({self.dtype}, {list(self.shape)}, first={self.first}, rank={self.rank})"


_open_sessions: WeakSet[Session] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Ends the threads of sessions before Python ends."""
    for session in list(_open_sessions):
        session.stop("Python ends")
        session.close()


def _rows(tokens: Any) -> Any:
    """Returns rows of tokens as memory: lists of numbers are copied, everything else must be memory already."""
    if not isinstance(tokens, list | tuple):
        return tokens
    lengths = sorted({len(row) for row in tokens})
    if len(lengths) != 1 or lengths[0] == 0:
        raise _refused(f"Session.forward: tokens: wanted rows of one length, got the lengths {lengths}")
    flat = array("q")
    for row in tokens:
        flat.extend(array("q", row))
    return memoryview(flat).cast("B").cast("q", (len(tokens), lengths[0]))


def _flags(counted: Any) -> Any:
    if not isinstance(counted, list | tuple):
        return counted
    return bytearray(bool(flag) for row in counted for flag in row)


class Session:
    """A training run that the program steps itself: `with troupe.Session("job.yaml") as session: session.step()`.

    `config` is a path of a configuration file, a text in YAML (with a line end in it), or a dictionary of keys, such as
    `{"steps": 10, "optimizer": {"type": "AdamW"}}`. Relative paths refer to the file's folder, or to the current one.
    `set` are overrides, as in `--set`. `resume` is a checkpoint of any format to go on from.

    One call of a session runs at a time, on any thread; only `stop` may be called meanwhile.
    """

    _own: _training.Session

    def __init__(
        self, config: Config, *, set: Iterable[str] = (), steps: int | None = None, resume: _Path | None = None
    ) -> None:
        self._take(_opened("troupe.Session", config, set, steps, resume))

    def _take(self, own: _training.Session) -> None:
        self._own = own
        facts = own.facts()
        self.steps, self.sequence_length, self.validation_tokens, self._every, self._batches = facts[:5]
        self.validation_sets, self.configuration = facts[5:]
        _open_sessions.add(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, type: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({self.steps_done} of {self.steps} steps{'' if self.is_open else ', closed'})"

    @property
    def is_open(self) -> bool:
        return self._own.is_open

    @property
    def steps_done(self) -> int:
        """Number of steps done when the last call ended, those before a resume included."""
        return self._own.steps_done

    def step(self) -> Step:
        """Runs one optimizer step: on the passes for which `backward` was called, or, without them, on the run's data.

        The step is whole or not done. After an error of the step the session has ended.
        """
        report = self._own.step()
        spike = report[10]
        return Step(*report[:10], None if spike is None else Spike(*spike), self)

    def forward(self, tokens: Any, counted: Any = None) -> Forward:
        """Computes the probabilities of the tokens of samples with the present weights, without dropout.

        `tokens` is int64 [samples, sequence_length + 1]: memory of numpy or torch, or lists of numbers. `counted` is
        [samples, sequence_length], false where an input's loss does not count; None: all count.
        """
        number, loss, log_probabilities = self._own.forward(_rows(tokens), _flags(counted))
        return Forward(number, loss, Tensor(*log_probabilities))

    def backward(self, of: Forward, factor: float = 1.0, *, gradients: Any = None) -> None:
        """Adds a gradient to that of the next step: `factor` times the gradient of the pass's mean loss, or that of a
        loss of the program's own, whose derivatives by `of.log_probabilities` are `gradients` (fp32 of its shape).
        """
        if gradients is None:
            self._own.backward(of.number, factor)
        elif factor != 1.0:
            raise _refused("Session.backward: factor cannot be combined with gradients: multiply the gradients")
        else:
            self._own.backward_by(of.number, gradients)

    def forget(self) -> None:
        """Drops all forward passes and backwards since the last step."""
        self._own.forget()

    def evaluate(self, batches: int = 0, set: str = "") -> float:
        """Returns the mean loss over a validation set, in nats per token, of at most `batches` batches (0: all).

        `set` is one of `validation_sets`; empty: the first.
        """
        loss = self._own.evaluate(batches, set)
        if loss is None:
            raise _refused("Session.evaluate: stopped before its end", "stopped")
        return loss

    def next_loss(self) -> float:
        """Returns the loss of the present weights on the next step's first micro-batch. Trains nothing."""
        return self._own.next_loss()

    def generate(
        self, prompt: Sequence[int], tokens: int, temperature: float = 1.0, ends: Sequence[int] = ()
    ) -> list[int]:
        """Returns `prompt` and up to `tokens` tokens that the model writes; it stops after a token of `ends`."""
        return self._own.generate(list(prompt), tokens, temperature, list(ends))

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text, by the run's tokenizer."""
        return self._own.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, by the run's tokenizer."""
        return self._own.decode(list(tokens))

    def parameters(self) -> list[Parameter]:
        """Returns the model's parameters, in its order."""
        return [Parameter(*one) for one in self._own.parameters()]

    def view(self, name: str, moment: str | None = None, *, rank: int = 0) -> View:
        """Returns what `rank` trains of a parameter, or of its optimizer state `moment` (`exp_avg`), without a copy.

        A rank that has the whole parameter shows it in its shape, else its elements from `first` on. States in files
        and on GPUs are refused; `weights` and `moment` return copies of these.
        """
        tensor, first = self._own.view(name, moment, rank)
        return View(*tensor, first, rank)

    def weights(self, name: str) -> Tensor:
        """Returns the whole parameter in fp32, gathered from its ranks into memory of its own."""
        return Tensor(*self._own.weights(name))

    def moment(self, name: str, key: str) -> Tensor:
        """Returns a whole optimizer state in fp32, gathered; `key` is its name in checkpoints, such as `exp_avg`."""
        return Tensor(*self._own.moment(name, key))

    def gradient(self, name: str) -> Tensor:
        """Returns the whole mean gradient of the last step in fp32, before clipping, gathered."""
        return Tensor(*self._own.gradient(name))

    def set_weights(self, name: str, values: Any) -> None:
        """Sets a parameter on all ranks; `values` is contiguous float32 memory of numpy, torch and the like."""
        self._own.set_weights(name, values)

    def set_moment(self, name: str, key: str, values: Any) -> None:
        """Sets an optimizer state on all ranks, as `set_weights` sets weights."""
        self._own.set_moment(name, key, values)

    def groups(self) -> list[Group]:
        """Returns the optimizer groups; the first has the parameters that no `parameter_groups` names."""
        return [Group(*one) for one in self._own.groups()]

    def set_learning_rate(self, rate: float, group: int = 0) -> None:
        """Sets a group's rate for the next step; without a `scheduler` it stays."""
        self._own.set_learning_rate(group, rate)

    def set_weight_decay(self, weight_decay: float, group: int = 0) -> None:
        """Sets a group's weight decay from the next step on."""
        self._own.set_weight_decay(group, weight_decay)

    def record(self, name: str, value: float) -> None:
        """Records a value in the run's curves and report, under `Own/Samples/NAME`."""
        self._own.record(name, value)

    def save(
        self,
        folder: _Path,
        *,
        tag: str | None = None,
        client_state: Any = None,
        save_latest: bool = True,
        keep_last: int = 0,
        keep_every: int = 0,
        exclude_frozen_parameters: bool = False,
    ) -> Path:
        """Writes a checkpoint into `folder` and returns its own folder, once it is complete on disk.

        `client_state` is anything that JSON can hold. `keep_last` removes older checkpoints, but for multiples of
        `keep_every`, once a later loss is finite.
        """
        return self._own.save(
            _text("folder", folder) or "",
            _text("tag", tag) or "",
            json.dumps(client_state),
            save_latest,
            keep_last,
            keep_every,
            exclude_frozen_parameters,
        )

    def load(
        self,
        path: _Path,
        *,
        tag: str | None = None,
        map: _Path | None = None,
        strict: bool = True,
        optimizer_states: bool = True,
        lr_scheduler_states: bool = True,
        module_only: bool = False,
        fallback_to_previous: bool = False,
    ) -> Any:
        """Loads a checkpoint of any format, written by any number of ranks, and returns its client state.

        The options are those of the section `checkpoint.load`; `module_only` loads weights alone.
        """
        _, client_state = self._own.load(
            _text("path", path) or "",
            _text("tag", tag),
            _text("map", map),
            strict,
            optimizer_states,
            lr_scheduler_states,
            module_only,
            fallback_to_previous,
        )
        return json.loads(client_state)

    @property
    def client_state(self) -> Any:
        """What the program gave to `save` in the checkpoint that this run has resumed; else None."""
        return json.loads(self._own.client_state())

    def export_hugging_face(self, folder: _Path, max_shard_bytes: int = 5 << 30) -> None:
        """Writes config.json, the weights, and the files of the tokenizer, as transformers reads them."""
        self._own.export_hugging_face(_text("folder", folder) or "", max_shard_bytes)

    def stop(self, why: str = "the program stopped it") -> None:
        """Ends the run at once, from any thread: the call that runs fails with a sentence that contains `why`."""
        self._own.stop(why)

    def close(self) -> None:
        """Ends the session and frees its memory and threads; does nothing if it is closed. Views stay readable."""
        self._own.close()

    def _leave(self, kind: str, why: str) -> None:
        if self.is_open:
            self._own.leave(kind, why)


def _run(
    session: Session,
    on_step: Callable[[Step], object] | None,
    on_evaluation: Callable[[Evaluation], object] | None,
) -> Run:
    def tell(step: int, loss: float | None, set: str) -> None:
        if loss is not None and on_evaluation is not None:
            on_evaluation(Evaluation(step, loss, set, session))

    while session.steps_done < session.steps:
        step = session.step()
        if on_step is not None:
            on_step(step)
        if step.spike is not None:
            continue
        if session._every > 0 and step.step % session._every == 0 and step.step < session.steps:
            for set in session.validation_sets:
                tell(step.step, session._own.evaluate(session._batches, set), set)
        session._own.between_steps(step.save_asked)
    run = Run(*session._own.end())
    for set, loss in run.validation_losses.items():
        tell(run.steps, loss, set)
    return run


def train(
    config: Config,
    *,
    on_step: Callable[[Step], object] | None = None,
    on_evaluation: Callable[[Evaluation], object] | None = None,
    set: Iterable[str] = (),
    steps: int | None = None,
    resume: _Path | None = None,
    fresh: bool = False,
    export: _Path | None = None,
) -> Run:
    """Trains a job to its last step, as `troupe train` does: it resumes the run's own newest checkpoint, saves,
    evaluates, exports and writes the report. `config` and `set` are those of `Session`; the other arguments are options
    of the command.

    `on_step` is called after each step, `on_evaluation` after each evaluation; `step.session` is the session. An
    exception of theirs, like Ctrl-C, ends the run between two steps: the step is done, and if the job keeps
    checkpoints, it is saved. The exception is then raised, and the same call resumes.
    """
    session = Session.__new__(Session)
    session._take(_opened("troupe.train", config, set, steps, resume, True, fresh, export))
    try:
        return _run(session, on_step, on_evaluation)
    except Error as e:
        session._leave(e.kind, str(e))
        raise
    except BaseException:
        session._leave("", "")
        raise
    finally:
        session.close()
