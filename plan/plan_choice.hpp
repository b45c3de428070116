// The plans of a rank: for steps that train, and for the other things that a run does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/options.hpp"

namespace troupe::plan {

/// Which of a rank's plans to run.
///   train_saving  a training step in which the states before it are saved
///   save          nothing but that
enum class plan_choice : uint8_t { train, evaluate, generate, train_saving, save };
inline constexpr size_t num_plan_choices = 5;

/// Whether a run of this plan takes a checkpoint.
constexpr bool saves(plan_choice c) { return c == plan_choice::train_saving || c == plan_choice::save; }
/// The mode that the plan is generated for.
constexpr mode mode_of(plan_choice c) {
  constexpr mode modes[num_plan_choices] = {mode::train, mode::evaluate, mode::generate, mode::train, mode::save};
  return modes[static_cast<size_t>(c)];
}

}  // namespace troupe::plan
