// Tests the statistics of the stages of a pipeline, and the other records of a model that is cut into stages.
#include "telemetry/figures/stage_figures.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "plan/stages.hpp"
#include "telemetry/figures/communication_log.hpp"
#include "telemetry/figures/trace.hpp"
#include "telemetry/figures/unit_profile.hpp"
#include "telemetry/instruction_times.hpp"
#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(stage_figures)

using namespace troupe;
using namespace troupe::telemetry;

namespace {

pipeline_figures figures_of(const std::vector<rank_spans>& step) {
  instruction_times times;
  times.add(step);
  return pipeline_of(times);
}

uint64_t num_of(const plan::rank_plan& p, plan::kind k) {
  return static_cast<uint64_t>(std::ranges::count(p.instructions, k, &plan::instruction::kind));
}

// Returns the spans of a step in which a forward takes `seconds`, a backward takes twice as long, and nothing else
// takes any time.
std::vector<rank_spans> even_step(const std::string& schedule, uint32_t ranks, double seconds) {
  const auto plans = plan::plans_of(plan::chain_table(std::vector<uint64_t>(6, 1000)),
                                    plan::options_of_pipeline(schedule, ranks, 1, 0));
  const auto price = [&](const plan::rank_plan&, const plan::instruction& x) {
    return x.kind == plan::kind::forward ? seconds : x.kind == plan::kind::backward ? 2 * seconds : 0;
  };
  const auto t = plan::play(plans, price, 0);
  std::vector<rank_spans> out;
  for (size_t r = 0; r < plans.size(); ++r) {
    rank_spans s{.plan = plans[r], .spans = {}};
    for (const auto& i : t.ranks[r].instructions)
      s.spans.push_back({1 + std::llround(i.start_s * 1e9), 1 + std::llround(i.end_s * 1e9)});
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_idle_time_of_1f1b_is_that_of_its_closed_form) {
  // Each of p ranks is idle for (p - 1) / (m + p - 1) of a step with m micro-batches.
  for (const uint32_t ranks : {2U, 3U}) {
    BOOST_TEST_INFO_SCOPE("ranks " << ranks);
    const auto f = figures_of(even_step("1f1b", ranks, 1e-3));
    BOOST_TEST_REQUIRE(f.stages.size() == ranks);
    const double wanted = double(ranks - 1) / double(4 + ranks - 1);
    for (const auto& s : f.stages) {
      BOOST_TEST(std::abs(f.planned_idle(s) - wanted) < 1e-6);
      BOOST_TEST(std::abs(f.measured_idle(s) - wanted) < 1e-6);
    }
    BOOST_TEST(std::abs(f.idle_beyond_plan()) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(idle_time_that_no_instruction_explains_is_beyond_the_plan) {
  auto step = even_step("1f1b", 2, 1e-3);
  const auto plain = figures_of(step);
  // All instructions after the middle of the step begin 5 ms later, on all ranks.
  const auto middle_ns = static_cast<int64_t>(plain.measured_step_s / 2 * 1e9);
  for (auto& r : step)
    for (auto& i : r.spans)
      if (i.start_ns >= middle_ns) i = {i.start_ns + 5'000'000, i.end_ns + 5'000'000};
  const auto f = figures_of(step);
  BOOST_TEST(std::abs(f.planned_step_s - plain.planned_step_s) < 1e-6);
  BOOST_TEST(std::abs(f.measured_step_s - plain.measured_step_s - 5e-3) < 1e-6);
  BOOST_TEST(std::abs(f.idle_beyond_plan() * f.measured_step_s - 5e-3) < 1e-6);
  for (const auto& s : f.stages) BOOST_TEST(std::abs(s.measured_idle_s - s.planned_idle_s - 5e-3) < 1e-6);
}

BOOST_AUTO_TEST_CASE(counts_and_bytes_are_the_plans) {
  const auto step = played_pipeline();
  const auto f = figures_of(step);
  BOOST_TEST_REQUIRE(f.stages.size() == 2U);
  for (uint32_t s = 0; s < 2; ++s) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    const auto& p = *step[2 * s].plan;
    BOOST_TEST(f.stages[s].ranks == (std::vector<uint32_t>{2 * s, 2 * s + 1}));
    BOOST_TEST(f.stages[s].units == 3U);
    BOOST_TEST(f.stages[s].gathers == num_of(p, plan::kind::gather));
    BOOST_TEST(f.stages[s].sent_bytes == 4 * plan::transfer_bytes(*p.layout, 1));
    BOOST_TEST(f.stages[s].micros_in_flight == 2 - s);
  }
}

BOOST_AUTO_TEST_CASE(stages_of_one_rank_share_its_idle_time_and_nothing_else) {
  const auto step = played_pipeline("interleaved", 2, 2);
  const auto f = figures_of(step);
  BOOST_TEST_REQUIRE(f.stages.size() == 4U);
  uint64_t gathers = 0;
  for (const auto& s : f.stages) {
    gathers += s.gathers;
    BOOST_TEST(s.ranks.front() == 2 * (s.stage % 2));
    BOOST_TEST(s.planned_idle_s == f.stages[s.stage % 2].planned_idle_s);
  }
  BOOST_TEST(gathers == num_of(*step[0].plan, plan::kind::gather) + num_of(*step[2].plan, plan::kind::gather));
  // Half of the bytes are sent to each neighbour.
  BOOST_TEST(f.stages[1].sent_bytes == 8 * plan::transfer_bytes(*step[0].plan->layout, 1));
}

BOOST_AUTO_TEST_CASE(a_model_that_is_not_cut_has_no_stages) {
  BOOST_TEST(figures_of(played_gpt(2)).steps == 0U);
  BOOST_TEST(figures_of({}).stages.empty());
}

BOOST_AUTO_TEST_CASE(the_table_has_a_line_for_each_stage_and_json_all_figures) {
  const auto f = figures_of(played_pipeline("interleaved", 2, 2));
  const std::string table = stage_table(f);
  BOOST_TEST(std::ranges::count(table, '\n') == 5, table);
  BOOST_TEST(table.find("0,1") != std::string::npos, table);
  const auto json = nlohmann::json::parse(stage_json(f));
  BOOST_TEST_REQUIRE(json.at("stages").size() == 4U);
  for (const char* key :
       {"stage", "ranks", "units", "micros_in_flight", "gathers", "sent_bytes", "planned_idle", "measured_idle"})
    BOOST_TEST(json.at("stages")[3].contains(key), key);
}

BOOST_AUTO_TEST_CASE(work_and_times_of_a_cut_model_are_those_of_all_its_units) {
  const auto step = played_pipeline();
  const auto whole = played(plan::plans_of(plan::gpt_table(4, 64, 256, false), plan::small_options(2, 3, 4)));
  const auto cut = summarise(step), uncut = summarise(whole);
  BOOST_TEST_REQUIRE(cut.work.units.size() == uncut.work.units.size());
  for (size_t u = 0; u < cut.work.units.size(); ++u) {
    BOOST_TEST_INFO_SCOPE("u " << u);
    BOOST_TEST(cut.work.units[u].forward_flops == uncut.work.units[u].forward_flops);
    BOOST_TEST(cut.work.units[u].backward_flops == uncut.work.units[u].backward_flops);
    BOOST_TEST(std::abs(cut.work.units[u].forward_s - uncut.work.units[u].forward_s) < 1e-7);
    BOOST_TEST(std::abs(cut.work.units[u].backward_s - uncut.work.units[u].backward_s) < 1e-7);
  }
  uint64_t gathers = 0;
  for (const auto& r : {step[0], step[2]}) gathers += num_of(*r.plan, plan::kind::gather);
  BOOST_TEST(cut.gathers == gathers);
  profile_sums sums;
  sums.add(step);
  for (const auto& u : sums.units()) BOOST_TEST(u.forward_ms() > 0, u.name);
  const std::string page = flops_table(sums, {4, 1, 4, 1000, 2000, 2}, {});
  BOOST_TEST(page.find("one rank of each stage, one micro-batch") != std::string::npos, page);
  BOOST_TEST(page.find("fwd flops of model:") != std::string::npos, page);
}

BOOST_AUTO_TEST_CASE(the_log_counts_what_crosses_between_stages_once_and_with_its_bytes) {
  const auto step = played_pipeline();
  communication_log log;
  log.add(step);
  uint64_t transfers = 0, gathers = 0;
  for (const auto& row : log.rows()) {
    if (row.op == "send_receive") {
      transfers += row.count;
      BOOST_TEST(row.message_bytes == plan::transfer_bytes(*step[0].plan->layout, 1));
      BOOST_TEST(row.ranks == 2U);
      BOOST_TEST(row.average_ms() > 0);
    }
    if (row.purpose.find("vote") != std::string::npos) BOOST_TEST(row.ranks == 4U);
    if (row.purpose == "gather") gathers += row.count;
  }
  BOOST_TEST(transfers == 8U);  // four activations are sent in one direction and four gradients in the other
  BOOST_TEST(gathers == num_of(*step[0].plan, plan::kind::gather) + num_of(*step[2].plan, plan::kind::gather));
}

BOOST_AUTO_TEST_SUITE_END()
