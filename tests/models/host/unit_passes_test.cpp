// Tests passes over a host program's units: which units fuse_activation fuses and which not, that bits are preserved,
// what a pass can read, the order that contracts determine, and refusals.
#include "models/host/unit_pass.hpp"

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <boost/test/unit_test.hpp>

#include "models/host/fuse_activation.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/prepared_modules.hpp"
#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(unit_passes)

namespace {

namespace nn = torch::nn;

at::Tensor squared_error(const at::Tensor& y, const at::Tensor& target) { return nn::functional::mse_loss(y, target); }
host_batch rows() { return {at::randn({4, 6, 16}), at::randn({4, 6, 5})}; }

const unit_pass& ours() { return all_unit_passes().front(); }

unit_pass named(const std::string& name, unit_contract promise = {}) {
  return {.name = name, .promise = std::move(promise), .run = [](module_model&, const unit_surroundings&) {
            return std::string();
          }};
}

std::string order_text(const std::vector<const unit_pass*>& passes) {
  const auto order = in_order(passes);
  if (!order) return order.error().text;
  std::string out;
  for (const auto* x : *order) out += (out.empty() ? "" : " ") + x->name;
  return out;
}

std::string names_of(const module_model& m) {
  std::string out;
  for (const auto& u : m.units) out += (out.empty() ? "" : " ") + u.name;
  return out;
}

/// Runs forward and backward of consecutive units and returns the results for bitwise comparison.
std::vector<at::Tensor> computed(const std::vector<module_unit>& units, const at::Tensor& given) {
  at::Tensor x = given.detach().requires_grad_(true), y = x;
  for (const auto& u : units) y = u.forward(y);
  for (const auto& u : units)
    for (const auto& p : parts_of(u).parameters) p.tensor.mutable_grad() = at::Tensor();
  y.backward(at::arange(y.numel(), at::kFloat).sin().view(y.sizes()).to(y.scalar_type()));
  std::vector<at::Tensor> out = {y.detach().clone(), x.grad().clone()};
  for (const auto& u : units)
    for (const auto& p : parts_of(u).parameters) out.push_back(p.tensor.grad().clone());
  return out;
}

void check_bits(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted) {
  BOOST_TEST_REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) BOOST_TEST(at::equal(got[i], wanted[i]), "tensor " << i << " differs");
}

enum class backward_reads { result, input };

void check_pair(const auto& then, backward_reads what, at::ScalarType type, bool bias, const at::Tensor& x) {
  nn::Linear layer(nn::LinearOptions(x.size(-1), 40).bias(bias));
  layer->to(type);
  const nn::Sequential both(layer, then);
  const std::vector<module_unit> apart = {unit("layer", layer), unit("then", then)};
  const auto wanted = computed(apart, x);
  const bool always = what == backward_reads::result;
  module_model kept{apart, squared_error}, fused{apart, squared_error};
  fuse_activations(kept, {});
  BOOST_TEST(names_of(kept) == (always ? "layer" : "layer then"));
  fuse_activations(fused, {.nodes = {}, .recomputes = true});
  BOOST_TEST(names_of(fused) == "layer");
  check_bits(computed(fused.units, x), wanted);
  check_bits(computed({unit("both", both)}, x), wanted);
  module_model entries{{unit("both", both)}, squared_error};
  BOOST_TEST(fuse_activations(entries, {.nodes = {}, .recomputes = true}).starts_with("1 entry") == always);
  check_bits(computed(entries.units, x), wanted);
}

module_model perceptron() {
  return {{unit("up", nn::Linear(16, 64)), unit("relu", nn::ReLU()), unit("drop", nn::Dropout(0.5)),
           unit("down", [] { return nn::Linear(64, 16); }), unit("gelu", [] { return nn::GELU(); }),
           unit("out", nn::Linear(16, 5))},
          squared_error};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_linear_layer_with_its_activation_has_the_bits_of_both) {
  at::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const bool bias : {true, false})
      for (const at::Tensor& x : {at::randn({33, 24}), at::randn({3, 11, 24}), at::randn({2, 3, 5, 24}),
                                  at::randn({24}), at::randn({3, 24, 11}).transpose(1, 2)})
        BOOST_TEST_CONTEXT(c10::toString(type) << " " << x.dim() << " dimensions, bias " << bias) {
          const at::Tensor in = x.to(type);
          check_pair(nn::ReLU(), backward_reads::result, type, bias, in);
          check_pair(nn::Tanh(), backward_reads::result, type, bias, in);
          check_pair(nn::SiLU(), backward_reads::input, type, bias, in);
          check_pair(nn::GELU(), backward_reads::input, type, bias, in);
          check_pair(nn::GELU(nn::GELUOptions().approximate("tanh")), backward_reads::input, type, bias, in);
        }
}

BOOST_AUTO_TEST_CASE(units_keep_their_names_parameters_and_random_numbers) {
  module_model m = perceptron();
  const auto done = take(run_unit_passes(m, {.nodes = {}, .recomputes = true}, {&ours()}));
  BOOST_TEST(names_of(m) == "up drop down out");
  BOOST_TEST(text_of(done) == "pass fuse_activation: 2 units join the linear layers before them; 6 units -> 4\n");
  BOOST_TEST((m.units[1].place == 2U));
  BOOST_TEST((m.units[3].place == 5U));
  const auto fused = [] {
    module_model out = perceptron();
    (void)take(run_unit_passes(out, {.nodes = {}, .recomputes = true}, {&ours()}));
    return out;
  };
  const auto plain = take(prepared_modules::make(perceptron, 1, core::dtype::f32, 7, rows()));
  const auto joined = take(prepared_modules::make(fused, 1, core::dtype::f32, 7, rows()));
  const auto &a = plain->table(), &b = joined->table();
  BOOST_TEST_REQUIRE(a.parameters.size() == b.parameters.size());
  uint64_t bytes[2] = {0, 0};
  for (const auto* t : {&a, &b})
    for (const auto& u : t->units) bytes[t == &b] += u.input_bytes + u.segments[0].saved_bytes;
  BOOST_TEST(bytes[1] < bytes[0]);
  for (uint32_t q = 0; q < a.parameters.size(); ++q) {
    BOOST_TEST(a.parameters[q].name == b.parameters[q].name);
    std::vector<float> x(a.parameters[q].numel()), y(x.size());
    BOOST_REQUIRE(plain->read(q, 0, x));
    BOOST_REQUIRE(joined->read(q, 0, y));
    // The comparison includes the initial values of modules that factories build.
    BOOST_TEST((x == y), a.parameters[q].name << " begins with other values");
  }
}

BOOST_AUTO_TEST_CASE(what_somebody_else_may_read_stays_apart) {
  struct own_linear : nn::LinearImpl {
    using nn::LinearImpl::LinearImpl;
    at::Tensor forward(const at::Tensor& x) { return 2 * nn::LinearImpl::forward(x); }
  };
  const auto names_behind = [](std::vector<module_unit> units, const unit_surroundings& s = {}) {
    module_model m{std::move(units), squared_error};
    const std::string why = fuse_activations(m, s);
    return names_of(m) + (why.empty() ? "" : ": " + why);
  };
  const nn::Linear layer(16, 16);
  const auto twice = [](auto& l, const at::Tensor& x) { return l.forward(x) * 2; };
  BOOST_TEST(names_behind({unit("a", layer, twice), unit("b", nn::ReLU())}) == "a b");
  BOOST_TEST(names_behind({unit("a", std::make_shared<own_linear>(16, 16)), unit("b", nn::ReLU())}) == "a b");
  BOOST_TEST(names_behind({unit("a", layer), unit("b", [](const at::Tensor& x) { return x.relu(); })}) == "a b");
  BOOST_TEST(names_behind({unit("a", layer), unit("b", nn::Sigmoid())}) == "a b");
  BOOST_TEST(names_behind({unit("a", layer), unit("b", nn::ReLU())}, {.nodes = {}, .tensor = 2}) ==
             "a b: units stay apart over tensor ranks");
  // Code of the host may call the entries of a Sequential separately, so they must not be fused.
  const nn::Sequential both(nn::Linear(16, 16), nn::ReLU());
  BOOST_TEST(names_behind({unit("a", both, twice)}) == "a");
  BOOST_TEST(names_behind({unit("a", both, twice), unit("b", both)}) == "a b");
  BOOST_TEST(names_behind({unit("a", both), unit("b", both)}).starts_with("a b: 1 entry"));
}

BOOST_AUTO_TEST_CASE(contracts_give_the_order) {
  const std::string apart(unit_facts::apart), fused(unit_facts::fused);
  const auto first = named("first", {.needs = {apart}}), last = named("last", {.needs = {fused}});
  BOOST_TEST(order_text({&last, &ours(), &first}) == "first fuse_activation last");
  BOOST_TEST(order_text({&last, &first}) == "pass last needs that activations are fused, which no pass provides");
  const auto again = named("first"), foe = named("foe", {.conflicts = {"fuse_activation"}});
  BOOST_TEST(order_text({&again, &first}) == "two passes are named first");
  BOOST_TEST(order_text({&ours(), &foe}) == "passes foe and fuse_activation conflict");
  const auto a = named("a", {.needs = {"y"}, .provides = {"x"}}), b = named("b", {.needs = {"x"}, .provides = {"y"}});
  BOOST_TEST(order_text({&a, &b}) == "passes wait for each other: a, b");
}

BOOST_AUTO_TEST_CASE(a_pass_that_throws_or_leaves_no_model_gives_a_sentence) {
  const auto refusal = [](const unit_pass& x) {
    module_model m = perceptron();
    const auto done = run_unit_passes(m, {}, {&x});
    return done ? "accepted" : done.error().text;
  };
  auto x = named("mine");
  x.run = [](module_model&, const unit_surroundings&) -> std::string { throw std::runtime_error("no room"); };
  BOOST_TEST(refusal(x) == "pass mine: no room");
  x.run = [](module_model& m, const unit_surroundings&) { return m.units[1].name = "up"; };
  BOOST_TEST(refusal(x) == "pass mine: own model: wanted a unique name for each unit, got 'up' for unit 1");
}

BOOST_AUTO_TEST_CASE(nodes_are_units_with_shapes_costs_and_users) {
  const auto nodes = nodes_of(*take(prepared_modules::make(perceptron, 1, core::dtype::f32, 7, rows())));
  BOOST_TEST_REQUIRE(nodes.size() == 6U);
  BOOST_TEST(nodes[0].forward_flops == 2.0 * 24 * 16 * 64);
  BOOST_TEST((nodes[0].parameters == std::vector<std::string>{"up.weight", "up.bias"}));
  BOOST_TEST((nodes[0].takes[0].shape == std::vector<int64_t>{4, 6, 16}));
  BOOST_TEST((nodes[0].gives[0].shape == std::vector<int64_t>{4, 6, 64}));
  BOOST_TEST((nodes[0].users == std::vector<uint32_t>{1}));
  BOOST_TEST(nodes[1].saved_bytes >= uint64_t{24 * 64 * 4});
  BOOST_TEST(nodes[2].draws);
  BOOST_TEST((nodes[5].gives[0].shape == std::vector<int64_t>{4, 6, 5}));
  BOOST_TEST(nodes[5].users.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
