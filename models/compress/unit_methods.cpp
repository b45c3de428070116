#include "models/compress/unit_methods.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "models/compress/channel_scales.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/compress/refit.hpp"

namespace troupe::models {
namespace {

/// Sums over the input of the last layer of a segment, and over the difference between the segment's outputs in the
/// original and in the current model.
struct end_sums {
  std::vector<input_sums> inputs;
  /// Shape (width, in): the sum of (y - z) xᵀ over all tokens, where y and z are what the segment adds to the residual
  /// path in the original and in the current model, and x is the last layer's input in the current model.
  at::Tensor missing;
};

/// Returns a segment's contribution to the residual path: `out`, the segment's output, minus the hidden states that
/// entered the segment. `of` selects the model: the original one or the current one.
core::result<at::Tensor> added(const unit_walk& walk, uint64_t step, window_range windows, walk_stream of,
                               core::result<at::Tensor> out) {
  TROUPE_ASSIGN(const auto in, walk.input_of(step, windows, of));
  return out ? core::result<at::Tensor>(out->sub(in)) : std::move(out);
}

/// Runs all windows of text through segment number `step` (or through the head) in both models, and returns sums over
/// the current model's inputs of `weights`: their products, and their drift from the original's inputs. Stores the
/// original model's output for the next step and for watch_end(). The loaded unit must still have the original weights.
core::result<std::vector<input_sums>> watch_inputs(unit_walk& walk, uint64_t step, std::vector<uint32_t> weights) {
  kept_inputs original(weights);
  input_statistics seen({.wants_products = true, .only = std::move(weights), .original = &original});
  TROUPE_TRY(walk.each([&](window_range windows) -> core::result<void> {
    TROUPE_ASSIGN(const auto was, walk.forward(step, windows, walk_stream::original, &original));
    if (step < walk.steps()) TROUPE_TRY(walk.keep(step, windows, walk_stream::original, was));
    const auto now = walk.forward(step, windows, walk_stream::current, &seen);
    seen.next_window();
    return now ? core::result<void>() : fail(now.error());
  }));
  return seen.inputs();
}

/// Returns the sums for the last layer of segment `step`, whose weight is `weight`. Must be called after
/// watch_inputs(), when the segment's earlier layers are rounded. Compares the segment's contributions to the residual
/// path, not its whole outputs: compensating errors of the hidden states that enter it would be dominated, in large
/// models, by a few tokens with very large states.
core::result<end_sums> watch_end(unit_walk& walk, uint64_t step, uint32_t weight) {
  input_statistics seen({.wants_products = true, .only = {weight}});
  at::Tensor missing;
  TROUPE_TRY(walk.each([&](window_range windows) -> core::result<void> {
    const auto was =
        added(walk, step, windows, walk_stream::original, walk.input_of(step + 1, windows, walk_stream::original));
    const auto now =
        added(walk, step, windows, walk_stream::current, walk.forward(step, windows, walk_stream::current, &seen));
    if (!was || !now) return fail((was ? now : was).error());
    const at::Tensor x = seen.latest().to(at::kFloat), lacks = was->sub(*now).flatten(0, 1);
    seen.next_window();
    if (!missing.defined()) missing = at::zeros({lacks.size(1), x.size(1)}, at::kFloat);
    missing.addmm_(lacks.t(), x);
    return {};
  }));
  return end_sums{seen.inputs(), missing};
}

/// Lower bound of a column's importance, as a fraction of the mean importance: a column whose inputs are nearly 0 in
/// the calibration text must not be ignored altogether.
constexpr double least_importance = 1e-3;

std::span<float> elements(const at::Tensor& t) { return {t.mutable_data_ptr<float>(), static_cast<size_t>(t.numel())}; }

/// Applies a post-training method segment by segment. GPTQ also rounds the head, after all other weights, if the head
/// has a weight of its own; a head that shares the embedding's weight is rounded with the embedding.
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
    if (walk_.weights().loaded() != unit_) TROUPE_TRY(walk_.weights().load(unit_));
    TROUPE_TRY(unit_ == 0 ? begin() : is_gptq() ? round(step) : watch(step));
    return walk_.sync(step);
  }

  /// Returns the digests of the hidden states that step `step` reads, in one text; used to notice files that were
  /// changed before work is resumed.
  core::result<std::string> inputs_of(uint64_t step) const {
    std::string out;
    for (const auto of : {walk_stream::current, walk_stream::original}) {
      if (step > walk_.steps() || (of == walk_stream::original && !is_gptq())) continue;
      TROUPE_ASSIGN(const auto digest, walk_.digest(step, of));
      out += digest;
    }
    return out;
  }

 private:
  [[nodiscard]] bool is_gptq() const { return options_.method == unit_method::gptq; }
  [[nodiscard]] const std::string& name_of(uint32_t parameter) const {
    return walk_.weights().name_in_source(parameter);
  }
  [[nodiscard]] auto in_tensor(const core::error& e, uint32_t parameter) const {
    return fail(e.in("tensor '" + core::shown(name_of(parameter)) + "'"));
  }

  /// Processes the embedding. Its rows are looked up and not multiplied, so all columns get the same importance, with
  /// which the export searches scales of least squared error. For GPTQ, the rows in memory are rounded now, because all
  /// later units must see the rounded embedding.
  core::result<void> begin() {
    if (is_gptq()) TROUPE_TRY(walk_.run(0, walk_stream::original, nullptr, true));
    for (const uint32_t q : walk_.table().units[0].parameters) {
      const auto form = options_.form_of(name_of(q));
      if (form == nullptr) continue;
      const std::vector<float> alike(form->columns(), 1.0F);
      store_.put_importance(name_of(q), alike);
      if (!is_gptq()) continue;
      if (auto ok = form->round(elements(walk_.weights().tensor(q)), alike); !ok) return in_tensor(ok.error(), q);
    }
    return walk_.run(0, walk_stream::current, nullptr, true);
  }

  /// Rounds the linear layers of a segment: first those that read the norm's output, then the segment's last layer,
  /// whose input depends on them.
  core::result<void> round(uint64_t step) {
    std::vector<const core::layer_info*> layers;
    std::vector<uint32_t> before;
    for (const auto& l : walk_.table().layers_of(unit_, segment_))
      if (l.kind == core::layer_kind::linear) layers.push_back(&l);
    for (size_t i = 0; i + 1 < layers.size(); ++i) before.push_back(*layers[i]->weight);
    {
      TROUPE_ASSIGN(const auto seen, watch_inputs(walk_, step, before));
      for (size_t i = 0; i + 1 < layers.size(); ++i) TROUPE_TRY(solve(*layers[i], seen, {}));
    }
    TROUPE_ASSIGN(const auto end, watch_end(walk_, step, *layers.back()->weight));
    TROUPE_TRY(solve(*layers.back(), end.inputs, end.missing));
    return walk_.run(step, walk_stream::current, nullptr, true);
  }

  core::result<void> solve_head() {
    TROUPE_TRY(walk_.weights().load(walk_.head()));
    const auto seen = watch_inputs(walk_, walk_.steps(), {*head_->weight});
    return seen ? solve(*head_, *seen, {}) : fail(seen.error());
  }

  /// Rounds one weight by GPTQ: stores its codes, and writes the values of the codes to memory, so that later forwards
  /// use them. `missing` is the argument of refitted(); if undefined, it is the change of the outputs that the drift of
  /// the inputs causes.
  core::result<void> solve(const core::layer_info& l, const std::vector<input_sums>& seen, at::Tensor missing) {
    const uint32_t q = *l.weight;
    const auto form = options_.form_of(name_of(q));
    const auto* inputs = sums_of(seen, q);
    if (form == nullptr || inputs == nullptr) return {};
    const at::Tensor memory = walk_.weights().tensor(q), w = outputs_first(memory, *l.layout);
    at::Tensor values = w;
    if (form->group() == 0) {  // a weight whose rows are not whole blocks is stored in another type, without grids
      if (auto ok = form->round(elements(values), {}); !ok) return in_tensor(ok.error(), q);
    } else {
      if (!missing.defined()) missing = at::mm(w, inputs->drift);
      const auto wanted = refitted(w, missing, inputs->products);
      if (!wanted) return in_tensor(wanted.error(), q);
      const auto codes = gptq(*wanted, inputs->products, *form, options_.gptq);
      if (!codes) return in_tensor(codes.error(), q);
      values = codes->values;
      checkpoint::rounding_error lost;
      lost.add(elements(w), elements(values));
      const auto parts = form->pack(codes->grids, codes->q);
      if (!parts) return in_tensor(parts.error(), q);
      TROUPE_TRY(store_.put(name_of(q), *parts, lost));
    }
    memory.copy_(*l.layout == core::weight_layout::in_out ? values.t() : values);
    return {};
  }

  /// Runs a segment for a method that computes scales or importance (AWQ, SmoothQuant, importance). These do not change
  /// the segment's output, so the same forward collects the sums and stores the output.
  core::result<void> watch(uint64_t step) {
    input_statistics seen({.wants_products = options_.method == unit_method::awq});
    TROUPE_TRY(walk_.run(step, walk_stream::current, &seen, true));
    return options_.method == unit_method::importance ? store_importance(seen) : scale(seen);
  }

  core::result<void> store_importance(const input_statistics& seen) {
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
    for (const uint32_t q : changed) TROUPE_TRY(store_.put_values(name_of(q), elements(memory(q))));
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
  if (const uint64_t next = store.steps(); next > 0 && next < work.steps()) {
    TROUPE_ASSIGN(const auto inputs, work.inputs_of(next));
    if (inputs != store.inputs_digest())
      return fail(error_kind::bad_input,
                  fmt::format("'{}': the hidden states of step {} do not have their digest: they were changed since "
                              "they were written; remove this folder to start the work again",
                              store.folder().string(), next));
  }
  for (uint64_t s = store.steps(); s < work.steps(); ++s) {
    if (options.progress && !options.progress(s, work.steps()))
      return fail(error_kind::stopped, "compressing was stopped");
    TROUPE_TRY(caught([&] { return work.step(s); }));
    if (s + 1 < work.steps()) {
      TROUPE_ASSIGN(auto inputs, work.inputs_of(s + 1));
      store.set_inputs_digest(std::move(inputs));
    }
    TROUPE_TRY(store.commit(s + 1));
  }
  return {};
}

}  // namespace troupe::models
