#include "plan/layout/ties.hpp"

#include <algorithm>
#include <map>

#include "core/math.hpp"
#include "core/tied_copies.hpp"

namespace troupe::plan {
namespace {

// Adds the exchanges of a tie: the gradient of every use is sent once to each pipeline coordinate that holds another
// use of the parameter but not this one. One exchange sends one gradient in each direction; if one of the two
// coordinates has fewer uses, it only receives in the last exchanges.
void add_exchanges(job_layout& l, uint32_t tie) {
  std::map<uint32_t, std::vector<uint32_t>> held;  // [pipeline coordinate]: uses of the parameter
  for (const uint32_t q : l.ties[tie].parameters) held[l.pipeline_of[q]].push_back(q);
  for (auto a = held.begin(); a != held.end(); ++a)
    for (auto b = std::next(a); b != held.end(); ++b)
      for (size_t i = 0; i < std::max(a->second.size(), b->second.size()); ++i) {
        const auto given = [&](const std::vector<uint32_t>& uses) { return i < uses.size() ? uses[i] : none; };
        l.exchanges.push_back({tie, {a->first, b->first}, {given(a->second), given(b->second)}});
      }
}

}  // namespace

core::result<void> make_ties(job_layout& l) {
  const bool per_use = l.options.gradients.tied == tied_gradients::per_use;
  if (per_use ? core::has_shared(*l.table) : core::has_copies(*l.table))
    return core::fail(core::error_kind::bug, per_use ? "plan: tied_gradients: per_use, but the table has no copies yet"
                                                     : "plan: tied_gradients: in_bucket, but the table has copies");
  l.tie_of.assign(l.table->parameters.size(), none);
  for (auto& uses : core::uses_of_tied(*l.table)) {
    if (!l.trains(uses.front())) continue;
    const auto tie = static_cast<uint32_t>(l.ties.size());
    for (const uint32_t q : uses) l.tie_of[q] = tie;
    l.ties.push_back({std::move(uses)});
    add_exchanges(l, tie);
  }
  return {};
}

std::vector<std::pair<uint32_t, uint32_t>> tied_pairs(const std::vector<tie_exchange>& exchanges) {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  for (const auto& e : exchanges) out.emplace_back(e.pipeline[0], e.pipeline[1]);
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

uint32_t side_of(const tie_exchange& e, uint32_t at) {
  return at == e.pipeline[0] ? 0 : at == e.pipeline[1] ? 1 : none;
}

uint64_t tied_room(const job_layout& l, uint32_t tie) {
  const uint64_t numel = l.table->parameters[l.ties[tie].parameters.front()].numel();
  const uint64_t blocks = core::div_up(numel, core::partition_grain);
  const uint64_t most = core::div_up(blocks, l.options.shards()) * core::partition_grain;
  return core::round_up(l.options.updates_all() ? numel : std::min(numel, most), core::parameter_grain);
}

uint64_t received_place(const job_layout& l, uint32_t use, uint32_t at) {
  const uint32_t tie = l.tie_of[use];
  uint64_t before = 0;  // number of uses whose gradients are stored in the slot before the gradient of `use`
  for (const uint32_t q : l.ties[tie].parameters) {
    if (q == use) break;
    before += l.pipeline_of[q] == at ? 0 : 1;
  }
  return before * tied_room(l, tie);
}

uint64_t received_elements(const job_layout& l, uint32_t tie, uint32_t at) {
  const auto& uses = l.ties[tie].parameters;
  const auto others = std::ranges::count_if(uses, [&](uint32_t q) { return l.pipeline_of[q] != at; });
  return static_cast<uint64_t>(others) * tied_room(l, tie);
}

}  // namespace troupe::plan
