// Compares the values and the derivatives of all activation functions with those of transformers
// (tests/peer/make_activation_fixture.py), with autograd history and in the rows of a tile.
#include "models/table/activation.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/safetensors/safetensors.hpp"
#include "models/layers/functions.hpp"
#include "tests/models/model_fixture.hpp"
#include "tests/places.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(activations)

namespace {

struct peer_values {
  formats::safetensors_file file =
      take(formats::safetensors_file::open(std::filesystem::path(troupe::places::source_dir) / "tests" / "models" /
                                           "layers" / "fixtures" / "activations.safetensors"));

  [[nodiscard]] at::Tensor load(const std::string& name) const {
    const auto* entry = file.find(name);
    BOOST_REQUIRE_MESSAGE(entry != nullptr, name << " is missing from the fixture");
    at::Tensor t = at::full(entry->shape, 0, at::TensorOptions().dtype(torch_of(entry->type)));
    const auto bytes = take(file.bytes(*entry));
    std::memcpy(t.mutable_data_ptr(), bytes.data(), bytes.size());
    return t;
  }
  /// Returns the rest of the names of tensors that begin with `prefix`.
  [[nodiscard]] std::vector<std::string> names_after(std::string_view prefix) const {
    std::vector<std::string> out;
    for (const auto& entry : file.entries())
      if (entry.name.starts_with(prefix)) out.emplace_back(entry.name.substr(prefix.size()));
    return out;
  }
};

void check_near(const at::Tensor& got, const at::Tensor& wanted, double most, const char* what) {
  const at::Tensor error = got.detach().to(at::kDouble).sub(wanted).abs().div(wanted.abs().add(1)).max();
  BOOST_TEST(error.item<double>() <= most, what << " differs by " << error.item<double>());
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_activation_has_the_values_and_derivatives_of_transformers) {
  const peer_values peer;
  const at::Tensor x = peer.load("x").to(at::kDouble), dy = peer.load("dy").to(at::kDouble);
  const at::Tensor up = x.mul(0.5).add(1);
  for (const std::string& name : peer.names_after("y.")) {
    const auto act = activation_named(name);
    BOOST_REQUIRE_MESSAGE(act.has_value(), name);
    const at::Tensor y = peer.load("y." + name), dx = peer.load("dx." + name);
    for (const auto& [type, most] : {std::pair{at::kDouble, 1e-8}, std::pair{at::kFloat, 1e-5}}) {
      BOOST_TEST_CONTEXT(name << (type == at::kDouble ? " in fp64" : " in fp32")) {
        const at::Tensor leaf = x.to(type, /*non_blocking=*/false, /*copy=*/true).requires_grad_(true);
        const at::Tensor with_history = activate(leaf, *act);
        with_history.backward(dy.to(type));
        check_near(with_history, y, most, "the value");
        check_near(leaf.grad(), dx, most, "the derivative");

        const auto copy = [type = type](const at::Tensor& t) { return t.to(type, false, true); };
        check_near(activated_rows(*act, {copy(x)}), y, most, "the value in a tile");
        const auto alone = activated_backward(*act, {copy(x)}, copy(dy));
        check_near(alone.y, y, most, "the recomputed value");
        check_near(alone.before[0], dx, most, "the derivative in a tile");

        check_near(activated_rows(*act, {copy(x), copy(up)}), y.mul(up), most, "the value behind a gate");
        const auto gated = activated_backward(*act, {copy(x), copy(up)}, copy(dy));
        check_near(gated.y, y.mul(up), most, "the recomputed value behind a gate");
        check_near(gated.before[0], dx.mul(up), most, "the derivative of a gate");
        check_near(gated.before[1], dy.mul(y), most, "the derivative of the values");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_name_of_transformers_is_accepted_unless_its_function_has_parameters) {
  const peer_values peer;
  const auto accepted = peer.names_after("y."), refused = peer.names_after("refused.");
  const std::string listed = activation_names();
  for (const std::string& name : accepted) {
    BOOST_TEST((listed + ",").find(name) != std::string::npos, name);
    BOOST_TEST(!has_parameters(name));
  }
  BOOST_TEST(static_cast<size_t>(std::ranges::count(listed, ',')) + 2 == accepted.size());
  BOOST_TEST(refused.size() == 2U);
  for (const std::string& name : refused) BOOST_TEST((has_parameters(name) && !activation_named(name)), name);
  for (const activation act : all_activations) BOOST_TEST((activation_named(name_of(act)) == act), name_of(act));
}

// Softplus of -30 is 0 in fp16, where its root has no finite derivative.
BOOST_AUTO_TEST_CASE(a_root_that_underflows_has_the_derivative_0) {
  const at::Tensor x = at::full({4}, -30.0, at::TensorOptions().dtype(at::kHalf));
  const auto back = activated_backward(activation::sqrt_softplus, {x}, at::full({4}, 1.0, x.options()));
  BOOST_TEST(back.before[0].abs().max().item<double>() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
