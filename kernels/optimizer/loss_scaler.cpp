#include "kernels/optimizer/loss_scaler.hpp"

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace troupe::kernels {

loss_scale_state first_loss_scale(const loss_scale_options& options) {
  const bool dynamic = options.loss_scale == 0;
  return {.cur_scale = dynamic ? std::ldexp(1.0, static_cast<int>(options.initial_scale_power)) : options.loss_scale,
          .cur_hysteresis = options.hysteresis};
}

core::result<loss_scale_state> next_loss_scale(const loss_scale_options& options, loss_scale_state s, bool overflow) {
  if (options.loss_scale != 0) {
    s.cur_iter += 1;
    return s;
  }
  if (overflow) {
    if (options.hysteresis == 1 || s.cur_hysteresis == 1) {
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
