// Provides a swap file in a temporary folder, and queues of every engine for it, for test suites that check the same
// guarantees of all engines.
#pragma once

#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage/memory/huge_memory.hpp"
#include "storage/swap/swap_queue.hpp"
#include "storage/swap/swap_space.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/storage/queues.hpp"

namespace troupe::tests::swap {

using namespace troupe::storage;

inline constexpr uint64_t page = swap_page_bytes;

inline std::unique_ptr<storage::swap_queue> opened(engine which, swap_queue_options options) {
  if (which == engine::uring && !tests::has_uring()) return nullptr;
  options.engine = which == engine::threads ? queue_engine::threads : queue_engine::uring;
  if (which == engine::modelled)
    options.make = [](const io_queue_options& o) { return tests::open(engine::modelled, o); };
  auto queue = troupe::tests::check_ok(storage::swap_queue::open(options));
  return std::move(*queue);
}

/// Owns a swap file in a temporary folder.
struct place {
  explicit place(uint64_t bytes, bool checksums = true) {
    swap_options options;
    options.folder = scratch.path();
    options.checksums = checksums;
    auto made_space = troupe::tests::check_ok(storage::swap_space::open(options));
    space = std::move(*made_space);
    auto made = troupe::tests::check_ok(space->create("test", bytes));
    file = std::move(*made);
  }
  tests::scratch_folder scratch;
  std::shared_ptr<storage::swap_space> space;
  std::shared_ptr<storage::swap_file> file;
};

/// Returns a queue in which `disturb` replaces the results of system calls, or null if the kernel refuses the engine.
inline std::unique_ptr<storage::swap_queue> disturbed(engine which, swap_queue_options options,
                                                      std::function<int64_t(const io_request&, int64_t)> disturb) {
  if (which == engine::uring && !tests::has_uring()) return nullptr;
  options.make = [which, disturb](io_queue_options below) -> core::result<std::unique_ptr<storage::io_queue>> {
    below.disturb = disturb;
    return tests::open(which, below);
  };
  auto queue = troupe::tests::check_ok(storage::swap_queue::open(options));
  return std::move(*queue);
}

/// Flips a bit of the byte at `offset` through the page cache, unnoticed by the swap space.
inline void flip(const place& where, uint64_t offset) {
  const auto path = where.space->path() / "test.swap";
  const auto raw = *file::open(path, file_access::read_write, file_mode::buffered);
  std::byte there{};
  BOOST_REQUIRE(raw.read_at(offset, {&there, 1}));
  there ^= std::byte{1};
  BOOST_REQUIRE(raw.write_at(offset, {&there, 1}));
  BOOST_REQUIRE(raw.sync());
}

inline std::string name_of(const place& where) { return (where.space->path() / "test.swap").string(); }

inline std::span<std::byte> all(const huge_memory& memory) { return {memory.data(), memory.bytes()}; }

inline swap_completion run(storage::swap_queue& queue, swap_request request) {
  troupe::tests::check_ok(queue.submit(std::move(request)));
  std::vector<swap_completion> over;
  queue.drain(over);
  BOOST_REQUIRE(over.size() == 1U);
  return over.front();
}

}  // namespace troupe::tests::swap
