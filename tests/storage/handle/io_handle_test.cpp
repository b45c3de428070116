// Tests storage/handle/io_handle.hpp with both I/O engines: the behaviour of DeepSpeed's handle, and cases that
// DeepSpeed leaves undefined.
#include "storage/handle/io_handle.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <set>
#include <thread>

#include "tests/scratch_folder.hpp"
#include "tests/storage/queues.hpp"

BOOST_AUTO_TEST_SUITE(io_handle)

using namespace troupe;
using storage::io_handle_options;
using troupe::tests::check_failed;
using troupe::tests::has;

namespace {

using each_engine = std::tuple<std::integral_constant<storage::queue_engine, storage::queue_engine::best>,
                               std::integral_constant<storage::queue_engine, storage::queue_engine::threads>>;

std::unique_ptr<storage::io_handle> must(core::result<std::unique_ptr<storage::io_handle>> opened) {
  BOOST_REQUIRE_MESSAGE(opened, opened.error().text);
  return std::move(*opened);
}

template <class T>
T must(core::result<T> r) {
  BOOST_REQUIRE_MESSAGE(r, r.error().text);
  return std::move(*r);
}

void good(const core::result<void>& r) { BOOST_REQUIRE_MESSAGE(r, r.error().text); }

std::vector<std::byte> bytes(size_t n, uint64_t salt) {
  std::vector<std::byte> out(n);
  tests::fill(out, salt);
  return out;
}

io_handle_options small(storage::queue_engine engine) {
  io_handle_options o;
  o.engine = engine;
  o.block_bytes = 16384;
  o.queue_depth = 4;
  return o;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(any_offset_length_and_address_reads_what_was_written, Engine, each_engine) {
  const tests::scratch_folder folder;
  constexpr size_t room = 400'000;
  for (const auto& [threads, single, overlap] : {std::tuple(1U, false, true), std::tuple(3U, true, false)}) {
    auto o = small(Engine::value);
    o.intra_op_parallelism = threads;
    o.single_submit = single;
    o.overlap_events = overlap;
    const auto handle = must(storage::io_handle::open(o));
    const auto memory = must(handle->new_pinned(2 * room));
    const auto path = folder / fmt::format("f{}", threads);
    auto expected = bytes(room, threads);
    good(handle->sync_pwrite(expected, path));
    uint64_t salt = 10;
    for (const size_t offset : {0, 1, 4096, 65535})
      for (const size_t length : {0, 1, 4096, 300'000})
        for (const size_t shift : {0, 1, 512}) {
          BOOST_TEST_INFO_SCOPE("length " << length);
          BOOST_TEST_INFO_SCOPE("offset " << offset);
          BOOST_TEST_INFO_SCOPE("shift " << shift);
          const auto from = memory.subspan(shift, length);
          tests::fill(from, ++salt);
          std::copy(from.begin(), from.end(), expected.begin() + static_cast<ptrdiff_t>(offset));
          good(handle->sync_pwrite(from, path, offset));
          const auto into = memory.subspan(room + shift, length);
          std::fill(into.begin(), into.end(), std::byte{0});
          good(handle->sync_pread(into, path, offset));
          BOOST_REQUIRE(std::equal(into.begin(), into.end(), from.begin()));
        }
    std::vector<std::byte> all(room);
    good(handle->read(all, path));
    BOOST_TEST((all == expected));  // bytes around the writes are unchanged
    BOOST_TEST(std::filesystem::file_size(path) == room);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(wait_gives_an_outcome_for_each_operation, Engine, each_engine) {
  const tests::scratch_folder folder;
  auto o = small(Engine::value);
  o.intra_op_parallelism = 2;
  const auto handle = must(storage::io_handle::open(o));
  const auto data = bytes(40 * 30'000, 1);
  std::set<storage::io_operation> begun;
  for (size_t i = 0; i < 40; ++i)
    begun.insert(must(handle->async_pwrite(std::span(data).subspan(i * 30'000, 30'000), folder / fmt::to_string(i))));
  BOOST_TEST(begun.size() == 40U);
  const auto written = handle->wait();
  BOOST_TEST(written.size() == 40U);
  for (const auto& w : written) {
    BOOST_TEST(!w.error.has_value());
    BOOST_TEST(w.bytes == 30'000U);
    BOOST_TEST(begun.erase(w.operation) == 1U);
  }
  BOOST_TEST(handle->pending() == 0U);
  BOOST_TEST(handle->wait().empty());  // without pending requests, wait() returns an empty list and no error

  std::vector<std::byte> back(data.size());
  for (size_t i = 0; i < 40; ++i)
    must(handle->async_pread(std::span(back).subspan(i * 30'000, 30'000), folder / fmt::to_string(i)));
  BOOST_TEST(handle->wait().size() == 40U);
  BOOST_TEST((back == data));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_operation_that_fails_reports_it_and_leaves_the_others_alone, Engine, each_engine) {
  const tests::scratch_folder folder;
  auto o = small(Engine::value);
  o.intra_op_parallelism = 2;
  const auto handle = must(storage::io_handle::open(o));
  const auto data = bytes(100'000, 3);
  good(handle->write(data, folder / "a"));
  std::vector<std::byte> one(100'000), beyond(200'000);
  const auto fine = must(handle->async_pread(one, folder / "a"));
  const auto late = must(handle->async_pread(beyond, folder / "a"));
  const auto failed = handle->wait(late);
  BOOST_REQUIRE(!failed.has_value());
  BOOST_TEST(has(failed.error().text, (folder / "a").string()), failed.error().text);
  BOOST_TEST(has(failed.error().text, "the file ends there"), failed.error().text);
  BOOST_TEST(must(handle->wait(fine)) == 100'000U);
  BOOST_TEST((one == data));

  check_failed(handle->async_pread(one, folder / "none"), core::error_kind::bad_input);
  BOOST_TEST(!handle->sync_pwrite(one, folder / "no such folder" / "a").has_value());
  BOOST_TEST(!handle->read(beyond, folder / "a").has_value());
  BOOST_TEST(!handle->async_pread(one, storage::file()).has_value());
  BOOST_TEST(!handle->async_pread(one, folder / "a", UINT64_MAX - 5).has_value());
  BOOST_TEST(handle->wait().empty());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_offset_that_no_file_has_is_refused_and_makes_no_file, Engine, each_engine) {
  const tests::scratch_folder folder;
  const auto handle = must(storage::io_handle::open(small(Engine::value)));
  auto data = bytes(10'000, 1);
  good(handle->write(data, folder / "a"));
  for (const uint64_t offset : {UINT64_MAX, UINT64_MAX - 9'999, uint64_t{1} << 63, uint64_t{INT64_MAX} - 9'999}) {
    BOOST_TEST_INFO_SCOPE("offset " << offset);
    check_failed(handle->read(data, folder / "a", offset), core::error_kind::bad_input);
    check_failed(handle->sync_pread(data, folder / "a", offset), core::error_kind::bad_input);
    check_failed(handle->async_pread(data, folder / "a", offset), core::error_kind::bad_input);
    check_failed(handle->write(data, folder / "b", offset), core::error_kind::bad_input);
    check_failed(handle->sync_pwrite(data, folder / "b", offset), core::error_kind::bad_input);
    check_failed(handle->async_pwrite(data, folder / "b", offset), core::error_kind::bad_input);
  }
  BOOST_TEST(!std::filesystem::exists(folder / "b"));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_outcome_is_collected_once, Engine, each_engine) {
  const tests::scratch_folder folder;
  const auto handle = must(storage::io_handle::open(small(Engine::value)));
  const auto data = bytes(50'000, 3);
  const auto first = must(handle->async_pwrite(data, folder / "a"));
  const auto second = must(handle->async_pwrite(data, folder / "b"));
  BOOST_TEST(must(handle->wait(second)) == 50'000U);
  check_failed(handle->wait(second), core::error_kind::bad_input);
  const auto rest = handle->wait();
  BOOST_REQUIRE(rest.size() == 1U);
  BOOST_TEST(rest[0].operation == first);
  BOOST_TEST(!handle->wait(first + 1000).has_value());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_event_is_signalled_at_every_end, Engine, each_engine) {
  const tests::scratch_folder folder;
  const auto handle = must(storage::io_handle::open(small(Engine::value)));
  const auto data = bytes(50'000, 3);
  const auto on = must(storage::file::open_best(folder / "a", storage::file_access::create));
  for (size_t i = 0; i < 20; ++i) must(handle->async_pwrite(data, on, i * data.size()));
  size_t over = 0;
  while (over < 20) {
    pollfd event{handle->event_descriptor(), POLLIN, 0};
    BOOST_REQUIRE(::poll(&event, 1, 60'000) == 1);
    over += handle->poll().size();
  }
  BOOST_TEST(over == 20U);
  BOOST_TEST(handle->poll().empty());
  must(handle->wait(must(handle->async_pwrite(data, on, 0))));
  pollfd event{handle->event_descriptor(), POLLIN, 0};
  BOOST_TEST(::poll(&event, 1, 0) == 0, "signalled although no outcome waits");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(threads_that_share_a_handle_wait_for_their_own_operations, Engine, each_engine) {
  const tests::scratch_folder folder;
  auto o = small(Engine::value);
  o.intra_op_parallelism = 2;
  const auto handle = must(storage::io_handle::open(o));
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 10; ++i) {
        const auto data = bytes(70'000 + i, t * 100 + i);
        std::vector<std::byte> back(data.size());
        const auto path = folder / fmt::to_string(t);
        const auto w = handle->sync_pwrite(data, path);
        const auto r = handle->sync_pread(back, path);
        if (!w || !r || back != data) wrong[t] = !w ? w.error().text : !r ? r.error().text : "other bytes";
      }
    });
  for (int i = 0; i < 20; ++i)
    // Synchronous requests of other threads must not appear here.
    BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(handle->wait().empty());
  for (auto& t : threads) t.join();
  for (const auto& w : wrong) BOOST_TEST(w == "");
}

BOOST_AUTO_TEST_CASE(a_handle_has_the_options_it_was_opened_with) {
  io_handle_options o;
  BOOST_TEST(must(storage::io_handle::open(o))->queue_depth() == 128U);
  o.block_bytes = 8192;
  o.queue_depth = 7;
  o.single_submit = true;
  o.overlap_events = false;
  o.intra_op_parallelism = 3;
  o.engine = storage::queue_engine::threads;
  const auto handle = must(storage::io_handle::open(o));
  BOOST_TEST(handle->block_bytes() == 8192U);
  BOOST_TEST(handle->queue_depth() == 7U);
  BOOST_TEST(handle->single_submit());
  BOOST_TEST(!handle->overlap_events());
  BOOST_TEST(handle->intra_op_parallelism() == 3U);
  BOOST_TEST(handle->alignment_bytes() == 4096U);
  BOOST_TEST(handle->engine() == "threads");
}

BOOST_AUTO_TEST_CASE(options_out_of_range_are_refused) {
  const auto refused = [](auto change) {
    io_handle_options o;
    change(o);
    const auto opened = storage::io_handle::open(o);
    BOOST_REQUIRE(!opened.has_value());
    BOOST_TEST((opened.error().kind == core::error_kind::bad_input));
    return opened.error().text;
  };
  BOOST_TEST(has(refused([](auto& o) { o.block_bytes = 1000; }), "multiple of 4096"));
  BOOST_TEST(has(refused([](auto& o) { o.block_bytes = uint64_t{2} << 30; }), "at most 1073741824"));
  BOOST_TEST(has(refused([](auto& o) { o.queue_depth = 0; }), "a depth from 1 to 4096, got 0"));
  BOOST_TEST(has(refused([](auto& o) { o.intra_op_parallelism = 0; }), "intra_op_parallelism from 1 to 64, got 0"));
  BOOST_TEST(has(refused([](auto& o) { o.intra_op_parallelism = 65; }), "got 65"));
}

BOOST_AUTO_TEST_CASE(outcomes_that_are_not_collected_are_bounded) {
  const tests::scratch_folder folder;
  const auto handle = must(storage::io_handle::open({}));
  const auto on = must(storage::file::open_best(folder / "a", storage::file_access::create));
  for (size_t i = 0; i < storage::handle_operations_max; ++i)
    BOOST_REQUIRE(handle->async_pwrite(std::span<const std::byte>(), on));
  check_failed(handle->async_pwrite(std::span<const std::byte>(), on), core::error_kind::limit);
  BOOST_TEST(handle->wait().size() == storage::handle_operations_max);
  BOOST_TEST(handle->async_pwrite(std::span<const std::byte>(), on).has_value());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(after_its_end_no_memory_is_touched, Engine, each_engine) {
  const tests::scratch_folder folder;
  constexpr size_t size = 8 << 20;
  const auto data = bytes(size, 1);
  std::vector<std::byte> into(size);
  auto handle = must(storage::io_handle::open(small(Engine::value)));
  good(handle->write(data, folder / "a"));
  must(handle->async_pread(into, folder / "a"));
  handle.reset();
  const auto then = into;
  good(must(storage::io_handle::open(small(Engine::value)))
           ->write(data, folder / "b"));  // this write only gives late reads time to arrive
  BOOST_TEST((into == then));
}

BOOST_AUTO_TEST_CASE(files_are_made_private_and_never_shortened) {
  const tests::scratch_folder folder;
  const auto handle = must(storage::io_handle::open({}));
  const auto longer = bytes(20'000, 1), shorter = bytes(9'000, 2);
  good(handle->sync_pwrite(longer, folder / "a"));
  struct stat about {};
  BOOST_REQUIRE(::stat((folder / "a").c_str(), &about) == 0);
  BOOST_TEST((about.st_mode & 0777) == 0600U);
  good(handle->sync_pwrite(shorter, folder / "a"));
  std::vector<std::byte> all(20'000);
  good(handle->sync_pread(all, folder / "a"));
  BOOST_TEST(std::equal(shorter.begin(), shorter.end(), all.begin()));
  BOOST_TEST(std::equal(all.begin() + 9'000, all.end(), longer.begin() + 9'000));
}

BOOST_AUTO_TEST_CASE(handles_may_share_pinned_memory) {
  io_handle_options o;
  o.pinned = std::make_shared<storage::pinned_memory>();
  const auto first = must(storage::io_handle::open(o)), second = must(storage::io_handle::open(o)),
             other = must(storage::io_handle::open({}));
  const auto buffer = must(first->new_pinned(5 << 20));
  BOOST_TEST(reinterpret_cast<uintptr_t>(buffer.data()) % storage::huge_memory::alignment_bytes == 0U);
  BOOST_TEST(second->is_pinned(buffer));
  BOOST_TEST(second->is_pinned(buffer.subspan(100, 1000)));  // a range inside of the pinned buffer
  BOOST_TEST(!other->is_pinned(buffer));
  const auto elsewhere = bytes(100, 0);
  BOOST_TEST(!second->is_pinned(elsewhere));
  BOOST_TEST(!second->free_pinned(buffer.subspan(4096)));
  BOOST_TEST(o.pinned->bytes() == uint64_t{5} << 20);
  BOOST_TEST(second->free_pinned(buffer));
  BOOST_TEST(!first->free_pinned(buffer));
  BOOST_TEST(!first->is_pinned(buffer));
  BOOST_TEST(o.pinned->bytes() == 0U);
  BOOST_TEST(!first->new_pinned(0).has_value());
}

BOOST_AUTO_TEST_CASE(registered_memory_carries_the_same_bytes) {
  const tests::scratch_folder folder;
  const auto memory = must(storage::huge_memory::allocate(4 << 20));
  const std::span all(memory.data(), memory.bytes());
  io_handle_options o;
  o.pools = {all};
  const auto handle = must(storage::io_handle::open(o));
  const auto from = all.first(2 << 20), into = all.subspan(2 << 20);
  tests::fill(from, 5);
  good(handle->sync_pwrite(from, folder / "a"));
  good(handle->sync_pread(into, folder / "a"));
  BOOST_TEST(std::memcmp(from.data(), into.data(), from.size()) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
