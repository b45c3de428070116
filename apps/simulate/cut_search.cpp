#include "apps/simulate/cut_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "apps/simulate/job_workload.hpp"
#include "hardware/price.hpp"

namespace troupe::apps {
namespace {

bool is_faster(const priced_cut& a, const priced_cut& b) {
  return std::tuple(a.step_s, a.memory_bytes) < std::tuple(b.step_s, b.memory_bytes);
}

bool is_smaller(const priced_cut& a, const priced_cut& b) {
  return std::tuple(a.memory_bytes, a.step_s) < std::tuple(b.memory_bytes, b.step_s);
}

const char* schedule_of(const hardware::cut& what) { return what.chunks > 1 ? "interleaved_1f1b" : "1f1b"; }

}  // namespace

std::vector<std::string> overrides_of(const hardware::cut& what) {
  std::vector<std::string> out{
      fmt::format("parallel.tensor={}", what.tensor),
      fmt::format("parallel.pipeline={}", what.pipeline),
      fmt::format("parallel.data={}", what.data),
      fmt::format("train_batch_size={}", what.data * what.micro_batch * what.micro_batches),
      fmt::format("train_micro_batch_size_per_gpu={}", what.micro_batch),
      fmt::format("gradient_accumulation_steps={}", what.micro_batches),
      fmt::format("zero_optimization.stage={}", what.zero),
      fmt::format("activation_checkpointing.enabled={}", what.recompute),
  };
  if (what.pipeline == 1) return out;
  out.push_back(fmt::format("pipeline.schedule={}", schedule_of(what)));
  out.push_back(fmt::format("pipeline.chunks={}", what.chunks));
  return out;
}

config::job_config with_cut(config::job_config job, const hardware::cut& what) {
  auto& p = job.parallel;
  p.tensor = static_cast<uint32_t>(what.tensor);
  p.pipeline = static_cast<uint32_t>(what.pipeline);
  p.data = static_cast<uint32_t>(what.data);
  job.train_batch_size = what.data * what.micro_batch * what.micro_batches;
  job.train_micro_batch_size_per_gpu = what.micro_batch;
  job.gradient_accumulation_steps = what.micro_batches;
  job.zero_optimization.stage = what.zero;
  job.activation_checkpointing.enabled = what.recompute;
  if (what.pipeline == 1) return job;
  job.pipeline.schedule = schedule_of(what);
  job.pipeline.chunks = static_cast<uint32_t>(what.chunks);
  return job;
}

hardware::cut_space space_of(const config::job_config& job, const models::model_spec& spec, uint64_t ranks) {
  return {.ranks = ranks,
          .global_batch = job.train_batch_size,
          .layers = spec.layers,
          .heads = spec.heads,
          .kv_heads = spec.kv_heads,
          .width = spec.width,
          .inner = spec.inner,
          .context = job.parallel.context};
}

core::result<cut_search> search_cuts(const config::job_config& job, const models::model_spec& spec, uint64_t sequence,
                                     uint64_t ranks, double memory_limit_bytes, const hardware::stack& by) {
  using hardware::quantity;
  const auto* const step = by.find(quantity::step);
  const auto* const memory = by.find(quantity::memory);
  if (step == nullptr || memory == nullptr)
    return core::refused(fmt::format("--search: the stack {} has no constants of {}, by which ways are chosen", by.name,
                                     step == nullptr ? "steps" : "memory"));
  cut_search out;
  const auto refuse = [&](const std::string& why) { ++out.refused[why]; };
  for (const auto& cut : hardware::cuts_of(space_of(job, spec, ranks))) {
    ++out.enumerated;
    const auto workload = workload_of_job(with_cut(job, cut), spec, sequence, by);
    if (!workload) {
      for (const auto& why : workload.error()) refuse(why);
      continue;
    }
    const auto& w = workload->what;
    if (const auto ok = hardware::needs_of(quantity::step, w, by.on, step->values); !ok) {
      refuse(ok.error().text);
      continue;
    }
    if (const auto ok = hardware::needs_of(quantity::memory, w, by.on, memory->values); !ok) {
      refuse(ok.error().text);
      continue;
    }
    const priced_cut priced{cut, hardware::price_of(quantity::step, w, by.on, step->values),
                            hardware::price_of(quantity::memory, w, by.on, memory->values)};
    (priced.memory_bytes <= memory_limit_bytes ? out.fitting : out.exceeding).push_back(priced);
  }
  if (out.enumerated == 0)
    return core::refused(
        fmt::format("--search: no degrees divide {} ranks, the model's heads and layers, and {} samples", ranks,
                    job.train_batch_size));
  if (out.fitting.empty() && out.exceeding.empty()) {
    const auto most = std::ranges::max_element(out.refused, {}, [](const auto& one) { return one.second; });
    return core::refused(fmt::format("--search: none of {} ways can be predicted; {} of them because of {}",
                                     out.enumerated, most->second, most->first));
  }
  std::ranges::stable_sort(out.fitting, is_faster);
  std::ranges::stable_sort(out.exceeding, is_smaller);
  return out;
}

std::vector<priced_cut> frontier_of(const std::vector<priced_cut>& all) {
  std::vector<priced_cut> out;
  double least_bytes = std::numeric_limits<double>::infinity();
  for (const auto& one : all)
    if (one.memory_bytes < least_bytes) {
      least_bytes = one.memory_bytes;
      out.push_back(one);
    }
  return out;
}

}  // namespace troupe::apps
