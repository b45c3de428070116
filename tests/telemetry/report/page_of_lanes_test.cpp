// Tests the page of lanes: it holds every rank and instruction at its time, says what it leaves out, needs no other
// file, and text never becomes markup.
#include "telemetry/report/lanes_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stack>

#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/analysis/step_graph.hpp"
#include "telemetry/analysis/step_maker.hpp"
#include "tests/telemetry/spans_of.hpp"

BOOST_AUTO_TEST_SUITE(page_of_lanes)

using namespace troupe;
using namespace troupe::telemetry;
using nlohmann::json;

namespace {

constexpr int64_t zero_ns = 1'000'000'000;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Returns the object that the page's script reads.
json data_of(const std::string& page) {
  const std::string begin = "id=\"lanes-data\">";
  const auto at = page.find(begin);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  const auto from = at + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

/// Returns the page without what is inside its scripts and styles.
std::string markup_of(const std::string& page) {
  static const std::regex opened("<(script|style)[^>]*>");
  std::string out;
  auto rest = page;
  for (std::smatch m; std::regex_search(rest, m, opened);) {
    out += m.prefix().str() + m[0].str();
    const std::string after = m.suffix(), end = "</" + m[1].str() + ">";
    const auto closed = after.find(end);
    BOOST_TEST_REQUIRE(closed != std::string::npos);
    rest = after.substr(closed);
    out += rest.substr(0, end.size());
    rest = rest.substr(end.size());
  }
  return out + rest;
}

/// Checks that elements are closed in the reverse order in which they were opened.
void check_closed(const std::string& page) {
  const std::regex tag("<(/?)([a-zA-Z][a-zA-Z0-9]*)([^<>]*)>");
  const std::string markup = markup_of(page);
  std::stack<std::string> open;
  for (auto it = std::sregex_iterator(markup.begin(), markup.end(), tag); it != std::sregex_iterator(); ++it) {
    const std::string name = (*it)[2], rest = (*it)[3];
    if (name == "meta" || (!rest.empty() && rest.back() == '/')) continue;
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

struct read_bar {
  std::string name;
  int64_t start_ns = 0, end_ns = 0;
  uint64_t more = 0;
};

std::vector<read_bar> bars_of_row(const json& data, const json& row) {
  std::vector<read_bar> out;
  const auto& flat = row.at(3);
  int64_t at_ns = 0;
  for (size_t i = 0; i + 3 < flat.size(); i += 4) {
    at_ns += flat[i].get<int64_t>();
    out.push_back({data.at("works")[flat[i + 2].get<size_t>()][0], at_ns, at_ns + flat[i + 1].get<int64_t>(),
                   flat[i + 3].get<uint64_t>()});
  }
  return out;
}

/// Returns the bars of a lane of the rank with this title.
std::vector<read_bar> bars_of(const json& data, const std::string& rank, const std::string& lane, int predicted = 0) {
  for (const auto& row : data.at("rows"))
    if (data.at("ranks")[row[0].get<size_t>()] == rank && row[1] == lane && row[2] == predicted)
      return bars_of_row(data, row);
  return {};
}

/// A picture of this many ranks with one lane of `bars` instructions of 100 ns, one every 1,000 ns.
lanes_picture made_picture(uint32_t ranks, uint32_t bars) {
  step_maker maker(0);
  for (uint32_t r = 0; r < ranks; ++r)
    for (uint32_t i = 0; i < bars; ++i) {
      traced_span x;
      x.rank = maker.rank(r);
      x.lane = maker.lane(x.rank, "compute", false);
      x.kind = maker.kind("forward");
      x.name = maker.name(fmt::format("forward {}", i));
      x.start_ns = 1000 * int64_t{i};
      x.end_ns = x.start_ns + 100;
      maker.add(std::move(x));
    }
  const traced_step step = maker.finished();
  const auto graph = step_graph::of(step);
  BOOST_TEST_REQUIRE(graph.has_value());
  lanes_picture out;
  out.add(*graph, false);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_page_holds_every_instruction_of_every_rank_at_its_time) {
  const auto step = played_gpt(2);
  lanes_page page;
  page.title = "gpt";
  page.picture.add(step, zero_ns, false);
  const auto data = data_of(page_of(std::move(page)));
  BOOST_TEST((data.at("ranks") == json({"rank 0", "rank 1"})));
  for (const auto& r : step) {
    const std::string rank = fmt::format("rank {}", r.plan->rank);
    size_t drawn = 0;
    for (const auto lane : {plan::lane::compute, plan::lane::fabric, plan::lane::shard}) {
      std::multiset<std::string> wanted, got;
      for (const uint32_t id : r.plan->lanes[static_cast<size_t>(lane)]) wanted.insert(r.plan->describe(id));
      for (const auto& b : bars_of(data, rank, std::string(plan::name_of(lane)))) got.insert(b.name);
      BOOST_TEST((got == wanted), rank << " " << plan::name_of(lane));
      drawn += got.size();
    }
    BOOST_TEST(drawn > 10U);
    const auto compute = bars_of(data, rank, "compute");
    for (const uint32_t id : r.plan->lanes[static_cast<size_t>(plan::lane::compute)]) {
      const auto at = std::ranges::find_if(compute, [&](const read_bar& b) {
        return b.name == r.plan->describe(id) && b.start_ns == r.spans[id].start_ns - zero_ns;
      });
      BOOST_TEST_REQUIRE((at != compute.end()), r.plan->describe(id));
      BOOST_TEST(at->end_ns == r.spans[id].end_ns - zero_ns);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_predicted_row_of_a_lane_is_above_its_measured_one) {
  const auto step = played_gpt(2);
  auto later = step;
  for (auto& r : later)
    for (auto& i : r.spans) i.end_ns += 5;
  lanes_page page;
  page.picture.add(later, zero_ns, false);
  page.picture.add(step, zero_ns, true);
  const auto data = data_of(page_of(std::move(page)));
  const auto& rows = data.at("rows");
  BOOST_TEST_REQUIRE(rows.size() % 2 == 0);
  for (size_t i = 0; i < rows.size(); i += 2) {
    BOOST_TEST(rows[i][0] == rows[i + 1][0]);
    BOOST_TEST(rows[i][1] == rows[i + 1][1]);
    BOOST_TEST(rows[i][2] == 1);
    BOOST_TEST(rows[i + 1][2] == 0);
  }
  const auto predicted = bars_of(data, "rank 0", "compute", 1), measured = bars_of(data, "rank 0", "compute", 0);
  BOOST_TEST_REQUIRE(predicted.size() == measured.size());
  BOOST_TEST(predicted.front().end_ns + 5 == measured.front().end_ns);
}

BOOST_AUTO_TEST_CASE(stages_of_a_pipeline_are_named_and_an_instruction_that_did_not_run_is_not_drawn) {
  auto step = played_pipeline();
  const uint32_t left_out = step[1].plan->lanes[static_cast<size_t>(plan::lane::compute)].back();
  step[1].spans[left_out] = {not_run_ns, not_run_ns};
  lanes_page page;
  page.picture.add(step, zero_ns, false);
  page.picture.set_title(1, "rank 1 and 3 like it");
  page.picture.add_mark({0, "step 1"});
  page.picture.add_mark({2000, "fault: rank 1 dies", true});
  const auto data = data_of(page_of(std::move(page)));
  BOOST_TEST_REQUIRE(data.at("ranks").size() == step.size());
  for (size_t i = 0; i < step.size(); ++i)
    BOOST_TEST(data.at("ranks")[i] ==
               (i == 1 ? "rank 1 and 3 like it" : plan::rank_text(*step[i].plan->layout, static_cast<uint32_t>(i))));
  BOOST_TEST((data.at("marks") == json::parse(R"([[0,"step 1",0],[2000,"fault: rank 1 dies",1]])")));
  BOOST_TEST(bars_of(data, "rank 1 and 3 like it", "compute").size() + 1 ==
             step[1].plan->lanes[static_cast<size_t>(plan::lane::compute)].size());
  BOOST_TEST(contains(bars_of(data, "rank 0, stage 0", "compute").front().name, ", stage 0"));
}

BOOST_AUTO_TEST_CASE(what_is_left_out_is_said_and_what_is_merged_is_counted) {
  auto few = made_picture(10, 50);
  const auto whole = few.thin();
  BOOST_TEST(whole.is_whole());
  BOOST_TEST(whole.bars == 500U);

  const auto by_ranks = few.thin(4);
  BOOST_TEST(!by_ranks.is_whole());
  BOOST_TEST(by_ranks.ranks == 10U);
  BOOST_TEST(by_ranks.drawn_ranks == 4U);
  BOOST_TEST(few.num_ranks() == 4U);
  BOOST_TEST(few.rows().front()->rank == 0U);
  BOOST_TEST(few.rows().back()->rank == 8U);
  BOOST_TEST(by_ranks.instructions == 200U);

  const auto by_bars = few.thin(4, 60);
  BOOST_TEST(by_bars.bars <= 60U);
  BOOST_TEST(by_bars.bars >= 16U);
  BOOST_TEST(by_bars.merged_ns > 0);
  size_t counted = 0;
  for (const auto* r : few.rows())
    for (const auto& b : r->bars) counted += 1 + b.more;
  BOOST_TEST(counted == 200U);
  BOOST_TEST(few.thin(4, 60).instructions == 200U);

  lanes_page page;
  page.picture = made_picture(picture_ranks_limit + 44, picture_bars_limit / picture_ranks_limit + 20);
  const auto text = page_of(std::move(page));
  BOOST_TEST(contains(text, "<b>256 of 300 ranks are drawn</b>"));
  BOOST_TEST(contains(text, " instructions are drawn as "));
  size_t bars = 0;
  const auto data = data_of(text);
  for (const auto& row : data.at("rows")) bars += row[3].size() / 4;
  BOOST_TEST(bars <= picture_bars_limit);
  BOOST_TEST(bars > picture_bars_limit / 8);
  BOOST_TEST(text.size() < 8'000'000U);
}

BOOST_AUTO_TEST_CASE(a_page_needs_no_other_file_and_closes_its_elements) {
  lanes_page page;
  page.title = "gpt";
  page.summary = "a step takes 2 ms";
  page.errors = {"rank 1 died"};
  page.notes = {"a note"};
  page.picture.add(played_gpt(2), zero_ns, false);
  page.tables = {{"Breakdown", "means", {"part", "ms"}, {{"compute", "1.5"}, {"update", "0.5"}}}};
  const auto text = page_of(std::move(page));
  for (const char* part : {"http:", "https:", "//cdn", "src=", "<link", "<img", "<iframe", "@import", "url(", "fetch("})
    BOOST_TEST(!contains(text, part), part);
  for (const char* part :
       {"<title>gpt</title>", "<h1>gpt</h1>", "a step takes 2 ms", "<p class=\"failure\">rank 1 died</p>", "a note",
        "<h2>Breakdown</h2>", "<tr><td>compute</td><td>1.5</td></tr>", "prefers-color-scheme:dark",
        "width=device-width", "default-src 'none'", "<noscript>", "key x-forward", "aria-label=\"zoom in\""})
    BOOST_TEST(contains(text, part), part << " is missing");
  check_closed(text);
}

BOOST_AUTO_TEST_CASE(names_of_other_programs_stay_text_and_have_a_colour_of_their_sort) {
  const std::string evil = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";
  step_maker maker(0);
  traced_span x;
  x.rank = maker.rank(0);
  x.lane = maker.lane(0, evil, false);
  x.kind = maker.kind(evil);
  x.name = maker.name(evil);
  x.sort = work_sort::disk;
  x.end_ns = 1000;
  maker.add(std::move(x));
  const traced_step step = maker.finished();
  const auto graph = step_graph::of(step);
  BOOST_TEST_REQUIRE(graph.has_value());
  lanes_page page;
  page.title = page.summary = evil;
  page.notes = page.errors = {evil};
  page.picture.add(*graph, false);
  page.picture.set_title(0, evil);
  page.picture.add_mark({0, evil});
  page.tables = {{evil, evil, {evil}, {{evil}}}};
  const auto text = page_of(std::move(page));
  BOOST_TEST(!contains(text, "<script>alert"));
  BOOST_TEST(!contains(text, "<img"));
  const auto data = data_of(text);
  BOOST_TEST(data.at("works")[0][0] == evil);
  BOOST_TEST(data.at("ranks")[0] == evil);
  BOOST_TEST(data.at("rows")[0][1] == evil);
  BOOST_TEST(data.at("kinds")[0][1] == "swap_in");
  check_closed(text);
}

BOOST_AUTO_TEST_CASE(a_page_without_instructions_says_so) {
  const auto text = page_of({});
  BOOST_TEST(contains(text, "No instruction ran."));
  BOOST_TEST(!contains(text, "<canvas"));
  BOOST_TEST(!contains(text, "<script"));
  check_closed(text);
}

BOOST_AUTO_TEST_CASE(a_predicted_step_has_spans_from_its_begin_on) {
  const auto plans = plan::plans_of(plan::gpt_table(2, 64, 256, false), plan::small_options(2, 3));
  const auto t = plan::predict(plans, plan::cost_model{});
  const auto spans = spans_of(t);
  BOOST_TEST_REQUIRE(spans.size() == 2U);
  int64_t end_ns = 0;
  for (const auto& r : spans)
    for (const auto& i : r.spans) {
      BOOST_TEST(i.start_ns >= 0);
      end_ns = std::max(end_ns, i.end_ns);
    }
  BOOST_TEST(std::abs(double(end_ns) / 1e9 - t.step_s) < 1e-8);
}

BOOST_AUTO_TEST_SUITE_END()
