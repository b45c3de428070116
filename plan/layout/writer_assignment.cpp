#include "plan/layout/writer_assignment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace troupe::plan {
namespace {

using shares = std::vector<std::optional<writer_share>>;

core::result<void> check(const writer_layout& l) {
  const auto bad = [](const std::string& what) { return core::fail(core::error_kind::bad_input, "writers: " + what); };
  if (l.ranks == 0 || l.tensor == 0 || l.pipeline == 0 || l.machines == 0)
    return bad("wanted at least one rank and machine, and degrees of at least 1");
  if (l.ranks % (uint64_t{l.tensor} * l.pipeline) != 0)
    return bad(fmt::format("wanted ranks that the degrees divide, got {} ranks of {} tensor by {} pipeline", l.ranks,
                           l.tensor, l.pipeline));
  if (l.stage > 3) return bad(fmt::format("wanted a ZeRO stage from 0 to 3, got {}", l.stage));
  if (l.machines > l.ranks)
    return bad(fmt::format("wanted no more machines than ranks, got {} and {}", l.machines, l.ranks));
  return {};
}

/// Number of sockets or machines of the job, and number of ranks on each.
struct resources_of_a_job {
  uint32_t count, ranks_each;
  [[nodiscard]] uint32_t of(uint32_t rank) const { return rank / ranks_each; }
};

resources_of_a_job resources_of(const writer_layout& l) {
  const uint32_t count = l.unit == writer_unit::socket ? sockets_per_machine * l.machines : l.machines;
  return {count, std::max<uint32_t>(1, l.ranks / count)};
}

/// Returns the list with every entry repeated equally often, so that it has at least `entries` entries.
std::vector<uint32_t> repeated(const std::vector<uint32_t>& list, uint32_t entries) {
  const uint64_t times = std::max<uint64_t>(1, (entries + list.size() - 1) / list.size());
  std::vector<uint32_t> out;
  for (const uint32_t r : list) out.insert(out.end(), times, r);
  return out;
}

/// Divides the list into `runs` contiguous runs of about equal length, and returns run number `index`. The list must
/// have at least `runs` entries.
std::vector<uint32_t> run_of(const std::vector<uint32_t>& list, uint32_t runs, uint32_t index) {
  const auto part = even_range(list.size(), runs, index);
  const auto at = list.begin() + static_cast<ptrdiff_t>(part.first);
  return {at, at + static_cast<ptrdiff_t>(part.bytes)};
}

/// Makes some of `peers`, ranks that hold the same bytes, writers of equal parts of these bytes: the first peer on each
/// resource (socket or machine) in `run`. Stores in `out` which part each of them writes.
void share(const std::vector<uint32_t>& peers, const std::vector<uint32_t>& run, const resources_of_a_job& on,
           shares& out) {
  std::vector<uint32_t> distinct(run);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<uint32_t> writers;
  for (const uint32_t resource : distinct) {
    const auto first = std::find_if(peers.begin(), peers.end(), [&](uint32_t r) { return on.of(r) == resource; });
    if (first != peers.end()) writers.push_back(*first);
  }
  // no peer is on a resource in `run`, but one of them must write
  if (writers.empty()) writers.push_back(peers.front());
  for (uint32_t i = 0; i < writers.size(); ++i) out[writers[i]] = {static_cast<uint32_t>(writers.size()), i};
}

void share_among_all(const writer_layout& l, shares& out) {
  if (l.unit == writer_unit::replica || l.ranks == l.machines) {
    for (uint32_t r = 0; r < l.ranks; ++r) out[r] = {l.ranks, r};
    return;
  }
  const auto on = resources_of(l);
  const uint32_t writers = std::min(on.count, l.ranks);
  for (uint32_t i = 0; i < writers; ++i) out[i * on.ranks_each] = {writers, i};
}

/// Returns the data-parallel ranks of one pipeline stage and tensor coordinate, ascending; all hold the same slice of
/// the model.
std::vector<uint32_t> replicas(const writer_layout& l, uint32_t stage, uint32_t tensor) {
  const uint32_t data = l.ranks / (l.tensor * l.pipeline);
  std::vector<uint32_t> out;
  for (uint32_t d = 0; d < data; ++d) out.push_back((stage * data + d) * l.tensor + tensor);
  return out;
}

std::vector<uint32_t> run_of_slice(const writer_layout& l, const resources_of_a_job& on, uint32_t stage,
                                   uint32_t tensor, const std::vector<uint32_t>& peers) {
  std::vector<uint32_t> list;
  if (l.tensor * l.pipeline <= on.ranks_each) {
    for (uint32_t r = 0; r < on.count; ++r) list.push_back(r);
    list = run_of(repeated(list, l.pipeline), l.pipeline, stage);
    return run_of(repeated(list, l.tensor), l.tensor, tensor);
  }
  for (const uint32_t r : peers) list.push_back(on.of(r));
  return run_of(repeated(list, on.ranks_each), on.ranks_each, (stage * l.tensor + tensor) % on.ranks_each);
}

/// Returns `out` after assigning part 0 of 1, which is all that a rank holds, to ranks without a part from ZeRO stage 1
/// on, and to all ranks in stage 3: these ranks write elements that no other rank holds.
shares completed(const writer_layout& l, shares out) {
  for (auto& s : out) {
    if (l.stage == 3) s = writer_share{};
    if (l.stage >= 1 && !s) s = writer_share{};
  }
  return out;
}

}  // namespace

namespace {

/// Assigns to the ranks of one pipeline stage and tensor coordinate, which hold the same bytes, the parts that they
/// write.
void share_slice(const writer_layout& l, uint32_t stage, uint32_t tensor, shares& out) {
  const auto on = resources_of(l);
  const auto peers = replicas(l, stage, tensor);
  if (l.unit == writer_unit::single)
    out[peers.front()] = writer_share{};
  else if (l.unit == writer_unit::replica)
    for (uint32_t d = 0; d < peers.size(); ++d) out[peers[d]] = {static_cast<uint32_t>(peers.size()), d};
  else
    share(peers, run_of_slice(l, on, stage, tensor, peers), on, out);
}

bool shares_all(const writer_layout& l) { return l.tensor * l.pipeline == 1 && l.unit != writer_unit::single; }

}  // namespace

core::result<shares> assign_writers(const writer_layout& l) {
  TROUPE_TRY(check(l));
  shares out(l.ranks);
  if (shares_all(l)) {
    share_among_all(l, out);
    return completed(l, std::move(out));
  }
  for (uint32_t stage = 0; stage < l.pipeline; ++stage)
    for (uint32_t tensor = 0; tensor < l.tensor; ++tensor) share_slice(l, stage, tensor, out);
  return completed(l, std::move(out));
}

core::result<std::optional<writer_share>> assigned_share(const writer_layout& l, uint32_t rank) {
  TROUPE_TRY(check(l));
  if (rank >= l.ranks)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("writers: wanted one of {} ranks, got rank {}", l.ranks, rank));
  shares out(l.ranks);
  if (shares_all(l))
    share_among_all(l, out);
  else
    share_slice(l, rank / (l.ranks / l.pipeline), rank % l.tensor, out);
  return completed(l, std::move(out))[rank];
}

byte_range even_range(uint64_t total_bytes, uint32_t writers, uint32_t index) {
  if (index >= writers) return {total_bytes, 0};
  const uint64_t each = total_bytes / writers, longer = total_bytes % writers;
  return {index * each + std::min<uint64_t>(index, longer), each + (index < longer ? 1 : 0)};
}

byte_range aligned_range(uint64_t total_bytes, uint32_t writers, uint32_t index, uint64_t alignment) {
  alignment = std::max<uint64_t>(1, alignment);
  const uint64_t blocks = total_bytes / alignment + (total_bytes % alignment != 0 ? 1 : 0);
  const auto part = even_range(blocks, writers, index);
  if (part.bytes == 0) return {total_bytes, 0};
  const uint64_t first = part.first * alignment;
  const uint64_t rest = total_bytes - first;
  return {first, part.bytes > rest / alignment ? rest : part.bytes * alignment};
}

}  // namespace troupe::plan
