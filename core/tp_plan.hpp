// How the parameters of a model are cut over the tensor axis: along which dimension, how wide on each coordinate. Owns
// the rules of widths; who decides what is cut is models/ and job/, where elements lie is tp_slices.hpp.
//
// Widths may differ, and may be 0. Memory has the shape of the widest on every coordinate, so that all of them have the
// same layout: what is behind a coordinate's own width is padding, zeros that stay zeros.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::core {

/// What is cut of a parameter.
enum class tp_style : uint8_t {
  replicated,  ///< nothing: every coordinate has all of it
  column,      ///< the outputs of a linear layer
  row,         ///< its inputs: outputs are sums over coordinates
  vocabulary,  ///< the rows of an embedding, and of the head's weight, which may be the same
};

/// "replicated", "column" ...
constexpr std::string_view name_of(tp_style style) {
  switch (style) {
    case tp_style::replicated:
      return "replicated";
    case tp_style::column:
      return "column";
    case tp_style::row:
      return "row";
    case tp_style::vocabulary:
      return "vocabulary";
  }
  return "?";
}

/// The elements along a dimension that each coordinate has.
using tp_widths = std::vector<uint64_t>;

/// The cut of one parameter. A packed weight (queries, keys, values) is several parts side by side along the dimension,
/// each cut by itself; a coordinate has its share of each, side by side again.
struct parameter_cut {
  tp_style style = tp_style::replicated;
  uint32_t dimension = 0;
  std::vector<tp_widths> parts = {};  ///< none: it is not cut
  bool operator==(const parameter_cut&) const = default;

  [[nodiscard]] bool cuts() const { return !parts.empty(); }
};

struct tp_plan {        ///< of a model
  uint32_t degree = 1;  ///< coordinates
  std::vector<parameter_cut> parameters = {};
  bool operator==(const tp_plan&) const = default;
};

/// Of a part.
uint64_t sum_of(const tp_widths& widths);
uint64_t widest_of(const tp_widths& widths);

/// `total` over `degree` coordinates in whole grains, of which the first coordinates have one more; the last has what
/// is no whole grain. Below one grain: element by element. `degree` and `grain` are not 0. Source: DeepSpeed's
/// tp_shard.get_shard_size.
tp_widths dealt(uint64_t total, uint32_t degree, uint64_t grain = 1);

/// `total` elements that belong to `heads` heads, which divide it, and go with them. With more coordinates than heads
/// the last ones have none.
tp_widths dealt_by_heads(uint64_t total, uint32_t heads, uint32_t degree);

/// Whether `cut` is one of a parameter of this shape: the dimension is there, each part has a width for each
/// coordinate, and all of them together are the dimension. The error names the parameter.
core::result<void> check_cut(const std::string& name, const std::vector<int64_t>& shape, const parameter_cut& cut,
                             uint32_t degree);

/// The shape of a parameter's share in memory, the same on all coordinates.
std::vector<int64_t> local_shape(std::vector<int64_t> shape, const parameter_cut& cut);

/// "384: 128, 128, 64, 64": widths of all parts together; "-" where nothing is cut. For people.
std::string widths_text(const parameter_cut& cut);

}  // namespace troupe::core
