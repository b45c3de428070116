// Tests core/token_order.hpp: positions in a batch, ordered by their token.
#include "core/token_order.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(token_order)

using namespace troupe;

BOOST_AUTO_TEST_CASE(places_are_grouped_by_token_and_in_order) {
  const std::vector<int64_t> numbers{5, 2, 5, 9, 2, 5};
  const core::token_order wanted{{2, 5, 9}, {0, 2, 5, 6}, {1, 4, 0, 2, 5, 3}};
  BOOST_TEST((core::order_of(numbers) == wanted));
  BOOST_TEST((core::order_of({}) == core::token_order{{}, {0}, {}}));
}

BOOST_AUTO_TEST_CASE(the_last_token_of_a_row_is_no_input) {
  const std::vector<int64_t> tokens{7, 3, 3, 1,  //
                                    3, 7, 7, 3};
  BOOST_TEST((core::order_of_inputs(tokens, 3) == core::order_of(std::vector<int64_t>{7, 3, 3, 3, 7, 7})));
}

BOOST_AUTO_TEST_CASE(columns_are_counted_from_where_their_document_begins) {
  const std::vector<uint32_t> starts{0, 0, 2, 2,  //
                                     0, 1, 1, 1};
  BOOST_TEST((core::order_of_columns(starts, 4) == core::order_of(std::vector<int64_t>{0, 1, 0, 1, 0, 0, 1, 2})));
}

BOOST_AUTO_TEST_CASE(columns_of_rows_have_the_order_of_a_batch_that_has_no_others) {
  const std::vector<int64_t> tokens{3, 1, 2, 1, 3,  //
                                    1, 1, 0, 3, 2};
  const auto all = core::order_of(tokens);
  BOOST_TEST((core::order_within(all, 5, {{{0, 5}}}) == all));
  const std::vector<int64_t> middle{1, 2, 1, 1, 0, 3};
  BOOST_TEST((core::order_within(all, 5, {{{1, 3}}}) == core::order_of(middle)));
  const std::vector<int64_t> ends{3, 1, 3, 1, 3, 2};
  BOOST_TEST((core::order_within(all, 5, {{{0, 1}, {3, 2}}}) == core::order_of(ends)));
  BOOST_TEST((core::order_within(all, 5, {{{2, 0}}}) == core::order_of({})));
}

BOOST_AUTO_TEST_SUITE_END()
