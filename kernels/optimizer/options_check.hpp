// The check of an optimizer's options, for calls that programs make directly; a run's options come from a checked
// configuration.
#pragma once

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "kernels/optimizer/optimizer.hpp"

namespace troupe::kernels {

/// Refuses (bad_input) the first number that is not finite, by its name; `call` names the call, e.g. "an optimizer's
/// update".
inline core::result<void> check_finite(std::string_view call,
                                       std::initializer_list<std::pair<std::string_view, double>> numbers) {
  for (const auto& [name, number] : numbers)
    if (!std::isfinite(number))
      return core::refused(std::string(call) + ": wanted a finite " + std::string(name) + ", got " +
                           core::number_text(number));
  return {};
}

/// Refuse (bad_input) options with a number that is not finite, and for LAMB a smallest trust ratio above the largest.
inline core::result<void> check_options(std::string_view call, const adamw_options& o) {
  return check_finite(
      call, {{"beta1", o.beta1}, {"beta2", o.beta2}, {"epsilon", o.epsilon}, {"weight_decay", o.weight_decay}});
}
inline core::result<void> check_options(std::string_view call, const adagrad_options& o) {
  return check_finite(call, {{"epsilon", o.epsilon}, {"weight_decay", o.weight_decay}, {"lr_decay", o.lr_decay}});
}
inline core::result<void> check_options(std::string_view call, const lion_options& o) {
  return check_finite(call, {{"beta1", o.beta1}, {"beta2", o.beta2}, {"weight_decay", o.weight_decay}});
}
inline core::result<void> check_options(std::string_view call, const sgd_options& o) {
  return check_finite(call, {{"momentum", o.momentum}, {"dampening", o.dampening}, {"weight_decay", o.weight_decay}});
}
inline core::result<void> check_options(std::string_view call, const lamb_options& o) {
  TROUPE_TRY(check_finite(call, {{"beta1", o.beta1},
                                 {"beta2", o.beta2},
                                 {"epsilon", o.epsilon},
                                 {"weight_decay", o.weight_decay},
                                 {"max_coeff", o.max_coeff},
                                 {"min_coeff", o.min_coeff}}));
  if (o.min_coeff <= o.max_coeff) return {};
  return core::refused(std::string(call) + ": wanted min_coeff up to max_coeff, got " + core::number_text(o.min_coeff) +
                       " and " + core::number_text(o.max_coeff));
}
inline core::result<void> check_options(std::string_view call, const muon_options& o) {
  return check_finite(call, {{"momentum", o.momentum}, {"weight_decay", o.weight_decay}});
}
inline core::result<void> check_options(std::string_view call, const host_rule_options& o) {
  if (o.rule == nullptr) return core::refused(std::string(call) + ": wanted a program's own rule, got none");
  TROUPE_TRY(core::check_states(*o.rule));
  return check_finite(call, {{"weight_decay", o.weight_decay}});
}

}  // namespace troupe::kernels
