#include "actors/run/run_states.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/memory/whole_states.hpp"
#include "actors/run/training_run.hpp"
#include "job/compression/mask_scores.hpp"
#include "job/model/adapters.hpp"
#include "job/model/configured_model.hpp"
#include "models/families/hugging_face.hpp"
#include "models/table/teacher.hpp"

namespace troupe::actors {
namespace {

const core::model_table& table_of(const training_run& run) { return *run.term->plan.tensor.whole; }

/// Returns an error for a parameter that does not exist, and for elements that it does not have.
core::result<void> check_elements(const core::model_table& t, uint32_t parameter, uint64_t first, uint64_t count) {
  if (parameter >= t.parameters.size())
    return core::fail(core::error_kind::bad_input,
                      fmt::format("parameter {}: wanted one of 0 to {}", parameter, t.parameters.size() - 1));
  const auto& p = t.parameters[parameter];
  if (first <= p.numel() && count <= p.numel() - first) return {};
  return core::fail(core::error_kind::bad_input,
                    fmt::format("parameter '{}': wanted elements within its {}, got {} from element {} on", p.name,
                                p.numel(), count, first));
}

}  // namespace

core::result<void> read_parameter(const training_run& run, uint32_t parameter, uint64_t first, std::span<float> out) {
  TROUPE_TRY(check_elements(table_of(run), parameter, first, out.size()));
  if (run.term->memory.offloaded != nullptr) return run.sound();
  // A frozen parameter has no master weight, only its own bytes, whole or in slices.
  const bool trains = table_of(run).parameters[parameter].trainable;
  return run.term->whole().read(parameter, trains ? plan::state_part::master : plan::state_part::copy,
                                {first, out.size()}, core::dtype::f32, reinterpret_cast<std::byte*>(out.data()));
}

core::result<void> read_moment(const training_run& run, uint32_t parameter, int which, std::span<float> out) {
  TROUPE_TRY(check_elements(table_of(run), parameter, 0, out.size()));
  if (which < 0 || which >= static_cast<int>(plan::max_moments))
    return core::fail(core::error_kind::bad_input, fmt::format("parameter '{}': wanted its moment 0, 1 or 2, got {}",
                                                               table_of(run).parameters[parameter].name, which));
  if (run.term->memory.offloaded != nullptr) return run.sound();
  std::fill(out.begin(), out.end(), 0.0F);  // the optimizer has no such moment
  return run.term->whole().read(parameter, plan::moment_part(static_cast<uint32_t>(which)), {0, out.size()},
                                core::dtype::f32, reinterpret_cast<std::byte*>(out.data()));
}

core::result<void> read_gradient(const training_run& run, uint32_t parameter, std::span<double> out) {
  TROUPE_TRY(check_elements(table_of(run), parameter, 0, out.size()));
  if (!table_of(run).parameters[parameter].trainable)
    return core::fail(core::error_kind::bad_input, "parameter '" + table_of(run).parameters[parameter].name +
                                                       "': wanted its gradient, but it is frozen and has none");
  if (run.term->memory.offloaded != nullptr) return run.sound();
  TROUPE_TRY(run.term->whole().read(parameter, plan::state_part::gradient, {0, out.size()}, core::dtype::f64,
                                    reinterpret_cast<std::byte*>(out.data())));
  for (double& g : out) g *= run.progress.gradient_factor.value_or(1);
  return {};
}

core::result<void> exchange_averages(training_run& run) {
  const auto& groups = *run.term->plan.optimizer;
  if (!groups.average) return core::refused("evaluation: the run keeps no average of its weights; add the section ema");
  TROUPE_TRY(run.sound());
  const auto& table = table_of(run);
  const whole_states states = run.term->whole();
  const core::dtype type = state_store(*states.ranks().front()).type_of(plan::state_part::master);
  std::vector<std::byte> weights, averages;
  const auto exchange = [&](uint32_t q, plan::slice range) -> core::result<void> {
    const auto part = plan::moment_part(job::own_moments(groups, q));
    weights.resize(range.count * core::size_of(type));
    averages.resize(weights.size());
    TROUPE_TRY(states.read(q, plan::state_part::master, range, type, weights.data()));
    TROUPE_TRY(states.read(q, part, range, type, averages.data()));
    TROUPE_TRY(states.write(q, part, range, type, weights.data()));
    TROUPE_TRY(states.write(q, plan::state_part::master, range, type, averages.data()));
    // also on ranks that hold the weights that the forward pass reads, but not the states
    return states.write(q, plan::state_part::copy, range, type, averages.data());
  };
  for (uint32_t q = 0; q < table.parameters.size(); ++q) {
    if (!table.parameters[q].trainable) continue;
    const uint64_t all = table.parameters[q].numel();
    for (uint64_t done = 0; done < all; done += state_window_elements)
      if (auto ok = exchange(q, {done, std::min(state_window_elements, all - done)}); !ok) {
        run.over.why = ok.error().in("weights and their averages are mixed");
        return ok;
      }
  }
  return {};
}

core::result<void> export_hugging_face(training_run& run, const std::string& folder, uint64_t max_shard_bytes) {
  const auto read = [&](uint32_t q, uint64_t first, std::span<float> out) -> core::result<void> {
    return read_parameter(run, q, first, out);
  };
  if (run.modules.model != nullptr)
    return core::fail(core::error_kind::bad_input,
                      "export: a host's own model cannot be written in Hugging Face's format");
  const auto read_named = [&](const std::string& name, uint64_t first, std::span<float> out) -> core::result<void> {
    const auto& all = table_of(run).parameters;
    const auto at = std::ranges::find(all, name, &core::parameter_info::name);
    return read_parameter(run, static_cast<uint32_t>(at - all.begin()), first, out);
  };
  if (const double cap = run.term->plan.config->loss.logit_soft_cap; cap > 0)
    run.host.say(fmt::format("'{}': {}", folder, job::unstated_soft_cap(cap)));
  if (run.term->plan.spec.adapters)
    return run.outlast([&] {
      return job::write_adapters(folder, run.term->plan.spec, run.term->plan.config->model.path, read_named);
    });
  return run.outlast([&] {
    return models::write_folder(folder, run.term->plan.spec,
                                models::without_teacher(job::without_scores(table_of(run))), core::dtype::f32, read,
                                max_shard_bytes);
  });
}

std::shared_ptr<const state_access_parts> states_of(training_run& run) {
  return std::make_shared<const state_access_parts>(state_access_parts{
      table_of(run), *run.term->plan.optimizer, run.term->whole(), run.progress.gradient_factor,
      [&run] {
        return compression_state{run.term->plan.config, run.progress.applied, run.term->pruner.saved_masks()};
      },
      [&run] { return run.sound(); }, [&run] { return run.saves.take_copies(); }});
}

core::result<offload_report> offload(training_run& run, const offload_request& request) {
  auto report = run.outlast([&]() -> core::result<offload_report> {
    TROUPE_TRY(run.saves.take_copies());
    return run.others->offload(request);
  });
  if (report && request.device == plan::tier::cpu)
    run.host.say(
        fmt::format("offload_states: without an accelerator, states are in host memory already: {} bytes "
                    "are counted there and none is freed; device nvme frees them",
                    report->moved_bytes));
  return report;
}

core::result<offload_report> offload_here(training_run& run, offload_request request) {
  const auto& config = *run.term->plan.config;
  if (request.nvme_path.empty()) request.nvme_path = config.swap_folder();
  if (request.device == plan::tier::nvme && !request.nvme_path.empty())
    if (const auto own = run.others->own_folder(request.nvme_path); own != request.nvme_path) {
      request.nvme_path = own;
      // an error is ignored here, because offload() then cannot open the folder and reports that
      std::error_code told_below;
      std::filesystem::create_directory(request.nvme_path, told_below);
    }
  auto& memory = run.term->memory;
  TROUPE_ASSIGN(auto done, offloaded_states::offload(memory.here, request,
                                                     config.swap_checksums ? page_digests::kept : page_digests::none));
  memory.offloaded = std::move(done);
  return memory.offloaded->report();
}

core::result<void> reload_here(training_run& run) {
  auto& memory = run.term->memory;
  if (memory.offloaded == nullptr) return {};
  TROUPE_TRY(memory.offloaded->reload(memory.here));
  memory.offloaded.reset();
  return {};
}

core::result<void> reload(training_run& run) {
  if (run.term->memory.offloaded == nullptr)
    return core::fail(core::error_kind::bad_input, "reload_states: no states are offloaded");
  return run.outlast([&] { return run.others->reload(); });
}

}  // namespace troupe::actors
