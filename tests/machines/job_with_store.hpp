// Creates the job file of a job on three hosts that uses an etcd.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace troupe::tests {

/// Returns the content of the job file. `lost_after_s` is the value of `cluster.lost_after` in whole seconds, which is
/// also the duration of the lease.
inline std::string job_with_store(uint32_t steps, const std::string& store, uint32_t lost_after_s = 2) {
  return fmt::format(
      "model: {{model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}}\n"
      "data: {{text: corpus.txt}}\n"
      "parallel: {{data: 3}}\n"
      "seed: 1\n"
      "steps: {}\n"
      "train_batch_size: 24\n"
      "optimizer: {{type: AdamW, params: {{lr: 1.0e-3}}}}\n"
      "zero_optimization: {{stage: 2}}\n"
      "checkpoint: {{every_steps: 20}}\n"
      "telemetry: {{report: false}}\n"
      "cluster:\n"
      "  hosts: [{{name: a}}, {{name: b}}, {{name: c}}]\n"
      "  job: english\n"
      "  store: {}\n"
      "  lost_after: {}s\n",
      steps, store, lost_after_s);
}

}  // namespace troupe::tests
