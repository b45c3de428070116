// Files that hold the hidden states of all windows of calibration text between two segments: one file for the inputs of
// the current step (segment), one for its outputs. All windows are fp32 and of one size.
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
  /// Opens or creates the two files in the existing `folder`, with names that begin with `name`; existing contents are
  /// kept, so that work can be resumed.
  static core::result<hidden_windows> open(const std::filesystem::path& folder, const std::string& name,
                                           uint64_t window_elements);

  hidden_windows(hidden_windows&& other) noexcept;
  hidden_windows& operator=(hidden_windows&&) = delete;
  hidden_windows(const hidden_windows&) = delete;
  hidden_windows& operator=(const hidden_windows&) = delete;
  ~hidden_windows();

  /// Reads input windows of segment number `step` from window `first` on, as many as fill `out`.
  core::result<void> read(uint64_t step, uint64_t first, std::span<float> out) const;
  /// Writes output windows of segment number `step`, from window `first` on; they are the input of the next segment.
  core::result<void> write(uint64_t step, uint64_t first, std::span<const float> in) const;
  /// Flushes the output of segment number `step` to the disk, so that it survives a crash of the machine.
  core::result<void> sync(uint64_t step) const;

 private:
  hidden_windows(std::filesystem::path folder, std::string name, uint64_t window_elements);
  [[nodiscard]] std::filesystem::path path_of(uint64_t step) const;

  std::filesystem::path folder_;
  std::string name_;
  uint64_t window_elements_;
  /// Descriptors of the two files, for the inputs of even and of odd steps; -1: not open.
  std::array<int, 2> files_{-1, -1};
};

}  // namespace troupe::models
