// Where the ranks of a job stand: axes, coordinates, groups of ranks that share something. Owns the order of ranks;
// what a group does together is the plan's.
//
// Ranks are numbered row-major, the last axis fastest, so that those who exchange most are neighbours. The data axis is
// two: ranks of one shard group hold a model's states together, replicas hold the same ones.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::core {

/// Slow to fast. Experts will stand within `replicate` and `shard`.
enum class axis : uint8_t { pipeline, replicate, shard, sequence, context, tensor };
inline constexpr uint32_t num_axes = 6;

/// "pipeline", "replicate" ...
constexpr std::string_view name_of(axis a) {
  constexpr std::string_view names[num_axes] = {"pipeline", "replicate", "shard", "sequence", "context", "tensor"};
  return names[static_cast<size_t>(a)];
}

class axis_set {  ///< some of the axes
 public:
  constexpr axis_set() = default;
  constexpr axis_set(std::initializer_list<axis> of) {
    for (const axis a : of) bits_ |= 1U << static_cast<uint32_t>(a);
  }
  /// `others`, and `a`.
  constexpr axis_set(axis_set others, axis a) : bits_(others.bits_ | 1U << static_cast<uint32_t>(a)) {}
  [[nodiscard]] constexpr bool has(axis a) const { return (bits_ >> static_cast<uint32_t>(a) & 1U) != 0; }
  /// The others.
  [[nodiscard]] constexpr axis_set complement() const {
    axis_set out;
    out.bits_ = ~bits_ & ((1U << num_axes) - 1);
    return out;
  }
  bool operator==(const axis_set&) const = default;

 private:
  uint32_t bits_ = 0;
};
inline constexpr axis_set sequence_axes{axis::sequence, axis::context};
/// Ranks of one sequence group take the same samples, each other tokens of them: parameters are data-parallel over
/// them.
inline constexpr axis_set data_axes{axis::replicate, axis::shard, axis::sequence, axis::context};
inline constexpr axis_set all_axes = axis_set{}.complement();

struct coordinate {  ///< of one rank, a number below the degree for each axis
  std::array<uint32_t, num_axes> at = {};
  [[nodiscard]] uint32_t of(axis a) const { return at[static_cast<size_t>(a)]; }
  uint32_t& operator[](axis a) { return at[static_cast<size_t>(a)]; }
  bool operator==(const coordinate&) const = default;
};

class mesh {  ///< the degrees of a job's axes
 public:
  mesh() = default;  ///< one rank
  /// Axes that are not named have degree 1; degrees are at least 1 and their product is below 2^32.
  mesh(std::initializer_list<std::pair<axis, uint32_t>> degrees);

  [[nodiscard]] uint32_t ranks() const { return size(all_axes); }
  [[nodiscard]] uint32_t degree(axis a) const { return degrees_[static_cast<size_t>(a)]; }
  /// The product of their degrees: ranks of a group along `along`.
  [[nodiscard]] uint32_t size(axis_set along) const;
  [[nodiscard]] uint32_t data() const { return size(data_axes); }

  [[nodiscard]] uint32_t rank_at(const coordinate& c) const;
  [[nodiscard]] coordinate coordinate_of(uint32_t rank) const;
  /// One of them, where the others are not wanted.
  [[nodiscard]] uint32_t coordinate_of(uint32_t rank, axis a) const {
    const auto i = static_cast<size_t>(a);
    return degrees_[i] == 1 ? 0 : rank / strides_[i] % degrees_[i];
  }
  /// The place of `rank` in its group along `along`, from 0, in rank order.
  [[nodiscard]] uint32_t position(uint32_t rank, axis_set along) const;

  /// Ranks that differ from `rank` in axes of `along` alone, itself among them, ascending.
  [[nodiscard]] std::vector<uint32_t> group_of(uint32_t rank, axis_set along) const;
  /// All groups along `along`, in the order of their first ranks; every rank is in one.
  [[nodiscard]] std::vector<std::vector<uint32_t>> groups(axis_set along) const;
  /// Ranks with these coordinates, ascending.
  [[nodiscard]] std::vector<uint32_t> matching(std::initializer_list<std::pair<axis, uint32_t>> coordinates) const;
  /// The rank at the same place of another pipeline stage. `stage` is below the degree.
  [[nodiscard]] uint32_t at_stage(uint32_t rank, uint32_t stage) const;
  /// Of each rank with the rank at its place in the next pipeline stage, the last with the first.
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> neighbours() const;

  /// "pipeline 2 x replicate 2 x shard 4": axes of more than one; "1 rank".
  [[nodiscard]] std::string text() const;
  /// "pipeline 1, shard 0": coordinates of axes of more than one; empty for a mesh of one rank.
  [[nodiscard]] std::string text_of(uint32_t rank) const;
  bool operator==(const mesh&) const = default;

 private:
  std::array<uint32_t, num_axes> degrees_ = {1, 1, 1, 1, 1, 1};
  std::array<uint32_t, num_axes> strides_ = {1, 1, 1, 1, 1, 1};  // ranks from one coordinate of the axis to the next
};

/// `ranks` of one shard group.
inline mesh data_mesh(uint32_t ranks) { return {{axis::shard, ranks}}; }

}  // namespace troupe::core
