// The manifest of one of our checkpoints: its tensors, its files and the state of the run. Owns the types and their
// rules; manifest_text.hpp has the text form, which docs/formats.md describes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/files/tensor_list.hpp"
#include "checkpoint/native/data_record.hpp"
#include "checkpoint/native/mask_record.hpp"
#include "core/error.hpp"
#include "core/left_out_steps.hpp"

namespace troupe::checkpoint {

/// The newest that is read. What is written: 3 where the run left samples out, else 2 where a tensor is cut, else 1.
inline constexpr uint32_t manifest_version = 3;
inline constexpr uint64_t max_manifest_bytes = uint64_t{256} << 20;
inline constexpr size_t max_shard_files = 65'536;
inline constexpr size_t max_recent_losses = 10'000;
inline constexpr std::string_view manifest_file_name = "manifest.json";

struct shard_file {  ///< one data file of the folder
  std::string name;  ///< a plain name: letters, digits, '.', '_' and '-', no '.' in front
  uint64_t bytes = 0;
  bool operator==(const shard_file&) const = default;
};

/// Where dynamic loss scaling stands; the meaning is kernels/optimizer/loss_scaler.hpp's.
struct loss_scale_record {
  double cur_scale = 1;
  int64_t cur_iter = 0, last_overflow_iter = -1;
  uint32_t cur_hysteresis = 1;
  bool operator==(const loss_scale_record&) const = default;
};

/// The model that a run learns from, which its checkpoints do not hold.
struct teacher_record {
  std::string folder;
  digest128 digest;  ///< of its config.json and weights
  bool operator==(const teacher_record&) const = default;
};

/// The range that a layer's input had so far, where it is multiplied with few bits and one range for all tokens.
struct input_range {
  std::string layer;
  float least = 0, largest = 0;
  bool operator==(const input_range&) const = default;
};

struct run_state {                            ///< what a run needs to resume, apart from tensors
  uint64_t step = 0;                          ///< optimizer steps done, skipped ones too
  uint64_t applied_updates = 0;               ///< of these, those that changed parameters
  std::optional<uint64_t> schedule_position;  ///< updates that the schedule has counted; none: the applied ones
  std::optional<loss_scale_record> loss_scale;
  uint64_t data_position = 0;                ///< samples of the training order that were taken
  std::optional<uint64_t> samples_per_step;  ///< the global batch; none: not said
  uint64_t seed = 0;
  std::string config;                 ///< the job's file as it was read
  std::string model;                  ///< describes the model, as its builder wants it
  std::string client_state = "null";  ///< JSON of the host program, kept byte for byte
  /// Names of the parameters in the order in which the model registers them: formats that lay parameters end to end
  /// without names need it. Empty where unknown.
  std::vector<std::string> parameter_order;
  std::vector<mask_record> masks;         ///< of a run that prunes
  std::optional<teacher_record> teacher;  ///< none: it learns from data alone
  std::vector<input_range> input_ranges;
  std::optional<data_record> data;             ///< that data_position is a place in; none: not said
  std::vector<core::left_out_steps> left_out;  ///< in the order of decisions
  std::vector<double> recent_losses;           ///< that a step's loss is compared with (`on_spike`), the oldest first
  bool operator==(const run_state&) const = default;
};

struct manifest : tensor_list {    ///< one checkpoint
  digest128 save_id;               ///< random, one per save; stands in every shard file too
  uint64_t committed_unix_ns = 0;  ///< orders the commits of a folder, whatever their steps; 0: not said
  run_state run;
  std::vector<shard_file> files;
  bool operator==(const manifest&) const = default;
};

/// Checks what the types cannot express: limits, order, names, and that pieces are aligned, lie inside their file, do
/// not overlap and cover their tensor exactly, and cuts fit its shape. The error names the tensor.
core::result<void> check_manifest(const manifest& m);

}  // namespace troupe::checkpoint
