#include "apps/simulate/hardware_prediction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hardware/step_form.hpp"

namespace troupe::apps {
namespace {

predicted_quantity predicted(hardware::quantity q, const hardware::workload& w, const hardware::stack& by) {
  const auto& model = *by.find(q);
  predicted_quantity out;
  out.price = {hardware::price_of(q, w, by.on, model.values), hardware::interval_factor(model, w)};
  out.parts = hardware::parts_of(q, w, by.on, model.values);
  out.influences = hardware::influences_of(q, w, by.on, model.values, hardware::named_influences);
  return out;
}

/// Returns a value of a size in fitted_sizes.
double size_of_job(std::string_view size, const job_workload& job) {
  if (size == "hidden") return job.what.hidden;
  return size == "layers" ? job.what.layers : double(job.ranks);
}

std::vector<std::string> extrapolations(const job_workload& job, const hardware::stack& by) {
  const auto& from = by.inherited_from.empty() ? by.name : by.inherited_from;
  std::vector<std::string> out;
  if (by.fitted_from.empty())
    out.push_back(
        fmt::format("{} does not state the sizes to which it was fitted (fitted_from), so this may be an "
                    "extrapolation",
                    by.name));
  for (const auto& range : by.fitted_from) {
    const double value = size_of_job(range.size, job);
    if (range.holds(value)) continue;
    const auto fitted = range.least == range.most ? fmt::format("{:g}", range.least)
                                                  : fmt::format("{:g} to {:g}", range.least, range.most);
    out.push_back(fmt::format("extrapolated: {} {:g} is outside of the {} to which {} was fitted", range.size, value,
                              fitted, from));
  }
  return out;
}

std::string placement_of(const job_workload& job, const hardware::stack& by) {
  const auto& w = job.what;
  const double node = by.on.node_gpus, near = w.tensor * w.context;
  const double data_inside = std::min(std::max(node / near, 1.0), w.data);
  return fmt::format(
      "ranks are placed on nodes of {:g} GPUs by axis, tensor ranks closest, then context, data and "
      "pipeline: {:g} of {:g} tensor ranks and {:g} of {:g} data ranks share a node",
      node, std::min(w.tensor, node), w.tensor, std::floor(data_inside), w.data);
}

std::vector<std::string> assumptions(const job_workload& job, const hardware::stack& by) {
  const auto& w = job.what;
  const auto& form = *hardware::step_form_of(by);
  std::vector<std::string> out;
  out.push_back(fmt::format(
      "the step is that of {}, with {}{}{}", by.software,
      form.fused_attention ? "fused attention that skips what is masked" : "attention that writes its scores to memory",
      w.tensor == 1            ? ""
      : form.sequence_parallel ? ", norms divided over tensor ranks"
                               : ", norms on every tensor rank",
      w.early_stop ? ", recomputation that stops before a block's last product" : ""));
  if (!by.inherited_from.empty())
    out.push_back(fmt::format("{} has the constants of {}: {}", by.name, by.inherited_from, by.because));
  out.push_back(placement_of(job, by));
  if (w.pipeline > 1)
    out.push_back(
        fmt::format("stages have equal numbers of layers, by {}",
                    w.chunks > 1 ? fmt::format("interleaved 1F1B with {:g} chunks a rank", w.chunks) : "1F1B"));
  if (w.data > 1 && w.zero == 3)
    out.emplace_back("each layer is gathered for forward and again for backward of every micro-batch");
  if (w.data > 1)
    out.push_back(fmt::format("ranks exchange gradients with {:g} bytes an element and add them up with {:g}",
                              job.reduced_bytes, job.summed_bytes));
  out.emplace_back("no checkpoint, evaluation or wait for data is in the step");
  return out;
}

}  // namespace

std::optional<hardware::fit_of_memory> hardware_prediction::fit() const {
  if (memory.empty()) return std::nullopt;
  return hardware::fit_in(by.on, memory.front().price);
}

core::result<hardware_prediction> predict_on_hardware(job_workload job, hardware::stack by) {
  const auto* const steps = by.find(hardware::quantity::step);
  if (steps == nullptr) return core::refused(fmt::format("the stack {} has no constants of steps", by.name));
  if (const auto ok = hardware::needs_of(hardware::quantity::step, job.what, by.on, steps->values); !ok)
    return core::refused(fmt::format("{}: {}", by.name, ok.error().text));
  hardware_prediction out;
  out.step = predicted(hardware::quantity::step, job.what, by);
  const auto* const peaks = by.find(hardware::quantity::memory);
  if (peaks == nullptr)
    out.no_memory = fmt::format("{} has no constants of memory", by.name);
  else if (const auto ok = hardware::needs_of(hardware::quantity::memory, job.what, by.on, peaks->values); !ok)
    out.no_memory = fmt::format("{}: {}", by.name, ok.error().text);
  else
    out.memory.push_back(predicted(hardware::quantity::memory, job.what, by));
  const double step_s = out.step.price.predicted, ranks = double(job.ranks);
  out.nodes = std::ceil(ranks / by.on.node_gpus);
  out.tokens_per_s = double(job.global_batch) * double(job.sequence) / step_s;
  out.flops_per_s = job.step_flops / step_s / ranks;
  out.used_share = out.flops_per_s / by.on.peak_flops_per_s;
  out.warnings = extrapolations(job, by);
  out.assumed = assumptions(job, by);
  out.job = std::move(job);
  out.by = std::move(by);
  return out;
}

}  // namespace troupe::apps
