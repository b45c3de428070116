// Opens a checkpoint as `troupe checkpoint to-fp32` does, for Python, which reads its tensors one by one; and adds an
// adapter of PEFT to its base model. The source also has the rows of `to-fp32`, `to-hf` and `merge-adapter`
// (written_formats.hpp).
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "apps/checkpoint/written_formats.hpp"

namespace troupe::apps {

struct described_checkpoint;

struct weights_arguments : conversion_arguments {  ///< arguments of to-fp32, to-hf and merge-adapter
  std::string max_shard_size = "5GB";
  bool exclude_frozen = false;
  std::string dtype = "fp32";  ///< type of the written weights; only to-hf and merge-adapter use it
  std::string adapter{};       ///< folder of PEFT or GGUF file that merge-adapter adds; empty: none
};

/// Opens the checkpoint that to-fp32 converts, with the model's names for its tensors if they are known.
core::result<formats::tensor_source> open_for_fp32(const weights_arguments& a);

/// Adds the adapter in the folder or GGUF file `adapter` to the weights of `base`. Returns a warning if the adapter
/// names another folder of this machine as its base. Refused: what formats::merged_with() and the readers of adapters
/// refuse.
core::result<std::optional<std::string>> merge_adapter(const std::filesystem::path& adapter,
                                                       described_checkpoint& base);

}  // namespace troupe::apps
