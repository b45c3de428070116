// Owns the list of a rank's plans: for steps that train, and for everything else that a run does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/options.hpp"

namespace troupe::plan {

/// The plan that a rank runs. `train_saving`: a training step that saves the states as they are before the step.
/// `save`: a plan that only saves the states.
enum class plan_choice : uint8_t { train, evaluate, generate, train_saving, save };
inline constexpr size_t num_plan_choices = 5;

/// True if a run of this plan takes a checkpoint.
constexpr bool saves(plan_choice c) { return c == plan_choice::train_saving || c == plan_choice::save; }
/// Returns the mode of the plan_options with which the plan is generated.
constexpr mode mode_of(plan_choice c) {
  constexpr mode modes[num_plan_choices] = {mode::train, mode::evaluate, mode::generate, mode::train, mode::save};
  return modes[static_cast<size_t>(c)];
}

}  // namespace troupe::plan
