// How long the units of a model take, as a run has measured it: the times that a cut and a search go by where there are
// any. Owns the file's text and the question whether it is of a job's model; telemetry/ measures, job/ reads the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/stage_costs.hpp"

namespace troupe::plan {

/// In a run's folder.
inline constexpr std::string_view profile_file_name = "profile.csv";
/// Of a file that is read.
inline constexpr uint64_t max_profile_bytes = uint64_t{16} << 20;

/// A unit: what tells whether another one is the same, then the time of one micro-batch.
struct profiled_unit {
  std::string name;
  uint64_t elements = 0;  ///< of its parameters
  double forward_flops = 0;
  uint64_t activation_bytes = 0;  ///< kept from forward to backward
  double forward_s = 0, backward_input_s = 0, backward_weight_s = 0;
  double recompute_s = 0;  ///< 0 where it was not recomputed
};

/// A model on a machine. No time depends on the cut or the degrees at which it was measured.
struct model_profile {
  std::string dtype;                ///< of parameters
  uint64_t steps = 0;               ///< measured
  double update_s_per_element = 0;  ///< of the elements that a rank updates
  double transfer_s_per_byte = 0;   ///< between stages; 0 where nothing crossed
  std::vector<profiled_unit> units;
};

/// What a profile says of units before anything is measured.
std::vector<profiled_unit> units_to_profile(const core::model_table& table);

/// As docs/formats.md has it.
std::string write_profile(const model_profile& profile);
/// Errors (bad_input) start with `path:line: `.
core::result<model_profile> read_profile(std::string_view text, const std::string& path);

/// Whether it is of this model with this micro-batch and type.
bool is_of(const model_profile& profile, const core::model_table& table, core::dtype parameter);

/// Measured times instead of modelled ones; bytes stay. The profile is of this model.
void take_times(const model_profile& profile, const core::model_table& table, const plan_options& options,
                std::vector<modelled_unit>& units);

}  // namespace troupe::plan
