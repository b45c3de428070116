// Tests keys that have no effect because of other keys: the reader warns about each by name, and refuses a key whose
// effect would end the run.
#include <boost/test/unit_test.hpp>

#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(idle_keys)

using namespace troupe::config;

namespace {

/// Returns the warnings of the smallest file with `line` added as line 9, or its errors if it cannot be loaded.
std::string told(const std::string& line) { return warnings_of(smallest + line + "\n"); }

}  // namespace

BOOST_AUTO_TEST_CASE(evaluations_between_steps_require_a_part_that_is_held_out) {
  const std::string every = "evaluation: {every_steps: 4}\n";
  BOOST_TEST(errors_of(smallest + every) ==
             "j.yaml:9:27: error: evaluation.every_steps: requires a part of the text that is never trained on; set "
             "data.validation_fraction, such as 0.05, or data.validation, or remove this key, got 4\n");
  BOOST_TEST(warnings_of(smallest + every, {{"data.validation_fraction=0.1"}}) == "");
  BOOST_TEST(warnings_of(smallest_with("{text: corpus.txt}",
                                       "{sources: [{text: a}, {text: b}], "
                                       "validation_fraction: 0.1}") +
                         every) == "");
  // An interval of 100 steps schedules no evaluation before the last step, and after the last step none runs without
  // validation data.
  BOOST_TEST(warnings_of(smallest + every, {{"evaluation.every_steps=100"}}) ==
             "--set evaluation.every_steps=100: warning: evaluation.every_steps: no effect: there is neither "
             "data.validation_fraction nor data.validation\n");
  BOOST_TEST(told("evaluation: {batches: 2}") ==
             "j.yaml:9:14: warning: evaluation.batches: no effect: there is neither data.validation_fraction nor "
             "data.validation\n");
  BOOST_TEST(told("ema: {evaluate: true}") ==
             "j.yaml:9:7: warning: ema.evaluate: no effect: there is neither data.validation_fraction nor "
             "data.validation\n");
  BOOST_TEST(warnings_of(smallest + every, {{"data.validation.held=b.txt"}}) == "");
  BOOST_TEST(told("evaluation: {every_steps: 0, batches: 0}") == "");
}

BOOST_AUTO_TEST_CASE(keys_of_what_is_switched_off_are_said) {
  const std::string head = "j.yaml:9:", none = ": no effect: ";
  for (const std::string more : {"", ", enabled: true"})
    BOOST_TEST(told("activation_checkpointing: {number_checkpoints: 4" + more + "}") ==
               head + "28: warning: activation_checkpointing.number_checkpoints" + none +
                   "every unit keeps its input, and no buffer is reserved for checkpoints\n");
  BOOST_TEST(told("pipeline: {schedule: gpipe}") ==
             head + "12: warning: pipeline.schedule" + none + "parallel.pipeline is 1\n");
  BOOST_TEST(told("pipeline: {schedule: 1f1b, profile: always}") == "");
  BOOST_TEST(warnings_of(smallest_with("data: 2", "data: 2, pipeline: 2") + "pipeline: {schedule: gpipe}\n") == "");
  for (const std::string step : {"100", "101"})
    BOOST_TEST(told("telemetry: {trace_from_step: " + step + "}") ==
               head + "13: warning: telemetry.trace_from_step" + none +
                   "steps are counted from 0 here, and the run has 100\n");
  BOOST_TEST(told("telemetry: {trace_from_step: 99}") == "");
}

BOOST_AUTO_TEST_CASE(keys_whose_sections_switch_is_missing_are_said) {
  const std::string launched = ", unless a launcher sets it";
  const auto is_said = [](const std::string& line, const std::string& key, const std::string& missing,
                          const std::string& unless = "") {
    const std::string got = told(line);
    BOOST_TEST(got.ends_with(": warning: " + key + ": no effect: " + missing + " is not given" + unless + "\n"),
               line << ": " << got);
    BOOST_TEST(got.find('\n') == got.size() - 1, got);
  };
  is_said("fp16: {loss_scale: 128}", "fp16.loss_scale", "fp16.enabled");
  is_said("bf16: {check_grad_overflow: false}", "bf16.check_grad_overflow", "bf16.enabled");
  is_said("elasticity: {max_train_batch_size: 64}", "elasticity.max_train_batch_size", "elasticity.enabled");
  is_said("compile: {memory_budget: 4096}", "compile.memory_budget", "compile.deepcompile");
  is_said("on_spike: {back_steps: 3}", "on_spike.back_steps", "on_spike.action");
  is_said("tensorboard: {output_path: logs}", "tensorboard.output_path", "tensorboard.enabled");
  is_said("csv_monitor: {job_name: first}", "csv_monitor.job_name", "csv_monitor.enabled");
  is_said("mlflow: {experiment: first}", "mlflow.experiment", "mlflow.enabled");
  is_said("wandb: {project: mine}", "wandb.project", "wandb.enabled");
  is_said("flops_profiler: {profile_step: 3}", "flops_profiler.profile_step", "flops_profiler.enabled");
  is_said("comms_logger: {verbose: true}", "comms_logger.verbose", "comms_logger.enabled");
  is_said("cluster: {spares: 2}", "cluster.spares", "cluster.processes", launched);
  is_said("cluster: {on_loss: stop}", "cluster.on_loss", "cluster.processes", launched);
  is_said("cluster: {restarts: {max: 3}}", "cluster.restarts.max", "cluster.processes", launched);
  is_said("checkpoint: {memory: {every_steps: 3}}", "checkpoint.memory.every_steps", "cluster.processes", launched);
  is_said("cluster: {min_ranks: 2}", "cluster.min_ranks", "cluster.processes", launched);
  is_said("checkpoint: {tag_validation: Fail}", "checkpoint.tag_validation", "cluster.processes", launched);
  is_said("cluster: {page_token_file: token}", "cluster.page_token_file", "cluster.page");
  is_said("sample: {prompt: Once}", "sample.prompt", "sample.tokens");
  is_said("sequence_parallel: {size: 2}", "sequence_parallel.size", "sequence_parallel.enabled");
  is_said("distillation: {temperature: 2}", "distillation.temperature", "distillation.enabled");
  is_said("distillation: {terms: {logits: {divergence: jsd}}}", "distillation.terms.logits.divergence",
          "distillation.enabled");
  const std::string moq = "compression_training.weight_quantization.shared_parameters.fp16_mixed_quantize.";
  is_said(
      "compression_training: {weight_quantization: {shared_parameters: {enabled: true, fp16_mixed_quantize: "
      "{quantize_change_ratio: 0.5}}, different_groups: {all: {params: {start_bits: 8, target_bits: 4}}}}}",
      moq + "quantize_change_ratio", moq + "enabled");
  is_said("compression_training: {weight_quantization: {shared_parameters: {fp16_mixed_quantize: {enabled: true}}}}",
          moq + "enabled", "compression_training.weight_quantization.shared_parameters.enabled");
  // A section with groups causes one warning only.
  const std::string rows = "compression_training.row_pruning.";
  is_said(
      "compression_training: {row_pruning: {shared_parameters: {schedule_offset: 10}, different_groups: {a: {params: "
      "{dense_ratio: 0.5}, modules: [mlp]}}}}",
      rows + "different_groups.a.modules", rows + "shared_parameters.enabled");
  // Causes no warning: the file itself sets the switch, or sets a key to its default.
  for (const char* line : {"fp16: {enabled: false, loss_scale: 128}", "fp16: {enabled: auto, loss_scale: 128}",
                           "flops_profiler: {enabled: false, profile_step: 3}", "fp16: {hysteresis: 2}",
                           "on_spike: {action: none, back_steps: 3}", "cluster: {processes: one, spares: 2}",
                           "cluster: {processes: ranks, spares: 2}", "checkpoint: {memory: {every_steps: 0}}",
                           "cluster: {store: 'etcd://a:1'}", "sample: {tokens: 0, prompt: Once}",
                           "distillation: {enabled: false, temperature: 2}",
                           "compression_training: {row_pruning: {shared_parameters: {enabled: false, "
                           "schedule_offset: 10}}}"})
    BOOST_TEST(told(line) == "", line);
}

BOOST_AUTO_TEST_CASE(keys_that_act_only_beside_others_are_said) {
  const auto is_said = [](const std::string& line, const std::string& key, const std::string& why,
                          const std::vector<std::string>& set = {}) {
    const std::string got = warnings_of(smallest + line + "\n", {set});
    BOOST_TEST(got.ends_with(": warning: " + key + ": no effect: " + why + "\n"), line << ": " << got);
    BOOST_TEST(got.find('\n') == got.size() - 1, got);
  };
  const std::string tensor = "tensor_parallel.", zero = "zero_optimization.", offload = zero + "offload_optimizer.";
  is_said("tensor_parallel: {tp_overlap_comm: true}", tensor + "tp_overlap_comm", "parallel.tensor is 1");
  is_said("tensor_parallel: {tp: {tp_grain_size: 16}}", tensor + "tensor_parallel.tp_grain_size",
          "parallel.tensor is 1");
  is_said("aio: {queue_depth: 16}", "aio.queue_depth", "nothing is swapped");
  is_said("cluster: {swap_checksums: false}", "cluster.swap_checksums", "nothing is swapped");
  is_said("cluster: {offload_activations_units: 2}", "cluster.offload_activations_units",
          "offload_activations is none");
  is_said("checkpoint: {load: {path: old, module_only: true, optimizer_states: false}}",
          "checkpoint.load.optimizer_states", "module_only is true");
  is_said("cluster: {processes: ranks, on_loss: stop, spares: 2}", "cluster.spares", "on_loss is stop");
  is_said("on_spike: {action: stop, back_steps: 3}", "on_spike.back_steps", "on_spike.action is stop");
  is_said("fp16: {enabled: true, loss_scale: 128, hysteresis: 4}", "fp16.hysteresis", "fp16.loss_scale is fixed");
  is_said("telemetry: {trace: false, report: false, trace_steps: 5}", "telemetry.trace_steps",
          "telemetry.trace and telemetry.report are false");
  is_said("", "model.teacher", "neither distillation nor layer_reduction is enabled", {"model.teacher=folder"});
  is_said("", zero + "round_robin_gradients", "stage 0 cuts no states",
          {zero + "stage=0", zero + "round_robin_gradients=true"});
  is_said("", zero + "reduce_scatter", "at stage 0 every rank receives all gradients",
          {zero + "stage=0", zero + "reduce_scatter=false"});
  for (const std::string stage : {"2", "3"})
    is_said("", zero + "reduce_scatter", "stages 2 and 3 send every gradient to its owner alone",
            {zero + "stage=" + stage, zero + "reduce_scatter=false"});
  BOOST_TEST(warnings_of(smallest, {{zero + "stage=1", zero + "reduce_scatter=false"}}) == "");
  BOOST_TEST(warnings_of(smallest, {{zero + "reduce_scatter=false", "gradient_predivide_factor=2"}}) == "");
  for (const std::string key : {"allgather_bucket_size=7", "ignore_unused_parameters=false"})
    is_said("", zero + key.substr(0, key.find('=')), "stage is neither 1 nor 2", {zero + key});
  is_said("", offload + "nvme_path", offload + "device is not given", {offload + "nvme_path=swap"});
  is_said("", offload + "nvme_path", "device is cpu", {offload + "device=cpu", offload + "nvme_path=swap"});
  const std::string taught = "distillation: {enabled: true, ", terms = "distillation.terms.";
  const std::vector<std::string> teacher = {"model.teacher=folder"};
  is_said(taught + "terms: {logits: {beta: 0.25}}}", terms + "logits.beta", "divergence is not jsd", teacher);
  is_said(taught + "temperature: 2, terms: {logits: {weight: 0}}}", "distillation.temperature",
          terms + "logits.weight is 0", teacher);
  is_said(taught + "layer_wise: {enabled: true}, terms: {cross_entropy: 0.5}}", terms + "cross_entropy",
          "distillation.layer_wise.enabled is true", teacher);
  const std::string sparse = "compression_training.sparse_pruning.shared_parameters.";
  is_said(
      "compression_training: {sparse_pruning: {shared_parameters: {enabled: true, schedule_offset: 2, block_pattern: "
      "2x2}, different_groups: {a: {params: {dense_ratio: 0.5}}}}}",
      sparse + "block_pattern", "method is not snip_momentum");
  const std::string cycle =
      "scheduler: {type: OneCycle, params: {cycle_min_lr: 0.001, cycle_max_lr: 0.01, cycle_first_step_size: 10, ";
  is_said(cycle + "cycle_momentum: false, cycle_max_mom: 0.85}}", "scheduler.params.cycle_max_mom",
          "cycle_momentum is false");
  is_said(cycle + "decay_lr_rate: 0.5}}", "scheduler.params.decay_lr_rate", "decay_step_size is 0");
  is_said("", "optimizer.params.dampening", "momentum is 0", {"optimizer={type: sgd, params: {dampening: 0.5}}"});
  // The name of a key says at which stage it acts.
  BOOST_TEST(warnings_of(smallest, {{zero + "stage=1"}}) == "");
  BOOST_TEST(
      warnings_of(smallest_with("data: 2", "data: 2, tensor: 2") + "tensor_parallel: {tp_overlap_comm: true}\n") == "");
  BOOST_TEST(warnings_of(smallest_with("data: 2}", "ranks: 4, tensor: auto, data: auto}") +
                             "train_batch_size: 16\ntensor_parallel: {tp_overlap_comm: true}\n",
                         {}) == "");
}

BOOST_AUTO_TEST_CASE(keys_that_act_from_a_step_behind_the_end_are_said) {
  const auto is_said = [](const std::string& line, const std::string& key, const std::string& why) {
    const std::string got = told(line);
    BOOST_TEST(got.ends_with(": warning: " + key + ": " + why + "\n"), line << ": " << got);
    BOOST_TEST(got.find('\n') == got.size() - 1, got);
  };
  const std::string has = ", and the run has 100 steps", root = "compression_training.";
  const std::string groups = "different_groups: {a: {params: {dense_ratio: 0.5}, modules: [mlp]}}";
  is_said("compression_training: {row_pruning: {shared_parameters: {enabled: true}, " + groups + "}}",
          root + "row_pruning.shared_parameters.enabled",
          "no effect: row_pruning begins after 1000 updates (schedule_offset)" + has);
  is_said(
      "compression_training: {row_pruning: {shared_parameters: {enabled: true, schedule_offset: 101}, " + groups + "}}",
      root + "row_pruning.shared_parameters.schedule_offset",
      "no effect: row_pruning begins after 101 updates (schedule_offset)" + has);
  BOOST_TEST(told("compression_training: {row_pruning: {shared_parameters: {enabled: true, schedule_offset: 100}, " +
                  groups + "}}") == "");
  is_said("compile: {deepcompile: true, schedule: [{step: 0, passes: []}, {step: 100, passes: [prefetch]}]}",
          "compile.schedule[1].step", "no effect: these passes begin after 100 steps" + has);
  BOOST_TEST(
      warnings_of(smallest_with("{text: corpus.txt}", "{text: corpus.txt, skip: [{steps: 100}, {steps: 101-110}]}"))
          .ends_with(": warning: data.skip[1].steps: no effect: it begins at step 101" + has + "\n"));
  is_said("on_spike: {action: stop, min_steps: 100}", "on_spike.min_steps",
          "only a loss that is not finite is a spike: others are compared after 100 steps, and the run has 100");
}

BOOST_AUTO_TEST_CASE(updates_of_zenflow_behind_the_end_are_said) {
  const auto with = [](const std::string& keys, const std::string& steps) {
    return warnings_of(smallest_with("stage: 3", "stage: 3, offload_optimizer: {device: cpu}, zenflow: {" + keys + "}"),
                       {{"steps=" + steps}});
  };
  const auto is_said = [&](const std::string& keys, const std::string& steps, const std::string& key,
                           const std::string& what) {
    const std::string got = with(keys, steps);
    BOOST_TEST(got.ends_with(": warning: zero_optimization.zenflow" + key + ": " + what + ", and the run has " + steps +
                             " steps\n"),
               keys << ": " << got);
    BOOST_TEST(got.find('\n') == got.size() - 1, got);
  };
  is_said("full_warm_up_rounds: 9", "9", ".full_warm_up_rounds", "no effect: the first 9 steps update everything");
  const std::string never = "the columns that are not chosen are never updated: their first update is ";
  is_said("update_interval: 8, full_warm_up_rounds: 2", "9", ".update_interval",
          never + "8 steps after the 2 of full_warm_up_rounds");
  BOOST_TEST(with("update_interval: 8, full_warm_up_rounds: 2", "10") == "");
  is_said("", "3", "", never + "4 steps after the 0 of full_warm_up_rounds");
  BOOST_TEST(with("", "4") == "");
  // The interval of 6 steps is rounded up to 8, and the second choice is in step 9.
  const std::string chosen = "select_strategy: step, update_interval: 4, select_interval: 6";
  is_said(chosen, "8", ".select_interval",
          "no effect: columns are chosen once, because the next choice is more than 7 steps after the first");
  BOOST_TEST(with(chosen, "9") == "");
}

BOOST_AUTO_TEST_CASE(compression_that_does_not_reach_its_goal_is_said) {
  const auto with = [](const std::string& section, const std::string& steps) {
    return warnings_of(smallest + "compression_training: {" + section + "}\n", {{"steps=" + steps}});
  };
  const std::string root = ": warning: compression_training.";
  // Bits are removed in steps 3, 6, 12 and 24 from schedule_offset on.
  const auto bits = [&](const std::string& more, const std::string& steps) {
    return with("weight_quantization: {shared_parameters: {enabled: true, schedule_offset: 10" + more +
                    "}, different_groups: {a: {params: {start_bits: 8, target_bits: 4, quantization_period: 3}, "
                    "modules: [mlp]}}}",
                steps);
  };
  BOOST_TEST(bits("", "32").ends_with(
      root +
      "weight_quantization.different_groups.a.params.quantization_period: the 4 target_bits are not reached: the last "
      "bit is removed 23 updates after the 10 of schedule_offset, and the run has 32 steps\n"));
  BOOST_TEST(bits("", "33") == "");
  BOOST_TEST(bits(", quantize_weight_in_forward: true", "32") == "");
  const auto sparse = [&](const std::string& more, const std::string& steps) {
    return with("sparse_pruning: {shared_parameters: {enabled: true, method: snip_momentum, schedule_offset: 2" + more +
                    "}, different_groups: {a: {params: {dense_ratio: 0.5}, modules: [mlp]}}}",
                steps);
  };
  BOOST_TEST(sparse(", schedule_offset_end: 21", "20")
                 .ends_with(root + "sparse_pruning.shared_parameters.schedule_offset_end: dense_ratio is not reached: "
                                   "the last blocks are removed after 21 updates, and the run has 20 steps\n"));
  BOOST_TEST(sparse(", schedule_offset_end: 20", "20") == "");
  BOOST_TEST(sparse("", "20") == "");
  BOOST_TEST(sparse(", dense_ratio: 0.25", "20") == "");  // replaces the ratio of the groups, which each group must
                                                          // have
}

BOOST_AUTO_TEST_CASE(keys_that_change_nothing_beside_the_values_of_others_are_said) {
  const auto is_said = [](const std::string& line, const std::string& key, const std::string& why,
                          const std::vector<std::string>& set = {}) {
    const std::string got = warnings_of(smallest + line + "\n", {set});
    BOOST_TEST(got.ends_with(": warning: " + key + ": no effect: " + why + "\n"), line << ": " << got);
    BOOST_TEST(got.find('\n') == got.size() - 1, got);
  };
  is_said("checkpoint: {every_steps: 5, use_node_local_storage: true}", "checkpoint.use_node_local_storage",
          "all ranks write into the one output folder, unless a launcher sets cluster.hosts");
  is_said("checkpoint: {every_steps: 5, asynchronous: false, when_busy: skip}", "checkpoint.when_busy",
          "checkpoint.asynchronous is false: a checkpoint ends before the next is due");
  BOOST_TEST(told("checkpoint: {every_steps: 5, asynchronous: false, staging_bytes: 1MiB}") == "");
  is_said("sequence_parallel: {enabled: true}", "sequence_parallel.enabled", "sequence_parallel.size is 1");
  const std::vector<std::string> alone = {"parallel.data=1", "zero_optimization.stage=1"};
  is_said("prescale_gradients: true", "prescale_gradients", "there is one data rank", alone);
  BOOST_TEST(warnings_of(smallest + "prescale_gradients: true\n", {{"zero_optimization.stage=1"}}) == "");
  BOOST_TEST(warnings_of(smallest + "gradient_predivide_factor: 2\n", {alone}) == "");
  is_said("", "data.bin_dtype", "it is the type of tokens in .bin files, and every source is plain text",
          {"data.bin_dtype=uint32"});
  BOOST_TEST(warnings_of(smallest, {{"data={text: corpus.bin, bin_dtype: uint32}"}}) == "");
  is_said("tied_gradients: per_use", "tied_gradients", "model.tie_word_embeddings is false",
          {"model.tie_word_embeddings=false"});
  BOOST_TEST(told("tied_gradients: per_use") == "");
}

BOOST_AUTO_TEST_CASE(keys_that_another_key_of_their_section_replaces_are_said) {
  // Stage 3 with reduce_scatter refuses both keys.
  const auto at_stage_1 = [](const std::string& lines) {
    return warnings_of(smallest + lines, {{"zero_optimization.stage=1"}});
  };
  BOOST_TEST(at_stage_1("prescale_gradients: true\ngradient_predivide_factor: 2\n") ==
             "j.yaml:10:1: warning: gradient_predivide_factor: no effect: prescale_gradients is true, which divides by "
             "the number of data ranks before the sum\n");
  BOOST_TEST(at_stage_1("gradient_predivide_factor: 2\n") == "");
  BOOST_TEST(told("comms_logger: {enabled: true, prof_ops: [all_reduce]}") ==
             "j.yaml:9:31: warning: comms_logger.prof_ops: no effect: comms_logger.prof_all is true; set it to false "
             "to log only these\n");
  BOOST_TEST(told("comms_logger: {enabled: true, prof_all: false}") ==
             "j.yaml:9:41: warning: comms_logger.prof_all: false: no collective is logged, because "
             "comms_logger.prof_ops is empty\n");
  BOOST_TEST(told("comms_logger: {enabled: true, prof_all: false, prof_ops: [all_reduce]}") == "");
  const std::string unknown = errors_of(smallest + "comms_logger: {enabled: true, prof_ops: [all_reduce, foo]}\n");
  BOOST_TEST(unknown.starts_with("j.yaml:9:41: error: comms_logger.prof_ops: wanted a list of all_gather, "), unknown);
  BOOST_TEST(unknown.ends_with(", tie, vote, got [all_reduce, foo]\n"), unknown);
}

BOOST_AUTO_TEST_CASE(checkpoints_that_no_rule_keeps_are_said) {
  const std::string last = "warning: checkpoint.keep_last: ", every = "warning: checkpoint.keep_every: ",
                    requested =
                        "acts only on checkpoints that are requested, such as by SIGUSR1, because neither "
                        "checkpoint.every_steps nor checkpoint.every_minutes is set\n";
  BOOST_TEST(told("checkpoint: {keep_last: 2}") == "j.yaml:9:25: " + last + requested);
  BOOST_TEST(told("checkpoint: {keep_every: 2}") == "j.yaml:9:26: " + every + requested);
  BOOST_TEST(told("checkpoint: {keep_last: 2, every_minutes: 10}") == "");
  BOOST_TEST(told("checkpoint: {keep_last: 2, keep_every: 8, every_steps: 4}") == "");
  const std::string due =
      ", because checkpoints are due every 4 steps (checkpoint.every_steps); a multiple of that number keeps more\n";
  BOOST_TEST(told("checkpoint: {keep_every: 3, every_steps: 4}") ==
             "j.yaml:9:26: " + every + "keeps those of multiples of 12 steps alone" + due);
  BOOST_TEST(told("checkpoint: {keep_every: 51, every_steps: 4}") ==
             "j.yaml:9:26: " + every + "keeps none of them before the end, after 100 steps" + due);
  BOOST_TEST(told("checkpoint: {keep_every: 3, every_steps: 4, every_minutes: 1}") == "");
}

BOOST_AUTO_TEST_CASE(a_least_loss_scale_above_the_first_one_is_said) {
  BOOST_TEST(
      told("fp16: {enabled: true, initial_scale_power: 4, min_loss_scale: 1000}") ==
      "j.yaml:9:63: warning: fp16.min_loss_scale: 1000 is above the first loss scale, which is 16 "
      "(fp16.initial_scale_power): an overflow raises the scale to it, and the steps before the first overflow have "
      "a smaller one\n");
  BOOST_TEST(told("fp16: {enabled: true, initial_scale_power: 4, min_loss_scale: 16}") == "");
  BOOST_TEST(told("fp16: {enabled: true, loss_scale: 8}") == "");
}

BOOST_AUTO_TEST_CASE(a_host_with_batches_of_its_own_evaluates_without_a_held_out_part) {
  load_options host;
  host.read_as = reading::host_job;
  BOOST_TEST(warnings_of("train_micro_batch_size_per_gpu: 1\nsteps: 5\noptimizer: {type: AdamW}\n"
                         "evaluation: {every_steps: 2, batches: 3}\n",
                         host) == "");
}

BOOST_AUTO_TEST_SUITE_END()
