// Files that the tests of config/ start from.
#pragma once

#include <string>

namespace troupe::config {

/// The smallest file that trains; tests append to it or replace a line.
inline const std::string smallest = R"(model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}
data: {text: corpus.txt}
parallel: {data: 2}
seed: 1
steps: 100
train_micro_batch_size_per_gpu: 4
optimizer: {type: AdamW, params: {lr: 1.0e-3}}
zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0, stage3_max_reuse_distance: 0}
)";

}  // namespace troupe::config
