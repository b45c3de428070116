#include "kernels/optimizer/loss_scaler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/text.hpp"

namespace troupe::kernels {

core::result<void> check(const loss_scale_options& o) {
  const auto wanted = [](const std::string& what) { return core::refused("loss scale: wanted " + what); };
  if (!std::isfinite(o.loss_scale) || o.loss_scale < 0)
    return wanted("fp16.loss_scale of at least 0, got " + core::number_text(o.loss_scale));
  if (o.loss_scale > 0) return {};  // no other option is used for a fixed scale
  if (!std::isfinite(o.min_loss_scale) || o.min_loss_scale <= 0)
    return wanted("fp16.min_loss_scale above 0, got " + core::number_text(o.min_loss_scale));
  if (o.initial_scale_power >= std::numeric_limits<double>::max_exponent)
    return wanted(fmt::format("fp16.initial_scale_power below 1024, got {}", o.initial_scale_power));
  if (o.loss_scale_window == 0 || o.loss_scale_window > std::numeric_limits<int64_t>::max())
    return wanted(fmt::format("fp16.loss_scale_window from 1 to 2^63 - 1, got {}", o.loss_scale_window));
  if (o.hysteresis == 0) return wanted("fp16.hysteresis of at least 1, got 0");
  return {};
}

loss_scale_state first_loss_scale(const loss_scale_options& options) {
  const bool dynamic = options.loss_scale == 0;
  return {.cur_scale = dynamic
                           ? std::ldexp(1.0, static_cast<int>(std::min<uint32_t>(options.initial_scale_power, 1024)))
                           : options.loss_scale,
          .cur_hysteresis = options.hysteresis};
}

core::result<loss_scale_state> next_loss_scale(const loss_scale_options& options, loss_scale_state s, bool overflow) {
  TROUPE_TRY(check(options));
  const bool dynamic = options.loss_scale == 0;
  if (dynamic && !(s.cur_scale > 0 && std::isfinite(s.cur_scale)))
    return core::refused("loss scale: wanted a state with a scale above 0 that is finite, got " +
                         core::number_text(s.cur_scale));
  if (s.cur_iter < 0 || s.cur_iter == std::numeric_limits<int64_t>::max())
    return core::refused(
        fmt::format("loss scale: wanted a state with a number of steps of at least 0, got {}", s.cur_iter));
  if (dynamic && (s.last_overflow_iter < -1 || s.last_overflow_iter > s.cur_iter))
    return core::refused(
        fmt::format("loss scale: wanted a state with an overflow before step {}, or -1, got one at step {}", s.cur_iter,
                    s.last_overflow_iter));
  if (!dynamic) {
    s.cur_iter += 1;
    return s;
  }
  if (overflow) {
    if (options.hysteresis == 1 || s.cur_hysteresis <= 1) {
      if (s.cur_scale == options.min_loss_scale) {
        return core::fail(core::error_kind::numeric,
                          core::text_of("loss scale: wanted finite gradients at the least scale %g "
                                        "(fp16.min_loss_scale), got an overflow at step %lld",
                                        options.min_loss_scale, static_cast<long long>(s.cur_iter + 1)));
      }
      s.cur_scale = std::max(s.cur_scale / 2, options.min_loss_scale);
    } else {
      s.cur_hysteresis -= 1;
    }
    s.last_overflow_iter = s.cur_iter;
  } else {
    if (options.consecutive_hysteresis) s.cur_hysteresis = options.hysteresis;
    const int64_t stable = s.cur_iter - s.last_overflow_iter - 1;
    if (stable > 0 && stable % static_cast<int64_t>(options.loss_scale_window) == 0) {
      if (!options.consecutive_hysteresis) s.cur_hysteresis = options.hysteresis;
      s.cur_scale *= 2;
    }
  }
  s.cur_iter += 1;
  return s;
}

}  // namespace troupe::kernels
