#include "kernels/schedule.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>

namespace troupe::kernels {
namespace {

/// Lengths in steps, as numbers to compute with.
struct spans {
  double warmup, total;
  explicit spans(const schedule_options& o)
      : warmup(static_cast<double>(std::max<uint64_t>(2, o.warmup_num_steps))),
        total(static_cast<double>(o.total_num_steps)) {}
  [[nodiscard]] double after_warmup() const { return std::max(1.0, total - warmup); }
};

double warmup_fraction(const schedule_options& o, const spans& s, double it) {
  return o.warmup_type == "linear" ? it / s.warmup : std::log(it + 1) / std::log(s.warmup);
}

double cosine_ratio(const schedule_options& o, const spans& s, double it) {
  if (it < 0) return 0;
  if (it < s.warmup) return o.warmup_min_ratio + (1 - o.warmup_min_ratio) * warmup_fraction(o, s, it);
  const double progress = std::min(1.0, (it - s.warmup + 1) / s.after_warmup());
  const double wave = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return std::max(0.0, o.cos_min_ratio + (1 - o.cos_min_ratio) * wave);
}

double linear_rate(const schedule_options& o, const spans& s, double it) {
  const bool decays = o.type == "WarmupDecayLR";
  const double max_lr = o.warmup_max_lr.value_or(decays ? 1e-3 : o.base_lr);
  double fraction = 1;
  if (it < 0)
    fraction = 0;
  else if (it < s.warmup)
    fraction = warmup_fraction(o, s, it);
  else if (decays)
    fraction = std::max(0.0, (s.total - it) / s.after_warmup());
  return o.warmup_min_lr + (max_lr - o.warmup_min_lr) * fraction;
}

}  // namespace

bool is_schedule(const std::string& type) {
  return type.empty() || type == "WarmupLR" || type == "WarmupDecayLR" || type == "WarmupCosineLR";
}

double learning_rate(const schedule_options& options, int64_t it) {
  assert(is_schedule(options.type) && it >= -1);
  if (options.type.empty()) return options.base_lr;
  const spans s(options);
  const auto position = static_cast<double>(it);
  if (options.type == "WarmupCosineLR") return options.base_lr * cosine_ratio(options, s, position);
  return linear_rate(options, s, position);
}

}  // namespace troupe::kernels
