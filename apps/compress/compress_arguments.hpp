// What `troupe compress` is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/checkpoint/checkpoint_arguments.hpp"

namespace troupe::apps {

/// Of `--validate`: no loss is wanted.
inline constexpr const char* no_validation = "none";

struct compress_arguments {
  source_arguments source;
  output_arguments output;
  std::string to, method = "rtn", dtype = "bf16", max_shard_size = "5GB", model_config;
  std::string embeddings;  ///< a GGUF type; empty: as --to has it
  std::string tokenizer;   ///< a path or `bytes`; empty: what the checkpoint has
  std::optional<uint64_t> group;
  bool asymmetric = false, clean = false;
  std::string calibrate;                 ///< a text; empty: none
  std::string validate;                  ///< a text, or no_validation; empty: what there is
  uint64_t samples = 128, sequence = 0;  ///< of calibration; a sequence of 0: as the model reads, at most 512
  std::string host_memory;               ///< a size; empty: no limit

  /// Whether something has to be computed with the model.
  [[nodiscard]] bool computes() const {
    return !calibrate.empty() || (!validate.empty() && validate != no_validation) || method != "rtn";
  }
};

}  // namespace troupe::apps
