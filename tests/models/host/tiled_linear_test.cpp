// Tests linear layers in tiles: values and gradients of the whole layer for every grid, weights that share its memory,
// and units of one tile each.
#include "models/host/tiled_linear.hpp"

#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>

#include <boost/test/unit_test.hpp>

#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(tiled_linear)

using namespace troupe;
using namespace troupe::models;
using namespace troupe::tests;

namespace {

namespace nn = torch::nn;

double off(const at::Tensor& got, const at::Tensor& wanted) {
  return (got - wanted).abs().max().item<double>() / wanted.abs().max().item<double>();
}

at::Tensor direction(const at::Tensor& y) { return at::arange(y.numel(), y.options()).sin().view(y.sizes()); }

}  // namespace

BOOST_AUTO_TEST_CASE(tiles_add_up_to_the_layer_forward_and_backward) {
  at::manual_seed(7);
  for (const bool bias : {true, false})
    for (const auto& [ins, outs] : {std::pair{1, 1}, std::pair{3, 1}, std::pair{1, 4}, std::pair{3, 4}})
      BOOST_TEST_CONTEXT(ins << " x " << outs) {
        const nn::Linear whole(nn::LinearOptions(10, 14).bias(bias));
        const auto tiled = check_ok(models::tiled_linear::make(whole.ptr(), {ins, outs}));
        const at::Tensor x = at::randn({2, 5, 10}), own = x.clone().requires_grad_(true);
        const at::Tensor theirs = x.clone().requires_grad_(true);
        const at::Tensor y = (*tiled)->forward(own), wanted = whole.ptr()->forward(theirs);
        BOOST_TEST(off(y, wanted) <= 1e-6);
        (y * direction(y)).sum().backward();
        (wanted * direction(wanted)).sum().backward();
        BOOST_TEST(off(own.grad(), theirs.grad()) <= 1e-5);
        const auto& edges = (*tiled)->out_edges();
        for (int o = 0; o < outs; ++o) {
          const auto from = edges.at(static_cast<size_t>(o)), to = edges.at(static_cast<size_t>(o) + 1);
          const auto& tile = (*tiled)->tile(o, ins - 1);
          const int64_t first = (*tiled)->in_edges().at(static_cast<size_t>(ins) - 1);
          const at::Tensor rows = whole->weight.grad().narrow(0, from, to - from);
          const at::Tensor part = rows.narrow(1, first, tile->weight.size(1));
          BOOST_TEST(off(tile->weight.grad(), part) <= 1e-5);
          if (bias) BOOST_TEST(off(tile->bias.grad(), whole->bias.grad().narrow(0, from, to - from)) <= 1e-5);
        }
      }
}

BOOST_AUTO_TEST_CASE(tiles_share_the_layers_memory_and_have_deepspeeds_names) {
  at::manual_seed(7);
  const nn::Linear whole(10, 14);
  const auto tiled = check_ok(models::tiled_linear::make(whole.ptr(), {.in_splits = 3, .out_splits = 2}));
  BOOST_TEST((even_edges(10, 4) == std::vector<int64_t>{0, 3, 6, 8, 10}));
  const auto names = (*tiled)->named_parameters();
  BOOST_TEST(names.contains("linears.1.2.weight"));
  BOOST_TEST(names.contains("linears.1.2.bias"));
  BOOST_TEST(!names.contains("linears.1.1.bias"));
  const at::Tensor x = at::randn({4, 10}), before = whole.ptr()->forward(x);
  {
    const at::NoGradGuard no_grad;
    (*tiled)->tile(1, 2)->weight.mul_(2);
    whole->bias.add_(1);
  }
  BOOST_TEST(!at::equal(whole.ptr()->forward(x), before));
  BOOST_TEST(off((*tiled)->forward(x), whole.ptr()->forward(x)) <= 1e-6);
  const nn::Linear other(10, 14);
  (*tiled)->copy_params_from(*other);
  BOOST_TEST(at::equal(whole->weight, other->weight));
}

BOOST_AUTO_TEST_CASE(tiles_are_frozen_where_the_layer_is) {
  const nn::Linear whole(10, 14);
  whole->bias.requires_grad_(false);
  const auto tiled = check_ok(models::tiled_linear::make(whole.ptr(), {.in_splits = 2}));
  BOOST_TEST((*tiled)->tile(0, 1)->weight.requires_grad());
  BOOST_TEST(!(*tiled)->tile(0, 1)->bias.requires_grad());
}

BOOST_AUTO_TEST_CASE(split_inputs_and_outputs_stay_apart_and_wrong_grids_are_refused) {
  const nn::Linear whole(10, 14);
  const tiling apart{3, 2, true, false};
  const auto tiled = check_ok(models::tiled_linear::make(whole.ptr(), apart));
  const at::Tensor x = at::randn({4, 10});
  const auto y = (*tiled)->forward_split({x.narrow(1, 0, 4), x.narrow(1, 4, 3), x.narrow(1, 7, 3)});
  BOOST_REQUIRE_EQUAL(y.size(), 2U);
  BOOST_TEST(off(at::cat(y, -1), whole.ptr()->forward(x)) <= 1e-6);
  BOOST_CHECK_THROW((*tiled)->forward(x), std::exception);
  BOOST_CHECK_THROW((void)(*tiled)->forward_split({x}), std::exception);
  check_failed(models::tiled_linear::make(whole.ptr(), {.in_splits = 11}), "in_splits: wanted 1 to 10, got 11");
  check_failed(models::tiled_linear::make(whole.ptr(), {.out_splits = 0}), "out_splits: wanted 1 to 14, got 0");
  check_failed(tiled_units("head", whole.ptr(), apart), "units pass on one input and one output");
}

BOOST_AUTO_TEST_CASE(units_of_one_tile_each_compute_the_layer) {
  at::manual_seed(7);
  const nn::Linear whole(10, 14);
  const auto units = check_ok(tiled_units("head", whole.ptr(), {.in_splits = 3, .out_splits = 4}));
  BOOST_REQUIRE_EQUAL(units->size(), 12U);
  BOOST_TEST(units->front().name == "head.0.0");
  const at::Tensor x = at::randn({2, 5, 10});
  named_values passed(x);
  for (const module_unit& u : *units) passed = u.forward(passed);
  BOOST_TEST(off(passed.only(), whole.ptr()->forward(x)) <= 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
