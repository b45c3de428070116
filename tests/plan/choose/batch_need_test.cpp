// Tests the memory that batch sizes require, and the error for a batch that does not fit.
#include "plan/choose/batch_need.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(batch_need)

using namespace troupe::plan;

namespace {

constexpr uint64_t gibi = uint64_t{1} << 30;

/// Returns two units of one segment each, which keep 100 and 300 bytes of each sample.
troupe::core::model_table two_units() {
  troupe::core::model_table t;
  t.units.push_back({"a", {}, {{"a", {}, 0, 100}}});
  t.units.push_back({"b", {}, {{"b", {}, 0, 300}}});
  t.units[1].input_bytes = 50;
  return t;
}

}  // namespace

BOOST_AUTO_TEST_CASE(tokens_and_activations_grow_with_rows_and_ranks) {
  const batch_request r{.rows = 10, .columns = 7, .accumulation = 1, .prefetched = 3, .ranks = 2};
  const auto need = need_of(two_units(), r);
  BOOST_TEST(need.tokens == 2.0 * 4 * 10 * 8 * 8);
  BOOST_TEST(need.activations == 2.0 * 10 * 400);
  auto again = r;
  again.recompute = true;
  BOOST_TEST(need_of(two_units(), again).activations == 2.0 * 10 * 350);
  again.inputs_on_disk = true;
  BOOST_TEST(need_of(two_units(), again).activations == 2.0 * 10 * 300);
}

BOOST_AUTO_TEST_CASE(absurd_sizes_are_refused_with_what_they_would_need) {
  batch_request r{.rows = 1'000'000'000'000, .columns = 1 << 24, .ranks = 2};
  const auto rows = refusal_of(two_units(), r, 16 * gibi, "this machine's memory");
  BOOST_TEST(rows.key == "train_micro_batch_size_per_gpu");
  BOOST_TEST(rows.text ==
             "wanted batches that fit this machine's memory of 16.0 GiB, got micro-batches of 1000000000000 samples of "
             "16777216 tokens on 2 ranks, which need 728 TiB for activations and 233 EiB for tokens");
  r = {.rows = 1, .columns = 64, .accumulation = 1'000'000'000'000, .ranks = 1};
  const auto micros = refusal_of(two_units(), r, 16 * gibi, "this machine's memory");
  BOOST_TEST(micros.key == "gradient_accumulation_steps");
  BOOST_TEST(micros.text ==
             "wanted steps that fit this machine's memory of 16.0 GiB, got 1000000000000 micro-batches a step, with "
             "plans of 1.42 PiB");
}

BOOST_AUTO_TEST_CASE(batches_that_fit_and_unknown_memory_are_not_refused) {
  BOOST_TEST(refusal_of(two_units(), {.rows = 1000, .columns = 64}, gibi, "memory").key == "");
  BOOST_TEST(refusal_of(two_units(), {.rows = 1'000'000'000'000, .columns = 64}, 0, "memory").key == "");
}

// The estimate is a lower bound: if it exceeded the real size of plans, jobs that work would be refused.
BOOST_AUTO_TEST_CASE(a_plan_has_at_least_the_instructions_that_are_counted) {
  auto o = small_options(2, 1, 4);
  const auto table = gpt_table(2, 64, 256, true);
  size_t segments = 0;
  for (const auto& u : table->units) segments += u.segments.size();
  BOOST_TEST(plans_of(table, o)[0]->instructions.size() >= 4 * 2 * segments);
}

BOOST_AUTO_TEST_SUITE_END()
