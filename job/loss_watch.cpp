#include "job/loss_watch.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::job {
namespace {

double median_of(std::span<const double> all) {
  std::vector<double> sorted(all.begin(), all.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  if (sorted.size() % 2 == 1) return *middle;
  return (*std::max_element(sorted.begin(), middle) + *middle) / 2;
}

}  // namespace

judged_loss judge_loss(const config::on_spike_section& how, std::span<const double> recent, const ended_step& step) {
  judged_loss out;
  if (how.action == config::spike_action::none) return out;
  const bool compares = !recent.empty() && recent.size() >= how.min_steps;
  if (compares) out.usual = median_of(recent);
  if (!std::isfinite(step.loss))
    out.is_spike = true;
  else if (step.skipped)
    out.is_spike = !step.expects_overflow;
  else
    out.is_spike = compares && out.usual > 0 && step.loss > how.factor * out.usual;
  return out;
}

void remember_loss(const config::on_spike_section& how, std::vector<double>& recent, const ended_step& step) {
  if (how.action == config::spike_action::none || step.skipped || !std::isfinite(step.loss)) return;
  recent.push_back(step.loss);
  if (recent.size() > how.window) recent.erase(recent.begin(), recent.end() - static_cast<ptrdiff_t>(how.window));
}

}  // namespace troupe::job
