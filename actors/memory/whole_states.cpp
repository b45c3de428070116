#include "actors/memory/whole_states.hpp"

#include <algorithm>

#include "core/tp_slices.hpp"

namespace troupe::actors {

std::vector<std::shared_ptr<rank_memory>> whole_states::like(uint32_t rank, uint32_t q) const {
  const auto& l = *ranks_.front()->plan().layout;
  std::vector<std::shared_ptr<rank_memory>> out;
  for (const auto& m : ranks_)
    if (!tensor_.cut.parameters[q].cuts() || l.options.mesh.tensor_at(m->plan().rank) == l.options.mesh.tensor_at(rank))
      out.push_back(m);
  return out;
}

// Divides `range`, elements of the whole parameter `q`, into runs that are consecutive in the ranks' shares. Calls
// use(ranks, share, at) for each run: the ranks that hold it, its elements as numbered in their shares, and the index
// of its first element in `range`.
core::result<void> whole_states::each_run(uint32_t q, plan::slice range, auto use) const {
  const auto& cut = tensor_.cut.parameters[q];
  if (!cut.cuts()) return use(ranks_, range, uint64_t{0});
  // Ranks are numbered along the tensor axis first, so rank `t` has tensor coordinate `t`.
  for (uint32_t t = 0; t < tensor_.split.degree; ++t) {
    const auto group = like(t, q);
    const core::tp_slices share(tensor_.whole->parameters[q].shape, cut, t);
    for (const auto& run : share.runs(0, share.elements())) {
      if (run.is_padding()) continue;
      const uint64_t first = std::max(run.whole, range.first),
                     end = std::min(run.whole + run.count, range.first + range.count);
      if (first >= end) continue;
      const plan::slice local{run.local + first - run.whole, end - first};
      TROUPE_TRY(use(rank_memories(group), local, first - range.first));
    }
  }
  return {};
}

core::result<void> whole_states::read(uint32_t q, plan::state_part part, plan::slice range, core::dtype type,
                                      std::byte* out) const {
  return each_run(q, range, [&](rank_memories ranks, plan::slice local, uint64_t at) {
    return read_states(ranks, q, part, local, type, out + at * core::size_of(type));
  });
}

core::result<void> whole_states::write(uint32_t q, plan::state_part part, plan::slice range, core::dtype type,
                                       const std::byte* in) const {
  return each_run(q, range, [&](rank_memories ranks, plan::slice local, uint64_t at) {
    return write_states(ranks, q, part, local, type, in + at * core::size_of(type));
  });
}

}  // namespace troupe::actors
