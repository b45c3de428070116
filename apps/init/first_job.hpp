// Makes a first job file from a few answers, from other files and from this machine's properties. The file is checked
// as by `config check` and planned as by `plan` before the user sees it. Leaves the questions to init_command.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

/// Answers of the user. make_first_job() chooses a value for each empty or 0 answer.
struct first_job_answers {
  std::string model;                      ///< size of the model, such as 10M, or a Hugging Face folder
  std::string text;                       ///< path of the text to train on
  std::string chat;                       ///< path of the conversations to train on, in place of a text
  std::string instruct;                   ///< path of prompts with answers to train on, in place of a text
  std::string labelled;                   ///< path of tokens with labels to train on, in place of a text
  std::string tokenizer;                  ///< tokenizer of the text: `bytes`, or a path
  std::vector<std::string> ignored_keys;  ///< keys of the model's config.json to ignore
  uint64_t steps = 0;
  uint64_t samples = 0;         ///< number of samples per step
  std::filesystem::path spill;  ///< folder for swap files with states that do not fit into memory
  std::filesystem::path from;   ///< path of a configuration of DeepSpeed or Accelerate, or of a checkpoint, to import
  std::filesystem::path file;   ///< path of the configuration file to write; paths in it are relative to its folder
};

struct machine_offer {  ///< processors and memory of this machine that a job may use
  uint32_t cores = 1;
  uint64_t memory_bytes = 0;
  std::string processor;
};
machine_offer look_at_machine();

/// Returns the names of the model sizes, the smallest first.
std::vector<std::string> model_sizes();

/// The data that an answer names: the key for them in a configuration file, and their path.
struct named_data {
  std::string_view key;
  std::string path;
};
/// Returns the data that the answers name; an empty path: none.
named_data data_of(const first_job_answers& a);

/// Sets the answer for data whose form is unknown: the form of `path` by its content.
void name_data(first_job_answers& a, const std::string& path);

/// Checks each answer that is not empty, independently of the others. Errors: bad_input.
core::result<void> check_answers(const first_job_answers& a);

/// Flags: true if the imported source determines the answer, so that the user is not asked for it.
struct source_says {
  bool model = false, text = false, tokenizer = false, steps = false, samples = false;
};
core::result<source_says> look_at_source(const std::filesystem::path& from,
                                         const std::vector<std::string>& ignored_keys = {});

struct first_job {
  std::string yaml;
  std::vector<std::string> remarks;  ///< lines to show to the user: choices that init has made, and their reasons
};
/// Makes the file. Errors are bad_input: an unusable answer, the errors of `config check`, a job whose states fit into
/// no memory tier.
core::result<first_job> make_first_job(const first_job_answers& a, const machine_offer& machine);

}  // namespace troupe::apps
