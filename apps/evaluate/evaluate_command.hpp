// Owns the options of `troupe evaluate SOURCE`, which computes a trained model's loss over a text and its answers to
// multiple-choice questions. Leaves the work to evaluate.hpp, which only troupe-train has.
#pragma once

#include <cstdint>
#include <string>

#include "apps/base/output_form.hpp"
#include "apps/base/program_command.hpp"
#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "core/error.hpp"

namespace troupe::apps {

struct evaluate_arguments {
  source_arguments source;
  std::string text;          ///< path of the text over which the loss is computed; empty: none
  std::string choices;       ///< path of a file of questions (choice_file.hpp); empty: none
  std::string tokenizer;     ///< path of the tokenizer, or `bytes`; empty: the checkpoint's own
  std::string model_config;  ///< path of the model's config.json; empty: what the checkpoint says of its model
  uint64_t sequence = 0;     ///< tokens of a window; 0: what the model reads, at most default_window
  output_form form = output_form::text;
};

/// Largest number of tokens of a window, unless the user sets one.
inline constexpr uint64_t default_window = 1024;

class evaluate_command : public program_command {
 public:
  /// Adds `evaluate`; `parent` must outlive this object, which must not be moved.
  explicit evaluate_command(CLI::App& parent);

  [[nodiscard]] const evaluate_arguments& arguments() const { return arguments_; }
  /// Refuses a command line without a text and without questions, and options that would do nothing.
  [[nodiscard]] core::result<void> check() const;

 private:
  evaluate_arguments arguments_;
};

}  // namespace troupe::apps
