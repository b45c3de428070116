#include "actors/memory/state_store.hpp"

#include <algorithm>

#include "device/stream.hpp"
#include "kernels/base/cast.hpp"

namespace troupe::actors {

using plan::state_part;

bool state_store::are_weights(state_part part) const {
  return part == state_part::copy || (part == state_part::master && plan().options().master_is_parameter());
}

bool state_store::may_be_swapped(state_part part) const {
  const auto& p = plan();
  // weights are in the swap file only at stage 3: below it parameters are whole, and a rank's swap file has room only
  // for the elements that the rank owns
  return are_weights(part) ? p.options().tiers.parameters == plan::tier::nvme : !p.blocks.empty();
}

bool state_store::on_device(state_part part) const {
  const auto& o = plan().options();
  const bool in_bucket = part == state_part::gradient && o.reduces_in_place();
  const plan::tier where = are_weights(part) ? o.tiers.parameters : o.tiers.optimizer;
  return memory_.device().kind != device::device_kind::cpu && (in_bucket || where == plan::tier::device);
}

core::dtype state_store::type_of(state_part part) const { return plan::type_of(*plan().layout, part); }

plan::slice state_store::held(uint32_t q, state_part part) const {
  const auto& p = plan();
  if (part == state_part::copy && p.layout->gathers()) return p.layout->slice_of(q, p.rank);
  if (!p.layout->holds(p.rank, q)) return {};
  if (part == state_part::copy) return {0, p.table().parameters[q].numel()};
  if (!p.layout->trains(q)) return {};
  if (plan::is_moment(part) && plan::moment_of(part) >= p.options().update_of(q).moments) return {};
  return p.own_states(q);
}

plan::owned_piece state_store::piece_of(uint32_t q, plan::slice range) const {
  return {q, range, plan::linear_place(plan(), q, range.first)};
}

std::byte* state_store::resident(uint32_t q, state_part part, plan::slice range) const {
  if (are_weights(part)) return memory_.parameter(q, range.first);
  const auto piece = piece_of(q, range);
  switch (part) {
    case state_part::gradient:
      return memory_.gradient(piece);
    case state_part::master:
      return memory_.master(piece);
    case state_part::first_moment:
    case state_part::second_moment:
    case state_part::third_moment:
      return memory_.moment(piece, plan::moment_of(part));
    case state_part::copy:
      break;
  }
  return nullptr;
}

std::vector<state_run> state_store::runs(uint32_t q, state_part part, plan::slice range) const {
  const auto& p = plan();
  if (range.count == 0) return {};
  if (!may_be_swapped(part)) return {{range, resident(q, part, range), 0, on_device(part)}};
  const auto stored = are_weights(part) ? plan::weights_part(*p.layout) : part;
  const uint64_t element_bytes = core::size_of(type_of(stored));
  std::vector<state_run> out;
  const uint64_t end = range.first + range.count;
  for (uint64_t at = range.first; at < end;) {
    const uint64_t linear = plan::linear_place(p, q, at);
    const auto& b = plan::block_at(p, linear);
    const uint64_t count = std::min(end - at, b.first + b.elements - linear);
    state_run x{{at, count}};
    if (b.holds(stored))
      x.file_offset = plan::range_of(*p.layout, b, stored, linear, count, memory_.place()).offset;
    else
      x.at = resident(q, stored, x.range);
    at += count;
    const bool goes_on = !out.empty() && x.at != nullptr && out.back().at != nullptr &&
                         out.back().at + out.back().range.count * element_bytes == x.at;
    if (goes_on)
      out.back().range.count += count;
    else
      out.push_back(x);
  }
  return out;
}

std::byte* state_store::in_memory(uint32_t q, state_part part, plan::slice range) const {
  const auto all = runs(q, part, range);
  return all.size() == 1 && !all.front().on_device ? all.front().at : nullptr;
}

core::result<void> state_store::copy_and_wait(std::byte* to, const std::byte* from, uint64_t bytes) const {
  auto& stream = device::stream::current(memory_.device());
  stream.copy(to, from, bytes);
  return stream.finish();
}

// Reads from the swap file, after waiting for its writes, which may still be running after the end of their step.
core::result<void> state_store::read_file(uint64_t offset, std::span<std::byte> out) const {
  TROUPE_TRY(memory_.settle_writes());
  return memory_.swap_file()->read(offset, out);
}

core::result<void> state_store::write_file(uint64_t offset, std::span<const std::byte> in) const {
  TROUPE_TRY(memory_.settle_writes());
  return memory_.swap_file()->write(offset, in);
}

core::result<void> state_store::read(uint32_t q, state_part part, uint64_t first, std::span<std::byte> out) const {
  const uint64_t element_bytes = core::size_of(type_of(part));
  for (const auto& x : runs(q, part, {first, out.size() / element_bytes})) {
    const auto to = out.subspan((x.range.first - first) * element_bytes, x.range.count * element_bytes);
    TROUPE_TRY(x.at != nullptr ? copy_and_wait(to.data(), x.at, to.size()) : read_file(x.file_offset, to));
  }
  return {};
}

core::result<void> state_store::write(uint32_t q, state_part part, uint64_t first,
                                      std::span<const std::byte> in) const {
  const uint64_t element_bytes = core::size_of(type_of(part));
  for (const auto& x : runs(q, part, {first, in.size() / element_bytes})) {
    const auto from = in.subspan((x.range.first - first) * element_bytes, x.range.count * element_bytes);
    if (x.at != nullptr) {
      TROUPE_TRY(copy_and_wait(x.at, from.data(), from.size()));
      continue;
    }
    TROUPE_TRY(write_file(x.file_offset, from));
    if (are_weights(part)) TROUPE_TRY(refresh_caches(q, x.range, from.data()));
  }
  return {};
}

// Copies new weights to every gather set in memory that contains them.
core::result<void> state_store::refresh_caches(uint32_t q, plan::slice range, const std::byte* weights) const {
  memory_.refresh_cached(piece_of(q, range), weights);
  return device::stream::current(memory_.device()).finish();  // the caller may free `weights` afterwards
}

namespace {

/// Calls step(part, index of its first element in `range`) for successive parts of `range` of at most
/// state_window_elements elements.
core::result<void> in_windows(plan::slice range, auto step) {
  for (uint64_t done = 0; done < range.count; done += state_window_elements)
    TROUPE_TRY(step(plan::slice{range.first + done, std::min(state_window_elements, range.count - done)}, done));
  return {};
}

}  // namespace

core::result<void> state_store::read_as(uint32_t q, state_part part, plan::slice range, core::dtype type,
                                        std::byte* out) const {
  const core::dtype stored = type_of(part);
  const uint64_t element_bytes = core::size_of(stored);
  std::vector<std::byte> scratch;
  for (const auto& x : runs(q, part, range)) {
    std::byte* const to = out + (x.range.first - range.first) * core::size_of(type);
    if (x.at != nullptr && !x.on_device) {
      kernels::cast(x.at, stored, to, type, x.range.count);
      continue;
    }
    auto ok = in_windows(x.range, [&](plan::slice w, uint64_t done) -> core::result<void> {
      scratch.resize(w.count * element_bytes);
      auto got = x.on_device ? copy_and_wait(scratch.data(), x.at + done * element_bytes, scratch.size())
                             : read_file(x.file_offset + done * element_bytes, scratch);
      if (!got) return got;
      kernels::cast(scratch.data(), stored, to + done * core::size_of(type), type, w.count);
      return {};
    });
    if (!ok) return ok;
  }
  return {};
}

core::result<void> state_store::write_as(uint32_t q, state_part part, plan::slice range, core::dtype type,
                                         const std::byte* in) const {
  const core::dtype stored = type_of(part);
  std::vector<std::byte> scratch;
  return in_windows(range, [&](plan::slice w, uint64_t done) {
    scratch.resize(w.count * core::size_of(stored));
    kernels::cast(in + done * core::size_of(type), type, scratch.data(), stored, w.count);
    return write(q, part, w.first, scratch);
  });
}

namespace {

plan::slice common(plan::slice a, plan::slice b) {
  const uint64_t first = std::max(a.first, b.first), end = std::min(a.first + a.count, b.first + b.count);
  return first < end ? plan::slice{first, end - first} : plan::slice{};
}

}  // namespace

core::result<void> read_states(rank_memories ranks, uint32_t q, state_part part, plan::slice range, core::dtype type,
                               std::byte* out) {
  for (const auto& m : ranks) {
    const state_store store(*m);
    // If there are several copies of the states, they are equal, so only the ranks that hold the first copy are read.
    const plan::slice mine =
        m->plan().options().replica_at(m->plan().rank) == 0 ? common(store.held(q, part), range) : plan::slice{};
    if (mine.count == 0) continue;
    std::byte* const to = out + (mine.first - range.first) * core::size_of(type);
    TROUPE_TRY(m->is_here() ? store.read_as(q, part, mine, type, to) : m->elsewhere().read(q, part, mine, type, to));
    if (mine == range) break;  // all elements are read
  }
  return {};
}

core::result<void> write_states(rank_memories ranks, uint32_t q, state_part part, plan::slice range, core::dtype type,
                                const std::byte* in) {
  for (const auto& m : ranks) {
    const state_store store(*m);
    const plan::slice mine = common(store.held(q, part), range);
    if (mine.count == 0) continue;
    const std::byte* const from = in + (mine.first - range.first) * core::size_of(type);
    TROUPE_TRY(m->is_here() ? store.write_as(q, part, mine, type, from)
                            : m->elsewhere().write(q, part, mine, type, from));
  }
  return {};
}

}  // namespace troupe::actors
