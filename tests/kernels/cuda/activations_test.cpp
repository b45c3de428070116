#include "kernels/cuda/kernels.hpp"
#include "kernels/layers/elementwise.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(activations)

namespace {

/// Arrays of `count` elements of one type, with equal initial values on the host and on the device.
class twin_arrays {
 public:
  twin_arrays(core::dtype type, uint64_t count, size_t arrays, uint64_t shift) : type_(type), count_(count) {
    for (size_t k = 0; k < arrays; ++k) {
      host_.push_back(hard_bytes(type, count, 10 * count + k));
      device_.emplace_back(host_.back(), shift * k * core::size_of(type));
    }
  }
  [[nodiscard]] std::byte* host(size_t k) { return host_[k].data(); }
  [[nodiscard]] std::byte* device(size_t k) { return device_[k].data(); }

  void require_same_on_both_sides(const char* what, uint64_t shift) {
    BOOST_TEST_CONTEXT(what << ", " << count_ << " elements of " << core::name_of(type_) << ", shifted by " << shift)
    for (size_t k = 0; k < host_.size(); ++k) require_same(type_, device_[k].back(), host_[k]);
  }

 private:
  core::dtype type_;
  uint64_t count_;
  std::vector<std::vector<std::byte>> host_;
  std::vector<device_array<std::byte>> device_;
};

/// Compares every activation function of the device with the CPU's, into separate arrays and in place; array k begins
/// `shift` * k elements after an even address.
void compare_all(core::dtype type, uint64_t count, uint64_t shift = 0) {
  for (const size_t out : {0U, 1U}) {
    twin_arrays a(type, count, 2, shift);
    kernels::gelu_tanh(a.host(0), a.host(out), type, count);
    require(cuda::gelu_tanh(a.device(0), a.device(out), type, count, test_stream()));
    a.require_same_on_both_sides("gelu_tanh", shift);
  }
  struct places {
    size_t first, second;
    bool again;
    size_t y;
  };
  for (const auto& at :
       {places{2, 0, false, 0}, places{1, 0, false, 0}, places{2, 0, true, 3}, places{1, 0, true, 0}}) {
    twin_arrays a(type, count, 4, shift);
    kernels::gelu_tanh_backward(a.host(0), a.host(1), a.host(at.first), type, count, at.again ? a.host(at.y) : nullptr);
    require(cuda::gelu_tanh_backward(a.device(0), a.device(1), a.device(at.first), type, count,
                                     at.again ? a.device(at.y) : nullptr, test_stream()));
    a.require_same_on_both_sides("gelu_tanh_backward", shift);
  }
  for (const size_t out : {0U, 1U, 2U}) {
    twin_arrays a(type, count, 3, shift);
    kernels::silu_gated(a.host(0), a.host(1), a.host(out), type, count);
    require(cuda::silu_gated(a.device(0), a.device(1), a.device(out), type, count, test_stream()));
    a.require_same_on_both_sides("silu_gated", shift);
  }
  for (const auto& at : {places{3, 4, false, 0}, places{3, 4, true, 5}, places{0, 1, true, 2}, places{2, 0, true, 1}}) {
    twin_arrays a(type, count, 6, shift);
    kernels::silu_gated_backward(a.host(0), a.host(1), a.host(2), a.host(at.first), a.host(at.second), type, count,
                                 at.again ? a.host(at.y) : nullptr);
    require(cuda::silu_gated_backward(a.device(0), a.device(1), a.device(2), a.device(at.first), a.device(at.second),
                                      type, count, at.again ? a.device(at.y) : nullptr, test_stream()));
    a.require_same_on_both_sides("silu_gated_backward", shift);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_type_and_count_gives_the_cpus_bits) {
  for (const auto type : fp32_dtypes)
    for (const uint64_t count : ragged_counts) compare_all(type, count);
}

BOOST_AUTO_TEST_CASE(arrays_may_begin_at_any_element) {
  for (const auto type : fp32_dtypes)
    for (uint64_t shift = 1; shift < 9; ++shift) compare_all(type, 1009, shift);
}

BOOST_AUTO_TEST_CASE(all_65536_values_of_the_short_types_give_the_cpus_bits) {
  std::vector<std::byte> all(2 * 65536);
  for (uint32_t u = 0; u < 65536; ++u) {
    const auto bits = static_cast<uint16_t>(u);
    std::memcpy(all.data() + 2 * u, &bits, sizeof bits);
  }
  for (const auto type : {core::dtype::bf16, core::dtype::f16}) {
    device_array<std::byte> x(all), y(all), ones(stored_as(type, std::vector<float>(65536, 1.0F)));
    std::vector<std::byte> wanted(all.size()), host_ones = ones.back();
    kernels::gelu_tanh(all.data(), wanted.data(), type, 65536);
    require(cuda::gelu_tanh(x.data(), y.data(), type, 65536, test_stream()));
    require_same(type, y.back(), wanted);
    kernels::gelu_tanh_backward(all.data(), host_ones.data(), wanted.data(), type, 65536);
    require(cuda::gelu_tanh_backward(x.data(), ones.data(), y.data(), type, 65536, nullptr, test_stream()));
    require_same(type, y.back(), wanted);
    kernels::silu_gated(all.data(), host_ones.data(), wanted.data(), type, 65536);
    require(cuda::silu_gated(x.data(), ones.data(), y.data(), type, 65536, test_stream()));
    require_same(type, y.back(), wanted);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
