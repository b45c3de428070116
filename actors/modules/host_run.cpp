#include "actors/modules/host_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "actors/aten_threads.hpp"
#include "actors/modules/host_policy.hpp"
#include "job/compile.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/module_table.hpp"
#include "models/host/random_turn.hpp"

namespace troupe::actors {
namespace {

core::error wrong_batch(const next_batch& k, const std::string& what) {
  return {error_kind::bad_input, fmt::format("the host's {} batch of step {}, micro-batch {}, rank {}: {}",
                                             k.which == plan::plan_choice::evaluate ? "evaluation" : "training", k.step,
                                             k.micro, k.rank, what)};
}

core::result<void> check_place(const models::host_batch& t) {
  const auto elsewhere = [](const at::Tensor& x) { return !x.defined() || !x.device().is_cpu(); };
  const auto fail = [](const std::string& text) { return core::fail(error_kind::bad_input, text); };
  if (elsewhere(t.input) || (t.target.defined() && elsewhere(t.target)))
    return fail("wanted an input and a target on the CPU, got " + models::shape_text(t.input) + " and " +
                models::shape_text(t.target));
  for (const auto& [name, value] : t.others)
    if (elsewhere(value) || name == "input")
      return fail("wanted further values on the CPU, not named 'input', got '" + name + "', " +
                  models::shape_text(value));
  return {};
}

core::result<models::host_batch> first_batch(const std::shared_ptr<const host_model>& model, uint64_t seed) {
  if (!model->largest) {
    next_batch first;
    first.which = plan::plan_choice::train;
    const auto batch = std::static_pointer_cast<const tensor_batch>(host_cut(model, seed)(first));
    if (batch->failure) return core::fail(*batch->failure);
    return batch->tensors;
  }
  try {
    const models::random_turn turn({seed, 0, 0, 0, models::drawing_a_batch});
    models::host_batch out = model->largest();
    if (auto ok = check_place(out); !ok) return core::fail(ok.error().in("the host's largest batch"));
    return out;
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, std::string("the host's largest batch: ") + models::line_of(e));
  }
}

/// Report of the changes that passes over units make to the first instance of a model; all other instances are changed
/// in the same way.
struct changed_units {
  std::vector<models::unit_account> accounts;
  std::optional<core::error> failure;
};

/// Returns the passes over units that the configuration names and those of the host program, in the order of their
/// contracts.
core::result<models::unit_pass_order> unit_passes_of(const host_model& model, const config::job_config& config) {
  std::vector<std::string> automatic;
  for (const auto& x : models::all_unit_passes())
    if (x.keeps_bits) automatic.push_back(x.name);
  models::unit_pass_order all;
  const auto wished = job::unit_passes_of(config, automatic);
  for (const auto& x : models::all_unit_passes())
    if (std::ranges::find(wished, x.name) != wished.end()) all.push_back(&x);
  for (const auto& x : model.passes) all.push_back(x.get());
  auto order = models::in_order(all);
  return order ? std::move(order) : core::fail(order.error().in("passes over units"));
}

/// Returns a factory that calls `make` and then runs the passes over units on the model; `make` itself if there are no
/// passes. `first`: the first micro-batch. `out` receives the report.
core::result<models::module_factory> with_passes(const models::module_factory& make, const host_model& model,
                                                 const config::job_config& config, const models::host_batch& first,
                                                 const std::shared_ptr<changed_units>& out) {
  TROUPE_ASSIGN(auto order, unit_passes_of(model, config));
  if (order.empty()) return make;
  models::unit_surroundings around;
  around.tensor = config.parallel.tensor;
  const auto& cut = config.pipeline;
  around.units_are_numbered =
      config.parallel.pipeline > 1 && (!cut.first_units.empty() || cut.partition.starts_with("type:"));
  const auto entries = config.compile.entries();
  around.recomputes = config.activation_checkpointing.enabled ||
                      (config.compile.memory_budget > 0 && std::ranges::any_of(entries, [&](const auto& x) {
                         return config.compile.is_automatic() || std::ranges::count(x.passes, "recompute") > 0;
                       }));
  if (std::ranges::any_of(order, [](const auto* x) { return x->reads_nodes; })) {
    TROUPE_ASSIGN(const auto made,
                  models::prepared_modules::make(make, 1, config.parameter_dtype(), config.seed, first));
    around.nodes = models::nodes_of(*made);
  }
  return models::module_factory([make, out, order = std::move(order), around = std::move(around)] {
    models::module_model m = make();
    auto done = models::run_unit_passes(m, around, order);
    if (!done) {
      out->failure = done.error();
      throw std::runtime_error(done.error().text);
    }
    if (out->accounts.empty()) out->accounts = std::move(*done);
    return m;
  });
}

}  // namespace

std::function<std::shared_ptr<const data::batch>(const next_batch&)> host_cut(std::shared_ptr<const host_model> model,
                                                                              uint64_t seed) {
  return [model = std::move(model), seed](const next_batch& k) -> std::shared_ptr<const data::batch> {
    const bool evaluates = k.which == plan::plan_choice::evaluate;
    auto out = std::make_shared<tensor_batch>();
    out->step = k.step;
    out->micro = k.micro;
    out->columns = 1;
    try {
      const one_aten_thread alone;
      const models::random_turn turn(
          {seed, k.step, k.micro, k.rank, evaluates ? models::drawing_an_evaluation : models::drawing_a_batch});
      out->tensors = (evaluates ? model->evaluation : model->training)(k.step, k.micro, k.rank);
    } catch (const std::exception& e) {
      out->failure = wrong_batch(k, models::line_of(e));
      return out;
    }
    if (auto ok = check_place(out->tensors); !ok) out->failure = wrong_batch(k, ok.error().text);
    return out;
  };
}

core::result<std::shared_ptr<models::prepared_modules>> prepare(const std::shared_ptr<const host_model>& model,
                                                                const config::job_config& config,
                                                                std::string* changes) {
  if (!model->make || !model->training)
    return core::fail(error_kind::bad_input,
                      std::string("own model: it has no ") + (model->make ? "training batches" : "factory"));
  auto factory = model->make;
  TROUPE_ASSIGN(const auto with_policy, policy_of(config));
  if (with_policy) factory = [make = model->make, with = with_policy] { return with(make()); };
  TROUPE_ASSIGN(const auto batch, first_batch(model, config.seed));
  auto changed = std::make_shared<changed_units>();
  TROUPE_ASSIGN(auto changing, with_passes(factory, *model, config, batch, changed));
  factory = std::move(changing);
  auto made = models::prepared_modules::make(factory, config.parallel.mesh().ranks(), config.parameter_dtype(),
                                             config.seed, batch, {}, config.parallel.tensor);
  if (changed->failure) return core::fail(*changed->failure);
  if (changes != nullptr) *changes = models::text_of(changed->accounts);
  // Requires, as DeepSpeed does, that at ZeRO stages 1 and 2 every parameter gets a gradient in the last micro-batch of
  // a step, unless ignore_unused_parameters is set.
  const auto& z = config.zero_optimization;
  if (made && !z.ignore_unused_parameters && (z.stage == 1 || z.stage == 2))
    (*made)->need_all_gradients_in(static_cast<uint32_t>(config.gradient_accumulation_steps - 1));
  return made;
}

job::host_tables tables_of(const host_modules& modules) {
  const auto* const own = modules.instances.get();
  if (own == nullptr) return {};
  return {&own->table(), &own->own_table(), &own->cut()};
}

}  // namespace troupe::actors
