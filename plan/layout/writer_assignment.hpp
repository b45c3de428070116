// Which rank writes which part of bytes that several ranks hold: DeepSpeed's FastPersist assignment
// (checkpoint.writer's data_parallel: replica, socket, machine) and the byte ranges that it cuts. Pure functions,
// called by the writers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "plan/options.hpp"

namespace troupe::plan {

inline constexpr uint32_t sockets_per_machine = 2;

/// How ranks are numbered: pipeline stages outermost, then data parallel, tensor parallel innermost; machines hold
/// equal runs of consecutive ranks.
struct writer_layout {
  uint32_t ranks = 1;  ///< a multiple of tensor * pipeline
  uint32_t tensor = 1, pipeline = 1;
  uint32_t machines = 1;
  uint32_t experts = 1;  ///< expert-parallel degree; divides the ranks
  uint32_t stage = 0;    ///< ZeRO's
  writer_unit unit = writer_unit::single;
};

struct writer_share {  ///< this rank writes part `index` of `writers`
  uint32_t writers = 1, index = 0;
  bool operator==(const writer_share&) const = default;
};

/// By rank; nullopt for a rank that does not write. From stage 1 on every rank writes something of its own: a rank that
/// shares nothing has part 0 of 1, and in stage 3 all have. Where DeepSpeed's index would leave its range (writers on
/// resources that are not neighbours), the index is the position among the writers.
/// Errors  bad_input: degrees that are 0 or do not divide the ranks, more machines than ranks.
core::result<std::vector<std::optional<writer_share>>> assign_writers(const writer_layout& layout);
/// The same of one rank alone, without looking at ranks that hold other bytes.
core::result<std::optional<writer_share>> assigned_share(const writer_layout& layout, uint32_t rank);

/// The same for the files of experts, whose replicas are the ranks of equal number modulo `experts`. For data
/// parallelism alone: bad_input with tensor or pipeline degrees.
core::result<std::vector<std::optional<writer_share>>> assign_expert_writers(const writer_layout& layout);

/// Bytes [first, first + bytes) of a file or a piece.
struct byte_range {
  uint64_t first = 0, bytes = 0;
  bool operator==(const byte_range&) const = default;
};

/// Part `index` of `total_bytes` in `writers` contiguous parts; the first ones get one byte more where it does not
/// divide. Nothing for an index that is none.
byte_range even_range(uint64_t total_bytes, uint32_t writers, uint32_t index);

/// The same with every cut at a multiple of `alignment`; parts may be empty.
byte_range aligned_range(uint64_t total_bytes, uint32_t writers, uint32_t index, uint64_t alignment);

}  // namespace troupe::plan
