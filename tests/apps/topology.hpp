// Provides the job files and folders for tests of the command line, and runs `troupe` in them.
#pragma once

#include <boost/test/unit_test.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"
#include "tests/check_ok.hpp"
#include "tests/made_up_text.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::tests {

/// The smallest job file of the README, but with a text file of the test.
inline const std::string smallest =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
    "data: {text: corpus.txt}\n"
    "parallel: {data: 2}\n"
    "seed: 1\n"
    "steps: 6\n"
    "train_micro_batch_size_per_gpu: 4\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0, stage3_max_reuse_distance: 0}\n"
    "output: out\n";

inline std::string replaced(std::string text, const std::string& piece, const std::string& instead) {
  const auto at = text.find(piece);
  if (at == std::string::npos) throw std::runtime_error("no '" + piece + "' in the topology");
  return text.replace(at, piece.size(), instead);
}

/// Owns a folder with corpus.txt and job.yaml, and runs `troupe` in it.
struct command_folder {
  scratch_folder folder;

  explicit command_folder(const std::string& yaml = smallest) {
    folder.write("corpus.txt", made_up_text(20000));
    folder.write("job.yaml", yaml);
  }

  finished troupe(const std::vector<std::string>& arguments, const std::function<void()>& prepare = {}) const {
    std::vector<std::string> command{troupe::places::troupe_binary};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, folder.path(), prepare);
  }
};

/// Returns the number of lines in `err`, not counting the progress lines printed while a run starts (they end with "
/// s"), which appear only on a busy machine.
inline size_t sentences_of(const std::string& err) {
  size_t out = 0;
  std::istringstream lines(err);
  for (std::string line; std::getline(lines, line);) out += line.ends_with(" s") ? 0 : 1;
  return out;
}

inline size_t lines_of(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace troupe::tests
