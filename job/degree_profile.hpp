// Steps that were measured for a choice of degrees, as the run's folder keeps them. Owns the file's text and the
// question whether a row is of a plan; actors/session/ measures, degrees.hpp chooses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::job {

/// In a run's folder.
inline constexpr std::string_view degrees_file_name = "degrees.csv";
inline constexpr uint64_t max_degrees_bytes = uint64_t{1} << 20;

/// What tells whether another plan is the same: sums over all ranks.
struct plan_size {
  uint64_t instructions = 0, collective_bytes = 0, memory_bytes = 0;
  double flops = 0;
  bool operator==(const plan_size&) const = default;
};

struct measured_way {  ///< one way to share out ranks
  plan_size size;
  double predicted_s = 0;
  double step_s = 0;   ///< the least of `steps`; 0 where none was run
  uint64_t steps = 0;  ///< measured
  std::string degrees;
};

struct degree_profile {
  uint32_t cores = 0;  ///< of the machine
  std::vector<measured_way> ways;

  /// The row of these degrees that was measured with a plan of that size; null: none.
  [[nodiscard]] const measured_way* find(std::string_view degrees, const plan_size& size) const;
};

/// As docs/formats.md has it.
std::string write_degree_profile(const degree_profile& profile);
/// Errors (bad_input) start with `path:line: `.
core::result<degree_profile> read_degree_profile(std::string_view text, const std::string& path);

/// That of a run's folder, if it has one.
core::result<std::optional<degree_profile>> find_degree_profile(const std::filesystem::path& folder);

}  // namespace troupe::job
