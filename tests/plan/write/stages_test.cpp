// Tests plans of a pipeline: the checker accepts every named schedule with every ZeRO stage, and all transfers between
// stages exist.
#include <algorithm>

#include <limits>
#include <map>

#include "plan/check/check.hpp"
#include "plan/choose/cost.hpp"
#include "plan/schedule/named.hpp"
#include "plan/schedule/timing.hpp"
#include "tests/plan/saboteur.hpp"

BOOST_AUTO_TEST_SUITE(stages)

using namespace troupe::plan;
namespace core = troupe::core;
using core::axis;

namespace {

/// Returns options of a GPT whose units are cut evenly into the stages of the schedule.
plan_options staged(const core::model_table& table, const named_schedule& schedule, pipeline_shape shape, uint32_t data,
                    uint32_t stage) {
  auto o = small_options(data, stage, shape.micro_batches);
  o.mesh = {{axis::pipeline, shape.ranks}, {axis::shard, data}};
  auto made = make_table(schedule, shape);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
  const auto units = static_cast<uint32_t>(table.units.size()), stages = made->stages();
  BOOST_REQUIRE(stages <= units);
  for (uint32_t k = 0; k < stages; ++k) o.pipeline.first_unit.push_back(k * units / stages);
  o.pipeline.table = std::move(*made);
  return o;
}

shared_plans proved(const shared_table& table, const plan_options& o) {
  const auto plans = plans_of(table, o);
  const auto verdict = check(plans);
  BOOST_TEST_REQUIRE(verdict.has_value(), (verdict ? "" : verdict.error().text));
  return plans;
}

/// `whole`: bytes that every stage keeps until backward; `part`: the bytes of them that it keeps until the weight
/// part, in whole numbers.
constexpr uint64_t whole = 100, part = 60;

/// Returns a model of `stages` units with equal costs: `f` forward, `f + f - w` for the input part, `w` for the weight
/// part. `whole` bytes wait for backward; `part` of them wait for the weight part.
shared_table even_table(uint32_t stages, double f, double w) {
  auto table = *chain_table(std::vector<uint64_t>(stages, 1024));
  for (auto& u : table.units) u.segments.front() = {"all", u.parameters, f, whole, part, w};
  return std::make_shared<const core::model_table>(std::move(table));
}

/// Returns a cost model in which only flops need time.
cost_model whole_number_costs() {
  const double none = std::numeric_limits<double>::infinity();
  return {.flops_per_s = 1,
          .copy_bytes_per_s = none,
          .disk_bytes_per_s = none,
          .disk_read_bytes_per_s = none,
          .disk_latency_s = 0,
          .latency_s = 0};
}

/// Returns a rank's idle seconds between the first and the last instruction of its compute lane.
double idle_of(const timeline& t, uint32_t rank) {
  const auto& lane_of_rank = t.plans[rank]->lanes[static_cast<size_t>(lane::compute)];
  double busy = 0;
  for (const uint32_t id : lane_of_rank) {
    const auto& at = t.ranks[rank].instructions[id];
    busy += at.end_s - at.start_s;
  }
  const auto& all = t.ranks[rank].instructions;
  return all[lane_of_rank.back()].end_s - all[lane_of_rank.front()].start_s - busy;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_named_schedule_is_proved_with_every_zero_stage) {
  const auto table = gpt_table(6, 32, 100, false);
  for (const auto& schedule : named_schedules())
    for (uint32_t ranks = 2; ranks <= 4; ++ranks)
      for (const uint32_t micros : {ranks, 2 * ranks}) {
        const pipeline_shape shape{.ranks = ranks, .chunks = std::max(1U, schedule.chunks), .micro_batches = micros};
        if (!make_table(schedule, shape)) continue;
        for (uint32_t stage = 0; stage <= 3; ++stage)
          BOOST_TEST_CONTEXT(schedule.name << ", " << ranks << " ranks, " << micros << " micro-batches, stage "
                                           << stage) {
            BOOST_TEST_MESSAGE(schedule.name << " " << ranks << " " << micros << " " << stage);
            auto o = staged(*table, schedule, shape, 2, stage);
            if (!trains(o.pipeline.table)) o.mode = mode::evaluate;
            (void)proved(table, o);
          }
      }
}

BOOST_AUTO_TEST_CASE(recomputation_and_both_orders_of_gradients_are_proved) {
  const auto table = gpt_table(4, 32, 100, false);
  const auto& one_f_one_b = *find_schedule("1f1b").value();
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (const bool recompute : {false, true})
      for (const bool micro_first : {false, true})
        BOOST_TEST_CONTEXT("stage " << stage << ", recompute " << recompute << ", micro first " << micro_first) {
          auto o = staged(*table, one_f_one_b, {.ranks = 2, .chunks = 1, .micro_batches = 4}, 2, stage);
          o.recompute = recompute;
          o.gradients.sum_micro_first = micro_first;
          (void)proved(table, o);
        }
}

BOOST_AUTO_TEST_CASE(a_transfer_for_each_boundary_micro_batch_and_direction) {
  const auto table = gpt_table(6, 32, 100, false);
  const auto plans = proved(table, staged(*table, *find_schedule("gpipe").value(), {3, 1, 4}, 1, 0));
  BOOST_TEST(count(*plans[0], kind::send) == 4U);
  BOOST_TEST(count(*plans[0], kind::receive) == 4U);
  BOOST_TEST(count(*plans[1], kind::send) == 8U);
  BOOST_TEST(count(*plans[2], kind::receive) == 4U);
  for (const auto& p : plans) BOOST_TEST(count(*p, kind::load) == 4U);
}

BOOST_AUTO_TEST_CASE(micro_batches_in_flight_are_those_of_the_schedule) {
  const auto table = gpt_table(6, 32, 100, false);
  for (uint32_t p = 2; p <= 4; ++p)
    for (uint32_t m = p; m <= 3 * p; ++m) {
      BOOST_TEST_INFO_SCOPE("m " << m);
      const auto gpipe = plans_of(table, staged(*table, *find_schedule("gpipe").value(), {p, 1, m}, 1, 0));
      const auto one = plans_of(table, staged(*table, *find_schedule("1f1b").value(), {p, 1, m}, 1, 0));
      for (uint32_t s = 0; s < p; ++s) {
        BOOST_TEST_INFO_SCOPE("s " << s);
        BOOST_TEST(gpipe[s]->micros_in_flight[s] == m);
        BOOST_TEST(one[s]->micros_in_flight[s] == std::min(p - s, m));
      }
    }
}

// The costs are (forward, input part, weight part) = (10, 10, 10) and (10, 12, 8).
BOOST_AUTO_TEST_CASE(plans_take_the_time_and_keep_the_bytes_of_their_tables) {
  for (const auto& schedule : named_schedules())
    for (uint32_t ranks = 2; ranks <= 5; ++ranks)
      for (const uint32_t micros : {ranks, 2 * ranks, 4 * ranks})
        for (const double w : {10.0, 8.0}) {
          const pipeline_shape shape{.ranks = ranks, .chunks = std::max(1U, schedule.chunks), .micro_batches = micros};
          if (!make_table(schedule, shape)) continue;
          BOOST_TEST_CONTEXT(schedule.name << ", " << ranks << " ranks, " << micros << " micro-batches, W " << w) {
            const auto table = even_table(ranks * shape.chunks, 10, w);
            const auto o = staged(*table, schedule, shape, 1, 0);
            if (!trains(o.pipeline.table)) continue;
            const auto t = predict(plans_of(table, o), whole_number_costs());
            const auto wanted = play_table(
                o.pipeline.table,
                {std::vector<stage_cost>(ranks * shape.chunks, {10, 20 - w, w, whole, part}), /*transfer_s=*/0});
            for (uint32_t r = 0; r < ranks; ++r) {
              BOOST_TEST_INFO_SCOPE("r " << r);
              BOOST_TEST(idle_of(t, r) == wanted.ranks[r].idle_s);
              BOOST_TEST(t.plans[r]->memory.activations == wanted.ranks[r].peak_bytes);
            }
          }
        }
}

BOOST_AUTO_TEST_CASE(a_split_backward_leaves_the_idle_and_the_bytes_of_its_closed_form) {
  for (uint32_t p = 2; p <= 4; ++p)
    for (const uint32_t m : {2 * p, 4 * p})
      for (const double w : {10.0, 8.0})
        for (const uint32_t k : {1U, 2U})
          BOOST_TEST_CONTEXT("zb_h" << k << ", " << p << " ranks, " << m << " micro-batches, W " << w) {
            const auto& schedule = *find_schedule(k == 1 ? "zb_h1" : "zb_h2").value();
            const auto table = even_table(p, 10, w);
            const auto t = predict(plans_of(table, staged(*table, schedule, {p, 1, m}, 1, 0)), whole_number_costs());
            double worst = 0;
            for (uint32_t r = 0; r < p; ++r) worst = std::max(worst, idle_of(t, r));
            BOOST_TEST(worst == (p - 1) * (10 + (20 - w) - k * w));
            for (uint32_t s = 0; s < p; ++s) {
              BOOST_TEST_INFO_SCOPE("s " << s);
              const uint64_t full = k == 1 ? p - s : 2 * (p - s) - 1;
              BOOST_TEST(t.plans[s]->memory.activations == full * whole + uint64_t{k} * s * part);
            }
          }
}

BOOST_AUTO_TEST_CASE(only_where_nobody_waits_for_the_gradient_a_backward_stays_whole) {
  const auto table = gpt_table(6, 32, 100, false);
  const auto plans = proved(table, staged(*table, *find_schedule("zb_h1").value(), {3, 1, 4}, 1, 0));
  BOOST_TEST(count(*plans[0], kind::backward_weight) == 0U);
  for (const uint32_t r : {1U, 2U}) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    const rank_plan& p = *plans[r];
    BOOST_TEST(count(p, kind::backward_weight) == count(p, kind::backward));
    // A send that another rank waits for must not wait for a weight part of the same micro-batch.
    for (const auto& x : p.instructions)
      if (x.kind == kind::send && x.use == use::backward)
        for (const auto& w : p.instructions)
          if (w.kind == kind::backward_weight && w.micro == x.micro) BOOST_TEST(w.id > x.id);
  }
  BOOST_TEST((plans[0]->weights_in_flight == std::vector<uint32_t>{0, 0, 0}));
  BOOST_TEST((plans[2]->weights_in_flight == std::vector<uint32_t>{0, 0, 3}));
}

BOOST_AUTO_TEST_CASE(weight_parts_gather_nothing) {
  const auto table = gpt_table(6, 32, 100, false);
  auto o = staged(*table, *find_schedule("zb_h2").value(), {3, 1, 6}, 2, 3);
  for (const uint64_t distance : {0ULL, 1'000'000'000ULL}) {
    BOOST_TEST_INFO_SCOPE("distance " << distance);
    o.gathering.max_reuse_distance = distance;
    for (const auto& p : proved(table, o))
      for (const auto& x : p->instructions)
        if (x.kind == kind::backward_weight) BOOST_TEST(x.slots.parameters == none);
  }
}

BOOST_AUTO_TEST_CASE(every_break_of_a_weight_part_is_caught) {
  const std::map<std::string, bool (saboteur::*)()> breakages = {
      {"never", &saboteur::drop_a_weight_part},
      {"twice", &saboteur::repeat_a_weight_part},
      {"before the input part", &saboteur::weigh_before_the_input_part},
      {"after its reduction", &saboteur::reduce_before_a_weight_part},
      {"with another's slot", &saboteur::forget_the_slot_of_a_weight_part}};
  const auto table = gpt_table(6, 32, 100, false);
  std::map<std::string, uint32_t> caught;
  std::mt19937_64 random(5);
  for (const char* name : {"zb_h1", "zb_h2", "zb_v", "dual_pipe_v"})
    for (uint32_t stage = 0; stage <= 3; ++stage) {
      const auto& schedule = *find_schedule(name).value();
      const auto sound = proved(table, staged(*table, schedule, {3, std::max(1U, schedule.chunks), 6}, 1, stage));
      for (int i = 0; i < 10; ++i)
        for (const auto& [what, change] : breakages) BOOST_TEST_CONTEXT(name << ", stage " << stage << ", " << what) {
            auto plans = sound;
            auto broken = std::make_shared<rank_plan>(*plans[random() % plans.size()]);
            random.discard(64);
            if (!(saboteur(*broken, random).*change)()) continue;
            plans[broken->rank] = broken;
            BOOST_TEST(!check(plans).has_value());
            ++caught[what];
          }
    }
  for (const auto& [what, change] : breakages) BOOST_TEST(caught[what] >= 50U, what << ": " << caught[what]);
}

BOOST_AUTO_TEST_CASE(ranks_that_differ_in_the_data_coordinate_alone_compute_the_same) {
  const auto table = gpt_table(6, 32, 100, false);
  const auto o = staged(*table, *find_schedule("1f1b").value(), {2, 1, 4}, 3, 3);
  const auto plans = proved(table, o);
  for (uint32_t r = 0; r < plans.size(); ++r) {
    BOOST_TEST_INFO_SCOPE("r " << r);
    const auto& mine = *plans[r];
    const auto& first = *plans[o.mesh.at_stage(0, mine.options().mesh.pipeline_at(r))];
    for (const lane l : {lane::compute, lane::fabric}) {
      const auto &a = mine.lanes[static_cast<size_t>(l)], &b = first.lanes[static_cast<size_t>(l)];
      BOOST_TEST_REQUIRE(a.size() == b.size());
      for (size_t i = 0; i < a.size(); ++i) BOOST_TEST(mine.describe(a[i]) == first.describe(b[i]));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_stage_holds_only_its_own) {
  const auto table = gpt_table(6, 32, 100, false);
  for (uint32_t stage = 0; stage <= 3; ++stage) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto whole = plans_of(table, small_options(2, stage));
    const auto plans = proved(table, staged(*table, *find_schedule("1f1b").value(), {2, 1, 4}, 2, stage));
    uint64_t parameters = 0, alone = 0;
    for (const auto& p : plans) parameters += p->memory.parameters + p->memory.moments;
    for (const auto& p : whole) alone += p->memory.parameters + p->memory.moments;
    // All stages together own the elements of a job without a pipeline on as many data ranks; only the padding between
    // parameters may differ.
    BOOST_TEST(parameters <= alone + 4096);
    BOOST_TEST(parameters + 4096 >= alone);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_cut_is_refused_with_its_reason) {
  const auto table = gpt_table(2, 32, 100, true);
  const auto refusal = [&](const plan_options& o) {
    const auto made = make_layout(table, o);
    BOOST_REQUIRE(!made.has_value());
    return made.error().text;
  };
  auto o = staged(*table, *find_schedule("gpipe").value(), {2, 1, 2}, 1, 0);
  BOOST_TEST(refusal(o).find("is shared by units of pipeline ranks 0 and 1") != std::string::npos, refusal(o));
  o.pipeline.first_unit = {0, 9};
  BOOST_TEST(refusal(o).find("wanted stages that begin at different units") != std::string::npos, refusal(o));
  o.accumulation = 3;
  BOOST_TEST(refusal(o).find("wanted a schedule of 2 stages on 2 ranks and 3 micro-batches") != std::string::npos,
             refusal(o));
  o.pipeline = {};
  BOOST_TEST(refusal(o).find("got none") != std::string::npos, refusal(o));
}

BOOST_AUTO_TEST_SUITE_END()
