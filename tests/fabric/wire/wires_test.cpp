// Tests that the fake links of tests/fakes/wires.hpp pass the tests of byte_mover, and end when stop() or lose() is
// called.
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/fabric/wire/mover_contract.hpp"
#include "tests/fakes/wires.hpp"

BOOST_AUTO_TEST_SUITE(wires)

namespace {

using namespace troupe;

/// Processes that are connected by fake links, whose order of events depends on a seed.
template <uint64_t seed>
class fake_world {
 public:
  explicit fake_world(uint32_t places) {
    for (uint32_t place = 0; place < places; ++place) movers_.push_back(wires_->at(place));
  }
  fabric::byte_mover& at(uint32_t place) { return *movers_[place]; }
  void let_pass() { wires_->step(); }

 private:
  std::shared_ptr<fabric::modelled_wires> wires_ = std::make_shared<fabric::modelled_wires>(seed);
  std::vector<std::shared_ptr<fabric::byte_mover>> movers_;
};

using worlds = boost::mpl::list<fake_world<1>, fake_world<2>, fake_world<3>>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(bytes_arrive_as_they_were_whoever_calls_first, world, worlds) {
  tests::mover_contract<world>::bytes_arrive_as_they_were_whoever_calls_first();
}
BOOST_AUTO_TEST_CASE_TEMPLATE(names_and_directions_keep_transfers_apart, world, worlds) {
  tests::mover_contract<world>::names_and_directions_keep_transfers_apart();
}
BOOST_AUTO_TEST_CASE_TEMPLATE(a_transfer_waits_for_both_ends_and_holds_up_no_other, world, worlds) {
  tests::mover_contract<world>::a_transfer_waits_for_both_ends_and_holds_up_no_other();
}
BOOST_AUTO_TEST_CASE_TEMPLATE(notes_come_whole_and_in_order_beside_transfers, world, worlds) {
  tests::mover_contract<world>::notes_come_whole_and_in_order_beside_transfers();
}
BOOST_AUTO_TEST_CASE_TEMPLATE(moved_bytes_are_counted_by_place_and_direction, world, worlds) {
  tests::mover_contract<world>::moved_bytes_are_counted_by_place_and_direction();
}
BOOST_AUTO_TEST_CASE_TEMPLATE(whoever_stops_touches_and_tells_nothing_any_more, world, worlds) {
  tests::mover_contract<world>::whoever_stops_touches_and_tells_nothing_any_more();
}

BOOST_AUTO_TEST_CASE(a_lost_process_ends_the_transfers_of_others_with_it_now_and_later) {
  const auto wires = std::make_shared<fabric::modelled_wires>(1);
  const auto a = wires->at(0), b = wires->at(1), c = wires->at(2);
  const std::vector<std::byte> from(10);
  std::vector<std::byte> to(10);
  tests::transfers with_lost, others;
  a->send(1, {0, 0, 0}, from, with_lost.tell());
  wires->lose(1, {core::error_kind::peer_lost, "process 1 was lost"});
  a->receive(1, {0, 0, 1}, to, with_lost.tell());
  a->send(2, {0, 0, 2}, from, others.tell());
  c->receive(0, {0, 0, 2}, to, others.tell());
  while (wires->step()) {
  }
  BOOST_TEST(with_lost.errors().size() == 2U);
  for (const auto& e : with_lost.errors()) BOOST_TEST(e.text == "process 1 was lost");
  BOOST_TEST(others.all_told());
  BOOST_TEST(others.errors().empty());
}

BOOST_AUTO_TEST_SUITE_END()
