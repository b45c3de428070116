// The hidden states of all windows between two segments, in files: the inputs of a step, and its outputs. Owns the two
// files; all windows are fp32 and of one size.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/error.hpp"

namespace troupe::models {

class hidden_windows {
 public:
  /// Opens files in the existing `folder` whose names begin with `name`; existing contents stay.
  static core::result<hidden_windows> open(const std::filesystem::path& folder, const std::string& name,
                                           uint64_t window_elements);

  hidden_windows(hidden_windows&& other) noexcept;
  hidden_windows& operator=(hidden_windows&&) = delete;
  hidden_windows(const hidden_windows&) = delete;
  hidden_windows& operator=(const hidden_windows&) = delete;
  ~hidden_windows();

  /// Reads windows [first, ...) of the input of step `step`; as many as fill `out`.
  core::result<void> read(uint64_t step, uint64_t first, std::span<float> out) const;
  /// Writes windows of the output of step `step`, which is the input of the next step.
  core::result<void> write(uint64_t step, uint64_t first, std::span<const float> in) const;
  /// Makes the output of `step` durable: after the call it survives a crash of the machine.
  core::result<void> sync(uint64_t step) const;

 private:
  hidden_windows(std::filesystem::path folder, std::string name, uint64_t window_elements);
  [[nodiscard]] std::filesystem::path path_of(uint64_t step) const;

  std::filesystem::path folder_;
  std::string name_;
  uint64_t window_elements_;
  std::array<int, 2> files_{-1, -1};  ///< descriptors of the files of even and odd steps; -1: not open
};

}  // namespace troupe::models
