#include "apps/tune/priced_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "apps/simulate/candidate.hpp"
#include "core/system/cores.hpp"
#include "job/degrees.hpp"

namespace troupe::apps {
namespace {

/// Returns a sentence with one `#` in place of each number.
std::string without_numbers(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  }
  return out;
}

/// Returns why a planned job computes another step than the file's; empty if it does not.
std::string other_step(const job::blueprint& b, const tuned_step& step) {
  const auto& c = *b.config;
  if (c.parallel.ranks() != step.ranks)
    return fmt::format("parallel.ranks: wanted the file's {} ranks, got {}", step.ranks, c.parallel.ranks());
  if (c.train_batch_size != step.samples)
    return fmt::format("train_batch_size: wanted the file's {} samples a step, got {}", step.samples,
                       c.train_batch_size);
  if (b.sequence != step.tokens_of_sample)
    return fmt::format("data.sequence_length: wanted the file's {} tokens a sample, got {}", step.tokens_of_sample,
                       b.sequence);
  return {};
}

}  // namespace

tl::expected<job::blueprint, std::vector<std::string>> planned_job(const common_arguments& job,
                                                                   const tune_constants& constants) {
  auto loaded = checked_configuration(job, intent::plan);
  if (!loaded) return tl::unexpected(sentences_of(loaded.error()));
  const auto model = constants.model_for(loaded->config);
  auto planned =
      job::make_blueprint(std::make_shared<const config::job_config>(std::move(loaded->config)), {}, &model.costs);
  if (!planned) return tl::unexpected(std::vector<std::string>{planned.error().text});
  return std::move(*planned);
}

priced_setting priced(offered_setting offered, const job::blueprint& b) {
  priced_setting out;
  static_cast<offered_setting&>(out) = std::move(offered);
  const auto plans = b.train.plans();
  for (size_t i = 0; i < plans.size(); ++i)
    out.memory_bytes += plans[i]->memory.total() * b.train.classes()[i].ranks.size();
  out.predicted_s = job::predicted_step_s(b.train, b.costs, std::max(1U, core::usable_cores()));
  return out;
}

priced_settings price_settings(const common_arguments& job, const tune_constants& constants, const tuned_step& step,
                               priced_setting own, const std::vector<offered_setting>& offered,
                               uint64_t memory_limit_bytes, const std::function<bool(uint64_t planned)>& stops) {
  priced_settings out;
  out.own = std::move(own);
  out.compared = 1 + offered.size();
  refusal_count refused;
  uint64_t count = 0;
  for (const auto& one : offered) {
    out.stopped = stops(count++);
    if (out.stopped) break;
    common_arguments with = job;
    with.set.insert(with.set.end(), one.set.begin(), one.set.end());
    const auto planned = planned_job(with, constants);
    if (!planned) {
      refused.add(planned.error().empty() ? std::string("it cannot be loaded") : planned.error().front());
      continue;
    }
    if (const auto why = other_step(*planned, step); !why.empty()) {
      refused.add(why);
      continue;
    }
    auto with_price = priced(one, *planned);
    (with_price.memory_bytes <= memory_limit_bytes ? out.fitting : out.exceeding).push_back(std::move(with_price));
  }
  std::ranges::stable_sort(out.fitting, [](const auto& a, const auto& b) {
    return std::tie(a.predicted_s, a.memory_bytes) < std::tie(b.predicted_s, b.memory_bytes);
  });
  std::ranges::stable_sort(out.exceeding, {}, &priced_setting::memory_bytes);
  out.refused = refused.sorted();
  return out;
}

void refusal_count::add(const std::string& why) {
  auto& at = all_[without_numbers(why)];
  if (at.count++ == 0) at.why = why;
}

std::vector<refused_settings> refusal_count::sorted() const {
  std::vector<refused_settings> out;
  for (const auto& [pattern, one] : all_) out.push_back(one);
  std::ranges::stable_sort(out, std::ranges::greater{}, &refused_settings::count);
  return out;
}

std::vector<priced_setting> settings_to_try(const priced_settings& from, uint64_t most, bool all) {
  if (all) return from.fitting;
  std::vector<priced_setting> out;
  std::set<std::string> families;
  std::set<std::pair<double, uint64_t>> prices;
  if (from.own.refusal.empty()) prices.emplace(from.own.predicted_s, from.own.memory_bytes);
  for (const auto& one : from.fitting) {
    if (out.size() == most) break;
    if (families.contains(one.family) || !prices.emplace(one.predicted_s, one.memory_bytes).second) continue;
    families.insert(one.family);
    out.push_back(one);
  }
  return out;
}

}  // namespace troupe::apps
