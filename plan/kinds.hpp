// Owns the table with one row per kind of instruction: name, lane, subject, fields, group of ranks, the count of the
// checks, the price of the cost model, and the texts and colours of the tools. Checks, tools and figures read these
// rows; only code that does the work of a kind names the kind.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "plan/instruction.hpp"

namespace troupe::plan {

/// Says which list `operation::subject` is an index of.
enum class subject_type : uint8_t {
  nothing,
  gather_set,
  unit,
  bucket,
  tie_exchange,
  tie,
  sub_group,
  matrix_set,
  publish_set,
  snapshot,
  of_swap,  ///< subject whose type depends on `operation::what`; see subject_of_swap()
};

/// All slots of an operation.
inline constexpr std::array all_slots = {
    &operation_slots::parameters, &operation_slots::compressed, &operation_slots::gradients,
    &operation_slots::matrices,   &operation_slots::staging,    &operation_slots::moved,
    &operation_slots::arrived,    &operation_slots::leaving,    &operation_slots::window};
static_assert(sizeof(operation_slots) == all_slots.size() * sizeof(uint32_t), "a slot is not listed");

/// The timer of a step's breakdown to which the time of an instruction is added (telemetry/spans.hpp).
enum class timer : uint8_t { untimed, forward, backward, reduction, load, send, receive, step };

/// The kind of work, among those whose overlap with computation is reported, to which an instruction belongs
/// (telemetry/figures/overlap_figures.hpp).
enum class hidden_work : uint8_t { none, gathers, reductions, swaps, updates };

/// The part of a unit's forward and backward that an instruction computes, alone or together with others.
enum class unit_work : uint8_t {
  none,  ///< value of all kinds that compute no part
  forward,
  recompute,
  backward,  ///< a whole backward, or its input part or weight part
};

/// The bytes that an instruction reads and writes, for the cost model: in memory, or `operation::moved_bytes` on a
/// disk.
enum class touched : uint8_t {
  nothing,
  moved,                ///< `operation::moved_bytes`, which the instruction reads or writes
  moved_twice,          ///< `operation::moved_bytes` twice: the instruction reads and writes them
  saved,                ///< the activations of its segment or unit
  saved_and_gradients,  ///< the activations of its segment and, unless it is an input part, the segment's gradients
  gradients,            ///< the gradients of its segment's parameters
  exchanged,            ///< `operation::moved_bytes`, twice if the exchange adds
  reduced,    ///< this rank's part of every rank's bucket, which it reads, and the sums that it writes for other ranks
  disk_read,  ///< `operation::moved_bytes` of a swap file; the rank's next swap waits for them
  disk_written,       ///< `operation::moved_bytes` of a swap file; the rank's next swap waits for them
  disk_written_late,  ///< `operation::moved_bytes` of a checkpoint, for which neither the lane nor the step waits
};

/// The ranks that run a collective together; communicator_of() returns their communicator.
enum class member_group : uint8_t {
  nobody,      ///< value of kinds that are not collectives
  all,         ///< all ranks
  shards,      ///< ranks that together hold one copy of the states or, if the operation says so, a second copy (hpZ)
  reducers,    ///< ranks that add the gradients of a bucket
  tensor,      ///< a tensor group
  segment,     ///< the tensor or sequence group that exchanges the output of a segment
  matrices,    ///< ranks that orthogonalise the matrices of a set
  tied,        ///< two ranks that hold uses of a tied parameter
  neighbours,  ///< two ranks on the sides of a boundary between pipeline stages
};

/// True if a collective of the group is a transfer between two ranks.
constexpr bool is_pair(member_group g) { return g == member_group::tied || g == member_group::neighbours; }

/// The type of the elements that a collective moves.
enum class moved_elements : uint8_t {
  none,        ///< value of kinds that are not collectives
  bytes,       ///< bytes of any type
  parameters,  ///< the dtype of parameters
  masters,     ///< the dtype of masters
  sums,        ///< the dtype of gradient sums
  doubles,     ///< fp64
  exchanged,   ///< the dtype of parameters if the exchange adds, else bytes
  reduced,     ///< gradients in the bucket's dtype, which are reduced to sums in the dtype of gradient sums
};

/// The index under which the checker stores the ids of a kind's instructions (roll::by_kind in plan/check/rules.hpp):
/// a plan has at most one instruction of the kind for each value of the index.
enum class one_per : uint8_t {
  own_index,  ///< no common index: the checker has a list of its own for the kind
  step,
  micro,    ///< micro-batch
  segment,  ///< segment of a unit in a micro-batch; operations without a segment: the unit in a micro-batch
  subject,
  subject_and_micro,  ///< subject and micro-batch
  slot,               ///< the first slot that operations of the kind always have
};

/// Words between the name of a kind and the name of its subject, such as " output of", by direction of the data flow.
struct relation_words {
  std::string_view forward, backward;
};

/// Colours of the bars of a kind on light and dark pages, as "#rrggbb"; empty: the kind has no bars.
struct kind_colour {
  std::string_view light, dark;
};

struct kind_row {
  plan::kind kind;
  std::string_view name;  ///< name of the kind as tools and errors print it
  plan::lane lane;
  subject_type subject;
  uint32_t always, sometimes;  ///< fields that operations of the kind always and sometimes have, as bits
  plan::one_per one_per;
  kind_colour colour;
  plan::timer timer;
  touched bytes;
  hidden_work hidden;
  member_group group;
  moved_elements elements;
  relation_words relation;
  unit_work work = unit_work::none;
};

inline constexpr size_t num_kinds = static_cast<size_t>(kind::swap_out) + 1;

/// The rows of all kinds in their order, and a row with the name "?" for values that are no kind.
extern const std::array<kind_row, num_kinds + 1> kind_rows;

/// Returns the row of a kind; the row "?" for a value that is no kind.
inline const kind_row& row_of(kind k) { return kind_rows[std::min(static_cast<size_t>(k), num_kinds)]; }

/// Returns the list that the subject of a swap is an index of; `nothing` for a swap that moves nothing.
subject_type subject_of_swap(swapped what);

/// Returns the list that the subject of an operation is an index of.
inline subject_type subject_of(const operation& x) {
  const subject_type own = row_of(x.kind).subject;
  return own == subject_type::of_swap ? subject_of_swap(x.what) : own;
}

/// True if an instruction computes a part of the forward or backward of its unit.
inline bool computes(const operation& x) { return row_of(x.kind).work != unit_work::none; }

/// True if instructions of the kind store the activations of their segment or unit, or read them.
inline bool touches_activations(kind k) {
  const touched bytes = row_of(k).bytes;
  return bytes == touched::saved || bytes == touched::saved_and_gradients;
}

/// True if instructions of the kind move data between the stages of a pipeline.
inline bool is_transfer(kind k) { return row_of(k).group == member_group::neighbours; }
/// True if instructions of the kind are the sending ends of transfers.
inline bool sends(kind k) { return row_of(k).timer == timer::send; }
/// True if the other end of a transfer is the next stage; false: the stage before.
inline bool meets_next_stage(const operation& x) { return sends(x.kind) == (x.use == use::forward); }

/// True if the bytes of an instruction may arrive after the step's end.
inline bool ends_late(const operation& x) { return row_of(x.kind).bytes == touched::disk_written_late; }

/// Returns the first slot that operations of this kind always have; none if they have no such slot.
uint32_t always_slot(const operation& x);

/// Returns a text about the first invalid field of an operation, such as "has no slots.moved"; empty if all fields
/// are valid.
std::string fault_of_fields(const operation& x);

}  // namespace troupe::plan
