// From the configuration's optimizer, scheduler and parameter groups to the update rule of each parameter. Pure.
#pragma once

#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "job/step_rules.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/optimizer/schedule.hpp"
#include "plan/options.hpp"

namespace troupe::job {

/// Parameters with the same optimizer, options and schedule.
struct optimizer_group {
  kernels::optimizer_options options;
  kernels::schedule_options schedule;  ///< `base_lr` is the group's own
  double first_moment = 0;             ///< initial value of moments
};

struct optimizer_groups {               ///< which parameters are updated by which rule
  std::vector<optimizer_group> groups;  ///< the first is for parameters that no group of the configuration names
  std::vector<uint32_t> group_of;       ///< [parameter]
};

/// Marks the parameters that `parameter_groups` freeze, in a table without copies. Errors (bad_input): a
/// pattern that matches no parameter.
core::result<void> freeze(const config::job_config& config, core::model_table& table);

/// A copy is in its original's group. Errors (bad_input): a pattern that matches no parameter.
core::result<optimizer_groups> make_optimizer_groups(const config::job_config& config, const core::model_table& table);

/// Whether Muon makes the update of a parameter orthogonal: two dimensions at least, and neither an embedding nor the
/// head, which Adam updates. Source: Jordan et al. 2024; zero.md 4.1 adds the names, here GPT-2's too.
bool is_muon_matrix(const core::parameter_info& parameter);

/// The plan's view of updates of the model `whole`: moments, needs and whole matrices. [parameter]
std::vector<plan::parameter_update> updates_of(const optimizer_groups& groups, const core::model_table& whole);

/// The name of moment `k` of a parameter in a checkpoint: `exp_avg` and the like.
std::string moment_name(const optimizer_groups& groups, uint32_t parameter, uint32_t k);

/// Settings after `applied` updates. [group]
std::vector<group_setting> settings_of(const optimizer_groups& groups, uint64_t applied);

/// The group's options with a setting's momentum; those without betas keep their own.
kernels::optimizer_options with_setting(const kernels::optimizer_options& options, const group_setting& setting);

}  // namespace troupe::job
