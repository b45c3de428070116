#include "kernels/optimizer/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"

namespace troupe::kernels {
namespace {

/// Number of warm-up steps and number of all steps of a schedule, as floating-point numbers.
struct spans {
  double warmup, total;
  explicit spans(const schedule_options& o)
      : warmup(static_cast<double>(std::max<uint64_t>(2, o.warmup_num_steps))),
        total(static_cast<double>(o.total_num_steps)) {}
  [[nodiscard]] double after_warmup() const { return std::max(1.0, total - warmup); }
};

double warmup_fraction(const schedule_options& o, const spans& s, double it) {
  return o.warmup_type == core::warmup_shape::linear ? it / s.warmup : std::log(it + 1) / std::log(s.warmup);
}

double cosine_ratio(const schedule_options& o, const spans& s, double it) {
  if (it < 0) return 0;
  if (it < s.warmup) return o.warmup_min_ratio + (1 - o.warmup_min_ratio) * warmup_fraction(o, s, it);
  const double progress = std::min(1.0, (it - s.warmup + 1) / s.after_warmup());
  const double wave = (1 + std::cos(std::numbers::pi * progress)) / 2;
  return std::max(0.0, o.cos_min_ratio + (1 - o.cos_min_ratio) * wave);
}

double linear_rate(const schedule_options& o, const spans& s, double it) {
  const bool decays = o.type == core::schedule_type::warmup_decay;
  const double max_lr = o.warmup_max_lr ? *o.warmup_max_lr * o.rate_ratio : decays ? 1e-3 * o.rate_ratio : o.base_lr;
  const double min_lr = o.warmup_min_lr * o.rate_ratio;
  double fraction = 1;
  if (it < 0)
    fraction = 0;
  else if (it < s.warmup)
    fraction = warmup_fraction(o, s, it);
  else if (decays)
    fraction = std::max(0.0, (s.total - it) / s.after_warmup());
  return min_lr + (max_lr - min_lr) * fraction;
}

double range_test_rate(const schedule_options& o, double it) {
  const double interval = (it + 1) / static_cast<double>(o.lr_range_test_step_size);
  return o.rate_ratio * o.lr_range_test_min_lr *
         (1 + o.lr_range_test_step_rate * (o.lr_range_test_staircase ? std::floor(interval) : interval));
}

/// The cycle of the schedule OneCycle, as floating-point numbers: the steps and stairs of its rising half and of its
/// falling half.
struct cycle {
  double rising, falling, total;
  double rising_stairs, falling_stairs;
  explicit cycle(const schedule_options& o)
      : rising(static_cast<double>(o.cycle_first_step_size)),
        falling(static_cast<double>(o.cycle_second_step_size.value_or(o.cycle_first_step_size))),
        total(rising + falling),
        rising_stairs(static_cast<double>(o.cycle_first_stair_count)),
        falling_stairs(static_cast<double>(o.cycle_second_stair_count.value_or(o.cycle_first_stair_count))) {}

  /// Returns how far the rate has risen after step `it`: 0 at a cycle's ends, 1 at its peak. Stairs are computed from
  /// the number of steps, because a fraction may be below a stair by a rounding error.
  [[nodiscard]] double scale(double it) const {
    const double b = it + 1;
    const double x = 1 + b / total - std::floor(1 + b / total);
    const double peak = rising / total;
    const bool rises = x <= peak;
    const double stairs = rises ? rising_stairs : falling_stairs;
    if (stairs == 0) return rises ? x / peak : (x - 1) / (peak - 1);
    const double step = std::fmod(b, total);
    return std::floor(step <= rising ? step * stairs / rising : (total - step) * stairs / falling) / stairs;
  }
};

/// Returns the divisor of the rate (which is also the factor of the momentum) after the cycle: 1 + rate * (number of
/// decay intervals since the cycle's end); 1 if nothing decays.
double decay_after(const schedule_options& o, const cycle& c, double rate, double it) {
  if (o.decay_step_size == 0) return 1;
  return 1 + rate * (it - c.total + 1) / static_cast<double>(o.decay_step_size);
}

double one_cycle_rate(const schedule_options& o, double it) {
  const cycle c(o);
  if (it < c.total) return o.rate_ratio * (o.cycle_min_lr + (o.cycle_max_lr - o.cycle_min_lr) * c.scale(it));
  return o.rate_ratio * o.cycle_min_lr / decay_after(o, c, o.decay_lr_rate, it);
}

double cosine_annealing_rate(const schedule_options& o, double it) {
  const double wave = 1 + std::cos(std::numbers::pi * (it + 1) / static_cast<double>(o.t_max));
  return o.eta_min + (o.base_lr - o.eta_min) * wave / 2;
}

double fraction_of_iters(const schedule_options& o, double it) {
  const auto total = static_cast<double>(o.total_iters);
  return std::min(total, it + 1) / total;
}

double linear_factor_rate(const schedule_options& o, double it) {
  return o.base_lr * (o.start_factor + (o.end_factor - o.start_factor) * fraction_of_iters(o, it));
}

double polynomial_rate(const schedule_options& o, double it) {
  return o.base_lr * std::pow(1 - fraction_of_iters(o, it), o.power);
}

/// Returns the rate of a curve that begins after `num_warmup_steps` steps, in which the rate rises linearly from 0 to
/// the curve's first value.
double after_linear_warmup(const schedule_options& o, double it, double (*curve)(const schedule_options&, double)) {
  const auto warmup = static_cast<double>(o.num_warmup_steps);
  if (it + 1 < warmup) return curve(o, -1) * ((it + 1) / warmup);
  return curve(o, it - warmup);
}

double warm_restarts_rate(const schedule_options& o, double it) {
  double in_period = it + 1, period = static_cast<double>(o.t_0);
  if (o.t_mult == 1) in_period = std::fmod(in_period, period);
  while (in_period >= period) {
    in_period -= period;
    period *= static_cast<double>(o.t_mult);
  }
  return o.eta_min + (o.base_lr - o.eta_min) * (1 + std::cos(std::numbers::pi * in_period / period)) / 2;
}

double cosine_with_restarts_rate(const schedule_options& o, double it) {
  const double b = it + 1;
  const auto warmup = static_cast<double>(o.num_warmup_steps), total = static_cast<double>(o.num_training_steps);
  if (b < warmup) return o.base_lr * (b / warmup);
  const double progress = (b - warmup) / std::max(1.0, total - warmup);
  if (progress >= 1) return 0;
  const double in_wave = std::fmod(static_cast<double>(o.num_cycles) * progress, 1.0);
  return o.base_lr * ((1 + std::cos(std::numbers::pi * in_wave)) / 2);
}

/// Returns the part of the rate that is left after the part `p` of the last stage of warmup_stable_decay, which ends
/// at 0.
double decayed(core::decay_shape shape, double p) {
  switch (shape) {
    case core::decay_shape::cosine:
      break;
    case core::decay_shape::linear:
      return 1 - p;
    case core::decay_shape::one_minus_sqrt:
      return 1 - std::sqrt(p);
  }
  return (1 + std::cos(std::numbers::pi * p)) / 2;
}

double stages_rate(const schedule_options& o, double it) {
  const double b = it + 1;
  const auto warmup = static_cast<double>(o.num_warmup_steps), decay = static_cast<double>(o.num_decay_steps),
             total = static_cast<double>(o.num_training_steps);
  double height = 1;
  if (b < warmup)
    height = b / warmup;
  else if (b >= total)
    height = 0;
  else if (b >= total - decay)
    height = decayed(o.decay_type, (b - (total - decay)) / decay);
  return o.base_lr * std::max(0.0, height * (1 - o.min_lr_ratio) + o.min_lr_ratio);
}

double warmup_rate(const schedule_options& o, double it) { return linear_rate(o, spans(o), it); }
double warmup_cosine_rate(const schedule_options& o, double it) { return o.base_lr * cosine_ratio(o, spans(o), it); }

/// A number among a schedule's options, with its configuration key, for error messages.
struct named_number {
  const char* key;
  double value;
};

/// Returns all numbers that a schedule of this type reads from the options, with their keys.
std::vector<named_number> numbers_of(const schedule_options& o) {
  const named_number rate{"lr", o.base_lr}, ratio{"ratio of the group's rate to the optimizer's", o.rate_ratio};
  switch (o.type) {
    case core::schedule_type::constant:
      return {rate};
    case core::schedule_type::warmup:
    case core::schedule_type::warmup_decay:
      return {rate, ratio, {"warmup_min_lr", o.warmup_min_lr}, {"warmup_max_lr", o.warmup_max_lr.value_or(0)}};
    case core::schedule_type::warmup_cosine:
      return {rate, {"warmup_min_ratio", o.warmup_min_ratio}, {"cos_min_ratio", o.cos_min_ratio}};
    case core::schedule_type::range_test:
      return {ratio,
              {"lr_range_test_min_lr", o.lr_range_test_min_lr},
              {"lr_range_test_step_rate", o.lr_range_test_step_rate}};
    case core::schedule_type::one_cycle:
      return {ratio,
              {"cycle_min_lr", o.cycle_min_lr},
              {"cycle_max_lr", o.cycle_max_lr},
              {"decay_lr_rate", o.decay_lr_rate},
              {"cycle_min_mom", o.cycle_min_mom},
              {"cycle_max_mom", o.cycle_max_mom},
              {"decay_mom_rate", o.decay_mom_rate}};
    case core::schedule_type::cosine_annealing:
      return {rate, {"eta_min", o.eta_min}};
    case core::schedule_type::linear:
      return {rate, {"start_factor", o.start_factor}, {"end_factor", o.end_factor}};
    case core::schedule_type::polynomial:
      return {rate, {"power", o.power}};
    case core::schedule_type::warm_restarts:
      return {rate, {"eta_min", o.eta_min}};
    case core::schedule_type::cosine_with_restarts:
      return {rate};
    case core::schedule_type::warmup_stable_decay:
      return {rate, {"min_lr_ratio", o.min_lr_ratio}};
  }
  return {};
}

/// Returns the configuration key and the value of the number of steps that a schedule of this type divides by, which
/// must not be 0, or that counts something which a schedule has at least once; the key is null if there is none.
std::pair<const char*, uint64_t> length_of(const schedule_options& o) {
  if (o.type == core::schedule_type::range_test) return {"lr_range_test_step_size", o.lr_range_test_step_size};
  if (o.type == core::schedule_type::one_cycle) return {"cycle_first_step_size", o.cycle_first_step_size};
  if (o.type == core::schedule_type::cosine_annealing) return {"T_max", o.t_max};
  if (o.type == core::schedule_type::linear || o.type == core::schedule_type::polynomial)
    return {"total_iters", o.total_iters};
  if (o.type == core::schedule_type::warm_restarts && o.t_0 == 0) return {"T_0", 0};
  if (o.type == core::schedule_type::warm_restarts) return {"T_mult", o.t_mult};
  if (o.type == core::schedule_type::cosine_with_restarts) return {"num_cycles", o.num_cycles};
  if (o.type == core::schedule_type::warmup_stable_decay) return {"num_decay_steps", o.num_decay_steps};
  return {nullptr, 1};
}

}  // namespace

core::result<void> check(const schedule_options& o) {
  const auto wanted = [](const std::string& what) { return core::refused("a schedule: wanted " + what); };
  if (o.type > core::schedule_type::warmup_stable_decay)
    return wanted(fmt::format("one of its types, got number {}", static_cast<int>(o.type)));
  for (const auto& [key, value] : numbers_of(o))
    if (!std::isfinite(value)) return wanted(std::string("a finite ") + key + ", got " + core::number_text(value));
  const auto [key, length] = length_of(o);
  if (length == 0) return wanted(std::string(key) + " of at least 1, got 0");
  if (o.type != core::schedule_type::warmup_stable_decay) return {};
  if (o.decay_type > core::decay_shape::one_minus_sqrt)
    return wanted(fmt::format("one of the decay types, got number {}", static_cast<int>(o.decay_type)));
  if (o.num_training_steps < o.num_decay_steps || o.num_training_steps - o.num_decay_steps < o.num_warmup_steps)
    return wanted(fmt::format("num_training_steps of at least num_warmup_steps {} plus num_decay_steps {}, got {}",
                              o.num_warmup_steps, o.num_decay_steps, o.num_training_steps));
  return {};
}

double learning_rate(const schedule_options& options, int64_t it) {
  if (!check(options)) return std::numeric_limits<double>::quiet_NaN();
  const auto at = static_cast<double>(std::max<int64_t>(it, -1));
  switch (options.type) {
    case core::schedule_type::constant:
      break;
    case core::schedule_type::warmup:
    case core::schedule_type::warmup_decay:
      return warmup_rate(options, at);
    case core::schedule_type::warmup_cosine:
      return warmup_cosine_rate(options, at);
    case core::schedule_type::range_test:
      return range_test_rate(options, at);
    case core::schedule_type::one_cycle:
      return one_cycle_rate(options, at);
    case core::schedule_type::cosine_annealing:
      return after_linear_warmup(options, at, cosine_annealing_rate);
    case core::schedule_type::linear:
      return after_linear_warmup(options, at, linear_factor_rate);
    case core::schedule_type::polynomial:
      return after_linear_warmup(options, at, polynomial_rate);
    case core::schedule_type::warm_restarts:
      return after_linear_warmup(options, at, warm_restarts_rate);
    case core::schedule_type::cosine_with_restarts:
      return cosine_with_restarts_rate(options, at);
    case core::schedule_type::warmup_stable_decay:
      return stages_rate(options, at);
  }
  return options.base_lr;
}

std::optional<double> momentum(const schedule_options& options, int64_t it) {
  if (options.type != core::schedule_type::one_cycle || !options.cycle_momentum) return std::nullopt;
  if (!check(options)) return std::numeric_limits<double>::quiet_NaN();
  if (it < 0) return options.cycle_min_mom;
  const cycle c(options);
  const auto position = static_cast<double>(it);
  if (position >= c.total) return options.cycle_max_mom * decay_after(options, c, options.decay_mom_rate, position);
  return options.cycle_max_mom - (options.cycle_max_mom - options.cycle_min_mom) * c.scale(position);
}

}  // namespace troupe::kernels
