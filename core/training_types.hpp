// The optimizers and learning rate curves that a configuration can name. Owns the names; leaves the formulas to
// kernels/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::core {

/// Update rule that computes new parameters from gradients.
enum class optimizer_type : uint8_t { adam, adamw, adagrad, lion, sgd, lamb, muon };
/// Names of the optimizers in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 7> optimizer_names{"adam", "adamw", "adagrad", "lion",
                                                                 "sgd",  "lamb",  "muon"};

/// How the learning rate rises during warm-up: with the logarithm of the step, or linearly with the step.
enum class warmup_shape : uint8_t { log, linear };
/// Names of the warm-up shapes in a configuration, in the order of the enumerators.
inline constexpr std::array<std::string_view, 2> warmup_shape_names{"log", "linear"};

/// How the learning rate changes over the steps; `constant`: it does not change.
enum class schedule_type : uint8_t {
  constant,
  warmup,
  warmup_decay,
  warmup_cosine,
  range_test,
  one_cycle,
  cosine_annealing,
  linear,
  polynomial
};
/// Names of the schedules in a configuration: DeepSpeed's and PyTorch's classes. `constant` has no name.
inline constexpr std::array<std::string_view, 9> schedule_names{
    "",         "WarmupLR",          "WarmupDecayLR", "WarmupCosineLR", "LRRangeTest",
    "OneCycle", "CosineAnnealingLR", "LinearLR",      "PolynomialLR"};

/// Returns the name in a configuration.
constexpr std::string_view name_of(optimizer_type t) { return optimizer_names[static_cast<size_t>(t)]; }
/// Returns the name in a configuration; empty for `constant`.
constexpr std::string_view name_of(schedule_type t) { return schedule_names[static_cast<size_t>(t)]; }

/// Returns the name in a configuration.
constexpr std::string_view name_of(warmup_shape s) { return warmup_shape_names[static_cast<size_t>(s)]; }

/// Returns the optimizer with exactly this name; nullopt if there is none.
constexpr std::optional<optimizer_type> optimizer_type_from(std::string_view name) {
  const auto at = std::ranges::find(optimizer_names, name);
  if (at == optimizer_names.end()) return std::nullopt;
  return static_cast<optimizer_type>(at - optimizer_names.begin());
}
/// Returns the schedule with exactly this name; nullopt if there is none.
constexpr std::optional<schedule_type> schedule_type_from(std::string_view name) {
  const auto at = std::ranges::find(schedule_names, name);
  if (at == schedule_names.end()) return std::nullopt;
  return static_cast<schedule_type>(at - schedule_names.begin());
}
/// Returns the warm-up shape with exactly this name; nullopt if there is none.
constexpr std::optional<warmup_shape> warmup_shape_from(std::string_view name) {
  const auto at = std::ranges::find(warmup_shape_names, name);
  if (at == warmup_shape_names.end()) return std::nullopt;
  return static_cast<warmup_shape>(at - warmup_shape_names.begin());
}

}  // namespace troupe::core
