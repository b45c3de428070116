// Owns the text of a profile, which holds the measured times of a model's units, and the check that it belongs to a
// job's model. The division of a model into pipeline stages and the search for a schedule use these times instead of
// modelled ones. telemetry/ measures, job/ reads the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/stage_costs.hpp"

namespace troupe::plan {

/// Name of the profile in a run's folder.
inline constexpr std::string_view profile_file_name = "profile.csv";
/// Largest size in bytes of a profile.csv that is read; a larger one is an error.
inline constexpr uint64_t max_profile_bytes = uint64_t{16} << 20;

/// Profile of one unit: numbers that identify the unit, and its measured times for one micro-batch.
struct profiled_unit {
  std::string name;
  uint64_t elements = 0;  ///< elements of the unit's parameters
  double forward_flops = 0;
  uint64_t activation_bytes = 0;  ///< bytes of the unit's activations kept from forward to backward
  double forward_s = 0, backward_input_s = 0, backward_weight_s = 0;
  double recompute_s = 0;  ///< seconds of the unit's recompute; 0 if the unit was not recomputed
};

/// The times of a model on a machine. They do not depend on the pipeline stages or the degrees of parallelism of the
/// run that measured them.
struct model_profile {
  std::string dtype;                ///< dtype of the model's parameters
  uint64_t steps = 0;               ///< number of measured steps
  double update_s_per_element = 0;  ///< seconds of the update for each element that a rank updates
  double transfer_s_per_byte = 0;  ///< seconds of a transfer between stages for each byte; 0 if nothing was transferred
  std::vector<profiled_unit> units;
};

/// Returns the units of a profile with everything except measured times.
std::vector<profiled_unit> units_to_profile(const core::model_table& table);

/// Returns the content of a profile file as text, in the format of docs/formats.md.
std::string write_profile(const model_profile& profile);
/// Parses the content of a profile file. Errors (bad_input) start with `path:line: `.
core::result<model_profile> read_profile(std::string_view text, const std::string& path);

/// True if the profile was measured for this model with this micro-batch and dtype.
bool is_of(const model_profile& profile, const core::model_table& table, core::dtype parameter);

/// Replaces the modelled times of `units` by measured ones and leaves their bytes unchanged. The profile must be of
/// this model.
void take_times(const model_profile& profile, const core::model_table& table, const plan_options& options,
                std::vector<modelled_unit>& units);

}  // namespace troupe::plan
