// Checks that matrix products of the layers are correct, whichever library computes them.
#include "models/segment/products.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <unordered_map>

#include "core/system/processor.hpp"
#include "models/segment/torch_values.hpp"
#include "models/segment/widened_products.hpp"

BOOST_AUTO_TEST_SUITE(products)

namespace {

using namespace troupe::models;

/// Returns the largest error of `got` against the product in fp64, relative to the sum of the magnitudes of its terms.
double worst(const at::Tensor& got, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  at::Tensor want = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  at::Tensor size = at::mm(a.to(at::kDouble).abs(), b.to(at::kDouble).abs());
  if (bias.defined()) {
    want = want.add(bias.to(at::kDouble));
    size = size.add(bias.to(at::kDouble).abs());
  }
  // 2^-24 is the smallest step of fp16, so rounding tiny numbers has an error of up to half of it
  const double least = got.scalar_type() == at::kHalf ? 0x1p-25 : 0.0;
  return got.to(at::kDouble).sub(want).abs().sub(least).div(size).max().const_data_ptr<double>()[0];
}

struct factors {
  int64_t m, k, n;
};

/// Measures the peak of bytes that LibTorch allocates during the object's lifetime. Only for one thread.
class peak_of_torch final : public c10::Allocator {
 public:
  peak_of_torch() { c10::SetCPUAllocator(this, /*priority=*/1); }
  ~peak_of_torch() override { c10::SetCPUAllocator(before_, /*priority=*/1); }
  c10::DataPtr allocate(size_t bytes) override {
    void* block = before_->raw_allocate(bytes);
    sizes()[block] = bytes;
    live() += bytes;
    peak_ = std::max(peak_, live());
    return {block, block, &free_counted, c10::Device(c10::kCPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  [[nodiscard]] size_t peak() const { return peak_; }

 private:
  static std::unordered_map<void*, size_t>& sizes() {
    static auto* all = new std::unordered_map<void*, size_t>;
    return *all;
  }
  static size_t& live() {
    static size_t bytes = 0;
    return bytes;
  }
  static void free_counted(void* block) {
    live() -= sizes()[block];
    sizes().erase(block);
    c10::GetDefaultCPUAllocator()->raw_deallocate(block);
  }
  c10::Allocator* before_ = c10::GetCPUAllocator();
  size_t peak_ = 0;
};

/// Returns the processor seconds that this thread spends in `f`, whatever other programs run.
double processor_seconds(auto&& f) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double begin = now();
  f();
  return now() - begin;
}

constexpr factors shapes[] = {{1, 1, 1},    {1, 64, 48},    {3, 5, 7},      {17, 33, 65},
                              {32, 96, 40}, {64, 256, 128}, {129, 257, 31}, {200, 1, 300}};

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_any_shape_layout_and_type_are_within_rounding_of_the_exact_ones) {
  for (const auto& [m, k, n] : shapes)
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
      for (const int turned : {0, 1, 2, 3}) {
        const at::Tensor a = (turned & 1) != 0 ? at::randn({k, m}).to(type).t() : at::randn({m, k}).to(type);
        const at::Tensor b = (turned & 2) != 0 ? at::randn({n, k}).to(type).t() : at::randn({k, n}).to(type);
        const at::Tensor bias = at::randn({n}).to(type);
        // The bound covers a sum of k products in fp32, in any order, and one rounding to the type.
        const double bound = type == at::kBFloat16 ? 0x1p-7
                             : type == at::kHalf   ? 0x1p-10
                                                   : double(k + 2) * (type == at::kFloat ? 0x1p-24 : 0x1p-53);
        BOOST_TEST_CONTEXT(m << " x " << k << " x " << n << ", turned " << turned << ", type " << int(type)) {
          BOOST_TEST(worst(product(a, b), a, b, {}) <= bound);
          BOOST_TEST(worst(product(a, b, bias), a, b, bias) <= 2 * bound);
        }
      }
}

BOOST_AUTO_TEST_CASE(a_product_has_the_same_bits_at_any_address_of_its_factors_and_its_result) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor a = at::randn({130, 96}).to(type), b = at::randn({96, 70}).to(type), first = product(a, b);
    for (const int64_t shift : {1, 3, 16}) {
      const at::Tensor room_a = at::zeros({130 * 96 + 32}, type), room_b = at::zeros({96 * 70 + 32}, type);
      const at::Tensor room_out = at::zeros({130 * 70 + 32}, type);
      const at::Tensor moved_a = room_a.narrow(0, shift, 130 * 96).view({130, 96}).copy_(a);
      const at::Tensor moved_b = room_b.narrow(0, 2 * shift - 1, 96 * 70).view({96, 70}).copy_(b);
      at::Tensor out = room_out.narrow(0, shift, 130 * 70).view({130, 70});
      product_out(out, moved_a, moved_b);
      BOOST_TEST(at::equal(out, first), "type " << int(type) << ", shifted by " << shift);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_product_too_small_to_pay_for_a_call_stays_with_aten) {
  BOOST_TEST((products_by(at::kFloat, 4, 4, 4) == product_library::aten));
}

BOOST_AUTO_TEST_CASE(sixteen_bits_are_widened_if_the_processor_or_its_limit_has_no_products_of_them) {
  const char* limit = std::getenv("ATEN_CPU_CAPABILITY");
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const bool widened = products_by(type, 512, 512, 512) == product_library::widened;
    if (!troupe::core::multiplies_natively(core_dtype(type))) BOOST_TEST(widened);
    if (limit != nullptr && std::string_view(limit) == "avx2") BOOST_TEST(widened);
  }
}

BOOST_AUTO_TEST_CASE(widened_products_of_more_than_a_tile_are_within_one_rounding_of_the_exact_ones) {
  const int64_t m = widened_rows + 7, k = 2 * widened_depth + 9, n = widened_cols + 5;
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const bool turned = type == at::kHalf;
    const at::Tensor a = turned ? at::randn({k, m}).to(type).t() : at::randn({m, k}).to(type);
    const at::Tensor b = turned ? at::randn({k, n}).to(type) : at::randn({n, k}).to(type).t();
    const at::Tensor bias = at::randn({n}).to(type);
    at::Tensor out = at::empty({m, n}, type);
    widened_product_out(out, a, b, bias);
    // The sum in fp32 is exact enough to predict the single rounding, except for sums near the middle of two numbers.
    const at::Tensor want = at::addmm(bias.to(at::kFloat), a.to(at::kFloat), b.to(at::kFloat));
    const double unit = type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
    const at::Tensor error = out.to(at::kFloat).sub(want).abs().sub(want.abs().mul(unit));
    BOOST_TEST(error.max().item<float>() <= 1e-3F);
    BOOST_TEST(at::ne(out, want.to(type)).sum().item<int64_t>() < m * n / 50);
  }
}

BOOST_AUTO_TEST_CASE(a_widened_product_is_rounded_once_after_all_tiles_and_the_bias) {
  // 257 has nine bits, one more than bf16 can represent. Three such sums of a tile add up to 771, which rounds to 772.
  at::Tensor a = at::zeros({1, 3 * widened_depth}, at::kBFloat16);
  for (int64_t i = 0; i < 3; ++i) a.narrow(1, i * widened_depth, 257).fill_(1);
  const at::Tensor ones = at::ones({3 * widened_depth, 1}, at::kBFloat16), bias = at::ones({1}, at::kBFloat16);
  at::Tensor out = at::empty({1, 1}, at::kBFloat16);
  widened_product_out(out, a, ones);
  BOOST_TEST(out.item<float>() == 772.0F);
  widened_product_out(out, a.narrow(1, 0, 257), ones.narrow(0, 0, 257), bias);
  BOOST_TEST(out.item<float>() == 258.0F);
  widened_product_out(out, a.narrow(1, 0, 0), ones.narrow(0, 0, 0), bias);
  BOOST_TEST(out.item<float>() == 1.0F);
}

BOOST_AUTO_TEST_CASE(the_scratch_of_a_widened_product_does_not_grow_with_it) {
  const auto peak = [](int64_t tiles) {
    const int64_t m = widened_rows + 1, k = widened_depth + 1, n = tiles * widened_cols;
    const at::Tensor a = at::ones({m, k}, at::kBFloat16), b = at::ones({k, n}, at::kBFloat16);
    at::Tensor out = at::empty({m, n}, at::kBFloat16);
    const peak_of_torch counted;
    widened_product_out(out, a, b);
    return counted.peak();
  };
  const size_t one = peak(1);
  BOOST_TEST(one >= size_t{8} << 20);
  BOOST_TEST(one <= size_t{16} << 20);  // the limit includes the library's own buffers
  BOOST_TEST(peak(3) == one);
}

// LibTorch's own products in a type without processor instructions need 10 to 200 times as long as in fp32.
BOOST_AUTO_TEST_CASE(products_in_16_bits_take_less_than_thrice_the_time_of_fp32s) {
#ifdef __SANITIZE_ADDRESS__
  BOOST_TEST_MESSAGE("the address sanitizer slows our loops down and not the library's: times are not compared");
  return;
#endif
  constexpr int64_t n = 256;
  constexpr int tries = 50;  // the fastest try counts, because other programs can only make a try slower
  const at::Tensor a = at::randn({n, n}), b = at::randn({n, n});
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const int turned : {0, 1, 2}) {
      const at::Tensor left = turned == 1 ? a.to(type).t() : a.to(type),
                       right = turned == 2 ? b.to(type).t() : b.to(type);
      double wide = 1e9, narrow = 1e9;
      for (int i = 0; i < tries && (i < 3 || narrow >= 3 * wide); ++i) {
        wide = std::min(wide, processor_seconds([&] { (void)product(a, b); }));
        narrow = std::min(narrow, processor_seconds([&] { (void)product(left, right); }));
      }
      BOOST_TEST(narrow < 3 * wide, "type " << int(type) << ", turned " << turned << ": " << narrow << " and " << wide);
    }
}

BOOST_AUTO_TEST_SUITE_END()
