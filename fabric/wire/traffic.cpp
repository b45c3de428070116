#include "fabric/wire/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/math.hpp"
#include "fabric/layout.hpp"
#include "fabric/wire/sum_options.hpp"

namespace troupe::fabric {
namespace {

/// Bytes of an element of the largest type.
constexpr uint64_t element_bytes_max = 8;

/// One part of a sum over the members, as planned alike on every member.
struct shared_part {
  uint64_t from = 0, count = 0;             // `count` elements, beginning at element `from` of every input
  std::vector<wire_sum::output> outputs{};  // outputs of all members that receive the part, in rank order
  bool chained = false;
  uint32_t ends_at = 0;  // number of the member that rounds the complete sum
  // index among the parts of the operation; selects the member that handles the part for its machine
  uint64_t number = 0;
};

/// Returns how many machines other than `but` have an output of `outputs`, which are in rank order.
uint32_t machines_of(const std::vector<wire_sum::output>& outputs, const homes& where, uint32_t but) {
  uint32_t found = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint32_t machine = where.machine_of(outputs[i].member);
    found += machine != but && (i == 0 || machine != where.machine_of(outputs[i - 1].member));
  }
  return found;
}

std::vector<wire_sum::output> outputs_on(const shared_part& x, const homes& where, uint32_t machine) {
  std::vector<wire_sum::output> out;
  for (const auto& o : x.outputs)
    if (where.machine_of(o.member) == machine) out.push_back(o);
  return out;
}

/// Bytes that cross between machines for each element of a part: with contributions sent straight to the owner, and
/// with a partial sum passed from machine to machine.
struct costs {
  uint64_t straight = 0, chained = 0;
};
costs costs_of(const request& r, const homes& where, const std::vector<wire_sum::output>& outputs, uint32_t owner) {
  const uint64_t result = core::size_of(result_type(r));
  const uint32_t at = where.machine_of(owner), last = where.machines() - 1;
  const uint64_t others = where.size() - where.count(at);
  return {others * core::size_of(r.input_type) + machines_of(outputs, where, at) * result,
          last * core::size_of(kernels::partial_type(options_of(r))) + machines_of(outputs, where, last) * result};
}

/// Returns the member of `machine` that handles part `x` for its machine: round-robin, by the number of the part, among
/// the members with an output; among all members if none has an output.
uint32_t in_turn(const shared_part& x, const homes& where, uint32_t machine) {
  const auto here = outputs_on(x, where, machine);
  if (!here.empty()) return here[x.number % here.size()].member;
  return where.first(machine) + static_cast<uint32_t>(x.number % where.count(machine));
}

/// Calls `f` for each part of a reduction, in an order that is equal on all members.
void for_each_part(const request& r, const homes& where, auto&& f) {
  const uint32_t last = where.machines() - 1;
  uint64_t number = 0;
  for (size_t first = 0, end = 0; first < r.pieces.size(); first = end) {
    end = end_of_range(r.op, r.pieces, first);
    for (size_t i = first; i < end; ++i) {
      const owned_part own = part_of(r.pieces[i].count, end - first, i - first);
      if (own.count == 0) continue;
      shared_part x{.from = r.pieces[i].from + own.first, .count = own.count, .number = number++};
      if (r.op == operation::all_reduce)
        for (uint32_t m = 0; m < where.size(); ++m) x.outputs.push_back({m, r.pieces[i].to + own.first});
      else
        for (size_t k = first; k < end; ++k) x.outputs.push_back({r.pieces[k].owner, r.pieces[k].to + own.first});
      std::ranges::stable_sort(x.outputs, {}, &wire_sum::output::member);
      const uint32_t owner = r.pieces[i].owner;
      const costs c = costs_of(r, where, x.outputs, owner);
      x.chained = c.chained < c.straight;
      x.ends_at = !x.chained || where.machine_of(owner) == last ? owner : in_turn(x, where, last);
      f(std::as_const(x));
    }
  }
}

/// The roles of a member in one part of a sum. `sum`, `result`: index in wire_traffic::sums if the member adds
/// contributions, and in wire_traffic::results if it receives the rounded sum for its machine.
struct roles {
  std::optional<size_t> sum, result;
  bool contributes = false;  // true if the member sends its input to `ends_at`
  bool machine_contributes = false;
};

roles add_roles(const shared_part& x, const homes& where, uint32_t member, wire_traffic& out) {
  roles mine;
  const uint32_t machine = where.machine_of(member), end_machine = where.machine_of(x.ends_at);
  mine.machine_contributes = !x.chained && machine != end_machine;
  mine.contributes = mine.machine_contributes;
  const bool adds =
      x.ends_at == member || (x.chained && machine != end_machine && in_turn(x, where, machine) == member);
  if (adds) {
    wire_sum s{.from = x.from};
    const uint32_t first = x.chained ? where.first(machine) : 0;
    const uint32_t count = x.chained ? where.count(machine) : where.size();
    for (uint32_t m = first; m < first + count; ++m) s.inputs.push_back(m);
    if (x.chained && machine > 0) s.continues = in_turn(x, where, machine - 1);
    if (x.ends_at == member) {
      s.outputs = outputs_on(x, where, machine);
      for (uint32_t k = 0; k < where.machines(); ++k)
        if (k != machine && !outputs_on(x, where, k).empty()) s.results_to.push_back(in_turn(x, where, k));
    } else {
      s.passes_to = machine + 1 == end_machine ? x.ends_at : in_turn(x, where, machine + 1);
    }
    mine.sum = out.sums.size();
    out.sums.push_back(std::move(s));
  }
  if (machine != end_machine) {
    auto here = outputs_on(x, where, machine);
    if (!here.empty() && in_turn(x, where, machine) == member) {
      mine.result = out.results.size();
      out.results.push_back({x.ends_at, std::move(here)});
    }
  }
  return mine;
}

void plan_sums(const request& r, const homes& where, uint32_t member, const wire_limits& limits, wire_traffic& out) {
  const uint64_t chunk = chunk_elements(limits, where.size()), in_size = core::size_of(r.input_type);
  const uint64_t names = where.size() + 2 * uint64_t{where.machines()};
  uint64_t part = 0, contributions = 0;
  for_each_part(r, where, [&](const shared_part& x) {
    const roles mine = add_roles(x, where, member, out);
    for (uint64_t done = 0; done < x.count; done += chunk, part += names) {
      wire_chunk c{.part = part, .first = done, .count = std::min(chunk, x.count - done)};
      c.contributions = contributions += mine.machine_contributes;
      if (mine.contributes)
        out.sends.push_back({x.ends_at, part_of_contribution(c, member), (x.from + done) * in_size, c.count * in_size});
      if (mine.sum) {
        c.sum = *mine.sum;
        out.chunks.push_back(c);
      }
      if (mine.result) {
        c.sum = *mine.result;
        out.result_chunks.push_back(c);
      }
    }
  });
}

/// Plans moves of unchanged elements, in an order that is equal on all members and determines the names of transfers.
class moves {
 public:
  moves(const request& r, const homes& where, uint32_t member, const wire_limits& limits, wire_traffic& out)
      : where_(where), me_(member), bytes_max_(limits.transfer_bytes), out_(out), size_(core::size_of(r.input_type)) {}

  /// Adds a move of `count` elements, from element `from` of the input of `owner` to element `to` of the output of
  /// `to_member`; if `spread`, also to the outputs of all members of the machine of `to_member`.
  void add(uint32_t owner, uint64_t from, uint32_t to_member, uint64_t to, uint64_t count, bool spread) {
    if (count == 0) return;
    const uint64_t bytes = count * size_;
    if (where_.are_neighbours(owner, to_member)) {
      if (me_ == to_member) out_.copies.push_back({owner, from * size_, to * size_, bytes});
      return;
    }
    for (uint64_t done = 0; done < bytes; done += bytes_max_, ++part_) {
      const uint64_t now = std::min(bytes_max_, bytes - done);
      if (me_ == owner) out_.sends.push_back({to_member, part_, from * size_ + done, now});
      if (me_ == to_member) out_.landings.push_back({owner, part_, to * size_ + done, now, spread});
    }
  }

 private:
  const homes& where_;
  uint32_t me_;
  uint64_t bytes_max_;
  wire_traffic& out_;
  uint64_t size_;
  uint64_t part_ = 0;
};

void plan_moves(const request& r, const homes& where, uint32_t member, const wire_limits& limits, wire_traffic& out) {
  moves all(r, where, member, limits, out);
  // [member]: number of elements planned so far that the member receives for its machine; of a machine's members, the
  // one with the fewest receives the next piece.
  std::vector<uint64_t> landed(where.size());
  for (const piece& p : r.pieces) {
    if (p.count == 0) continue;
    if (r.op == operation::send_receive || r.op == operation::all_to_all) {
      for (uint32_t m = 0; m < where.size(); ++m)
        if (writes_output(r.op, p, m)) all.add(p.owner, begin_in_input(r.op, p, m), m, p.to, p.count, false);
      continue;
    }
    for (uint32_t k = 0; k < where.machines(); ++k) {
      if (k == where.machine_of(p.owner)) {
        for (uint32_t m = where.first(k); m < where.first(k) + where.count(k); ++m)
          all.add(p.owner, p.from, m, p.to, p.count, false);
        continue;
      }
      const auto here = landed.begin() + where.first(k);
      const auto least = std::min_element(here, here + where.count(k));
      *least += p.count;
      all.add(p.owner, p.from, static_cast<uint32_t>(least - landed.begin()), p.to, p.count, true);
    }
  }
}

}  // namespace

core::dtype result_type(const request& r) {
  return kernels::partial_type(options_of(r)) == core::dtype::f64 ? core::dtype::f64 : r.communication;
}

uint64_t chunk_elements(const wire_limits& limits, uint32_t members) {
  const uint64_t least = std::min({limits.incoming_bytes / members, limits.outgoing_bytes, limits.result_bytes});
  const uint64_t fit = std::min(limits.sum_elements, least / (2 * element_bytes_max));
  return std::max(fit / part_grain * part_grain, part_grain);
}

core::result<void> check_limits(const wire_limits& limits, uint32_t members) {
  const uint64_t wanted = 2 * element_bytes_max * part_grain;
  if (limits.incoming_bytes >= wanted * members && limits.outgoing_bytes >= wanted && limits.result_bytes >= wanted &&
      limits.transfer_bytes > 0)
    return {};
  return core::fail(core::error_kind::limit,
                    fmt::format("staging for two chunks of a sum of {} members was wanted, {} bytes of incoming and {} "
                                "of outgoing and of rounded sums, got limits of {}, {} and {}",
                                members, wanted * members, wanted, limits.incoming_bytes, limits.outgoing_bytes,
                                limits.result_bytes));
}

wire_traffic traffic_of(const request& r, const homes& where, uint32_t member, const wire_limits& limits) {
  wire_traffic out;
  if (is_reduction(r.op))
    plan_sums(r, where, member, limits, out);
  else
    plan_moves(r, where, member, limits, out);
  return out;
}

std::vector<uint64_t> wire_bytes(const request& r, const homes& where) {
  std::vector<uint64_t> out(where.machines());
  const uint64_t in_size = core::size_of(r.input_type);
  if (!is_reduction(r.op)) {
    for (const piece& p : r.pieces) {
      const uint32_t from = where.machine_of(p.owner);
      for (uint32_t k = 0; k < where.machines(); ++k) {
        if (k == from) continue;
        out[k] += p.count * in_size * (r.op == operation::all_to_all ? where.count(k) : 1);
      }
    }
    return out;
  }
  for_each_part(r, where, [&](const shared_part& x) {
    const uint32_t end = where.machine_of(x.ends_at);
    if (x.chained)
      for (uint32_t k = 1; k < where.machines(); ++k)
        out[k] += x.count * core::size_of(kernels::partial_type(options_of(r)));
    else
      out[end] += x.count * in_size * (where.size() - where.count(end));
    for (uint32_t k = 0; k < where.machines(); ++k)
      if (k != end && !outputs_on(x, where, k).empty()) out[k] += x.count * core::size_of(result_type(r));
  });
  return out;
}

}  // namespace troupe::fabric
