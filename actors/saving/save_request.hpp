// Defines the request for a checkpoint, which the host (the program that embeds Troupe) makes, and the report of its
// result.
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
  std::string client_state = "null";  ///< JSON text of the host program, stored unchanged
  /// Number of newest checkpoints, this one included, that are kept once a loss that the session computes with the
  /// saved states, or later ones, is finite; until then none is removed. 0: none is removed.
  uint32_t keep_last = 0;
  uint64_t keep_every = 0;  ///< checkpoints of steps that this number divides are kept, too; 0: no such rule
  bool exclude_frozen_parameters = false;
  /// Name of the checkpoint's folder in `root`, in place of the step's: up to 200 letters, digits, '.', '_' and '-'. A
  /// checkpoint of that name is replaced; any other folder or file of that name is an error. A checkpoint with a tag is
  /// neither removed by `keep_last` nor counted for it. Empty: the name of the step.
  std::string tag{};
  bool save_latest = true;  ///< true: `latest` in `root` names it; false: only the folder's name finds it
};

struct save_report {               ///< result of one save of a checkpoint
  uint64_t step = 0;               ///< optimizer steps done when the save was requested
  std::filesystem::path folder{};  ///< folder of the committed checkpoint; empty if nothing was committed
  uint64_t bytes = 0;              ///< bytes of the checkpoint's files
  double seconds = 0;              ///< seconds from the request to the commit
  /// Longest time in seconds that one rank's writer lane waited for a staging slot, because the disk was slower than
  /// the copies.
  double waited_seconds = 0;
  /// Reason why the save failed; none: it succeeded. Earlier checkpoints are unchanged. If `folder` is set, the
  /// checkpoint was committed, and only the removal of older ones failed. A removal that fails after the report causes
  /// a warning instead.
  std::optional<core::error> failure{};
};

}  // namespace troupe::actors
