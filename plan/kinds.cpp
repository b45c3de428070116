#include "plan/kinds.hpp"

#include <bit>

namespace troupe::plan {
namespace {
namespace of_kinds {  // short names for enumerators, which the rows of the table use

using enum subject_type;
using enum lane;
using enum timer;

constexpr auto of_group = subject_type::sub_group, of_tie = subject_type::tie, of_block = subject_type::snapshot;
constexpr auto own_index = one_per::own_index, per_step = one_per::step, per_micro = one_per::micro,
               per_segment = one_per::segment, per_subject = one_per::subject,
               subject_and_micro = one_per::subject_and_micro, per_slot = one_per::slot;
constexpr auto gathers = hidden_work::gathers, reductions = hidden_work::reductions, swaps = hidden_work::swaps,
               updates = hidden_work::updates;

/// Bits of the fields of an operation that not all kinds have. The bits of slots follow each other as in `all_slots`.
constexpr uint32_t segment = 1U << 0, piece = 1U << 1, what = 1U << 2, near = 1U << 3, of_recompute = 1U << 4,
                   of_redo = 1U << 5, parameters = 1U << 6, compressed = 1U << 7, gradients = 1U << 8,
                   matrices = 1U << 9, staging = 1U << 10, moved = 1U << 11, arrived = 1U << 12, leaving = 1U << 13,
                   window = 1U << 14;
constexpr std::array names = {"segment",
                              "piece",
                              "what",
                              "near",
                              "repeats: recompute",
                              "repeats: redo",
                              "slots.parameters",
                              "slots.compressed",
                              "slots.gradients",
                              "slots.matrices",
                              "slots.staging",
                              "slots.moved",
                              "slots.arrived",
                              "slots.leaving",
                              "slots.window"};
static_assert(window == parameters << (all_slots.size() - 1) && window == 1U << (names.size() - 1),
              "a slot has no bit");

constexpr uint32_t of_forward = parameters | compressed | arrived | leaving | window, of_backward = of_forward,
                   of_multiply = piece | parameters | compressed | arrived | leaving;

/// Returns the fields and slots, as bits, that have other values than their defaults in operation `x`.
uint32_t fields_of(const operation& x) {
  uint32_t out = (x.segment != none ? segment : 0U) | (x.piece != 0 ? piece : 0U) |
                 (x.what != swapped::nothing ? what : 0U) | (x.near ? near : 0U) |
                 (x.repeats == repetition::recompute ? of_recompute : 0U) |
                 (x.repeats == repetition::redo ? of_redo : 0U);
  for (size_t k = 0; k < all_slots.size(); ++k) out |= x.slots.*all_slots[k] != none ? parameters << k : 0U;
  return out;
}

/// Returns a row with the arguments as its fields. Default arguments are the values that most kinds have.
constexpr kind_row row(plan::kind kind, std::string_view name, plan::lane lane, subject_type subject, uint32_t always,
                       uint32_t sometimes, plan::one_per one_per, kind_colour colour, plan::timer timer = step,
                       touched bytes = touched::moved, hidden_work hidden = hidden_work::none,
                       member_group group = member_group::nobody, moved_elements elements = moved_elements::none,
                       relation_words relation = {}) {
  return {kind,  name,  lane,   subject, always,   sometimes, one_per,        colour,
          timer, bytes, hidden, group,   elements, relation,  unit_work::none};
}

/// Returns `x`, the row of a kind that computes this part of its unit.
constexpr kind_row computing(unit_work part, kind_row x) {
  x.work = part;
  return x;
}

constexpr std::array<kind_row, num_kinds + 1> rows{{
    // A release has no colour because it takes no time.
    row(kind::load, "load", control, nothing, 0, 0, per_micro, {"#b9bec6", "#6b737d"}, load, touched::nothing),
    row(kind::gather, "gather", fabric, gather_set, parameters, near | window, per_slot, {"#e3ab45", "#d9a441"},
        untimed, touched::moved, gathers, member_group::shards, moved_elements::parameters),
    row(kind::release, "release", compute, gather_set, parameters, near, per_slot, {}, untimed),
    row(kind::survey, "survey", compute, unit, leaving, parameters | arrived, per_slot, {"#b7a9cf", "#776a94"}),
    row(kind::agree, "agree", fabric, unit, moved, 0, per_slot, {"#76b5ad", "#6bb0a6"}, step, touched::moved,
        hidden_work::none, member_group::tensor, moved_elements::bytes),
    row(kind::compress, "compress", compute, unit, compressed, parameters | arrived, per_slot, {"#8d7bb8", "#9a88c9"},
        step, touched::moved_twice),
    row(kind::send, "send", fabric, unit, moved, 0, own_index, {"#7fb59a", "#5f9c80"}, send, touched::moved,
        hidden_work::none, member_group::neighbours, moved_elements::bytes,
        {" output of", " gradient of the input of"}),
    row(kind::receive, "receive", fabric, unit, moved, 0, own_index, {"#a8cdb9", "#86b59f"}, receive, touched::moved,
        hidden_work::none, member_group::neighbours, moved_elements::bytes,
        {" input of", " gradient of the output of"}),
    row(kind::exchange, "exchange", fabric, unit, segment | moved, piece | of_recompute, own_index,
        {"#5aa7a0", "#4f9f97"}, step, touched::exchanged, hidden_work::none, member_group::segment,
        moved_elements::exchanged, {" output of", " gradient of the input of"}),
    computing(unit_work::forward, row(kind::forward, "forward", compute, unit, segment, of_forward, per_segment,
                                      {"#6aa3d8", "#6aa9e2"}, forward, touched::saved)),
    computing(unit_work::forward, row(kind::multiply, "multiply", compute, unit, segment, of_multiply, own_index,
                                      {"#8fbbe3", "#8fc0ec"}, forward, touched::nothing)),
    computing(unit_work::recompute, row(kind::recompute, "recompute", compute, unit, 0, segment | of_forward,
                                        per_segment, {"#a99ad6", "#a394d4"}, backward, touched::saved)),
    computing(unit_work::backward, row(kind::backward, "backward", compute, unit, segment, of_backward, per_segment,
                                       {"#2f5f98", "#3d74b4"}, backward, touched::saved_and_gradients)),
    computing(unit_work::backward, row(kind::backward_weight, "backward_weight", compute, unit, segment, arrived,
                                       per_segment, {"#4a9aa6", "#3f8e9b"}, backward, touched::gradients)),
    row(kind::reduce, "reduce", fabric, bucket, gradients, window, subject_and_micro, {"#cd6a3c", "#cf7046"}, reduction,
        touched::reduced, reductions, member_group::reducers, moved_elements::reduced),
    row(kind::tie, "tie", fabric, tie_exchange, moved, 0, per_subject, {"#8f7a5c", "#9c8766"}, step, touched::moved,
        hidden_work::none, member_group::tied, moved_elements::sums),
    row(kind::tied_sum, "tied_sum", shard, of_tie, 0, moved, per_subject, {"#c9bfae", "#7d7568"}),
    row(kind::norm, "norm", shard, bucket, 0, window, per_subject, {"#90c39b", "#86b892"}),
    row(kind::vote, "vote", fabric, nothing, 0, 0, per_step, {"#8b929b", "#8a929c"}, step, touched::moved,
        hidden_work::none, member_group::all, moved_elements::doubles),
    row(kind::prepare, "prepare", shard, of_group, 0, matrices, per_subject, {"#c2cf7d", "#aab863"}, step,
        touched::moved, updates),
    row(kind::measure, "measure", fabric, nothing, 0, 0, per_step, {"#a9b2bc", "#6e7781"}, step, touched::moved,
        hidden_work::none, member_group::all, moved_elements::doubles),
    row(kind::collect, "collect", fabric, matrix_set, matrices, 0, per_subject, {"#e0c98a", "#bda25c"}, step,
        touched::moved, hidden_work::none, member_group::matrices, moved_elements::masters),
    row(kind::orthogonalise, "orthogonalise", shard, matrix_set, matrices, 0, per_subject, {"#86873a", "#a5a64c"}, step,
        touched::nothing),
    row(kind::spread, "spread", fabric, matrix_set, matrices, 0, per_subject, {"#b98a5e", "#b08257"}, step,
        touched::moved, hidden_work::none, member_group::matrices, moved_elements::masters),
    row(kind::update, "update", shard, of_group, 0, matrices | window, per_subject, {"#3d8b5b", "#4a9e6b"}, step,
        touched::moved, updates),
    row(kind::undo, "undo", shard, of_group, 0, 0, per_subject, {"#b5524a", "#c4665e"}, step, touched::moved, updates),
    row(kind::redo, "redo", shard, of_group, 0, window, per_subject, {"#6f7f3a", "#8fa052"}, step, touched::moved,
        updates),
    row(kind::publish, "publish", fabric, publish_set, 0, 0, per_subject, {"#d78fae", "#cf88a8"}, step, touched::moved,
        hidden_work::none, member_group::shards, moved_elements::parameters),
    row(kind::snapshot, "snapshot", writer, of_block, staging, 0, per_subject, {"#9fb4c7", "#8aa0b5"}, untimed),
    row(kind::write, "write", writer, of_block, staging, 0, per_subject, {"#54728c", "#5e7f9c"}, untimed,
        touched::disk_written_late),
    row(kind::swap_in, "swap_in", io, of_swap, what | window, of_redo, own_index, {"#7fb3a4", "#6fa394"}, untimed,
        touched::disk_read, swaps),
    row(kind::swap_out, "swap_out", io, of_swap, what | window, of_redo, own_index, {"#4c8474", "#5b9483"}, untimed,
        touched::disk_written, swaps),
    row(static_cast<kind>(num_kinds), "?", control, nothing, 0, 0, own_index, {}),
}};

}  // namespace of_kinds

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i <= num_kinds; ++i)
    if (static_cast<size_t>(of_kinds::rows[i].kind) != i) return false;
  return true;
}
static_assert(rows_are_in_order(), "a kind of plan/instruction.hpp has no row here, or rows are in another order");

constexpr bool collectives_have_groups() {
  for (const kind_row& x : of_kinds::rows)
    if ((x.lane == lane::fabric) != (x.group != member_group::nobody) ||
        (x.lane == lane::fabric) != (x.elements != moved_elements::none))
      return false;
  return true;
}
static_assert(collectives_have_groups(), "a row of the fabric lane, and no other row, has a group and elements");

constexpr bool entries_have_indices() {
  for (const kind_row& x : of_kinds::rows) {
    if (x.one_per == one_per::slot && x.always < of_kinds::parameters) return false;
    if (x.one_per == one_per::segment && x.subject != subject_type::unit) return false;
    const bool of_subject = x.one_per == one_per::subject || x.one_per == one_per::subject_and_micro;
    if (of_subject && (x.subject == subject_type::nothing || x.subject == subject_type::of_swap)) return false;
  }
  return true;
}
static_assert(entries_have_indices(), "a row has no slot, no segment or no subject that tells its entries apart");

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

uint32_t always_slot(const operation& x) {
  const uint32_t always = row_of(x.kind).always;
  for (size_t k = 0; k < all_slots.size(); ++k)
    if ((always & (of_kinds::parameters << k)) != 0) return x.slots.*all_slots[k];
  return none;
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
