// A host's request for a save, and the report of its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace troupe::actors {

struct save_request {                 ///< of one checkpoint
  std::filesystem::path root{};       ///< the folder of checkpoints; made where it is missing
  std::string configuration{};        ///< the run's, kept as it is
  std::string client_state = "null";  ///< JSON of the host program, kept as it is
  uint32_t keep_last = 0;   ///< checkpoints that stay; older ones are removed after the commit; 0: none is removed
  uint64_t keep_every = 0;  ///< checkpoints of steps that are multiples of this stay, too
  bool exclude_frozen_parameters = false;
  /// The folder's name in `root` instead of the step's: up to 200 letters, digits, '.', '_' and '-'. A checkpoint of
  /// that name is replaced, anything else of that name is an error. One with a tag is never removed for `keep_last`,
  /// nor counted.
  std::string tag{};
  bool save_latest = true;  ///< `latest` of `root` names it; false: it is found only by its name
};

struct save_report {                     ///< how one checkpoint ended
  uint64_t step = 0;                     ///< optimizer steps done when it was asked for
  std::filesystem::path folder{};        ///< empty where nothing was committed
  uint64_t bytes = 0;                    ///< of its files
  double seconds = 0;                    ///< from the request to the commit
  double waited_seconds = 0;             ///< of the writers, for staging memory: the disk was slower than the copies
  std::optional<core::error> failure{};  ///< the checkpoints before stay as they were; where `folder` is set, the
                                         ///< commit succeeded and removing older ones did not
};

}  // namespace troupe::actors
