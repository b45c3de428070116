// `troupe train` and `troupe plan`: read the file, open a session, show what happens. The session does the work.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace troupe::apps {

struct common_arguments {
  std::string file;
  std::vector<std::string> set;  ///< key=value
  bool strict = false;
};

struct train_arguments : common_arguments {
  std::optional<uint64_t> steps;
  bool json = false, quiet = false;
  std::string export_folder;  ///< Hugging Face folder of the trained weights; empty: none
  std::string resume;         ///< where to go on from, before the run's own checkpoints; empty: those
  bool fresh = false;         ///< not from the run's own checkpoints
  std::string tag;            ///< of `resume`
  std::string map;            ///< a file of names for the tensors of `resume`
  bool load_module_only = false, no_load_optimizer_states = false, no_load_lr_scheduler_states = false;
  bool no_load_strict = false, fallback_to_previous = false;
  bool changed_batch = false, changed_seed = false;  ///< against the run that is gone on with
};

struct plan_arguments : common_arguments {
  std::string format = "summary";  ///< summary, table, perfetto, dot
  std::string trace_file;          ///< Perfetto JSON of the predicted step; empty: none
  uint32_t rank = 0;               ///< of table and dot
  bool saving = false;             ///< the step in which a checkpoint is taken
  bool fit = false;                ///< the cheapest tiers that fit, in place of a format
  uint64_t memory_bytes = 0;       ///< of all ranks, activations included, that `fit` may use; 0: no limit
  bool measure = false;            ///< this machine's rates first, as a run does
  double disk_read_gb_per_s = 0, disk_write_gb_per_s = 0;  ///< 10^9 bytes; 0: as measured once
  bool estimate = false;  ///< rules of thumb beside the plan's own peak, in place of a format
};

/// Exit codes: 0 well, 1 the run failed, 2 bad input, 130 interrupted twice, 143 ended by SIGTERM, after a
/// checkpoint where the run writes any.
int train(const train_arguments& a);
int show_plan(const plan_arguments& a);

}  // namespace troupe::apps
