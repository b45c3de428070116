// Tests the rule that connects train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "config/rules/resolve.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(batch)

using namespace troupe::config;

namespace {

std::string completed(uint64_t train, uint64_t micro, uint64_t accumulation, uint64_t ranks) {
  const auto b = complete({train, micro, accumulation}, ranks);
  return b ? fmt::format("{} {} {}", b->train, b->micro, b->accumulation) : "error";
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_or_one_of_the_three_give_the_others) {
  BOOST_TEST(completed(32, 8, 0, 2) == "32 8 2");
  BOOST_TEST(completed(32, 0, 4, 2) == "32 4 4");
  BOOST_TEST(completed(0, 8, 4, 2) == "64 8 4");
  BOOST_TEST(completed(32, 0, 0, 2) == "32 16 1");
  BOOST_TEST(completed(0, 8, 0, 2) == "16 8 1");
  BOOST_TEST(completed(0, 0, 0, 2) == "error");
  BOOST_TEST(completed(0, 0, 4, 2) == "error");
}

BOOST_AUTO_TEST_CASE(all_three_are_checked) {
  BOOST_TEST(completed(32, 16, 1, 2) == "32 16 1");
  BOOST_TEST(completed(32, 8, 2, 2) == "32 8 2");
  BOOST_TEST(completed(33, 17, 2, 2) == "error");
  BOOST_TEST(completed(32, 18, 1, 2) == "error");
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_divide_are_refused) {
  BOOST_TEST(completed(33, 8, 0, 2) == "error");
  BOOST_TEST(completed(33, 0, 0, 2) == "error");
  BOOST_TEST(completed(3, 0, 2, 2) == "error");
  BOOST_TEST(completed(8, 16, 0, 1) == "error");
}

BOOST_AUTO_TEST_CASE(products_beyond_64_bits_are_refused) {
  BOOST_TEST(completed(0, uint64_t{1} << 40, uint64_t{1} << 40, 2) == "error");
}

BOOST_AUTO_TEST_CASE(the_error_names_the_three_values_and_the_ranks) {
  BOOST_TEST(errors_of(smallest + "train_batch_size: 33\n") ==
             "j.yaml:9:19: error: train_batch_size: wanted train_batch_size = train_micro_batch_size_per_gpu x "
             "gradient_accumulation_steps x 2 data-parallel ranks, got 33, 4 and none: they do not fit\n");
  BOOST_TEST(errors_of(smallest_with("train_micro_batch_size_per_gpu: 4", ""))
                 .starts_with("j.yaml:1:1: error: train_batch_size: wanted train_batch_size = "));
}

BOOST_AUTO_TEST_SUITE_END()
