// The part of job_config with the pipeline: how its ranks share a model, and in which order they compute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::config {

/// When a run saves a profile of its units' times in its folder. `automatic`: if the model is cut and the folder has no
/// profile of it. A cut or a search uses an existing profile, except with `never`.
enum class profile_choice : uint8_t { automatic, always, never };

struct pipeline_section {               ///< section `pipeline`: how `parallel.pipeline` ranks share the model
  std::string schedule = "1f1b";        ///< a name, `search`, or the path of a .csv file as given
  std::filesystem::path schedule_file;  ///< absolute; empty if the schedule is not a file
  uint32_t chunks = 0;                  ///< number of stages of each rank; 0: as many as the schedule requires, else 1
  std::string partition = "best";       ///< best, uniform, parameters or type:REGEX; empty if first_units is given
  std::vector<uint32_t> first_units;    ///< [stage]: its first unit, if the file lists them
  bool any_order = false;               ///< true: a schedule may change the order of micro-batches, so bits differ
  uint64_t memory_limit = 0;            ///< limit of a rank's stored activations in bytes; 0: no limit
  uint32_t in_flight_limit = 0;         ///< limit of the micro-batches whose activations a rank stores; 0: no limit
  profile_choice profile = profile_choice::automatic;
  uint32_t checkpoint_interval = 0;  ///< key: activation_checkpoint_interval; above 0: every unit is recomputed
  /// True if the model is cut into stages; false if one rank has one stage.
  [[nodiscard]] bool cuts(uint32_t ranks) const { return ranks > 1 || chunks > 1; }
};

}  // namespace troupe::config
