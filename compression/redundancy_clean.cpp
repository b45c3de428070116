#include "compression/redundancy_clean.hpp"

#include <ATen/core/grad_mode.h>

#include <system_error>

#include "actors/run/compression_state.hpp"
#include "actors/session/host_model.hpp"
#include "actors/session/state_access.hpp"
#include "checkpoint/convert/native_export.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "compression/clean_modules.hpp"
#include "compression/files/cleaned_source.hpp"
#include "core/text.hpp"
#include "job/compression/clean_values.hpp"
#include "job/compression/mask_scores.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"

namespace troupe::compression {
namespace {

/// Returns the largest allowed difference between outputs before and after removed rows, relative to the largest
/// output. The outputs differ slightly because sums over fewer numbers round differently.
double most_apart(at::ScalarType type) { return type == at::kBFloat16 ? 3e-2 : type == at::kHalf ? 4e-3 : 1e-5; }

core::error nothing_yet(uint64_t updates) {
  return {error_kind::bad_input, "redundancy_clean: wanted a run that has compressed something, got one after " +
                                     std::to_string(updates) + " updates, before its first technique begins"};
}

uint64_t elements_of(const models::module_model& model, const core::model_table& table) {
  uint64_t out = 0;
  for (const auto& t : models::parameters_of(model, table)) out += static_cast<uint64_t>(t.numel());
  return out;
}

/// Runs the model on `batch` in evaluation mode, and returns the outputs of its last unit.
core::result<models::named_values> outputs_of(const models::module_model& model, const core::model_table& table,
                                              const models::host_batch& batch) {
  const at::NoGradGuard no_grad;
  const auto switch_mode = models::mode_switch(model);
  switch_mode(false);
  core::result<models::named_values> out;
  try {
    const auto parameters = models::parameters_of(model, table);
    auto x = models::entering(batch, parameters.empty() ? at::kFloat : parameters.front().scalar_type(), at::kCPU);
    for (const auto& unit : model.units) x = unit.forward(x);
    out = std::move(x);
  } catch (const std::exception& e) {
    out = fail(error_kind::bad_input, models::line_of(e));
  }
  switch_mode(true);
  return out;
}

core::result<void> compare(const models::named_values& before, const models::named_values& after) {
  for (const auto& [name, was] : before) {
    if (!was.is_floating_point()) continue;
    const at::Tensor& now = after[name];
    if (now.sizes() != was.sizes())
      return fail(error_kind::bad_input,
                  "wanted outputs as before, " + models::shape_text(was) + ", got " + models::shape_text(now));
    const auto largest = [](const at::Tensor& t) {
      if (t.numel() == 0) return 0.0;
      const at::Tensor wide = t.to(at::kDouble).abs().max().contiguous();
      return *wide.const_data_ptr<double>();
    };
    const double apart = largest(now.to(at::kDouble).sub(was.to(at::kDouble))), size = largest(was);
    if (!(apart <= most_apart(was.scalar_type()) * size))
      return fail(error_kind::bad_input,
                  "wanted outputs as before, got some that differ by " + core::text_of("%.3g", apart) +
                      " at a size of " + core::text_of("%.3g", size) +
                      ": an operation between the modules turns a 0 into another value, or reads all of its inputs");
  }
  return {};
}

core::result<void> make_smaller(const models::module_model& model, const core::model_table& table, clean_modules& work,
                                const std::optional<models::host_batch>& sample) {
  if (!sample) {
    work.cut();
    return {};
  }
  const auto before = outputs_of(model, table, *sample);
  if (!before) return fail(before.error().in("redundancy_clean: the model as it was"));
  work.cut();
  const auto after = outputs_of(model, table, *sample);
  auto ok = after ? compare(*before, *after) : fail(after.error());
  if (ok) return {};
  work.undo_cut();
  return fail(ok.error().in("redundancy_clean: the model with what is left"));
}

}  // namespace

core::result<cleaned_model> redundancy_clean(const models::module_model& model, actors::session& trained,
                                             const std::optional<models::host_batch>& sample) {
  const auto states = trained.states();
  TROUPE_ASSIGN(const auto run, states.compression());
  TROUPE_ASSIGN(auto layers, host_layers_of(model, run.config->seed));
  const core::model_table whole = layers.table;
  TROUPE_TRY(job::add_scores(*run.config, layers.table));
  std::optional<core::error> problem;
  const job::mask_lookup mask = [&](const job::pruned_module& m) -> std::optional<kernels::mask_bits> {
    for (const auto& made : run.masks)
      if (made.module == m.module && made.technique == job::name_of(m.part)) return made.bits;
    if (!m.score_parameter) return std::nullopt;
    const auto scores = states.get_full_fp32_param(layers.table.parameters[*m.score_parameter].name);
    if (scores) return job::mask_of_scores(*scores, m.kept, run.config->parameter_dtype());
    problem = scores.error();
    return std::nullopt;
  };
  const auto done = job::plan_cleaning(*run.config, layers.table, run.updates, mask, job::widths_said::by_modules);
  if (problem) return fail(*problem);
  if (!done) return fail(done.error());
  if ((*done)->modules.empty()) return fail(nothing_yet(run.updates));
  TROUPE_TRY(layers.may_cut(**done));
  TROUPE_TRY(actors::copy_weights(trained, model));
  cleaned_model out{(*done)->modules, elements_of(model, whole), 0};
  clean_modules work(model, whole, *done);
  work.make_permanent();
  TROUPE_TRY(make_smaller(model, whole, work, sample));
  out.elements = elements_of(model, whole);
  return out;
}

core::result<cleaned_model> redundancy_clean(const models::module_model& model, const config::job_config& config,
                                             const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code absent;
  if (!std::filesystem::is_empty(to, absent) && !absent)
    return fail(error_kind::bad_input, "redundancy_clean: wanted an empty folder or none, got '" + to.string() + "'");
  TROUPE_ASSIGN(auto layers, host_layers_of(model, config.seed));
  TROUPE_ASSIGN(auto source, checkpoint::open_source(from, {.older_by = ""}));
  TROUPE_ASSIGN(const auto cleaned,
                clean_source(std::move(source), config, std::move(layers.table), job::widths_said::by_modules));
  TROUPE_TRY(layers.may_cut(*cleaned.done));
  TROUPE_TRY(checkpoint::export_native(cleaned.now, to));
  return cleaned_model{cleaned.done->modules, cleaned.elements_before, cleaned.elements};
}

}  // namespace troupe::compression
