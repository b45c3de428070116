// One row per kind of instruction: its name, lane, subject, fields, and how tools count its time and bytes. Checks,
// tools and figures read these rows; only code that does the work of a kind names the kind.
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
    &operation_slots::input,      &operation_slots::output,     &operation_slots::window};
static_assert(sizeof(operation_slots) == all_slots.size() * sizeof(uint32_t), "a slot is not listed");

/// The timer of a step's breakdown to which the time of an instruction is added (telemetry/spans.hpp).
enum class timer : uint8_t { untimed, forward, backward, reduction, load, send, receive, step };

/// The kind of work, among those whose overlap with computation is reported, to which an instruction belongs
/// (telemetry/figures/overlap_figures.hpp).
enum class hidden_work : uint8_t { none, gathers, reductions, swaps, updates };

/// The bytes that an instruction reads and writes in memory, for the cost model.
enum class touched : uint8_t {
  nothing,
  moved,        ///< `operation::bytes`, which the instruction reads or writes
  moved_twice,  ///< `operation::bytes` twice: the instruction reads and writes them
  computed,     ///< bytes that plan/choose/cost.cpp computes for the instruction
};

struct kind_row {
  plan::kind kind;
  std::string_view name;  ///< name of the kind as tools and errors print it
  plan::lane lane;
  subject_type subject;
  uint32_t always = 0, sometimes = 0;  ///< fields that operations of the kind always and sometimes have, as bits
  plan::timer timer = timer::step;
  plan::touched bytes = touched::moved;
  hidden_work hidden = hidden_work::none;
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

/// Returns what is wrong with the fields of an operation, such as "has no slots.moved"; empty: nothing.
std::string fault_of_fields(const operation& x);

}  // namespace troupe::plan
