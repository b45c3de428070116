#include "apps/simulate/job_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/simulate/hardware_report.hpp"
#include "apps/simulate/job_ranks.hpp"
#include "hardware/catalogue.hpp"
#include "job/model/configured_model.hpp"

namespace troupe::apps {
namespace {

/// Returns what each data rank computes in a step.
std::string micro_batches_of(const config::job_config& job) {
  const uint64_t count = job.gradient_accumulation_steps;
  return fmt::format("{} micro-batch{} of {}", count, count == 1 ? "" : "es", job.train_micro_batch_size_per_gpu);
}

std::string batch_sentence(const config::job_config& job) {
  return fmt::format("{} samples: {} data rank{} x {}", job.train_batch_size, job.parallel.data,
                     job.parallel.data == 1 ? "" : "s", micro_batches_of(job));
}

/// Says which batch a job has with other data ranks than its file, `before`, has.
std::string batch_with_ranks(const config::job_config& before, const config::job_config& job) {
  const auto taken = batch_sentence(job);
  if (before.parallel.data == job.parallel.data) return taken;
  if (before.train_batch_size == job.train_batch_size)
    return fmt::format("{}; the file's train_batch_size, which {} data ranks divide into {}", taken,
                       before.parallel.data, micro_batches_of(before));
  return fmt::format("{}; the file's is {} on {} data ranks, and changes with them because {}", taken,
                     before.train_batch_size, before.parallel.data,
                     job.elasticity.enabled ? "elasticity chooses it" : "it gives no train_batch_size");
}

/// Returns other stacks of the same card with constants of steps, as the end of a sentence; empty if there are none.
std::string other_stacks_of(const hardware::stack& by) {
  std::string out;
  if (const auto all = hardware::embedded_stacks(); all)
    for (const auto& other : *all)
      if (other.card_name == by.card_name && other.name != by.name && other.find(hardware::quantity::step) != nullptr)
        out += (out.empty() ? "" : ", ") + other.name;
  return out.empty() ? "" : fmt::format("; other stacks of {} are {}", by.card_name, out);
}

}  // namespace

int show_job_prediction(const simulate_arguments& a) {
  const auto& named = a.measured.hardware.front();
  auto by = hardware::choose_job_stack(named);
  if (!by) return failed(by.error());
  std::optional<config::job_config> before;
  const auto loaded = load_with_ranks(a, before);
  if (!loaded) return 2;
  std::string batch = before ? batch_with_ranks(*before, loaded->config) : batch_sentence(loaded->config);
  const auto model = job::read_model(loaded->config);
  if (!model) return failed(model.error());
  auto workload = workload_of_job(loaded->config, model->spec, model->sequence, *by);
  if (!workload) {
    for (const auto& problem : workload.error()) print_error_line("troupe: error: " + problem);
    return 2;
  }
  const auto others = other_stacks_of(*by);
  const auto found = predict_on_hardware(*std::move(workload), *by);
  if (!found) return failed({found.error().kind, found.error().text + others});
  const prediction_request asked{a.file, by->name == named || named.ends_with(".yaml") ? "" : named, std::move(batch)};
  const auto text = a.form == output_form::json ? prediction_as_json(asked, *found) : prediction_as_text(asked, *found);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
