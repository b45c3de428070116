// Whatever library does a product of the layers, it is the product.
#include "models/products.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>

namespace {

using namespace troupe::models;

/// The largest error of `got` against the product in fp64, in units of the largest possible sum of magnitudes.
double worst(const at::Tensor& got, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  at::Tensor want = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  at::Tensor size = at::mm(a.to(at::kDouble).abs(), b.to(at::kDouble).abs());
  if (bias.defined()) {
    want = want.add(bias.to(at::kDouble));
    size = size.add(bias.to(at::kDouble).abs());
  }
  return got.to(at::kDouble).sub(want).abs().div(size).max().const_data_ptr<double>()[0];
}

struct factors {
  int64_t m, k, n;
};
constexpr factors shapes[] = {{1, 1, 1},    {1, 64, 48},    {3, 5, 7},      {17, 33, 65},
                              {32, 96, 40}, {64, 256, 128}, {129, 257, 31}, {200, 1, 300}};

}  // namespace

BOOST_AUTO_TEST_SUITE(products)

BOOST_AUTO_TEST_CASE(products_of_any_shape_layout_and_type_are_within_rounding_of_the_exact_ones) {
  for (const auto& [m, k, n] : shapes)
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const int turned : {0, 1, 2, 3}) {
        const at::Tensor a = (turned & 1) != 0 ? at::randn({k, m}).to(type).t() : at::randn({m, k}).to(type);
        const at::Tensor b = (turned & 2) != 0 ? at::randn({n, k}).to(type).t() : at::randn({k, n}).to(type);
        const at::Tensor bias = at::randn({n}).to(type);
        // a sum of k products in fp32, in any order, and one rounding to the type
        const double bound =
            type == at::kBFloat16 ? 0x1p-7 : static_cast<double>(k + 2) * (type == at::kFloat ? 0x1p-24 : 0x1p-53);
        BOOST_TEST_CONTEXT(m << " x " << k << " x " << n << ", turned " << turned << ", type " << int(type)) {
          BOOST_TEST(worst(product(a, b), a, b, {}) <= bound);
          BOOST_TEST(worst(product(a, b, bias), a, b, bias) <= 2 * bound);
        }
      }
}

BOOST_AUTO_TEST_CASE(a_product_is_the_same_bits_again_wherever_its_factors_and_its_result_stand) {
  const at::Tensor a = at::randn({130, 96}), b = at::randn({96, 70}), first = product(a, b);
  for (const int64_t shift : {1, 3, 16}) {
    const at::Tensor room_a = at::zeros({130 * 96 + 32}), room_b = at::zeros({96 * 70 + 32});
    const at::Tensor room_out = at::zeros({130 * 70 + 32});
    const at::Tensor moved_a = room_a.narrow(0, shift, 130 * 96).view({130, 96}).copy_(a);
    const at::Tensor moved_b = room_b.narrow(0, 2 * shift - 1, 96 * 70).view({96, 70}).copy_(b);
    at::Tensor out = room_out.narrow(0, shift, 130 * 70).view({130, 70});
    product_out(out, moved_a, moved_b);
    BOOST_TEST(at::equal(out, first), "shifted by " << shift);
  }
}

BOOST_AUTO_TEST_CASE(a_product_too_small_to_pay_for_a_call_stays_with_aten) {
  BOOST_TEST((fp32_products_by(4, 4, 4) == product_library::aten));
}

BOOST_AUTO_TEST_SUITE_END()
