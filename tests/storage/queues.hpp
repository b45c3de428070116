// Opens the three I/O queues through one function, for test suites that check the same guarantees of all of them.
#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>

#include "storage/queue/engines.hpp"
#include "tests/check_ok.hpp"
#include "tests/fakes/modelled_queue.hpp"
#include "tests/skipped.hpp"

namespace troupe::tests {

enum class engine { uring, threads, modelled };

/// List of engines for BOOST_AUTO_TEST_CASE_TEMPLATE, which runs a case once for each queue.
using every_engine =
    std::tuple<std::integral_constant<engine, engine::uring>, std::integral_constant<engine, engine::threads>,
               std::integral_constant<engine, engine::modelled>>;

/// Returns true if this kernel allows io_uring; otherwise prints that its tests are skipped and returns false.
inline bool has_uring() {
  static const auto probe = storage::open_uring_queue({});
  if (!probe) say_skipped("files through io_uring", "it is refused here: " + probe.error().text);
  return probe.has_value();
}

/// Returns a queue of engine `e`, or null if the kernel refuses it.
inline std::unique_ptr<storage::io_queue> open(engine e, const storage::io_queue_options& options) {
  if (e == engine::uring) {
    if (!has_uring()) return nullptr;
    auto queue = check_ok(storage::open_uring_queue(options));
    return std::move(*queue);
  }
  if (e == engine::threads) {
    auto queue = check_ok(storage::open_thread_queue(options));
    return std::move(*queue);
  }
  storage::disk_model disk;
  disk.jitter_ns = 500'000;
  auto queue = check_ok(storage::modelled_queue::open(options, disk));
  return std::move(*queue);
}

/// Fills memory with bytes that depend on their position and on `salt`.
inline void fill(std::span<std::byte> memory, uint64_t salt) {
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<std::byte>((i * 131 + (i >> 9) * 7 + salt * 29) & 0xff);
}

}  // namespace troupe::tests
