// One validated, immutable description of a run. Made by `config::load`, read by everybody.
// Field names are the YAML's keys; defaults are DeepSpeed's where the key is DeepSpeed's.
// What a key means, its range and its effect stand in config/key_table.cpp and nowhere else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace troupe::config {

struct model_section {            ///< `model`
  std::string hugging_face_json;  ///< the keys as given inline, as one JSON object; empty when `path` is set
  std::filesystem::path path;     ///< a Hugging Face folder (config.json, optional weights); absolute
};

/// One of the texts that samples are drawn from, in proportion to its weight.
struct data_source {
  std::filesystem::path text;  ///< file, .gz/.dz, .jsonl, .bin or folder; absolute
  double weight = 1;
  std::string text_key;  ///< data_section::text_key where the source names none
};

struct data_section {                        ///< `data`
  std::filesystem::path text;                ///< the short form of one source; empty when `sources` was given
  std::vector<data_source> sources;          ///< after load never empty, of `text` too
  std::string text_key = "text";             ///< the key of a JSON line that holds its text
  std::string tokenizer = "bytes";           ///< or the path as it was given
  std::filesystem::path tokenizer_path;      ///< absolute; empty for bytes
  bool document_mask = false;                ///< attention and positions stay within a document
  core::dtype bin_dtype = core::dtype::i16;  ///< i16 = uint16 tokens, i32 = uint32
  uint64_t max_bytes = uint64_t{16} << 30;
  uint64_t sequence_length = 0;  ///< 0: the model's n_positions
  double validation_fraction = 0;
  uint64_t prefetch_batches = 4;
};

struct parallel_section {  ///< `parallel`
  uint32_t data = 1, pipeline = 1, tensor = 1, sequence = 1, expert = 1;
  [[nodiscard]] uint32_t ranks() const { return data * pipeline * tensor * sequence; }
};

/// Defaults are AdamW's; of another type what differs there is filled in by load.
struct optimizer_section {
  std::string type = "adamw";  ///< adam, adamw, adagrad, lion, sgd, lamb or muon
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool adam_w_mode = true;
  bool bias_correction = true;
  double momentum = 0.0;                        ///< sgd, muon
  double dampening = 0.0;                       ///< sgd
  bool nesterov = false;                        ///< sgd, muon
  double lr_decay = 0.0;                        ///< adagrad
  double initial_accumulator_value = 0.0;       ///< adagrad
  double max_coeff = 10.0, min_coeff = 0.01;    ///< lamb
  uint32_t ns_steps = 5;                        ///< muon
  std::optional<double> muon_lr, adam_lr = {};  ///< muon: of matrices, of everything else; none: `lr`
};

/// What differs for the parameters whose name a pattern matches.
struct parameter_group {
  std::string match;                       ///< RE2, searched in the name; the first group that matches a name has it
  std::optional<double> lr, weight_decay;  ///< none: the optimizer's
  bool trainable = true;
};

/// Fields are named as the keys; each type reads its own.
struct scheduler_section {
  std::string type;  ///< empty: constant
  double warmup_min_lr = 0.0;
  std::optional<double> warmup_max_lr;
  uint64_t warmup_num_steps = 1000;
  uint64_t total_num_steps = 0;
  std::string warmup_type = "log";
  double warmup_min_ratio = 0.0;
  double cos_min_ratio = 1e-4;
  double lr_range_test_min_lr = 1e-3;
  uint64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1.0;
  bool lr_range_test_staircase = false;
  double cycle_min_lr = 0.0, cycle_max_lr = 0.0;  ///< given with OneCycle
  double decay_lr_rate = 0.0;
  uint64_t cycle_first_step_size = 2000;
  std::optional<uint64_t> cycle_second_step_size;  ///< none: as the first
  uint64_t cycle_first_stair_count = 0;
  std::optional<uint64_t> cycle_second_stair_count;  ///< none: as the first
  uint64_t decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9;
  double decay_mom_rate = 0.0;
  uint64_t t_max = 0;  ///< given with CosineAnnealingLR
  double eta_min = 0.0;
  double start_factor = 1.0 / 3, end_factor = 1.0;  ///< LinearLR
  uint64_t total_iters = 5;                         ///< LinearLR, PolynomialLR
  double power = 1.0;                               ///< PolynomialLR
};

struct zero_section {  ///< `zero_optimization`
  uint32_t stage = 0;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  uint64_t reduce_bucket_size = 500'000'000;
  uint64_t allgather_bucket_size = 500'000'000;
  bool overlap_comm = false;  ///< resolved: the default is true exactly at stage 3
  bool round_robin_gradients = false;
  uint64_t sub_group_size = 1'000'000'000;
  uint64_t stage3_prefetch_bucket_size = 50'000'000;
  uint64_t stage3_param_persistence_threshold = 100'000;
  uint64_t stage3_model_persistence_threshold = 9223372036854775807ULL;
  uint64_t stage3_max_live_parameters = 1'000'000'000;
  uint64_t stage3_max_reuse_distance = 1'000'000'000;
};

struct fp16_section {  ///< `fp16`
  bool enabled = false;
  double loss_scale = 0;  ///< 0: dynamic
  uint32_t initial_scale_power = 16;
  uint64_t loss_scale_window = 1000;
  uint32_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
};

struct bf16_section {  ///< `bf16`
  bool enabled = false;
  bool check_grad_overflow = true;
};

struct data_types_section {  ///< `data_types`
  std::optional<core::dtype> grad_accum_dtype;
  bool reference_fp64 = false;  ///< everything in fp64: `data_types.param_dtype: fp64`
};

struct activation_checkpointing_section {  ///< `activation_checkpointing`
  bool enabled = false;                    ///< Troupe's key: recompute every unit from its input
  uint32_t number_checkpoints = 0;         ///< of DeepSpeed; 0 = every unit when enabled
};

struct evaluation_section {  ///< `evaluation`
  uint64_t every_steps = 0;  ///< 0: only at the end, and only when there is a validation part
  uint64_t batches = 0;      ///< 0: the whole validation part
};

struct telemetry_section {  ///< `telemetry`
  bool trace = true;
  uint64_t trace_from_step = 2, trace_steps = 3;
  bool json_lines = false;
  bool report = true;
};

/// Curves in files: `tensorboard` and `csv_monitor`.
struct monitor_section {
  bool enabled = false;
  std::filesystem::path output_path;  ///< absolute; empty: the run's output folder
  std::string job_name = "DeepSpeedJobName";
};

struct comms_logger_section {  ///< `comms_logger`
  bool enabled = false, verbose = false, prof_all = true, debug = false;
  std::vector<std::string> prof_ops;  ///< only these, when prof_all is false
};

struct flops_profiler_section {  ///< `flops_profiler`
  bool enabled = false;
  uint64_t profile_step = 1;
  double recompute_fwd_factor = 0.0;
  int64_t module_depth = -1;  ///< -1: all levels
  uint64_t top_modules = 1;
  bool detailed = true;
  std::filesystem::path output_file;  ///< absolute; empty: the log
};

struct sample_section {  ///< `sample`
  uint64_t tokens = 0;   ///< generated at the end; 0: none
  std::string prompt = "The ";
  double temperature = 0.8;
};

/// What is summed first: ranks (per micro-batch) or micro-batches (per step).
enum class gradient_order : uint8_t { automatic, per_micro_batch, per_step };

struct job_config {            ///< a validated job, never changed once loaded
  std::filesystem::path file;  ///< the YAML; empty when built from text
  model_section model;
  data_section data;
  parallel_section parallel;
  uint64_t seed = 0;
  uint64_t steps = 0;
  uint64_t train_batch_size = 0;  ///< the three are consistent and positive after load
  uint64_t train_micro_batch_size_per_gpu = 0;
  uint64_t gradient_accumulation_steps = 0;
  uint64_t steps_per_print = 0;
  double gradient_clipping = 1.0;
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  std::optional<core::dtype> communication_data_type;
  optimizer_section optimizer;
  std::vector<parameter_group> parameter_groups;
  scheduler_section scheduler;
  zero_section zero_optimization;
  fp16_section fp16;
  bf16_section bf16;
  data_types_section data_types;
  activation_checkpointing_section activation_checkpointing;
  gradient_order order = gradient_order::automatic;  ///< key: gradient_order
  evaluation_section evaluation;
  telemetry_section telemetry;
  monitor_section tensorboard, csv_monitor;
  comms_logger_section comms_logger;
  flops_profiler_section flops_profiler;
  bool wall_clock_breakdown = false, memory_breakdown = false;
  sample_section sample;
  std::filesystem::path output;  ///< folder for the run's outputs; default runs/<file stem> beside the current folder
  double stall_after_s = 0;  ///< cluster.stall_after; 0: the larger of 5 s and 10 x the longest predicted instruction
  uint64_t host_memory_budget = 0;  ///< cluster.host_memory_budget in bytes; 0: none

  [[nodiscard]] core::dtype parameter_dtype() const {
    if (data_types.reference_fp64) return core::dtype::f64;
    return bf16.enabled ? core::dtype::bf16 : fp16.enabled ? core::dtype::f16 : core::dtype::f32;
  }
  [[nodiscard]] core::dtype communication_dtype() const { return communication_data_type.value_or(parameter_dtype()); }
  [[nodiscard]] core::dtype accumulation_dtype() const {
    return data_types.grad_accum_dtype.value_or(parameter_dtype());
  }
};

}  // namespace troupe::config
