// The options by which a command opens a checkpoint: options that choose one of several checkpoints, and options that
// the readers of the formats use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/name_lines.hpp"

namespace troupe::formats {

/// The part of a folder that a command opens, if the folder holds checkpoints and, next to them, weights without an
/// optimizer's states.
enum class wanted_of_folder : uint8_t {
  checkpoint,  ///< the newest checkpoint that a run may resume from
  weights,     ///< only weights: from the files next to the checkpoints, unless a checkpoint's weights have more bits
};

/// Options of open_source(); by default the folder's own files decide.
struct source_options {
  /// name of the checkpoint to open, if the folder has several; none: the newest, as look_into() finds it
  std::optional<std::string> tag{};
  /// If the newest checkpoint of a folder cannot be opened, opens the newest older one that can be opened. In a
  /// checkpoint of Troupe all digests must then match, and in zip archives all CRC-32, for which all of their bytes are
  /// read.
  bool fallback_to_previous{false};
  /// rules of name_rules.hpp by which tensors are renamed; empty: no tensor is renamed
  core::name_lines map{};
  /// Called with a line for each checkpoint that was skipped, and for what exists next to the opened one.
  std::function<void(const std::string&)> say{};
  wanted_of_folder wants{wanted_of_folder::checkpoint};
  /// True for commands that need the optimizer's states: the newest of several checkpoints then counts as damaged if
  /// its file of states cannot be read, although its weights could be used alone.
  bool needs_states{false};
  /// True for commands that show or compare what is stored: weights that are codes of a compression method which Troupe
  /// does not decode are then a remark, not an error.
  bool as_stored{false};
  /// How the user can set fallback_to_previous, for errors that suggest it; empty: not suggested.
  std::string older_by{"--fallback-to-previous"};

  /// True if an error message may suggest fallback_to_previous.
  [[nodiscard]] bool offers_older() const { return !fallback_to_previous && !tag && !older_by.empty(); }
};

}  // namespace troupe::formats
