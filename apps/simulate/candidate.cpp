#include "apps/simulate/candidate.hpp"

#include <fmt/format.h>

#include <utility>

#include "apps/simulate/job_workload.hpp"
#include "job/model/configured_model.hpp"

namespace troupe::apps {

std::vector<std::string> sentences_of(const std::vector<config::diagnostic>& problems) {
  std::vector<std::string> out;
  for (const auto& one : problems)
    if (one.severity == config::diagnostic::error)
      out.push_back(one.key.empty() ? one.text : one.key + ": " + one.text);
  return out;
}

core::result<std::vector<std::string>> overrides_for(const config::loaded& before, uint64_t ranks) {
  if (!before.config.open_degrees.empty())
    return core::refused("--ranks: wanted a job whose degrees are numbers, got one with degrees that are auto");
  TROUPE_ASSIGN(const uint32_t data, data_degree_for(before.config.parallel, ranks));
  std::vector<std::string> out{fmt::format("parallel.data={}", data)};
  if (before.config.parallel.all) out.push_back(fmt::format("parallel.ranks={}", ranks));
  return out;
}

config::load_result before_ranks(const common_arguments& job, uint64_t ranks) {
  auto out = checked_configuration(job, intent::plan);
  if (out) return out;
  const auto with = [&job](std::vector<std::string> more) {
    common_arguments other = job;
    other.set.insert(other.set.end(), more.begin(), more.end());
    return checked_configuration(other, intent::plan);
  };
  if (auto alone = with({"parallel.data=1"})) return alone;
  // A stated number of ranks is the product of all degrees: each divisor may be that of the data ranks.
  for (uint64_t data = 1; data <= ranks; ++data)
    if (ranks % data == 0)
      if (auto stated = with({fmt::format("parallel.ranks={}", ranks), fmt::format("parallel.data={}", data)}))
        if (stated->config.parallel.ranks() == ranks) return stated;
  return out;
}

candidate predict_with_ranks(const common_arguments& job, uint64_t ranks, const hardware::stack& by) {
  const auto before = before_ranks(job, ranks);
  if (!before) return tl::unexpected(sentences_of(before.error()));
  const auto more = overrides_for(*before, ranks);
  if (!more) return tl::unexpected(std::vector<std::string>{more.error().text});
  common_arguments with = job;
  with.set.insert(with.set.end(), more->begin(), more->end());
  return predict_candidate(with, by);
}

candidate predict_candidate(const common_arguments& job, const hardware::stack& by) {
  const auto refused = [](std::string why) { return tl::unexpected(std::vector<std::string>{std::move(why)}); };
  const auto loaded = checked_configuration(job, intent::plan);
  if (!loaded) return tl::unexpected(sentences_of(loaded.error()));
  const auto model = job::read_model(loaded->config);
  if (!model) return refused(model.error().text);
  auto workload = workload_of_job(loaded->config, model->spec, model->sequence, by);
  if (!workload) return tl::unexpected(std::move(workload.error()));
  auto found = predict_on_hardware(*std::move(workload), by);
  if (!found) return refused(found.error().text);
  return std::move(*found);
}

}  // namespace troupe::apps
