#include "models/host/module_runner.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/tied_copies.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/module_run.hpp"
#include "models/host/module_table.hpp"
#include "models/host/random_turn.hpp"
#include "models/inject/own_layers.hpp"
#include "models/segment/torch_device.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Records which micro-batches of the latest step a unit has computed, so that a recomputation is recognised; a
/// pipeline has several micro-batches in flight.
class micro_batches_of_step {
 public:
  /// Records a micro-batch of step `step`; returns false if it was recorded before.
  bool add(uint64_t step, uint32_t micro) {
    if (std::exchange(step_, step) != step) micros_.clear();
    return micros_.insert(micro).second;
  }

 private:
  std::optional<uint64_t> step_;
  std::set<uint32_t> micros_;
};

class module_runner final : public language_model {
 public:
  module_runner(module_model model, std::shared_ptr<const module_facts> facts, uint32_t coordinate)
      : model_(std::move(model)),
        facts_(std::move(facts)),
        coordinate_(coordinate),
        table_(facts_->own_table()),
        set_mode_(mode_switch(model_)),
        cuts_(model_.units.size()) {
    for (size_t u = 0; u < model_.units.size(); ++u)
      if (is_cut(u) && model_.units[u].module != nullptr) cuts_[u].emplace(injection_of(u));
    if (model_.policy != nullptr && model_.policy->own_layers) replace();
    for (const auto& u : model_.units) {
      buffers_.emplace_back();
      for (auto& b : parts_of(u).buffers) buffers_.back().push_back(std::move(b.tensor));
    }
    computed_.resize(model_.units.size());
  }

  [[nodiscard]] const core::model_table& table() const override { return table_; }
  void read_copies(uint32_t first) override {
    if (first > table_.parameters.size()) table_.parameters.resize(first);
    table_ = core::with_copies(std::move(table_));
  }
  [[nodiscard]] std::vector<at::Tensor> own_parameters() const override { return parameters_of(model_, table_); }

  std::unique_ptr<segment_run> forward(uint32_t unit, uint32_t segment, const micro_batch& batch, const values& input,
                                       const parameter_binding& parameters) override {
    TORCH_CHECK(batch.host != nullptr, "a host's own model requires a host's batch");
    if (std::exchange(training_, batch.training) != batch.training) set_mode_(batch.training);
    const at::AutoGradMode mode(batch.training);
    if (segment > 0) return loss_of_sum(batch, input, parameters);
    const named_values x = inputs_of(unit, batch, input, parameters);
    unit_run out;
    out.all_used = facts_->all_used_in == batch.micro;
    if (batch.training)
      for (uint32_t q : table_.units[unit].parameters)
        if (parameters.trainable(q)) out.parameters.push_back({q, parameters.tensor(q), table_.parameters[q].name});
    const named_values y = compute(unit, x, batch, out.buffers);
    for (const auto& [name, tensor] : x) out.inputs.push_back(tensor);
    if (gives_columns(unit)) {
      out.results = {y.only(), statistics(y.only(), batch)};
      if (batch.logits != nullptr) *batch.logits = y.only();
    } else if (is_cut(unit)) {
      out.results.push_back(y.only());
      out.is_summand = true;
    } else if (unit + 1 == model_.units.size()) {
      out.results.push_back(end(y, batch));
    } else {
      for (const value_info& v : facts_->inputs[unit + 1]) out.results.push_back(y[v.name]);
    }
    return run_of(std::move(out));
  }

  std::vector<float> next_token_logits(const micro_batch&, const at::Tensor&, const parameter_binding&) override {
    TORCH_CHECK(false, "a host's own model generates no text");
  }

 private:
  [[nodiscard]] bool is_cut(size_t unit) const { return !facts_->is_cut.empty() && facts_->is_cut[unit]; }

  void replace() {
    for (module_unit& u : model_.units) {
      own_.emplace_back(u.module, u.calls_own, model_.policy->blocks.get());
      own_.back().sit();
      if (const auto& forward = own_.back().forward()) u.forward = forward;
    }
  }

  [[nodiscard]] injection injection_of(size_t unit) const {
    const module_unit& u = model_.units[unit];
    auto made = injection::make(u.module, u.name, *model_.policy, facts_->cut.degree, facts_->ways[unit]);
    TORCH_CHECK(made, made.error().text);  // cannot fail, because the dry run cut the same model in the same way
    return std::move(*made);
  }

  /// Returns the loss of a micro-batch, computed from the last unit's output `y`; 0 if the batch requests none. Stores
  /// the scores if the batch requests them.
  at::Tensor end(const named_values& y, const micro_batch& batch) const {
    if (batch.logits != nullptr) *batch.logits = batch.output.empty() ? y.only() : y[batch.output];
    return batch.computes_loss ? loss(y, *batch.host) : at::zeros({}, at::device(torch_device(facts_->device)));
  }

  /// Computes the loss if the last unit is split over tensor-parallel ranks, from the exchanged `input`: the sum of the
  /// ranks' outputs, or this rank's columns of the scores and the statistics of all ranks.
  std::unique_ptr<segment_run> loss_of_sum(const micro_batch& batch, const values& input,
                                           const parameter_binding& parameters) const {
    const auto units = static_cast<uint32_t>(model_.units.size());
    unit_run out;
    out.inputs.push_back(input.first().detach().requires_grad_(batch.training && trains_before(units, parameters)));
    if (!facts_->columns.empty()) out.inputs.push_back(input.last());
    out.results.push_back(facts_->columns.empty()
                              ? end(named_values({{facts_->outputs.front(), out.inputs.front()}}), batch)
                              : joined_loss(out.inputs.front(), input.last(), batch));
    return run_of(std::move(out));
  }

  /// True if the unit is the last one and its output is this rank's own columns of the scores over the vocabulary.
  [[nodiscard]] bool gives_columns(size_t unit) const {
    return !facts_->columns.empty() && unit + 1 == model_.units.size();
  }
  [[nodiscard]] int64_t first_column() const {
    const auto& all = facts_->columns;
    return static_cast<int64_t>(std::accumulate(all.begin(), all.begin() + coordinate_, uint64_t{0}));
  }

  /// Returns the softmax statistics of this rank's columns of the scores, which all ranks then gather to compute the
  /// loss.
  [[nodiscard]] at::Tensor statistics(const at::Tensor& own, const micro_batch& batch) const {
    const at::Tensor wide = own.detach().to(sum_dtype(own.scalar_type()));
    if (!batch.computes_loss)
      return at::zeros({own.numel() / own.size(-1), static_cast<int64_t>(vocabulary_cross_entropy::row_statistics)},
                       wide.options());
    return model_.loss.of_vocabulary()->statistics(wide, batch.host->target.to(own.device()), first_column(),
                                                   static_cast<int64_t>(core::sum_of(facts_->columns)));
  }

  [[nodiscard]] at::Tensor joined_loss(const at::Tensor& own, const at::Tensor& gathered,
                                       const micro_batch& batch) const {
    if (!batch.computes_loss) return at::zeros({}, at::device(torch_device(facts_->device)));
    return model_.loss.of_vocabulary()->joined(own.to(sum_dtype(own.scalar_type())), gathered,
                                               batch.host->target.to(own.device()), first_column());
  }

  [[nodiscard]] named_values inputs_of(uint32_t unit, const micro_batch& batch, const values& input,
                                       const parameter_binding& parameters) const {
    const auto& wanted = facts_->inputs[unit];
    if (unit == 0) return as_before(entering(*batch.host, torch_dtype(facts_->type), torch_device(facts_->device)), 0);
    TORCH_CHECK(input.size() == wanted.size(), "unit '", model_.units[unit].name, "' takes ", wanted.size(),
                " tensors, got ", input.size());
    const bool trains = batch.training && trains_before(unit, parameters);
    std::vector<named_values::entry> all;
    for (size_t i = 0; i < wanted.size(); ++i)
      all.emplace_back(wanted[i].name, input[i].detach().requires_grad_(trains && wanted[i].has_gradient));
    return named_values(std::move(all));
  }

  /// Returns `x`, the input of `unit`; throws if the names of its values differ from those in the first micro-batch.
  [[nodiscard]] named_values as_before(named_values x, size_t unit) const {
    named_values first;
    for (const value_info& v : facts_->inputs[unit]) first = first.with(v.name, {});
    const auto known = [&](const auto& v) {
      return std::ranges::any_of(first, [&](const auto& f) { return f.first == v.first; });
    };
    if (x.size() == first.size() && std::ranges::all_of(x, known)) return x;
    const std::string from = unit == 0 ? "the batch" : "unit '" + model_.units[unit - 1].name + "'";
    throw std::runtime_error(from + ": wanted the values " + first.names() + ", as in the first micro-batch, got " +
                             x.names());
  }

  // True if backward must compute the gradient of this unit's input, because an earlier unit is trained.
  [[nodiscard]] bool trains_before(uint32_t unit, const parameter_binding& parameters) const {
    const auto& units = table_.units;
    return std::any_of(units.begin(), units.begin() + unit, [&](const core::unit_info& u) {
      return std::any_of(u.parameters.begin(), u.parameters.end(), [&](uint32_t q) { return parameters.trainable(q); });
    });
  }

  named_values compute(uint32_t unit, const named_values& x, const micro_batch& batch,
                       std::vector<kept_buffer>& changed) {
    const bool again = batch.training && !computed_[unit].add(batch.step, batch.micro);
    std::vector<at::Tensor> kept;
    if (again)
      for (const auto& b : buffers_[unit]) kept.push_back(b.clone());
    std::vector<int64_t> versions;
    for (const auto& b : buffers_[unit]) versions.push_back(b._version());
    std::optional<random_turn> turn;
    if (facts_->draws[unit])
      turn.emplace(random_key{batch.seed, batch.step, batch.micro, batch.rank, place_of(model_, unit)});
    named_values y;
    try {
      y = is_cut(unit) ? summand(unit, x) : model_.units[unit].forward(x);
    } catch (const std::exception& e) {
      throw std::runtime_error("unit '" + model_.units[unit].name + "', given " + shape_text(x) + ": " + line_of(e));
    }
    for (const auto& [name, tensor] : y)
      TORCH_CHECK(tensor.defined(), "unit '", model_.units[unit].name, "' returned no tensor for ", shape_text(x));
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < versions.size() && batch.training; ++i)
      if (const at::Tensor& b = buffers_[unit][i]; b._version() != versions[i])
        changed.push_back({b, b.clone(), b._version()});
    // Restores the buffers without increasing their version counters, as modules do with their running statistics, so
    // that tensors which autograd has saved stay valid.
    const at::AutoDispatchBelowADInplaceOrView unseen;
    for (size_t i = 0; i < kept.size(); ++i) buffers_[unit][i].copy_(kept[i]);
    return unit + 1 < model_.units.size() ? as_before(std::move(y), unit + 1) : y;
  }

  // Computes this rank's part of a unit that is split over tensor-parallel ranks. The layers get their own weights back
  // before any other code sees them.
  named_values summand(uint32_t unit, const named_values& x) {
    injection& cut = *cuts_[unit];
    const auto back = [](injection* c) { c->revert(); };
    const std::unique_ptr<injection, decltype(back)> seated(&cut, back);
    cut.sit(coordinate_, gives_columns(unit));
    const named_values y = model_.units[unit].forward(x);
    if (gives_columns(unit)) return y;
    return {{y.begin()->first, y.only().mul(share_of(coordinate_, facts_->cut.degree))}};
  }

  [[nodiscard]] at::Tensor loss(const named_values& output, const host_batch& batch) const {
    at::Tensor out;
    try {
      out = loss_of(model_, output, batch);
    } catch (const std::exception& e) {
      throw std::runtime_error("the loss, given " + shape_text(output) + " and the target, " +
                               shape_text(batch.target) + ": " + line_of(e));
    }
    TORCH_CHECK(out.defined() && out.numel() == 1, "the loss must be a single number, got ", shape_text(out));
    return out.to(sum_dtype(out.scalar_type())).reshape({});
  }

  module_model model_;
  std::shared_ptr<const module_facts> facts_;
  uint32_t coordinate_;  // this rank's coordinate on the tensor-parallel axis
  // table with which this rank computes; with copies of shared parameters after read_copies()
  core::model_table table_;
  std::function<void(bool)> set_mode_;
  bool training_ = true;  // true: modules are in the modes that the factory left them in; false: in evaluation mode
  std::vector<std::vector<at::Tensor>> buffers_;  // [unit]: buffers of the unit's module
  // [unit]: micro-batches of the latest step whose forward the unit has computed in training.
  std::vector<micro_batches_of_step> computed_;
  // [unit]: how the unit's layers are cut, if they are and this rank computes the unit.
  std::vector<std::optional<injection>> cuts_;
  std::vector<own_layers> own_;  // [unit]: layers of the unit that Troupe replaces, if the policy requests that
};

}  // namespace

std::unique_ptr<language_model> run_modules(module_model model, std::shared_ptr<const module_facts> facts,
                                            uint32_t coordinate) {
  return std::make_unique<module_runner>(std::move(model), std::move(facts), coordinate);
}

}  // namespace troupe::models
