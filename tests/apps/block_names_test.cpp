// Tests the names that stand for a module of several blocks.
#include "apps/base/block_names.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(block_names)

using namespace troupe::apps;

BOOST_AUTO_TEST_CASE(names_that_differ_in_their_block_are_one_with_ranges) {
  BOOST_TEST(for_blocks({"h.1.attn", "h.10.attn", "h.11.attn", "h.12.attn"}) == "h.{1,10-12}.attn");
  BOOST_TEST(for_blocks({"lm_head"}) == "lm_head");
}

BOOST_AUTO_TEST_CASE(numbers_beyond_64_bits_are_shown_as_they_are) {
  BOOST_TEST(for_blocks({"h.7.attn", "h.18446744073709551615.attn", "h.18446744073709551616.attn"}) ==
             "h.{7,18446744073709551615,18446744073709551616}.attn");
}

BOOST_AUTO_TEST_SUITE_END()
