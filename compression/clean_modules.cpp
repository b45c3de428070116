#include "compression/clean_modules.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <ranges>

#include "job/compression/clean_values.hpp"
#include "models/host/module_table.hpp"
#include "models/segment/bytes.hpp"
#include "models/segment/torch_dtype.hpp"

namespace troupe::compression {
namespace {

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

}  // namespace

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

}  // namespace troupe::compression
