// The hidden states of all windows between two segments, in files: what goes into a step, and what comes out of it.
// Owns the two files; the windows are fp32 and of one size.
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
  /// Files in `folder`, which is there, whose names begin with `name`; what they hold already stays.
  static core::result<hidden_windows> open(const std::filesystem::path& folder, const std::string& name,
                                           uint64_t window_elements);

  hidden_windows(hidden_windows&& other) noexcept;
  hidden_windows& operator=(hidden_windows&&) = delete;
  hidden_windows(const hidden_windows&) = delete;
  hidden_windows& operator=(const hidden_windows&) = delete;
  ~hidden_windows();

  /// Windows [first, ...) as they go into step `step`; as many as fill `out`.
  core::result<void> read(uint64_t step, uint64_t first, std::span<float> out) const;
  /// As they come out of step `step`: they go into the next one.
  core::result<void> write(uint64_t step, uint64_t first, std::span<const float> in) const;
  /// What came out of `step` survives a crash of the machine.
  core::result<void> sync(uint64_t step) const;

 private:
  hidden_windows(std::filesystem::path folder, std::string name, uint64_t window_elements);
  [[nodiscard]] std::filesystem::path path_of(uint64_t step) const;

  std::filesystem::path folder_;
  std::string name_;
  uint64_t window_elements_;
  std::array<int, 2> files_{-1, -1};  ///< of even and odd steps
};

}  // namespace troupe::models
