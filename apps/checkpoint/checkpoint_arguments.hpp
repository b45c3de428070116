// What the checkpoint commands are told, who hears how far they are, and how each ends. Exit codes: 0 well; 1 differs,
// damaged or failed; 2 the arguments or what lies at PATH are refused; 130, 143 interrupted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"
#include "checkpoint/files/progress.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::apps {

struct source_arguments {  ///< of a command that reads a checkpoint
  std::string path;
  std::string tag;  ///< of several below `path`; empty: the one that `latest` names
  std::string map;  ///< a file of names for its tensors; empty: none
  bool fallback_to_previous = false;
  std::string older_by = "--fallback-to-previous";  ///< as source_options::older_by
  bool wants_weights = false;   ///< of a folder with weights beside checkpoints: weights alone, the most exact
  bool as_stored = false;       ///< shows or compares what is stored, codes that nothing decodes too
  bool allow_overflow = false;  ///< values that a narrower type does not hold are clamped
  std::vector<std::string> ignored_keys{};  ///< of config.json, read as if they were not there
  apps::verbosity verbosity = apps::verbosity::normal;
  /// Of a caller who is no terminal: told how far the work is, and ends it; empty: a line on the terminal, and Ctrl-C.
  checkpoint::progress_function progress{};
  /// Told what the user did not ask for and should know; empty: stderr, unless the user wants quiet.
  std::function<void(const std::string&)> note{};
};

struct output_arguments {  ///< of a command that writes
  std::string out;
  bool force = false;
};

/// Says `line` where `a` wants it.
void note(const source_arguments& a, const std::string& line);

/// Opens what `a` names; what was passed over is noted, or said on stderr even where the user wants quiet. States of an
/// optimizer that knows parameters by number get the names of the model's parameters, which `model_config`, or else the
/// checkpoint itself, says the order of; where it does not, or they do not fit, they are left out, which the source's
/// remarks say. `has_numbers`: set to true where there are such states, else the description is not read.
core::result<checkpoint::tensor_source> open_checkpoint_at(const source_arguments& a,
                                                           const std::filesystem::path& model_config = {},
                                                           bool* has_numbers = nullptr);

/// The error `e` of reading what `a` names, and how an older checkpoint is taken instead where one is damaged.
core::error with_way_around(core::error e, const source_arguments& a);

/// Notes what the checkpoint holds that no command takes over, a warning for each reason, or says it on stderr even
/// where the user wants quiet. For commands that do not show the source's remarks.
void warn_of_left_out(const source_arguments& a, const checkpoint::tensor_source& s);

/// The same of samples that the run has left out (`data.skip`, `on_spike`), for formats that are resumed from and
/// cannot say so.
void warn_of_lost_samples(const source_arguments& a, const checkpoint::tensor_source& s);

/// Says `e` on stderr and gives its exit code.
int ended_with(const core::error& e);
/// 0, or the same of the error.
int ended(const core::result<void>& r);

/// fp32, bf16, fp16 and their longer names. Refused with `option`.
core::result<core::dtype> dtype_from(const std::string& option, const std::string& text);

}  // namespace troupe::apps
