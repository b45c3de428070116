#include "apps/base/training/nothing_trained.hpp"

#include <fmt/format.h>

#include <string>

namespace troupe::apps {

std::optional<core::error> nothing_trained(const config::job_config& config, uint64_t trained, uint64_t skipped,
                                           bool is_stopped) {
  const auto& half = config.fp16;
  const bool is_dynamic = half.enabled && half.loss_scale == 0;
  if (trained == 0 || skipped < trained || (is_dynamic && is_stopped)) return std::nullopt;
  const std::string advice =
      is_dynamic ? fmt::format(
                       "train more steps, in which the loss scale falls further, or set a smaller "
                       "fp16.initial_scale_power than {}",
                       half.initial_scale_power)
      : half.enabled ? fmt::format("set a smaller fp16.loss_scale than {}, or 0, which finds one", half.loss_scale)
                     : "try a smaller learning rate, or fp32";
  return core::error{core::error_kind::numeric,
                     fmt::format("nothing was trained: gradients of all {} steps were not finite, so that each was "
                                 "skipped; {}",
                                 trained, advice)};
}

}  // namespace troupe::apps
