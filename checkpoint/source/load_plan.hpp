// From what a rank wants to which bytes to read: a pure function of what a checkpoint holds. That is all it takes to
// load at other degrees than those that saved. Reading itself is native_read.hpp's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Elements [first, first + count) of a tensor of that shape and dtype, to lie from byte `destination_bytes` on.
struct wanted_slice {
  std::string name;  ///< may be a tied one
  tensor_kind kind = tensor_kind::master;
  std::string moment;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;  ///< of the whole tensor
  uint64_t first = 0, count = 0;
  uint64_t destination_bytes = 0;
};

struct range_read {  ///< `bytes` from byte `offset_bytes` of file number `file` to byte `destination_bytes`
  uint32_t file = 0;
  uint64_t offset_bytes = 0, bytes = 0, destination_bytes = 0;
  bool operator==(const range_read&) const = default;
};

/// A piece that is read as a whole, so that its digest can be compared where it then lies.
struct piece_check {
  range_read range;
  digest128 digest;
  uint32_t tensor = 0;  ///< number in tensor_list::tensors
};

/// Which bytes of which files go where.
struct load_plan {
  std::vector<range_read> reads;    ///< ascending by file and offset; neighbours in file and memory are one
  std::vector<piece_check> checks;  ///< ascending by file and offset
  uint64_t bytes = 0;               ///< of all reads
  uint64_t destination_bytes = 0;   ///< the memory that the reads need
};

/// Refused, with the tensor named: one that is missing, another shape or dtype (wanted and found), elements beyond it.
core::result<load_plan> plan_load(const tensor_list& of, std::span<const wanted_slice> wanted);

}  // namespace troupe::checkpoint
