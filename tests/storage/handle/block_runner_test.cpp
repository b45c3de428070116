// Tests storage/handle/block_runner.hpp: how long it owns the memory that transfers use. The transferred bytes are
// tested in io_handle_test.cpp.
#include "storage/handle/block_runner.hpp"

#include <sys/mman.h>
#include <algorithm>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "tests/scratch_folder.hpp"
#include "tests/storage/queues.hpp"

BOOST_AUTO_TEST_SUITE(block_runner)

using namespace troupe;

namespace {

using both_engines = std::tuple<std::integral_constant<tests::engine, tests::engine::uring>,
                                std::integral_constant<tests::engine, tests::engine::threads>>;

constexpr size_t block_bytes = 16384, blocks = 256;

/// Maps new pages at addresses that were unmapped, to find later accesses to them; maps none where the addresses are in
/// use.
class fresh_pages {
 public:
  fresh_pages() = default;
  fresh_pages(const fresh_pages&) = delete;
  fresh_pages& operator=(const fresh_pages&) = delete;
  ~fresh_pages() {
    for (const auto& p : pages_) ::munmap(p.data(), p.size());
  }

  void take(std::span<std::byte> at) {
    void* got =
        ::mmap(at.data(), at.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == at.data())
      pages_.emplace_back(at);
    else if (got != MAP_FAILED)
      ::munmap(got, at.size());
  }

  [[nodiscard]] size_t count() const { return pages_.size(); }
  [[nodiscard]] bool untouched() const {
    for (const auto& p : pages_)
      for (const auto b : p)
        if (b != std::byte{0}) return false;
    return true;
  }

 private:
  std::vector<std::span<std::byte>> pages_;
};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(intermediate_memory_is_kept_until_nothing_is_in_flight, Engine, both_engines) {
  if (Engine::value == tests::engine::uring && !tests::has_uring()) return;
  const tests::scratch_folder folder;
  std::vector<std::byte> content(block_bytes * blocks);
  tests::fill(content, 1);
  const auto made = storage::file::open_best(folder / "a", storage::file_access::create);
  BOOST_REQUIRE_MESSAGE(made, made.error().text);
  BOOST_REQUIRE(made->reopened(storage::file_access::read_write, storage::file_mode::buffered)->write_at(0, content));
  const auto sector = made->alignment().memory_bytes;
  if (sector == 1) {
    BOOST_TEST_MESSAGE(folder.path() << " has no direct I/O: nothing is copied on the way");
    return;
  }

  storage::block_runner_options options;
  options.queue.engine =
      Engine::value == tests::engine::uring ? storage::queue_engine::uring : storage::queue_engine::threads;
  options.queue.depth = 16;
  options.block_bytes = block_bytes;
  bool ending = false;
  size_t ended = 0;
  std::vector<std::span<std::byte>> on_the_way;
  fresh_pages early, late;
  options.queue.disturb = [&](const storage::io_request& r, int64_t answer) {
    if (!ending) return answer;
    ++ended;
    on_the_way.push_back(r.memory);
    early.take(r.memory);
    return answer;
  };
  auto runner = storage::block_runner::open(options);
  BOOST_REQUIRE_MESSAGE(runner, runner.error().text);
  // Both vectors are allocated here, so that no memory is mapped after the runner has ended.
  std::vector<std::byte> into(content.size() + sector), then(into.size());
  const auto begin = reinterpret_cast<uintptr_t>(into.data()) % sector == 0 ? size_t{1} : size_t{0};
  (*runner)->add({storage::io_kind::read, *made, 0, std::span(into).subspan(begin, content.size()), 0});
  std::vector<storage::block_job_end> ends;
  (*runner)->advance(false, ends);
  BOOST_REQUIRE(ends.empty());
  ending = true;
  runner->reset();
  std::ranges::copy(into, then.begin());

  BOOST_TEST(ended > 0U);
  BOOST_TEST(early.count() == 0U);  // the memory must stay mapped while a request is running
  BOOST_TEST(early.untouched());
  for (const auto& memory : on_the_way) late.take(memory);
  BOOST_TEST(late.count() == on_the_way.size());  // all of the memory is unmapped after the end
  const auto time = storage::file::open_best(folder / "b", storage::file_access::create);
  BOOST_REQUIRE(time && time->reopened(storage::file_access::read_write, storage::file_mode::buffered)
                            ->write_at(0, content));  // this write only gives late transfers time to arrive
  BOOST_TEST(late.untouched());
  BOOST_TEST((into == then));
}

BOOST_AUTO_TEST_SUITE_END()
