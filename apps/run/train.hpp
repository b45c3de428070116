// `troupe train`: read the file, open a session, show what happens. The session does the work.
#pragma once

#include <optional>
#include <string>

#include "apps/base/configuration.hpp"

namespace troupe::apps {

struct train_arguments : common_arguments {
  std::optional<uint64_t> steps;
  output_form form = output_form::text;
  apps::verbosity verbosity = apps::verbosity::normal;
  std::string export_folder;  ///< Hugging Face folder of the trained weights; empty: none
  std::string resume;         ///< where to resume from, before the run's own checkpoints; empty: those
  bool fresh = false;         ///< not from the run's own checkpoints
  std::string tag;            ///< of `resume`
  std::string degrees;        ///< data degrees by step (job/degree_changes.hpp); empty: the file's
  std::string map;            ///< a file of names for the tensors of `resume`
  bool load_module_only = false, no_load_optimizer_states = false, no_load_lr_scheduler_states = false;
  bool no_load_strict = false, fallback_to_previous = false;
  bool dequantise = false;  ///< compressed weights may be what it begins with
  /// Compared with the run that is resumed.
  bool changed_batch = false, changed_seed = false, changed_data = false;
};

/// Of a process whose host took the first host's part: steps of this run have been done, so that its own newest
/// checkpoint counts before `--fresh` and `--resume`.
inline constexpr const char* continues_variable = "TROUPE_CONTINUES";

/// Exit codes: 0 well; 1 the run failed, or its output was not taken; 2 bad input; 128 + number where a signal ended it
/// (130: Ctrl-C, 143: SIGTERM), after a checkpoint where the run writes any and the signal came once.
int train(const train_arguments& a);

}  // namespace troupe::apps
