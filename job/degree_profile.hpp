// The file degrees.csv in a run's folder: step times that were measured for candidate divisions of the ranks over the
// parallel axes. Owns the file's text and the test whether a row belongs to a plan; actors/session/ measures,
// degrees.hpp chooses among the candidates.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::job {

/// Name of the file with measured step times in a run's folder.
inline constexpr std::string_view degrees_file_name = "degrees.csv";
inline constexpr uint64_t max_degrees_bytes = uint64_t{1} << 20;

/// Totals over the plans of all ranks for one division of the ranks. A measured step time is used again only for a plan
/// with equal totals.
struct plan_size {
  uint64_t instructions = 0, collective_bytes = 0, memory_bytes = 0;
  double flops = 0;
  bool operator==(const plan_size&) const = default;
};

struct measured_way {  ///< one division of the ranks over the parallel axes, and its measured step time
  plan_size size;
  double predicted_s = 0;
  double step_s = 0;   ///< seconds of the fastest measured step; 0 if no step was run
  uint64_t steps = 0;  ///< number of measured steps
  std::string degrees;
};

/// The content of degrees.csv: each way to divide a job's ranks over the parallel axes that was considered, with its
/// predicted and its measured step time.
struct degree_profile {
  uint32_t cores = 0;  ///< number of cores of the machine on which the steps were measured
  std::vector<measured_way> ways;

  /// Returns the row of these degrees that was measured with a plan of that size; null if there is none.
  [[nodiscard]] const measured_way* find(std::string_view degrees, const plan_size& size) const;
};

/// Returns the content of degrees.csv as text, in the format of docs/formats.md.
std::string write_degree_profile(const degree_profile& profile);
/// Parses the content of degrees.csv. Errors (bad_input) start with `path:line: `.
core::result<degree_profile> read_degree_profile(std::string_view text, const std::string& path);

/// Reads degrees.csv from a run's folder; nullopt if the folder has no such file.
core::result<std::optional<degree_profile>> find_degree_profile(const std::filesystem::path& folder);

}  // namespace troupe::job
