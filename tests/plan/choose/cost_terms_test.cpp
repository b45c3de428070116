#include "plan/choose/cost_terms.hpp"

#include <cmath>
#include <functional>

#include "models/table/model_spec.hpp"
#include "plan/choose/machine_costs.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(cost_terms)

using namespace troupe::plan;

namespace {

namespace models = troupe::models;

constexpr const char* gpt = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64,
    "vocab_size": 256, "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0})";
constexpr const char* llama = R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "vocab_size": 256})";

constexpr uint64_t rows = 2, columns = 64, tokens = rows * columns;

shared_table table_of(const std::string& json) {
  return std::make_shared<const troupe::core::model_table>(
      models::make_model_table(models::parse_model_spec(json).value(), rows, columns, 4));
}

std::vector<cost_term> terms_in(const rank_plan& p, const instruction& x, const cost_model& costs) {
  return troupe::plan::cost_terms(p, x, costs);
}

/// Returns a cost model in which every constant differs.
cost_model measured() {
  troupe::plan::machine_costs c;
  double next = 1e9;
  for (const auto& x : machine_constants()) {
    c.*x.field = x.divides ? next : x.unit == "s" ? 1e-6 : 4;
    next *= 1.25;
  }
  return measured_model(c, {});
}

const instruction& first_of(const rank_plan& p, kind k, uint32_t unit, uint32_t segment) {
  return *std::ranges::find_if(
      p.instructions, [&](const instruction& x) { return x.kind == k && x.subject == unit && x.segment == segment; });
}

double amount_of(const std::vector<cost_term>& terms, std::string_view unit) {
  double out = 0;
  for (const auto& t : terms)
    if (unit_of(t.kind) == unit) out += t.amount;
  return out;
}

const cost_term* find(const std::vector<cost_term>& terms, cost_kind kind, const product_size& size = {}) {
  const auto at = std::ranges::find_if(terms, [&](auto& t) { return t.kind == kind && t.size == size; });
  return at == terms.end() ? nullptr : &*at;
}

/// Calls `check` with every instruction of the first rank's plan for several models and options.
void each_instruction(const std::function<void(const rank_plan&, const instruction&)>& check) {
  for (const char* model : {gpt, llama})
    for (const uint32_t stage : {0U, 2U, 3U})
      for (const bool again : {false, true}) {
        auto o = small_options(2, stage, 2);
        o.recompute = again;
        const auto p = plans_of(table_of(model), o)[0];
        for (const auto& x : p->instructions) check(*p, x);
      }
  auto swaps = small_options(2, 3);
  swaps.tiers.optimizer = swaps.tiers.parameters = tier::nvme;
  const auto swapping = plans_of(table_of(gpt), swaps)[0];
  for (const auto& x : swapping->instructions) check(*swapping, x);
  const auto unknown = plans_of(gpt_table(2, 32, 100, true), small_options(2, 2))[0];
  for (const auto& x : unknown->instructions) check(*unknown, x);
}

}  // namespace

BOOST_AUTO_TEST_CASE(terms_add_up_to_the_predicted_time_of_every_instruction) {
  cost_model usual, by_measurement = measured();
  for (const cost_model& costs : {usual, by_measurement})
    each_instruction([&](const rank_plan& p, const instruction& x) {
      double sum = 0;
      for (const auto& t : terms_in(p, x, costs)) {
        BOOST_TEST(t.seconds >= 0, p.describe(x.id));
        sum += t.seconds;
      }
      const double whole = predicted_seconds(p, x, costs);
      BOOST_TEST(std::abs(sum - whole) <= 1e-12 * whole, p.describe(x.id) << ": " << sum << " and " << whole);
    });
}

BOOST_AUTO_TEST_CASE(terms_contain_all_flops_of_an_instruction) {
  const auto costs = measured();
  each_instruction([&](const rank_plan& p, const instruction& x) {
    const double flops = amount_of(terms_in(p, x, costs), "flop");
    BOOST_TEST(std::abs(flops - x.flops) <= 1e-9 * x.flops, p.describe(x.id) << ": " << flops << " of " << x.flops);
  });
}

BOOST_AUTO_TEST_CASE(terms_of_an_mlp_are_its_products_its_activation_and_its_sums) {
  const auto costs = measured();
  const auto p = plans_of(table_of(gpt), small_options(1, 0))[0];
  const auto terms = terms_in(*p, first_of(*p, kind::forward, 1, 1), costs);
  const auto* const up = find(terms, cost_kind::product, {tokens, 256, 64});
  const auto* const down = find(terms, cost_kind::product, {tokens, 64, 256});
  BOOST_TEST_REQUIRE(up != nullptr);
  BOOST_TEST_REQUIRE(down != nullptr);
  BOOST_TEST(up->amount == 2.0 * tokens * 64 * 256);
  BOOST_TEST(up->seconds == product_seconds(costs.machine, up->size), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(up->text() == "product 128 x 64 by 64 x 256");
  const auto* const activation = find(terms, cost_kind::activation);
  BOOST_TEST_REQUIRE(activation != nullptr);
  BOOST_TEST(activation->amount == tokens * (256 + 256) * 4.0);
  const auto* const elementwise = find(terms, cost_kind::elementwise);  // a norm and the sum with the residual path
  BOOST_TEST_REQUIRE(elementwise != nullptr);
  BOOST_TEST(elementwise->amount == tokens * 64 * (2 + 3) * 4.0);
}

BOOST_AUTO_TEST_CASE(backward_has_two_products_for_each_of_forward_and_a_frozen_weight_one) {
  const auto costs = measured();
  auto table = troupe::core::model_table(*table_of(gpt));
  const auto p = plans_of(std::make_shared<const troupe::core::model_table>(table), small_options(1, 0))[0];
  const auto terms = terms_in(*p, first_of(*p, kind::backward, 2, 1), costs);
  BOOST_TEST(find(terms, cost_kind::product, {tokens, 64, 256}) != nullptr);  // the gradient of the input of `up`
  BOOST_TEST(find(terms, cost_kind::product, {64, 256, tokens}) != nullptr);  // the gradient of the weight of `up`
  for (const auto& l : table.layers_of(2, 1))
    if (l.kind == troupe::core::layer_kind::linear) table.parameters[*l.weight].trainable = false;
  table.note_frozen();
  const auto frozen = plans_of(std::make_shared<const troupe::core::model_table>(table), small_options(1, 0))[0];
  const auto fewer = terms_in(*frozen, first_of(*frozen, kind::backward, 2, 1), costs);
  BOOST_TEST(find(fewer, cost_kind::product, {tokens, 64, 256}) != nullptr);
  BOOST_TEST(find(fewer, cost_kind::product, {64, 256, tokens}) == nullptr);
}

BOOST_AUTO_TEST_CASE(attention_and_the_loss_have_terms_of_their_own) {
  const auto costs = measured();
  const auto p = plans_of(table_of(llama), small_options(1, 0))[0];
  const auto* const forward = find(terms_in(*p, first_of(*p, kind::forward, 1, 0), costs), cost_kind::attention);
  BOOST_TEST((forward != nullptr));
  const auto back = terms_in(*p, first_of(*p, kind::backward, 1, 0), costs);
  BOOST_TEST((find(back, cost_kind::attention_backward) != nullptr));
  const auto head = terms_in(*p, first_of(*p, kind::forward, 3, 0), costs);
  const auto* const loss = find(head, cost_kind::loss);
  BOOST_TEST_REQUIRE(loss != nullptr);
  BOOST_TEST(loss->amount == 2.0 * tokens * 256 * 4);
}

BOOST_AUTO_TEST_CASE(a_measured_machine_prices_updates_sums_and_copies_by_rates_of_their_own) {
  const auto costs = measured();
  const auto p = plans_of(table_of(gpt), small_options(2, 3))[0];
  const auto only = [&](kind k) {
    const auto& x = *std::ranges::find(p->instructions, k, &instruction::kind);
    const auto terms = terms_in(*p, x, costs);
    BOOST_TEST_REQUIRE(terms.size() == 1U, p->describe(x.id));
    return terms.front();
  };
  BOOST_TEST(only(kind::update).rate() == costs.machine.update_bytes_per_s, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(only(kind::reduce).rate() == costs.machine.reduce_bytes_per_s, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(only(kind::gather).rate() == costs.machine.copy_bytes_per_s, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_SUITE_END()
