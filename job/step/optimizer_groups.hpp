// Derives the update rule of each parameter from the configuration's optimizer, scheduler and parameter groups. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "core/training_types.hpp"
#include "job/step/step_rules.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/optimizer/schedule.hpp"
#include "plan/options.hpp"

namespace troupe::job {

/// Parameters with the same optimizer, options and schedule.
struct optimizer_group {
  kernels::optimizer_options options;
  /// Learning rate schedule of the group; its `base_lr` is the group's own learning rate.
  kernels::schedule_options schedule;
  double first_moment = 0;  ///< value of the moments before the first update; above 0 for Adagrad only
  /// Name of the group for host programs and checkpoints, unique in the run: `parameter_groups[0]: PATTERN`, or `rest`;
  /// with Muon followed by `, matrices` or `, others`.
  std::string name{};
};

struct optimizer_groups {               ///< the update rule of each parameter
  std::vector<optimizer_group> groups;  ///< the first group is for parameters that no group of the configuration names
  std::vector<uint32_t> group_of;       ///< [parameter]: index of its group
  /// Options of the moving average of the weights that every trained parameter has; nullopt: there is none.
  std::optional<core::average_options> average = {};
};

/// Returns the name of the optimizer group of entry `g` of `parameter_groups`, or, with their number, of all other
/// parameters; without the words that Muon's groups add.
std::string group_name(const config::job_config& config, size_t g);

/// Marks as not trainable the parameters that `parameter_groups` freeze, in a table without copies of tied parameters.
/// Errors (bad_input): a pattern that matches no parameter.
core::result<void> freeze(const config::job_config& config, core::model_table& table);

/// Assigns each parameter of `table` to an optimizer group; a copy of a tied parameter is in the group of its original.
/// Errors (bad_input): a pattern that matches no parameter; a program's own rule that is missing, or cannot be combined
/// with the configuration.
core::result<optimizer_groups> make_optimizer_groups(const config::job_config& config, const core::model_table& table);

/// True if the optimizer Muon orthogonalises the update of the parameter: it has at least two dimensions, and is
/// neither an embedding, nor the head, nor mask scores, all of which Adam updates. Embeddings and the head are
/// recognised by names, GPT-2's included. Source: Jordan et al. 2024.
bool is_muon_matrix(const core::parameter_info& parameter);

/// Returns for each parameter of the model `whole` the properties of its update that a plan depends on: the number of
/// moments, the whole-parameter values that the optimizer reads (plan::update_need), and the shape of a whole matrix.
std::vector<plan::parameter_update> updates_of(const optimizer_groups& groups, const core::model_table& whole);

/// Returns the names in a checkpoint of the states that are kept for each element of a trained parameter besides its
/// weight, in the order of plan::moment_part: the optimizer's moments, such as `exp_avg`, then the average of the
/// weights, core::average_state, if there is one.
std::vector<std::string_view> moment_names(const optimizer_groups& groups, uint32_t parameter);

/// Returns the name of moment `k` of a parameter in a checkpoint, such as `exp_avg`.
std::string moment_name(const optimizer_groups& groups, uint32_t parameter, uint32_t k);

/// Returns the number of moments that the optimizer itself keeps for each element of a parameter. The average of the
/// weights, if there is one, is the moment of this number.
uint32_t own_moments(const optimizer_groups& groups, uint32_t parameter);

/// Returns the learning rate and first beta of each optimizer group for the next update, when `applied` updates have
/// been applied.
std::vector<group_setting> settings_of(const optimizer_groups& groups, uint64_t applied);

/// Returns the group's optimizer options with the momentum and weight decay of `setting`; the betas of an optimizer
/// without betas stay unchanged.
kernels::optimizer_options with_setting(const kernels::optimizer_options& options, const group_setting& setting);

}  // namespace troupe::job
