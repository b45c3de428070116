// Whether the machines of a term write into one folder of outputs: who leads puts a small file there, and processes of
// other machines look for it and try to write beside it. Owns these files, none of which stays; whom they are told is
// the session's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "actors/processes/calls.hpp"
#include "core/error.hpp"

namespace troupe::actors {

class output_sign {  ///< a file of the process that leads, while this lives
 public:
  /// In `folder`, or in the one above it that is there; removes what killed processes have left there. Nothing where it
  /// cannot be written: whoever opens the run's files there says why.
  static std::optional<output_sign> put(const std::filesystem::path& folder);
  output_sign(output_sign&& other) noexcept;
  output_sign& operator=(output_sign&& other) noexcept;
  output_sign(const output_sign&) = delete;
  output_sign& operator=(const output_sign&) = delete;
  ~output_sign();

  /// What the others are told.
  [[nodiscard]] const output_call& call() const { return call_; }

 private:
  explicit output_sign(output_call call) : call_(std::move(call)) {}

  output_call call_;
};

/// How long a file of another machine may take to be seen: some file systems ask their server only now and then.
inline constexpr int64_t sign_ns_max = 1'000'000'000;

/// Looks for it from another machine, as the process in `place`. Errors: bad_input, where this machine has another
/// folder there, or may not write into it.
core::result<void> look_for_sign(const output_call& sign, uint32_t place);

}  // namespace troupe::actors
