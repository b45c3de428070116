// Owns the optimizer state of one parameter on the host and on the device, and updates of both; shared by the tests of
// the CUDA optimizers.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {

/// The array types, sizes, alignment and kind of values of one update.
struct piece_shape {
  uint64_t count = 0;
  core::dtype gradient = core::dtype::bf16, copy = core::dtype::bf16;
  bool has_copy = true;
  bool has_second = true;  ///< false: the pointer to the second moment is null
  bool is_hard = false;    ///< true: values include infinities, NaN and the largest numbers
  uint64_t shift = 0;      ///< array k begins k * shift elements after an even address
};

inline std::string text_of(const piece_shape& s) {
  return fmt::format("{} elements, gradients {}, copy {}{}, shifted by {}", s.count, core::name_of(s.gradient),
                     s.has_copy ? std::string(core::name_of(s.copy)) : "none", s.is_hard ? ", hard numbers" : "",
                     s.shift);
}

/// Weights, moments, gradient and 16-bit copy of one parameter, on the host.
struct parameter {
  std::vector<float> master, first, second;
  std::vector<std::byte> gradient, copy;

  explicit parameter(const piece_shape& s)
      : master(numbers(s, 1)),
        first(numbers(s, 2)),
        second(s.has_second ? numbers(s, 3) : std::vector<float>{}),
        gradient(stored_as(s.gradient, numbers(s, 4))),
        copy(s.has_copy ? s.count * core::size_of(s.copy) : 0, std::byte{0x77}) {
    for (auto& x : second) x = std::abs(x);
  }

  static std::vector<float> numbers(const piece_shape& s, uint64_t seed) {
    return s.is_hard ? hard_floats(s.count, seed) : awkward_floats(s.count, seed);
  }

  [[nodiscard]] optimizer_piece<float> piece(const piece_shape& s) {
    return {.master = master.data(),
            .moments = {first.data(), s.has_second ? second.data() : nullptr},
            .gradient = gradient.data(),
            .gradient_dtype = s.gradient,
            .copy = s.has_copy ? copy.data() : nullptr,
            .copy_dtype = s.copy,
            .count = s.count};
  }
};

/// Weights, moments, gradient and 16-bit copy of one parameter, on the device.
struct device_parameter {
  device_array<float> master, first, second;
  device_array<std::byte> gradient, copy;

  device_parameter(const parameter& p, const piece_shape& s)
      : master(p.master, s.shift),
        first(p.first, 2 * s.shift),
        second(p.second, 3 * s.shift),
        gradient(p.gradient, 4 * s.shift * core::size_of(s.gradient)),
        copy(p.copy, 5 * s.shift * core::size_of(s.copy)) {}

  [[nodiscard]] optimizer_piece<float> piece(const piece_shape& s) {
    return {.master = master.data(),
            .moments = {first.data(), s.has_second ? second.data() : nullptr},
            .gradient = gradient.data(),
            .gradient_dtype = s.gradient,
            .copy = s.has_copy ? copy.data() : nullptr,
            .copy_dtype = s.copy,
            .count = s.count};
  }
};

inline void require_same_parameter(device_parameter& got, const parameter& wanted, const piece_shape& s) {
  require_same(got.master.back(), wanted.master);
  require_same(got.first.back(), wanted.first);
  require_same(got.second.back(), wanted.second);
  require_same_bits(got.gradient.back(), wanted.gradient);
  require_same(s.copy, got.copy.back(), wanted.copy);
}

/// Calls `f` with every combination of types, counts, starts and kinds of numbers that the tests of an optimizer cover.
template <class F>
void for_each_shape(F&& f) {
  for (const auto gradient : fp32_dtypes)
    for (const auto copy : fp32_dtypes) {
      for (const bool hard : {false, true})
        for (const uint64_t count : some_counts)
          f(piece_shape{.count = count, .gradient = gradient, .copy = copy, .is_hard = hard});
      for (const uint64_t shift : {1U, 2U, 3U, 4U, 8U})
        f(piece_shape{.count = 1500, .gradient = gradient, .copy = copy, .shift = shift});
      f(piece_shape{.count = 2051, .gradient = gradient, .copy = copy, .has_copy = false});
    }
  for (const uint64_t count : ragged_counts) f(piece_shape{.count = count});
}

/// Returns a step number, a learning rate and a gradient scale that vary with the shape.
inline optimizer_step step_of(const piece_shape& s) {
  return {.step = s.count % 4 + 1, .lr = 1e-2, .gradient_scale = s.count % 7 == 0 ? 1.0 : 0.37};
}

inline core::result<void> update_one(const optimizer_options& options, const optimizer_step& step,
                                     const optimizer_piece<float>& piece) {
  const piece_update<float> one{options, step, piece};
  return cuda::update({&one, 1}, test_stream());
}

}  // namespace troupe::kernels::cuda::tests
