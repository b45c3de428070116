#include "models/compress/unit_walk.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"
#include "storage/files/digest.hpp"

namespace troupe::models {

namespace {

uint64_t rows_at_once(uint64_t columns) { return std::max<uint64_t>(1, walked_tokens / columns); }

}  // namespace

uint64_t walk_bytes(const model_spec& spec, uint64_t columns, bool fits_weights) {
  const uint64_t rows = rows_at_once(columns);
  const auto table = make_model_table(spec, rows, columns, sizeof(float));
  uint64_t out = 0;
  for (uint32_t n = 0; n < table.units.size(); ++n) {
    const auto& u = table.units[n];
    uint64_t weights = 0, largest = 0, saved = 0, fitted = 0;
    for (const uint32_t q : u.parameters) {
      const auto& p = table.parameters[q];
      weights += p.numel() * sizeof(float);
      if (p.shape.size() == 2) largest = std::max(largest, p.numel() * sizeof(float));
    }
    const bool is_fitted = fits_weights && n > 0 && (n + 1 < table.units.size() || !spec.tied);
    for (uint32_t s = 0; s < u.segments.size(); ++s) {
      saved = std::max(saved, u.segments[s].saved_bytes);
      uint64_t widest = 0;
      for (const auto& l : table.layers_of(n, s))
        if (l.kind == core::layer_kind::linear) widest = std::max(widest, l.in);
      // Bytes of fitting one weight: two matrices of sums over its input (products, drift); its codes, values and
      // errors and their fp64 compensation; the products in fp64 with their factor and copies; the inputs in the
      // original model.
      if (is_fitted)
        fitted = std::max(fitted, 2 * widest * widest * sizeof(float) + 5 * largest + 4 * largest +
                                      4 * widest * widest * sizeof(double) + rows * columns * widest * sizeof(float));
    }
    out = std::max(out, weights + 2 * saved + fitted);
  }
  return out + rows * columns * spec.vocabulary * sizeof(float) * 2;
}

core::result<std::unique_ptr<unit_walk>> unit_walk::open(const model_spec& spec, const formats::tensor_source& source,
                                                         const token_windows& windows,
                                                         const std::filesystem::path& folder, go_on_function go_on) {
  std::unique_ptr<unit_walk> out(new unit_walk(windows, folder, std::move(go_on)));
  out->width_ = spec.width;
  out->samples_.assign(rows_at_once(windows.columns), 0);
  TROUPE_ASSIGN(auto model,
                make_language_model(spec, core::dtype::f32, rows_at_once(windows.columns), windows.columns));
  out->model_ = std::move(model);
  const auto& table = out->model_->table();
  out->binding_ = std::make_unique<parameter_binding>(table, core::dtype::f32);
  TROUPE_ASSIGN(auto weights, unit_weights::open(table, source, *out->binding_));
  out->weights_ = std::make_unique<unit_weights>(std::move(weights));
  for (uint32_t u = 0; u + 1 < table.units.size(); ++u)
    for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) out->places_.emplace_back(u, s);
  return out;
}

void unit_walk::round_inputs() {
  const auto& layers = table().layers;
  input_grids_.assign(layers.size(), std::nullopt);
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].kind == core::layer_kind::linear && layers[i].unit != head())
      input_grids_[i] = input_rounding{.grid = {.kind = kernels::quantiser_kind::symmetric, .bits = 8}};
}

core::result<const hidden_windows*> unit_walk::hidden(walk_stream of) const {
  auto& out = hidden_[static_cast<size_t>(of)];
  if (!out) {
    TROUPE_ASSIGN(auto opened, hidden_windows::open(folder_, of == walk_stream::original ? "original" : "windows",
                                                    windows_.columns * width_));
    out.emplace(std::move(opened));
  }
  return &*out;
}

micro_batch unit_walk::batch_of(window_range windows) const {
  const uint64_t width = windows_.columns + 1;
  micro_batch out;
  out.tokens = std::span(windows_.tokens).subspan(windows.first * width, windows.rows * width);
  out.rows = windows.rows;
  out.columns = windows_.columns;
  out.samples = std::span(samples_).first(windows.rows);
  if (!windows_.document_starts.empty())
    out.document_start =
        std::span(windows_.document_starts).subspan(windows.first * windows_.columns, windows.rows * windows_.columns);
  out.training = false;
  if (!input_grids_.empty()) out.input_grids = &input_grids_;
  return out;
}

core::result<at::Tensor> unit_walk::input_of(uint64_t step, window_range windows, walk_stream of) const {
  if (step == 0) return at::Tensor();
  TROUPE_ASSIGN(const auto from, hidden(of));
  at::Tensor x = at::empty(
      {static_cast<int64_t>(windows.rows), static_cast<int64_t>(windows_.columns), static_cast<int64_t>(width_)},
      at::kFloat);
  const std::span to(x.mutable_data_ptr<float>(), static_cast<size_t>(x.numel()));
  TROUPE_TRY(from->read(step, windows.first, to));
  return x;
}

core::result<void> unit_walk::keep(uint64_t step, window_range windows, walk_stream of, const at::Tensor& out) {
  TROUPE_ASSIGN(const auto to, hidden(of));
  const at::Tensor x = out.contiguous();
  return to->write(step, windows.first, {x.const_data_ptr<float>(), static_cast<size_t>(x.numel())});
}

core::result<void> unit_walk::sync(uint64_t step) const {
  for (const auto& h : hidden_)
    if (h) TROUPE_TRY(h->sync(step));
  return {};
}

core::result<std::string> unit_walk::digest(uint64_t step, walk_stream of) const {
  if (step == 0) return std::string();
  TROUPE_ASSIGN(const auto from, hidden(of));
  const uint64_t at_once = rows_at_once(windows_.columns), count = windows_.count();
  std::vector<float> block(at_once * windows_.columns * width_);
  storage::digest_stream out;
  for (uint64_t first = 0; first < count; first += at_once) {
    const auto here = std::span(block).first(std::min(at_once, count - first) * windows_.columns * width_);
    TROUPE_TRY(from->read(step, first, here));
    out.add(std::as_bytes(here));
  }
  return storage::to_hex(out.value());
}

core::result<void> unit_walk::each(const std::function<core::result<void>(window_range)>& f) const {
  const at::NoGradGuard no_grad;
  const uint64_t at_once = rows_at_once(windows_.columns), count = windows_.count();
  for (uint64_t first = 0; first < count; first += at_once) {
    if (go_on_ && !go_on_()) return fail(error_kind::stopped, "compressing was stopped");
    TROUPE_TRY(caught([&] { return f({first, std::min(at_once, count - first)}); }));
  }
  return {};
}

core::result<at::Tensor> unit_walk::forward(uint64_t step, window_range windows, walk_stream of,
                                            input_watch* watch) const {
  TROUPE_ASSIGN(const auto input, input_of(step, windows, of));
  micro_batch batch = batch_of(windows);
  batch.watch = watch;
  if (step < steps())
    return model_->forward(places_[step].first, places_[step].second, batch, input, *binding_)->output();
  values x = input;
  for (uint32_t s = 0; s < table().units[head()].segments.size(); ++s)
    x = model_->forward(head(), s, batch, x, *binding_)->outputs();
  return x.first();
}

core::result<void> unit_walk::run(uint64_t step, walk_stream of, input_statistics* watch, bool writes) {
  return each([&](window_range windows) -> core::result<void> {
    TROUPE_ASSIGN(const auto out, forward(step, windows, of, watch));
    if (watch != nullptr) watch->next_window();
    return writes ? keep(step, windows, of, out) : core::result<void>();
  });
}

core::result<void> unit_walk::run_to_head() {
  for (uint64_t step = 0; step < steps(); ++step) {
    const uint32_t unit = places_[step].first;
    if (weights_->loaded() != unit) TROUPE_TRY(weights_->load(unit));
    TROUPE_TRY(run(step, walk_stream::current, nullptr, true));
  }
  return weights_->load(head());
}

core::result<at::Tensor> unit_walk::logits_of(window_range windows) const {
  TROUPE_ASSIGN(const auto input, input_of(steps(), windows, walk_stream::current));
  at::Tensor logits;
  micro_batch batch = batch_of(windows);
  batch.logits = &logits;
  batch.computes_loss = false;
  values x = input;
  for (uint32_t s = 0; s < table().units[head()].segments.size(); ++s)
    x = model_->forward(head(), s, batch, x, *binding_)->outputs();
  return logits.reshape({-1, logits.size(-1)}).contiguous();
}

core::result<std::vector<float>> unit_walk::log_probabilities() {
  TROUPE_TRY(run_to_head());
  std::vector<float> out(windows_.count() * windows_.columns);
  TROUPE_TRY(each([&](window_range windows) -> core::result<void> {
    TROUPE_ASSIGN(const at::Tensor logits, logits_of(windows));
    const auto rows = static_cast<uint64_t>(logits.size(0)), width = static_cast<uint64_t>(logits.size(1));
    std::vector<int64_t> targets;
    for (uint64_t w = windows.first; w < windows.first + windows.rows; ++w) {
      const auto row = std::span(windows_.tokens).subspan(w * (windows_.columns + 1) + 1, windows_.columns);
      targets.insert(targets.end(), row.begin(), row.end());
    }
    const at::Tensor log_sums = at::empty({logits.size(0)}, logits.options()), mean = at::empty({}, logits.options());
    kernels_for(logits).cross_entropy({}, nullptr, bytes_of(logits), core_dtype(logits.scalar_type()), rows, width,
                                      targets.data(), bytes_in(log_sums), bytes_in(mean));
    const auto* const x = logits.const_data_ptr<float>();
    const auto* const sums = log_sums.const_data_ptr<float>();
    for (uint64_t r = 0; r < rows; ++r)
      out[windows.first * windows_.columns + r] = x[r * width + static_cast<uint64_t>(targets[r])] - sums[r];
    return {};
  }));
  return out;
}

core::result<double> unit_walk::loss() {
  TROUPE_TRY(run_to_head());
  double sum = 0;
  TROUPE_TRY(each([&](window_range windows) -> core::result<void> {
    TROUPE_ASSIGN(const auto mean, forward(steps(), windows, walk_stream::current, nullptr));
    sum += mean.item<double>() * static_cast<double>(windows.rows);
    return {};
  }));
  return sum / static_cast<double>(windows_.count());
}

}  // namespace troupe::models
