// Tests the table of collectives: DeepSpeed's bandwidth factors, message sizes, filters.
#include "telemetry/figures/communication_log.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(communication_log)

using namespace troupe;
using namespace troupe::telemetry;

namespace {

uint64_t count_of(const std::vector<communication_row>& rows, const std::string& op) {
  uint64_t n = 0;
  for (const auto& r : rows)
    if (r.op == op) n += r.count;
  return n;
}

uint64_t num_of(const plan::rank_plan& p, plan::kind k) {
  uint64_t n = 0;
  for (const auto& x : p.instructions) n += x.kind == k;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(bandwidths_have_the_factors_of_the_operation) {
  // Each of 4 ranks sends 1e6 bytes in 2 ms: 4 Gbit/s for a message of one rank's size.
  const auto gather = bandwidth_of("all_gather_into_tensor", 1'000'000, 4, 2);
  BOOST_TEST(gather.algorithm_gbps == 16.0);
  BOOST_TEST(gather.bus_gbps == 12.0);
  const auto scatter = bandwidth_of("reduce_scatter_tensor", 1'000'000, 4, 2);
  BOOST_TEST(scatter.bus_gbps == 12.0);
  const auto reduce = bandwidth_of("all_reduce", 1'000'000, 4, 2);
  BOOST_TEST(reduce.algorithm_gbps == 8.0);
  BOOST_TEST(reduce.bus_gbps == 6.0);
  const auto broadcast = bandwidth_of("broadcast", 1'000'000, 4, 2);
  BOOST_TEST(broadcast.algorithm_gbps == 4.0);
  BOOST_TEST(broadcast.bus_gbps == 4.0);
  BOOST_TEST(bandwidth_of("all_reduce", 5, 4, 0).bus_gbps == 0.0);
  BOOST_TEST(bandwidth_of("all_gather_into_tensor", 5, 1, 1).bus_gbps == 0.0);
}

BOOST_AUTO_TEST_CASE(rows_count_the_plans_collectives_and_sum_their_times) {
  for (uint32_t stage : {0U, 1U, 3U}) {
    BOOST_TEST_INFO_SCOPE("stage " << stage);
    const auto step = played_gpt(2, stage);
    const auto& p = *step[0].plan;
    telemetry::communication_log log;
    log.add(step);
    log.add(step);
    const auto rows = log.rows();
    const uint64_t gathers =
        num_of(p, plan::kind::gather) + num_of(p, plan::kind::publish) + num_of(p, plan::kind::vote);
    BOOST_TEST(count_of(rows, "all_gather_into_tensor") == 2 * gathers);
    BOOST_TEST(count_of(rows, p.options().reduce_to_all() ? "all_reduce" : "reduce_scatter_tensor") ==
               2 * num_of(p, plan::kind::reduce));
    double ms = 0, wanted = 0;
    for (const auto& r : rows) ms += r.latency_ms;
    for (const auto& x : p.instructions)
      if (x.sequence != plan::none) wanted += 2 * double(moving(step[0], x.id, posted_times(step)).length_ns()) / 1e6;
    BOOST_TEST(std::abs(ms - wanted) < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(a_message_is_the_input_of_one_rank) {
  const auto step = played_gpt(4);
  telemetry::communication_log log({true, {}, true});
  log.add(step);
  for (const auto& x : step[0].plan->instructions) {
    if (x.kind != plan::kind::gather) continue;
    const auto rows = log.rows();
    BOOST_TEST(std::any_of(rows.begin(), rows.end(), [&](const auto& r) {
      return r.purpose == "gather" && r.message_bytes == x.moved_bytes / 4;
    }));
  }
}

BOOST_AUTO_TEST_CASE(operations_of_the_same_size_are_one_row_unless_their_purpose_is_asked_for) {
  const auto step = played_gpt(2, 1);
  telemetry::communication_log log;
  log.add(step);
  uint64_t merged = 0, apart = 0;
  double merged_ms = 0, apart_ms = 0;
  for (const auto& r : log.rows()) {
    merged += r.count;
    merged_ms += r.latency_ms;
  }
  for (const auto& r : log.rows_by_purpose()) {
    apart += r.count;
    apart_ms += r.latency_ms;
  }
  BOOST_TEST(merged == apart);
  BOOST_TEST(std::abs(merged_ms - apart_ms) < 1e-9);
  const auto rows = log.rows();
  for (size_t i = 1; i < rows.size(); ++i)
    BOOST_TEST((rows[i].op != rows[i - 1].op || rows[i].message_bytes != rows[i - 1].message_bytes));
}

BOOST_AUTO_TEST_CASE(a_filter_keeps_the_operations_that_it_names) {
  const auto step = played_gpt(2);
  telemetry::communication_log some({false, {"reduce_scatter"}, false});
  some.add(step);
  BOOST_TEST(!some.rows().empty());
  for (const auto& r : some.rows()) BOOST_TEST(r.op == "reduce_scatter_tensor");
  telemetry::communication_log none({false, {}, false});
  none.add(step);
  BOOST_TEST(none.rows().empty());
}

BOOST_AUTO_TEST_CASE(collectives_that_a_vote_switched_off_are_left_out) {
  auto step = played_gpt(2, 1);
  BOOST_TEST(num_of(*step[0].plan, plan::kind::publish) > 0U);
  for (auto& r : step) r.skipped = true;
  telemetry::communication_log log({true, {}, true});
  log.add(step);
  for (const auto& r : log.rows()) BOOST_TEST(r.purpose != "publish");
}

BOOST_AUTO_TEST_CASE(each_operation_has_a_line_where_asked_and_the_table_and_json_hold_the_rows) {
  const auto step = played_gpt(2);
  telemetry::communication_log log;
  std::vector<std::string> lines;
  log.add(step, [&](const std::string& s) { lines.push_back(s); });
  BOOST_TEST(lines.size() == step[0].plan->num_collectives[0]);
  BOOST_TEST(lines[0].starts_with("comm op: all_gather_into_tensor | time (ms): "), lines[0]);
  BOOST_TEST(lines[0].find("| busbw (Gbps): ") != std::string::npos);
  const std::string table = communication_table(log.rows(), false);
  BOOST_TEST(table.starts_with("Comm. Op "), table);
  const auto rows = nlohmann::json::parse(communication_json(log.rows())).at("operations");
  BOOST_TEST_REQUIRE(rows.size() == log.rows().size());
  for (size_t i = 0; i < rows.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(rows[i].at("count") == log.rows()[i].count);
    BOOST_TEST(rows[i].at("msg_size_bytes") == log.rows()[i].message_bytes);
  }
  BOOST_TEST(std::count(table.begin(), table.end(), '\n') == static_cast<long>(1 + 2 + rows.size()), table);
}

BOOST_AUTO_TEST_SUITE_END()
