#include "plan/kinds.hpp"

namespace troupe::plan {
namespace {
namespace of_kinds {  // short names for enumerators, which the rows of the table use

using enum subject_type;
using enum segment_use;

constexpr auto of_group = subject_type::sub_group, of_tie = subject_type::tie, of_block = subject_type::snapshot;
constexpr auto for_gathers = hidden_work::gathers, for_reductions = hidden_work::reductions;

constexpr std::array<kind_row, num_kinds + 1> rows{{
    // Columns of a row: kind, name, lane, subject, segment, slot, timer, bytes, hidden.
    {kind::load, "load", lane::control, nothing, unused, {}, timer::load, touched::nothing},
    {kind::gather, "gather", lane::fabric, gather_set, unused, {}, timer::untimed, touched::moved, for_gathers},
    {kind::release, "release", lane::compute, gather_set, unused, {}, timer::untimed},
    {kind::survey, "survey", lane::compute, unit, absent, needed_slot::output},
    {kind::agree, "agree", lane::fabric, unit, absent, needed_slot::staged},
    {kind::compress, "compress", lane::compute, unit, absent, {}, timer::step, touched::moved_twice},
    {kind::send, "send", lane::fabric, unit, unused, needed_slot::staged, timer::send},
    {kind::receive, "receive", lane::fabric, unit, unused, needed_slot::staged, timer::receive},
    {kind::exchange, "exchange", lane::fabric, unit, present, needed_slot::staged, timer::step, touched::computed},
    {kind::forward, "forward", lane::compute, unit, present, {}, timer::forward, touched::computed},
    {kind::multiply, "multiply", lane::compute, unit, present, {}, timer::forward, touched::nothing},
    {kind::recompute, "recompute", lane::compute, unit, optional, {}, timer::backward, touched::computed},
    {kind::backward, "backward", lane::compute, unit, present, {}, timer::backward, touched::computed},
    {kind::weigh, "weigh", lane::compute, unit, present, {}, timer::backward, touched::computed},
    {kind::reduce, "reduce", lane::fabric, bucket, unused, {}, timer::reduction, touched::computed, for_reductions},
    {kind::tie, "tie", lane::fabric, tie_exchange, unused, needed_slot::buffer},
    {kind::tied_sum, "tied_sum", lane::shard, of_tie},
    {kind::norm, "norm", lane::shard, bucket},
    {kind::vote, "vote", lane::fabric, nothing},
    {kind::prepare, "prepare", lane::shard, of_group, unused, {}, timer::step, touched::moved, hidden_work::updates},
    {kind::measure, "measure", lane::fabric, nothing},
    {kind::collect, "collect", lane::fabric, matrix_set},
    {kind::orthogonalise, "orthogonalise", lane::shard, matrix_set, unused, {}, timer::step, touched::nothing},
    {kind::spread, "spread", lane::fabric, matrix_set},
    {kind::update, "update", lane::shard, of_group, unused, {}, timer::step, touched::moved, hidden_work::updates},
    {kind::undo, "undo", lane::shard, of_group, unused, {}, timer::step, touched::moved, hidden_work::updates},
    {kind::redo, "redo", lane::shard, of_group, unused, {}, timer::step, touched::moved, hidden_work::updates},
    {kind::publish, "publish", lane::fabric, publish_set},
    {kind::snapshot, "snapshot", lane::writer, of_block, unused, {}, timer::untimed},
    {kind::write, "write", lane::writer, of_block, unused, {}, timer::untimed, touched::nothing},
    {kind::swap_in, "swap_in", lane::io, of_swap, unused, {}, timer::untimed, touched::nothing, hidden_work::swaps},
    {kind::swap_out, "swap_out", lane::io, of_swap, unused, {}, timer::untimed, touched::nothing, hidden_work::swaps},
    {static_cast<kind>(num_kinds), "?", lane::control, nothing},
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

}  // namespace troupe::plan
