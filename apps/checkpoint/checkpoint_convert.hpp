// Opens a checkpoint as `troupe checkpoint to-fp32` does, for Python, which reads its tensors one by one. The source
// also has the rows of `to-fp32` and `to-hf` (written_formats.hpp).
#pragma once

#include <string>

#include "apps/checkpoint/written_formats.hpp"

namespace troupe::apps {

struct weights_arguments : conversion_arguments {  ///< arguments of to-fp32 and to-hf
  std::string max_shard_size = "5GB";
  bool exclude_frozen = false;
  std::string dtype = "fp32";  ///< type of the written weights; only to-hf uses it
};

/// Opens the checkpoint that to-fp32 converts, with the model's names for its tensors if they are known.
core::result<formats::tensor_source> open_for_fp32(const weights_arguments& a);

}  // namespace troupe::apps
