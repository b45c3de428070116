// Arranges the ranks of a job along axes of parallelism (pipeline, replicate, shard, ...): axes, coordinates, and
// groups of ranks along axes. Owns the numbering of ranks; plan/ decides which groups communicate.
//
// Ranks are numbered row-major, the last axis fastest, so that ranks that exchange most are neighbours. Data
// parallelism has two axes: the states of a model are partitioned over the ranks of one shard group, and replicas hold
// equal states.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::core {

/// Axes of a mesh. In the numbering of ranks, the coordinate of the first axis changes slowest and that of the last
/// axis fastest. Expert parallelism will divide `replicate` and `shard`.
enum class axis : uint8_t { pipeline, replicate, shard, sequence, context, tensor };
inline constexpr uint32_t num_axes = 6;

/// Returns "pipeline", "replicate" ...
constexpr std::string_view name_of(axis a) {
  constexpr std::string_view names[num_axes] = {"pipeline", "replicate", "shard", "sequence", "context", "tensor"};
  return names[static_cast<size_t>(a)];
}

class axis_set {  ///< a set of axes of a mesh
 public:
  constexpr axis_set() = default;
  constexpr axis_set(std::initializer_list<axis> of) {
    for (const axis a : of) bits_ |= 1U << static_cast<uint32_t>(a);
  }
  /// Makes the set that contains the axes of `others` and the axis `a`.
  constexpr axis_set(axis_set others, axis a) : bits_(others.bits_ | 1U << static_cast<uint32_t>(a)) {}
  [[nodiscard]] constexpr bool has(axis a) const { return (bits_ >> static_cast<uint32_t>(a) & 1U) != 0; }
  /// Returns the axes that are not in this set.
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
/// The axes over which parameters are data-parallel. The ranks of one sequence group read different tokens of the same
/// samples, so the sequence axes belong to this set.
inline constexpr axis_set data_axes{axis::replicate, axis::shard, axis::sequence, axis::context};
inline constexpr axis_set all_axes = axis_set{}.complement();

struct coordinate {  ///< position of one rank: for each axis a number below its degree
  std::array<uint32_t, num_axes> at = {};
  [[nodiscard]] uint32_t of(axis a) const { return at[static_cast<size_t>(a)]; }
  uint32_t& operator[](axis a) { return at[static_cast<size_t>(a)]; }
  bool operator==(const coordinate&) const = default;
};

class mesh {  ///< stores the degrees of a job's axes, and converts between ranks and their coordinates
 public:
  mesh() = default;  ///< a mesh of one rank
  /// Sets the degrees of the named axes; all other axes have degree 1. Degrees are at least 1 and their product is
  /// below 2^32.
  mesh(std::initializer_list<std::pair<axis, uint32_t>> degrees);

  [[nodiscard]] uint32_t ranks() const { return size(all_axes); }
  [[nodiscard]] uint32_t degree(axis a) const { return degrees_[static_cast<size_t>(a)]; }
  /// Returns the number of ranks in a group along `along`, whose coordinates differ only in these axes: the product of
  /// the axes' degrees.
  [[nodiscard]] uint32_t size(axis_set along) const;
  [[nodiscard]] uint32_t data() const { return size(data_axes); }

  [[nodiscard]] uint32_t rank_at(const coordinate& c) const;
  [[nodiscard]] coordinate coordinate_of(uint32_t rank) const;
  /// Returns one coordinate of `rank` without computing the others.
  [[nodiscard]] uint32_t coordinate_of(uint32_t rank, axis a) const {
    const auto i = static_cast<size_t>(a);
    return degrees_[i] == 1 ? 0 : rank / strides_[i] % degrees_[i];
  }
  /// Returns the position of `rank` in its group along `along`, from 0, in rank order.
  [[nodiscard]] uint32_t position(uint32_t rank, axis_set along) const;
  [[nodiscard]] uint32_t pipeline_at(uint32_t rank) const { return coordinate_of(rank, axis::pipeline); }
  [[nodiscard]] uint32_t tensor_ranks() const { return degree(axis::tensor); }
  [[nodiscard]] uint32_t tensor_at(uint32_t rank) const { return coordinate_of(rank, axis::tensor); }
  /// Number of ranks in a sequence group, which process different tokens of the same samples.
  [[nodiscard]] uint32_t sequence_ranks() const { return size(sequence_axes); }
  /// Position of `rank` in its sequence group, whose ranks process different tokens of the same samples.
  [[nodiscard]] uint32_t sequence_at(uint32_t rank) const { return position(rank, sequence_axes); }
  /// Position of `rank` among the ranks that process different tokens. Ranks that differ only in their stage have the
  /// same position.
  [[nodiscard]] uint32_t data_at(uint32_t rank) const {
    return (coordinate_of(rank, axis::replicate) * degree(axis::shard) + coordinate_of(rank, axis::shard)) *
               sequence_ranks() +
           sequence_at(rank);
  }
  /// Position of `rank` among the ranks that process different samples.
  [[nodiscard]] uint32_t samples_at(uint32_t rank) const { return data_at(rank) / sequence_ranks(); }

  /// Returns the ranks that differ from `rank` only in axes of `along`, `rank` included, ascending.
  [[nodiscard]] std::vector<uint32_t> group_of(uint32_t rank, axis_set along) const;
  /// Returns all groups along `along`, in the order of their first ranks; every rank is in exactly one group.
  [[nodiscard]] std::vector<std::vector<uint32_t>> groups(axis_set along) const;
  /// Returns all ranks that have the given coordinates on the named axes, ascending; other axes may have any
  /// coordinate.
  [[nodiscard]] std::vector<uint32_t> matching(std::initializer_list<std::pair<axis, uint32_t>> coordinates) const;
  /// Returns the rank whose coordinates equal those of `rank`, except that its pipeline stage is `stage`, which must be
  /// below the pipeline degree.
  [[nodiscard]] uint32_t at_stage(uint32_t rank, uint32_t stage) const;
  /// Returns, for each rank, a pair of that rank and the rank at the same position of the next pipeline stage; the last
  /// stage is paired with the first.
  [[nodiscard]] std::vector<std::pair<uint32_t, uint32_t>> neighbours() const;

  /// Returns "pipeline 2 x replicate 2 x shard 4", the axes with a degree above 1; "1 rank" if there are none.
  [[nodiscard]] std::string text() const;
  /// Returns "pipeline 1, shard 0", the coordinates on axes with a degree above 1; empty for a mesh of one rank.
  [[nodiscard]] std::string text_of(uint32_t rank) const;
  bool operator==(const mesh&) const = default;

 private:
  std::array<uint32_t, num_axes> degrees_ = {1, 1, 1, 1, 1, 1};
  // [axis]: difference between the numbers of two ranks whose coordinates on the axis differ by 1.
  std::array<uint32_t, num_axes> strides_ = {1, 1, 1, 1, 1, 1};
};

/// Returns a mesh of one shard group of `ranks` ranks.
inline mesh data_mesh(uint32_t ranks) { return {{axis::shard, ranks}}; }

}  // namespace troupe::core
