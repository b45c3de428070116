// Owns the job files that the tests of config/ start from, and helpers to change them and to collect errors and
// warnings.
#pragma once

#include <string>

#include "config/load.hpp"

namespace troupe::config {

/// The smallest job file that can be loaded; lines from 9 on are free.
inline const std::string smallest =
    R"(model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}
data: {text: corpus.txt}
parallel: {data: 2}
seed: 1
steps: 100
train_micro_batch_size_per_gpu: 4
optimizer: {type: AdamW, params: {lr: 1.0e-3}}
zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0, stage3_max_reuse_distance: 0}
)";

/// Returns the smallest file with `piece` replaced by `instead`.
inline std::string smallest_with(const std::string& piece, const std::string& instead) {
  std::string text = smallest;
  return text.replace(text.find(piece), piece.size(), instead);
}

/// Returns all errors of a text, one per line, or an empty text if it can be loaded.
inline std::string errors_of(const std::string& text, const load_options& options = {},
                             const std::string& name = "j.yaml") {
  const auto l = load_text(text, name, "/base", options);
  return l ? std::string() : render(l.error());
}

/// Returns all warnings of a text that can be loaded, otherwise its errors.
inline std::string warnings_of(const std::string& text, const load_options& options = {},
                               const std::string& name = "j.yaml") {
  const auto l = load_text(text, name, "/base", options);
  return l ? render(l->warnings) : "does not load: " + render(l.error());
}

}  // namespace troupe::config
