// Tests the heap of large blocks: blocks never overlap, and a repeated pattern maps no new memory.
#include "actors/memory/block_heap.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(block_heap)

using heap_of_blocks = troupe::actors::block_heap;

namespace {

struct taken {
  std::byte* at;
  uint64_t bytes;
  std::byte mark;
};

bool whole(const taken& b) {
  return std::all_of(b.at, b.at + b.bytes, [&](std::byte x) { return x == b.mark; });
}

/// Allocates and frees blocks in a random order that depends on `seed`. Returns true if all blocks are aligned and none
/// was changed before it is freed. Several threads may call it at once, so it uses no macro of Boost.Test.
bool stays_sound(heap_of_blocks& heap, unsigned seed, uint64_t bytes_max) {
  std::mt19937 draw(seed);
  std::vector<taken> blocks;
  bool sound = true;
  for (int i = 0; i < 600; ++i) {
    if (blocks.empty() || draw() % 5 < 3) {
      const uint64_t n = 1 + draw() % bytes_max;
      auto* const at = static_cast<std::byte*>(heap.allocate(n));
      if (at == nullptr) return false;
      sound &= reinterpret_cast<uintptr_t>(at) % heap_of_blocks::alignment_bytes == 0;
      blocks.push_back({at, n, static_cast<std::byte>(draw())});
      std::memset(at, static_cast<int>(blocks.back().mark), n);
    } else {
      const size_t k = draw() % blocks.size();
      sound &= whole(blocks[k]);
      heap.free(blocks[k].at);
      blocks[k] = blocks.back();
      blocks.pop_back();
    }
  }
  for (const auto& b : blocks) {
    sound &= whole(b);
    heap.free(b.at);
  }
  return sound;
}

constexpr uint64_t mib = uint64_t{1} << 20;

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_are_aligned_and_no_other_block_writes_to_them) {
  heap_of_blocks heap;
  heap.keep();
  for (unsigned seed = 0; seed < 10; ++seed)
    BOOST_TEST_CONTEXT("seed " << seed) BOOST_TEST(stays_sound(heap, seed, 200'000));
}

BOOST_AUTO_TEST_CASE(a_pattern_that_is_repeated_maps_nothing_new) {
  heap_of_blocks heap;
  heap.keep();
  BOOST_TEST(stays_sound(heap, 7, 300'000));
  const uint64_t mapped = heap.mapped_bytes();
  for (int i = 0; i < 5; ++i) BOOST_TEST_CONTEXT("time " << i) BOOST_TEST(stays_sound(heap, 7, 300'000));
  BOOST_TEST(heap.mapped_bytes() == mapped);
}

BOOST_AUTO_TEST_CASE(neighbours_that_were_freed_are_given_again_as_one_block) {
  heap_of_blocks heap;
  heap.keep();
  std::vector<void*> parts;
  for (int i = 0; i < 7; ++i) parts.push_back(heap.allocate(mib));
  const uint64_t mapped = heap.mapped_bytes();
  BOOST_TEST(mapped == heap_of_blocks::segment_bytes_min);
  for (const size_t i : {3U, 1U, 5U, 0U, 6U, 2U, 4U}) heap.free(parts[i]);
  void* const one = heap.allocate(7 * mib);
  BOOST_TEST(one == parts[0]);
  BOOST_TEST(heap.mapped_bytes() == mapped);
  heap.free(one);
}

BOOST_AUTO_TEST_CASE(memory_that_is_too_small_goes_back_before_more_is_mapped) {
  heap_of_blocks heap;
  heap.keep();
  heap.free(heap.allocate(5 * mib));
  BOOST_TEST(heap.mapped_bytes() == 8 * mib);
  void* const large = heap.allocate(21 * mib);
  BOOST_TEST(heap.mapped_bytes() == 22 * mib);
  heap.free(large);
}

BOOST_AUTO_TEST_CASE(memory_without_blocks_goes_back_at_once_unless_it_is_kept) {
  heap_of_blocks heap;
  heap.keep();
  void* const a = heap.allocate(5 * mib);
  void* const b = heap.allocate(7 * mib);
  heap.free(a);
  BOOST_TEST(heap.mapped_bytes() == 16 * mib);
  heap.give_up();
  BOOST_TEST(heap.mapped_bytes() == 8 * mib);
  heap.free(b);
  BOOST_TEST(heap.mapped_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(more_than_the_system_has_gives_null_and_the_heap_keeps_working) {
  heap_of_blocks heap;
  heap.keep();
  BOOST_TEST(heap.allocate(UINT64_MAX) == nullptr);
  BOOST_TEST(heap.allocate(uint64_t{1} << 60) == nullptr);
  void* const a = heap.allocate(1);
  BOOST_TEST(a != nullptr);
  heap.free(a);
}

BOOST_AUTO_TEST_CASE(threads_may_take_and_free_at_the_same_time) {
  heap_of_blocks heap;
  heap.keep();
  std::array<std::atomic<bool>, 4> sound{};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < sound.size(); ++t)
    threads.emplace_back([&, t] { sound[t] = stays_sound(heap, t, 100'000); });
  for (auto& t : threads) t.join();
  for (unsigned t = 0; t < sound.size(); ++t) BOOST_TEST_CONTEXT("thread " << t) BOOST_TEST(sound[t].load());
  heap.give_up();
  BOOST_TEST(heap.mapped_bytes() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
