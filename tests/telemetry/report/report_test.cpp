// Tests the report page of a run: it is complete, self-contained and bounded in size, and text from files never becomes
// markup. The layout was checked in a browser; this test checks the text.
#include "telemetry/report/report.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <regex>
#include <stack>

#include "telemetry/instruction_times.hpp"
#include "telemetry/report/chart.hpp"
#include "tests/comma_locale.hpp"
#include "tests/telemetry/spans_of.hpp"

using namespace troupe;
using namespace troupe::telemetry;
using troupe::tests::comma_locale;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Checks that all elements are closed in the reverse order in which they were opened.
void check_nesting(const std::string& page) {
  const std::regex tag("<(/?)([a-zA-Z][a-zA-Z0-9]*)([^<>]*)>");
  std::stack<std::string> open;
  for (auto it = std::sregex_iterator(page.begin(), page.end(), tag); it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (name == "meta" || name == "br" || (!rest.empty() && rest.back() == '/')) continue;
    if ((*it)[1].length() == 0) {
      open.push(name);
      continue;
    }
    BOOST_TEST_REQUIRE(!open.empty(), "</" << name << "> closes nothing");
    BOOST_TEST_REQUIRE(open.top() == name, "</" << name << "> closes <" << open.top() << ">");
    open.pop();
  }
  BOOST_TEST(open.empty());
}

struct fixture {
  run_curves curves;
  std::vector<rank_spans> step = played_gpt(2);
  report_data data;

  fixture() {
    for (int i = 1; i <= 200; ++i) {
      curves.loss.add(i, 5.0 / std::sqrt(double(i)));
      curves.lr.add(i, 1e-3);
      curves.grad_norm.add(i, 1 + 0.1 * std::sin(double(i)));
      curves.tokens_per_s.add(i, 20000 + i);
    }
    curves.validation.add(100, 0.6);
    data.facts.name = "gcide";
    data.facts.loss_unit = "nats/byte";
    data.facts.ranks = 2;
    data.facts.steps = 200;
    data.end.validation_loss = 0.5;
    data.end.memory = {{0, "host", {{"parameters", 1000}, {"moments", 0}, {"activations", 3000}}},
                       {1, "host", {{"parameters", 2000}, {"moments", 0}, {"activations", 3000}}}};
    data.curves = &curves;
    data.steps_done = 200;
    data.tokens = 200 * 512;
    data.step_seconds = 4;
    data.drawn_step = 3;
    data.lanes = step;
    profile_sums sums;
    sums.add(step);
    data.units = sums.units();
    telemetry::communication_log log;
    log.add(step);
    data.communication = log.rows();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(report, fixture)

BOOST_AUTO_TEST_CASE(a_page_has_every_part_and_its_elements_nest) {
  data.end.configuration = "steps: 200\n";
  data.end.sample = "The cat.";
  data.files = {"trace.json"};
  const std::string page = report_page(data);
  for (const char* part :
       {"<h1>gcide</h1>", ">done</span> after 200 steps, validation loss 0.5000 nats/byte", "<h2>Curves</h2>",
        "<h2>One step, lane by lane</h2>", "<h2>Memory by owner and tier</h2>", "<h2>Units of the model</h2>",
        "<h2>Communication</h2>", "No step was skipped.", "The effective configuration", "The cat.",
        "<a href=\"trace.json\">", "prefers-color-scheme:dark", "width=device-width"})
    BOOST_TEST(has(page, part), part << " is missing");
  BOOST_TEST(!has(page, ">moments<"));  // no rank has moments, so the page does not list them
  check_nesting(page);
}

BOOST_AUTO_TEST_CASE(validation_sets_have_charts_and_figures_with_their_names) {
  curves.validation_name = "books";
  curves.validation_sets.push_back({"news", {}});
  curves.validation_sets.back().values.add(100, 0.75);
  const std::string page = report_page(data);
  for (const char* part : {"<dt>Validation loss, books</dt><dd>0.5000 ", "<dt>Validation loss, news</dt><dd>0.7500 ",
                           "<b>Validation loss, books</b>", "<b>Validation loss, news</b>"})
    BOOST_TEST(has(page, part), part << " is missing");
  BOOST_TEST(!has(page, "<dt>Validation loss</dt>"));
  check_nesting(page);
}

BOOST_AUTO_TEST_CASE(a_sample_and_the_validation_curve_come_first_and_times_of_units_are_folded) {
  data.end.sample = "The cat.";
  data.end.configuration = "steps: 200\n";
  const std::string page = report_page(data);
  size_t before = 0;
  for (const char* part :
       {"<h1>gcide</h1>", "<h2>Written by the model</h2>", "The cat.", "<h2>Curves</h2>", "<b>Validation loss</b>",
        "<b>Loss</b>", "<b>Learning rate</b>", "<dt>Training loss, last step</dt>", "<h2>One step, lane by lane</h2>",
        "<h2>Memory by owner and tier</h2>", "<h2>Units of the model</h2>", "<h2>Communication</h2>",
        "<h2>Configuration</h2>"}) {
    const size_t at = page.find(part);
    BOOST_TEST_REQUIRE(at != std::string::npos, part << " is missing");
    BOOST_TEST(at > before, part << " comes too early");
    before = at;
  }
  // Every row of a unit's times is in a closed <details>, which a browser opens without a script.
  const size_t fold = page.find("<details><summary>Times of "), end = page.find("</details>", fold);
  BOOST_TEST_REQUIRE(fold != std::string::npos);
  BOOST_TEST(page.find("<th>forward ms</th>") > fold);
  BOOST_TEST(page.find("<th>forward ms</th>") < end);
  BOOST_TEST(page.find("<td>unit 1</td>") > fold);
  BOOST_TEST(page.rfind("class=\"sub\"") < end);
  BOOST_TEST(!has(page, "<details open"));
}

BOOST_AUTO_TEST_CASE(without_a_sample_and_without_evaluations_the_loss_comes_first) {
  curves.validation = {};
  const std::string page = report_page(data);
  BOOST_TEST(!has(page, "Written by the model"));
  BOOST_TEST(!has(page, "<b>Validation loss</b>"));
  BOOST_TEST(page.find("<b>Loss</b>") < page.find("<dl>"));
}

BOOST_AUTO_TEST_CASE(idle_for_control_is_a_figure_of_its_own) {
  data.step_s = 0.25, data.compute_s = 0.2, data.control_idle_s = 0.001;
  const std::string page = report_page(data);
  BOOST_TEST(has(page, "Idle for control"));
  BOOST_TEST(has(page, "0.40"));
  BOOST_TEST(has(page, "compute is busy for 200.0 ms and idle for control for 1.00 ms"));
}

BOOST_AUTO_TEST_CASE(a_page_needs_no_other_file) {
  const std::string page = report_page(data);
  for (const char* part : {"http:", "https:", "//cdn", "<script", "<link", "<img", "<iframe", "@import", "url("})
    BOOST_TEST(!has(page, part), part);
}

BOOST_AUTO_TEST_CASE(every_kind_of_instruction_but_release_has_a_colour) {
  const std::string page = report_page(data);
  for (uint8_t k = 0;; ++k) {
    const std::string name(plan::name_of(static_cast<plan::kind>(k)));
    if (name == "?") break;
    if (name == "release") continue;
    BOOST_TEST(has(page, ".x-" + name + "{fill:var(--" + name + ")"), name);
    BOOST_TEST(has(page, "--" + name + ":#"), name);
  }
}

BOOST_AUTO_TEST_CASE(a_hosts_comma_locale_changes_nothing_on_the_page) {
  const fixture f;
  const std::string page = report_page(f.data);
  const comma_locale here;
  BOOST_TEST((report_page(f.data) == page));
}

BOOST_AUTO_TEST_CASE(hostile_names_stay_text) {
  const std::string evil = "</title></style></pre>\"'><script>alert(1)</script><img src=x onerror=alert(1)>";
  auto table = std::make_shared<core::model_table>(step[0].plan->table());
  for (auto& u : table->units) {
    u.name = evil;
    for (auto& s : u.segments) s.name = evil;
  }
  for (auto& r : step) {
    auto p = std::make_shared<plan::rank_plan>(*r.plan);
    auto layout = std::make_shared<plan::job_layout>(*p->layout);
    layout->table = table;
    for (auto& set : layout->gather_sets) set.name = evil;
    p->layout = layout;
    r.plan = p;
  }
  profile_sums sums;
  sums.add(step);
  data.units = sums.units();
  data.lanes = step;
  data.facts.name = data.facts.loss_unit = data.facts.parameter_dtype = evil;
  data.end.verdict = verdict::failed;
  data.end.failure = data.end.configuration = data.end.sample = evil;
  data.end.memory[0].tier = data.end.memory[0].owners[0].first = evil;
  data.communication[0].op = data.communication[0].purpose = evil;
  data.files = {evil};
  const std::string page = report_page(data);
  BOOST_TEST(!has(page, "<script"));
  BOOST_TEST(!has(page, "<img"));
  check_nesting(page);
}

BOOST_AUTO_TEST_CASE(the_verdict_says_how_it_ended) {
  data.end.verdict = verdict::stopped;
  data.end.validation_loss.reset();
  data.steps_done = 120;
  BOOST_TEST(has(report_page(data), ">stopped</span> after 120 of 200 steps in"));
  data.end.verdict = verdict::failed;
  data.end.failure = "rank 1: out of memory";
  BOOST_TEST(has(report_page(data), "<p class=\"failure\">rank 1: out of memory</p>"));
  data.num_skipped = 60;
  for (uint64_t i = 0; i < listed_skips_limit; ++i) data.skipped.push_back({i + 1, 65536});
  data.num_not_recorded = 3;
  const std::string page = report_page(data);
  BOOST_TEST(has(page, "60 steps were skipped because the gradient overflowed: 1 (loss scale 65536), 2"));
  BOOST_TEST(has(page, " and others."));
  BOOST_TEST(has(page, "3 records of telemetry were dropped"));
}

BOOST_AUTO_TEST_CASE(a_run_that_did_nothing_has_a_page_too) {
  report_data nothing;
  nothing.facts.name = "nothing";
  nothing.end.verdict = verdict::failed;
  check_nesting(report_page(nothing));
}

BOOST_AUTO_TEST_CASE(its_size_is_bounded_however_long_and_wide_the_run) {
  run_curves longer;
  for (int i = 1; i <= 200000; ++i)
    for (auto* c : {&longer.loss, &longer.validation, &longer.lr, &longer.grad_norm, &longer.tokens_per_s})
      c->add(i, std::sin(double(i) * 1.7) * 1e5);
  data.curves = &longer;
  step = played(plan::plans_of(plan::gpt_table(60, 8, 16, false), plan::small_options(16, 3, 4)));
  data.lanes = step;
  size_t spans = 0;
  for (const auto& r : step) spans += r.spans.size();
  BOOST_TEST(spans > 4 * drawn_spans_limit);
  const std::string lanes = lanes_svg(step);
  size_t drawn = 0;
  for (auto at = lanes.find("<rect class=\"x-"); at != std::string::npos; at = lanes.find("<rect class=\"x-", at + 1))
    ++drawn;
  BOOST_TEST(drawn > 100U);
  BOOST_TEST(drawn <= drawn_spans_limit + drawn_ranks_limit * plan::num_lanes);
  BOOST_TEST(report_page(data).size() < size_t{2} << 20);
}

BOOST_AUTO_TEST_CASE(a_model_that_is_cut_has_its_stages_named_and_whole_copies_of_it_drawn) {
  step = played_pipeline("interleaved", 2, 2);
  instruction_times times;
  times.add(step);
  data.facts.ranks = 4;
  data.facts.pipeline = 2;
  data.facts.mesh = "pipeline 2 x shard 2";
  data.facts.micro_batch = 3;
  data.lanes = step;
  data.pipeline = pipeline_of(times);
  const std::string page = report_page(data);
  check_nesting(page);
  for (const char* part : {"pipeline 2 x shard 2", "<h2>Stages</h2>", "<td>2</td><td>0, 1</td>", ">rank 2</text>",
                           ">stages 1 and 3</text>", ", stage 2, chunk 1: ", "One rank of each stage"})
    BOOST_TEST(has(page, part), part);
  BOOST_TEST(has(page, "<dt>Global batch</dt><dd>6<"), page.substr(page.find("Global batch"), 60));
  // The job has 12 ranks in three stages; of the data-parallel positions, the page draws two completely and the third
  // in part.
  auto o = plan::options_of_pipeline("1f1b", 3);
  o.mesh = {{core::axis::pipeline, 3}, {core::axis::shard, 4}};
  const std::string lanes = lanes_svg(played(plan::plans_of(plan::gpt_table(4, 64, 256, false), o)));
  for (const uint32_t rank : {0, 1, 2, 4, 5, 6, 8, 9})
    BOOST_TEST(has(lanes, fmt::format(">rank {}</text>", rank)), rank);
  BOOST_TEST(has(lanes, "8 of 12 ranks."));
}

BOOST_AUTO_TEST_CASE(curves_of_one_value_of_constants_and_of_extremes_are_drawn) {
  for (const double y : {0.0, 1.0, -3.0, 1e-300, 1e300, 4e-5}) {
    run_curves c;
    c.loss.add(1, y);
    data.curves = &c;
    check_nesting(report_page(data));
    c.loss.add(2, y);
    const std::string page = report_page(data);
    BOOST_TEST(!has(page, "nan"), y);
    BOOST_TEST(!has(page, "inf "), y);
  }
}

BOOST_AUTO_TEST_SUITE_END()
