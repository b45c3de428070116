// Where the elements of one tensor coordinate's share of a parameter lie in the whole parameter. Owns this arithmetic;
// how a parameter is cut is tp_plan.hpp's.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tp_plan.hpp"

namespace troupe::core {

/// Neighbours in both: elements [local, local + count) of the share are those from `whole` on of the parameter, or
/// padding, which the parameter does not have.
struct tp_run {
  static constexpr uint64_t padding = ~uint64_t{0};
  uint64_t local = 0, whole = 0, count = 0;
  [[nodiscard]] bool is_padding() const { return whole == padding; }
  bool operator==(const tp_run&) const = default;
};

/// Elements of the whole parameter, seen in three dimensions: what lies before the one that is cut, that one, and what
/// lies behind it. From `first` on, `count` of them.
struct tp_box {
  uint64_t first[3] = {}, count[3] = {};
  [[nodiscard]] uint64_t elements() const { return count[0] * count[1] * count[2]; }
  bool operator==(const tp_box&) const = default;
};

/// Elements that two shares of a parameter, or parts of them, have both.
struct tp_common {
  uint64_t first = 0, second = 0, count = 0;  ///< where they begin in either
  bool operator==(const tp_common&) const = default;
};

/// Of runs of two shares of one parameter, each in order; neighbours are one.
std::vector<tp_common> common_to(const std::vector<tp_run>& first, const std::vector<tp_run>& second);

/// What a share has room for along the dimension: as much as the widest one, as in memory, or what is its own, as in
/// files.
enum class tp_room : uint8_t { widest, own };

class tp_slices {  ///< the share of one coordinate
 public:
  /// Of a parameter of this shape, whose cut `check_cut` accepts.
  tp_slices(const std::vector<int64_t>& shape, const parameter_cut& cut, uint32_t coordinate,
            tp_room room = tp_room::widest);

  /// Of the share, padding among them.
  [[nodiscard]] uint64_t elements() const { return outer_ * local_row_; }
  /// Of those that are the parameter's.
  [[nodiscard]] uint64_t own_elements() const { return outer_ * own_row_; }

  /// Elements [first, first + count) of the share, in order; neighbours are one run.
  [[nodiscard]] std::vector<tp_run> runs(uint64_t first, uint64_t count) const;
  /// Where the share's elements from number `element` of the parameter on begin: all before come before it.
  [[nodiscard]] uint64_t before(uint64_t element) const;
  /// All that is the parameter's, a box for each part of which there is something. The share has their elements in the
  /// order of dimensions: within what lies before the cut one part behind the other.
  [[nodiscard]] std::vector<tp_box> boxes() const;

 private:
  struct part {
    uint64_t local = 0, whole = 0;  // where it begins in a row: of the share, of the parameter
    uint64_t own = 0, room = 0;     // elements: the coordinate's, and with padding
    bool operator==(const part&) const = default;
  };
  uint64_t outer_ = 1, inner_ = 1;                        // elements before and behind the dimension
  uint64_t local_row_ = 1, whole_row_ = 1, own_row_ = 1;  // elements for each before it
  std::vector<part> parts_;                               // of a row, in order
};

}  // namespace troupe::core
