// What other files say of a job: DeepSpeed's configuration, and checkpoints of any format.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/init/job_text.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Puts the keys that `from` says; `ignored_keys` of its config.json are read as if they were not there. A DeepSpeed
/// JSON is imported as it is, and its keys and their values are in `given`. Paths are relative to `folder`. Errors
/// (bad_input): neither of the two.
core::result<void> put_source(job_text& text, std::map<std::string, std::string>& given,
                              const std::filesystem::path& from, const std::filesystem::path& folder,
                              const std::vector<std::string>& ignored_keys);

}  // namespace troupe::apps
