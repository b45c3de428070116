#include "kernels/compress/compressed_share.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "kernels/compress/fake_quantise.hpp"

namespace troupe::kernels {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Calls whole(local, group, groups) for each run of `groups` neighbouring groups from `group` on that this rank has
/// completely, and part(local, group, first, count) for each `count` elements, from element `first` of the matrix on,
/// that are only a part of group `group`. `local` is the index of the first of the elements in this rank's share.
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

/// Calls look(group, values, count) for `count` values of each group of which this rank has only a part, in the order
/// of groups; a group's values may come in several calls.
template <class Look>
void look_at_parts(const matrix_share& share, core::dtype type, const std::byte* weight, Look look) {
  // Number of elements that are copied from the order (in, out) to (out, in) at a time.
  constexpr uint64_t at_once = 16384;
  std::vector<std::byte> ordered(share.in_order ? at_once * core::size_of(type) : 0);
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

/// Returns the sum of entry number `at` of all ranks, added in rank order: the sum of magnitudes, and their count.
/// `told` has share.told() entries of each rank, one rank after another.
magnitudes added(const matrix_share& share, std::span<const value_range<double>> told, uint64_t at) {
  magnitudes out;
  for (; at < told.size(); at += share.told()) {
    out.sum += told[at].least;
    out.count += told[at].largest;
  }
  return out;
}

void add(value_range<double>& to, const magnitudes& here) {
  to.least += here.sum;
  to.largest += here.count;
}

}  // namespace

bool matrix_share::has_parts_of_groups() const {
  bool out = false;
  for_each_group(
      *this, [](uint64_t, uint64_t, uint64_t) {}, [&](uint64_t, uint64_t, uint64_t, uint64_t) { out = true; });
  return out;
}

void share_ranges(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                  std::span<value_range<double>> out) {
  std::ranges::fill(out, grid.has_grid() ? value_range<double>{infinity, -infinity} : value_range<double>{});
  look_at_parts(share, type, weight, [&](uint64_t group, const std::byte* values, uint64_t count) {
    const grouped_values part{values, type, 1, count};
    if (!grid.has_grid()) return add(out[group], {sum_above(part, -1).sum, static_cast<double>(count)});
    value_range<double> here;
    group_ranges(part, {&here, 1});
    out[group] = joined(out[group], here);
  });
}

void share_sums_above(const matrix_share& share, const quantiser& grid, core::dtype type, const std::byte* weight,
                      std::span<const value_range<double>> told, std::span<value_range<double>> out) {
  if (grid.kind != quantiser_kind::ternary) return;
  const auto above = out.subspan(share.recipe.groups);
  std::ranges::fill(above, value_range<double>{});
  look_at_parts(share, type, weight, [&](uint64_t group, const std::byte* values, uint64_t count) {
    add(above[group], sum_above({values, type, 1, count}, ternary_threshold(type, added(share, told, group))));
  });
}

void compress_share(const matrix_share& share, core::dtype type, const std::byte* weight,
                    std::span<const value_range<double>> told, std::byte* out, std::span<std::byte> room,
                    const weight_moment& now) {
  const uint64_t element_bytes = core::size_of(type), groups = share.recipe.groups;
  const std::byte* from = weight;
  std::byte* to = out;
  if (share.in_order) {
    to_order(share.recipe, type, weight, 0, share.recipe.elements(), room.data());
    from = to = room.data();
  } else {
    // Copies the padding between the elements of this rank's share as well.
    std::memcpy(out, weight, share.recipe.elements() * element_bytes);
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
        assert(told.size() % share.told() == 0 && !told.empty());
        const grouped_values part{from + local * element_bytes, type, 1, count};
        std::byte* const out_of_part = to + local * element_bytes;
        if (!grid.has_grid()) {
          fake_quantise_by_sums(part, grid, added(share, told, group),
                                share.is_ternary ? added(share, told, groups + group) : magnitudes{}, out_of_part);
          return;
        }
        value_range<double> range = told[group];
        for (uint64_t at = share.told() + group; at < told.size(); at += share.told()) range = joined(range, told[at]);
        const auto rounding = noise(first);
        fake_quantise_within(part, grid, {&range, 1}, out_of_part, now.noise ? &rounding : nullptr);
      });
  if (share.in_order) from_order(share.recipe, type, room.data(), out);
  mix(type, weight, out, share.recipe.elements(), now.kept);
}

}  // namespace troupe::kernels
