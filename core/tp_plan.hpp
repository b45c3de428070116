// How the parameters of a model are split over the tensor axis: along which dimension, and how wide the share of each
// tensor coordinate (rank of a tensor group) is. Owns the rules of widths; models/ and job/ decide what is split, and
// tp_slices.hpp locates the elements.
//
// Widths may differ, and may be 0. On every coordinate memory has the shape of the widest share, so that all
// coordinates have the same layout; the elements after a coordinate's own width are padding, zeros that stay zeros.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::core {

/// Which dimension of a parameter is split over tensor ranks.
enum class tp_style : uint8_t {
  replicated,  ///< not split: every coordinate has the whole parameter
  column,      ///< the outputs of a linear layer are split
  row,         ///< the inputs of a linear layer are split; its outputs are sums over the tensor coordinates
  vocabulary,  ///< the rows of an embedding, or of the head's weight, which may be the same parameter, are split
};

/// Returns "replicated", "column" ...
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

/// Number of elements along the split dimension, for each tensor coordinate.
using tp_widths = std::vector<uint64_t>;

/// The split of one parameter over tensor coordinates (ranks of a tensor group). A packed weight (queries, keys,
/// values) consists of several parts side by side along the split dimension, each of which is split by itself; a
/// coordinate stores its share of each part, side by side.
struct parameter_cut {
  tp_style style = tp_style::replicated;
  uint32_t dimension = 0;
  /// [part][tensor coordinate]: width of the coordinate's share; empty: the parameter is not split.
  std::vector<tp_widths> parts = {};
  bool operator==(const parameter_cut&) const = default;

  [[nodiscard]] bool cuts() const { return !parts.empty(); }
};

struct tp_plan {        ///< splits of all parameters of a model
  uint32_t degree = 1;  ///< number of tensor coordinates
  std::vector<parameter_cut> parameters = {};
  bool operator==(const tp_plan&) const = default;
};

/// Returns the sum of the widths of all tensor coordinates.
uint64_t sum_of(const tp_widths& widths);
uint64_t widest_of(const tp_widths& widths);

/// Distributes `total` elements over `degree` coordinates in whole grains (groups of `grain` elements); the first
/// coordinates have one grain more, and the last one also has the remainder below one grain. A total below one grain is
/// distributed element by element. `degree` and `grain` must not be 0. Source: DeepSpeed's tp_shard.get_shard_size.
tp_widths dealt(uint64_t total, uint32_t degree, uint64_t grain = 1);

/// Distributes `total` elements, which belong to `heads` heads of equal size, so that no head is divided; `heads`
/// divides `total`. If there are more coordinates than heads, the last coordinates have no elements.
tp_widths dealt_by_heads(uint64_t total, uint32_t heads, uint32_t degree);

/// Checks that a parameter of shape `shape` can be split as `cut` states: the dimension exists, each part has a width
/// for each coordinate, and all widths sum to the dimension. The error names the parameter.
core::result<void> check_cut(const std::string& name, const std::vector<int64_t>& shape, const parameter_cut& cut,
                             uint32_t degree);

/// Returns the shape of a parameter's share in memory, which is the same on all coordinates.
std::vector<int64_t> local_shape(std::vector<int64_t> shape, const parameter_cut& cut);

/// Returns "384: 128, 128, 64, 64", the total and the widths of all parts together, for messages; "-" if the parameter
/// is not split.
std::string widths_text(const parameter_cut& cut);

}  // namespace troupe::core
