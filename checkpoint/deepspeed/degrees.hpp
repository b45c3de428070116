// Which of the files that pipeline-, tensor- and data-parallel ranks wrote make a rank of fewer. Pure arithmetic over
// files' numbers; the files themselves are checkpoint_index.hpp's.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Ranks along each axis.
struct parallel_degrees {
  uint32_t pipeline = 1, tensor = 1, data = 1;
  [[nodiscard]] uint64_t ranks() const { return uint64_t{pipeline} * tensor * data; }
  bool operator==(const parallel_degrees&) const = default;
};

/// Of all three degrees together.
inline constexpr uint64_t max_parallel_ranks = 1 << 20;

/// Numbers of files for each cell.
using file_lists = std::vector<std::vector<uint32_t>>;

/// The file of that rank: data-parallel index slowest, tensor-parallel index fastest.
constexpr uint64_t file_number(const parallel_degrees& of, uint32_t pipeline, uint32_t tensor, uint32_t data) {
  return uint64_t{data} * of.pipeline * of.tensor + uint64_t{pipeline} * of.tensor + tensor;
}

/// Model files (data degree 1) for each new (pipeline, tensor) rank, at pipeline * tensor degree + tensor. First the
/// tensor ranks of each stage are joined, then the stages. Refused: growth, degrees that do not divide.
core::result<file_lists> reshape_2d(const parallel_degrees& from, const parallel_degrees& to);

/// The optimizer's files for each new rank, at its file_number; all data-parallel copies of one model file lie side by
/// side. Refused as above, and where a cell's files cannot be cut over the new data-parallel ranks.
core::result<file_lists> reshape_3d(const parallel_degrees& from, const parallel_degrees& to);

}  // namespace troupe::checkpoint
