// Tests total and free memory, read from folders that imitate the /proc and cgroup files of different machines.
#include "storage/memory/memory_room.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(memory_room)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t mb = 1'000'000;

void machine(const scratch_folder& at) {
  at.write("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:   12000 kB\nSwapTotal: 900 kB\nSwapFree: 500 kB\n");
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_groups_it_is_the_machines_with_its_swap) {
  const scratch_folder at;
  BOOST_TEST(!storage::free_memory(at.path()).has_value());
  machine(at);
  const auto room = check_ok(storage::free_memory(at.path()));
  BOOST_TEST(room->bytes == 12500U * 1024);
  BOOST_TEST(room->where == "the machine");
}

BOOST_AUTO_TEST_CASE(the_nearest_limit_of_the_groups_above_counts_without_pages_of_files) {
  const scratch_folder at;
  machine(at);
  at.write("proc/self/cgroup", "0::/box/inner\n");
  at.write("sys/fs/cgroup/box/inner/memory.max", "max\n");
  at.write("sys/fs/cgroup/box/inner/memory.current", "1000000\n");
  at.write("sys/fs/cgroup/box/memory.max", "4000000\n");
  at.write("sys/fs/cgroup/box/memory.current", "3000000\n");
  at.write("sys/fs/cgroup/box/memory.stat", "anon 900000\ninactive_file 600000\nactive_file 400000\n");
  const auto room = check_ok(storage::free_memory(at.path()));
  BOOST_TEST(room->bytes == 2 * mb);
  BOOST_TEST(room->where == "the control group " + (at / "sys/fs/cgroup/box").string());
}

BOOST_AUTO_TEST_CASE(version_1_of_groups_is_read_too_and_its_largest_number_is_no_limit) {
  const scratch_folder at;
  machine(at);
  at.write("proc/self/cgroup", "5:cpu:/box\n4:memory:/box\n");
  at.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  at.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n");
  at.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "3000000\n");
  at.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "2500000\n");
  at.write("sys/fs/cgroup/memory/box/memory.stat", "total_inactive_file 100000\ntotal_active_file 400000\n");
  BOOST_TEST(storage::free_memory(at.path())->bytes == mb);
}

BOOST_AUTO_TEST_CASE(all_of_it_is_the_machines_or_the_smallest_limit_above) {
  const scratch_folder at;
  BOOST_TEST(!storage::all_memory(at.path()).has_value());
  machine(at);
  const auto whole = check_ok(storage::all_memory(at.path()));
  BOOST_TEST(whole->bytes == 16000U * 1024);
  BOOST_TEST(whole->where == "the machine");
  at.write("proc/self/cgroup", "4:memory:/box/inner\n");
  at.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  at.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "3000000\n");
  at.write("sys/fs/cgroup/memory/box/inner/memory.limit_in_bytes", "4000000\n");
  const auto group = check_ok(storage::all_memory(at.path()));
  BOOST_TEST(group->bytes == 3 * mb);
  BOOST_TEST(group->machine_bytes == 16000U * 1024);
  BOOST_TEST(group->where == "the control group " + (at / "sys/fs/cgroup/memory/box").string());
}

BOOST_AUTO_TEST_CASE(this_machine_has_some) {
  BOOST_TEST(storage::free_memory()->bytes > 100 * mb);
  BOOST_TEST(storage::all_memory()->bytes >= 100 * mb);
}

BOOST_AUTO_TEST_SUITE_END()
