#include "storage/memory/shared_memory.hpp"
#include "tests/check_ok.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <utility>

BOOST_AUTO_TEST_SUITE(shared_memory)

namespace {

using memory = troupe::storage::shared_memory;

}  // namespace

BOOST_AUTO_TEST_CASE(zero_bytes_give_no_mapping) {
  const auto m = troupe::tests::check_ok(memory::create(0));
  BOOST_TEST(m->data() == nullptr);
  BOOST_TEST(m->descriptor() == -1);
}

BOOST_AUTO_TEST_CASE(what_one_mapping_writes_the_other_reads) {
  auto first = troupe::tests::check_ok(memory::create(5000));
  BOOST_TEST(first->bytes() == 8192U);
  BOOST_TEST(std::all_of(first->data(), first->data() + first->bytes(), [](std::byte b) { return b == std::byte{0}; }));
  const auto second = troupe::tests::check_ok(memory::open(::dup(first->descriptor())));
  BOOST_TEST(second->bytes() == 8192U);
  BOOST_TEST((second->data() != first->data()));
  first->data()[8191] = std::byte{42};
  BOOST_TEST((second->data()[8191] == std::byte{42}));
}

BOOST_AUTO_TEST_CASE(a_process_that_ends_takes_nothing_along) {
  const auto m = troupe::tests::check_ok(memory::create(4096));
  const pid_t child = ::fork();
  if (child == 0) {
    m->data()[7] = std::byte{7};
    ::_exit(0);
  }
  BOOST_REQUIRE(::waitpid(child, nullptr, 0) == child);
  BOOST_TEST((m->data()[7] == std::byte{7}));
}

BOOST_AUTO_TEST_CASE(nobody_can_change_its_size) {
  const auto m = troupe::tests::check_ok(memory::create(8192));
  BOOST_TEST(::ftruncate(m->descriptor(), 4096) != 0);
  BOOST_TEST(::ftruncate(m->descriptor(), 1 << 20) != 0);
}

BOOST_AUTO_TEST_CASE(descriptors_whose_size_could_change_are_refused) {
  const int unsealed = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  BOOST_REQUIRE(::ftruncate(unsealed, 4096) == 0);
  const auto refused = memory::open(unsealed);  // closes the descriptor even though it fails
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text == "shared memory: wanted a descriptor of memory with a sealed size");
  BOOST_TEST(::fcntl(unsealed, F_GETFD) == -1);
  BOOST_TEST(!memory::open(-1).has_value());
}

BOOST_AUTO_TEST_CASE(a_move_leaves_one_owner) {
  auto m = troupe::tests::check_ok(memory::create(4096));
  const int descriptor = m->descriptor();
  {
    const memory moved = std::move(*m);
    BOOST_TEST(moved.descriptor() == descriptor);
  }
  BOOST_TEST(::fcntl(descriptor, F_GETFD) == -1);
}

BOOST_AUTO_TEST_SUITE_END()
