// Tests storage/queue/event_watch.hpp: a callback runs once each time that a descriptor becomes readable after resume()
// was called for it.
#include "storage/queue/event_watch.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <mutex>

BOOST_AUTO_TEST_SUITE(event_watch)

using namespace troupe;

namespace {

struct event {
  event() : descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  event(const event&) = delete;
  event& operator=(const event&) = delete;
  ~event() { ::close(descriptor); }
  void signal() const { BOOST_REQUIRE(::eventfd_write(descriptor, 1) == 0); }
  int descriptor;
};

struct calls {
  void one_more() {
    const std::lock_guard lock(mutex);
    ++count;
    changed.notify_all();
  }
  void wait_for(unsigned wanted) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return count >= wanted; });
    BOOST_TEST(count == wanted);
  }
  std::mutex mutex;
  std::condition_variable changed;
  unsigned count = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_is_called_once_until_it_asks_again) {
  const event first, second;
  calls of_first, of_second;
  const auto watch = *storage::event_watch::start();
  BOOST_REQUIRE(watch->add(first.descriptor, [&] { of_first.one_more(); }));
  BOOST_REQUIRE(watch->add(second.descriptor, [&] { of_second.one_more(); }));
  first.signal();
  of_first.wait_for(1);
  // The first descriptor is readable again, but resume() was not called for it. Once the second callback has run, the
  // first one must not have run again.
  first.signal();
  second.signal();
  of_second.wait_for(1);
  of_first.wait_for(1);
  watch->resume(first.descriptor);
  of_first.wait_for(2);
}

BOOST_AUTO_TEST_CASE(a_removed_descriptor_gets_no_call) {
  const event first, second;
  calls of_first, of_second;
  const auto watch = *storage::event_watch::start();
  BOOST_REQUIRE(watch->add(first.descriptor, [&] { of_first.one_more(); }));
  BOOST_REQUIRE(watch->add(second.descriptor, [&] { of_second.one_more(); }));
  watch->remove(first.descriptor);
  watch->resume(first.descriptor);
  first.signal();
  second.signal();
  of_second.wait_for(1);
  of_first.wait_for(0);
  BOOST_TEST(!watch->add(-1, [] {}));
}

BOOST_AUTO_TEST_CASE(a_watch_that_has_ended_makes_no_calls) {
  const event first;
  calls of_first;
  {
    const auto watch = *storage::event_watch::start();
    BOOST_REQUIRE(watch->add(first.descriptor, [&] { of_first.one_more(); }));
  }
  first.signal();
  of_first.wait_for(0);
}

BOOST_AUTO_TEST_SUITE_END()
