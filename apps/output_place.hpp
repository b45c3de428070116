// Where a command writes: aside until all is there, so that an error, Ctrl-C or a crash leaves what was there before.
// Owns the name beside OUT until then; what is written is the command's business.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.hpp"

namespace troupe::apps {

/// A folder that appears whole.
class output_folder {
 public:
  /// Makes `.NAME.PROCESS.part` beside `out`. Refused, and nothing made: `out` that exists and is no empty folder,
  /// unless `replace`; a parent that is no folder or may not be written to; fewer than `needed_bytes` free (none where
  /// zero); with `replace`, one that holds `source`.
  static core::result<output_folder> prepare(const std::filesystem::path& out, bool replace, uint64_t needed_bytes,
                                             const std::filesystem::path& source);

  output_folder(output_folder&& other) noexcept;
  output_folder& operator=(output_folder&&) = delete;
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;
  ~output_folder();  ///< removes what was not committed

  [[nodiscard]] const std::filesystem::path& working() const { return working_; }
  [[nodiscard]] const std::filesystem::path& out() const { return out_; }
  /// The working folder, or the one `below` it, takes the name; what had it is removed, all that is in it.
  core::result<void> commit(const std::filesystem::path& below = {});

 private:
  output_folder(std::filesystem::path out, std::filesystem::path working);

  std::filesystem::path out_, working_;  ///< working_ is empty once renamed or moved from
};

/// For one file, which its writer lets appear whole: the same refusals.
core::result<void> check_output_file(const std::filesystem::path& out, bool replace, uint64_t needed_bytes);

}  // namespace troupe::apps
