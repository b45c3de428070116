// Checks that a stored result of a schedule search is reused while its inputs are unchanged, and only then.
#include "plan/schedule/kept_search.hpp"

#include "tests/check_ok.hpp"
#include "tests/plan/schedule/tables.hpp"

BOOST_AUTO_TEST_SUITE(kept_search)

using namespace troupe::plan;
using troupe::tests::check_ok;

namespace {

search_request uneven() {
  search_request r{4, 6, even_costs(4, 3, 2, 2, 0.25), UINT64_MAX, {}};
  r.costs.stages[2].backward_input_s = 2.7;
  return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_request_gets_what_was_found) {
  const auto r = uneven();
  const auto found = check_ok(search_schedule(r));
  const auto kept = check_ok(read_search(r, write_search(r, *found), found->table));
  BOOST_TEST((kept->table == found->table));
  BOOST_TEST(kept->from == found->from);
  BOOST_TEST(kept->total_s == found->total_s);
  BOOST_TEST(kept->peak_bytes == found->peak_bytes);
  BOOST_TEST(kept->bound_s == found->bound_s);
  BOOST_TEST(kept->bound_stage == found->bound_stage);
}

BOOST_AUTO_TEST_CASE(another_request_wants_another_search) {
  const auto r = uneven();
  const auto found = search_schedule(r);
  const std::string text = write_search(r, *found);
  const auto taken = [&](auto change) {
    auto other = r;
    change(other);
    return read_search(other, text, found->table).has_value();
  };
  BOOST_TEST(taken([](search_request&) {}));
  BOOST_TEST(!taken([](search_request& x) { x.costs.stages[1].forward_s += 1e-15; }));
  BOOST_TEST(!taken([](search_request& x) { x.costs.stages[3].activation_bytes = 2; }));
  BOOST_TEST(!taken([](search_request& x) { x.costs.transfer_s = 0; }));
  BOOST_TEST(!taken([](search_request& x) { x.memory_bytes = 100; }));
  BOOST_TEST(!taken([](search_request& x) { x.micro_batches = 5; }));
  BOOST_TEST(!taken([](search_request& x) { x.placement = stage_placement::folded; }));
  BOOST_TEST(!taken([](search_request& x) { x.costs.stages.push_back(x.costs.stages.back()); }));
}

BOOST_AUTO_TEST_CASE(a_table_that_does_not_keep_to_the_request_is_not_taken) {
  auto r = uneven();
  r.memory_bytes = 4;
  const auto found = check_ok(search_schedule(r));
  const std::string text = write_search(r, *found);
  BOOST_TEST(read_search(r, text, found->table).has_value());
  // This schedule exceeds the memory limit.
  BOOST_TEST(!read_search(r, text, named_table("gpipe", 4, 1, 6)).has_value());
  BOOST_TEST(!read_search(r, text, named_table("1f1b", 4, 1, 5)).has_value());
  BOOST_TEST(!read_search(r, text, named_table("forward_only", 4, 1, 6)).has_value());
  BOOST_TEST(!read_search(r, text + "more\n", found->table).has_value());
  BOOST_TEST(!read_search(r, text.substr(0, text.size() - 2), found->table).has_value());
  BOOST_TEST(!read_search(r, "", found->table).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
