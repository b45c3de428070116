// The part of job_config with the input and output of a run: data, evaluation, checkpoints, telemetry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace troupe::config {

/// One of the texts from which samples are drawn, in proportion to its weight.
struct data_source {
  /// Absolute path of a file (text, compressed text, .jsonl, .bin ...) or of a folder of files.
  std::filesystem::path text;
  double weight = 1;
  /// Key or column of the text in the source's files; data_section::text_key if the source names none.
  std::string text_key;
  std::string form = "text";  ///< how the rows become samples: a name of core::sample_form
};

/// A text that is evaluated as a validation set of its own, and never trained on; its weight is not used.
struct validation_set : data_source {
  std::string name;
};

/// Steps whose samples are left out: the samples that these steps would use if only the earlier items of the list were
/// left out.
struct skipped_steps {
  std::string steps;             ///< a step or a range of steps as the configuration gives it, such as 900 or 812-820
  uint64_t first = 0, last = 0;  ///< first and last step of `steps`, counted from 1
};

/// Configuration section `data.masking`: the tokens that an encoder has to find.
struct masking_section {
  bool given = false;                     ///< true: a key of the section was given
  double probability = 0.15;              ///< probability with which a token of a text is chosen
  double mask = 0.8;                      ///< share of the chosen tokens that the mask token replaces
  double random = 0.1;                    ///< share of the chosen tokens that a random token replaces
  std::optional<uint64_t> mask_token_id;  ///< nullopt: the tokenizer's, or config.json's
};

struct data_section {          ///< configuration section `data`
  std::filesystem::path text;  ///< key `text`, the short form of one source; empty if another key gives the sources
  /// Keys `chat`, `instruct` and `labelled`: short forms of one source whose samples are more than a text.
  std::filesystem::path chat, instruct, labelled;
  /// Sources of samples; after load at least one, which may come from one of the short forms.
  std::vector<data_source> sources;
  std::string text_key = "text";    ///< the key of a JSON line that holds its text
  std::string tokenizer = "bytes";  ///< `bytes`, or the path of a tokenizer as the configuration gives it
  /// False: files of tokens may be of any tokenizer, and the bytes of texts are their tokens.
  bool tokenizer_given = false;
  std::filesystem::path tokenizer_path;  ///< path of the tokenizer, absolute; empty for `bytes`
  /// The chat template: empty for the tokenizer's own, the name of one of them, the absolute path of a .jinja file, or
  /// `joined` for prompts and completions without a template.
  std::string chat_template;
  std::string chat_date;              ///< date that a chat template writes, such as 2026-01-31; empty: none
  std::string loss_on = "assistant";  ///< tokens of conversations that count: a name of core::loss_part
  std::string too_long = "refuse";    ///< treatment of samples longer than a row: a name of core::long_sample
  std::string packing = "best_fit";   ///< how samples become rows: a name of core::sample_packing
  bool shuffle = true;                ///< false: every epoch has the samples in the order of their source
  /// True: attention does not cross the borders of documents, and positions are counted from a document's start.
  bool document_mask = false;
  masking_section masking;
  core::dtype bin_dtype = core::dtype::i16;  ///< type of tokens in .bin files: i16 = uint16, i32 = uint32
  uint64_t max_bytes = uint64_t{16} << 30;
  uint64_t sequence_length = 0;  ///< number of tokens of a sample; 0: the model's n_positions
  double validation_fraction = 0;
  std::vector<validation_set> validation;  ///< key `validation`: validation sets, in the order of the configuration
  uint64_t prefetch_batches = 4;
  /// Global batch of the first step, number of samples by which it grows at a time, and the sample from which on steps
  /// have train_batch_size samples; empty: every step has.
  std::vector<uint64_t> rampup_batch_size;
  std::vector<skipped_steps> skip;

  /// True if a part of the data is evaluated.
  [[nodiscard]] bool has_validation() const { return validation_fraction > 0 || !validation.empty(); }
  /// True if `sources` comes from one of the short forms.
  [[nodiscard]] bool has_short_form() const {
    return !text.empty() || !chat.empty() || !instruct.empty() || !labelled.empty();
  }
};

/// True if some source of `data` has one of the forms `first` and `second`.
inline bool has_form(const data_section& data, std::string_view first, std::string_view second = {}) {
  return std::ranges::any_of(data.sources,
                             [&](const data_source& one) { return one.form == first || one.form == second; });
}

/// True if some source or validation set of `data` has one of the forms `first` and `second`.
inline bool has_any_form(const data_section& data, std::string_view first, std::string_view second = {}) {
  return has_form(data, first, second) || std::ranges::any_of(data.validation, [&](const validation_set& one) {
           return one.form == first || one.form == second;
         });
}

enum class spike_action : uint8_t { none, skip, stop };  ///< reaction to a spike of the loss: `on_spike.action`

struct on_spike_section {  ///< configuration section `on_spike`
  spike_action action = spike_action::none;
  double factor = 3;        ///< a loss above this multiple of the median of the latest losses is a spike
  uint64_t window = 100;    ///< number of latest losses whose median is compared with a loss
  uint64_t min_steps = 20;  ///< number of losses that must be recorded before a loss can count as a spike
  /// Minimum distance in steps from the saved state that the run restores to the end of the step with the spike.
  uint64_t back_steps = 1;
  uint64_t ahead_steps = 0;  ///< number of steps after the step with the spike whose samples are left out as well
  /// Number of times that a run goes back to a saved state after a spike; the next spike ends the run.
  uint64_t times_max = 10;
  [[nodiscard]] bool skips() const { return action == spike_action::skip; }
};

struct checkpoint_load_section {  ///< section `checkpoint.load`
  /// Absolute path of the checkpoint from which a run without checkpoints of its own starts; empty: starts untrained.
  std::filesystem::path path;
  std::string tag;           ///< name of the checkpoint within `path`; empty: the newest checkpoint in `path`
  bool module_only = false;  ///< true: only weights are loaded, and the run begins at step 0
  bool optimizer_states = true;
  bool lr_scheduler_states = true;
  /// False: parameters that the checkpoint lacks keep their initial values, and additional ones are ignored; true: both
  /// are errors.
  bool strict = true;
  bool fallback_to_previous = false;  ///< true: if the newest checkpoint is damaged, the newest intact one is loaded
  /// True: a checkpoint of a run with another global batch (or seed) may be resumed; training continues at the sample
  /// after the last one that was used.
  bool changed_batch = false, changed_seed = false;
  /// True: a checkpoint of a run with other data may be resumed; training continues at the same position in the order
  /// of the current data.
  bool changed_data = false;
};

struct checkpoint_memory_section {  ///< configuration section `checkpoint.memory`
  /// Steps between saves in memory; 0: none; 1 after load if it is not given and the job has processes.
  uint64_t every_steps = 0;
  uint32_t copies = 2;  ///< number of processes in whose memory each save is kept
};

/// Reaction to processes of a job that have different names for the same checkpoint.
enum class tag_policy : uint8_t { ignore, warn, fail };

/// Least value of `checkpoint.staging_bytes`.
inline constexpr uint64_t staging_bytes_min = 64 << 10;

struct checkpoint_section {  ///< configuration section `checkpoint`
  enum class error_policy : uint8_t { go_on, stop };
  enum class busy_policy : uint8_t { wait, skip };
  /// Which of the ranks that hold the same elements write them into a checkpoint: all of them, each a part; one for
  /// each CPU socket; or one for each machine. `of_replica` has the effect of `every_rank`.
  enum class writers : uint8_t { every_rank, of_replica, of_socket, of_machine };

  uint64_t every_steps = 0;  ///< number of steps between checkpoints; 0: steps trigger none
  double every_minutes = 0;  ///< minutes between checkpoints; 0: time triggers none
  uint64_t keep_last = 0;    ///< number of newest checkpoints that are kept; 0: all
  uint64_t keep_every = 0;   ///< checkpoints of steps that are multiples of this number are always kept; 0: no rule
  bool asynchronous = true;
  /// Bytes of memory of each rank in which states are staged on their way to a checkpoint.
  uint64_t staging_bytes = uint64_t{64} << 20;
  bool staging_bytes_given = false;
  writers writing = writers::every_rank;
  error_policy on_error = error_policy::go_on;  ///< reaction to a checkpoint that cannot be written
  busy_policy when_busy = busy_policy::wait;    ///< reaction to a checkpoint that is due while another is being written
  /// Seconds for which the end of a run retries to write a last checkpoint that cannot be written.
  double retry_for_s = 30;
  bool exclude_frozen_parameters = false;
  /// Name of a checkpoint's folder, in which `{step}` is replaced by the step; empty: the default name.
  std::string tag;
  tag_policy tag_validation = tag_policy::warn;
  bool use_node_local_storage = false;  ///< true: each machine stores the files of its ranks on its own disk
  checkpoint_load_section load;
  checkpoint_memory_section memory;

  /// True if the run saves checkpoints by itself.
  [[nodiscard]] bool is_on() const { return every_steps > 0 || every_minutes > 0; }
  /// Returns the tag of the checkpoint of `step`; empty: the default name.
  [[nodiscard]] std::string tag_of(uint64_t step) const;
};

struct evaluation_section {  ///< configuration section `evaluation`
  uint64_t every_steps = 0;  ///< steps between evaluations; 0: only at the end, if there is a validation set
  uint64_t batches = 0;      ///< number of batches of an evaluation of each validation set; 0: the whole set
};

struct telemetry_section {  ///< configuration section `telemetry`
  bool trace = true;
  uint64_t trace_from_step = 2, trace_steps = 3;
  bool json_lines = false;
  bool report = true;

  /// True if a run of `steps` steps writes a trace; 0: a run whose number of steps is unknown.
  [[nodiscard]] bool traces(uint64_t steps) const {
    return trace && trace_steps > 0 && (steps == 0 || trace_from_step < steps);
  }
};

/// Settings of the sections `tensorboard` and `csv_monitor`, which write curves to files.
struct monitor_section {
  bool enabled = false;
  std::filesystem::path output_path;  ///< folder of the curves, absolute; empty: the run's output folder
  std::string job_name = "DeepSpeedJobName";
};

struct mlflow_section {  ///< configuration section `mlflow`
  bool enabled = false;
  /// Folder in which the store `mlruns` is, absolute; empty: the run's output folder.
  std::filesystem::path output_path;
  std::string experiment = "Default";
  std::string run_name;  ///< empty: the name of the configuration file
};

struct wandb_section {  ///< configuration section `wandb`
  bool enabled = false;
  std::string group, team;  ///< empty: none
  std::string project = "deepspeed";
};

struct comms_logger_section {  ///< configuration section `comms_logger`
  bool enabled = false, verbose = false, prof_all = true, debug = false;
  std::vector<std::string> prof_ops;  ///< names of the collective operations that are logged if prof_all is false
};

struct flops_profiler_section {  ///< configuration section `flops_profiler`
  bool enabled = false;
  uint64_t profile_step = 1;
  double recompute_fwd_factor = 0.0;
  int64_t module_depth = -1;  ///< number of levels of modules in the profile; -1: all
  uint64_t top_modules = 1;
  bool detailed = true;
  std::filesystem::path output_file;  ///< file of the profile, absolute; empty: the log
};

struct sample_section {  ///< configuration section `sample`
  uint64_t tokens = 0;   ///< number of tokens generated at the end of the run; 0: none
  std::string prompt = "The ";
  std::string question;  ///< question of a user that the model answers, in place of the prompt; empty: none
  double temperature = 0.8;
};

}  // namespace troupe::config
