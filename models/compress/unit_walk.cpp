#include "models/compress/unit_walk.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace troupe::models {

using core::error_kind;
using core::fail;

namespace {

uint64_t rows_at_once(uint64_t columns) { return std::max<uint64_t>(1, walked_tokens / columns); }

/// What Torch throws where our own sizes are wrong, or memory is refused.
template <class F>
auto caught(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return fail(error_kind::limit, "the machine has no memory left for a unit of the model");
  } catch (const c10::Error& e) {
    return fail(error_kind::bug, e.what_without_backtrace());
  }
}

}  // namespace

uint64_t walk_bytes(const model_spec& spec, uint64_t columns, bool fits_weights) {
  const uint64_t rows = rows_at_once(columns);
  const auto table = make_model_table(spec, rows, columns, sizeof(float));
  uint64_t out = 0;
  for (const auto& u : table.units) {
    uint64_t weights = 0, largest = 0, widest = 0, saved = 0;
    for (const uint32_t q : u.parameters) {
      const auto& p = table.parameters[q];
      weights += p.numel() * sizeof(float);
      if (p.shape.size() == 2) largest = std::max(largest, p.numel() * sizeof(float));
    }
    uint64_t products = 0;
    for (const auto& l : table.layers) {
      if (l.kind != core::layer_kind::linear || table.units[l.unit].name != u.name) continue;
      products += l.in * l.in * sizeof(float);
      widest = std::max(widest, l.in);
    }
    for (const auto& s : u.segments) saved = std::max(saved, s.saved_bytes);
    const bool is_block = &u != &table.units.front() && &u != &table.units.back();
    // Codes, values and errors of one weight; its products in double, with a factor and a copy.
    const uint64_t fitted =
        fits_weights && is_block ? products + 5 * largest + 4 * widest * widest * sizeof(double) : 0;
    out = std::max(out, weights + 2 * saved + fitted);
  }
  return out + rows * columns * spec.vocabulary * sizeof(float) * 2;
}

core::result<std::unique_ptr<unit_walk>> unit_walk::open(const model_spec& spec,
                                                         const checkpoint::tensor_source& source,
                                                         const token_windows& windows,
                                                         const std::filesystem::path& folder, go_on_function go_on) {
  auto hidden = hidden_windows::open(folder, windows.columns * spec.width);
  if (!hidden) return fail(hidden.error());
  std::unique_ptr<unit_walk> out(new unit_walk(windows, std::move(*hidden), std::move(go_on)));
  out->width_ = spec.width;
  out->samples_.assign(rows_at_once(windows.columns), 0);
  auto model = make_language_model(spec, core::dtype::f32, rows_at_once(windows.columns), windows.columns);
  if (!model) return fail(model.error());
  out->model_ = std::move(*model);
  const auto& table = out->model_->table();
  out->binding_ = std::make_unique<parameter_binding>(table, core::dtype::f32);
  auto weights = unit_weights::open(table, source, *out->binding_);
  if (!weights) return fail(weights.error());
  out->weights_ = std::make_unique<unit_weights>(std::move(*weights));
  for (uint32_t u = 0; u + 1 < table.units.size(); ++u)
    for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) out->places_.emplace_back(u, s);
  return out;
}

micro_batch unit_walk::batch_of(uint64_t first, uint64_t rows) const {
  const uint64_t width = windows_.columns + 1;
  micro_batch out;
  out.tokens = std::span(windows_.tokens).subspan(first * width, rows * width);
  out.rows = rows;
  out.columns = windows_.columns;
  out.samples = std::span(samples_).first(rows);
  out.training = false;
  return out;
}

core::result<values> unit_walk::input_of(uint64_t step, uint64_t first, uint64_t rows) const {
  if (step == 0) return values();
  const at::Tensor x = at::empty(
      {static_cast<int64_t>(rows), static_cast<int64_t>(windows_.columns), static_cast<int64_t>(width_)}, at::kFloat);
  if (auto ok = hidden_.read(step, first, {x.mutable_data_ptr<float>(), static_cast<size_t>(x.numel())}); !ok)
    return fail(ok.error());
  return values(x);
}

core::result<void> unit_walk::each(const std::function<core::result<void>(uint64_t, uint64_t)>& f) const {
  const at::NoGradGuard no_grad;
  const uint64_t at_once = rows_at_once(windows_.columns), count = windows_.count();
  for (uint64_t first = 0; first < count; first += at_once) {
    if (go_on_ && !go_on_()) return fail(error_kind::stopped, "compressing was stopped");
    const uint64_t rows = std::min(at_once, count - first);
    if (auto ok = caught([&] { return f(first, rows); }); !ok) return ok;
  }
  return {};
}

core::result<void> unit_walk::run(uint64_t step, input_statistics* watch, bool writes) {
  const auto [unit, segment] = places_[step];
  return each([&, unit = unit, segment = segment](uint64_t first, uint64_t rows) -> core::result<void> {
    const auto input = input_of(step, first, rows);
    if (!input) return fail(input.error());
    micro_batch batch = batch_of(first, rows);
    batch.watch = watch;
    const auto run = model_->forward(unit, segment, batch, *input, *binding_);
    if (watch != nullptr) watch->next_window();
    if (!writes) return {};
    const at::Tensor out = run->output().contiguous();
    return hidden_.write(step, first, {out.const_data_ptr<float>(), static_cast<size_t>(out.numel())});
  });
}

core::result<double> unit_walk::loss() {
  for (uint64_t step = 0; step < steps(); ++step) {
    const uint32_t unit = places_[step].first;
    if (weights_->loaded() != unit)
      if (auto ok = weights_->load(unit); !ok) return fail(ok.error());
    if (auto ok = run(step, nullptr, true); !ok) return fail(ok.error());
  }
  if (auto ok = weights_->load(head()); !ok) return fail(ok.error());
  return run_head(nullptr);
}

core::result<double> unit_walk::run_head(input_statistics* watch) {
  double sum = 0;
  auto ok = each([&](uint64_t first, uint64_t rows) -> core::result<void> {
    auto input = input_of(steps(), first, rows);
    if (!input) return fail(input.error());
    micro_batch batch = batch_of(first, rows);
    batch.watch = watch;
    values x = *input;
    for (uint32_t s = 0; s < table().units[head()].segments.size(); ++s)
      x = model_->forward(head(), s, batch, x, *binding_)->outputs();
    if (watch != nullptr) watch->next_window();
    sum += x.first().item<double>() * static_cast<double>(rows);
    return {};
  });
  if (!ok) return fail(ok.error());
  return sum / static_cast<double>(windows_.count());
}

}  // namespace troupe::models
