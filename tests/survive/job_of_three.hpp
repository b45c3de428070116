// The job that tests kill and stop processes of.
#pragma once

#include <string>
#include <vector>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/survive/job_of_processes.hpp"

namespace troupe::tests {

/// A job of three processes with a rank each.
inline const std::string job_of_three =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 32, vocab_size: 256}\n"
    "data: {text: corpus.txt}\n"
    "parallel: {data: 3}\n"
    "seed: 1\n"
    "steps: 70\n"
    "train_batch_size: 12\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "zero_optimization: {stage: 2}\n"
    "telemetry: {json_lines: true, report: false}\n"
    "cluster: {processes: ranks, lost_after: 1s, restarts: {backoff: 100ms}}\n";

/// Returns the command that trains it into the folder `output`.
inline std::vector<std::string> train_command(const std::string& output, const std::vector<std::string>& more) {
  std::vector<std::string> out{places::troupe_binary, "train", "job.yaml", "--json", "--set", "output=" + output};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// A job that runs until it is stopped, because a test on a busy machine may be late to kill a process. A lost process
/// comes back long after the next term has begun, and only killed processes count as lost.
inline const std::string endless_job =
    replaced(replaced(job_of_three, "steps: 70", "steps: 1000000"), "lost_after: 1s, restarts: {backoff: 100ms}",
             "lost_after: 20s, restarts: {backoff: 30s}");

}  // namespace troupe::tests
