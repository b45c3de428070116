// Reads the keys of a job from other files: configurations of DeepSpeed or Accelerate, and checkpoints of any format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/init/job_text.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Returns `path` as the value of a key in a configuration file in `folder`, relative to it if possible.
std::string path_in_file(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Adds the keys of the configuration or checkpoint `from` to `text`. For a checkpoint, `ignored_keys` of its
/// config.json are ignored. For a configuration of DeepSpeed or Accelerate, adds only its path to `text`, and its keys
/// with their values to `given`. Paths are written relative to `folder`. Returns the number of steps that the run of a
/// checkpoint has done; 0: none, or unknown. Errors (bad_input): `from` is neither a configuration nor a checkpoint.
core::result<uint64_t> put_source(job_text& text, std::map<std::string, std::string>& given,
                                  const std::filesystem::path& from, const std::filesystem::path& folder,
                                  const std::vector<std::string>& ignored_keys);

}  // namespace troupe::apps
