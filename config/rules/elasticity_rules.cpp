// Derives a job's batch sizes from the section `elasticity`, and refuses keys that cannot be combined with it.
// DeepSpeed's own rules of elasticity are in config/sections/elasticity.hpp.
#include "config/sections/elasticity.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/rules/resolve.hpp"

namespace troupe::config {

void elasticity_rules(const settings& given, job_config& config, reporter& report, origins& derived,
                      bool knows_degrees) {
  constexpr std::string_view batch_keys[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                             "gradient_accumulation_steps"};
  constexpr std::string_view section = "elasticity", model = "elasticity.model_parallel_size";
  const auto& e = config.elasticity;
  const auto& p = config.parallel;
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
  };
  if (std::ranges::any_of(given.refused, [&](const std::string& key) { return key.starts_with(section); })) return;
  // Without these required keys nothing can be computed; deepspeed_rules.cpp reports them.
  for (const char* key : {"elasticity.max_train_batch_size", "elasticity.micro_batch_sizes"})
    if (given.value_of(key) == nullptr && !given.is_auto(key)) return;
  for (const std::string_view key : batch_keys) {
    if (given.value_of(key) == nullptr) continue;
    if (!e.ignore_non_elastic_batch_info)
      error(key, fmt::format("cannot be combined with elasticity.enabled: true, which chooses it; remove it, or set "
                             "elasticity.ignore_non_elastic_batch_info: true, got {}",
                             given.text_of(key)));
    else
      report.warn(given.where(key), std::string(key), "no effect: elasticity chooses it");
  }
  config.train_batch_size = config.train_micro_batch_size_per_gpu = config.gradient_accumulation_steps = 0;
  if (!knows_degrees) {
    if (auto wrong = elastic_problem_of(e)) error(wrong->key, std::move(wrong->text));
    return;
  }
  for (const std::string_view key : {"parallel", "parallel.data", "parallel.ranks", "parallel.tensor"})
    if (given.was_refused(key)) return;
  if (const uint64_t own = uint64_t{p.pipeline} * p.tensor; e.model_parallel_size > 1 && e.model_parallel_size != own)
    return error(model, fmt::format("wanted 1 or the job's pipeline {} x tensor {} = {}, got {}", p.pipeline, p.tensor,
                                    own, e.model_parallel_size));
  auto batch = elastic_batch_at(e, p.data);
  if (!batch) return error(batch.error().key, std::move(batch.error().text));
  config.train_batch_size = batch->train;
  config.train_micro_batch_size_per_gpu = batch->micro;
  config.gradient_accumulation_steps = batch->train / p.data / batch->micro;
  for (const std::string_view key : batch_keys) derived.insert_or_assign(std::string(key), "derived");
}

}  // namespace troupe::config
