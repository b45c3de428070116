#include "actors/verdict.hpp"

#include <cmath>
#include <limits>

#include "job/step/step_rules.hpp"
#include "kernels/optimizer/clipping.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::actors {

namespace {

/// Returns `factor` rounded to the type of master weights, with which updates multiply: fp32 unless masters are fp64.
double as_masters_take(const plan::rank_plan& p, double factor) {
  return p.options().master() == core::dtype::f64 ? factor : double(static_cast<float>(factor));
}

}  // namespace

double factor_of_mean(const plan::rank_plan& p, double loss_scale, const job::scaling_rules& rules) {
  return 1.0 / (double(p.options().data()) * p.options().accumulation * loss_scale * rules.input_scale);
}

double unclipped_scale(const plan::rank_plan& p, double loss_scale, const job::scaling_rules& rules) {
  return as_masters_take(p, factor_of_mean(p, loss_scale, rules));
}

verdict judge(const plan::rank_plan& p, std::span<const double> votes, double loss_scale,
              const job::scaling_rules& rules, uint32_t micros) {
  verdict v;
  for (uint64_t b = 0; b < p.layout->num_blocks; ++b) v.square_sum += votes[b];
  if (micros == 0) micros = p.options().accumulation;
  const double contributions = double(p.options().data()) * micros;
  for (uint32_t m = 0; m < micros; ++m)
    for (uint32_t r = 0; r < p.options().data(); ++r) v.loss += votes[plan::loss_offset(*p.layout, r, m)];
  v.loss /= contributions;
  const double mean_factor = factor_of_mean(p, loss_scale, rules);
  v.grad_norm = std::sqrt(v.square_sum) * mean_factor;
  v.overflow = !std::isfinite(v.square_sum);
  v.skipped = v.overflow && rules.skip_overflow;
  v.gradient_scale = as_masters_take(p, mean_factor / kernels::clip_factor(v.grad_norm, rules.clip));
  for (uint64_t k = 0; k < plan::calibrated(*p.layout); ++k) {
    kernels::value_range<double> all{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    const uint64_t end = plan::vote_elements(*p.layout), each = 2 * plan::calibrated(*p.layout);
    for (uint64_t at = plan::loss_offset(*p.layout, p.options().data(), 0) + 2 * k; at < end; at += each)
      all = kernels::joined(all, {votes[at], votes[at + 1]});
    v.input_ranges.push_back(all);
  }
  v.clipped = !v.skipped && v.gradient_scale != unclipped_scale(p, loss_scale, rules);
  return v;
}

}  // namespace troupe::actors
