#include "models/host/prepared_modules.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include "models/host/dry_run.hpp"
#include "models/host/model_cut.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"
#include "models/segment/torch_device.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

core::result<module_model> call(const module_factory& factory, uint64_t seed) {
  const random_turn turn({seed, 0, 0, 0, drawing_a_model});
  try {
    return factory();
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, "the factory failed: " + line_of(e));
  }
}

void convert_buffers(const module_unit& unit, at::ScalarType type, at::Device where) {
  for (const auto& b : parts_of(unit).buffers)
    if (b.tensor.is_floating_point() || b.tensor.device() != where)
      b.tensor.set_data(b.tensor.detach().to(where, b.tensor.is_floating_point() ? type : b.tensor.scalar_type()));
}

/// Frees the memory of the unit's parameters but keeps the tensor objects; a parameter_binding gives them other memory
/// later.
void drop_values(const module_unit& unit) {
  for (const auto& p : parts_of(unit).parameters)
    p.tensor.set_data(at::empty({0}, p.tensor.options().requires_grad(false)));
}

bool has_values(const module_unit& unit) {
  return std::ranges::all_of(parts_of(unit).parameters, [](const auto& p) { return p.tensor.numel() > 0; });
}

bool is_shared(const module_unit& unit) { return unit.recipe != nullptr && !unit.recipe->key.empty(); }

at::Tensor in_fp32(const at::Tensor& t) { return t.detach().to(at::kCPU, at::kFloat).contiguous(); }

size_t digest_of(const at::Tensor& fp32) {
  return std::hash<std::string_view>{}({static_cast<const char*>(fp32.const_data_ptr()), fp32.nbytes()});
}

core::result<void> check_apart(const module_model& other, const module_unit& unit) {
  for (const auto& theirs : other.units)
    for (const auto& p : parts_of(theirs).parameters)
      for (const auto& mine : parts_of(unit).parameters)
        if (mine.tensor.is_same(p.tensor))
          return core::fail(error_kind::bad_input,
                            "wanted separate modules for each rank, got some that another rank also has: create them "
                            "inside the factory");
  return {};
}

std::string of_rank(size_t rank) { return fmt::format("own model, rank {}", rank); }

}  // namespace

core::result<std::unique_ptr<prepared_modules>> prepared_modules::make(const module_factory& factory, uint32_t ranks,
                                                                       core::dtype type, uint64_t seed,
                                                                       const host_batch& first,
                                                                       device::device_id device, uint32_t tensor) {
  const at::NoGradGuard no_grad;
  auto out = std::make_unique<prepared_modules>();
  out->facts_ = std::make_shared<module_facts>();
  out->facts_->type = type;
  out->facts_->device = device;
  for (uint32_t r = 0; r < ranks; ++r) {
    auto model = [&] {
      const at::AutoGradMode as_usual(true);
      return call(factory, seed);
    }();
    if (!model) return core::fail(model.error().in(of_rank(r)));
    if (r == 0) {
      TROUPE_TRY(out->find_table(*model, seed, first, tensor));
    } else {
      for (const auto& other : out->instances_)
        for (const auto& unit : model->units)
          if (auto ok = check_apart(other.model, unit); !ok) return core::fail(ok.error().in(of_rank(r)));
      if (auto ok = check_alike(out->facts_->table, *model); !ok) return core::fail(ok.error().in(of_rank(r)));
      for (const auto& unit : model->units) convert_buffers(unit, torch_dtype(type), torch_device(device));
    }
    for (const auto& unit : model->units) drop_values(unit);
    out->instances_.push_back({std::move(*model), module_builder(seed)});
  }
  return out;
}

// Finds the table of the model, the initial values of its parameters and its costs. Units that have factories are built
// and dropped one at a time.
core::result<void> prepared_modules::find_table(module_model& model, uint64_t seed, const host_batch& first,
                                                uint32_t tensor) {
  TROUPE_TRY(check_units(model));
  model_cut cut(model, tensor);
  const at::ScalarType type = torch_dtype(facts_->type);
  const at::Device where = torch_device(facts_->device);
  table_builder rows(model);
  dry_run trial(first, type, where, {seed, 0, 0, 0, 0});
  module_builder builder(seed);
  for (uint32_t u = 0; u < model.units.size(); ++u) {
    module_unit& unit = model.units[u];
    TROUPE_TRY(builder.build(model, u));
    TROUPE_TRY(rows.add(unit, u));
    auto parts = parts_of(unit);
    for (const auto& p : parts.parameters) {
      const uint32_t q = rows.number_of(p.tensor);
      if (q == values_.size()) {
        values_.push_back(in_fp32(p.tensor));
        digests_.push_back(digest_of(values_.back()));
      }
      if (p.tensor.scalar_type() != type || p.tensor.device() != where)
        p.tensor.set_data(p.tensor.detach().to(where, type));
    }
    convert_buffers(unit, type, where);
    TROUPE_TRY(trial.compute(unit, u, rows.table()));
    if (model.policy != nullptr && model.policy->own_layers && model.policy->blocks != nullptr)
      TROUPE_TRY(trial.try_own(unit, *model.policy->blocks));
    if (u + 1 == model.units.size() && model.loss.of_vocabulary()) trial.joins_loss();
    {
      TROUPE_ASSIGN(const auto injected, cut_of(unit, cut, trial, tensor));
      TROUPE_TRY(cut.add(unit, injected, [&](const at::Tensor& t) { return rows.number_of(t); }));
    }
    if (unit.recipe == nullptr) continue;
    builder.drop(model, u);
    // A tensor that other objects hold, too, was made with the model and not by this factory; its values are kept.
    for (const auto& p : parts.parameters)
      if (is_shared(unit) || p.tensor.use_count() == 1) values_[rows.number_of(p.tensor)] = at::Tensor();
    rows.forget(std::move(parts));
  }
  TROUPE_TRY(trial.end(model));
  trial.tell(*facts_);
  facts_->table = std::move(rows.table());
  TROUPE_ASSIGN(auto plan, cut.plan(facts_->table));
  facts_->cut = std::move(plan);
  if (tensor > 1 || (model.policy != nullptr && model.policy->own_layers)) layers_ = cut.layers();
  if (tensor > 1) facts_->local = trial.local_table(facts_->table, facts_->cut);
  return {};
}

// Returns the first of the cuts that the policy allows with which the unit, split over ranks, computes the same as the
// whole unit.
core::result<injection> prepared_modules::cut_of(const module_unit& unit, const model_cut& cut, dry_run& trial,
                                                 uint32_t tensor) {
  std::optional<core::error> first;
  for (uint32_t way = 0;; ++way) {
    auto made = cut.into(unit, way);
    if (!made) return made;
    const auto ok = trial.try_cut(unit, *made, tensor);
    if (ok) {
      facts_->ways.push_back(way);
      return made;
    }
    if (!first) first = ok.error();
    if (way + 1 == made->ways()) return core::fail(*first);
  }
}

core::result<void> prepared_modules::build(uint32_t rank, size_t u) {
  instance& mine = instances_[rank];
  module_unit& unit = mine.model.units[u];
  if (unit.recipe == nullptr || unit.module != nullptr) return {};
  const at::NoGradGuard no_grad;
  if (auto ok = mine.builder.build(mine.model, u); !ok) return core::fail(ok.error().in(of_rank(rank)));
  for (size_t r = 0; r < instances_.size(); ++r)
    if (auto ok = r != rank ? check_apart(instances_[r].model, unit) : core::result<void>(); !ok)
      return core::fail(ok.error().in(of_rank(rank)));
  if (auto ok = check_alike(facts_->table, unit, static_cast<uint32_t>(u)); !ok)
    return core::fail(ok.error().in(of_rank(rank)));
  const auto parts = parts_of(unit).parameters;
  for (size_t i = 0; i < parts.size(); ++i)
    if (digest_of(in_fp32(parts[i].tensor)) != digests_[facts_->table.units[u].parameters[i]])
      return core::fail(
          core::error{error_kind::bad_input, "unit '" + unit.name + "': wanted the values of '" + parts[i].name +
                                                 "' from the first call of its factory, got others: initial values "
                                                 "must be constant or drawn from torch's generator"}
              .in(of_rank(rank)));
  convert_buffers(unit, torch_dtype(facts_->type), torch_device(facts_->device));
  return {};
}

core::result<void> prepared_modules::read(uint32_t parameter, uint64_t first, std::span<float> out, uint32_t rank) {
  at::Tensor from = values_.at(parameter);
  if (!from.defined()) {
    instance& mine = instances_.at(rank);
    const auto& units = facts_->table.units;
    size_t u = 0, at = 0;
    for (; u < units.size(); ++u) {
      at = static_cast<size_t>(std::ranges::find(units[u].parameters, parameter) - units[u].parameters.begin());
      if (at < units[u].parameters.size() && computes(rank, u)) break;
    }
    TORCH_CHECK(u < units.size(), "rank ", rank, " computes no unit that holds parameter ", parameter);
    module_unit& unit = mine.model.units[u];
    if (module_unit& before = mine.model.units[mine.reading]; mine.reading != u && !is_shared(before))
      drop_values(before);
    mine.reading = u;
    if (!has_values(unit)) mine.builder.drop(mine.model, u);  // the values were freed, so the factory makes them again
    TROUPE_TRY(build(rank, u));
    from = parts_of(unit).parameters.at(at).tensor.detach();
  }
  const auto count = static_cast<int64_t>(out.size());
  TORCH_CHECK(static_cast<int64_t>(first) + count <= from.numel(), "elements beyond a parameter's end");
  const at::Tensor part = in_fp32(from.reshape({-1}).narrow(0, static_cast<int64_t>(first), count));
  std::copy_n(part.const_data_ptr<float>(), out.size(), out.begin());
  return {};
}

core::result<std::unique_ptr<language_model>> prepared_modules::take(uint32_t rank) {
  instance& mine = instances_.at(rank);
  for (size_t u = 0; u < mine.model.units.size(); ++u) {
    if (computes(rank, u)) TROUPE_TRY(build(rank, u));
    if (!is_shared(mine.model.units[u])) drop_values(mine.model.units[u]);
  }
  for (const auto& unit : mine.model.units) drop_values(unit);
  return run_modules(std::move(mine.model), facts_, rank % facts_->cut.degree);
}

}  // namespace troupe::models
