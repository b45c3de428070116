"""`troupe.train` and `troupe.Session` from an installed wheel, with torch: training.py TEXT, a text of some kB.

Losses are compared bit for bit: with those of the command, of a resumed run, and of a session in another form.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy

import troupe
from troupe import training

TEXT = Path(sys.argv.pop() if len(sys.argv) > 1 else "examples/corpus.txt").resolve()
WEIGHT = "transformer.h.1.mlp.c_fc.weight"
SEQUENCE = 32


def job(folder: Path, **more: Any) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "model": {
            "model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": SEQUENCE, "vocab_size": 256,
            "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0,
        },
        "data": {"text": TEXT, "validation_fraction": 0.2},
        "parallel": {"data": 2},
        "seed": 1,
        "steps": 6,
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
        "telemetry": {"trace": False},
        "output": folder / "out",
    }  # fmt: skip
    return keys | more


def flat(tensor: Any) -> numpy.ndarray[Any, Any]:
    return numpy.asarray(tensor).ravel()


class Training(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def open(self, **more: Any) -> troupe.Session:
        session = troupe.Session(job(self.folder, **more))
        self.addCleanup(session.close)
        return session

    def assert_refused(self, kind: str, sentence: str, call: Any) -> None:
        with self.assertRaises(troupe.Error) as caught:
            call()
        self.assertIn(sentence, str(caught.exception))
        self.assertEqual(caught.exception.kind, kind)

    def test_train_calls_back_and_returns_what_the_run_was(self) -> None:
        seen: list[tuple[str, int]] = []
        losses: list[float] = []

        def on_step(step: training.Step) -> None:
            seen.append(("step", step.step))
            losses.append(step.loss)
            self.assertEqual(step.session.steps_done, step.step)

        run = troupe.train(
            job(self.folder, evaluation={"every_steps": 4}, checkpoint={"every_steps": 3}),
            on_step=on_step,
            on_evaluation=lambda evaluation: seen.append(("evaluation", evaluation.step)),
            export=self.folder / "hf",
        )
        wanted = [("step", 1), ("step", 2), ("step", 3), ("step", 4), ("evaluation", 4), ("step", 5), ("step", 6)]
        self.assertEqual(seen, [*wanted, ("evaluation", 6)])
        self.assertLess(losses[-1], losses[0])
        self.assertEqual((run.steps, run.trained, run.skipped, run.loss), (6, 6, 0, losses[-1]))
        self.assertEqual(run.validation_losses, {"": run.validation_loss})
        self.assertEqual(run.folder, (self.folder / "out").resolve())
        assert run.checkpoint is not None and run.report is not None and run.exported is not None
        self.assertEqual(run.checkpoint.name, "step-00000006")
        self.assertTrue(run.report.is_file())
        self.assertTrue((run.exported / "model.safetensors").is_file())

    def test_sessions_and_the_command_have_the_same_losses(self) -> None:
        text = json.dumps(job(self.folder), default=str, indent=1)  # JSON is YAML
        (self.folder / "job.yaml").write_text(text)
        runs = []
        for config in (job(self.folder), text, self.folder / "job.yaml", str(self.folder / "job.yaml")):
            with troupe.Session(config) as session:
                runs.append([session.step().loss for _ in range(3)])
        run = troupe.train(job(self.folder), steps=3)
        self.assertEqual({tuple(losses) for losses in runs}, {tuple(runs[0])})
        self.assertEqual(run.loss, runs[0][-1])
        program = Path(sys.executable).with_name("troupe")
        command: list[str | Path] = [program, "train", self.folder / "job.yaml", "--steps", "3"]
        command += ["--set", f"output={self.folder / 'command'}"]
        said = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn(f"{runs[0][-1]:.4f}", re.sub(r"\x1b\[[0-9;]*m", "", said.stdout))

    def test_a_view_is_the_memory_of_the_rank(self) -> None:
        session = self.open()
        views = [session.view(WEIGHT, rank=rank) for rank in range(2)]
        self.assertEqual([view.dtype for view in views], ["float32"] * 2)
        self.assertEqual(views[1].first, views[0].shape[0])
        parts = [numpy.asarray(view) for view in views]
        numpy.testing.assert_array_equal(numpy.concatenate(parts), flat(session.weights(WEIGHT)))
        before = parts[0].copy()
        session.step()
        self.assertFalse(numpy.array_equal(parts[0], before), "wanted the values after the step, without a new view")
        numpy.testing.assert_array_equal(numpy.concatenate(parts), flat(session.weights(WEIGHT)))
        self.assertTrue(numpy.shares_memory(parts[0], numpy.from_dlpack(session.view(WEIGHT))))
        self.assertFalse(numpy.shares_memory(parts[0], numpy.asarray(session.weights(WEIGHT))))
        with self.assertRaises(ValueError):
            parts[0][0] = 1
        self.assertEqual(len(flat(session.view(WEIGHT, "exp_avg"))), len(parts[0]))
        self.assert_refused("bad_input", "rank 2: wanted one of 0 to 1", lambda: session.view(WEIGHT, rank=2))
        self.assert_refused("bad_input", f"such as '{WEIGHT}'", lambda: session.view(WEIGHT + "s"))

    def test_a_session_without_more_files_has_a_report(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.open(telemetry={}) as session:
                for _ in range(6):
                    session.step()
        self.assertTrue((self.folder / "out/report.html").is_file())
        self.assertTrue((self.folder / "out/trace.json").is_file())

    def test_a_view_outlives_its_session(self) -> None:
        with self.open() as session:
            session.step()
            parts = [numpy.asarray(session.view(WEIGHT, rank=rank)) for rank in range(2)]
            last = flat(session.weights(WEIGHT)).copy()
        del session
        numpy.testing.assert_array_equal(numpy.concatenate(parts), last)

    def test_a_whole_parameter_has_its_shape_and_states_in_files_are_copied(self) -> None:
        session = self.open(zero_optimization={"stage": 0})
        shape = next(p.shape for p in session.parameters() if p.name == WEIGHT)
        self.assertEqual(session.view(WEIGHT).shape, shape)
        self.assertEqual(session.view(WEIGHT, rank=1).numpy().shape, shape)
        session.close()
        files = {"device": "nvme", "nvme_path": str(self.folder / "swap")}
        session = self.open(zero_optimization={"stage": 3, "offload_optimizer": files})
        session.step()
        self.assert_refused("bad_input", "read a copy instead", lambda: session.view(WEIGHT, "exp_avg"))
        self.assertEqual(session.moment(WEIGHT, "exp_avg").shape, shape)

    def test_weights_are_set_on_all_ranks(self) -> None:
        session = self.open()
        session.step()
        weights = session.weights(WEIGHT).numpy()
        session.set_weights(WEIGHT, weights * numpy.float32(0.5))
        numpy.testing.assert_array_equal(session.weights(WEIGHT).numpy(), weights * numpy.float32(0.5))
        session.set_moment(WEIGHT, "exp_avg", numpy.zeros(weights.shape, numpy.float32))
        self.assertEqual(float(numpy.abs(session.moment(WEIGHT, "exp_avg").numpy()).max()), 0)
        self.assertGreater(float(numpy.abs(session.gradient(WEIGHT).numpy()).max()), 0)
        self.assert_refused("bad_input", "float32", lambda: session.set_weights(WEIGHT, weights.astype(numpy.float64)))
        few = weights[0, :3]
        self.assert_refused("bad_input", "wanted 4096 values, got 3", lambda: session.set_weights(WEIGHT, few))

    def test_a_loop_of_the_programs_own(self) -> None:
        data = numpy.frombuffer(TEXT.read_bytes(), numpy.uint8).astype(numpy.int64)
        tokens = numpy.ascontiguousarray(data[: 4 * (SEQUENCE + 1)].reshape(4, SEQUENCE + 1))
        first, second = self.open(), self.open(output=self.folder / "second")
        one = first.forward(tokens)
        self.assertEqual(one.log_probabilities.shape, (4, SEQUENCE))
        self.assertAlmostEqual(one.loss, -float(one.log_probabilities.numpy().mean()), places=4)
        first.backward(one)
        other = second.forward(tokens.tolist())
        self.assertEqual(other.loss, one.loss)
        second.backward(other, gradients=numpy.full((4, SEQUENCE), -1 / (4 * SEQUENCE), numpy.float32))
        first.step()
        second.step()
        numpy.testing.assert_allclose(
            first.gradient(WEIGHT).numpy(), second.gradient(WEIGHT).numpy(), rtol=1e-3, atol=1e-6
        )
        counted = numpy.zeros((4, SEQUENCE), bool)
        counted[0, 5] = True
        some = first.forward(tokens, counted)
        self.assertAlmostEqual(some.loss, -float(some.log_probabilities.numpy()[0, 5]), places=4)
        self.assertEqual(first.forward(tokens, counted.tolist()).loss, some.loss)
        first.forget()
        self.assert_refused("bad_input", "pass", lambda: first.backward(some))
        self.assert_refused("bad_input", "one length", lambda: first.forward([[1, 2], [1]]))
        self.assert_refused("bad_input", "int64", lambda: first.forward(tokens.astype(numpy.float32)))
        self.assert_refused("bad_input", "wanted", lambda: first.forward(numpy.ascontiguousarray(tokens[:, :-1])))
        self.assert_refused(
            "bad_input", "cannot be combined", lambda: first.backward(some, 2.0, gradients=counted)
        )

    def test_a_save_is_loaded_with_its_client_state(self) -> None:
        session = self.open()
        session.step()
        saved = session.save(self.folder / "saves", client_state={"epoch": 3})
        self.assertEqual(saved.name, "step-00000001")
        loss, validation = session.step().loss, session.evaluate()
        self.assertEqual(session.load(self.folder / "saves"), {"epoch": 3})
        self.assertEqual(session.steps_done, 1)
        self.assertEqual(session.step().loss, loss)
        self.assertEqual(session.evaluate(), validation)
        four = job(self.folder / "four", parallel={"data": 4}, train_micro_batch_size_per_gpu=1)
        with troupe.Session(four, resume=saved) as other:
            self.assertEqual(other.client_state, {"epoch": 3})
            self.assertAlmostEqual(other.step().loss, loss, places=4)

    def test_validation_sets_have_names(self) -> None:
        data = {"text": TEXT, "validation_fraction": 0.2, "validation": {"same": TEXT}}
        seen: list[tuple[int, str]] = []
        run = troupe.train(
            job(self.folder, data=data, evaluation={"every_steps": 4}),
            on_evaluation=lambda evaluation: seen.append((evaluation.step, evaluation.set)),
        )
        self.assertEqual(seen, [(4, ""), (4, "same"), (6, ""), (6, "same")])
        session = self.open(data=data)
        self.assertEqual(session.validation_sets, ["", "same"])
        self.assertNotEqual(session.evaluate(set="same"), session.evaluate())
        self.assertEqual(set(run.validation_losses), {"", "same"})

    def test_tokens_rates_and_records(self) -> None:
        session = self.open()
        self.assertEqual(session.decode(session.encode("ferry")), "ferry")
        prompt = session.encode("The ")
        self.assertEqual(session.generate(prompt, 3, 0.0)[:4], prompt)
        self.assertEqual([group.learning_rate for group in session.groups()], [1e-3])
        session.set_learning_rate(5e-4)
        session.set_weight_decay(0.5)
        self.assertEqual(session.step().learning_rate, 5e-4)
        self.assertEqual(session.groups()[0].weight_decay, 0.5)
        session.record("temperature", 36.6)
        self.assert_refused("bad_input", "no name", lambda: session.record("no name", 1))
        session.export_hugging_face(self.folder / "hf")
        self.assertTrue((self.folder / "hf/config.json").is_file())

    def test_what_is_wrong_is_the_commands_sentence(self) -> None:
        def opened(**more: Any) -> Any:
            return lambda: troupe.Session(job(self.folder, **more))

        self.assert_refused("bad_input", "stepz", opened(stepz=1))
        self.assert_refused("bad_input", "cluster.processes: wanted one", opened(cluster={"processes": 2}))
        self.assert_refused("bad_input", "cluster.page: wanted none", opened(cluster={"page": 8080}))
        self.assert_refused("bad_input", "seed: wanted None, a truth value", opened(seed=object()))
        self.assert_refused("bad_input", "none.yaml", lambda: troupe.Session(self.folder / "none.yaml"))
        self.assert_refused("bad_input", "config: wanted a text, got ''", lambda: troupe.Session(""))
        self.assert_refused("bad_input", "set: wanted a list", lambda: troupe.Session(job(self.folder), set="steps=1"))
        session = self.open()
        session.close()
        session.close()
        self.assertFalse(session.is_open)
        self.assert_refused("bad_input", "Session.step: the session is closed", session.step)

    def test_a_warning_is_one_of_pythons(self) -> None:
        with self.assertWarns(UserWarning) as caught:
            self.open(disable_allgather=True)
        self.assertEqual(caught.filename, __file__)

    def test_a_callback_that_throws_ends_the_run_after_its_step_and_the_run_resumes(self) -> None:
        keys = job(self.folder, checkpoint={"every_steps": 50})
        straight = troupe.train(job(self.folder / "straight"))

        def on_step(step: training.Step) -> None:
            if step.step == 2:
                raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            troupe.train(keys, on_step=on_step)
        self.assertEqual([entry.name for entry in (self.folder / "out/checkpoints").glob("step-*")], ["step-00000002"])
        run = troupe.train(keys)
        self.assertEqual((run.trained, run.loss), (4, straight.loss))

    def test_interrupting_ends_at_a_step_with_everything_closed(self) -> None:
        keys = job(self.folder, steps=100000, checkpoint={"every_steps": 100000})
        done: list[int] = []
        threads = threading.active_count()

        def on_step(step: training.Step) -> None:
            done.append(step.step)
            if len(done) == 2:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

        with self.assertRaises(KeyboardInterrupt):
            troupe.train(keys, on_step=on_step)
        time.sleep(0.1)
        self.assertEqual(threading.active_count(), threads)
        with troupe.Session(keys, resume=self.folder / "out/checkpoints") as session:
            self.assertIn(session.steps_done - done[-1], (0, 1))

    def test_other_threads_run_and_may_stop_a_session(self) -> None:
        session = self.open(steps=100000)
        counted, ended = [0], threading.Event()
        refused: list[str] = []

        def watch() -> None:
            while counted[0] < 20:
                counted[0] += 1
                time.sleep(0.005)
            while not refused and not ended.is_set():
                try:
                    session.evaluate(1)
                except troupe.Error as e:
                    refused.append(str(e))
            session.stop("seen enough")

        other = threading.Thread(target=watch)
        other.start()
        with self.assertRaises(troupe.Error) as caught:
            while True:
                try:
                    session.step()
                except troupe.Error as e:
                    if "one call of a session at a time" not in str(e):
                        raise
        ended.set()
        other.join()
        self.assertIn("seen enough", str(caught.exception))
        self.assertIn("one call of a session at a time", refused[0])

    def test_python_ends_with_a_session_open(self) -> None:
        code = (
            "import json, sys, troupe\n"
            "session = troupe.Session(json.loads(sys.argv[1]))\n"
            "print(session.step().step, 'torch' in sys.modules)"
        )
        keys = json.dumps(job(self.folder), default=str)
        said = subprocess.run([sys.executable, "-c", code, keys], capture_output=True, text=True, timeout=120)
        self.assertEqual((said.returncode, said.stdout), (0, "1 False\n"), said.stderr)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("always")
    unittest.main()
