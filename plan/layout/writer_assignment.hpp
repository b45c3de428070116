// Owns the assignment of writers: which rank writes which part of bytes that several ranks hold. The assignment is
// DeepSpeed's FastPersist (checkpoint.writer's data_parallel: replica, socket, machine); this file also cuts the byte
// ranges. Pure functions, called by the writers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "plan/options.hpp"

namespace troupe::plan {

inline constexpr uint32_t sockets_per_machine = 2;

/// Degrees and numbering of the ranks: pipeline stages outermost, then data parallel, tensor parallel innermost.
/// Machines hold equal runs of consecutive ranks.
struct writer_layout {
  uint32_t ranks = 1;  ///< number of ranks: a multiple of tensor * pipeline
  uint32_t tensor = 1, pipeline = 1;
  uint32_t machines = 1;
  uint32_t stage = 0;  ///< ZeRO stage
  writer_unit unit = writer_unit::single;
};

/// The share of one rank: part `index` of `writers` parts.
struct writer_share {
  uint32_t writers = 1, index = 0;
  bool operator==(const writer_share&) const = default;
};

/// Returns the share of each rank; nullopt for a rank that does not write. From stage 1 on every rank writes some
/// elements of its own: a rank that shares nothing has part 0 of 1, and in stage 3 all ranks have that part. If
/// DeepSpeed's index would leave its range (writers on resources that are not neighbours), the index is the position
/// among the writers.
/// Errors (bad_input): degrees that are 0 or do not divide the ranks, more machines than ranks, a stage above 3.
core::result<std::vector<std::optional<writer_share>>> assign_writers(const writer_layout& layout);
/// Returns the share of one rank, as assign_writers() does, without computing the shares of ranks that hold other
/// bytes. Errors (bad_input): those of assign_writers(), and a rank beyond the layout's ranks.
core::result<std::optional<writer_share>> assigned_share(const writer_layout& layout, uint32_t rank);

/// Bytes [first, first + bytes) of a file or a piece.
struct byte_range {
  uint64_t first = 0, bytes = 0;
  bool operator==(const byte_range&) const = default;
};

/// Returns part `index` of `total_bytes` in `writers` contiguous parts. If the division leaves a rest, the first parts
/// have one byte more. Empty if `index` is not below `writers`.
byte_range even_range(uint64_t total_bytes, uint32_t writers, uint32_t index);

/// Returns part `index` of `total_bytes` in `writers` contiguous parts, with every cut at a multiple of `alignment`; 0
/// aligns nothing, as 1 does. A part may be empty.
byte_range aligned_range(uint64_t total_bytes, uint32_t writers, uint32_t index, uint64_t alignment);

}  // namespace troupe::plan
