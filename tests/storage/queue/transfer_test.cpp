// Tests storage/queue/transfer.hpp: the state of one request, without any system call.
#include "storage/queue/transfer.hpp"

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <vector>

using namespace troupe;
using namespace troupe::storage;

namespace {

struct request {
  file on = *file::in_memory("made up");
  std::vector<std::byte> memory = std::vector<std::byte>(1000);
  storage::transfer reading() { return storage::transfer(read_request(on, 50, memory, 9)); }
  storage::transfer writing() { return storage::transfer(write_request(on, 50, memory, 9)); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(transfer, request)

BOOST_AUTO_TEST_CASE(a_short_transfer_continues_where_it_stopped) {
  auto t = writing();
  BOOST_TEST(!t.account(300));
  BOOST_TEST(t.rest_offset() == 350U);
  BOOST_TEST(t.rest().size() == 700U);
  BOOST_TEST(t.account(700));
  BOOST_TEST(t.completion().bytes == 1000U);
  BOOST_TEST(t.completion().token == 9U);
  BOOST_TEST(!t.completion().error);
}

BOOST_AUTO_TEST_CASE(the_end_of_the_file_is_a_short_count_and_no_error) {
  auto t = reading();
  BOOST_TEST(!t.account(300));
  BOOST_TEST(t.account(0));
  BOOST_TEST(t.completion().bytes == 300U);
  BOOST_TEST(!t.completion().error);
}

BOOST_AUTO_TEST_CASE(a_write_of_nothing_is_an_error) {
  auto t = writing();
  BOOST_TEST(t.account(0));
  BOOST_REQUIRE(t.completion().error);
}

BOOST_AUTO_TEST_CASE(interruptions_are_repeated_a_limited_number_of_times) {
  auto t = reading();
  for (unsigned i = 0; i < interruptions_max; ++i) BOOST_REQUIRE(!t.account(i % 2 == 0 ? -EINTR : -EAGAIN));
  BOOST_TEST(!t.account(1));  // each transferred byte resets the count of retries
  for (unsigned i = 0; i < interruptions_max; ++i) BOOST_REQUIRE(!t.account(-EINTR));
  BOOST_TEST(t.account(-EINTR));
  BOOST_REQUIRE(t.completion().error);
  BOOST_TEST(t.completion().error->text ==
             "made up: read at 50: wanted 1000 bytes, got 1: interrupted 1000 times in a row");
}

BOOST_AUTO_TEST_CASE(cuts_are_continued_a_limited_number_of_times) {
  auto t = writing();
  for (unsigned i = 0; i < continuations_max; ++i) BOOST_REQUIRE(!t.account(1));
  BOOST_TEST(t.account(1));
  BOOST_TEST(t.completion().bytes == continuations_max + 1);
  BOOST_REQUIRE(t.completion().error);
}

BOOST_AUTO_TEST_CASE(errors_carry_their_kind_and_the_transferred_bytes) {
  auto t = writing();
  BOOST_TEST(!t.account(10));
  BOOST_TEST(t.account(-ENOSPC));
  BOOST_TEST((t.completion().error->kind == core::error_kind::no_space));
  BOOST_TEST(t.completion().bytes == 10U);
  auto u = reading();
  BOOST_TEST(u.account(-EIO));
  BOOST_TEST((u.completion().error->kind == core::error_kind::io));
  BOOST_TEST(u.completion().error->text == "made up: read at 50: wanted 1000 bytes, got 0: Input/output error");
}

BOOST_AUTO_TEST_CASE(a_cancelled_request_goes_no_further_but_keeps_an_end_that_came_in_time) {
  auto stopped = writing();
  stopped.cancel();
  BOOST_TEST(stopped.account(10));
  BOOST_TEST((stopped.completion().error->kind == core::error_kind::stopped));
  BOOST_TEST(stopped.completion().bytes == 10U);
  auto late = writing();
  late.cancel();
  BOOST_TEST(late.account(1000));
  BOOST_TEST(!late.completion().error);
}

BOOST_AUTO_TEST_CASE(impossible_requests_are_refused) {
  const auto refused = [](const io_request& r) { return !storage::transfer::check(r); };
  BOOST_TEST(refused({}));
  BOOST_TEST(refused(read_request(on, 0, {})));
  BOOST_TEST(refused(read_request(on, ~uint64_t{0}, memory)));
  BOOST_TEST(refused(read_request(on, 0, {memory.data(), request_bytes_max + 1})));
  BOOST_TEST(!refused(read_request(on, 7, memory)));
}

BOOST_AUTO_TEST_SUITE_END()
