// Tests storage/queue/io_queue.hpp: the guarantees of every queue, checked for all three engines, and the choice
// between the engines.
#include "storage/queue/io_queue.hpp"

#include <fmt/format.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "core/math.hpp"
#include "storage/memory/huge_memory.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/seccomp_filter.hpp"
#include "tests/skipped.hpp"
#include "tests/storage/queues.hpp"

BOOST_AUTO_TEST_SUITE(io_queue)

using namespace troupe;
using namespace troupe::storage;
using tests::engine;

namespace {

constexpr uint64_t block = 64 << 10;

io_queue_options with_depth(unsigned depth) {
  io_queue_options out;
  out.depth = depth;
  return out;
}

file made(const std::filesystem::path& path) {
  auto f = file::open_best(path, file_access::create);
  BOOST_REQUIRE_MESSAGE(f, f.error().text);
  return std::move(*f);
}

bool readable(const io_queue& queue) {
  pollfd look{queue.event_descriptor(), POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

// Transfers `memory` in blocks, with as many blocks in flight as the queue allows; returns the first error, or nothing.
std::optional<core::error> move_all(io_queue& queue, const file& on, io_kind kind, std::span<std::byte> memory) {
  uint64_t next = 0;
  std::optional<core::error> first;
  std::vector<io_completion> over;
  while (next < memory.size() || queue.in_flight() > 0) {
    while (next < memory.size() && queue.in_flight() < queue.depth()) {
      const auto part = memory.subspan(next, std::min<uint64_t>(block, memory.size() - next));
      const auto begun = queue.submit(kind == io_kind::read ? read_request(on, next, part, next)
                                                            : write_request(on, next, part, next));
      if (!begun) return begun.error();
      next += part.size();
    }
    over.clear();
    queue.wait(over);
    for (const auto& c : over)
      if (c.error && !first) first = c.error;
  }
  return first;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(written_bytes_are_read_back, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto queue = tests::open(which, with_depth(7));
  if (!queue) return;
  const tests::scratch_folder folder;
  const auto f = made(folder / "a");
  auto memory = *huge_memory::allocate(4 << 20);
  auto back = *huge_memory::allocate(4 << 20);
  tests::fill({memory.data(), memory.bytes()}, 1);
  BOOST_TEST(!move_all(*queue, f, io_kind::write, {memory.data(), memory.bytes()}));
  BOOST_TEST(f.sync().has_value());
  BOOST_TEST(!move_all(*queue, f, io_kind::read, {back.data(), back.bytes()}));
  BOOST_TEST(std::memcmp(memory.data(), back.data(), memory.bytes()) == 0);
  BOOST_TEST(queue->in_flight() == 0U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(every_token_comes_back_once, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto queue = tests::open(which, with_depth(16));
  if (!queue) return;
  const auto f = *file::in_memory("tokens");
  std::vector<std::byte> memory(16 * 512);
  std::vector<io_request> batch;
  for (uint64_t i = 0; i < 16; ++i)
    batch.push_back(write_request(f, i * 512, std::span(memory).subspan(i * 512, 512), 100 + i));
  BOOST_REQUIRE(queue->submit(batch));
  BOOST_TEST(queue->in_flight() == 16U);
  std::vector<io_completion> over;
  queue->drain(over);
  std::set<uint64_t> tokens;
  for (const auto& c : over) {
    BOOST_TEST(!c.error);
    BOOST_TEST(c.bytes == 512U);
    tokens.insert(c.token);
  }
  BOOST_TEST(over.size() == 16U);
  BOOST_TEST(tokens.size() == 16U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(requests_beyond_the_depth_are_refused_as_a_whole, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto queue = tests::open(which, with_depth(2));
  if (!queue) return;
  const auto f = *file::in_memory("depth");
  std::vector<std::byte> memory(3 * 512);
  const std::vector<io_request> three(3, write_request(f, 0, std::span(memory).first(512)));
  const auto refused = queue->submit(three);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::limit));
  BOOST_TEST(refused.error().text == "io queue: wanted credits for 3 requests, got 2: 0 of 2 are in flight");
  BOOST_TEST(queue->in_flight() == 0U);
  const io_request mixed[] = {three[0], read_request(f, 0, {})};
  BOOST_TEST(!queue->submit(mixed));
  BOOST_TEST(queue->in_flight() == 0U);
  BOOST_TEST(*f.size_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_end_of_a_file_is_a_short_result, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto queue = tests::open(which, with_depth(4));
  if (!queue) return;
  const tests::scratch_folder folder;
  const auto f = made(folder / "a");
  auto memory = *huge_memory::allocate(3 * 4096);
  BOOST_REQUIRE(f.write_at(0, {memory.data(), 8192}));
  BOOST_REQUIRE(f.truncate(5000));
  const io_request reads[] = {read_request(f, 0, {memory.data(), 8192}, 1),
                              read_request(f, 8192, {memory.data() + 8192, 4096}, 2)};
  BOOST_REQUIRE(queue->submit(reads));
  std::vector<io_completion> over;
  queue->drain(over);
  BOOST_REQUIRE(over.size() == 2U);
  for (const auto& c : over) {
    BOOST_TEST(!c.error);
    BOOST_TEST(c.bytes == (c.token == 1 ? 5000U : 0U));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(short_and_interrupted_transfers_are_continued, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  io_queue_options options = with_depth(4);
  uint64_t calls = 0;
  options.disturb = [&calls](const io_request&, int64_t answer) -> int64_t {
    ++calls;
    if (calls % 3 == 0) return calls % 2 == 0 ? -EINTR : -EAGAIN;
    return answer > 8192 ? (answer / 2) / 4096 * 4096 : answer;
  };
  const auto queue = tests::open(which, options);
  if (!queue) return;
  const tests::scratch_folder folder;
  const auto f = made(folder / "a");
  auto memory = *huge_memory::allocate(1 << 20);
  auto back = *huge_memory::allocate(1 << 20);
  tests::fill({memory.data(), memory.bytes()}, 2);
  BOOST_TEST(!move_all(*queue, f, io_kind::write, {memory.data(), memory.bytes()}));
  BOOST_TEST(!move_all(*queue, f, io_kind::read, {back.data(), back.bytes()}));
  BOOST_TEST(std::memcmp(memory.data(), back.data(), memory.bytes()) == 0);
  BOOST_TEST(calls > 4 * (memory.bytes() / block));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_error_belongs_to_its_request_and_the_others_continue, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto queue = tests::open(which, with_depth(4));
  if (!queue) return;
  const tests::scratch_folder folder;
  folder.write("read only", "abc");
  const auto refusing = *file::open(folder / "read only", file_access::read, file_mode::buffered);
  const auto f = *file::in_memory("fine");
  std::vector<std::byte> memory(512);
  const io_request both[] = {write_request(refusing, 0, memory, 1), write_request(f, 0, memory, 2)};
  BOOST_REQUIRE(queue->submit(both));
  std::vector<io_completion> over;
  queue->drain(over);
  BOOST_REQUIRE(over.size() == 2U);
  for (const auto& c : over) {
    BOOST_TEST(c.error.has_value() == (c.token == 1));
    if (c.error) BOOST_TEST(c.error->text.find("read only: write at 0: wanted 512 bytes, got 0") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_event_tells_when_to_ask, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto queue = tests::open(which, with_depth(2));
  if (!queue) return;
  std::vector<io_completion> over;
  BOOST_TEST(!readable(*queue));
  BOOST_TEST(queue->poll(over) == 0U);
  BOOST_TEST(queue->wait(over) == 0U);
  const auto f = *file::in_memory("event");
  std::vector<std::byte> memory(512);
  BOOST_REQUIRE(queue->submit(write_request(f, 0, memory, 5)));
  if (auto* modelled = dynamic_cast<modelled_queue*>(queue.get())) {
    BOOST_TEST(queue->poll(over) == 0U);
    modelled->advance(10'000'000);
  }
  pollfd look{queue->event_descriptor(), POLLIN, 0};
  BOOST_REQUIRE(::poll(&look, 1, 10'000) == 1);
  while (queue->poll(over) == 0) std::this_thread::yield();
  BOOST_TEST(over.front().token == 5U);
  queue->poll(over);
  BOOST_TEST(!readable(*queue));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(cancelled_requests_all_come_back, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  // The pipe has no data, so reads of it end only by cancellation or when its write end is closed.
  int ends[2] = {-1, -1};
  BOOST_REQUIRE(::pipe(ends) == 0);
  const auto pipe = file::open(fmt::format("/proc/self/fd/{}", ends[0]), file_access::read, file_mode::buffered);
  BOOST_REQUIRE(pipe);
  const auto queue = tests::open(which, with_depth(8));
  if (!queue) return;
  std::vector<std::byte> memory(8 * 512);
  if (which == engine::uring) {
    for (uint64_t i = 0; i < 8; ++i)
      BOOST_REQUIRE(queue->submit(read_request(*pipe, 0, std::span(memory).subspan(i * 512, 512), i)));
    queue->cancel_all();
  } else {
    const auto f = *file::in_memory("cancelled");
    for (uint64_t i = 0; i < 8; ++i)
      BOOST_REQUIRE(queue->submit(write_request(f, i * 512, std::span(memory).subspan(i * 512, 512), i)));
    queue->cancel_all();
  }
  std::vector<io_completion> over;
  queue->drain(over);
  BOOST_TEST(over.size() == 8U);
  uint64_t stopped = 0;
  for (const auto& c : over)
    if (c.error) {
      BOOST_TEST((c.error->kind == core::error_kind::stopped), c.error->text);
      ++stopped;
    }
  if (which == engine::uring) BOOST_TEST(stopped == 8U);
  if (which == engine::modelled) BOOST_TEST(stopped == 7U);  // the disk had already started the first request
  // The queue still works after the cancellation.
  const auto f = *file::in_memory("after");
  BOOST_REQUIRE(queue->submit(write_request(f, 0, memory, 42)));
  over.clear();
  queue->drain(over);
  BOOST_REQUIRE(over.size() == 1U);
  BOOST_TEST(!over[0].error);
  ::close(ends[0]);
  ::close(ends[1]);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_queue_that_ends_leaves_no_memory_in_use, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto f = *file::in_memory("ends");
  std::vector<std::byte> memory(64 * 4096);
  {
    const auto queue = tests::open(which, with_depth(64));
    if (!queue) return;
    for (uint64_t i = 0; i < 64; ++i)
      BOOST_TEST_CONTEXT("i " << i)
      BOOST_REQUIRE(queue->submit(read_request(f, i * 4096, std::span(memory).subspan(i * 4096, 4096))));
  }
  std::fill(memory.begin(), memory.end(), std::byte{1});
  BOOST_TEST(std::count(memory.begin(), memory.end(), std::byte{1}) == 64 * 4096);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_file_stays_open_for_requests_in_flight, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  const auto queue = tests::open(which, with_depth(2));
  if (!queue) return;
  std::vector<std::byte> memory(512, std::byte{3});
  auto f = *file::in_memory("let go");
  BOOST_REQUIRE(queue->submit(write_request(f, 0, memory)));
  f = {};
  std::vector<io_completion> over;
  queue->drain(over);
  BOOST_REQUIRE(over.size() == 1U);
  BOOST_TEST(!over[0].error);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(registered_memory_and_files_carry_the_same_bytes, Engine, tests::every_engine) {
  constexpr engine which = Engine::value;
  auto pool = *huge_memory::allocate(4 << 20);
  auto outside = *huge_memory::allocate(1 << 20);
  io_queue_options options = with_depth(8);
  options.pools = {{pool.data(), pool.bytes()}};
  const auto queue = tests::open(which, options);
  if (!queue) return;
  for (const auto& r : queue->remarks()) BOOST_TEST_MESSAGE(r);
  const tests::scratch_folder folder;
  const auto f = made(folder / "a");
  const bool kept = queue->keep(f);
  BOOST_TEST(kept == queue->keep(f));
  tests::fill({pool.data(), outside.bytes()}, 3);
  BOOST_TEST(!move_all(*queue, f, io_kind::write, {pool.data(), outside.bytes()}));
  BOOST_TEST(!move_all(*queue, f, io_kind::read, {outside.data(), outside.bytes()}));
  BOOST_TEST(std::memcmp(pool.data(), outside.data(), outside.bytes()) == 0);
  queue->forget(f);
  BOOST_TEST(!move_all(*queue, f, io_kind::read, {pool.data() + (2 << 20), outside.bytes()}));
  BOOST_TEST(std::memcmp(pool.data() + (2 << 20), outside.data(), outside.bytes()) == 0);
  BOOST_TEST(queue->keep(f) == kept);
}

BOOST_AUTO_TEST_CASE(a_kept_file_is_not_confused_with_a_later_one_of_the_same_descriptor) {
  const auto queue = tests::open(engine::uring, with_depth(2));
  if (!queue) return;
  std::vector<std::byte> ones(512, std::byte{1}), got(512);
  std::vector<io_completion> over;
  int descriptor = -1;
  {
    const auto first = *file::in_memory("first");
    descriptor = first.descriptor();
    queue->keep(first);
  }
  const auto second = *file::in_memory("second");
  BOOST_TEST(second.descriptor() == descriptor);
  BOOST_REQUIRE(queue->submit(write_request(second, 0, ones)));
  queue->drain(over);
  BOOST_TEST(*second.read_at(0, got) == 512U);
  BOOST_TEST((got == ones));
}

BOOST_AUTO_TEST_CASE(no_more_files_are_kept_than_the_limit) {
  const auto queue = tests::open(engine::uring, with_depth(1));
  if (!queue) return;
  std::vector<file> files;
  unsigned kept = 0;
  for (unsigned i = 0; i < registered_files_max + 3; ++i) {
    files.push_back(*file::in_memory("f"));
    kept += queue->keep(files.back()) ? 1 : 0;
  }
  BOOST_TEST((kept == registered_files_max || kept == 0));
  queue->forget(files[5]);
  BOOST_TEST(queue->keep(files.back()) == (kept > 0));
}

BOOST_AUTO_TEST_CASE(depths_and_threads_outside_their_limits_are_refused) {
  for (const unsigned depth : {0U, queue_depth_max + 1}) {
    BOOST_TEST_INFO_SCOPE("depth " << depth);
    BOOST_TEST(!make_queue(with_depth(depth)));
    io_queue_options threads;
    threads.threads = depth == 0 ? 0 : queue_threads_max + 1;
    BOOST_TEST(!make_queue(threads));
  }
}

BOOST_AUTO_TEST_CASE(a_refused_ring_becomes_threads_and_the_reason_is_kept) {
  const auto refusing = [](const io_queue_options&) -> core::result<std::unique_ptr<storage::io_queue>> {
    return core::fail(core::error_kind::io, "io_uring: made up refusal");
  };
  const auto queue = make_queue({}, refusing);
  BOOST_REQUIRE(queue);
  BOOST_TEST((*queue)->name() == "threads");
  BOOST_REQUIRE((*queue)->remarks().size() == 1U);
  BOOST_TEST((*queue)->remarks()[0] == "io_uring: made up refusal; reading and writing with threads instead");
  io_queue_options only;
  only.engine = queue_engine::uring;
  BOOST_TEST(!make_queue(only, refusing));
}

BOOST_AUTO_TEST_CASE(a_seccomp_filter_like_a_containers_leads_to_threads) {
  std::string name, remark;
  bool filtered = false;
  std::thread contained([&] {
    filtered = tests::forbid(__NR_io_uring_setup);
    if (const auto queue = make_queue({})) {
      name = (*queue)->name();
      if (!(*queue)->remarks().empty()) remark = (*queue)->remarks().front();
    }
  });
  contained.join();
  if (!filtered) {
    troupe::tests::say_skipped("queues where rings are forbidden", "this kernel takes no seccomp filter from us");
    return;
  }
  BOOST_TEST(name == "threads");
  BOOST_TEST(remark.find("Operation not permitted (a container's seccomp filter") != std::string::npos, remark);
}

BOOST_AUTO_TEST_CASE(a_ring_that_accepts_nothing_any_more_fails_each_request_and_ends) {
  if (!tests::has_uring()) return;
  std::vector<io_completion> over;
  bool filtered = false, announced = false;
  std::thread contained([&] {
    const auto queue = open_uring_queue(with_depth(4));
    filtered = tests::forbid(__NR_io_uring_enter);
    if (!queue || !filtered) return;
    const auto f = *file::in_memory("refused");
    std::vector<std::byte> memory(512);
    for (uint64_t i = 0; i < 6; ++i) {
      if (!(*queue)->submit(write_request(f, 0, memory, i))) return;
      announced = readable(**queue);
      (*queue)->wait(over);
    }
  });
  contained.join();
  if (!filtered) return;
  BOOST_REQUIRE(over.size() == 6U);
  for (const auto& c : over) {
    BOOST_REQUIRE(c.error);
    BOOST_TEST(c.error->text == "refused: write at 0: wanted 512 bytes, got 0: Operation not permitted");
  }
  BOOST_TEST(announced);
}

BOOST_AUTO_TEST_CASE(too_little_lockable_memory_leaves_the_pools_unregistered) {
  if (!tests::has_uring()) return;
  rlimit before{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const rlimit little{64 << 10, before.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &little) == 0);
  auto pool = *huge_memory::allocate(8 << 20);
  std::vector<std::string> remarks;
  std::optional<core::error> failed;
  std::thread unprivileged([&] {
    // The capability CAP_IPC_LOCK lifts the limit, so this thread drops its capabilities, which are per thread.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    ::syscall(SYS_capset, &header, none);
    io_queue_options options = with_depth(4);
    options.engine = queue_engine::uring;
    options.pools = {{pool.data(), pool.bytes()}};
    const auto queue = make_queue(options);
    if (!queue) {
      failed = queue.error();
      return;
    }
    remarks = (*queue)->remarks();
    failed = move_all(**queue, *file::in_memory("unregistered"), io_kind::write, {pool.data(), pool.bytes()});
  });
  unprivileged.join();
  BOOST_TEST(::setrlimit(RLIMIT_MEMLOCK, &before) == 0);
  BOOST_TEST(!failed);
  BOOST_REQUIRE(!remarks.empty());
  BOOST_TEST(remarks[0].find("RLIMIT_MEMLOCK is 65536, raise it with `ulimit -l`") != std::string::npos, remarks[0]);
}

BOOST_AUTO_TEST_SUITE_END()
