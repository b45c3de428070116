// Owns the common parts of commands that write OUT from a checkpoint: the progress line, the temporary folder of the
// output, and the last line that is printed. Leaves the content of OUT to the command.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "apps/base/work_display.hpp"
#include "apps/checkpoint/checkpoint_arguments.hpp"
#include "apps/checkpoint/output_place.hpp"

namespace troupe::apps {

/// Free bytes on the disk that are required for headers, paddings, an index and config.json, in addition to the
/// tensors.
inline constexpr uint64_t header_reserve_bytes = uint64_t{1} << 20;

class conversion {
 public:
  /// Stores its arguments, which must outlive this object. The elapsed time that say() prints begins with this call.
  conversion(const source_arguments& from, const output_arguments& to)
      : from_(from), to_(to), display_("writing", from.verbosity) {}

  /// Returns the function that shows the progress of the work; this object must outlive the function.
  storage::progress_function progress() { return from_.progress ? from_.progress : display_.progress(); }

  /// Prepares OUT by output_place::prepare(). Also refused (limit): an output that is many times as large as the files
  /// that it is made from, for example because of 20,000 names for one tensor. Call it before place().
  core::result<void> prepare(const formats::tensor_source& source, output_kind kind = output_kind::folder,
                             uint64_t needed_bytes = 0);
  [[nodiscard]] const output_place& place() const { return *place_; }

  /// Renames the complete output, or the folder `below` in it, to OUT, by output_place::commit().
  core::result<void> commit(const std::filesystem::path& below = {});

  /// Prints the last line, such as `OUT: 1.5 GiB in 3 files, 2.0 s`, unless the output is quiet; `written` is the text
  /// between OUT and the elapsed time. With `bytes`, also prints the rate in bytes per second.
  void say(const std::string& written, std::optional<uint64_t> bytes = {}) const;

 private:
  const source_arguments& from_;
  const output_arguments& to_;
  work_display display_;
  std::optional<output_place> place_;
  /// Record of values that were clamped to the range of a narrower type; null if clamping is not allowed
  std::shared_ptr<const formats::clamped_values> clamped_;
};

}  // namespace troupe::apps
