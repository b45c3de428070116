// Tests plans of models whose first units have no trained parameter: the backward ends at the first trained unit, in
// one stage and in pipelines, and the checker refuses instructions that go back further.
#include <algorithm>

#include "plan/check/check.hpp"
#include "plan/choose/cost.hpp"
#include "plan/choose/stage_costs.hpp"
#include "plan/schedule/named.hpp"
#include "plan/stages.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(frozen_units)

using namespace troupe::plan;
namespace core = troupe::core;
using core::axis;

namespace {

/// Returns a GPT of `layers` blocks whose first `frozen` units have no trained parameter.
shared_table frozen_below(uint32_t layers, uint32_t frozen) {
  auto table = *gpt_table(layers, 32, 100, /*tied=*/false);
  for (uint32_t u = 0; u < frozen; ++u)
    for (const uint32_t q : table.units[u].parameters) table.parameters[q].trainable = false;
  for (uint32_t u = 1; u < table.units.size(); ++u) table.units[u].input_bytes = 4096;
  return std::make_shared<const core::model_table>(std::move(table));
}

shared_plans proved(const shared_table& table, const plan_options& o) {
  auto plans = plans_of(table, o);
  const auto verdict = check(plans);
  BOOST_TEST_REQUIRE(verdict.has_value(), (verdict ? "" : verdict.error().text));
  return plans;
}

/// Returns the number of instructions of kind `k` that concern unit `unit`.
size_t count_of_unit(const rank_plan& p, kind k, uint32_t unit) {
  return static_cast<size_t>(
      std::ranges::count_if(p.instructions, [&](const auto& x) { return x.kind == k && x.subject == unit; }));
}

/// Returns the number of transfers of a rank in one direction.
size_t transfers(const rank_plan& p, kind k, use way) {
  return static_cast<size_t>(
      std::ranges::count_if(p.instructions, [&](const auto& x) { return x.kind == k && x.use == way; }));
}

/// Returns options of a pipeline that cuts the units of `table` evenly.
plan_options staged(const core::model_table& table, const named_schedule& schedule, pipeline_shape shape, uint32_t data,
                    uint32_t stage) {
  auto o = small_options(data, stage, shape.micro_batches);
  o.mesh = {{axis::pipeline, shape.ranks}, {axis::shard, data}};
  o.pipeline.table = make_table(schedule, shape).value();
  const auto units = static_cast<uint32_t>(table.units.size()), stages = o.pipeline.table.stages();
  for (uint32_t k = 0; k < stages; ++k) o.pipeline.first_unit.push_back(k * units / stages);
  return o;
}

}  // namespace

BOOST_AUTO_TEST_CASE(backward_ends_at_the_first_trained_unit) {
  constexpr uint32_t layers = 4, frozen = 3, micros = 2;
  const auto all = frozen_below(layers, 0), some = frozen_below(layers, frozen);
  BOOST_TEST(all->first_trained_unit() == 0U);
  BOOST_TEST(some->first_trained_unit() == frozen);
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool recompute : {false, true}) BOOST_TEST_CONTEXT("stage " << stage << ", recompute " << recompute) {
        auto o = small_options(2, stage, micros);
        o.recompute = recompute;
        o.overlap = false;  // each use gathers its unit
        const auto whole = proved(all, o), part = proved(some, o);
        for (uint32_t u = 0; u < some->units.size(); ++u) BOOST_TEST_CONTEXT("unit " << u) {
            const auto segments = some->units[u].segments.size();
            BOOST_TEST(count_of_unit(*part[0], kind::forward, u) == micros * segments);
            BOOST_TEST(count_of_unit(*part[0], kind::backward, u) == (u < frozen ? 0 : micros * segments));
            BOOST_TEST(count_of_unit(*part[0], kind::recompute, u) == (recompute && u >= frozen ? micros : 0));
          }
        // The embedding and two blocks are gathered for their forward alone.
        const size_t fewer = stage == 3 ? frozen * micros : 0;
        BOOST_TEST(count(*whole[0], kind::gather) - count(*part[0], kind::gather) == fewer);
        BOOST_TEST(part[0]->memory.activations < whole[0]->memory.activations);
      }
}

BOOST_AUTO_TEST_CASE(a_unit_between_trained_ones_goes_back_although_it_is_frozen) {
  auto table = *gpt_table(3, 32, 100, false);
  for (const uint32_t q : table.units[2].parameters) table.parameters[q].trainable = false;
  const auto plans = proved(std::make_shared<const core::model_table>(std::move(table)), small_options(2, 3));
  BOOST_TEST(count_of_unit(*plans[0], kind::backward, 2) == 2U);
}

BOOST_AUTO_TEST_CASE(steps_that_do_not_train_are_those_of_a_model_without_frozen_units) {
  const auto all = frozen_below(4, 0), some = frozen_below(4, 3);
  for (const mode what : {mode::evaluate, mode::generate}) {
    auto o = small_options(2, 3, 1);
    o.mode = what;
    const auto whole = proved(all, o), part = proved(some, o);
    BOOST_TEST(whole[0]->instructions.size() == part[0]->instructions.size());
    BOOST_TEST(whole[0]->memory.activations == part[0]->memory.activations);
  }
}

BOOST_AUTO_TEST_CASE(every_schedule_sends_no_gradient_to_stages_before_the_first_trained_unit) {
  constexpr uint32_t layers = 6;
  for (const auto& schedule : named_schedules())
    for (uint32_t ranks = 2; ranks <= 4; ++ranks)
      for (const uint32_t frozen : {1U, 4U, layers + 1})
        for (uint32_t stage = 0; stage <= 3; ++stage) {
          const auto table = frozen_below(layers, frozen);
          const pipeline_shape shape{ranks, std::max(1U, schedule.chunks), 2 * ranks};
          if (!make_table(schedule, shape)) continue;
          auto o = staged(*table, schedule, shape, 2, stage);
          if (!trains(o.pipeline.table)) continue;
          o.recompute = stage == 3;
          BOOST_TEST_CONTEXT(schedule.name << ", " << ranks << " ranks, " << frozen << " frozen, stage " << stage) {
            const auto plans = proved(table, o);
            const job_layout& l = *plans.front()->layout;
            const auto& rank_of = o.pipeline.table.rank_of_stage;
            size_t boundaries = 0, wanted = 0, sent = 0, received = 0, forward = 0;
            for (uint32_t later = 1; later < num_stages(l); ++later) {
              if (rank_of[later] == rank_of[later - 1]) continue;
              ++boundaries;
              wanted += o.pipeline.first_unit[later] > frozen ? 1 : 0;  // the stage before it has a trained unit
            }
            for (const auto& p : plans) {
              sent += transfers(*p, kind::send, use::backward);
              received += transfers(*p, kind::receive, use::backward);
              forward += transfers(*p, kind::send, use::forward);
              for (uint32_t u = 0; u < frozen; ++u) BOOST_TEST(count_of_unit(*p, kind::backward, u) == 0U);
            }
            const size_t each = size_t{shape.micro_batches} * 2;  // two data ranks
            BOOST_TEST(sent == wanted * each);
            BOOST_TEST(received == wanted * each);
            BOOST_TEST(forward == boundaries * each);
          }
        }
}

BOOST_AUTO_TEST_CASE(a_stage_of_frozen_units_keeps_no_activations) {
  const auto table = frozen_below(6, 4);  // eight units: stage 0 has four
  for (const char* name : {"gpipe", "1f1b", "zb_h1"}) BOOST_TEST_CONTEXT(name) {
      const auto plans = proved(table, staged(*table, *find_schedule(name).value(), {2, 1, 8}, 1, 0));
      BOOST_TEST(count(*plans[0], kind::backward) + count(*plans[0], kind::backward_weight) == 0U);
      BOOST_TEST(count(*plans[0], kind::reduce) == 0U);
      BOOST_TEST(plans[0]->micros_in_flight[0] == 1U);
      BOOST_TEST(plans[0]->memory.activations < plans[1]->memory.activations);
    }
}

BOOST_AUTO_TEST_CASE(inputs_of_frozen_units_are_not_offloaded) {
  const auto table = frozen_below(6, 4);
  for (const tier where : {tier::cpu, tier::nvme}) {
    auto o = small_options(1, 3, 2);
    o.recompute = true;
    o.tiers.activations = where;
    o.tiers.activation_units = 2;  // units 4 and 5, the first that are recomputed
    const auto plans = proved(table, o);
    std::vector<uint32_t> units;
    for (const auto& b : plans[0]->buffers)
      if (b.pool == pool::activations) units.push_back(b.subject);
    std::ranges::sort(units);
    units.erase(std::ranges::unique(units).begin(), units.end());
    BOOST_TEST((units == std::vector<uint32_t>{4, 5}));
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_the_first_trained_input_is_not_exchanged) {
  auto table = *frozen_below(3, 2);
  for (uint32_t u = 1; u < 4; ++u)
    for (auto& s : table.units[u].segments) {
      s.output = s.input_gradient = {core::exchange_op::sum, 4096};
      for (const uint32_t q : s.parameters) table.parameters[q].share = core::tensor_share::cut;
    }
  auto o = small_options(1, 1);
  o.mesh = {{axis::shard, 1}, {axis::tensor, 2}};
  const auto shared = std::make_shared<const core::model_table>(std::move(table));
  const auto plans = proved(shared, o);
  const auto exchanged = [&](uint32_t unit, uint32_t segment) {
    return std::ranges::count_if(plans[0]->instructions, [&](const auto& x) {
      return x.kind == kind::exchange && x.subject == unit && x.segment == segment && x.use == use::backward;
    });
  };
  BOOST_TEST(exchanged(1, 0) == 0);
  BOOST_TEST(exchanged(2, 0) == 0);
  BOOST_TEST(exchanged(2, 1) == 1);
  BOOST_TEST(exchanged(3, 0) == 1);
}

BOOST_AUTO_TEST_CASE(units_cost_together_what_a_plan_of_one_rank_takes) {
  const auto table = frozen_below(4, 3);
  const cost_model costs;
  const auto o = small_options(1, 0, 2);
  double planned = 0, modelled = 0;
  const auto plans = proved(table, o);
  for (const uint32_t id : plans[0]->lanes[static_cast<size_t>(lane::compute)])
    planned += predicted_seconds(*plans[0], plans[0]->instructions[id], costs);
  for (const auto& u : model_units(*table, o, costs))
    modelled += 2 * (u.micro.forward_s + u.micro.backward_input_s + u.micro.backward_weight_s);
  BOOST_TEST(planned == modelled, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_plan_that_goes_back_further_is_refused) {
  const auto table = frozen_below(4, 3);
  shared_plans plans;
  for (const auto& p : proved(table, small_options(2, 3, 2))) {
    auto changed = *p;
    const auto x = std::ranges::find_if(changed.instructions,
                                        [](const auto& i) { return i.kind == kind::release && i.subject == 4; });
    BOOST_TEST_REQUIRE((x != changed.instructions.end()));
    x->kind = kind::backward;
    x->use = use::backward;
    x->subject = 1;
    x->segment = 0;
    plans.push_back(std::make_shared<const rank_plan>(std::move(changed)));
  }
  const auto verdict = check(plans);
  BOOST_TEST_REQUIRE(!verdict.has_value());
  BOOST_TEST(verdict.error().text.find("goes back past the first trained parameter") != std::string::npos,
             verdict.error().text);
}

BOOST_AUTO_TEST_SUITE_END()
