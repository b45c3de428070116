#include <fmt/format.h>

#include "plan/group_exchange.hpp"
#include "plan/kinds.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

std::string_view name_of(lane l) {
  switch (l) {
    case lane::control:
      return "control";
    case lane::compute:
      return "compute";
    case lane::fabric:
      return "fabric";
    case lane::shard:
      return "shard";
    case lane::writer:
      return "writer";
    case lane::io:
      return "io";
  }
  return "?";
}

std::string_view name_of(swapped x) {
  switch (x) {
    case swapped::nothing:
      return "nothing";
    case swapped::states:
      return "states";
    case swapped::gradients:
      return "gradients";
    case swapped::shards:
      return "shards";
    case swapped::activations:
      return "activations";
  }
  return "?";
}

namespace {

const std::string& tied_name(const job_layout& l, uint32_t tie) {
  return l.table->parameters[l.ties[tie].parameters.front()].name;
}

/// Appends ", piece 2 of 4", counted from 1, if the output of a segment is exchanged in pieces.
void append_piece(std::string& out, const job_layout& l, const instruction& x) {
  if (const uint32_t pieces = output_pieces(l, x); pieces > 1)
    out.append(", piece ").append(fmt::to_string(x.piece + 1)).append(" of ").append(fmt::to_string(pieces));
}

/// Appends the name of an operation's subject, if it has one.
void append_subject(std::string& out, const rank_plan& p, const operation& x) {
  switch (subject_of(x)) {
    case subject_type::gather_set:
      out += p.layout->gather_sets[x.subject].name;
      break;
    case subject_type::unit:
      out += p.table().units[x.subject].name;
      break;
    case subject_type::bucket:
      out += p.layout->buckets[x.subject].name;
      break;
    case subject_type::tie_exchange:
      out += tied_name(*p.layout, p.layout->exchanges[x.subject].tie);
      break;
    case subject_type::tie:
      out += tied_name(*p.layout, x.subject);
      break;
    case subject_type::sub_group:
      out.append("sub-group ").append(fmt::to_string(x.subject));
      break;
    case subject_type::matrix_set:
      out += p.layout->matrix_sets[x.subject].name;
      break;
    case subject_type::publish_set:
    case subject_type::snapshot:
      out += fmt::to_string(x.subject);
      break;
    case subject_type::nothing:
    case subject_type::of_swap:
      break;
  }
}

/// Appends the name of the segment, if its unit has several, and the part of its backward.
void append_segment(std::string& out, const rank_plan& p, const instruction& x) {
  const auto& segments = p.table().units[x.subject].segments;
  if (x.segment != none && segments.size() > 1) out.append(" ").append(segments[x.segment].name);
  if (x.use == use::input) out.append(", input part");
}

}  // namespace

std::string rank_plan::describe(uint32_t id) const {
  const instruction& x = instructions[id];
  const kind_row& row = row_of(x.kind);
  const bool of_unit = row.subject == subject_type::unit;
  std::string out(row.name);
  out += x.use == use::forward ? row.relation.forward : row.relation.backward;
  if (row.subject == subject_type::of_swap) out.append(" ").append(name_of(x.what)).append(" of");
  if (row.subject != subject_type::nothing) append_subject(out += ' ', *this, x);
  if (of_unit) append_segment(out, *this, x);
  if (x.repeats != repetition::none) out.append(", again");
  if (of_unit) append_piece(out, *layout, x);
  if (options().accumulation > 1) out.append(", micro ").append(fmt::to_string(x.micro));
  if (row.subject == subject_type::gather_set) out += x.use == use::forward ? ", forward" : ", backward";
  if (x.near) out += row.lane == lane::fabric ? ", from the second copy" : ", into the second copy";
  return out;
}

}  // namespace troupe::plan
