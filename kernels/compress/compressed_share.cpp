#include "kernels/compress/compressed_share.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "kernels/compress/fake_quantise.hpp"

namespace troupe::kernels {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Calls whole(local, group, groups) for neighbouring groups that lie here, part(local, group, first element, count)
/// for what lies here of others.
template <class Whole, class Part>
void for_each_group(const matrix_share& share, Whole whole, Part part) {
  const uint64_t size = share.group_size;
  for (const matrix_run& run : share.runs)
    for (uint64_t at = run.whole, end = run.whole + run.count; at < end;) {
      const uint64_t group = at / size, local = run.local + (at - run.whole);
      const uint64_t groups = at % size == 0 ? (end - at) / size : 0;
      const uint64_t count = groups > 0 ? groups * size : std::min(end, (group + 1) * size) - at;
      groups > 0 ? whole(local, group, groups) : part(local, group, at, count);
      at += count;
    }
}

}  // namespace

bool matrix_share::has_parts_of_groups() const {
  bool out = false;
  for_each_group(
      *this, [](uint64_t, uint64_t, uint64_t) {}, [&](uint64_t, uint64_t, uint64_t, uint64_t) { out = true; });
  return out;
}

void share_ranges(const matrix_share& share, core::dtype type, const std::byte* weight,
                  std::span<value_range<double>> out) {
  constexpr uint64_t at_once = 16384;  // elements of a matrix in another order
  std::vector<std::byte> ordered(share.in_order ? at_once * core::size_of(type) : 0);
  std::ranges::fill(out, value_range<double>{infinity, -infinity});
  const auto look = [&](uint64_t group, const std::byte* values, uint64_t count) {
    value_range<double> here;
    group_ranges({values, type, 1, count}, {&here, 1});
    out[group] = joined(out[group], here);
  };
  for_each_group(
      share, [](uint64_t, uint64_t, uint64_t) {},
      [&](uint64_t local, uint64_t group, uint64_t, uint64_t count) {
        if (!share.in_order) return look(group, weight + local * core::size_of(type), count);
        for (uint64_t done = 0; done < count; done += at_once) {
          const uint64_t some = std::min(at_once, count - done);
          to_order(share.recipe, type, weight, local + done, some, ordered.data());
          look(group, ordered.data(), some);
        }
      });
}

void compress_share(const matrix_share& share, core::dtype type, const std::byte* weight,
                    std::span<const value_range<double>> ranges, std::byte* out, std::span<std::byte> room,
                    const weight_moment& now) {
  const uint64_t element_bytes = core::size_of(type), groups = share.recipe.groups;
  const std::byte* from = weight;
  std::byte* to = out;
  if (share.in_order) {
    to_order(share.recipe, type, weight, 0, share.recipe.elements(), room.data());
    from = to = room.data();
  } else {
    std::memcpy(out, weight, share.recipe.elements() * element_bytes);  // and with that the padding
  }
  const auto noise = [&](uint64_t first) { return stochastic_rounding{now.noise.value_or(rounding_key{}), first}; };
  const quantiser grid = now.grid.value_or(share.recipe.grid);
  for_each_group(
      share,
      [&](uint64_t local, uint64_t group, uint64_t count) {
        const auto rounding = noise(group * share.group_size);
        fake_quantise({from + local * element_bytes, type, count, share.group_size}, grid, to + local * element_bytes,
                      now.noise ? &rounding : nullptr);
      },
      [&](uint64_t local, uint64_t group, uint64_t first, uint64_t count) {
        assert(grid.has_grid() && ranges.size() % groups == 0 && !ranges.empty());
        value_range<double> range = ranges[group];
        for (uint64_t at = groups + group; at < ranges.size(); at += groups) range = joined(range, ranges[at]);
        const auto rounding = noise(first);
        fake_quantise_within({from + local * element_bytes, type, 1, count}, grid, {&range, 1},
                             to + local * element_bytes, now.noise ? &rounding : nullptr);
      });
  if (share.in_order) from_order(share.recipe, type, room.data(), out);
  mix(type, weight, out, share.recipe.elements(), now.kept);
}

}  // namespace troupe::kernels
