// Computes which files of a checkpoint belong to each rank if it is loaded at smaller pipeline-, tensor- and
// data-parallel degrees than it was written at. Works on file numbers only; leaves the files to checkpoint_index.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "core/error.hpp"

namespace troupe::formats {

/// Number of ranks along each axis.
struct parallel_degrees {
  uint32_t pipeline = 1, tensor = 1, data = 1;
  [[nodiscard]] uint64_t ranks() const { return uint64_t{pipeline} * tensor * data; }
  bool operator==(const parallel_degrees&) const = default;
};

/// Maximum product of all three degrees.
inline constexpr uint64_t max_parallel_ranks = 1 << 20;

/// Numbers of the files of each cell; a cell is a rank of the new degrees.
using file_lists = std::vector<std::vector<uint32_t>>;

/// Returns the number of a rank's file: data-parallel index slowest, tensor-parallel index fastest.
constexpr uint64_t file_number(const parallel_degrees& of, uint32_t pipeline, uint32_t tensor, uint32_t data) {
  return uint64_t{data} * of.pipeline * of.tensor + uint64_t{pipeline} * of.tensor + tensor;
}

/// Returns the model files (data degree 1) of each new (pipeline, tensor) rank, at index pipeline * tensor degree +
/// tensor. Joins first the tensor ranks of each stage, then the stages. Refused: larger degrees, degrees that do not
/// divide.
core::result<file_lists> reshape_2d(const parallel_degrees& from, const parallel_degrees& to);

/// Returns the optimizer files of each new rank, at index file_number(); all data-parallel copies of one model file are
/// neighbours. Refused: the cases that reshape_2d() refuses, and files of a cell that cannot be divided over the new
/// data-parallel ranks.
core::result<file_lists> reshape_3d(const parallel_degrees& from, const parallel_degrees& to);

}  // namespace troupe::formats
