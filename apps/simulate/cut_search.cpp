#include "apps/simulate/cut_search.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "apps/simulate/job_workload.hpp"
#include "apps/simulate/sweep.hpp"
#include "core/text.hpp"
#include "hardware/price.hpp"
#include "hardware/step_form.hpp"

namespace troupe::apps {
namespace {

bool is_faster(const priced_cut& a, const priced_cut& b) {
  return std::tuple(a.step_s, a.memory_bytes) < std::tuple(b.step_s, b.memory_bytes);
}

bool is_smaller(const priced_cut& a, const priced_cut& b) {
  return std::tuple(a.memory_bytes, a.step_s) < std::tuple(b.memory_bytes, b.step_s);
}

const char* schedule_of(const hardware::cut& what) { return what.chunks > 1 ? "interleaved_1f1b" : "1f1b"; }

/// A key that a search chooses, and whether a cut has a job's value of it.
struct searched_key {
  std::string_view key;
  bool (*is_of)(const hardware::cut& what, const config::job_config& of);
};

using hardware::cut;
using job_keys = config::job_config;
constexpr searched_key searched_keys[] = {
    {"parallel.tensor", [](const cut& c, const job_keys& of) { return c.tensor == of.parallel.tensor; }},
    {"parallel.pipeline", [](const cut& c, const job_keys& of) { return c.pipeline == of.parallel.pipeline; }},
    {"parallel.data", [](const cut& c, const job_keys& of) { return c.data == of.parallel.data; }},
    {"parallel.context", [](const cut& c, const job_keys& of) { return c.context == of.parallel.context; }},
    {"train_micro_batch_size_per_gpu",
     [](const cut& c, const job_keys& of) { return c.micro_batch == of.train_micro_batch_size_per_gpu; }},
    {"gradient_accumulation_steps",
     [](const cut& c, const job_keys& of) { return c.micro_batches == of.gradient_accumulation_steps; }},
    {"zero_optimization.stage", [](const cut& c, const job_keys& of) { return c.zero == of.zero_optimization.stage; }},
    {"activation_checkpointing.enabled",
     [](const cut& c, const job_keys& of) { return c.recompute == of.activation_checkpointing.enabled; }},
    {"pipeline.schedule",
     [](const cut& c, const job_keys& of) { return c.pipeline == 1 || of.pipeline.schedule == schedule_of(c); }},
    {"pipeline.chunks", [](const cut& c, const job_keys& of) { return c.chunks == std::max(of.pipeline.chunks, 1U); }},
};

}  // namespace

std::vector<std::string> overrides_of(const hardware::cut& what, const config::job_config& of) {
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
  if (what.context != of.parallel.context || what.context > 1)
    out.push_back(fmt::format("parallel.context={}", what.context));
  if (of.parallel.all)
    out.push_back(fmt::format("parallel.ranks={}", what.tensor * what.pipeline * what.data * what.context));
  if (what.pipeline > 1) out.push_back(fmt::format("pipeline.schedule={}", schedule_of(what)));
  if (what.pipeline > 1 || of.pipeline.chunks > 1) out.push_back(fmt::format("pipeline.chunks={}", what.chunks));
  return out;
}

bool fixed_keys::has(std::string_view key) const { return std::ranges::find(keys, key) != keys.end(); }

bool fixed_keys::allow(const hardware::cut& what, const config::job_config& of) const {
  for (const auto& row : searched_keys)
    if (has(row.key) && !row.is_of(what, of)) return false;
  return true;
}

core::result<fixed_keys> fixed_by(const std::vector<std::string>& set, const config::job_config& of) {
  fixed_keys out;
  for (const auto& assignment : set) {
    const std::string key(core::trimmed(std::string_view(assignment).substr(0, assignment.find('='))));
    for (const auto& row : searched_keys) {
      if (key == row.key) {
        if (!out.has(key)) out.keys.push_back(key);
      } else if (is_within(row.key, key)) {
        return core::refused(fmt::format(
            "--search: --set {} sets {}, which the search chooses; wanted single keys, such as {}=..., which fix it",
            core::shown(assignment), row.key, row.key));
      }
    }
    if (is_within("parallel.ranks", key))
      return core::refused(
          fmt::format("--search: --set {}: wanted --ranks for the number of ranks", core::shown(assignment)));
  }
  const auto& schedule = of.pipeline.schedule;
  if (out.has("pipeline.schedule") && schedule != "1f1b" && schedule != "interleaved_1f1b")
    return core::refused(fmt::format(
        "--search: pipeline.schedule: the cost model has 1f1b and interleaved_1f1b; wanted one of them, got {}",
        schedule));
  return out;
}

config::job_config with_cut(config::job_config job, const hardware::cut& what) {
  auto& p = job.parallel;
  p.tensor = static_cast<uint32_t>(what.tensor);
  p.pipeline = static_cast<uint32_t>(what.pipeline);
  p.data = static_cast<uint32_t>(what.data);
  p.context = static_cast<uint32_t>(what.context);
  job.train_batch_size = what.data * what.micro_batch * what.micro_batches;
  job.train_micro_batch_size_per_gpu = what.micro_batch;
  job.gradient_accumulation_steps = what.micro_batches;
  job.zero_optimization.stage = what.zero;
  job.activation_checkpointing.enabled = what.recompute;
  job.pipeline.chunks = static_cast<uint32_t>(what.chunks);
  if (what.pipeline > 1) job.pipeline.schedule = schedule_of(what);
  return job;
}

hardware::cut_space space_of(const config::job_config& job, const models::model_spec& spec, uint64_t sequence,
                             uint64_t ranks, const hardware::stack& by) {
  hardware::cut_space out{.ranks = ranks,
                          .global_batch = job.train_batch_size,
                          .layers = spec.layers,
                          .heads = spec.heads,
                          .kv_heads = spec.kv_heads,
                          .width = spec.width,
                          .inner = spec.inner,
                          .contexts = {1}};
  const auto* const form = hardware::step_form_of(by);
  if (form == nullptr || !form->fused_attention) return out;
  for (uint64_t c = 2; c <= most_context_ranks; c *= 2)
    if (sequence % (2 * c) == 0) out.contexts.push_back(c);
  const uint64_t own = job.parallel.context;
  if (std::ranges::find(out.contexts, own) == out.contexts.end()) out.contexts.push_back(own);
  return out;
}

core::result<cut_search> search_cuts(const config::job_config& job, const models::model_spec& spec, uint64_t sequence,
                                     uint64_t ranks, double memory_limit_bytes, const hardware::stack& by,
                                     const fixed_keys& fixed) {
  using hardware::quantity;
  const auto* const step = by.find(quantity::step);
  const auto* const memory = by.find(quantity::memory);
  if (step == nullptr || memory == nullptr)
    return core::refused(fmt::format("--search: the stack {} has no constants of {}, by which ways are chosen", by.name,
                                     step == nullptr ? "steps" : "memory"));
  cut_search out;
  const auto refuse = [&](const std::string& why) { ++out.refused[why]; };
  const auto counted = count_model(spec, sequence);
  for (const auto& cut : hardware::cuts_of(space_of(job, spec, sequence, ranks, by))) {
    if (!fixed.allow(cut, job)) continue;
    ++out.enumerated;
    const auto workload = workload_of_job(with_cut(job, cut), spec, sequence, by, counted);
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
        fmt::format("--search: no degrees divide {} ranks, the model's heads and layers, and {} samples{}", ranks,
                    job.train_batch_size,
                    fixed.keys.empty() ? "" : fmt::format(", with {} as given", fmt::join(fixed.keys, ", "))));
  if (out.fitting.empty() && out.exceeding.empty()) {
    const auto most = std::ranges::max_element(out.refused, {}, [](const auto& one) { return one.second; });
    return core::refused(fmt::format("--search: none of {} ways can be predicted; {} of them because of {}",
                                     out.enumerated, most->second, most->first));
  }
  std::ranges::stable_sort(out.fitting, is_faster);
  std::ranges::stable_sort(out.exceeding, is_smaller);
  return out;
}

}  // namespace troupe::apps
