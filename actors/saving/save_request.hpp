// A host's request for a save, and the report of its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace troupe::actors {

struct save_request {                 ///< request for one checkpoint
  std::filesystem::path root{};       ///< the folder of checkpoints; created if missing
  std::string configuration{};        ///< text of the run's configuration, stored unchanged
  std::string client_state = "null";  ///< JSON of the host program, stored unchanged
  /// Number of newest checkpoints that are kept; older ones are removed after the commit; 0: none is removed.
  uint32_t keep_last = 0;
  uint64_t keep_every = 0;  ///< checkpoints of steps that are multiples of this number are kept, too; 0: no such rule
  bool exclude_frozen_parameters = false;
  /// The folder's name in `root`, in place of the step's: up to 200 letters, digits, '.', '_' and '-'. A checkpoint of
  /// that name is replaced; anything else of that name is an error. A checkpoint with a tag is never removed for
  /// `keep_last`, nor counted.
  std::string tag{};
  bool save_latest = true;  ///< true: `latest` of `root` names the checkpoint; false: it is found only by its name
};

struct save_report {               ///< result of one save of a checkpoint
  uint64_t step = 0;               ///< optimizer steps done when the save was requested
  std::filesystem::path folder{};  ///< folder of the committed checkpoint; empty if nothing was committed
  uint64_t bytes = 0;              ///< bytes of the checkpoint's files
  double seconds = 0;              ///< seconds from the request to the commit
  /// Seconds that writers waited for staging memory, because the disk was slower than the copies.
  double waited_seconds = 0;
  /// Reason why the save failed; none: the save succeeded. Earlier checkpoints stay unchanged. If `folder` is set, the
  /// commit succeeded and the removal of older checkpoints failed.
  std::optional<core::error> failure{};
};

}  // namespace troupe::actors
