// Tests the widths of tensor-parallel shards against DeepSpeed's get_shard_size, and refusals of invalid splits.
#include "core/tp_plan.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(tp_plan)

namespace core = troupe::core;
using core::tp_style;
using core::tp_widths;
using shape = std::vector<int64_t>;

BOOST_AUTO_TEST_CASE(widths_are_dealt_in_whole_grains_and_the_last_rank_has_the_rest) {
  BOOST_TEST(core::dealt(101, 2) == (tp_widths{51, 50}), boost::test_tools::per_element());
  BOOST_TEST(core::dealt(50257, 4) == (tp_widths{12565, 12564, 12564, 12564}), boost::test_tools::per_element());
  BOOST_TEST(core::dealt(200, 3, 64) == (tp_widths{64, 64, 72}), boost::test_tools::per_element());
  BOOST_TEST(core::dealt(256, 3, 64) == (tp_widths{128, 64, 64}), boost::test_tools::per_element());
  // Ten is less than the grain of 64, so the grain is ignored.
  BOOST_TEST(core::dealt(10, 3, 64) == (tp_widths{4, 3, 3}), boost::test_tools::per_element());
  BOOST_TEST(core::dealt(2, 4) == (tp_widths{1, 1, 0, 0}), boost::test_tools::per_element());
  for (uint32_t degree = 1; degree < 9; ++degree)
    for (uint64_t grain : {1U, 8U, 64U})
      for (uint64_t total = 0; total < 300; total += 7) {
        BOOST_TEST_INFO_SCOPE("degree " << degree);
        BOOST_TEST_INFO_SCOPE("grain " << grain);
        BOOST_TEST_INFO_SCOPE("total " << total);
        const auto widths = core::dealt(total, degree, grain);
        BOOST_TEST(widths.size() == degree);
        BOOST_TEST(core::sum_of(widths) == total);
      }
}

BOOST_AUTO_TEST_CASE(heads_go_whole_and_with_more_ranks_than_heads_the_last_have_none) {
  BOOST_TEST(core::dealt_by_heads(384, 6, 4) == (tp_widths{128, 128, 64, 64}), boost::test_tools::per_element());
  BOOST_TEST(core::dealt_by_heads(64, 2, 3) == (tp_widths{32, 32, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_share_has_the_room_of_the_widest) {
  const core::parameter_cut packed{tp_style::column, 1, {{128, 64}, {64, 32}, {64, 32}}};
  BOOST_TEST(core::local_shape({16, 384}, packed) == (shape{16, 256}), boost::test_tools::per_element());
  BOOST_TEST(core::local_shape({16, 384}, {}) == (shape{16, 384}), boost::test_tools::per_element());
  BOOST_TEST(core::widths_text(packed) == "384: 256, 128");
  BOOST_TEST(core::widths_text({}) == "-");
}

BOOST_AUTO_TEST_CASE(a_cut_that_is_none_of_its_parameter_is_refused_by_name) {
  const auto refused = [](const core::parameter_cut& cut, const std::string& why) {
    const auto ok = core::check_cut("h.0.mlp.c_fc.weight", {16, 64}, cut, 2);
    BOOST_TEST_REQUIRE(!ok.has_value());
    BOOST_TEST(ok.error().text == "the tensor-parallel cut of 'h.0.mlp.c_fc.weight': " + why);
  };
  refused({tp_style::column, 1, {}}, "wanted the widths of its parts, got none");
  refused({tp_style::replicated, 0, {{8, 8}}}, "wanted no widths of a replicated parameter, got some");
  refused({tp_style::column, 2, {{8, 8}}}, "wanted one of 2 dimensions, got dimension 2");
  refused({tp_style::column, 1, {{32, 16, 16}}}, "wanted a width for each of 2 ranks, got 3");
  refused({tp_style::column, 1, {{32, 16}, {8, 4}}}, "wanted widths that sum to 64 along dimension 1, got 60");
  refused({tp_style::column, 1, {{UINT64_MAX, 1}, {64, 0}}},
          "wanted widths that sum to 64 along dimension 1, got more than 64 bits hold");
  BOOST_TEST(core::check_cut("w", {16, 64}, {tp_style::column, 1, {{32, 16}, {8, 8}}}, 2).has_value());
  BOOST_TEST(core::check_cut("w", {16, 64}, {}, 2).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
