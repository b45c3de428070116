// Owns the arguments of `troupe compress`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/checkpoint/checkpoint_arguments.hpp"

namespace troupe::apps {

/// Value of `--validate` with which no loss is computed.
inline constexpr const char* no_validation = "none";

struct compress_arguments {
  source_arguments source;
  output_arguments output;
  std::string to, method = "rtn", dtype = "bf16", max_shard_size = "5GB", model_config;
  std::string embeddings;  ///< GGUF type of the embeddings; empty: the type of --to
  std::string tokenizer;   ///< path of the tokenizer, or `bytes`; empty: the checkpoint's own
  std::optional<uint64_t> group;
  bool asymmetric = false, clean = false;
  std::string calibrate;  ///< path of a text by which the method chooses the compressed weights; empty: none
  /// Path of the text over which the loss is computed, or no_validation; empty: the text that the checkpoint's run held
  /// out, else the last tenth of the calibration text
  std::string validate;
  /// Number of calibration windows, and number of tokens in each; sequence 0: the model's positions, at most 512
  uint64_t samples = 128, sequence = 0;
  std::string host_memory;  ///< limit of host memory, as the text of a size; empty: no limit

  /// True if the arguments require computing with the model.
  [[nodiscard]] bool computes() const {
    return !calibrate.empty() || (!validate.empty() && validate != no_validation) || method != "rtn";
  }
};

}  // namespace troupe::apps
