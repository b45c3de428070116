#include "models/compress/unit_methods.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mean.h>

#include <set>
#include <span>
#include <vector>

#include "core/text.hpp"
#include "models/compress/channel_scales.hpp"

namespace troupe::models {
namespace {

using core::error_kind;
using core::fail;

/// Of the mean: columns that the text hardly used are still weights.
constexpr double least_importance = 1e-3;

std::span<float> elements(const at::Tensor& t) { return {t.mutable_data_ptr<float>(), static_cast<size_t>(t.numel())}; }

/// What is done step by step. GPTQ also solves a head of its own, behind all others; one that is the embedding is
/// rounded to nearest, for what its rows lose where tokens are looked up weighs far more.
class chooser {
 public:
  chooser(const model_spec& spec, unit_walk& walk, checkpoint::weight_store& store, const unit_method_options& options)
      : spec_(spec), walk_(walk), store_(store), options_(options) {
    for (const auto& l : walk.table().layers_of(walk.head(), 0))
      if (l.kind == core::layer_kind::linear) head_ = &l;
    solves_head_ = is_gptq() && !spec.tied && head_ != nullptr && options.form_of(name_of(*head_->weight)) != nullptr;
  }

  [[nodiscard]] uint64_t steps() const { return walk_.steps() + (solves_head_ ? 1 : 0); }

  core::result<void> step(uint64_t step) {
    const at::NoGradGuard no_grad;
    if (step == walk_.steps()) return solve_head();
    std::tie(unit_, segment_) = walk_.place(step);
    if (walk_.weights().loaded() != unit_)
      if (auto ok = walk_.weights().load(unit_); !ok) return ok;
    if (unit_ == 0) {
      if (is_gptq())
        if (auto ok = round_tables(); !ok) return ok;
      return walk_.run(step, nullptr, true);
    }
    input_statistics seen(/*wants_products=*/is_gptq() || options_.method == unit_method::awq);
    // Scales change nothing of what comes out, so that is kept from the same forward.
    if (auto ok = walk_.run(step, &seen, !is_gptq()); !ok) return ok;
    if (is_gptq()) {
      for (const auto& l : walk_.table().layers_of(unit_, segment_))
        if (l.kind == core::layer_kind::linear)
          if (auto ok = solve(l, seen); !ok) return ok;
      return walk_.run(step, nullptr, true);
    }
    return options_.method == unit_method::importance ? weigh(seen) : scale(seen);
  }

 private:
  [[nodiscard]] bool is_gptq() const { return options_.method == unit_method::gptq; }
  [[nodiscard]] const std::string& name_of(uint32_t parameter) const {
    return walk_.weights().name_in_source(parameter);
  }
  [[nodiscard]] auto in_tensor(const core::error& e, uint32_t parameter) const {
    return fail(e.in("tensor '" + core::shown(name_of(parameter)) + "'"));
  }

  /// Embeddings as the export will round them: their rows are the inputs of all that follows.
  core::result<void> round_tables() {
    for (const uint32_t q : walk_.table().units[0].parameters) {
      const auto form = options_.form_of(name_of(q));
      if (form == nullptr) continue;
      const auto to = elements(walk_.weights().tensor(q));
      if (auto ok = form->round(to, {}); !ok) return in_tensor(ok.error(), q);
    }
    return {};
  }

  core::result<void> solve_head() {
    if (auto ok = walk_.weights().load(walk_.head()); !ok) return ok;
    input_statistics seen(/*wants_products=*/true);
    if (auto ok = walk_.run_head(&seen); !ok) return fail(ok.error());
    return solve(*head_, seen);
  }

  /// Codes of one weight go into the store, what they mean into memory.
  core::result<void> solve(const core::layer_info& l, const input_statistics& seen) {
    const uint32_t q = *l.weight;
    const auto form = options_.form_of(name_of(q));
    const auto* inputs = seen.of(q);
    if (form == nullptr || inputs == nullptr) return {};
    const at::Tensor memory = walk_.weights().tensor(q), w = outputs_first(memory, *l.layout);
    at::Tensor values = w;
    if (form->group() == 0) {  // rows that are no whole blocks got another type
      if (auto ok = form->round(elements(values), {}); !ok) return in_tensor(ok.error(), q);
    } else {
      const auto codes = gptq(w, inputs->products, *form, options_.gptq);
      if (!codes) return in_tensor(codes.error(), q);
      values = codes->values;
      checkpoint::rounding_error lost;
      lost.add(elements(w), elements(values));
      const auto parts = form->pack(codes->grids, codes->q);
      if (!parts) return in_tensor(parts.error(), q);
      if (auto ok = store_.put(name_of(q), *parts, lost); !ok) return ok;
    }
    memory.copy_(*l.layout == core::weight_layout::in_out ? values.t() : values);
    return {};
  }

  core::result<void> weigh(const input_statistics& seen) {
    for (const auto& i : seen.inputs()) {
      const at::Tensor mean = i.squares.div(static_cast<double>(i.rows));
      mean.clamp_min_(least_importance * mean.mean().item<double>());
      const auto of = elements(mean);
      for (const uint32_t q : i.weights) store_.put_importance(name_of(q), {of.begin(), of.end()});
    }
    return {};
  }

  core::result<void> scale(const input_statistics& seen) {
    const auto memory = [&](uint32_t q) { return walk_.weights().tensor(q); };
    std::vector<std::shared_ptr<const checkpoint::stored_form>> alive;
    const auto form = [&](uint32_t q) { return alive.emplace_back(options_.form_of(name_of(q))).get(); };
    std::set<uint32_t> changed;
    for (const auto& c : channels_of(spec_, walk_.table(), unit_, segment_)) {
      const auto* inputs = seen.of(c.weights.front());
      if (inputs == nullptr || (options_.method == unit_method::smooth && !c.is_norm)) continue;
      const auto scales = options_.method == unit_method::smooth
                              ? core::result<at::Tensor>(smooth_scales(c, *inputs, memory))
                              : awq_scales(c, *inputs, memory, form);
      if (!scales) return in_tensor(scales.error(), c.weights.front());
      if (!scales->defined()) continue;
      fold(c, *scales, memory);
      changed.insert(c.weights.begin(), c.weights.end());
      changed.insert(c.before);
      if (c.before_bias) changed.insert(*c.before_bias);
    }
    for (const uint32_t q : changed)
      if (auto ok = store_.put_values(name_of(q), elements(memory(q))); !ok) return ok;
    return {};
  }

  const model_spec& spec_;
  unit_walk& walk_;
  checkpoint::weight_store& store_;
  const unit_method_options& options_;
  uint32_t unit_ = 0, segment_ = 0;
  const core::layer_info* head_ = nullptr;
  bool solves_head_ = false;
};

}  // namespace

core::result<void> choose_weights(const model_spec& spec, unit_walk& walk, checkpoint::weight_store& store,
                                  const unit_method_options& options) {
  chooser work(spec, walk, store, options);
  for (uint64_t s = store.steps(); s < work.steps(); ++s) {
    if (options.progress && !options.progress(s, work.steps()))
      return fail(error_kind::stopped, "compressing was stopped");
    try {
      if (auto ok = work.step(s); !ok) return ok;
    } catch (const std::bad_alloc&) {
      return fail(error_kind::limit, "the machine has no memory left for a unit of the model");
    } catch (const c10::Error& e) {
      return fail(error_kind::bug, e.what_without_backtrace());
    }
    if (auto ok = store.commit(s + 1); !ok) return ok;
  }
  return {};
}

}  // namespace troupe::models
