#include "actors/hands/learned_masks.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>

#include "kernels/base/cast.hpp"
#include "kernels/compress/compressed_weight.hpp"
#include "kernels/compress/pruning.hpp"
#include "models/layers/bytes.hpp"
#include "models/layers/torch_dtype.hpp"
#include "models/layers/weight.hpp"

namespace troupe::actors {
namespace {

bool is_learned(const job::pruned_module& m) { return m.method == config::pruning_method::topk; }

/// In its unit: its bias, and norms that lose what its rows lose.
std::vector<uint32_t> vectors_of(const job::pruned_module& m) {
  std::vector<uint32_t> out;
  if (m.bias) out.push_back(*m.bias);
  for (const auto& v : m.along)
    if (v.unit == m.unit) out.push_back(v.parameter);
  return out;
}

/// As fp32.
std::vector<float> widened(const std::byte* from, core::dtype type, uint64_t count) {
  std::vector<float> out(count);
  kernels::cast(from, type, reinterpret_cast<std::byte*>(out.data()), core::dtype::f32, count);
  return out;
}

/// Calls take(row, column, place in memory) for every element, columns ascending within each row: a few rows at a time,
/// so that a line of memory is used as a whole either way.
template <class Take>
void each_element(const kernels::masked_matrix& m, Take take) {
  constexpr uint64_t rows_at_once = 16;
  if (!m.transposed) {
    for (uint64_t r = 0; r < m.rows; ++r)
      for (uint64_t c = 0; c < m.columns; ++c) take(r, c, r * m.columns + c);
    return;
  }
  for (uint64_t first = 0; first < m.rows; first += rows_at_once)
    for (uint64_t c = 0; c < m.columns; ++c)
      for (uint64_t r = first; r < std::min(first + rows_at_once, m.rows); ++r) take(r, c, c * m.rows + r);
}

}  // namespace

learned_masks::learned_masks(std::shared_ptr<const job::chosen_compression> chosen,
                             std::shared_ptr<const pruning_masks> others, std::shared_ptr<bound_parameters> parameters)
    : chosen_(std::move(chosen)), others_(std::move(others)), parameters_(std::move(parameters)) {
  if (chosen_ == nullptr) return;
  std::set<uint32_t> units;
  for (const auto& m : modules())
    if (is_learned(m)) units.insert(m.unit);
  for (size_t i = 0; i < modules().size(); ++i)
    if (units.contains(modules()[i].unit)) learning_[modules()[i].unit].push_back(i);
}

const kernels::mask_bits& learned_masks::bits_of(size_t module) const {
  return is_learned(modules()[module]) ? bits_.at(module) : others_->of(module);
}

void learned_masks::begin(uint64_t updates) {
  if (std::exchange(updates_, updates) != updates) together_.clear();
  made_.clear();
}

void learned_masks::make(uint32_t unit, core::dtype type) {
  if (!made_.insert(unit).second) return;  // scores change behind the last use of a run
  for (const size_t i : learning_.at(unit)) {
    const auto& m = modules()[i];
    together_.erase({unit, m.weight});
    for (const uint32_t q : vectors_of(m)) together_.erase({unit, q});
  }
  for (const size_t i : learning_.at(unit)) {
    const auto& m = modules()[i];
    if (m.from_update > updates_) continue;
    if (is_learned(m)) {
      const auto scores = widened(parameters_->bytes(*m.score_parameter), type, m.scores());
      std::vector<uint8_t> keep(scores.size());
      kernels::keep_largest(scores, m.kept, keep);
      bits_[i] = kernels::packed_mask(keep);
    }
    const auto together = [&](uint32_t q, uint64_t elements) -> kernels::mask_bits& {
      const auto [at, is_new] = together_.try_emplace({unit, q});
      if (is_new) at->second = kernels::whole_mask(elements);
      return at->second;
    };
    and_mask(m, bits_of(i), together(m.weight, m.matrix.elements()));
    for (const uint32_t q : vectors_of(m))
      kernels::and_elements({m.matrix.rows, 1}, bits_of(i), together(q, m.matrix.rows));
  }
}

const kernels::mask_bits* learned_masks::kept(uint32_t unit, uint32_t parameter) const {
  const auto at = together_.find({unit, parameter});
  return at == together_.end() ? nullptr : &at->second;
}

// d mask = d (weight as multiplied with) x weight on its grid x the other masks, by scores.
std::vector<float> learned_masks::of_weight(const job::pruned_module& m, const at::Tensor& gradient) const {
  const uint64_t elements = m.matrix.elements();
  const auto type = models::core_dtype(gradient.scalar_type());
  const std::byte* weight = parameters_->uncompressed_bytes(m.weight);
  std::vector<std::byte> quantised;
  if (const auto* module = chosen_->module_of(m.unit, m.weight); module != nullptr && module->from_update <= updates_) {
    const auto* const recipe = &module->recipe;
    quantised.resize((elements + recipe->room_elements()) * core::size_of(type));
    kernels::compress_weight(*recipe, type, weight, quantised.data(),
                             std::span(quantised).subspan(elements * core::size_of(type)));
    weight = quantised.data();
  }
  const auto w = widened(weight, type, elements), g = widened(models::bytes_of(gradient), type, elements);
  std::optional<kernels::mask_bits> others;
  for (const size_t i : learning_.at(m.unit)) {
    const auto& other = modules()[i];
    if (&other == &m || other.weight != m.weight || other.from_update > updates_) continue;
    if (!others) others = kernels::whole_mask(elements);
    and_mask(other, bits_of(i), *others);
  }
  const auto product = [&](uint64_t at) {
    return others && !kernels::is_kept(*others, at) ? 0.0F : g[at] * w[at];  // fp32: exact in fp64, rounded once
  };
  if (m.part == job::pruned_part::elements) {
    std::vector<float> out(elements);
    each_element(m.matrix, [&](uint64_t r, uint64_t c, uint64_t at) { out[r * m.matrix.columns + c] = product(at); });
    return out;
  }
  std::vector<double> sums(m.scores());
  const uint64_t head_width = m.heads > 0 ? m.matrix.columns / m.heads : 1;
  const bool by_head = m.part == job::pruned_part::heads;
  each_element(m.matrix, [&](uint64_t r, uint64_t c, uint64_t at) {
    const bool counts = !others || kernels::is_kept(*others, at);
    sums[by_head ? c / head_width : r] += counts ? static_cast<double>(g[at]) * static_cast<double>(w[at]) : 0.0;
  });
  return {sums.begin(), sums.end()};
}

void learned_masks::write(const job::pruned_module& m, const std::vector<float>& scores,
                          models::gradient_sink& sink) const {
  const uint32_t q = *m.score_parameter;
  const models::weight w{q, parameters_->tensors().tensor(q), m.module};
  const at::Tensor out = at::empty(w.tensor.sizes(), w.tensor.options().requires_grad(false));
  kernels::cast(reinterpret_cast<const std::byte*>(scores.data()), core::dtype::f32, models::bytes_in(out),
                models::core_dtype(out.scalar_type()), scores.size());
  models::gradient_writer(models::sink_slot{&sink}, w).write(out);
}

void learned_masks::formed(uint32_t unit, uint32_t q, const at::Tensor& gradient, models::gradient_sink& sink) const {
  const auto of_unit = learning_.find(unit);
  if (of_unit == learning_.end()) return;
  for (const size_t i : of_unit->second) {
    const auto& m = modules()[i];
    if (!is_learned(m) || m.from_update > updates_) continue;
    if (m.weight == q) write(m, of_weight(m, gradient), sink);
    const auto vectors = vectors_of(m);
    if (std::ranges::find(vectors, q) == vectors.end()) continue;
    const auto type = models::core_dtype(gradient.scalar_type());
    auto scores = widened(models::bytes_of(gradient), type, m.matrix.rows);
    const auto vector = widened(parameters_->uncompressed_bytes(q), type, m.matrix.rows);
    for (size_t r = 0; r < scores.size(); ++r) scores[r] *= vector[r];
    write(m, scores, sink);
  }
}

void learned_masks::ended(uint32_t unit, uint32_t segment, const core::model_table& table,
                          models::gradient_sink& sink) const {
  const auto of_unit = learning_.find(unit);
  if (of_unit == learning_.end()) return;
  const auto& written = table.units[unit].segments[segment].parameters;
  for (const size_t i : of_unit->second) {
    const auto& m = modules()[i];
    if (!is_learned(m) || m.from_update <= updates_) continue;
    if (std::ranges::find(written, *m.score_parameter) == written.end()) continue;
    write(m, std::vector<float>(m.scores(), 0.0F), sink);
  }
}

}  // namespace troupe::actors
