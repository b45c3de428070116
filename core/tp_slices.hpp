// Maps the elements of one tensor coordinate's share of a parameter to the whole parameter. Owns this arithmetic;
// leaves the choice of the split to tp_plan.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tp_plan.hpp"

namespace troupe::core {

/// A run of elements that are contiguous in the share and in the parameter: elements [local, local + count) of the
/// share are the parameter's elements from `whole` on. If `whole` is `padding`, the parameter does not have these
/// elements.
struct tp_run {
  static constexpr uint64_t padding = ~uint64_t{0};
  uint64_t local = 0, whole = 0, count = 0;
  [[nodiscard]] bool is_padding() const { return whole == padding; }
  bool operator==(const tp_run&) const = default;
};

/// A range of elements that two shares of a parameter, or parts of shares, have in common.
struct tp_common {
  /// Start in the first share, start in the second share, and length of a run of elements that both shares contain.
  uint64_t first = 0, second = 0, count = 0;
  bool operator==(const tp_common&) const = default;
};

/// Returns the common elements of the runs of two shares of one parameter; both lists are in order, and adjoining
/// ranges are merged.
std::vector<tp_common> common_to(const std::vector<tp_run>& first, const std::vector<tp_run>& second);

/// Number of elements that a share has along the split dimension: as many as the widest share of any coordinate (in
/// memory), or only the coordinate's own (in files).
enum class tp_room : uint8_t { widest, own };

class tp_slices {  ///< maps elements of the share that a tensor coordinate stores to elements of the whole parameter
 public:
  /// Describes the share of `coordinate` in a parameter of this shape; `check_cut` must accept `cut`.
  tp_slices(const std::vector<int64_t>& shape, const parameter_cut& cut, uint32_t coordinate,
            tp_room room = tp_room::widest);

  /// Returns the number of elements of the share, including padding.
  [[nodiscard]] uint64_t elements() const { return outer_ * local_row_; }
  /// Returns the number of elements of the share that belong to the parameter, without padding.
  [[nodiscard]] uint64_t own_elements() const { return outer_ * own_row_; }

  /// Returns the runs that cover elements [first, first + count) of the share, in order; adjoining elements form one
  /// run.
  [[nodiscard]] std::vector<tp_run> runs(uint64_t first, uint64_t count) const;
  /// Returns the position in the share of the first own element that is not before `element` of the parameter; all
  /// earlier elements of the parameter are stored before this position.
  [[nodiscard]] uint64_t before(uint64_t element) const;

 private:
  struct part {
    // Start of the part in a row of the share, and in a row of the parameter, in elements.
    uint64_t local = 0, whole = 0;
    uint64_t own = 0, room = 0;  // number of the coordinate's own elements in the part, and of elements with padding
    bool operator==(const part&) const = default;
  };
  // Product of the sizes of the dimensions before the split dimension, and of the dimensions after it.
  uint64_t outer_ = 1, inner_ = 1;
  // Number of elements of a row (all elements with the same indices before the split dimension): in the share, in the
  // whole parameter, and in the share without padding.
  uint64_t local_row_ = 1, whole_row_ = 1, own_row_ = 1;
  std::vector<part> parts_;  // parts of a row of the share, in order
};

}  // namespace troupe::core
