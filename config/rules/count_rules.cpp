// Rules of jobs whose steps have different numbers of micro-batches. Leaves the numbers to
// config/sections/step_counts.hpp, which plans ask, too, when the degree of a run changes.
#include <string>
#include <utility>

#include "config/rules/resolve.hpp"
#include "config/sections/step_counts.hpp"

namespace troupe::config {

void count_rules(const settings& given, const job_config& config, reporter& report, purpose why) {
  constexpr const char *ramp = "data.rampup_batch_size", *managed = "managed_gradient_accumulation";
  const auto error = [&](const std::string& key, std::string text) {
    report.error(given.where(key), key, std::move(text));
  };
  for (const char* key : {ramp, managed, "train_batch_size", "train_micro_batch_size_per_gpu",
                          "gradient_accumulation_steps", "parallel", "parallel.data", "elasticity.enabled"})
    if (given.was_refused(key)) return;
  // A plain DeepSpeed file does not state the number of ranks, on which the numbers depend.
  if (why == purpose::deepspeed || config.train_batch_size == 0 || config.train_micro_batch_size_per_gpu == 0) return;
  if (why == purpose::host_job) {
    if (!config.managed_gradient_accumulation)
      error(managed,
            "cannot be combined with a host program's own modules yet, whose steps have equal numbers of "
            "micro-batches; set it to true");
    return;
  }
  if (auto found = find_count_problem(config)) error(found->key, std::move(found->text));
}

}  // namespace troupe::config
