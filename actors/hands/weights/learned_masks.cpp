#include "actors/hands/weights/learned_masks.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "kernels/base/cast.hpp"
#include "kernels/compress/pruning.hpp"
#include "models/segment/torch_values.hpp"
#include "models/segment/weight.hpp"

namespace troupe::actors {
namespace {

template <class Real>
constexpr core::dtype type_of = std::is_same_v<Real, double> ? core::dtype::f64 : core::dtype::f32;

bool is_learned(const job::pruned_module& m) { return m.method == config::pruning_method::topk; }

/// Returns the vectors in the module's unit whose elements are pruned together with rows of the module's weight: its
/// bias, and weights of norm layers.
std::vector<uint32_t> vectors_of(const job::pruned_module& m) {
  std::vector<uint32_t> out;
  if (m.bias) out.push_back(*m.bias);
  for (const auto& v : m.along)
    if (v.unit == m.unit) out.push_back(v.parameter);
  return out;
}

bool is_vector_of(const job::pruned_module& m, uint32_t q) {
  const auto all = vectors_of(m);
  return std::ranges::find(all, q) != all.end();
}

/// Returns `count` elements of `type` at `from` as `Real`: fp64 for elements in fp64, else fp32.
template <class Real>
std::vector<Real> widened(const std::byte* from, core::dtype type, uint64_t count) {
  std::vector<Real> out(count);
  kernels::cast(from, type, reinterpret_cast<std::byte*>(out.data()), type_of<Real>, count);
  return out;
}

/// Calls take(row, column, offset in memory) for every element of the matrix, a few rows at a time, columns ascending
/// within each row, so that whole cache lines are used in both memory orders.
void each_element(const kernels::masked_matrix& m, auto take) {
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

/// Calls take(row, column, offset in the part) for each element of the part `runs` that a tensor-parallel rank has of
/// the matrix, without padding, in memory order.
void each_element(const kernels::masked_matrix& m, std::span<const core::tp_run> runs, auto take) {
  const uint64_t line = m.transposed ? m.rows : m.columns;
  for (const core::tp_run& run : runs) {
    if (run.is_padding()) continue;
    uint64_t outer = run.whole / line, inner = run.whole % line;
    for (uint64_t i = 0; i < run.count; ++i) {
      m.transposed ? take(inner, outer, run.local + i) : take(outer, inner, run.local + i);
      if (++inner == line) inner = 0, ++outer;
    }
  }
}

void each_element_of(const job::pruned_module& m, uint32_t coordinate, auto take) {
  if (m.shares.empty()) return each_element(m.matrix, take);
  each_element(m.matrix, m.runs_of(m.weight, coordinate), take);
}

}  // namespace

learned_masks::learned_masks(std::shared_ptr<const job::chosen_compression> chosen,
                             std::shared_ptr<const pruning_masks> others, std::shared_ptr<bound_parameters> parameters,
                             std::shared_ptr<weight_grids> grids)
    : chosen_(std::move(chosen)),
      others_(std::move(others)),
      parameters_(std::move(parameters)),
      grids_(std::move(grids)) {
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

void learned_masks::begin(uint64_t updates, uint32_t coordinate) {
  if (std::exchange(updates_, updates) != updates) together_.clear();
  coordinate_ = coordinate;
  made_.clear();
}

void learned_masks::make(uint32_t unit, core::dtype type, std::span<const std::byte> agreed) {
  if (!made_.insert(unit).second) return;  // masks are made once per run: scores change only after their last use in it
  agreed_[unit].assign(agreed.begin(), agreed.end());
  masks_together whole;
  const auto& of_unit = learning_.at(unit);
  for (const size_t i : of_unit) {
    const auto& m = modules()[i];
    if (m.from_update > updates_) continue;
    if (is_learned(m)) {
      const auto scores = widened<float>(parameters_->bytes(*m.score_parameter), type, m.scores());
      std::vector<uint8_t> keep(scores.size());
      kernels::keep_largest(scores, m.kept, keep);
      bits_[i] = kernels::packed_mask(keep);
    }
    and_mask(m, bits_of(i), whole);
    for (const auto& v : m.along)
      if (v.unit == unit) and_vector(m, bits_of(i), v.parameter, whole);
  }
  for (const size_t i : of_unit) {
    const auto& m = modules()[i];
    auto parts = vectors_of(m);
    parts.push_back(m.weight);
    for (const uint32_t q : parts) {
      const auto at = whole.find(q);
      if (at == whole.end()) continue;  // no mask of `q` is in effect, or its mask is stored already
      together_[{unit, q}] =
          m.shares.empty() ? std::move(at->second) : kernels::share_of_mask(at->second, m.runs_of(q, coordinate_));
      whole.erase(at);
    }
  }
}

const kernels::mask_bits* learned_masks::kept(uint32_t unit, uint32_t parameter) const {
  const auto at = together_.find({unit, parameter});
  return at == together_.end() ? nullptr : &at->second;
}

// Returns the weight of `m` as the forward pass used it, before masks: rounded to its quantization grid into `gridded`,
// or in place if no grid is in effect.
const std::byte* learned_masks::multiplied(const job::pruned_module& m, core::dtype type, uint64_t elements,
                                           std::vector<std::byte>& gridded) const {
  const std::byte* const weight = parameters_->uncompressed_bytes(m.weight);
  if (!grids_->changes(m.unit, m.weight)) return weight;
  const uint64_t bytes = elements * core::size_of(type);
  gridded.resize(bytes + grids_->room_elements(m.unit, m.weight) * core::size_of(type));
  grids_->put(m.unit, m.weight, agreed_.at(m.unit), weight, gridded.data(), std::span(gridded).subspan(bytes));
  return gridded.data();
}

// Computes the gradient of the scores of `m` from `gradient`, the gradient of the weight after rounding and masks: the
// product of `gradient`, the rounded weight and all other masks of the weight, element by element, summed over the
// elements of one score. If the rank has only a part of the weight, the result is a summand; the other tensor ranks
// compute the other summands.
template <class Real>
std::vector<Real> learned_masks::of_weight(const job::pruned_module& m, const at::Tensor& gradient) const {
  const auto elements = static_cast<uint64_t>(gradient.numel());
  const auto type = models::core_dtype(gradient.scalar_type());
  std::vector<std::byte> gridded;
  const auto w = widened<Real>(multiplied(m, type, elements, gridded), type, elements),
             g = widened<Real>(models::bytes_of(gradient), type, elements);
  std::optional<kernels::mask_bits> others;
  for (const size_t i : learning_.at(m.unit)) {
    const auto& other = modules()[i];
    if (&other == &m || other.weight != m.weight || other.from_update > updates_) continue;
    if (!others) others = kernels::whole_mask(m.matrix.elements());
    and_mask(other, bits_of(i), *others);
  }
  if (others && !m.shares.empty()) others = kernels::share_of_mask(*others, m.runs_of(m.weight, coordinate_));
  const auto counts = [&](uint64_t at) { return !others || kernels::is_kept(*others, at); };
  if (m.part == job::pruned_part::elements) {
    std::vector<Real> out(m.matrix.elements());
    each_element_of(m, coordinate_, [&](uint64_t r, uint64_t c, uint64_t at) {
      out[r * m.matrix.columns + c] = counts(at) ? g[at] * w[at] : Real{0};
    });
    return out;
  }
  std::vector<double> sums(m.scores());
  const uint64_t head_width = m.heads > 0 ? m.matrix.columns / m.heads : 1;
  const bool by_head = m.part == job::pruned_part::heads;
  each_element_of(m, coordinate_, [&](uint64_t r, uint64_t c, uint64_t at) {
    sums[by_head ? c / head_width : r] += counts(at) ? static_cast<double>(g[at]) * static_cast<double>(w[at]) : 0.0;
  });
  return {sums.begin(), sums.end()};
}

template <class Real>
std::vector<Real> learned_masks::of_vector(const job::pruned_module& m, uint32_t q, const at::Tensor& gradient) const {
  const auto type = models::core_dtype(gradient.scalar_type());
  const auto elements = static_cast<uint64_t>(gradient.numel());
  const auto g = widened<Real>(models::bytes_of(gradient), type, elements),
             b = widened<Real>(parameters_->uncompressed_bytes(q), type, elements);
  std::vector<Real> out(m.matrix.rows);
  const core::tp_run all{0, 0, m.matrix.rows};
  each_element({m.matrix.rows, 1}, m.shares.empty() ? std::span(&all, 1) : m.runs_of(q, coordinate_),
               [&](uint64_t r, uint64_t, uint64_t at) { out[r] = g[at] * b[at]; });
  return out;
}

template <class Real>
void learned_masks::write(const job::pruned_module& m, const std::vector<Real>& scores,
                          models::gradient_sink& sink) const {
  const uint32_t q = *m.score_parameter;
  const models::weight w{q, parameters_->tensors().tensor(q), m.module};
  const at::Tensor out = at::empty(w.tensor.sizes(), w.tensor.options().requires_grad(false));
  kernels::cast(reinterpret_cast<const std::byte*>(scores.data()), type_of<Real>, models::bytes_in(out),
                models::core_dtype(out.scalar_type()), scores.size());
  models::gradient_writer(models::sink_slot{&sink}, w).write(out);
}

void learned_masks::formed(uint32_t unit, uint32_t q, const at::Tensor& gradient, models::gradient_sink& sink) const {
  const auto of_unit = learning_.find(unit);
  if (of_unit == learning_.end()) return;
  const auto each = [&]<class Real>(std::type_identity<Real>) {
    for (const size_t i : of_unit->second) {
      const auto& m = modules()[i];
      if (!is_learned(m) || m.from_update > updates_) continue;
      if (m.weight == q) write(m, of_weight<Real>(m, gradient), sink);
      if (is_vector_of(m, q)) write(m, of_vector<Real>(m, q, gradient), sink);
    }
  };
  gradient.scalar_type() == at::kDouble ? each(std::type_identity<double>()) : each(std::type_identity<float>());
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
