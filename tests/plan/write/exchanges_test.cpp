// Tests models that are sharded over the tensor axis: the plans of every ZeRO stage and every cut into pipeline stages
// have the model's exchanges, and the checker refuses a plan that omits, repeats or moves one.
#include "plan/write/exchanges.hpp"

#include "models/table/model_spec.hpp"
#include "plan/check/check.hpp"
#include "plan/layout/matrices.hpp"
#include "tests/plan/cuts.hpp"
#include "tests/plan/saboteur.hpp"

BOOST_AUTO_TEST_SUITE(exchanges)

using namespace troupe;
using namespace troupe::plan;

namespace {

constexpr const char* gpt2 =
    R"({"model_type": "gpt2", "n_layer": 3, "n_embd": 96, "n_head": 4, "n_positions": 32, "vocab_size": 300})";
constexpr const char* llama =
    R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 96, "num_attention_heads": 6,
        "num_key_value_heads": 3, "intermediate_size": 200, "max_position_embeddings": 32, "vocab_size": 301})";

shared_table cut_table(const char* json, uint32_t degree, bool vocabulary = false) {
  return std::make_shared<const core::model_table>(models::make_model_table(
      models::parse_model_spec(json).value(), 2, 16, 4, {.degree = degree, .vocabulary = vocabulary}));
}

plan_options options_for(const core::model_table& table, uint32_t tensor, uint32_t data, uint32_t stage,
                         uint32_t micros) {
  auto o = small_options(data, stage, micros);
  o.mesh = {{core::axis::shard, data}, {core::axis::tensor, tensor}};
  o.updates.rules.assign(table.parameters.size(), o.updates.rules.empty() ? parameter_update{} : o.updates.rules[0]);
  return o;
}

void proved(const shared_table& table, const plan_options& o) {
  const auto verdict = check(plans_of(table, o));
  BOOST_TEST(verdict.has_value(), (verdict ? "" : verdict.error().text));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_stage_and_degree_is_proved) {
  for (const char* json : {gpt2, llama})
    for (const uint32_t tensor : {2U, 3U, 4U})
      for (const bool vocabulary : {false, true})
        for (uint32_t stage = 0; stage < 4; ++stage)
          BOOST_TEST_CONTEXT(json << ", tensor " << tensor << ", stage " << stage) {
            const auto table = cut_table(json, tensor, vocabulary);
            auto o = options_for(*table, tensor, 2, stage, 2);
            proved(table, o);
            o.recompute = true;
            for (const tier waits : {tier::device, tier::cpu, tier::nvme}) {
              o.tiers.activations = waits;
              proved(table, o);
            }
          }
}

BOOST_AUTO_TEST_CASE(sharded_norms_exchanges_beside_weight_parts_and_repeated_ones_are_proved) {
  for (const char* json : {gpt2, llama})
    for (const char* schedule : {"", "gpipe", "1f1b", "zb_h1", "dual_pipe_v"})
      for (uint32_t stage = 0; stage < 4; ++stage)
        for (const bool norms : {false, true}) BOOST_TEST_CONTEXT(json << schedule << ", stage " << stage) {
            const models::tensor_split split{.degree = 2, .norms = norms};
            auto table = std::make_shared<const core::model_table>(
                models::make_model_table(models::parse_model_spec(json).value(), 2, 15, 4, split));
            const std::string_view name = schedule;
            auto o = options_for(*table, 2, 2, stage, 4);
            if (!name.empty()) {
              o.mesh = {{core::axis::pipeline, 2}, {core::axis::shard, 2}, {core::axis::tensor, 2}};
              o.gradients.tied = tied_gradients::per_use;
              table = copied(table);
              o.updates.rules.assign(table->parameters.size(), o.updates.rules.front());
              const uint32_t chunks = name == "dual_pipe_v" ? 2 : 1;
              o.pipeline = cut_evenly(*table, *make_table(*find_schedule(name).value(), {2, chunks, 4}));
            }
            o.overlap_exchanges = true;
            proved(table, o);
            o.recompute = true;
            proved(table, o);
            o.repeat_exchanges = true;
            proved(table, o);
          }
}

BOOST_AUTO_TEST_CASE(sums_of_products_are_exchanged_in_pieces_at_every_stage_and_schedule) {
  for (const char* json : {gpt2, llama})
    for (const char* schedule : {"", "1f1b", "zb_h1", "dual_pipe_v"})
      for (const uint32_t pieces : {2U, 5U})
        for (uint32_t stage = 0; stage < 4; ++stage) BOOST_TEST_CONTEXT(json << schedule << ", stage " << stage) {
            auto table = cut_table(json, 2, /*vocabulary=*/true);
            const std::string_view name = schedule;
            auto o = options_for(*table, 2, 2, stage, 4);
            if (!name.empty()) {
              o.mesh = {{core::axis::pipeline, 2}, {core::axis::shard, 2}, {core::axis::tensor, 2}};
              o.gradients.tied = tied_gradients::per_use;
              table = copied(table);
              o.updates.rules.assign(table->parameters.size(), o.updates.rules.front());
              o.pipeline = cut_evenly(
                  *table, *make_table(*find_schedule(name).value(), {2, name == "dual_pipe_v" ? 2U : 1U, 4}));
            }
            o.exchange_pieces = pieces;
            proved(table, o);
            o.overlap_exchanges = true;
            for (const tier waits : {tier::device, tier::cpu, tier::nvme}) {
              o.recompute = true;
              o.tiers.activations = waits;
              proved(table, o);
            }
            o.tiers.activations = tier::device;
            o.mode = mode::evaluate;
            proved(table, o);
          }
}

BOOST_AUTO_TEST_CASE(pieces_share_the_flops_and_rows_of_a_segment_and_lie_beside_each_other) {
  const auto table = cut_table(gpt2, 2);
  auto o = options_for(*table, 2, 1, 0, 1);
  const auto flops = [](const rank_plan& p) {
    double out = 0;
    for (const auto& x : p.instructions) out += x.flops;
    return out;
  };
  const double whole = flops(*plans_of(table, o)[0]);
  o.exchange_pieces = 3;
  const auto plans = plans_of(table, o);
  const rank_plan& p = *plans[0];
  BOOST_TEST(flops(p) == whole, boost::test_tools::tolerance(1e-12));
  uint64_t moved = 0, exchanges = 0, products = 0;
  for (const auto& x : p.instructions) {
    if (x.kind == kind::multiply) ++products;
    if (x.kind != kind::exchange || x.use != use::forward) continue;
    ++exchanges;
    moved += x.moved_bytes;
  }
  BOOST_TEST(exchanges == 3U * 6);  // three pieces per exchange, two exchanges per block
  BOOST_TEST(products == 2U * 6);
  BOOST_TEST(moved == 6U * 4 * 2 * 16 * 96);
  const auto second = std::ranges::find_if(p.instructions, [](const auto& x) { return x.kind == kind::multiply; });
  BOOST_TEST(p.describe(second->id) == "multiply block 0 attention, piece 2 of 3");
  // The first piece is exchanged while the second is multiplied.
  BOOST_TEST((p.instructions[second->id - 1].kind == kind::exchange));
  BOOST_TEST((std::ranges::find(second->after, second->id - 1) == second->after.end()));
  o.mode = mode::generate;
  const auto generating = plans_of(table, o);
  for (const auto& x : generating[0]->instructions) BOOST_TEST((x.kind != kind::multiply));
}

BOOST_AUTO_TEST_CASE(a_repeated_exchange_is_in_every_recompute_once) {
  const auto table = cut_table(gpt2, 2);
  auto o = options_for(*table, 2, 1, 0, 3);
  o.recompute = o.repeat_exchanges = true;
  const auto plans = plans_of(table, o);
  size_t repeated = 0;
  for (const auto& x : plans[1]->instructions) repeated += x.repeats == repetition::recompute ? 1 : 0;
  // A recompute repeats the exchanges after attention; the exchange after the MLP ends the unit and is not repeated.
  BOOST_TEST(repeated == 3U * 3);
  for (uint32_t i = 0; i < repeated; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    std::vector<rank_plan> broken;
    for (const auto& p : plans) broken.push_back(*p);
    for (auto& p : broken) {
      uint32_t seen = 0;
      for (const auto& x : p.instructions)
        if (x.repeats == repetition::recompute && seen++ == i) {
          std::mt19937_64 random(i);
          saboteur(p, random).remove(x.id);
          break;
        }
    }
    BOOST_TEST(!check(shared(broken)).has_value());
  }
}

/// Sets Muon's update rule for the model's matrices, that is, parameters of two dimensions.
void want_matrices(const core::model_table& whole, plan_options& o) {
  for (size_t q = 0; q < whole.parameters.size(); ++q)
    if (const auto& shape = whole.parameters[q].shape; shape.size() == 2)
      o.updates.rules[q] = {1, update_need::whole_matrix, uint64_t(shape[0]), uint64_t(shape[1])};
}

BOOST_AUTO_TEST_CASE(whole_matrices_are_proved_at_every_stage_degree_and_cut) {
  for (const char* json : {gpt2, llama})
    for (const uint32_t tensor : {1U, 2U, 3U})
      for (uint32_t stage = 0; stage < 4; ++stage)
        for (const uint32_t replicas : {1U, 2U})
          BOOST_TEST_CONTEXT(json << ", tensor " << tensor << ", stage " << stage) {
            const auto table = cut_table(json, tensor, true);
            auto o = options_for(*table, tensor, 4, stage, 2);
            o.mesh = {
                {core::axis::replicate, replicas}, {core::axis::shard, 4 / replicas}, {core::axis::tensor, tensor}};
            want_matrices(*cut_table(json, 1), o);
            proved(table, o);
            const auto plans = plans_of(table, o);
            const auto& l = *plans.front()->layout;
            for (uint32_t q = 0; q < table->parameters.size(); ++q) {
              BOOST_TEST_INFO_SCOPE("q " << q);
              uint32_t makers = 0;
              for (const auto& p : plans) makers += makes_orthogonal(l, p->rank, q) ? 1 : 0;
              const bool matrix = table->parameters[q].shape.size() == 2;
              BOOST_TEST(makers == (!matrix ? 0 : tensor > 1 || stage == 0 ? 1 : replicas));
            }
          }
}

BOOST_AUTO_TEST_CASE(a_matrix_that_is_made_orthogonal_costs_the_same_however_it_is_cut) {
  const auto flops = [](uint32_t tensor) {
    const auto table = cut_table(llama, tensor, true);
    auto o = options_for(*table, tensor, 1, 3, 1);
    want_matrices(*cut_table(llama, 1), o);
    double out = 0;
    for (const auto& p : plans_of(table, o))
      for (const auto& x : p->instructions) out += x.kind == kind::orthogonalise ? x.flops : 0;
    return out;
  };
  BOOST_TEST(flops(1) > 0);
  for (const uint32_t tensor : {2U, 4U})
    BOOST_TEST_CONTEXT("tensor " << tensor) BOOST_TEST(flops(tensor) == flops(1), boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(shares_that_are_not_collected_or_lie_elsewhere_are_found) {
  const auto table = cut_table(gpt2, 2, true);
  auto o = options_for(*table, 2, 2, 3, 1);
  want_matrices(*cut_table(gpt2, 1), o);
  const auto whole = plans_of(table, o);
  const auto broken_by = [&](auto change) {
    plans all;
    for (const auto& p : whole) all.push_back(*p);
    auto layout = std::make_shared<job_layout>(*whole.front()->layout);
    for (auto& p : all) change(p, *layout);
    for (auto& p : all) p.layout = layout;
    return !check(shared(all)).has_value();
  };
  const auto first = [](rank_plan& p, kind k) -> instruction& {
    return *std::ranges::find(p.instructions, k, &instruction::kind);
  };
  BOOST_TEST(!broken_by([](rank_plan&, job_layout&) {}));
  BOOST_TEST(broken_by([&](rank_plan& p, job_layout&) { first(p, kind::orthogonalise).after.clear(); }));
  BOOST_TEST(broken_by([&](rank_plan& p, job_layout&) { first(p, kind::spread).after.clear(); }));
  BOOST_TEST(
      broken_by([&](rank_plan& p, job_layout&) { p.buffers[first(p, kind::collect).slots.matrices].bytes /= 2; }));
  BOOST_TEST(broken_by([&](rank_plan& p, job_layout&) { first(p, kind::collect).communicator = 0; }));
  BOOST_TEST(broken_by([](rank_plan&, job_layout& l) {
    for (uint32_t& owner : l.matrix_owner) owner = owner == none ? none : 4;
  }));
  BOOST_TEST(broken_by([](rank_plan&, job_layout& l) {
    for (auto& x : l.options.updates.rules) x.rows *= 2;
  }));
}

BOOST_AUTO_TEST_CASE(what_recomputed_units_exchanged_stays_on_the_device_wherever_their_inputs_wait) {
  const auto table = cut_table(gpt2, 2);
  auto o = options_for(*table, 2, 1, 0, 1);
  o.recompute = true;
  // `exchanged` sums the bytes that earlier units exchanged; `most` is the peak, including the computing unit's bytes.
  uint64_t exchanged = 0, most = 0;
  for (const auto& unit : table->units) {
    uint64_t computing = 0;
    for (const auto& s : unit.segments) {
      // The last segment is recomputed by its backward.
      const bool is_made_again = &s == &unit.segments.back() && s.light.flops > 0;
      computing += is_made_again ? s.light.bytes + s.light.beside : s.saved_bytes;
    }
    most = std::max(most, exchanged + computing);
    if (unit.segments.size() > 1) exchanged += unit.segments.front().output.bytes;
  }
  BOOST_TEST(exchanged > 0U);
  BOOST_TEST(plans_of(table, o)[0]->memory.activations > most);
  for (const tier waits : {tier::cpu, tier::nvme}) {
    o.tiers.activations = waits;
    BOOST_TEST(plans_of(table, o)[0]->memory.activations == most);
  }
}

BOOST_AUTO_TEST_CASE(two_exchanges_each_way_follow_the_halves_of_a_block) {
  const auto table = cut_table(gpt2, 2);
  const auto plans = plans_of(table, options_for(*table, 2, 1, 0, 1));
  size_t each_way[2] = {};
  for (const auto& x : plans[1]->instructions)
    if (x.kind == kind::exchange) ++each_way[x.use == use::forward ? 0 : 1];
  BOOST_TEST(each_way[0] == 6U);
  BOOST_TEST(each_way[1] == 6U);
}

BOOST_AUTO_TEST_CASE(stages_of_a_pipeline_send_what_has_been_exchanged) {
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1", "zb_v"})
    for (const uint32_t stage : {0U, 1U, 3U})
      for (const bool vocabulary : {false, true}) BOOST_TEST_CONTEXT(schedule << ", stage " << stage) {
          const auto table = cut_table(gpt2, 2, vocabulary);
          auto o = options_for(*table, 2, 2, stage, 4);
          o.mesh = {{core::axis::pipeline, 2}, {core::axis::shard, 2}, {core::axis::tensor, 2}};
          o.gradients.tied = tied_gradients::per_use;
          const auto copies = copied(table);
          o.updates.rules.assign(copies->parameters.size(), o.updates.rules.front());
          const uint32_t chunks = std::string(schedule) == "zb_v" ? 2 : 1;
          o.pipeline = cut_evenly(*copies, *make_table(*find_schedule(schedule).value(), {2, chunks, 4}));
          proved(copies, o);
        }
}

BOOST_AUTO_TEST_CASE(an_exchange_that_is_left_out_doubled_or_early_is_found) {
  const auto table = cut_table(gpt2, 2);
  const auto whole = plans_of(table, options_for(*table, 2, 2, 3, 2));
  std::mt19937_64 random(1);
  uint32_t caught = 0;
  for (int i = 0; i < 200; ++i) {
    plans broken;
    for (const auto& p : whole) broken.push_back(*p);
    std::vector<uint32_t> all;
    for (const auto& x : broken[0].instructions)
      if (x.kind == kind::exchange) all.push_back(x.id);
    const uint32_t chosen = all[random() % all.size()];
    for (const uint32_t r : {0U, 1U}) {  // changes both ranks of one tensor group, so that no member disagrees
      BOOST_TEST_INFO_SCOPE("r " << r);
      auto& x = broken[r].instructions[chosen];
      BOOST_TEST_REQUIRE((x.kind == kind::exchange));
      if (i % 4 == 0) saboteur(broken[r], random).remove(chosen);
      if (i % 4 == 1) x.after.clear();
      if (i % 4 == 2) x.micro = 1 - x.micro;
      if (i % 4 == 3) x.slots.moved = none;
    }
    const auto verdict = check(shared(broken));
    BOOST_TEST(!verdict.has_value(), "change " << i % 4 << " of instruction " << chosen << " passed");
    caught += verdict ? 0 : 1;
  }
  BOOST_TEST(caught >= 150U);
}

BOOST_AUTO_TEST_SUITE_END()
