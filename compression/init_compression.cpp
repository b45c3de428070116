#include "compression/init_compression.hpp"

#include <ATen/core/grad_mode.h>

#include <exception>
#include <utility>

#include "compression/host_layers.hpp"
#include "compression/student_initialization.hpp"
#include "job/compression/clean.hpp"
#include "job/compression/mask_scores.hpp"
#include "job/model/configured_model.hpp"
#include "job/model/layer_reduction.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/module_builder.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/random_turn.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::compression {
namespace {

core::result<void> compresses(const std::shared_ptr<const config::job_config>& config) {
  if (config == nullptr) return fail(error_kind::bad_input, "init_compression: the configuration is missing");
  if (config->compression.any() || config->compression.layers.enabled) return {};
  return fail(error_kind::bad_input, "compression_training: init_compression requires an enabled technique, got none");
}

/// Checks everything that can be refused before the run, and returns the plan for removing rows and columns of related
/// modules. Errors: those of a run that compresses as `config` requests, and of redundancy_clean after that run.
core::result<std::shared_ptr<const job::cleaning>> check(const config::job_config& config, core::model_table table,
                                                         std::optional<uint64_t> rows, job::widths_said said) {
  TROUPE_TRY(job::check_layer_reduction(config, table));
  TROUPE_TRY(job::add_scores(config, table));
  job::chosen_tensor uncut;
  uncut.whole = std::make_shared<const core::model_table>(table);
  TROUPE_TRY(job::choose_compression(config, table, uncut, rows));
  return job::plan_related(config, table, said);
}

/// Calls `factory` with torch's generator seeded by `seed`, as a session does, and restores the generator's state.
/// `what` names the model in errors.
core::result<models::module_model> made(const models::module_factory& factory, uint64_t seed, const char* what) {
  if (!factory) return fail(error_kind::bad_input, std::string("init_compression: ") + what + " has no factory");
  const models::random_turn turn({seed, 0, 0, 0, models::drawing_a_model});
  try {
    return factory();
  } catch (const std::exception& e) {
    return fail(error_kind::bad_input,
                std::string("init_compression: the factory of ") + what + " failed: " + models::line_of(e));
  }
}

using unit_values = std::vector<at::Tensor>;

void begin_with(const models::module_unit& unit, const unit_values& values) {
  const at::NoGradGuard no_grad;
  const auto own = models::parts_of(unit).parameters;
  for (size_t i = 0; i < own.size() && i < values.size(); ++i)
    if (values[i].defined()) own[i].tensor.detach().copy_(values[i]);
}

/// Returns a factory that calls `make` and then copies `values`, [unit][parameter], into the parameters of the model; a
/// unit with a factory of its own receives its values when it is built.
models::module_factory beginning_with(models::module_factory make, std::vector<unit_values> values) {
  auto shared = std::make_shared<const std::vector<unit_values>>(std::move(values));
  return [make = std::move(make), shared] {
    models::module_model model = make();
    for (size_t u = 0; u < model.units.size() && u < shared->size(); ++u) {
      auto& unit = model.units[u];
      if (unit.module != nullptr) begin_with(unit, (*shared)[u]);
      if (unit.module != nullptr || unit.recipe == nullptr) continue;
      auto recipe = *unit.recipe;
      recipe.use = [use = unit.recipe->use, shared, u](const std::shared_ptr<void>& from) {
        auto built = use(from);
        begin_with({.name = "", .module = built.module, .forward = nullptr}, (*shared)[u]);
        return built;
      };
      unit.recipe = std::make_shared<const models::module_recipe>(std::move(recipe));
    }
    return model;
  };
}

core::result<void> take_layers(actors::host_model& model, std::shared_ptr<const config::job_config>& config,
                               const models::module_model& student, const models::module_factory& teacher) {
  TROUPE_ASSIGN(auto from, made(teacher, config->seed, "the teacher"));
  models::module_builder builder(config->seed);
  for (size_t u = 0; u < from.units.size(); ++u)
    if (auto ok = builder.build(from, u); !ok) return fail(ok.error().in("init_compression: the teacher"));
  TROUPE_ASSIGN(auto values, first_values(student, from, *config));
  model.make = beginning_with(std::move(model.make), std::move(values));
  auto rest = *config;
  // The factory of the model copies the teacher's layers, so the session must not do it again.
  rest.compression.layers.enabled = false;
  config = std::make_shared<const config::job_config>(std::move(rest));
  return {};
}

}  // namespace

core::result<actors::session_options> init_compression(actors::host_model model,
                                                       std::shared_ptr<const config::job_config> config,
                                                       const models::module_factory& teacher) {
  TROUPE_TRY(compresses(config));
  const bool reduces = config->compression.layers.enabled;
  if (reduces != static_cast<bool>(teacher))
    return fail(error_kind::bad_input, reduces ? "compression_training.layer_reduction.enabled: requires a teacher "
                                                 "that provides the model's first layers, got none"
                                               : "init_compression: a teacher requires "
                                                 "compression_training.layer_reduction: enable it, or pass no teacher");
  TROUPE_ASSIGN(const auto first, made(model.make, config->seed, "the model"));
  TROUPE_ASSIGN(auto layers, host_layers_of(first, config->seed));
  TROUPE_ASSIGN(const auto cut, check(*config, layers.table, std::nullopt, job::widths_said::by_modules));
  TROUPE_TRY(layers.may_cut(*cut));
  if (reduces) TROUPE_TRY(take_layers(model, config, first, teacher));
  actors::session_options out;
  out.config = std::move(config);
  out.model = actors::own_model(std::move(model));
  return out;
}

core::result<actors::session_options> init_compression(std::shared_ptr<const config::job_config> config) {
  TROUPE_TRY(compresses(config));
  TROUPE_ASSIGN(const auto model, job::read_model(*config));
  auto table = models::make_model_table(model.spec, 1, model.sequence, core::size_of(core::dtype::f32));
  TROUPE_TRY(check(*config, std::move(table), model.sequence, job::widths_said::by_config_json));
  actors::session_options out;
  out.config = std::move(config);
  return out;
}

}  // namespace troupe::compression
