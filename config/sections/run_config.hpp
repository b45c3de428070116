// The part of job_config that says what a run reads and what it tells of itself: data, evaluation, telemetry.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/dtype.hpp"

namespace troupe::config {

/// One of the texts that samples are drawn from, in proportion to its weight.
struct data_source {
  std::filesystem::path text;  ///< file, .gz/.dz, .jsonl, .bin or folder; absolute
  double weight = 1;
  std::string text_key;  ///< data_section::text_key where the source names none
};

/// Steps whose samples are left out: those that they would have taken without what stands before them in the list.
struct skipped_steps {
  std::string steps;             ///< as it was given: 812-820, 900
  uint64_t first = 0, last = 0;  ///< the same, from 1
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
  std::vector<skipped_steps> skip;
};

enum class spike_action : uint8_t { none, skip, stop };  ///< `on_spike.action`

struct on_spike_section {  ///< `on_spike`
  spike_action action = spike_action::none;
  double factor = 3;         ///< of the median of the last losses
  uint64_t window = 100;     ///< of them
  uint64_t min_steps = 20;   ///< losses that are there before one is compared
  uint64_t back_steps = 1;   ///< of a saved state, at least so many before the spike's end
  uint64_t ahead_steps = 0;  ///< steps behind the spike that are left out as well
  uint64_t times_max = 10;   ///< that a run goes back
  [[nodiscard]] bool skips() const { return action == spike_action::skip; }
};

struct checkpoint_load_section {  ///< `checkpoint.load`
  std::filesystem::path path;     ///< where a run without checkpoints of its own begins; absolute; empty: at step 0
  std::string tag;                ///< the checkpoint within `path`; empty: the newest that is named there
  bool module_only = false;       ///< weights only: the run begins at step 0
  bool optimizer_states = true;
  bool lr_scheduler_states = true;
  bool strict = true;                 ///< false: parameters that `path` lacks keep their first values
  bool fallback_to_previous = false;  ///< where the newest is damaged, the newest that is whole
  /// A run of another global batch or seed is gone on with, at the sample where it was.
  bool changed_batch = false, changed_seed = false;
  bool changed_data = false;  ///< likewise one of other data, in the order of those of now
};

struct checkpoint_memory_section {  ///< `checkpoint.memory`
  uint64_t every_steps = 0;         ///< 0: none; after load 1 where it is not given and there are processes
  uint32_t copies = 2;              ///< of each, in as many processes
};

enum class tag_policy : uint8_t { ignore, warn, fail };  ///< of a process that names a checkpoint otherwise

/// Of `checkpoint.staging_bytes`.
inline constexpr uint64_t staging_bytes_min = 64 << 10;

struct checkpoint_section {  ///< `checkpoint`
  enum class error_policy : uint8_t { go_on, stop };
  enum class busy_policy : uint8_t { wait, skip };
  /// Of ranks that hold the same elements; a replica each is what every rank does by itself.
  enum class writers : uint8_t { every_rank, of_replica, of_socket, of_machine };

  uint64_t every_steps = 0;  ///< 0: none
  double every_minutes = 0;  ///< 0: none
  uint64_t keep_last = 0;    ///< 0: all
  uint64_t keep_every = 0;   ///< 0: none stays beyond those
  bool asynchronous = true;
  uint64_t staging_bytes = uint64_t{64} << 20;  ///< of a rank
  bool staging_bytes_given = false;
  writers writing = writers::every_rank;
  error_policy on_error = error_policy::go_on;  ///< of a checkpoint that cannot be written
  busy_policy when_busy = busy_policy::wait;    ///< of one that is due while another is being written
  double retry_for_s = 30;                      ///< at the end of a run, of its last one that cannot be written
  bool exclude_frozen_parameters = false;
  std::string tag;  ///< names of folders instead of the steps' own, `{step}` in it is the step; empty: those
  tag_policy tag_validation = tag_policy::warn;
  bool use_node_local_storage = false;  ///< each machine has files of its own ranks on a disk of its own
  checkpoint_load_section load;
  checkpoint_memory_section memory;

  /// Whether the run writes any by itself.
  [[nodiscard]] bool is_on() const { return every_steps > 0 || every_minutes > 0; }
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

}  // namespace troupe::config
