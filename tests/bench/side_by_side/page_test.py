"""The verdicts and the page, from results made up here: `ctest -R bench` runs it."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cases
import cuts
import degrees
import figures
import kernels
import page
import pipeline_cases
import pipeline_page
import processes
import roofline

FP32 = next(c for c in cases.CASES if c.name == "gpt2-fp32")


def run(step_s, **more):
    return {"steps_s": [9.0] * cases.WARM_STEPS + [step_s] * 5, "losses": [1.0] * 7, "first_step_s": 1.0, "peak_rss_bytes": 1, **more}


def results(ours, plain, theirs=()):
    steps = {"troupe-3": [run(s) for s in ours], "pytorch": [run(s) for s in plain], "deepspeed-3": [run(s) for s in theirs]}
    return {"machine": {"processor": "a processor", "cores": 2, "memory_gib": 24, "system": "Debian", "kernel": "6.1", "torch": "2.11.0",
                        "deepspeed": "0.19.8"},
            "date": "2026-11-22", "commands": ["side_by_side"], "commit": "abc", "seconds": 60,
            "cases": {"gpt2-fp32": {"commit": "abc", "steps": steps}}}


def compared(r, what):
    return next(c.figure for c in figures.all_comparisons(r) if c.what == what)


class Verdicts(unittest.TestCase):
    def test_warm_up_steps_do_not_count(self):
        self.assertEqual(figures.run_median(run(0.5)), 0.5)

    def test_a_ratio_is_of_the_medians_and_its_spread_of_the_rounds(self):
        r = figures.ratio([1.0, 2.0, 9.0], [2.0, 4.0, 3.0])
        self.assertEqual((r.value, r.least, r.greatest), (2.0 / 3.0, 0.5, 3.0))

    def test_a_round_that_a_side_lacks_is_left_out_of_both(self):
        r = figures.ratio([1.0, 5.0, 3.0], [2.0, None, 4.0])
        self.assertEqual((r.value, r.least, r.greatest), (2.0 / 3.0, 0.5, 0.75))

    def test_a_bound_is_met_by_the_median_and_a_spread_across_it_is_said(self):
        r = results([0.80, 0.80, 0.95], [1.0, 1.0, 1.0])
        c = compared(r, "ZeRO 3 beside PyTorch")
        self.assertTrue(c.met and c.crosses)
        self.assertIn("spread crosses the bound", page.page(r))

    def test_a_missed_bound_stands_in_bold_and_among_the_missed(self):
        text = page.page(results([0.95] * 3, [1.0] * 3))
        self.assertIn("**0.95 (0.95 to 0.95) missed**", text)
        self.assertIn("- gpt2-fp32, ZeRO 3 beside PyTorch: 0.95 (0.95 to 0.95), bound 0.88", text)

    def test_a_case_slower_than_its_peer_is_named(self):
        self.assertIn("Slower or larger than the peer:", page.page(results([1.2] * 3, [1.0] * 3)))
        self.assertNotIn("Slower or larger than the peer:", page.page(results([0.8] * 3, [1.0] * 3)))

    def test_a_peer_that_fails_is_said_and_compared_with_nothing(self):
        r = results([0.8], [1.0])
        r["cases"]["gpt2-fp32"]["steps"]["deepspeed-3"] = [{"error": "Traceback\nout of memory"}]
        self.assertIn("- gpt2-fp32, steps, deepspeed-3: 1 of 1: out of memory", page.page(r))
        self.assertEqual([c.what for c in figures.step_comparisons(FP32, r["cases"]["gpt2-fp32"]["steps"])], ["ZeRO 3 beside PyTorch"])

    def test_start_is_held_against_the_case_s_own_seconds(self):
        r = results([0.8], [1.0])
        r["cases"]["gpt2-fp32"]["steps"]["troupe-3"][0]["first_step_s"] = 1.8
        self.assertIn("- gpt2-fp32, start at ZeRO 3: 1.80 s, bound 1.5", page.page(r))

    def test_memory_is_compared_by_the_share_of_all_processes(self):
        r = results([0.8], [1.0], [1.1])
        r["cases"]["gpt2-fp32"]["memory"] = {"troupe-3": [run(1, peak_pss_bytes=400 << 20)], "deepspeed-3": [run(1, peak_pss_bytes=1000 << 20)]}
        self.assertEqual(compared(r, "memory at ZeRO 3 beside DeepSpeed").value, 0.4)
        self.assertIn("| 400 | 0 | 1000 | **0.40 missed** | 0.35 |", page.page(r))

    def test_the_trace_s_figures_are_held_against_their_bounds(self):
        r = results([0.8], [1.0])
        end = {"communication_s": 2.0, "exposed_s": 0.5, "control": {"idle_share": 0.002, "in_lane_us": 6.0, "cross_lane_us": 30.0}}
        r["cases"]["gpt2-fp32"]["trace"] = {"troupe-3": [run(1, end=end)]}
        self.assertEqual(compared(r, "communication hidden at ZeRO 3").value, 75.0)
        self.assertTrue(compared(r, "compute idle for control at ZeRO 3").met)
        self.assertIn("| gpt2-fp32 | 3 | 0.20 % | **6.00 us missed** | 30.00 us | 75.00 % |", page.page(r))

    def test_busy_instructions_come_longest_first(self):
        r = results([0.8], [1.0])
        work = {"peak_flops": 0, "kinds": [{"kind": "forward", "count": 8, "busy_s": 0.1}, {"kind": "backward", "count": 8, "busy_s": 0.2}],
                "units": [{"unit": "head", "forward_s": 0.1, "backward_s": 0.2, "forward_flops": 1e10, "backward_flops": 2e10}]}
        r["cases"]["gpt2-fp32"]["trace"] = {"troupe-3": [run(1, end={"communication_s": 0.0, "work": work})]}
        text = page.page(r)
        self.assertIn("| gpt2-fp32 | 1000 | backward 200.0 (20.0 %), forward 100.0 (10.0 %) |", text)
        self.assertIn("| gpt2-fp32 | head | 100.00 | 100 | 200.00 | 100 |", text)


class Work(unittest.TestCase):
    def test_products_of_a_step_are_six_times_parameters_times_tokens(self):
        matrices = 6 * 12 * 384 * 384 + 256 * 384
        self.assertEqual(cases.product_flops(FP32), 6 * matrices * 1024)

    def test_a_roofline_is_the_sum_of_products_at_their_own_rates(self):
        rates = {f"{m}x{k}x{n}": {"1": 2e11, "2": 1e11, "library": "x"} for m, k, n, _ in cases.products(FP32)}
        self.assertAlmostEqual(roofline.time_at({"fp32": rates}, FP32), (cases.product_flops(FP32) + cases.attention_flops(FP32)) / 1e11)
        self.assertIsNone(roofline.time_at({"fp32": {}}, FP32))

    def test_both_models_of_the_small_size_have_as_many_parameters(self):
        llama = next(c for c in cases.CASES if c.name == "llama-fp32")
        ours, theirs = (sum(a * b * n for a, b, n in cases.linear_shapes(c.model)) for c in (FP32, llama))
        self.assertLess(abs(ours - theirs) / ours, 0.02)


class Kernels(unittest.TestCase):
    def test_a_pair_that_one_side_lacks_is_left_out(self):
        rounds = [{"adamw/fp32/2/real_time": 50.0, "adamw_100m_torch": 55.0}] * 3
        both = kernels.comparisons({"rounds": rounds})
        self.assertEqual([(c[1], round(c[4].value, 2)) for c in both], [("torch fused", 0.91)])


def pipelined(step_s, loss=5.5, **more):
    return {"timed_s": [step_s] * pipeline_cases.TIMED_STEPS, "losses": [loss] * 3, "peak_rss_bytes": 400 << 20, **more}


class Degrees(unittest.TestCase):
    def test_the_chosen_way_stands_beside_the_fastest_and_one_that_cannot_run_beside_its_reason(self):
        way = lambda *steps_s, refusal=None: {"predicted_s": 0.02, "refusal": refusal, "tried_s": [s for s in steps_s],
                                              "steps_s": list(steps_s), "opening_s": [1.0 for _ in steps_s]}
        case = {"chosen": ["data 2", "tensor 2"], "opening_s": [3.0, 3.0],
                "ways": {"data 2": way(0.10, 0.10), "tensor 2": way(0.12, 0.12), "pipeline 2": way(refusal="too many stages")}}
        r = {**results([], []), "cases": {"deep and narrow, 2 ranks": case}}
        text = degrees.page(r)
        self.assertIn("| deep and narrow, 2 ranks | data 2, tensor 2 | data 2 | **1.10 (1.00 to 1.20) missed** | 1.05 | 3.0 | 1.0 |", text)
        self.assertIn("| deep and narrow, 2 ranks | tensor 2 | 20.0 | 120.0 |", text)
        self.assertIn("| deep and narrow, 2 ranks | pipeline 2 | 20.0 | too many stages |", text)


class Pipelines(unittest.TestCase):
    def setUp(self):
        self.r = results([], []) | {"cases": {}}
        self.runs = self.r["cases"].setdefault("pipeline-fp32", {}).setdefault("steps", {})

    def page(self):
        return pipeline_page.page(self.r)

    def test_each_peer_stands_beside_the_same_schedule(self):
        self.runs |= {"1f1b, m 4": [pipelined(1.0)] * 2, "torch 1F1B, m 4": [pipelined(4.0)] * 2, "interleaved, 2 chunks, m 4": [pipelined(1.0)],
                      "torch Interleaved1F1B, m 4": [pipelined(1.6)]}
        text = self.page()
        self.assertIn("| 4 | 1f1b | 1.00 | torch 1F1B | 4.00 | 0.25 (0.25 to 0.25) | 0.5 | 200 / 200 |", text)
        self.assertIn("- pipeline-fp32, interleaved, 2 chunks, m 4 beside torch Interleaved1F1B: 0.62 (0.62 to 0.62), bound 0.5", text)

    def test_a_peer_that_does_not_run_is_named_with_its_error(self):
        self.runs["DeepSpeed, ZeRO 0"] = [{"error": "Traceback\n  a line\n[rank0]: AssertionError: pipelines need a GPU\nfile.cpp:7"}]
        self.assertIn("- pipeline-fp32, steps, DeepSpeed, ZeRO 0: `[rank0]: AssertionError: pipelines need a GPU`", self.page())

    def test_losses_of_another_model_are_marked(self):
        self.runs |= {"1f1b, m 4": [pipelined(1.0)], "torch 1F1B, m 4": [pipelined(4.0, 5.6)], "DeepSpeed, ZeRO 1, m 4": [pipelined(4.0, 5.5001)]}
        text = self.page()
        self.assertIn("| torch 1F1B | 5.600000 | **1.0e-01: not the same model** |", text)
        self.assertIn("| DeepSpeed, ZeRO 1 | 5.500100 | 1.0e-04 |", text)

    def test_our_own_schedules_have_bounds_of_their_own(self):
        self.runs |= {"1f1b, m 4": [pipelined(1.0)], "zb1p, m 4": [pipelined(0.95)]}
        self.assertIn("| pipeline-fp32 | zb1p by 1f1b, m 4 | **0.95 (0.95 to 0.95) missed** | 0.91 |", self.page())

    def test_memory_is_that_of_runs_of_its_own(self):
        self.r["cases"]["pipeline-fp32"]["memory"] = {"1f1b, m 4": [pipelined(1, peak_pss_bytes=300 << 20)],
                                                      "DeepSpeed, ZeRO 0": [pipelined(1, peak_pss_bytes=1000 << 20)]}
        self.assertIn("| pipeline-fp32 | DeepSpeed, ZeRO 0 | 300 | 1000 | 0.30 (0.30 to 0.30) | 0.4 |", self.page())


class Cuts(unittest.TestCase):
    def test_each_axis_stands_beside_data_ranks_and_a_failure_is_named(self):
        run = lambda step_s: {"steps_s": [step_s] * cuts.STEPS}
        r = results([], []) | {"cases": {"fp32": {"data 2": [run(1.0)] * 2, "tensor 2": [run(1.1)] * 2, "context 2": [run(1.3)],
                                                  "DTensor": [{"error": "Traceback\nValueError: no kernel"}]}}}
        text = cuts.page(r)
        self.assertIn("| fp32 | tensor 2 by data 2 | 1.10 (1.10 to 1.10) | 1.12 |", text)
        self.assertIn("| fp32 | context 2 by data 2 | **1.30 (1.30 to 1.30) missed** | 1.15 |", text)
        self.assertIn("- fp32, DTensor: `ValueError: no kernel`", text)


class Processes(unittest.TestCase):
    def page(self, **cases):
        return processes.page({**results([], []), "load": 0.1, "cases": cases})

    def test_collectives_stand_beside_threads_and_gloo(self):
        key = f"all_gather/2/{64 << 20}"
        text = self.page(collectives={"all": [{"threads": {key: 30e3}, "processes": {key: us}, "gloo": {key: 300e3}} for us in (36e3, 42e3)]})
        self.assertIn("| all-gather | 2 | 64 | 36.00 | 30.00 | 300.00 | 1.30 (1.20 to 1.40), spread crosses the bound | 0.13 (0.12 to 0.14) | 0.2 |", text)

    def test_each_step_has_its_bounds(self):
        text = self.page(**{"step, ZeRO 2": {"one process": [run(1.0)], "two processes": [run(1.1)], "DeepSpeed": [run(4.4)]}})
        self.assertIn("| step, ZeRO 2: two processes by one process | **1.10 (1.10 to 1.10) missed** | 1.05 |", text)
        self.assertIn("| step, ZeRO 2: two processes by DeepSpeed | 0.25 (0.25 to 0.25) | 0.5 |", text)

    def test_a_loss_lasts_until_a_new_step_of_ours_and_until_any_of_torchruns(self):
        text = self.page(loss={"ours": [{"value": 0.5, "new": 2.0}], "torchrun": [{"value": 8.0, "new": 9.0}]})
        self.assertIn("SIGKILL to the first new step | 2.00 s | 3 |", text)
        self.assertIn("| the same by torchrun, to its first step | 0.25 (0.25 to 0.25) | 0.4 |", text)

    def test_kills_cost_a_share_of_the_steps(self):
        rate = lambda steps, kills=0: [{"value": steps, "kills": kills}]
        text = self.page(kills={"undisturbed": rate(2.0), "killed": rate(1.8, 10), "torchrun, undisturbed": rate(1.0), "torchrun, killed": rate(0.5, 2)})
        self.assertIn("| 3 ranks: share of steps lost to kills | 0.10 (0.10 to 0.10) | 0.15 |", text)
        self.assertIn("| torchrun, 3 ranks: share of steps lost to kills | 0.50 (0.50 to 0.50) |  |", text)
        self.assertIn("- kills, killed: 1.80 steps/s, 10 kills", text)

    def test_what_did_not_run_is_named(self):
        self.assertIn("- loss, torchrun: `no step came`", self.page(loss={"torchrun": [{"error": "Traceback\nno step came"}]}))


if __name__ == "__main__":
    unittest.main()
