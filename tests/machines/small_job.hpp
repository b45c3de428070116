// Creates the job file of a job that trains a small model on three hosts, as a user would write it.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "tests/machines/job_on_hosts.hpp"
#include "tests/made_up_text.hpp"
#include "tests/places.hpp"

namespace troupe::tests {

struct small_job {
  uint32_t data = 3, steps = 100, batch = 6;
  std::string hosts = "[{name: a}, {name: b}, {name: c}]";
  std::string lost_after = "20s";
};

/// Writes the job file and its text, corpus.txt, into `folder`, and returns the command that starts the job.
inline command_of_job written(const small_job& x, const scratch_folder& folder) {
  std::ofstream(folder / "corpus.txt") << made_up_text(60'000);
  std::ofstream(folder / "job.yaml")
      << "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
         "data: {text: corpus.txt}\n"
         "seed: 1\n"
         "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
         "zero_optimization: {stage: 2}\n"
         "telemetry: {report: false}\n"
      << fmt::format("parallel: {{data: {}}}\nsteps: {}\ntrain_batch_size: {}\n", x.data, x.steps, x.batch)
      << fmt::format("cluster: {{hosts: {}, lost_after: {}}}\n", x.hosts, x.lost_after);
  return {troupe::places::troupe_binary, (folder / "job.yaml").string(), {}};
}

}  // namespace troupe::tests
