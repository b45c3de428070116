// The part of job_config with the pipeline: how its ranks divide a model into stages, and in which order they compute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::config {

/// When a run saves a profile of its units' times in its folder. `automatic`: if the model is divided into pipeline
/// stages and the folder has no profile of it. Dividing a model and searching a schedule use an existing profile,
/// except with `never`.
enum class profile_choice : uint8_t { automatic, always, never };

struct pipeline_section {               ///< section `pipeline`: how `parallel.pipeline` ranks share the model
  /// Name of a schedule, `search`, or the path of a .csv file with a schedule as the configuration gives it.
  std::string schedule = "1f1b";
  std::filesystem::path schedule_file;  ///< absolute path of the schedule's file; empty if `schedule` is a name
  uint32_t chunks = 0;                  ///< number of stages of each rank; 0: as many as the schedule requires, else 1
  /// How the model is divided into stages: best, uniform, parameters or type:REGEX; empty if first_units is given.
  std::string partition = "best";
  /// [stage]: index of its first unit, if the configuration lists the stages; else empty.
  std::vector<uint32_t> first_units;
  /// True: a schedule may change the order of micro-batches, which changes the rounding of gradient sums.
  bool any_order = false;
  uint64_t memory_limit = 0;            ///< limit of a rank's stored activations in bytes; 0: no limit
  uint32_t in_flight_limit = 0;         ///< limit of the micro-batches whose activations a rank stores; 0: no limit
  profile_choice profile = profile_choice::automatic;
  uint32_t checkpoint_interval = 0;  ///< key: activation_checkpoint_interval; above 0: every unit is recomputed
  /// True if the model is divided into several stages, for `ranks` pipeline ranks.
  [[nodiscard]] bool cuts(uint32_t ranks) const { return ranks > 1 || chunks > 1; }
};

}  // namespace troupe::config
