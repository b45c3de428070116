#include "compression/redundancy_clean.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <ranges>
#include <system_error>

#include "actors/run/compression_state.hpp"
#include "actors/session/host_model.hpp"
#include "actors/session/state_access.hpp"
#include "checkpoint/convert/native_export.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "compression/files/cleaned_source.hpp"
#include "compression/host_layers.hpp"
#include "core/text.hpp"
#include "job/compression/clean_values.hpp"
#include "job/compression/mask_scores.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::compression {
namespace {

class clean_modules {
 public:
  /// Stores the changes `what` to make. Requires that all units of `model` are built, and that `table` lists the
  /// parameters of `model`.
  clean_modules(const models::module_model& model, const core::model_table& table,
                std::shared_ptr<const job::cleaning> what);

  /// Rounds weights to their quantisation grids and multiplies them by their pruning masks, in place.
  void make_permanent();
  /// Removes the pruned rows and columns from tensors, and sets the modules' sizes. Tensors keep their identity and
  /// lose their gradients.
  void cut();
  /// Restores all tensors and sizes of modules that `cut` has changed.
  void undo_cut();

 private:
  void replace(const at::Tensor& t, const at::Tensor& by);

  std::vector<at::Tensor> tensors_;                          // tensors of the parameters in `table_`, in its order
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  // modules that become smaller; index: entry of what_->cuts
  const core::model_table& table_;
  std::shared_ptr<const job::cleaning> what_;
  std::vector<std::function<void()>> undo_;
};

std::shared_ptr<torch::nn::Module> module_named(const models::module_model& model, const std::string& layer) {
  for (const auto& unit : model.units) {
    if (unit.module == nullptr || !layer.starts_with(unit.name)) continue;
    for (const auto& item : unit.module->named_modules())
      if ((item.key().empty() ? unit.name : unit.name + "." + item.key()) == layer) return item.value();
  }
  return nullptr;
}

at::Tensor places_of(const std::vector<uint64_t>& kept) {
  const at::Tensor out = at::empty({static_cast<int64_t>(kept.size())}, at::kLong);
  std::ranges::copy(kept, out.mutable_data_ptr<int64_t>());
  return out;
}

at::Tensor without(at::Tensor t, int64_t dimension, const std::vector<uint64_t>& kept) {
  return kept.empty() ? t : t.index_select(dimension, places_of(kept));
}

clean_modules::clean_modules(const models::module_model& model, const core::model_table& table,
                             std::shared_ptr<const job::cleaning> what)
    : tensors_(models::parameters_of(model, table)), table_(table), what_(std::move(what)) {
  for (const auto& cut : what_->cuts) modules_.push_back(module_named(model, cut.module));
}

void clean_modules::make_permanent() {
  const at::NoGradGuard no_grad;
  for (const auto& p : what_->parameters) {
    if (p.recipe == nullptr && p.mask.empty()) continue;
    const auto q = std::ranges::find(table_.parameters, p.name, &core::parameter_info::name);
    const at::Tensor& t = tensors_[static_cast<size_t>(q - table_.parameters.begin())];
    const at::Tensor values = t.detach().clone(at::MemoryFormat::Contiguous);
    const auto type = models::core_dtype(values.scalar_type());
    std::byte* const bytes = models::bytes_in(values);
    if (p.recipe != nullptr) job::put_on_grid(*p.recipe, what_->used, type, {bytes, values.nbytes()});
    if (!p.mask.empty()) kernels::apply_mask(bytes, type, models::count_of(values), p.mask);
    t.detach().copy_(values);
  }
}

void clean_modules::replace(const at::Tensor& t, const at::Tensor& by) {
  undo_.push_back([t, before = t.detach()] { t.set_data(before); });
  t.set_data(by);
  t.mutable_grad().reset();
}

void clean_modules::cut() {
  const at::NoGradGuard no_grad;
  for (const auto& p : what_->parameters) {
    if (p.kept_rows.empty() && p.kept_columns.empty()) continue;
    const auto q = std::ranges::find(table_.parameters, p.name, &core::parameter_info::name);
    const at::Tensor& t = tensors_[static_cast<size_t>(q - table_.parameters.begin())];
    replace(t, without(without(t.detach(), 0, p.kept_rows), 1, p.kept_columns).contiguous());
  }
  for (size_t i = 0; i < modules_.size(); ++i) {
    const auto& cut = what_->cuts[i];
    const auto& module = modules_[i];
    const layer_sizes before =
        set_sizes(*module, {static_cast<int64_t>(cut.outputs.size()), static_cast<int64_t>(cut.inputs.size())});
    undo_.push_back([module, before] { set_sizes(*module, before); });
    for (const auto& b : module->named_buffers(/*recurse=*/false))
      // `b` is a vector with one element for each output of the module, such as the running mean of a batch norm, and
      // loses the elements of removed outputs.
      if (!cut.outputs.empty() && b.value().dim() == 1 && b.value().size(0) == before.outputs)
        replace(b.value(), without(b.value(), 0, cut.outputs));
  }
}

void clean_modules::undo_cut() {
  const at::NoGradGuard no_grad;
  for (const auto& back : std::views::reverse(undo_)) back();
  undo_.clear();
}

/// Returns the largest allowed difference between outputs before and after removed rows, relative to the largest
/// output. The outputs differ slightly because sums over fewer numbers round differently.
double most_apart(at::ScalarType type) { return type == at::kBFloat16 ? 3e-2 : type == at::kHalf ? 4e-3 : 1e-5; }

core::error nothing_yet(uint64_t updates) {
  return {error_kind::bad_input, fmt::format("redundancy_clean: wanted a run that has compressed something, got one "
                                             "after {} updates, before its first technique begins",
                                             updates)};
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
