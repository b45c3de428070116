#include "plan/kinds.hpp"

#include <bit>

namespace troupe::plan {
namespace {
namespace of_kinds {  // short names for enumerators, which the rows of the table use

using enum subject_type;
using enum lane;
using enum timer;

constexpr auto of_group = subject_type::sub_group, of_tie = subject_type::tie, of_block = subject_type::snapshot;
constexpr auto computed = touched::computed;
constexpr auto gathers = hidden_work::gathers, reductions = hidden_work::reductions, swaps = hidden_work::swaps,
               updates = hidden_work::updates;

/// Bits of the fields of an operation that not all kinds have. The bits of slots follow each other as in `all_slots`.
constexpr uint32_t segment = 1U << 0, piece = 1U << 1, what = 1U << 2, near = 1U << 3, again = 1U << 4,
                   parameters = 1U << 5, compressed = 1U << 6, gradients = 1U << 7, matrices = 1U << 8,
                   staging = 1U << 9, moved = 1U << 10, input = 1U << 11, output = 1U << 12, window = 1U << 13;
constexpr std::array names = {
    "segment",          "piece",           "what",           "near",          "again",       "slots.parameters",
    "slots.compressed", "slots.gradients", "slots.matrices", "slots.staging", "slots.moved", "slots.input",
    "slots.output",     "slots.window"};
static_assert(window == parameters << (all_slots.size() - 1) && window == 1U << (names.size() - 1),
              "a slot has no bit");

constexpr uint32_t of_forward = parameters | compressed | input | output | window, of_backward = of_forward,
                   of_multiply = piece | parameters | compressed | input | output, of_recompute = segment | of_forward;

/// Returns the fields that an operation has: those whose values are not the ones of all other operations.
uint32_t fields_of(const operation& x) {
  uint32_t out = (x.segment != none ? segment : 0U) | (x.piece != 0 ? piece : 0U) |
                 (x.what != swapped::nothing ? what : 0U) | (x.near ? near : 0U) | (x.again ? again : 0U);
  for (size_t k = 0; k < all_slots.size(); ++k) out |= x.slots.*all_slots[k] != none ? parameters << k : 0U;
  return out;
}

constexpr std::array<kind_row, num_kinds + 1> rows{{
    // Columns of a row: kind, name, lane, subject, fields that it always and sometimes has, timer, bytes, hidden.
    {kind::load, "load", control, nothing, 0, 0, load, touched::nothing},
    {kind::gather, "gather", fabric, gather_set, parameters, near | window, untimed, touched::moved, gathers},
    {kind::release, "release", compute, gather_set, parameters, near, untimed},
    {kind::survey, "survey", compute, unit, output, parameters | input},
    {kind::agree, "agree", fabric, unit, moved},
    {kind::compress, "compress", compute, unit, compressed, parameters | input, step, touched::moved_twice},
    {kind::send, "send", fabric, unit, moved, 0, send},
    {kind::receive, "receive", fabric, unit, moved, 0, receive},
    {kind::exchange, "exchange", fabric, unit, segment | moved, piece | again, step, computed},
    {kind::forward, "forward", compute, unit, segment, of_forward, forward, computed},
    {kind::multiply, "multiply", compute, unit, segment, of_multiply, forward, touched::nothing},
    {kind::recompute, "recompute", compute, unit, 0, of_recompute, backward, computed},
    {kind::backward, "backward", compute, unit, segment, of_backward, backward, computed},
    {kind::weigh, "weigh", compute, unit, segment, input, backward, computed},
    {kind::reduce, "reduce", fabric, bucket, gradients, window, reduction, computed, reductions},
    {kind::tie, "tie", fabric, tie_exchange, moved},
    {kind::tied_sum, "tied_sum", shard, of_tie, 0, moved},
    {kind::norm, "norm", shard, bucket, 0, window},
    {kind::vote, "vote", fabric, nothing},
    {kind::prepare, "prepare", shard, of_group, 0, matrices, step, touched::moved, updates},
    {kind::measure, "measure", fabric, nothing},
    {kind::collect, "collect", fabric, matrix_set, matrices},
    {kind::orthogonalise, "orthogonalise", shard, matrix_set, matrices, 0, step, touched::nothing},
    {kind::spread, "spread", fabric, matrix_set, matrices},
    {kind::update, "update", shard, of_group, 0, matrices | window, step, touched::moved, updates},
    {kind::undo, "undo", shard, of_group, 0, 0, step, touched::moved, updates},
    {kind::redo, "redo", shard, of_group, 0, window, step, touched::moved, updates},
    {kind::publish, "publish", fabric, publish_set},
    {kind::snapshot, "snapshot", writer, of_block, staging, 0, untimed},
    {kind::write, "write", writer, of_block, staging, 0, untimed, touched::nothing},
    {kind::swap_in, "swap_in", io, of_swap, what | window, again, untimed, touched::nothing, swaps},
    {kind::swap_out, "swap_out", io, of_swap, what | window, again, untimed, touched::nothing, swaps},
    {static_cast<kind>(num_kinds), "?", control, nothing},
}};

}  // namespace of_kinds

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i <= num_kinds; ++i)
    if (static_cast<size_t>(of_kinds::rows[i].kind) != i) return false;
  return true;
}
static_assert(rows_are_in_order(), "a kind of plan/instruction.hpp has no row here, or rows are in another order");

}  // namespace

constinit const std::array<kind_row, num_kinds + 1> kind_rows = of_kinds::rows;

std::string_view name_of(kind k) { return row_of(k).name; }
lane lane_of(kind k) { return row_of(k).lane; }

subject_type subject_of_swap(swapped what) {
  switch (what) {
    case swapped::nothing:
      return subject_type::nothing;
    case swapped::states:
      return subject_type::sub_group;
    case swapped::gradients:
      return subject_type::bucket;
    case swapped::shards:
      return subject_type::gather_set;
    case swapped::activations:
      return subject_type::unit;
  }
  return subject_type::nothing;
}

std::string fault_of_fields(const operation& x) {
  const kind_row& row = row_of(x.kind);
  const uint32_t has = of_kinds::fields_of(x), lacks = row.always & ~has, extra = has & ~row.always & ~row.sometimes;
  if (lacks != 0) return std::string("has no ") + of_kinds::names[static_cast<size_t>(std::countr_zero(lacks))];
  if (extra == 0) return {};
  return std::string("has a field that its kind does not have: ") +
         of_kinds::names[static_cast<size_t>(std::countr_zero(extra))];
}

}  // namespace troupe::plan
