// Tests a disk that fails or is full at any one operation: it causes one error, committed checkpoints stay, and the run
// can continue.
#include "tests/crash/story.hpp"
#include "tests/fakes/file_system.hpp"

BOOST_AUTO_TEST_SUITE(faults)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

const std::filesystem::path at = "/runs/checkpoints";

std::vector<std::string> names_in(fake_files& files) {
  std::vector<std::string> out;
  if (const auto all = files.list(at))
    for (const auto& e : *all) out.push_back(e.name);
  return out;
}

/// Returns the seed of the newest checkpoint that a reader finds; 0: there is none.
uint64_t newest_seed(fake_files& files) {
  const auto found = open_checkpoint(files, at);
  if (!found) return 0;
  const auto report = check_ok(verify_checkpoint(files, found->folder));
  BOOST_TEST(report->damages == 0U);
  return found->content.run.seed.value_or(0);
}

/// Runs the story with a fault at operation `n`. The run continues after errors.
void tell_with_fault(uint64_t n, error_kind why) {
  fake_files files;
  files.fail_once_at(n, why);
  size_t errors = 0;
  uint64_t newest = 0;
  for (const auto& c : story::chapters) {
    const auto before = names_in(files);
    const uint64_t begun = files.operations();
    const auto saved = story::save(files, at, c);
    const uint64_t now = newest_seed(files);
    if (saved) {
      BOOST_TEST(now == c.seed);
    } else {
      ++errors;
      BOOST_TEST(static_cast<int>(saved.error().kind) == static_cast<int>(why), saved.error().text);
      BOOST_TEST((n >= begun && n < files.operations()));
      // The new checkpoint may be the newest only if nothing but the last sync failed.
      const bool committed = now == c.seed;
      BOOST_TEST((now == newest || committed), "operation " << n << ": " << saved.error().text);
      if (!committed && !before.empty()) BOOST_TEST(names_in(files) == before, boost::test_tools::per_element());
    }
    newest = now;
    if (const auto kept = apply_retention(files, at, {.keep_last = 2}); !kept) ++errors;
    BOOST_TEST(newest_seed(files) == newest);
  }
  BOOST_TEST(errors <= 1U, "operation " << n);
  BOOST_TEST(newest >= 3U);
  check_ok(remove_leftovers(files, at));
  for (const auto& name : names_in(files)) BOOST_TEST((name == "latest" || step_of(name)), name << " stayed");
  BOOST_TEST(newest_seed(files) == newest);
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_operation_fails_once_and_the_error_comes_once_and_nothing_half_written_stays) {
  fake_files whole;
  story::tell(whole, at);
  for (const auto why : {error_kind::io, error_kind::no_space})
    for (uint64_t n = 0; n < whole.operations(); ++n) tell_with_fault(n, why);
}

BOOST_AUTO_TEST_CASE(a_disk_that_fills_up_at_any_byte_keeps_the_old_checkpoint) {
  fake_files roomy;
  check_ok(story::save(roomy, at, {10, 1}));
  const uint64_t one = (uint64_t{1} << 40) - roomy.free_bytes(at).value();
  for (uint64_t room = one + 1; room < 2 * one; room += 2048) {
    BOOST_TEST_INFO_SCOPE("room " << room);
    fake_files files(room);
    check_ok(story::save(files, at, {10, 1}));
    const auto second = story::save(files, at, {20, 2});
    check_failed(second, error_kind::no_space, "No space left on device");
    BOOST_TEST(newest_seed(files) == 1U);
    const std::vector<std::string> left{"latest", "step-00000010"};
    BOOST_TEST(names_in(files) == left, boost::test_tools::per_element());
    BOOST_TEST(files.free_bytes(at).value() == room - one);
  }
}

BOOST_AUTO_TEST_CASE(memory_in_flight_that_is_touched_is_found) {
  fake_files files;
  struct alignas(4096) page {
    std::array<std::byte, 4096> bytes{};
  } memory;
  const auto file = check_ok(files.create("/f"));
  const auto ticket = check_ok((*file)->start_write(memory.bytes));
  memory.bytes[9] = std::byte{1};
  check_failed((*file)->wait(*ticket), error_kind::bug, "memory in flight to '/f' was touched");
  check_failed((*file)->sync(), error_kind::bug, "touched");
  check_failed((*files.create("/g"))->start_write(std::span(memory.bytes).first(100)), error_kind::bug, "not aligned");
}

BOOST_AUTO_TEST_SUITE_END()
