// Tests the encoding of notes (control messages between machines), which members receive them, and the order in which
// their errors apply.
#include "fabric/wire/notes.hpp"

#include <boost/test/unit_test.hpp>

#include <random>

#include "tests/fabric/shared_vector.hpp"
#include "tests/fakes/wires.hpp"

BOOST_AUTO_TEST_SUITE(notes)

namespace {

using namespace troupe;
using namespace troupe::fabric;

wire_note an_arrival() {
  static const std::vector<piece> pieces{{0, 1, 2, 3}, {4, 5, 6, 7}};
  request r;
  r.id = {.step = 3, .communicator = 8, .sequence = 12, .what = "reduce bucket 3"};
  r.op = operation::reduce_scatter;
  r.pieces = pieces;
  r.input_type = core::dtype::bf16;
  r.input_scale = 0.25F;
  r.accumulate = true;
  return {wire_note::kind::arrived, 2, 12, arrival::of(r, {1, 64}, {}), {}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_arrival_means_the_same_on_the_other_machine) {
  const wire_note said = an_arrival();
  const std::string text = text_of(77, said);
  std::string_view rest = text;
  BOOST_TEST(take_communicator(rest).value() == 77U);
  const auto received = note_of(rest);
  BOOST_REQUIRE(received.has_value());
  BOOST_TEST(received->member == 2U);
  BOOST_TEST(received->sequence == 12U);
  BOOST_TEST(!difference(said.said, received->said, 12).has_value());
  BOOST_TEST(received->said.as_request(12).id.what == "reduce bucket 3");
  BOOST_TEST((received->said.input == location{}), "places in memory mean nothing elsewhere");
}

BOOST_AUTO_TEST_CASE(an_ending_comes_with_its_reason_which_is_cut_to_fit) {
  const wire_note said{wire_note::kind::ends, 1, 9, {}, {core::error_kind::stopped, std::string(9'000, 'x')}};
  const std::string text = text_of(5, said);
  BOOST_TEST(text.size() <= note_bytes_max);
  std::string_view rest = text;
  BOOST_TEST(take_communicator(rest).value() == 5U);
  const auto received = note_of(rest);
  BOOST_REQUIRE(received.has_value());
  BOOST_TEST(received->sequence == 9U);
  BOOST_TEST((received->why.kind == core::error_kind::stopped));
  BOOST_TEST(received->why.text == std::string(reason_bytes_max, 'x'));
}

BOOST_AUTO_TEST_CASE(the_longest_note_fits) {
  wire_note n = an_arrival();
  n.said.what.fill('x');
  n.said.what.back() = '\0';
  BOOST_TEST(text_of(1, n).size() <= note_bytes_max);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_note_are_refused) {
  std::mt19937 random(2);
  const std::string good = text_of(1, an_arrival()).substr(8);
  for (size_t n = 0; n < good.size(); ++n) BOOST_TEST(!note_of(good.substr(0, n)).has_value());
  BOOST_TEST(!note_of(good + "x").has_value());
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)note_of(bytes);  // the result is irrelevant; only bytes within bounds may be read
  }
  std::string_view little = "1234567";
  BOOST_TEST(!take_communicator(little).has_value());
}

BOOST_AUTO_TEST_CASE(notes_that_come_before_somebody_listens_wait_for_him) {
  const auto wires = std::make_shared<modelled_wires>(1);
  const auto a = wires->at(0), b = wires->at(1);
  const auto hears = note_switch::make(*b);
  for (const uint64_t communicator : {3, 4, 3}) a->note(1, text_of(communicator, an_arrival()));
  a->note(1, "?");  // this text contains no communicator
  while (wires->step()) {
  }
  int three = 0, four = 0;
  hears->add(3, [&](uint32_t from, std::string_view text) { three += from == 0 && note_of(text).has_value(); });
  BOOST_TEST(three == 2);
  hears->add(4, [&](uint32_t, std::string_view) { ++four; });
  BOOST_TEST(four == 1);
  a->note(1, text_of(3, an_arrival()));
  while (wires->step()) {
  }
  BOOST_TEST(three == 3);
}

BOOST_AUTO_TEST_CASE(an_operation_fails_with_the_first_ending_in_force_that_reaches_down_to_it) {
  tests::shared_vector<std::byte> memory(endings::bytes_of(3));
  endings x(memory, 3), another_process(memory, 3);
  const auto why = [](const char* text) { return core::error{core::error_kind::stopped, text}; };
  x.say(0, {10, why("late")});
  x.say(0, {1, why("said twice")});
  BOOST_TEST(!x.failure_of(100).has_value(), "said, but not in force");
  x.enforce(0);
  x.enforce(0);
  BOOST_TEST(!x.in_force(1).has_value());
  another_process.say(2, {5, why("early")});
  another_process.enforce(2);
  BOOST_TEST(x.failure_of(10)->text == "late");
  BOOST_TEST(x.failure_of(9)->text == "early");
  BOOST_TEST(!x.failure_of(4).has_value());
  BOOST_TEST(x.is_in_force(2));
  BOOST_TEST(!x.is_in_force(1));
}

BOOST_AUTO_TEST_SUITE_END()
