// Owns `troupe train`: reads the configuration file, opens a session and shows its progress. Leaves the work to the
// session.
#pragma once

#include <optional>
#include <string>

#include "apps/base/configuration.hpp"

namespace troupe::apps {

struct train_arguments : common_arguments {
  std::optional<uint64_t> steps;
  output_form form = output_form::text;
  apps::verbosity verbosity = apps::verbosity::normal;
  std::string export_folder;  ///< Hugging Face folder for the trained weights; empty: none
  bool fresh = false;         ///< true: the run's own checkpoints are not used
  std::string tag;            ///< name of the checkpoint within the folder `resume`
  std::string degrees;        ///< data-parallel degrees by step (job/degree_changes.hpp); empty: the configured degree
  std::string map;      ///< path of a file of names for the tensors of `resume`
  bool load_module_only = false, no_load_optimizer_states = false, no_load_lr_scheduler_states = false;
  bool no_load_strict = false, fallback_to_previous = false;
  bool dequantise = false;  ///< true: the run may begin with compressed weights
  /// True: the batch size, the seed or the data may differ from those of the run that is resumed.
  bool changed_batch = false, changed_seed = false, changed_data = false;
};

/// Environment variable of a process whose host took over the lead: steps of this run have been done, so its own newest
/// checkpoint takes precedence over `--fresh` and `--resume`.
inline constexpr const char* continues_variable = "TROUPE_CONTINUES";

/// Runs the command. Exit codes: 0 done; 1 the run failed, or its output was not accepted; 2 bad input; 3 the last
/// checkpoint or the export could not be written; 128 + number if a signal ended it (130: Ctrl-C, 143: SIGTERM), after
/// a checkpoint if the run writes any and the signal came once.
int train(const train_arguments& a);

}  // namespace troupe::apps
