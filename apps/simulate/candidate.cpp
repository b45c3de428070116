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

config::load_result before_ranks(const common_arguments& job) {
  auto out = checked_configuration(job, intent::plan);
  if (out) return out;
  common_arguments alone = job;
  alone.set.emplace_back("parallel.data=1");
  auto other = checked_configuration(alone, intent::plan);
  return other ? std::move(other) : std::move(out);
}

candidate predict_with_ranks(const common_arguments& job, uint64_t ranks, const hardware::stack& by) {
  const auto before = before_ranks(job);
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
