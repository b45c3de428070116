#include "checkpoint/convert/trained_grid.hpp"

#include <cmath>
#include <optional>

#include "core/tensor_view.hpp"
#include "formats/source/source_reader.hpp"
#include "kernels/compress/compressed_weight.hpp"

namespace troupe::checkpoint {
namespace {

/// Reads the values of a weight tensor as a row-major matrix (out, in).
core::result<std::vector<float>> values_of(const formats::tensor_source& source, const std::string& tensor,
                                           const trained_grid& grid, const stored_form& form) {
  const formats::tensor_entry* entry = nullptr;
  for (const auto kind : {formats::tensor_kind::master, formats::tensor_kind::frozen, formats::tensor_kind::weight})
    if (entry == nullptr) entry = formats::find_tensor(source, tensor, kind);
  const uint64_t rows = form.rows(), columns = form.columns();
  if (entry == nullptr || core::numel_of(entry->shape) != rows * columns)
    return core::fail(core::error_kind::bug,
                      "a trained grid of '" + tensor + "', which is not there or of another size");
  std::vector<float> read(rows * columns);
  const std::span bytes(reinterpret_cast<std::byte*>(read.data()), read.size() * sizeof(float));
  TROUPE_TRY(formats::source_reader(source).read_as(core::dtype::f32, *entry, 0, read.size(), bytes));
  if (!grid.transposed) return read;
  std::vector<float> out(read.size());
  kernels::to_order({.grid = {}, .rows = columns, .columns = rows, .transposed = true}, core::dtype::f32, bytes.data(),
                    0, out.size(), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

}  // namespace

core::result<bool> put_trained(weight_store& store, const formats::tensor_source& source, const std::string& tensor,
                               const trained_grid& grid, const stored_form& form) {
  const uint64_t group = form.group(), elements = form.rows() * form.columns();
  if (group == 0 || grid.scales.empty() || grid.group_size % group != 0 ||
      grid.scales.size() * grid.group_size != elements)
    return false;
  std::vector<affine_grid> grids;
  for (uint64_t first = 0; first < elements; first += group) {
    const float scale = grid.scales[first / grid.group_size];
    const auto held = scale > 0 ? form.grid_with(scale) : std::nullopt;
    if (!held) return false;
    grids.push_back(*held);
  }
  TROUPE_ASSIGN(const auto values, values_of(source, tensor, grid, form));
  std::vector<int16_t> q(elements);
  std::vector<float> back(elements);
  for (uint64_t i = 0; i < elements; ++i) {
    const affine_grid& g = grids[i / group];
    const float code = std::nearbyint(values[i] / grid.scales[i / grid.group_size]) - g.offset / g.scale;
    if (!(code >= static_cast<float>(g.low) && code <= static_cast<float>(g.high))) return false;
    q[i] = static_cast<int16_t>(code);
    back[i] = g.scale * code + g.offset;
  }
  rounding_error lost;
  lost.add(values, back);
  TROUPE_ASSIGN(const auto parts, form.pack(grids, q));
  TROUPE_TRY(store.put(tensor, parts, lost));
  return true;
}

}  // namespace troupe::checkpoint
