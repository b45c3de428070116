// A file to begin with, from few answers, from what other files say and from what this machine has. It is checked as
// `config check` checks it and planned as `plan` plans it before anybody sees it. Leaves asking to init_command.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

struct first_job_answers {                ///< what is empty or 0 is chosen
  std::string model;                      ///< a size such as 10M, or a Hugging Face folder
  std::string text;                       ///< what to train on
  std::string tokenizer;                  ///< bytes, or a path
  std::vector<std::string> ignored_keys;  ///< of the model's config.json, read as if they were not there
  uint64_t steps = 0;
  uint64_t samples = 0;         ///< of a step
  std::filesystem::path spill;  ///< the folder for states that do not fit into memory
  std::filesystem::path from;   ///< ds_config.json, or a checkpoint
  std::filesystem::path file;   ///< that is going to be written: paths are relative to its folder
};

struct machine_offer {  ///< what a job may take
  uint32_t cores = 1, gpus = 0;
  uint64_t memory_bytes = 0;
  std::string processor;
};
machine_offer look_at_machine();

/// Names of the sizes that a model may be given as, the smallest first.
std::vector<std::string> model_sizes();

/// Whether the answers that are there so far will do, each by itself. Errors are bad_input.
core::result<void> check_answers(const first_job_answers& a);

/// What a source says by itself, so that nobody need be asked for it.
struct source_says {
  bool model = false, text = false, tokenizer = false, steps = false, samples = false;
};
core::result<source_says> look_at_source(const std::filesystem::path& from,
                                         const std::vector<std::string>& ignored_keys = {});

struct first_job {
  std::string yaml;
  std::vector<std::string> remarks;  ///< for people: what was chosen and why
};
/// Errors are bad_input: an answer that will not do, what `config check` says, a job that fits on no tier.
core::result<first_job> make_first_job(const first_job_answers& a, const machine_offer& machine);

}  // namespace troupe::apps
