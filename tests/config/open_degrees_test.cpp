// Tests parallel degrees that are `auto`: the possible combinations, the reason why each is unsuitable, and errors with
// their position.
#include "config/open_degrees.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "config/explain.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(open_degrees)

using namespace troupe::config;

namespace {

/// Returns the smallest file with a batch of 16 samples per step and `line` as line 3.
std::string with_parallel(const std::string& line) {
  std::string text = smallest_with("parallel: {data: 2}", line);
  const std::string micro = "train_micro_batch_size_per_gpu: 4\n";
  return text.replace(text.find(micro), micro.size(), "train_batch_size: 16\ntrain_micro_batch_size_per_gpu: 4\n");
}
const std::string all_open = "parallel: {ranks: 4, pipeline: auto, tensor: auto, data: auto}";

loaded loaded_from(const std::string& text, const load_options& options = {}) {
  auto l = load_text(text, "j.yaml", "/base", options);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  return std::move(*l);
}

std::vector<std::string> ways_of(const loaded& l) {
  std::vector<std::string> out;
  for (const auto& way : l.config.open_degrees) out.push_back(degrees_text(way.parallel));
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_way_to_share_out_the_ranks_is_there_once_data_first_and_pipelines_last) {
  const auto ways = ways_of(loaded_from(with_parallel(all_open)));
  const std::vector<std::string> wanted = {
      "data 4", "data 2 x tensor 2", "tensor 4", "pipeline 2 x data 2", "pipeline 2 x tensor 2", "pipeline 4"};
  BOOST_TEST(ways == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(data_that_is_not_given_is_open_beside_an_open_degree_and_given_degrees_stay) {
  const std::vector<std::string> wanted = {"data 2 x tensor 2", "pipeline 2 x tensor 2"};
  for (const char* line : {"parallel: {ranks: 4, pipeline: auto, tensor: 2}",
                           "parallel: {ranks: 4, pipeline: auto, tensor: 2, data: auto}",
                           "parallel: {ranks: 4, pipeline: auto, tensor: auto}\ntensor_parallel: {autotp_size: 2}"})
    BOOST_TEST_CONTEXT(line)
    BOOST_TEST(ways_of(loaded_from(with_parallel(line))) == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_single_open_degree_is_what_the_others_leave) {
  const auto l = loaded_from(with_parallel("parallel: {ranks: 6, pipeline: auto, data: 2}"));
  BOOST_TEST(l.config.open_degrees.empty());
  BOOST_TEST(l.config.parallel.pipeline == 3U);
  BOOST_TEST(loaded_from(with_parallel("parallel: {ranks: 4, data: auto}")).config.parallel.data == 4U);
}

BOOST_AUTO_TEST_CASE(a_way_has_its_batch_sizes_and_the_sentence_of_the_file_that_says_the_same) {
  const auto l = loaded_from(with_parallel("parallel: {ranks: 8, pipeline: auto, data: auto}"));
  for (const auto& way : l.config.open_degrees) BOOST_TEST_CONTEXT(degrees_text(way.parallel)) {
      const auto& p = way.parallel;
      const std::string same = fmt::format("parallel: {{ranks: 8, pipeline: {}, data: {}}}", p.pipeline, p.data);
      const auto alone = load_text(with_parallel(same), "j.yaml", "/base");
      BOOST_TEST(alone.has_value() == way.refusal.empty());
      if (!alone) {
        BOOST_TEST(has(render(alone.error()), "error: " + way.refusal + "\n"));
        continue;
      }
      const job_config taken = l.config.with(way);
      BOOST_TEST(taken.train_batch_size == 16U);
      BOOST_TEST(taken.gradient_accumulation_steps == alone->config.gradient_accumulation_steps);
      BOOST_TEST(taken.parallel.ranks() == 8U);
      BOOST_TEST(taken.open_degrees.empty());
    }
  BOOST_TEST(has(l.config.open_degrees.front().refusal, "train_batch_size: wanted"));
}

BOOST_AUTO_TEST_CASE(an_override_opens_and_closes_degrees) {
  BOOST_TEST(loaded_from(with_parallel(all_open), {.overrides = {"parallel.tensor=2"}}).config.open_degrees.size() ==
             2U);
  const auto closed = loaded_from(with_parallel(all_open), {.overrides = {"parallel.tensor=2", "parallel.data=1"}});
  BOOST_TEST(closed.config.open_degrees.empty());
  BOOST_TEST(closed.config.parallel.pipeline == 2U);
  BOOST_TEST(loaded_from(with_parallel("parallel: {ranks: 4}"), {.overrides = {"parallel.pipeline=auto"}})
                 .config.open_degrees.size() == 3U);
}

BOOST_AUTO_TEST_CASE(what_is_effective_is_auto_until_a_way_is_taken_and_loads_to_the_same_job) {
  auto l = loaded_from(with_parallel(all_open));
  const std::string open = effective_yaml(l);
  BOOST_TEST(has(open, "  pipeline: auto\n"), open);
  BOOST_TEST(has(open, "gradient_accumulation_steps: auto\n"), open);
  BOOST_TEST(has(open, "train_micro_batch_size_per_gpu: 4\n"), open);
  BOOST_TEST(ways_of(loaded_from(open)) == ways_of(l), boost::test_tools::per_element());
  BOOST_TEST(has(explain_text(l, shown_keys::all), "parallel.tensor = auto  (auto)"));
  take_degrees(l.config.open_degrees[4], l);
  const std::string taken = effective_yaml(l);
  BOOST_TEST(has(taken, "  pipeline: 2\n"), taken);
  BOOST_TEST(has(taken, "gradient_accumulation_steps: 4\n"), taken);
  BOOST_TEST(has(explain_text(l, shown_keys::all), "parallel.tensor = 2  (chosen)"));
  BOOST_TEST(loaded_from(taken).config.parallel.tensor == 2U);
}

BOOST_AUTO_TEST_CASE(what_leaves_no_choice_is_refused_with_its_place) {
  const auto refused = [](const std::string& line) { return errors_of(with_parallel(line)); };
  BOOST_TEST(refused("parallel: {pipeline: auto, tensor: auto, data: auto}") ==
             "j.yaml:3:22: error: parallel.pipeline: auto requires parallel.ranks, the number of ranks to share out; "
             "set parallel.ranks\n");
  BOOST_TEST(
      refused("parallel: {ranks: 4, pipeline: 3, tensor: auto}") ==
      "j.yaml:3:19: error: parallel.ranks: wanted a multiple of pipeline 3, the degrees that are not auto, got 4\n");
  BOOST_TEST(
      refused("parallel: {ranks: 2, pipeline: 4, tensor: auto}") ==
      "j.yaml:3:19: error: parallel.ranks: wanted a multiple of pipeline 4, the degrees that are not auto, got 2\n");
  BOOST_TEST(refused("parallel: {ranks: 1, pipeline: auto, tensor: auto, data: auto}") ==
             "j.yaml:3:19: error: parallel.ranks: wanted at least 2 ranks, so that auto can share some out, got 1\n");
  BOOST_TEST(refused("parallel: {ranks: 3, pipeline: 3, tensor: auto}") ==
             "j.yaml:3:19: error: parallel.ranks: wanted at least 6 ranks, so that auto can share some out with "
             "pipeline 3, got 3\n");
  BOOST_TEST(refused("parallel: {ranks: 0, pipeline: auto}") ==
             "j.yaml:3:19: error: parallel.ranks: wanted an integer from 1 to 268435456, got 0\n");
  BOOST_TEST(refused("parallel: {ranks: all, pipeline: auto}") ==
             "j.yaml:3:19: error: parallel.ranks: wanted an integer from 1 to 268435456, got all\n");
  BOOST_TEST(refused("parallel: {ranks: 131072, pipeline: auto}") ==
             "j.yaml:3:19: error: parallel.ranks: wanted at most 65536 ranks to share out by auto, got 131072\n");
  BOOST_TEST(has(refused("parallel: {ranks: 5040, pipeline: auto, tensor: auto, context: auto, sequence: auto}"),
                 "j.yaml:3:19: error: parallel.ranks: wanted at most 512 ways to share out 5040 ranks by auto, got "));
}

BOOST_AUTO_TEST_CASE(a_batch_that_would_follow_the_choice_is_refused) {
  BOOST_TEST(errors_of(smallest_with("{data: 2}", "{ranks: 4, pipeline: auto}")) ==
             "j.yaml:3:32: error: parallel.pipeline: auto requires train_batch_size, so that a step has the same "
             "number of samples at each data degree; set train_batch_size\n");
  BOOST_TEST(errors_of(smallest_with("{data: 2}", "{ranks: 8, pipeline: auto, tensor: auto, data: 2}")).empty());
}

BOOST_AUTO_TEST_CASE(what_every_way_gets_wrong_is_told_once_and_the_rest_beside_the_ranks) {
  const std::string steps = with_parallel(all_open) + "checkpoint: {tag: ../x}\nsede: 2\n";
  BOOST_TEST(errors_of(steps) ==
             "j.yaml:10:19: error: checkpoint.tag: wanted letters, digits, '.', '_', '-' and {step}, not beginning "
             "with '.' or '-', got ../x\nj.yaml:11:1: error: sede: unknown key; the nearest known one is seed\n");
  const std::string odd = with_parallel("parallel: {ranks: 3, pipeline: auto, data: auto, shard: 2}");
  const std::string got = errors_of(odd);
  BOOST_TEST(has(got,
                 "j.yaml:3:19: error: parallel.ranks: 3 ranks cannot be shared out by auto, because every combination "
                 "of degrees is refused; change parallel.ranks or the keys named here; data 3: "),
             got);
  BOOST_TEST(has(got, "; pipeline 3: parallel.shard: wanted a divisor of the 1 ranks of parallel.data, got 2\n"), got);
}

BOOST_AUTO_TEST_SUITE_END()
