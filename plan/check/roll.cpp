// Fills a `roll` (rules.hpp) with the instructions of a plan: each id is stored at an index that says what the
// instruction does and for which part of the model. Owns these indices, and the list of instructions that use each
// buffer. All other rules of the checker read the roll.
#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/layout/ties.hpp"
#include "plan/stages.hpp"

namespace troupe::plan::rules {
namespace {

/// Returns the later one of the two stages between which a transfer of this rank crosses; none if its unit is not at a
/// boundary, or if the stage at the other end is on this rank, too.
uint32_t crosses_into(const rank_plan& p, const instruction& x) {
  const job_layout& l = *p.layout;
  const uint32_t stage = l.stage_of_unit[x.subject], later = later_stage(l, x);
  const uint32_t other = later > stage ? later : stage - 1;
  if (later == 0 || later == num_stages(l) || !computes(l, p.rank, x.subject)) return none;
  if (x.subject != (later > stage ? last_computing(l, stage) : first_computing(l, stage))) return none;
  return pipeline_of_stage(l, other) == l.options.mesh.pipeline_at(p.rank) ? none : later;
}

bool holds_use(const rank_plan& p, uint32_t tie) {
  return std::ranges::any_of(p.layout->ties[tie].parameters, [&](uint32_t q) { return p.layout->holds(p.rank, q); });
}

/// True if the subject of the instruction (a unit, a bucket or another set of parameters) belongs to ranks of another
/// pipeline coordinate. False for subjects of other types.
bool is_elsewhere(const rank_plan& p, const instruction& x) {
  const job_layout& l = *p.layout;
  const auto other = [&](const std::vector<parameter_set>& sets) {
    return sets[x.subject].pipeline != l.options.mesh.pipeline_at(p.rank);
  };
  switch (subject_of(x)) {
    case subject_type::unit:
      return !computes(l, p.rank, x.subject);
    case subject_type::gather_set:
      return other(l.gather_sets);
    case subject_type::bucket:
      return other(l.buckets);
    case subject_type::matrix_set:
      return other(l.matrix_sets);
    case subject_type::publish_set:
      return other(l.publish_sets);
    case subject_type::nothing:
    case subject_type::tie_exchange:
    case subject_type::tie:
    case subject_type::sub_group:
    case subject_type::snapshot:
    case subject_type::of_swap:
      return false;
  }
  return false;
}

/// True if the instruction computes or exchanges a piece of a matrix product that is computed in pieces of rows, but
/// not the first piece, which `forward` computes.
bool is_piece(const rank_plan& p, const instruction& x) {
  return x.use == use::forward && x.repeats == repetition::none && x.piece > 0 &&
         x.piece < exchange_of(*p.layout, x.subject, x.segment, use::forward).pieces;
}

/// True if plans of this mode, and of this rank, may have the instruction.
bool may_occur(const rank_plan& p, const instruction& x) {
  const bool trains = p.options().mode == mode::train;
  const kind_row& row = row_of(x.kind);
  if (row.work == unit_work::backward) return trains;
  if (row.work == unit_work::recompute)
    return trains && p.options().recomputes(x.subject) && (x.segment != none) == p.options().repeat_exchanges;
  if (row.subject == subject_type::tie_exchange)
    return trains && side_of(p.layout->exchanges[x.subject], p.options().mesh.pipeline_at(p.rank)) != none;
  if (row.subject == subject_type::tie) return trains && holds_use(p, x.subject);
  if (x.kind == kind::measure) return trains;
  return x.kind != kind::vote || p.options().mode != mode::generate;
}

/// Returns the length of `by_kind` for a kind with this row; 0 if the roll has another list for the kind
/// (one_per::own_index).
size_t num_entries(const roll& r, const rank_plan& p, const kind_row& row) {
  const size_t micros = p.options().accumulation;
  switch (row.one_per) {
    case one_per::own_index:
      return 0;
    case one_per::step:
      return 1;
    case one_per::micro:
      return micros;
    case one_per::segment:
      return micros * r.num_segments;
    case one_per::subject:
      return num_subjects(p, row.subject);
    case one_per::subject_and_micro:
      return micros * num_subjects(p, row.subject);
    case one_per::slot:
      return p.buffers.size();
  }
  return 0;
}

/// Returns the index of an instruction in `by_kind` of its kind.
size_t index_of(const roll& r, const rank_plan& p, const instruction& x) {
  switch (row_of(x.kind).one_per) {
    case one_per::own_index:
    case one_per::step:
      return 0;
    case one_per::micro:
      return x.micro;
    case one_per::segment:
      return r.segment_of(x.micro, x.subject, x.segment == none ? 0 : x.segment);
    case one_per::subject:
      return x.subject;
    case one_per::subject_and_micro:
      return size_t{x.subject} * p.options().accumulation + x.micro;
    case one_per::slot:
      return always_slot(x);
  }
  return 0;
}

/// Returns the entry for an instruction whose row has one_per::own_index, in the list of `r` for its kind; null if
/// there is none.
uint32_t* own_entry_of(roll& r, const rank_plan& p, const instruction& x) {
  const uint32_t units = static_cast<uint32_t>(p.table().units.size());
  const bool trains = p.options().mode == mode::train;
  switch (x.kind) {
    case kind::multiply:
      return is_piece(p, x) ? &r.multiply[r.piece_of(x.micro, r.segment_base[x.subject] + x.segment, x.piece)]
                            : nullptr;
    case kind::send:
    case kind::receive: {
      const uint32_t later = crosses_into(p, x);
      if (later != none && x.use != use::forward && !returns_gradient(*p.layout, later)) return nullptr;
      return later == none ? nullptr : &(x.kind == kind::send ? r.send : r.receive)[r.place_of(x.use, x.micro, later)];
    }
    case kind::exchange: {
      const bool again = x.repeats == repetition::recompute;
      const bool wanted = exchange_of(*p.layout, x.subject, x.segment, x.use).op != core::exchange_op::none;
      const bool goes_back = has_backward(*p.layout, x.subject);
      if (!wanted || (x.use != use::forward && (!goes_back || again))) return nullptr;
      if (x.piece > 0)
        return is_piece(p, x) ? &r.piece_exchange[r.piece_of(x.micro, r.segment_base[x.subject] + x.segment, x.piece)]
                              : nullptr;
      if (again && !(goes_back && p.options().recomputes(x.subject) && p.options().repeat_exchanges)) return nullptr;
      return &r.exchange[r.exchange_of(x.use, again, x.micro, r.segment_base[x.subject] + x.segment)];
    }
    case kind::swap_in:
      if (x.what == swapped::activations) return trains ? &r.activation_in[x.micro * units + x.subject] : nullptr;
      if (x.what == swapped::states) return &(x.repeats == repetition::redo ? r.again_in : r.state_in)[x.subject];
      if (x.what == swapped::gradients) return &r.gradient_in[x.subject * p.options().accumulation + x.micro];
      return &r.shard_in[x.slots.window];
    case kind::swap_out:
      if (x.what == swapped::activations) return trains ? &r.activation_out[x.micro * units + x.subject] : nullptr;
      if (x.what == swapped::states) return &(x.repeats == repetition::redo ? r.again_out : r.state_out)[x.subject];
      return x.what == swapped::gradients ? &r.gradient_out[x.subject * p.options().accumulation + x.micro] : nullptr;
    default:  // The checker refuses an instruction without an entry.
      return nullptr;
  }
}

/// Returns the entry of `r` that belongs to an instruction; null if there is none.
uint32_t* entry_of(roll& r, const rank_plan& p, const instruction& x) {
  if (!may_occur(p, x)) return nullptr;
  if (row_of(x.kind).one_per == one_per::own_index) return own_entry_of(r, p, x);
  return &r.by_kind[static_cast<size_t>(x.kind)][index_of(r, p, x)];
}

// Adds the instruction to the accessors of its buffers. With reduces_in_place(), the instructions after a reduction
// read its result in the bucket's buffer; otherwise they read it in memory that is no buffer of the plan.
void note_accessors(roll& r, const rank_plan& p, const instruction& x) {
  const auto note = [&](uint32_t buffer) {
    auto& all = r.accessors[buffer];
    if (all.empty() || all.back() != x.id) all.push_back(x.id);
  };
  const bool stays = p.options().reduces_in_place();
  for (const auto slot : all_slots)
    if (x.slots.*slot != none) note(x.slots.*slot);
  if (row_of(x.kind).work == unit_work::backward && writes_gradients(x.use))
    for (uint32_t q : p.table().units[x.subject].segments[x.segment].parameters)
      if (p.layout->trains(q))
        note(p.bucket_buffer[size_t{p.layout->bucket_of[q]} * p.options().accumulation + x.micro]);
  // Adds the buffers that hold the reduced gradient of a tied parameter's use until it is exchanged and summed.
  const auto note_use = [&](uint32_t q) {
    if (!p.layout->holds(p.rank, q)) return;
    const uint32_t bucket = p.layout->bucket_of[q];
    if (stays) note(p.bucket_buffer[size_t{bucket} * p.options().accumulation + x.micro]);
    if (p.bucket_window[bucket] != none) note(p.bucket_window[bucket]);
  };
  const subject_type of = row_of(x.kind).subject;
  if (of == subject_type::tie_exchange)
    for (const uint32_t q : p.layout->exchanges[x.subject].gives)
      if (q != none) note_use(q);
  if (of == subject_type::tie)
    for (const uint32_t q : p.layout->ties[x.subject].parameters) note_use(q);
  if (x.kind == kind::norm && stays) note(p.bucket_buffer[size_t{x.subject} * p.options().accumulation + x.micro]);
  if ((x.kind == kind::prepare || x.kind == kind::update || x.kind == kind::redo) && stays)
    for (const auto& piece : p.sub_groups[x.subject].pieces)
      note(p.bucket_buffer[size_t{p.layout->bucket_of[piece.parameter]} * p.options().accumulation + x.micro]);
}

}  // namespace

core::result<roll> call_roll(const rank_plan& p, branch taken) {
  roll r;
  const size_t micros = p.options().accumulation, units = p.table().units.size();
  for (const auto& u : p.table().units) {
    r.segment_base.push_back(r.num_segments);
    r.num_segments += static_cast<uint32_t>(u.segments.size());
  }
  for (size_t k = 0; k < num_kinds; ++k) r.by_kind[k].assign(num_entries(r, p, kind_rows[k]), none);
  r.num_stages = num_stages(*p.layout);
  r.send.assign(2 * micros * r.num_stages, none);
  r.receive = r.send;
  r.exchange.assign(3 * micros * r.num_segments, none);
  r.num_pieces = std::max(1U, p.options().exchange_pieces);
  r.multiply.assign(micros * r.num_segments * (r.num_pieces - 1), none);
  r.piece_exchange = r.multiply;
  r.state_in.assign(p.sub_groups.size(), none);
  r.state_out = r.again_in = r.again_out = r.state_in;
  r.gradient_in.assign(micros * p.layout->buckets.size(), none);
  r.gradient_out = r.gradient_in;
  r.shard_in.assign(p.buffers.size(), none);
  r.activation_in.assign(micros * units, none);
  r.activation_out = r.activation_in;
  r.gathers_of.resize(p.layout->gather_sets.size());
  r.last_use.assign(units, none);
  r.accessors.resize(p.buffers.size());
  for (const auto& x : p.instructions) {
    if (!runs(x, taken)) continue;
    if (is_elsewhere(p, x)) return broken(p, x.id, "belongs to a stage of another rank");
    uint32_t* entry = entry_of(r, p, x);
    if (entry == nullptr) return broken(p, x.id, "has no place in this kind of plan");
    if (*entry != none) return broken(p, x.id, "repeats " + name(p, *entry));
    *entry = x.id;
    if (x.kind == kind::gather) r.gathers_of[x.subject].push_back(x.id);
    if (computes(x) && reads_parameters(x.use)) r.last_use[x.subject] = x.id;
    note_accessors(r, p, x);
  }
  return r;
}

}  // namespace troupe::plan::rules
