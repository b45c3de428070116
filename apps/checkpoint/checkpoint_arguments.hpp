// Owns the arguments that the checkpoint commands share, their notes and progress, and their exit codes: 0 done; 1
// different, damaged or failed; 2 the arguments or the files at PATH are refused; 130, 143 interrupted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/progress.hpp"

namespace troupe::apps {

struct source_arguments {  ///< arguments of a command that reads a checkpoint
  std::string path;
  std::string tag;  ///< name of the checkpoint in the folder `path`; empty: the name in the file `latest`
  /// Path of a file that maps names of the checkpoint's tensors to other names; empty: names are unchanged
  std::string map;
  bool fallback_to_previous = false;
  /// Option that messages about a damaged checkpoint suggest, for source_options::older_by
  std::string older_by = "--fallback-to-previous";
  /// True: the command needs weights only. If the folder contains exported weights next to checkpoints, the exported
  /// weights are read, unless the weights in the checkpoints have a higher precision
  bool wants_weights = false;
  bool averaged = false;        ///< true: the averages of the weights (section ema) are read as the weights
  bool as_stored = false;       ///< true: tensors are read as they are stored, even with codes that cannot be decoded
  bool allow_overflow = false;  ///< true: values that a narrower type cannot represent are clamped
  std::vector<std::string> ignored_keys{};  ///< keys of the model's config.json to ignore
  apps::verbosity verbosity = apps::verbosity::normal;
  /// Function that receives the progress and can stop the work, for callers without a terminal; empty: the progress is
  /// shown on the terminal, and Ctrl-C stops the work
  storage::progress_function progress{};
  /// Function that receives notes about unexpected facts, such as an output head that the model ties to the embedding
  /// but whose stored values differ from the embedding's; empty: the notes are printed to stderr, unless the output is
  /// quiet
  std::function<void(const std::string&)> note{};
};

struct output_arguments {  ///< arguments of a command that writes
  std::string out;
  bool force = false;
};

/// Returns the function that receives lines which even --quiet does not suppress: `a.note`, or one that prints to
/// stderr.
std::function<void(const std::string&)> say_for(const source_arguments& a);

/// Passes `line` to `a.note`, or prints it to stderr unless `a` is quiet.
void note(const source_arguments& a, const std::string& line);

/// Reports the contents of the checkpoint that no command converts, one warning for each reason, through `a.note` or
/// on stderr, even if the output is quiet. Commands call it if they do not show the source's remarks.
void warn_of_left_out(const source_arguments& a, const formats::tensor_source& s);

/// Warns about samples that the run left out (`data.skip`, `on_spike`), through `a.note` or on stderr. Called for
/// formats from which a run can resume but which cannot record these samples.
void warn_of_lost_samples(const source_arguments& a, const formats::tensor_source& s);

/// Prints a warning about the checkpoint `s` through `a.note` or on stderr, even if the output is quiet.
void warn_about(const source_arguments& a, const formats::tensor_source& s, const std::string& line);

/// Prints `e` to stderr and returns its exit code.
int ended_with(const core::error& e);
/// Returns 0, or prints the error and returns its exit code.
int ended(const core::result<void>& r);

/// Returns the type named fp32, bf16, fp16, or by a longer name of these. The refusal of another name contains
/// `option`.
core::result<core::dtype> dtype_from(const std::string& option, const std::string& text);

}  // namespace troupe::apps
