// Tests the replacement of a host program's layers by Troupe's: equal outputs and gradients, which layers are replaced
// and why others are not, and the restoration of the host's layers.
#include "models/inject/own_layers.hpp"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <boost/test/unit_test.hpp>

#include "tests/host_blocks.hpp"

BOOST_AUTO_TEST_SUITE(own_layers)

using namespace troupe;
using namespace troupe::models;
using namespace troupe::tests;

namespace {

namespace nn = torch::nn;

struct result {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // gradients of the parameters, followed by that of the input
};

result run(const nn::Module& module, const at::Tensor& x, auto forward) {
  const at::Tensor input = x.detach().requires_grad_(true), y = forward(input);
  std::vector<at::Tensor> of = module.parameters();
  for (at::Tensor& p : of) p.mutable_grad() = at::Tensor();
  (y * at::arange(y.numel(), y.options()).sin().view(y.sizes())).sum().backward();
  result out{y.detach(), {input.grad()}};
  for (const at::Tensor& p : of) out.gradients.push_back(p.grad().clone());
  return out;
}

double off(const at::Tensor& got, const at::Tensor& wanted) {
  return (got - wanted).norm().item<double>() / wanted.norm().item<double>();
}

void check(const result& got, const result& wanted, double most) {
  BOOST_TEST(off(got.output, wanted.output) <= most);
  for (size_t i = 0; i < wanted.gradients.size(); ++i)
    BOOST_TEST(off(got.gradients[i], wanted.gradients[i]) <= most, "gradient " << i);
}

nn::LayerNorm uneven_norm() {
  nn::LayerNorm norm(nn::LayerNormOptions({block_width}).eps(1e-3));
  const at::NoGradGuard no_grad;
  norm->weight.normal_();
  norm->bias.normal_();
  return norm;
}

}  // namespace

BOOST_AUTO_TEST_CASE(norms_in_a_sequential_and_by_themselves_are_ours_and_compute_the_same) {
  at::manual_seed(7);
  for (const auto& [type, most] : {std::pair{at::kFloat, 1e-5}, std::pair{at::kDouble, 1e-12}}) {
    nn::Sequential layers(uneven_norm(), nn::Linear(block_width, 8), nn::Tanh(), nn::Linear(8, block_width),
                          uneven_norm());
    layers->to(type);
    const at::Tensor x = at::randn({3, 5, block_width}, type).transpose(0, 1);
    const auto forward = [&](const at::Tensor& t) { return layers->forward(t); };
    const result whole = run(*layers, x, forward);
    models::own_layers own(layers.ptr(), /*is_called_alone=*/true);
    own.sit();
    check(run(*layers, x, forward), whole, most);
    BOOST_TEST(layers->parameters().size() == 8U);
    own.revert();
    BOOST_TEST(at::equal(run(*layers, x, forward).output, whole.output));

    const nn::LayerNorm alone = uneven_norm();
    alone.ptr()->to(type);
    const models::own_layers of_unit(alone.ptr(), /*is_called_alone=*/true);
    BOOST_TEST_REQUIRE((of_unit.forward() != nullptr));
    check(run(*alone, x, of_unit.forward()),
          run(*alone, x, [&](const at::Tensor& t) { return alone.ptr()->forward(t); }), most);
  }
}

BOOST_AUTO_TEST_CASE(the_norm_has_the_weights_that_the_layer_has_at_its_forward) {
  nn::Sequential layers(uneven_norm(), nn::Tanh());
  models::own_layers own(layers.ptr(), true);
  own.sit();
  const at::Tensor x = at::randn({2, block_width}), before = layers->forward(x);
  {
    const at::NoGradGuard no_grad;
    layers.ptr()->named_parameters()["0.weight"].mul_(2);
  }
  const at::Tensor after = layers->forward(x);
  BOOST_TEST(!at::equal(after, before));
  // A host may cast a module to its original type.
  BOOST_TEST(off(layers[0]->as<nn::LayerNorm>()->forward(x).tanh(), after) <= 1e-5);
  BOOST_CHECK_THROW(layers->forward(at::randn({2, block_width + 1})), std::exception);
  BOOST_CHECK_THROW(layers->forward(x.to(at::kDouble)), std::exception);
}

BOOST_AUTO_TEST_CASE(what_stays_torchs_has_its_reason) {
  const auto reason = [](const std::shared_ptr<nn::Module>& tree, bool alone = true) {
    const models::own_layers own(tree, alone);
    std::string out;
    for (const auto& l : own.layers()) out += l.path + ": " + l.why + "\n";
    return out;
  };
  BOOST_TEST(reason(std::make_shared<host_mlp>()) ==
             "norm: its module calls it directly, not through a Sequential\nup: Troupe has no separate kernel for "
             "it\ndown: Troupe has no separate kernel for it\n");
  BOOST_TEST(reason(uneven_norm().ptr(), false) == ": its module calls it directly, not through a Sequential\n");
  BOOST_TEST(reason(uneven_norm().ptr()) == ": \n");
  nn::Sequential planes(nn::LayerNorm(nn::LayerNormOptions({3, 4})));
  BOOST_TEST(reason(planes.ptr()) == "0: a norm over several dimensions\n");
  BOOST_TEST(reason(nullptr).empty());
}

BOOST_AUTO_TEST_SUITE_END()
