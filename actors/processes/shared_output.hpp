// Checks that the machines of a term write into one folder of outputs: the leading process puts a small file there, and
// processes of other machines look for it and try to write into the same folder. Owns these files, which are all
// removed; the session sends the calls.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "actors/processes/calls.hpp"
#include "core/error.hpp"

namespace troupe::actors {

class output_sign {  ///< owns a file that the leading process has put into the folder; the destructor removes the file
 public:
  /// Writes the file into `folder`, or into its closest parent that exists; removes files that killed processes have
  /// left there. Returns nothing if the folder cannot be written; opening the run's files there reports the reason
  /// later.
  static std::optional<output_sign> put(const std::filesystem::path& folder);
  output_sign(output_sign&& other) noexcept;
  output_sign& operator=(output_sign&& other) noexcept;
  output_sign(const output_sign&) = delete;
  output_sign& operator=(const output_sign&) = delete;
  ~output_sign();

  /// Returns the call that tells the other processes about the file.
  [[nodiscard]] const output_call& call() const { return call_; }

 private:
  explicit output_sign(output_call call) : call_(std::move(call)) {}

  output_call call_;
};

/// Longest time in nanoseconds until a file of another machine appears: clients of some file systems refresh a folder's
/// entries only at intervals.
inline constexpr int64_t sign_ns_max = 1'000'000'000;

/// Looks for the file from another machine, as the process in `place`. Errors: bad_input, if this machine has another
/// folder there, or may not write into it.
core::result<void> look_for_sign(const output_call& sign, uint32_t place);

}  // namespace troupe::actors
