// Compares fused attention with an attention composed of LibTorch operations, with documents, dropout and grouped
// queries.
#include "models/layers/attention.hpp"

#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/function.h>

#include <boost/test/unit_test.hpp>

#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(attention)

namespace {

constexpr int64_t rows = 2, columns = 150;
constexpr attention_shape shape{4, 2, 10};

/// Provides a segment without parameters, and a batch of two rows, the first of which has three documents.
struct attention_fixture {
  core::model_table table;
  std::vector<uint32_t> starts;
  std::vector<uint64_t> samples{5, 6};
  micro_batch batch;

  attention_fixture() : starts(size_t{rows * columns}) {
    table.units.push_back({"block", {}, {core::segment_info{"attention", {}, 0, 0}}});
    for (size_t i = 0; i < size_t{columns}; ++i) starts[i] = i < 60 ? 0 : i < 61 ? 60 : 61;
    batch.rows = rows;
    batch.columns = columns;
    batch.samples = samples;
    batch.document_start = starts;
    batch.seed = 3;
    batch.training = true;
  }

  struct results {
    at::Tensor y, gradient;
  };
  /// Runs forward and backward of `attention` on qkv, of shape (rows, columns, 80), with the output gradient dy.
  results run(auto attention, const at::Tensor& qkv, const at::Tensor& dy, float dropout) const {
    const parameter_binding none(table, core::dtype::f32);
    const segment_scope scope(table, none, batch, 0, 0);
    const at::Tensor input = qkv.detach().requires_grad_(true);
    at::Tensor y = attention(scope, input, shape, dropout);
    return {y.detach(), (*y.grad_fn())(torch::autograd::variable_list{dy})[0]};
  }
};

at::Tensor random(int64_t width, at::ScalarType type) {
  return at::randn({rows, columns, width}, at::kDouble).to(type);
}

}  // namespace

BOOST_AUTO_TEST_CASE(fused_values_and_gradients_are_those_of_the_composed_one_in_fp64) {
  const attention_fixture f;
  for (const auto& [type, bound] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 4e-3}, {at::kHalf, 5e-4}})
    for (const float dropout : {0.0F, 0.3F}) {
      const at::Tensor qkv = random(80, type), dy = random(40, type);
      const auto got = f.run(fused_attention, qkv, dy, dropout);
      const auto wanted = f.run(composed_attention, qkv.to(at::kDouble), dy.to(at::kDouble), dropout);
      BOOST_TEST(relative_difference(got.y.to(at::kDouble), wanted.y) <= bound, type << ", dropout " << dropout);
      BOOST_TEST(relative_difference(got.gradient.to(at::kDouble), wanted.gradient) <= bound,
                 type << ", dropout " << dropout);
    }
}

BOOST_AUTO_TEST_CASE(a_document_has_the_same_bits_as_alone) {
  attention_fixture f;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    f.batch.rows = rows;
    f.batch.columns = columns;
    f.batch.document_start = f.starts;
    const at::Tensor qkv = random(80, type), dy = random(40, type);
    const auto packed = f.run(fused_attention, qkv, dy, 0);
    const auto document = [](const at::Tensor& x) {
      return x.narrow(0, 0, 1).narrow(1, 61, columns - 61).contiguous();
    };
    f.batch.rows = 1;
    f.batch.columns = uint64_t{columns - 61};
    f.batch.document_start = {};
    const auto alone = f.run(fused_attention, document(qkv), document(dy), 0);
    BOOST_TEST(alone.y.equal(document(packed.y)));
    BOOST_TEST(alone.gradient.equal(document(packed.gradient)));
  }
}

BOOST_AUTO_TEST_CASE(recomputed_forward_has_the_same_bits) {
  const attention_fixture f;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor qkv = random(80, type), dy = random(40, type);
    const auto once = f.run(fused_attention, qkv, dy, 0.2F), again = f.run(fused_attention, qkv.clone(), dy, 0.2F);
    BOOST_TEST(once.y.equal(again.y));
    BOOST_TEST(once.gradient.equal(again.gradient));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
