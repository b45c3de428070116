#include "fabric/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/math.hpp"

namespace troupe::fabric {
namespace {

std::string at(size_t index) { return fmt::format("piece {}: ", index); }

/// Consecutive bytes or elements [begin, end), and the index of the piece that they belong to.
struct run {
  uint64_t begin = 0;
  uint64_t end = 0;
  size_t index = 0;
};

void sort(std::vector<run>& runs) {
  std::sort(runs.begin(), runs.end(), [](const run& a, const run& b) { return a.begin < b.begin; });
}

core::result<void> check_dtypes(const request& r) {
  if (r.op == operation::barrier) return {};
  if (is_reduction(r.op)) {
    for (const core::dtype t : {r.input_type, r.communication, r.output_type})
      if (!is_float(t))
        return fail(error_kind::bug, "a reduction requires floating dtypes, got " + std::string(name_of(t)));
    return {};
  }
  if (r.input_type != r.output_type)
    return fail(error_kind::bug, "bytes move unchanged, so one dtype is wanted, got input " +
                                     std::string(name_of(r.input_type)) + " and output " +
                                     std::string(name_of(r.output_type)));
  if (r.accumulate || r.input_scale != 1.0F) return fail(error_kind::bug, "only reductions scale and accumulate");
  return {};
}

}  // namespace

size_t end_of_range(operation op, std::span<const piece> pieces, size_t first) {
  size_t end = first + 1;
  while (op == operation::reduce_scatter && end < pieces.size() && pieces[end].from == pieces[first].from &&
         pieces[end].count == pieces[first].count)
    ++end;
  return end;
}

owned_part part_of(uint64_t count, size_t owners, size_t which) {
  const uint64_t each = core::round_up(core::div_up(count, owners), part_grain);
  const uint64_t first = std::min(count, each * which);
  return {first, std::min(each, count - first)};
}

extent extent_of(operation op, std::span<const piece> pieces, uint32_t rank) {
  extent out;
  for (const piece& p : pieces) {
    if (p.count == 0) continue;
    if (reads_input(op, p, rank)) out.input = std::max(out.input, p.from + read_of(op, p, pieces.size()));
    if (writes_output(op, p, rank)) out.output = std::max(out.output, p.to + p.count);
  }
  return out;
}

uint64_t elements_of(std::span<const piece> pieces) {
  uint64_t n = 0;
  for (const piece& p : pieces) n += p.count;
  return n;
}

uint64_t received_bytes(const request& r, uint32_t size) {
  // [owner]: number of elements of its pieces that the owner sums itself, and number that other owners sum for it.
  std::vector<uint64_t> summed(size), exchanged(size);
  for (size_t first = 0; first < r.pieces.size();) {
    const size_t end = end_of_range(r.op, r.pieces, first);
    for (size_t i = first; i < end; ++i) {
      const piece& p = r.pieces[i];
      const uint64_t own = part_of(p.count, end - first, i - first).count;
      summed[p.owner] += own;
      exchanged[p.owner] += p.count - own;
    }
    first = end;
  }
  const uint64_t all = elements_of(r.pieces);
  uint64_t most = 0;
  for (uint32_t rank = 0; rank < size; ++rank) {
    uint64_t elements = exchanged[rank];
    if (is_reduction(r.op)) elements += summed[rank] * (size - 1);
    if (r.op != operation::reduce_scatter) elements += all - summed[rank];
    most = std::max(most, elements);
  }
  return most * core::size_of(is_reduction(r.op) ? r.communication : r.input_type);
}

core::result<void> check_request(const request& r, uint32_t size) {
  if (r.op == operation::barrier && !r.pieces.empty())
    return fail(error_kind::bug, fmt::format("a barrier has no pieces, got {}", r.pieces.size()));
  if (r.op == operation::send_receive && size != 2)
    return fail(error_kind::bug, fmt::format("send_receive requires a communicator of 2 members, got {}", size));
  uint64_t total = 0;
  for (size_t i = 0; i < r.pieces.size(); ++i) {
    const piece& p = r.pieces[i];
    if (p.owner >= size)
      return fail(error_kind::bug, fmt::format("{}an owner below {} was wanted, got {}", at(i), size, p.owner));
    if (p.from >= elements_max || p.to >= elements_max || p.count >= elements_max || (total += p.count) >= elements_max)
      return fail(error_kind::limit, at(i) + "offsets, counts and their sum stay below 2^56 elements");
    if (r.op == operation::broadcast && p.owner != r.pieces[0].owner)
      return fail(error_kind::bug,
                  fmt::format("{}a broadcast has one root, got owners {} and {}", at(i), r.pieces[0].owner, p.owner));
  }
  if (r.op == operation::all_to_all) {
    for (size_t i = 0; i < r.pieces.size(); ++i)
      if (r.pieces.size() != size || r.pieces[i].owner != i || r.pieces[i].count != r.pieces[0].count)
        return fail(error_kind::bug, "all_to_all requires a piece of every member in order, all of one count");
  }
  return check_dtypes(r);
}

core::result<void> check_outputs(operation op, std::span<const piece> pieces, uint32_t size) {
  // If the operation writes every piece to every member's output, all outputs are alike, and one list is checked.
  const bool per_owner = op == operation::reduce_scatter || op == operation::send_receive;
  std::vector<run> runs;
  for (uint32_t owner = 0; owner < (per_owner ? size : 1); ++owner) {
    runs.clear();
    for (size_t i = 0; i < pieces.size(); ++i)
      if (pieces[i].count > 0 && (!per_owner || pieces[i].owner == owner))
        runs.push_back({pieces[i].to, pieces[i].to + pieces[i].count, i});
    sort(runs);
    for (size_t i = 1; i < runs.size(); ++i)
      if (runs[i].begin < runs[i - 1].end)
        return fail(error_kind::bug, fmt::format("{}output element {} is also written by piece {}", at(runs[i].index),
                                                 runs[i].begin, runs[i - 1].index));
  }
  return {};
}

core::result<void> check_presence(const request& r, uint32_t rank) {
  if (r.input != nullptr && r.output != nullptr) return {};
  const extent wanted = extent_of(r.op, r.pieces, rank);
  if (wanted.input > 0 && r.input == nullptr)
    return fail(error_kind::bug, fmt::format("an input of {} elements was wanted, got none", wanted.input));
  if (wanted.output > 0 && r.output == nullptr)
    return fail(error_kind::bug, fmt::format("an output of {} elements was wanted, got none", wanted.output));
  return {};
}

core::result<void> check_memory(const request& r, uint32_t rank) {
  TROUPE_TRY(check_presence(r, rank));
  const uint64_t in_size = core::size_of(r.input_type);
  const uint64_t out_size = core::size_of(r.output_type);
  const auto input = reinterpret_cast<uintptr_t>(r.input);
  const auto output = reinterpret_cast<uintptr_t>(r.output);

  std::vector<size_t> range_of(r.pieces.size());  // [piece]: index of the first piece of the range that contains it
  for (size_t first = 0; first < r.pieces.size();) {
    const size_t end = end_of_range(r.op, r.pieces, first);
    std::fill(range_of.begin() + static_cast<ptrdiff_t>(first), range_of.begin() + static_cast<ptrdiff_t>(end), first);
    first = end;
  }
  std::vector<run> reads;
  for (size_t i = 0; i < r.pieces.size(); ++i) {
    const piece& p = r.pieces[i];
    if (p.count > 0 && reads_input(r.op, p, rank))
      reads.push_back({input + p.from * in_size, input + (p.from + read_of(r.op, p, r.pieces.size())) * in_size, i});
  }
  sort(reads);
  // Pieces may share input elements, so a later read may end before an earlier one: furthest[i] is the largest end of
  // reads 0 to i.
  std::vector<uint64_t> furthest(reads.size());
  for (size_t i = 0; i < reads.size(); ++i) furthest[i] = std::max(reads[i].end, i == 0 ? 0 : furthest[i - 1]);

  for (size_t i = 0; i < r.pieces.size(); ++i) {
    const piece& p = r.pieces[i];
    if (p.count == 0 || !writes_output(r.op, p, rank)) continue;
    const uint64_t begin = output + p.to * out_size;
    const uint64_t end = begin + p.count * out_size;
    const auto after = std::lower_bound(reads.begin(), reads.end(), end,
                                        [](const run& read, uint64_t value) { return read.begin < value; });
    for (size_t k = static_cast<size_t>(after - reads.begin()); k > 0 && furthest[k - 1] > begin; --k) {
      const run& read = reads[k - 1];
      if (read.end <= begin) continue;
      const bool in_place =
          range_of[read.index] == range_of[i] && read.begin == begin && r.input_type == r.output_type && !r.accumulate;
      if (!in_place)
        return fail(error_kind::bug,
                    fmt::format("{}rank {} writes it over its input of piece {}", at(i), rank, read.index));
    }
  }
  return {};
}

}  // namespace troupe::fabric
