// One validated, immutable description of a run, made by `config::load`. Field names are the YAML's keys; defaults are
// DeepSpeed's for DeepSpeed's keys. Other sections are in training_config.hpp (how to train), offload_config.hpp (where
// states are stored), pipeline_config.hpp (stages and their order), cluster_config.hpp (processes), elasticity.hpp
// (batches for many degrees) and run_config.hpp (input and output). The meaning of a key, its range and its effect are
// documented only in its row in config/keys/keys_*.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/cluster_config.hpp"
#include "config/sections/compile_config.hpp"
#include "config/sections/compression_config.hpp"
#include "config/sections/distillation_config.hpp"
#include "config/sections/elasticity.hpp"
#include "config/sections/lora_config.hpp"
#include "config/sections/offload_config.hpp"
#include "config/sections/partition_config.hpp"
#include "config/sections/pipeline_config.hpp"
#include "config/sections/run_config.hpp"
#include "config/sections/training_config.hpp"
#include "core/dtype.hpp"
#include "core/mesh.hpp"
#include "core/system/device_kind.hpp"

namespace troupe::config {

struct model_section {  ///< configuration section `model`
  /// The model's keys that the configuration itself contains, as one JSON object; empty if `path` is set.
  std::string hugging_face_json;
  std::filesystem::path path;  ///< a Hugging Face folder (config.json, optional weights); absolute
  /// Folder of a trained model, absolute: the source of copied layers, or the teacher of a distillation; empty: none.
  std::filesystem::path teacher;
  /// True: compressed weights at the start of a run are converted to the numbers that their codes represent.
  bool dequantise = false;
  std::vector<std::string> ignore_keys;  ///< keys of config.json that are treated as absent
};

/// Degrees that DeepSpeed's keys set; `parallel_section` has the degrees that are derived from them. 1 or less: not
/// given.
struct deepspeed_degrees {
  uint32_t autotp_size = 0, tp_size = 1;
  uint32_t sequence_parallel_size = 1, sequence_size = 1;
  bool sequence_enabled = false;  ///< key: sequence_parallel.enabled; false: sequence_size has no effect
};

struct parallel_section {  ///< configuration section `parallel`
  uint32_t data = 1, pipeline = 1, tensor = 1, sequence = 1, context = 1, expert = 1;
  /// Key: ranks; number of ranks of the job, equal to ranks() after load; nullopt: not given.
  std::optional<uint64_t> all;
  /// Number of neighbouring data ranks over which one copy of the states is split; every further group of as many ranks
  /// holds a copy of its own. 0: one copy is split over all data ranks.
  uint32_t shard = 0;
  /// True: norms and other computations between matrix products are split over tensor ranks by tokens.
  bool sharded_norms = false;
  /// Key: tensor_parallel.tp_overlap_comm; true: exchanges overlap the computation of weight gradients.
  bool overlap_comm = false;
  /// Key: tensor_parallel.exchange_pieces; number of row pieces in which a product's output is computed and exchanged.
  uint32_t exchange_pieces = 1;
  [[nodiscard]] core::mesh mesh() const {
    using core::axis;
    const uint32_t group = shard == 0 ? data : shard;
    return {{axis::pipeline, pipeline}, {axis::replicate, data / group}, {axis::shard, group},
            {axis::sequence, sequence}, {axis::context, context},        {axis::tensor, tensor}};
  }
  [[nodiscard]] uint32_t ranks() const { return mesh().ranks(); }
};

/// One division of the ranks over degrees that are `auto`, and the values that follow from it.
struct degree_choice {
  parallel_section parallel;
  uint64_t train_batch_size = 0, train_micro_batch_size_per_gpu = 0, gradient_accumulation_steps = 0;
  std::string refusal;  ///< reason for which a file with these degrees is refused; empty: it is accepted
};

struct zero_section {  ///< configuration section `zero_optimization`
  uint32_t stage = 0;
  bool contiguous_gradients = true;
  bool reduce_scatter = true;
  uint64_t reduce_bucket_size = 500'000'000;
  /// False: reduce_bucket_size is a default, which the plan may replace if gradients are swapped.
  bool reduce_bucket_size_given = false;
  uint64_t allgather_bucket_size = 500'000'000;
  /// False: allgather_bucket_size is a default; the plan may replace it so that all-gathers of parameters overlap
  /// updates.
  bool allgather_bucket_size_given = false;
  bool overlap_comm = true;
  bool ignore_unused_parameters = true;
  /// True: ranks load a checkpoint one after the other, to limit host memory.
  bool pipeline_loading_checkpoint = false;
  bool round_robin_gradients = false;
  uint64_t sub_group_size = 1'000'000'000;
  /// False: sub_group_size is a default, which the plan may replace if states are swapped.
  bool sub_group_size_given = false;
  uint64_t stage3_prefetch_bucket_size = 50'000'000;
  uint64_t stage3_param_persistence_threshold = 100'000;
  uint64_t stage3_model_persistence_threshold = 9223372036854775807ULL;
  uint64_t stage3_max_live_parameters = 1'000'000'000;
  uint64_t stage3_max_reuse_distance = 1'000'000'000;
  /// Stage 3: number of ranks over which a second copy of the parameters is split (hpZ); 0, 1: no second copy.
  uint64_t zero_hpz_partition_size = 1;
  /// Stage 3: number of data ranks over which states are split, as parallel.shard; below 1: not given.
  int64_t mics_shard_size = -1;
  bool stage3_gather_16bit_weights_on_model_save = false;
  /// True: fp32 master weights are loaded from a checkpoint's fp32 weights; false: from its 16-bit weights.
  bool load_from_fp32_weights = true;
  offload_param_section offload_param;
  offload_optimizer_section offload_optimizer;
  zenflow_section zenflow;
  /// True if any states or parameters are stored in swap files.
  [[nodiscard]] bool swaps() const {
    return offload_param.device == offload_device::nvme || offload_optimizer.device == offload_device::nvme;
  }
};

/// Order of the two sums of gradients: over the ranks first, once per micro-batch, or over the micro-batches first and
/// then over the ranks, once per step.
enum class gradient_order : uint8_t { automatic, per_micro_batch, per_step };

/// Where the gradients of a weight that several units use are added: in the weight's gradient bucket as each unit's
/// gradient is computed, or as one sum for each use, which are added at the end. Automatic: per_use if a pipeline may
/// place the units on different ranks.
enum class tied_gradients : uint8_t { automatic, in_bucket, per_use };

struct cuda_section {                   ///< configuration section `cuda`
  std::vector<uint32_t> devices = {0};  ///< indices of GPUs, counted among the GPUs that the process sees; at least one
  bool deterministic = false;
  bool tf32 = false;          ///< true: matrix products of fp32 numbers use the GPU's TF32 format
  uint64_t memory_limit = 0;  ///< limit in bytes of a GPU's memory for all ranks that use it; 0: the whole memory
};

struct job_config {            ///< a validated job, never changed once loaded
  std::filesystem::path file;  ///< path of the configuration file; empty if the configuration was read from a text
  model_section model;
  data_section data;
  parallel_section parallel;
  /// If degrees are `auto`: the possible divisions of the ranks over them, in the order of config/open_degrees.hpp, at
  /// least one without refusal. Until `with` applies one, `parallel` and the batch sizes have the values of the first
  /// division without refusal. Empty: no degree is open.
  std::vector<degree_choice> open_degrees;
  deepspeed_degrees degrees;
  pipeline_section pipeline;
  core::device_kind device = core::device_kind::cpu;  ///< kind of device on which every rank computes
  cuda_section cuda;
  uint64_t seed = 0;
  uint64_t steps = 0;
  /// Samples of a step on all ranks; after load this size and the next two are consistent and positive.
  uint64_t train_batch_size = 0;
  uint64_t train_micro_batch_size_per_gpu = 0;
  uint64_t gradient_accumulation_steps = 0;
  /// False: the host program decides how many micro-batches a step has, at most gradient_accumulation_steps.
  bool managed_gradient_accumulation = true;
  elasticity_section elasticity;  ///< section `elasticity`; if enabled, it determines the three batch sizes
  uint64_t steps_per_print = 0;
  double gradient_clipping = 1.0;
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  std::optional<core::dtype> communication_data_type;
  optimizer_section optimizer;
  std::vector<parameter_group> parameter_groups;
  core::schedule_options scheduler;
  zero_section zero_optimization;
  tensor_parallel_section tensor_parallel;
  compile_section compile;
  compression_section compression;
  distillation_section distillation;
  loss_section loss;
  ema_section ema;
  lora_section lora;
  aio_section aio;
  fp16_section fp16;
  bf16_section bf16;
  data_types_section data_types;
  activation_checkpointing_section activation_checkpointing;
  gradient_order order = gradient_order::automatic;  ///< key: gradient_order; which sum of gradients comes first
  tied_gradients tied = tied_gradients::automatic;   ///< key: tied_gradients; where gradients of tied weights are added
  on_spike_section on_spike;
  evaluation_section evaluation;
  checkpoint_section checkpoint;
  telemetry_section telemetry;
  monitor_section tensorboard, csv_monitor;
  mlflow_section mlflow;
  wandb_section wandb;
  comms_logger_section comms_logger;
  flops_profiler_section flops_profiler;
  bool wall_clock_breakdown = false, memory_breakdown = false;
  sample_section sample;
  std::filesystem::path output;  ///< folder for the run's outputs; default runs/<file stem> below the current folder
  cluster_section cluster;
  /// Key: cluster.stall_after; seconds without progress after which a run has stalled; 0: 30 s.
  double stall_after_s = 0;
  /// cluster.row_tile_bytes: limit of the bytes of logits that a rank computes at a time; 0: no limit.
  uint64_t row_tile_bytes = 0;
  /// cluster.mlp_tile_bytes: limit of the bytes of activation inputs that an MLP computes at a time; 0: no limit.
  uint64_t mlp_tile_bytes = 0;
  uint64_t host_memory_budget = 0;  ///< cluster.host_memory_budget in bytes, of all ranks of a process; 0: no budget
  /// Key: cluster.early_updates; whether updates may run before the step is known not to be clipped or skipped.
  early_choice early_updates = early_choice::automatic;
  bool swap_checksums = true;  ///< key: cluster.swap_checksums; true: pages read from swap files are verified
  /// Key: cluster.swap_gradients; whether reduced gradients are stored in swap files.
  swap_choice swap_gradients = swap_choice::automatic;
  /// Key: cluster.offload_activations; where the inputs of recomputed units are stored until backward.
  offload_device offload_activations = offload_device::none;
  /// Number of recomputed units, from the first block on, whose inputs are offloaded; nullopt: all.
  std::optional<uint64_t> offload_activations_units;

  /// Returns the job with the degrees and batch sizes of `taken`, one of its `open_degrees`.
  [[nodiscard]] job_config with(const degree_choice& taken) const {
    job_config out = *this;
    out.open_degrees.clear();
    out.parallel = taken.parallel;
    out.train_batch_size = taken.train_batch_size;
    out.train_micro_batch_size_per_gpu = taken.train_micro_batch_size_per_gpu;
    out.gradient_accumulation_steps = taken.gradient_accumulation_steps;
    return out;
  }
  /// Folder of the swap files; empty if nothing is swapped.
  [[nodiscard]] std::filesystem::path swap_folder() const {
    const offload_section &optimizer = zero_optimization.offload_optimizer, &param = zero_optimization.offload_param;
    if (param.device == offload_device::nvme) return param.nvme_path;
    if (optimizer.device == offload_device::nvme) return optimizer.nvme_path;
    if (offload_activations != offload_device::nvme) return {};
    return optimizer.nvme_path.empty() ? param.nvme_path : optimizer.nvme_path;
  }
  [[nodiscard]] core::dtype parameter_dtype() const {
    if (data_types.reference_fp64) return core::dtype::f64;
    return bf16.enabled ? core::dtype::bf16 : fp16.enabled ? core::dtype::f16 : core::dtype::f32;
  }
  /// True if gradients that are not finite are normal: with fp16 they determine the loss scale.
  [[nodiscard]] bool expects_overflow() const { return fp16.enabled || (bf16.enabled && bf16.check_grad_overflow); }
  /// True if a gradient that is not finite skips the step; otherwise it ends the run.
  [[nodiscard]] bool skips_overflow() const { return expects_overflow() || on_spike.skips(); }
  [[nodiscard]] core::dtype communication_dtype() const { return communication_data_type.value_or(parameter_dtype()); }
  [[nodiscard]] core::dtype accumulation_dtype() const {
    return data_types.grad_accum_dtype.value_or(parameter_dtype());
  }
};

}  // namespace troupe::config
