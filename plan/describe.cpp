#include "core/math.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

std::string_view name_of(kind k) {
  switch (k) {
    case kind::load:
      return "load";
    case kind::gather:
      return "gather";
    case kind::release:
      return "release";
    case kind::survey:
      return "survey";
    case kind::agree:
      return "agree";
    case kind::compress:
      return "compress";
    case kind::send:
      return "send";
    case kind::receive:
      return "receive";
    case kind::exchange:
      return "exchange";
    case kind::forward:
      return "forward";
    case kind::multiply:
      return "multiply";
    case kind::recompute:
      return "recompute";
    case kind::backward:
      return "backward";
    case kind::weigh:
      return "weigh";
    case kind::reduce:
      return "reduce";
    case kind::tie:
      return "tie";
    case kind::tied_sum:
      return "tied_sum";
    case kind::norm:
      return "norm";
    case kind::vote:
      return "vote";
    case kind::prepare:
      return "prepare";
    case kind::measure:
      return "measure";
    case kind::collect:
      return "collect";
    case kind::orthogonalise:
      return "orthogonalise";
    case kind::spread:
      return "spread";
    case kind::update:
      return "update";
    case kind::undo:
      return "undo";
    case kind::redo:
      return "redo";
    case kind::publish:
      return "publish";
    case kind::snapshot:
      return "snapshot";
    case kind::write:
      return "write";
    case kind::swap_in:
      return "swap_in";
    case kind::swap_out:
      return "swap_out";
  }
  return "?";
}

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

lane lane_of(kind k) {
  switch (k) {
    case kind::load:
      return lane::control;
    case kind::release:
    case kind::survey:
    case kind::compress:
    case kind::forward:
    case kind::multiply:
    case kind::recompute:
    case kind::backward:
    case kind::weigh:
      return lane::compute;
    case kind::agree:
    case kind::gather:
    case kind::send:
    case kind::receive:
    case kind::exchange:
    case kind::reduce:
    case kind::tie:
    case kind::vote:
    case kind::measure:
    case kind::collect:
    case kind::spread:
    case kind::publish:
      return lane::fabric;
    case kind::tied_sum:
    case kind::norm:
    case kind::prepare:
    case kind::orthogonalise:
    case kind::update:
    case kind::undo:
    case kind::redo:
      return lane::shard;
    case kind::snapshot:
    case kind::write:
      return lane::writer;
    case kind::swap_in:
    case kind::swap_out:
      return lane::io;
  }
  return lane::control;
}

uint64_t job_layout::blocks_of(uint32_t parameter) const {
  if (!trains(parameter) || is_copy(parameter)) return 0;
  return blocks_each(parameter) * (is_cut(parameter) ? tensor_ranks() : 1);
}

uint64_t job_layout::measured_elements() const {
  for (uint32_t q = 0; q < table->parameters.size() && num_blocks > 0; ++q)
    if (need_of(q) == update_need::parameter_norms) return 2 * num_blocks;
  return 0;
}

namespace {

const std::string& tied_name(const job_layout& l, uint32_t tie) {
  return l.table->parameters[l.ties[tie].parameters.front()].name;
}

/// Returns ", piece 2 of 4", counted from 1, if the output of a segment is exchanged in pieces.
std::string piece_name(const job_layout& l, const instruction& x) {
  if (x.kind != kind::forward && x.kind != kind::multiply && (x.kind != kind::exchange || x.again)) return {};
  const uint32_t pieces = l.pieces_of(l.exchange_of(x.subject, x.segment, x.use));
  return pieces == 1 ? "" : ", piece " + std::to_string(x.piece + 1) + " of " + std::to_string(pieces);
}

}  // namespace

std::string rank_plan::describe(uint32_t id) const {
  const instruction& x = instructions[id];
  std::string out(name_of(x.kind));
  switch (x.kind) {
    case kind::gather:
    case kind::release:
      out.append(" ").append(layout->gather_sets[x.subject].name);
      break;
    case kind::send:
    case kind::receive:
      out += x.use == use::forward
                 ? (x.kind == kind::send ? " output of " : " input of ")
                 : (x.kind == kind::send ? " gradient of the input of " : " gradient of the output of ");
      out += table().units[x.subject].name;
      break;
    case kind::exchange:
      out += x.use == use::forward ? " output of" : " gradient of the input of";
      [[fallthrough]];
    case kind::survey:
    case kind::agree:
    case kind::compress:
    case kind::forward:
    case kind::multiply:
    case kind::recompute:
    case kind::backward:
    case kind::weigh:
      out.append(" ").append(table().units[x.subject].name);
      if (x.segment != none && table().units[x.subject].segments.size() > 1)
        out.append(" ").append(table().units[x.subject].segments[x.segment].name);
      if (x.kind == kind::backward && x.use == use::input) out.append(", input part");
      if (x.again) out.append(", again");
      out += piece_name(*layout, x);
      break;
    case kind::reduce:
    case kind::norm:
      out.append(" ").append(layout->buckets[x.subject].name);
      break;
    case kind::tie:
      out.append(" ").append(tied_name(*layout, layout->exchanges[x.subject].tie));
      break;
    case kind::tied_sum:
      out.append(" ").append(tied_name(*layout, x.subject));
      break;
    case kind::collect:
    case kind::orthogonalise:
    case kind::spread:
      out.append(" ").append(layout->matrix_sets[x.subject].name);
      break;
    case kind::prepare:
    case kind::update:
    case kind::undo:
    case kind::redo:
      out.append(" sub-group ").append(std::to_string(x.subject));
      break;
    case kind::publish:
    case kind::snapshot:
    case kind::write:
      out.append(" ").append(std::to_string(x.subject));
      break;
    case kind::swap_in:
    case kind::swap_out:
      out.append(" ").append(name_of(x.what)).append(" of ");
      if (x.what == swapped::shards) out += layout->gather_sets[x.subject].name;
      if (x.what == swapped::gradients) out += layout->buckets[x.subject].name;
      if (x.what == swapped::states) out.append("sub-group ").append(std::to_string(x.subject));
      if (x.what == swapped::activations) out += table().units[x.subject].name;
      if (x.again) out.append(", again");
      break;
    case kind::load:
    case kind::vote:
    case kind::measure:
      break;
  }
  if (options().accumulation > 1) out.append(", micro ").append(std::to_string(x.micro));
  if (x.kind == kind::gather || x.kind == kind::release) out += x.use == use::forward ? ", forward" : ", backward";
  if (x.near) out += x.kind == kind::gather ? ", from the second copy" : ", into the second copy";
  return out;
}

}  // namespace troupe::plan
