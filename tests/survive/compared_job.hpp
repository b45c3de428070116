// The job of tests that compare many processes with one, and what it saves.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "tests/scratch_folder.hpp"

namespace troupe::tests {

/// A job that saves, evaluates and samples, so that runs can be compared in all of it.
inline const std::string compared_job =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 32, vocab_size: 256}\n"
    "data: {text: corpus.txt, validation_fraction: 0.1}\n"
    "seed: 1\n"
    "steps: 6\n"
    "train_batch_size: 12\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "telemetry: {json_lines: true, report: false}\n"
    "checkpoint: {every_steps: 3}\n"
    "evaluation: {every_steps: 4, batches: 2}\n"
    "sample: {prompt: the, tokens: 6}\n";

/// Returns the content of a checkpoint's files, except their first page, which contains a random number.
inline std::map<std::string, std::string> saved_in(const std::filesystem::path& output) {
  constexpr size_t page = 4096;
  std::map<std::string, std::string> out;
  for (const auto& step : std::filesystem::directory_iterator(output / "checkpoints"))
    if (step.is_directory())
      for (const auto& file : std::filesystem::directory_iterator(step)) {
        if (file.path().extension() == ".json") continue;
        const auto all = scratch_folder::read(file);
        out[(step.path().filename() / file.path().filename()).string()] = all.substr(std::min(page, all.size()));
      }
  return out;
}

}  // namespace troupe::tests
