#include "plan/show/render.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(render)

using namespace troupe::plan;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string cell; in >> cell;) out.push_back(cell);
  return out;
}

size_t count_of(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// Returns a model whose names contain every character that must be escaped.
shared_table odd_names() {
  auto table = *chain_table({4096, 4096});
  table.units[0].name = "a \"quoted\\ \n name\t";
  return std::make_shared<const troupe::core::model_table>(std::move(table));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_table_has_a_line_for_each_instruction_under_its_headings) {
  const auto p = plans_of(gpt_table(1, 64, 256, true), small_options(2, 3, 2))[0];
  const auto lines = lines_of(as_table(*p));
  BOOST_TEST(lines.size() == p->instructions.size() + 1);
  BOOST_TEST(cells_of(lines[0]) ==
                 (std::vector<std::string>{"id", "lane", "what", "micro", "buffer", "bytes", "flops", "after"}),
             boost::test_tools::per_element());
  for (size_t i = 0; i < p->instructions.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto& x = p->instructions[i];
    const auto cells = cells_of(lines[i + 1]);
    BOOST_TEST(cells[0] == fmt::to_string(x.id));
    BOOST_TEST(cells[1] == name_of(x.lane));
    BOOST_TEST(lines[i + 1].find(p->describe(x.id)) != std::string::npos);
    BOOST_TEST((cells.back() == "-") == x.after.empty());
  }
  const auto& use = p->instructions[p->lanes[static_cast<size_t>(lane::compute)].front()];
  const auto& b = p->buffers[use.slots.parameters];
  BOOST_TEST(lines[use.id + 1].find(fmt::format("gathered:{}+{}", b.offset, b.bytes)) != std::string::npos);
  BOOST_TEST(count_of(as_table(*p), " ?") == p->sub_groups.size());
}

BOOST_AUTO_TEST_CASE(a_table_says_in_which_outcomes_of_the_vote_something_happens) {
  auto o = small_options(2, 3);
  o.updates.speculate = o.updates.may_clip = true;
  const auto p = plans_of(odd_names(), o).front();
  BOOST_TEST(count_of(as_table(*p), " ? skipped or clipped") == p->sub_groups.size());
  BOOST_TEST(count_of(as_table(*p), " ? clipped") == p->sub_groups.size());
  o.updates.may_clip = false;
  BOOST_TEST(count_of(as_table(*plans_of(odd_names(), o).front()), " ? skipped") == p->sub_groups.size());
}

BOOST_AUTO_TEST_CASE(a_trace_is_json_with_a_process_for_each_rank_and_a_thread_for_each_lane) {
  const auto plans = plans_of(odd_names(), small_options(2, 3));
  const auto t = predict(plans, default_costs(troupe::core::dtype::f32));
  const auto json = nlohmann::json::parse(as_perfetto(t));
  size_t spans = 0, processes = 0, threads = 0;
  for (const auto& e : json.at("traceEvents")) {
    if (e.at("ph") == "M") {
      (e.at("name") == "process_name" ? processes : threads) += 1;
      continue;
    }
    const auto rank = e.at("pid").get<uint32_t>();
    const auto id = e.at("args").at("id").get<uint32_t>();
    const auto& x = plans[rank]->instructions[id];
    BOOST_TEST(e.at("name").get<std::string>() == plans[rank]->describe(id));
    BOOST_TEST(e.at("tid").get<uint32_t>() == static_cast<uint32_t>(x.lane));
    const auto& at = t.ranks[rank].instructions[id];
    BOOST_TEST(std::abs(e.at("ts").get<double>() - at.start_s * 1e6) < 1e-3);
    BOOST_TEST(std::abs(e.at("dur").get<double>() - (at.end_s - at.start_s) * 1e6) < 1e-3);
    BOOST_TEST(e.at("args").at("step") == 0);
    BOOST_TEST((e.at("args").at("after").get<std::vector<uint32_t>>() == x.after));
    BOOST_TEST(e.at("args").contains("collective") == (x.sequence != none));
    ++spans;
  }
  BOOST_TEST(spans == plans[0]->instructions.size() + plans[1]->instructions.size());
  BOOST_TEST(processes == 2U);
  BOOST_TEST(threads == 2 * num_lanes);
}

BOOST_AUTO_TEST_CASE(a_graph_has_a_cluster_for_each_lane_and_an_edge_for_each_wait_across_lanes) {
  const auto p = plans_of(odd_names(), small_options(2, 3))[0];
  const auto dot = as_dot(*p);
  BOOST_TEST(count_of(dot, "subgraph cluster_") == num_lanes);
  BOOST_TEST(count_of(dot, "[label=") == p->instructions.size());
  size_t across = 0, within = 0;
  for (const auto& x : p->instructions)
    across += static_cast<size_t>(
        std::count_if(x.after.begin(), x.after.end(), [&](uint32_t on) { return p->instructions[on].lane != x.lane; }));
  for (const auto& order : p->lanes) within += order.empty() ? 0 : order.size() - 1;
  BOOST_TEST(count_of(dot, " -> ") == across + within);
  BOOST_TEST(count_of(dot, "[style=dotted]") == within);
  BOOST_TEST(dot.find("a \\\"quoted\\\\ ") != std::string::npos);
  BOOST_TEST(count_of(dot, "{") == count_of(dot, "}"));
}

BOOST_AUTO_TEST_CASE(a_memory_summary_lists_owners_the_sum_and_whether_the_budget_holds) {
  auto o = small_options(2, 3);
  const auto table = gpt_table(2, 64, 256, false);
  const auto plain = memory_summary(predict(plans_of(table, o), {}));
  for (const char* part : {"rank 0, host memory", "rank 1, host memory", "moments", "gathered parameters", "in all"})
    BOOST_TEST(plain.find(part) != std::string::npos, part);
  BOOST_TEST(plain.find("budget") == std::string::npos);
  BOOST_TEST(plain.find("master") == std::string::npos, "owners of nothing are left out");
  const auto needed = plans_of(table, o)[0]->memory.total();
  o.memory_budget_bytes = 2 * needed;
  BOOST_TEST(memory_summary(predict(plans_of(table, o), {})).find("fits, left over") != std::string::npos);
  o.memory_budget_bytes = needed / 2;
  BOOST_TEST(memory_summary(predict(plans_of(table, o), {})).find("DOES NOT FIT") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
