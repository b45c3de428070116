#include "kernels/base/random.hpp"

#include <algorithm>
#include <cassert>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/base/random.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/random_chunk-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Fills `out` with elements [first, first + count) of a random stream: calls `make(chunk, to)`, which computes all 64
/// numbers of one chunk, for every chunk that contains one of these elements.
template <class T, class Make>
HWY_INLINE void fill_by_chunks(T* out, uint64_t count, uint64_t first, Make&& make) {
  uint64_t done = 0;
  while (done < count) {
    const uint64_t chunk = (first + done) / random_chunk;
    const uint64_t skip = (first + done) % random_chunk;
    const uint64_t n = std::min(random_chunk - skip, count - done);
    if (n == random_chunk) {
      make(chunk, out + done);
    } else {
      std::array<T, random_chunk> whole;
      make(chunk, whole.data());
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(skip), n, out + done);
    }
    done += n;
  }
}

void normal(float* out, uint64_t count, uint64_t seed, uint64_t stream, uint64_t first, float mean, float std) {
  fill_by_chunks(out, count, first, [=](uint64_t chunk, float* to) HWY_ATTR {
    normal_chunk({.key = seed, .high = stream, .first_counter = chunk * lanes}, mean, std, to);
  });
}

void mask(uint8_t* out, uint64_t count, uint64_t key, uint64_t high, uint64_t first, uint64_t threshold) {
  fill_by_chunks(out, count, first, [=](uint64_t chunk, uint8_t* to) HWY_ATTR {
    mask_chunk({.key = key, .high = high, .first_counter = chunk * lanes}, threshold, to);
  });
}

void noise(float* out, uint64_t count, uint64_t key, uint64_t high, uint64_t first) {
  fill_by_chunks(out, count, first, [=](uint64_t chunk, float* to) HWY_ATTR {
    noise_chunk({.key = key, .high = high, .first_counter = chunk * lanes}, to);
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(normal);
HWY_EXPORT(mask);
HWY_EXPORT(noise);

void fill_normal(std::span<float> out, uint64_t seed, uint64_t stream, uint64_t first_index, float mean, float std) {
  HWY_DYNAMIC_DISPATCH(normal)(out.data(), out.size(), seed, stream, first_index, mean, std);
}

void dropout_mask(std::span<uint8_t> keep, float p, uint64_t seed, uint64_t step, uint64_t sample, uint32_t layer,
                  uint32_t site, uint64_t first_position) {
  assert(p >= 0 && p <= 1);
  const mask_stream words = mask_stream_of(p, seed, step, sample, layer, site);
  HWY_DYNAMIC_DISPATCH(mask)(keep.data(), keep.size(), words.key, words.high, first_position, words.threshold);
}

void rounding_noise(std::span<float> out, const rounding_key& key, uint64_t first_element) {
  HWY_DYNAMIC_DISPATCH(noise)
  (out.data(), out.size(), core::mix64(key.seed ^ core::mix64(key.step)),
   core::mix64(key.parameter ^ core::mix64(rounding_stream)), first_element);
}

}  // namespace troupe::kernels
#endif
