// Owns the checkpoints to which each key of checkpoint.load applies: there are keys of the command line, keys that
// belong to the file's own checkpoint.load.path, and keys that apply to every checkpoint. Leaves their effect to
// checkpoint_start.hpp.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "config/load.hpp"
#include "config/sections/run_config.hpp"

namespace troupe::apps {

/// A key of checkpoint.load that changes how a checkpoint is loaded.
struct load_key {
  const char* name;
  bool config::checkpoint_load_section::*field;
  /// True: if the configuration file sets the key, the key applies to every checkpoint that is loaded, not only to the
  /// one at checkpoint.load.path. Keys that permit something are of this kind; a key that drops states must not be
  bool is_for_all;
};
inline constexpr std::array<load_key, 7> load_keys{
    {{"optimizer_states", &config::checkpoint_load_section::optimizer_states, false},
     {"lr_scheduler_states", &config::checkpoint_load_section::lr_scheduler_states, false},
     {"strict", &config::checkpoint_load_section::strict, false},
     {"fallback_to_previous", &config::checkpoint_load_section::fallback_to_previous, true},
     {"changed_batch", &config::checkpoint_load_section::changed_batch, true},
     {"changed_seed", &config::checkpoint_load_section::changed_seed, true},
     {"changed_data", &config::checkpoint_load_section::changed_data, true}}};

/// Returns the keys of checkpoint.load, without that prefix, that `--set` or a flag has set: for
/// start_wishes::keys_by_hand.
std::vector<std::string> load_keys_by_hand(const config::loaded& c);

/// Returns the place that sets checkpoint.load.tag, for messages: `--set checkpoint.load.tag=NAME` or `job.yaml:9:30`.
std::string origin_of_tag(const config::loaded& c);

/// Returns the override that names the checkpoint of `--resume`, `path`.
std::string resume_override(const std::string& path);

/// Resets the keys of checkpoint.load that the file sets, because they describe the file's own checkpoint.load.path,
/// which `--resume` replaces; keys that apply to every checkpoint stay. Adds a warning that names the reset keys.
/// Requires that resume_override(path) was the first override of `c`. Refused: another path by `--set`.
config::load_result with_resume(config::loaded c, const std::string& path);

}  // namespace troupe::apps
