// Checks that the machines of a job write into one shared folder of outputs: the leading process writes a small file
// into it, and processes of other machines look for the file and try to write there, too. Owns these files, all of
// which are removed afterwards; the session sends the calls that name them.
#pragma once

#include <filesystem>
#include <optional>

#include "actors/processes/calls.hpp"
#include "core/error.hpp"

namespace troupe::actors {

class output_sign {  ///< a file that the leading process writes into the folder; the destructor removes it
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

  /// Returns the call that names this object's file to the other processes.
  [[nodiscard]] const output_call& call() const { return call_; }

 private:
  explicit output_sign(output_call call) : call_(std::move(call)) {}

  output_call call_;
};

/// Longest time in nanoseconds that a process waits for a file of another machine to appear, because clients of some
/// network file systems refresh the entries of a folder only at intervals.
inline constexpr int64_t sign_ns_max = 1'000'000'000;

/// Looks for the file that `sign` names, which a process on another machine has written. `place`: number of this
/// process in the job. Errors: bad_input if this machine has another folder under that path, or may not write into it.
core::result<void> look_for_sign(const output_call& sign, uint32_t place);

}  // namespace troupe::actors
