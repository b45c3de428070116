// Records of the run that wrote a checkpoint: the loss scale, a teacher, ranges of inputs, changes of optimizer groups.
// Owns the values; leaves masks to mask_record.hpp and the training data to data_record.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "storage/files/digest.hpp"

namespace troupe::formats {

/// The state of dynamic loss scaling; kernels/optimizer/loss_scaler.hpp defines the fields.
struct loss_scale_record {
  double cur_scale = 1;
  int64_t cur_iter = 0, last_overflow_iter = -1;
  uint32_t cur_hysteresis = 1;
  bool operator==(const loss_scale_record&) const = default;
};

/// The teacher model that a run distils from; checkpoints do not contain it.
struct teacher_record {
  std::string folder;
  storage::digest128 digest;  ///< digest of the teacher's config.json and weights
  bool operator==(const teacher_record&) const = default;
};

/// Smallest and largest input of a layer so far, for layers that quantise their inputs with one range for all tokens.
struct input_range {
  std::string layer;
  float least = 0, largest = 0;
  bool operator==(const input_range&) const = default;
};

/// Values of an optimizer group that the host program has set in place of the configuration's; none: not set.
struct group_change {
  std::string group;  ///< name of the group (job::optimizer_group::name)
  std::optional<double> learning_rate, weight_decay;
  bool operator==(const group_change&) const = default;
};

}  // namespace troupe::formats
