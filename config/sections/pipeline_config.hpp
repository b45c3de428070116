// The part of job_config that says how the ranks of a pipeline share a model and take turns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::config {

/// When a run leaves a profile of its units' times in its folder: `automatic` where it is cut and the folder has none
/// of its model, and a cut or a search goes by one that is there, which `never` does not.
enum class profile_choice : uint8_t { automatic, always, never };

struct pipeline_section {               ///< `pipeline`: how `parallel.pipeline` ranks share the model
  std::string schedule = "1f1b";        ///< a name, `search`, or the path of a .csv as it was given
  std::filesystem::path schedule_file;  ///< absolute; empty unless it is a file
  uint32_t chunks = 0;                  ///< stages of a rank; 0: as many as the schedule wants, else 1
  std::string partition = "best";       ///< best, uniform, parameters or type:REGEX; empty beside first_units
  std::vector<uint32_t> first_units;    ///< [stage], where the file says them
  bool any_order = false;               ///< a schedule may leave the order of micro-batches: bits differ
  uint64_t memory_limit = 0;            ///< bytes of activations that a rank may keep; 0: none
  uint32_t in_flight_limit = 0;         ///< micro-batches that a rank may keep activations of; 0: none
  profile_choice profile = profile_choice::automatic;
  uint32_t checkpoint_interval = 0;  ///< key: activation_checkpoint_interval
  /// What is cut: nothing where one rank has one stage.
  [[nodiscard]] bool cuts(uint32_t ranks) const { return ranks > 1 || chunks > 1; }
};

}  // namespace troupe::config
