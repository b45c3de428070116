#include <cassert>

#include "core/math.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/group_facts.cuh"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr int packed = 4;  ///< number of neighbouring elements that a thread loads and stores in one access

/// Position of a parameter's rounding noise in the random stream; the noise has the bits of rounding_noise().
struct element_noise {
  uint64_t key = 0, high = 0, first = 0;
};

element_noise noise_of(const stochastic_rounding* rounding) {
  if (rounding == nullptr) return {};
  const auto& k = rounding->key;
  return {core::mix64(k.seed ^ core::mix64(k.step)), core::mix64(k.parameter ^ core::mix64(rounding_stream)),
          rounding->first_element};
}

/// Calls `f(i, noise)` for each element i of a group of `size` elements whose first element has position `begin` in the
/// noise stream. A thread processes the four elements whose random words come from the same counter.
template <class Team, class F>
__device__ void with_noise(const element_noise& noise, uint64_t begin, uint64_t size, F&& f) {
  constexpr unsigned words_of_counter = random_chunk / random_chunk_counters;
  const uint64_t end = core::div_up(begin + size, random_chunk) * random_chunk_counters;
  for (uint64_t counter = begin / random_chunk * random_chunk_counters + Team::rank(); counter < end;
       counter += Team::threads) {
    const uint32x4 words = philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                                   static_cast<uint32_t>(noise.high), static_cast<uint32_t>(noise.high >> 32)},
                                  {static_cast<uint32_t>(noise.key), static_cast<uint32_t>(noise.key >> 32)});
    const uint64_t chunk = counter / random_chunk_counters * random_chunk;
#pragma unroll
    for (unsigned w = 0; w < words_of_counter; ++w) {
      const uint64_t element = chunk + w * random_chunk_counters + counter % random_chunk_counters;
      if (element >= begin && element - begin < size)
        f(element - begin, static_cast<float>(words[w] >> 8) * 0x1p-24F - 0.5F);
    }
  }
}

/// Arguments of a quantisation kernel that are the same for all groups.
template <class T>
struct quantise_call {
  const T* x;
  T* y;
  uint64_t groups, size;
  quantiser q;
  const value_range<double>* ranges;  ///< range of each group; null: the kernel measures each group's range
  uint64_t num_ranges;
  element_noise noise;  ///< noise of the rounding; unused if values are rounded to nearest

  __device__ value_range<float> known_range(uint64_t group) const {
    const value_range<double> known = ranges[num_ranges == 1 ? 0 : group];
    return {static_cast<float>(known.least), static_cast<float>(known.largest)};
  }
};

/// Sets y = rule(x) for all elements of a group. `is_held`: true if `held` already contains the whole group, which is
/// then not loaded again.
template <class Team, int N, class T, class Rule>
__device__ void to_all(const T* x, T* y, uint64_t size, held_packs<Team, N, T>& held, bool is_held, Rule&& rule) {
  for (uint64_t first = 0; first < size; first += held.elements) {
    if (!is_held) held.load(x, size, first);
    held.each(size, first, [&](uint64_t i, pack<T, N>& values) {
#pragma unroll
      for (int k = 0; k < N; ++k) values.of[k] = rule(values.of[k]);
      store_pack(values, y + i);
    });
  }
}

/// Number of blocks that must fit on a multiprocessor at once, for __launch_bounds__: a larger number would leave a
/// thread too few registers.
template <class Team>
constexpr unsigned resident = 1024 / Team::block;

template <bool noisy, class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, resident<Team>) grid_kernel(quantise_call<T> call) {
  const uint64_t size = call.size;
  for (uint64_t group = Team::first_group(); group < call.groups; group += Team::step()) {
    const T* const x = call.x + group * size;
    T* const y = call.y + group * size;
    held_packs<Team, N, T> held;
    const bool is_held = call.ranges == nullptr && size <= held.elements;
    const auto grid = grid_of(call.q, call.ranges == nullptr ? range_in(x, size, held) : call.known_range(group));
    if (noisy && grid.quantises)
      with_noise<Team>(call.noise, call.noise.first + group * size, size,
                       [&](uint64_t i, float noise) { y[i] = narrow<T>(on_grid<float>(widen(x[i]), grid, noise)); });
    else
      to_all(x, y, size, held, is_held, [&](T value) {
        return !noisy && grid.quantises ? narrow<T>(on_grid<float>(widen(value), grid, 0.0F)) : value;
      });
  }
}

template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block, resident<Team>) signs_kernel(quantise_call<T> call) {
  magnitude_tile* tile = nullptr;
  if constexpr (!Team::is_in_warp) {
    __shared__ magnitude_tile of_block;
    tile = &of_block;
  }
  for (uint64_t group = Team::first_group(); group < call.groups; group += Team::step()) {
    const T* const x = call.x + group * call.size;
    held_packs<Team, N, T> held;
    value_signs<float> signs;
    const bool has_signs = signs_of<Team>(call.q.kind, x, call.size, tile, signs);
    to_all(x, call.y + group * call.size, call.size, held, false,
           [&](T value) { return has_signs ? narrow<T>(as_sign<float>(widen(value), signs)) : value; });
  }
}

template <class Team, int N, class T>
__global__ void __launch_bounds__(Team::block)
    ranges_kernel(const T* x, uint64_t groups, uint64_t size, value_range<double>* out) {
  for (uint64_t group = Team::first_group(); group < groups; group += Team::step()) {
    held_packs<Team, N, T> held;
    const value_range<float> range = range_in(x + group * size, size, held);
    if (Team::rank() == 0) out[group] = {range.least, range.largest};
  }
}

/// Calls `f(team<n>{}, width<N>{}, blocks)` with the number n of threads per group and N of elements per access that
/// suit `size`, the elements of a group: `Least` threads for the smallest groups, a warp for larger ones, a block of
/// `Block` threads for still larger ones, and the largest block for large groups that are too few to occupy all
/// multiprocessors. `packs`: true if the groups' memory allows N > 1.
template <unsigned Least, unsigned Block, class F>
void with_team(uint64_t groups, uint64_t size, bool packs, F&& f) {
  constexpr uint64_t tiny = 256, small = 1024, large = 16384, few = 512;
  const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>(groups, 1, max_blocks));
  packs = packs && size % packed == 0;
  if (size <= tiny && packs)
    f(team<Least>{}, width<packed>{}, blocks_for(groups * Least));
  else if (size <= small && packs)
    f(team<warp_threads>{}, width<packed>{}, blocks_for(groups * warp_threads));
  else if (size <= small)
    f(team<warp_threads>{}, width<1>{}, blocks_for(groups * warp_threads));
  else if (!packs)
    f(team<Block>{}, width<1>{}, blocks);
  else if (groups <= few && size >= large)
    f(team<1024>{}, width<packed>{}, blocks);
  else
    f(team<Block>{}, width<packed>{}, blocks);
}

}  // namespace

core::result<void> fake_quantise(const grouped_values& x, const quantiser& q, std::byte* y,
                                 std::span<const value_range<double>> ranges, const stochastic_rounding* rounding,
                                 stream on) {
  assert(ranges.empty() || (q.has_grid() && (ranges.size() == 1 || ranges.size() == x.groups)));
  if (x.group_size == 0) return {};
  with_fp32_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    const quantise_call<T> call{
        reinterpret_cast<const T*>(x.x),          reinterpret_cast<T*>(y), x.groups,          x.group_size, q,
        ranges.empty() ? nullptr : ranges.data(), ranges.size(),           noise_of(rounding)};
    const bool packs = allow_packs<packed>(call.x, call.y);
    if (!q.has_grid())
      with_team<warp_threads, 128>(x.groups, x.group_size, packs,
                                   [&]<class Team, int N>(Team, width<N>, unsigned blocks) {
                                     signs_kernel<Team, N><<<blocks, Team::block, 0, on>>>(call);
                                   });
    else if (rounding != nullptr)
      with_team<warp_threads, 256>(x.groups, x.group_size, packs,
                                   [&]<class Team, int N>(Team, width<N>, unsigned blocks) {
                                     grid_kernel<true, Team, N><<<blocks, Team::block, 0, on>>>(call);
                                   });
    else
      with_team<8, 256>(x.groups, x.group_size, packs, [&]<class Team, int N>(Team, width<N>, unsigned blocks) {
        grid_kernel<false, Team, N><<<blocks, Team::block, 0, on>>>(call);
      });
  });
  return launched("fake_quantise");
}

core::result<void> group_ranges(const grouped_values& x, std::span<value_range<double>> out, stream on) {
  assert(out.size() == x.groups && x.group_size > 0);
  with_fp32_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    const auto* values = reinterpret_cast<const T*>(x.x);
    with_team<8, 256>(
        x.groups, x.group_size, allow_packs<packed>(values), [&]<class Team, int N>(Team, width<N>, unsigned blocks) {
          ranges_kernel<Team, N><<<blocks, Team::block, 0, on>>>(values, x.groups, x.group_size, out.data());
        });
  });
  return launched("group_ranges");
}

}  // namespace troupe::kernels::cuda
