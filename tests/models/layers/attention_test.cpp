// Compares fused attention with an attention composed of LibTorch operations, with documents, dropout, grouped queries,
// windows, scales and soft caps.
#include "models/layers/attention.hpp"

#include <ATen/ops/bmm.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/function.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <initializer_list>

#include "models/layers/distillation.hpp"
#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(attention)

namespace {

constexpr int64_t rows = 2, columns = 150;
constexpr attention_shape shape{4, 2, 10};

attention_shape with(const attention_options& options) {
  attention_shape out = shape;
  out.options = options;
  return out;
}

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
  results run(auto attention, const at::Tensor& qkv, const at::Tensor& dy, float dropout,
              const attention_shape& of = shape) const {
    const parameter_binding none(table, core::dtype::f32);
    const segment_scope scope(table, none, batch, 0, 0);
    const at::Tensor input = qkv.detach().requires_grad_(true);
    at::Tensor y = attention(scope, input, of, dropout);
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

BOOST_AUTO_TEST_CASE(windows_scales_and_caps_are_those_of_the_composed_one_in_fp64) {
  const attention_fixture f;
  for (const attention_options& options : std::initializer_list<attention_options>{{0, 1, 0},
                                                                                   {0, 3, 0},
                                                                                   {0, 63, 0},
                                                                                   {0, 64, 0},
                                                                                   {0, 65, 0},
                                                                                   {0, 200, 0},
                                                                                   {0.2, 0, 0},
                                                                                   {0, 0, 1.5},
                                                                                   {0.4, 20, 2},
                                                                                   {0, 0, 0, false},
                                                                                   {0.4, 0, 2, false}})
    for (const float dropout : {0.0F, 0.3F}) {
      BOOST_TEST_INFO_SCOPE("scale " << options.scale << ", window " << options.window << ", cap " << options.soft_cap
                                     << ", dropout " << dropout);
      const at::Tensor qkv = random(80, at::kFloat), dy = random(40, at::kFloat);
      const auto got = f.run(fused_attention, qkv, dy, dropout, with(options));
      const auto wanted = f.run(composed_attention, qkv.to(at::kDouble), dy.to(at::kDouble), dropout, with(options));
      BOOST_TEST(relative_difference(got.y.to(at::kDouble), wanted.y) <= 1e-6);
      BOOST_TEST(relative_difference(got.gradient.to(at::kDouble), wanted.gradient) <= 2e-6);
    }
}

BOOST_AUTO_TEST_CASE(a_map_has_the_weights_of_attention) {
  attention_fixture f;
  f.batch.document_start = {};
  const at::Tensor qkv = random(80, at::kDouble), dy = random(40, at::kDouble);
  for (const attention_options& options :
       std::initializer_list<attention_options>{{0, 0, 0}, {0, 7, 0}, {0.4, 20, 2}, {0, 0, 1.5}, {0, 0, 0, false}}) {
    const at::Tensor map = attention_map(qkv, with(options));
    const at::Tensor values = qkv.narrow(2, 60, 20).reshape({rows, columns, 2, 10}).repeat_interleave(2, 2);
    const at::Tensor y = at::bmm(map.flatten(0, 1), values.transpose(1, 2).reshape({rows * 4, columns, 10}))
                             .view({rows, 4, columns, 10})
                             .transpose(1, 2)
                             .reshape({rows, columns, 40});
    BOOST_TEST(relative_difference(y, f.run(composed_attention, qkv, dy, 0, with(options)).y) <= 1e-12);
  }
}

// The gradient of the loss between maps is compared with differences of its loss.
BOOST_AUTO_TEST_CASE(the_gradient_of_the_loss_between_capped_maps_is_that_of_differences) {
  const attention_fixture f;
  const attention_shape capped = with({0.4, 20, 1.5});
  const parameter_binding none(f.table, core::dtype::f32);
  const segment_scope scope(f.table, none, f.batch, 0, 0);
  const at::Tensor qkv = random(80, at::kDouble);
  const at::Tensor map = attention_map(random(80, at::kDouble), capped);
  double lost = 0;
  const auto loss_at = [&](const at::Tensor& x) {
    lost = 0;
    learn_map(scope, x, capped, {.map = map, .weight = 1e5, .scale = 1, .lost = &lost});
    return lost;
  };
  const at::Tensor input = qkv.detach().requires_grad_(true);
  const at::Tensor y = learn_map(scope, input, capped, {.map = map, .weight = 1e5, .scale = 1, .lost = &lost});
  const at::Tensor gradient = (*y.grad_fn())(torch::autograd::variable_list{qkv.mul(0)})[0];
  constexpr double step = 1e-5;
  for (const int64_t element : {3, 12, 39, 45, 70})
    for (const int64_t column : {1, 30, 149}) {
      const auto moved = [&](double by) {
        at::Tensor x = qkv.clone();
        x[1][column][element].add_(by);
        return loss_at(x);
      };
      const double wanted = (moved(step) - moved(-step)) / (2 * step);
      BOOST_TEST(std::abs(gradient[1][column][element].item<double>() - wanted) <= 1e-7 + 1e-4 * std::abs(wanted),
                 "column " << column << ", element " << element);
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
