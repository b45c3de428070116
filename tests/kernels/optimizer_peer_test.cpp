// Compares every optimizer with torch.optim, or with its published formulas, by the fixture of
// tests/peer/make_optimizer_fixture.py.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/kernels/optimizer_runs.hpp"
#include "tests/places.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(optimizer_peer)

namespace {

using json = nlohmann::json;

json fixture() {
  std::ifstream file((std::string(troupe::places::source_dir) + "/tests/kernels/fixtures/optimizers.json"));
  BOOST_REQUIRE(file);
  return json::parse(file);
}

optimizer_options options_of(const std::string& type, const json& o) {
  const double decay = o.value("weight_decay", 0.0);
  if (type == "SGD")
    return sgd_options{o.value("momentum", 0.0), o.value("dampening", 0.0), decay, o.contains("nesterov")};
  if (type == "Adagrad") return adagrad_options{o.value("eps", 1e-10), decay, o.value("lr_decay", 0.0)};
  if (type == "Muon") return muon_options{o["momentum"], decay, o["nesterov"], o["ns_steps"]};
  if (type == "Lion") return lion_options{o["betas"][0], o["betas"][1], decay};
  if (type == "Lamb")
    return lamb_options{o["betas"][0],  o["betas"][1],       o["eps"], decay, o["max_coeff"],
                        o["min_coeff"], o["bias_correction"]};
  BOOST_REQUIRE(type == "Adam" || type == "AdamW");
  return adamw_options{o["betas"][0], o["betas"][1], o["eps"], decay, type == "AdamW"};
}

/// Runs all steps of one case, with weights, moments and gradients of type `State`.
template <class State>
void check_case(const json& wanted, const json& data, double tolerance) {
  const auto options = options_of(wanted["type"], wanted["options"]);
  optimizer_state<State> state{.master = data["start"].get<std::vector<State>>()};
  const auto names = moment_names(options);
  for (size_t m = 0; m < names.size(); ++m) state.moments[m].resize(state.master.size());
  const uint64_t rows = data["shape"][0];
  uint64_t step = 0;
  for (const auto& g : data["gradients"]) {
    const auto gradient = g.get<std::vector<State>>();
    constexpr auto type = std::is_same_v<State, double> ? core::dtype::f64 : core::dtype::f32;
    whole_update(options, {.step = ++step, .lr = wanted["options"]["lr"]},
                 state.piece(reinterpret_cast<const std::byte*>(gradient.data()), type, 0, gradient.size()), rows,
                 gradient.size() / rows);
  }
  BOOST_CHECK_EQUAL(step, 10);
  BOOST_CHECK_LT(relative_difference(state.master, wanted["parameter"].get<std::vector<double>>()), tolerance);
  BOOST_CHECK_EQUAL(names.size(), wanted["moments"].size());
  for (size_t m = 0; m < names.size(); ++m) {
    BOOST_TEST_CONTEXT(names[m])
    BOOST_CHECK_LT(
        relative_difference(state.moments[m], wanted["moments"][std::string(names[m])].get<std::vector<double>>()),
        tolerance);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(ten_steps_agree_to_a_millionth_in_fp32_and_to_1e_12_in_fp64) {
  const auto f = fixture();
  BOOST_CHECK_EQUAL(f["cases"].size(), 19);
  for (const auto& [name, wanted] : f["cases"].items()) {
    if (name.ends_with("bf16")) continue;
    const auto& data = f["data"][wanted["data"].get<std::string>()];
    BOOST_TEST_CONTEXT(name << " in fp32") check_case<float>(wanted, data, 1e-6);
    BOOST_TEST_CONTEXT(name << " in fp64") check_case<double>(wanted, data, 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(muon_agrees_with_torchs_own_iteration_within_bf16) {
  const auto f = fixture();
  const auto& wanted = f["cases"]["muon_tall_bf16"];
  check_case<float>(wanted, f["data"][wanted["data"].get<std::string>()], 1e-3);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
