// Tests files that are written with many requests in flight: they contain all bytes, whatever the sizes of the writes,
// and errors are reported.
#include "storage/files/queued_output.hpp"

#include <fmt/format.h>

#include <array>

#include "storage/memory/huge_memory.hpp"
#include "tests/file_size_limit.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(queued_outputs)

using namespace troupe;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

constexpr size_t kib = 1024;

/// Returns options for both I/O engines, direct and buffered, with few and small requests, so that every kind of wait
/// occurs.
std::vector<queued_output_options> ways() {
  std::vector<queued_output_options> out;
  for (const auto engine : {storage::queue_engine::best, storage::queue_engine::threads})
    for (const bool direct : {true, false})
      out.push_back({.engine = engine,
                     .depth = 3,
                     .request_bytes = 8 * kib,
                     .copy_block_bytes = 12 * kib,
                     .copy_blocks = 2,
                     .direct = direct});
  return out;
}

std::vector<std::byte> content(const std::filesystem::path& path) {
  const auto text = check_ok(read_small_file(real_files(), path, 1 << 24));
  const auto bytes = std::as_bytes(std::span(*text));
  return {bytes.begin(), bytes.end()};
}

struct aligned_noise {
  storage::huge_memory memory;
  explicit aligned_noise(size_t bytes) : memory(std::move(storage::huge_memory::allocate(bytes).value())) {
    const auto from = noise(bytes, 7);
    std::copy(from.begin(), from.end(), memory.data());
  }
  [[nodiscard]] std::span<const std::byte> part(size_t first, size_t count) const {
    return std::span(memory.data(), memory.bytes()).subspan(first, count);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(copied_and_aligned_writes_follow_each_other_and_a_file_ends_at_any_byte) {
  const aligned_noise from(512 * kib);
  for (const auto& options : ways())
    for (const size_t tail : {size_t{0}, size_t{1}, size_t{4095}, size_t{4096}, 13 * kib + 5}) {
      BOOST_TEST_INFO_SCOPE("tail " << tail);
      const scratch_folder scratch;
      auto file = check_ok(create_queued_output(scratch / "a", options));
      // The announced size is larger or smaller than what is written.
      check_ok((*file)->expect(tail % 2 == 0 ? 600 * kib : 8 * kib));
      check_ok((*file)->write(from.part(0, 100)));
      check_ok((*file)->write(from.part(100, 4096 - 100)));
      const auto first = check_ok((*file)->start_write(from.part(4096, 196 * kib)));
      const auto second = check_ok((*file)->start_write(from.part(200 * kib, 4 * kib)));
      BOOST_TEST(*first < *second);
      check_ok((*file)->wait(*first));
      BOOST_TEST((*file)->is_over(*first));
      check_ok((*file)->write(from.part(204 * kib, tail)));
      check_ok((*file)->wait(*second));
      check_ok((*file)->sync());
      BOOST_TEST(same_bytes(content(scratch / "a"), from.part(0, 204 * kib + tail)));
    }
}

BOOST_AUTO_TEST_CASE(a_file_without_writes_and_one_with_only_an_expected_size_are_empty) {
  for (const auto& options : ways()) {
    const scratch_folder scratch;
    for (const uint64_t expected : {uint64_t{0}, uint64_t{1} << 20}) {
      BOOST_TEST_INFO_SCOPE("expected " << expected);
      const auto path = scratch / fmt::to_string(expected);
      auto file = check_ok(create_queued_output(path, options));
      if (expected > 0) check_ok((*file)->expect(expected));
      check_ok((*file)->sync());
      BOOST_TEST(std::filesystem::file_size(path) == 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(polling_alone_sees_every_write_end) {
  const aligned_noise from(256 * kib);
  for (const auto& options : ways()) {
    const scratch_folder scratch;
    auto file = check_ok(create_queued_output(scratch / "a", options));
    const auto ticket = check_ok((*file)->start_write(from.part(0, 256 * kib)));
    while (!(*file)->is_over(*ticket)) continue;
    check_ok((*file)->sync());
    BOOST_TEST(same_bytes(content(scratch / "a"), from.part(0, 256 * kib)));
  }
}

BOOST_AUTO_TEST_CASE(unaligned_writes_in_flight_are_refused) {
  const aligned_noise from(16 * kib);
  const scratch_folder scratch;
  auto file = check_ok(create_queued_output(scratch / "a"));
  check_failed((*file)->start_write(from.part(1, 4096)), error_kind::bug, "multiples of 4096 were wanted");
  check_failed((*file)->start_write(from.part(0, 100)), error_kind::bug, "multiples of 4096 were wanted");
  check_ok((*file)->write(from.part(0, 100)));
  check_failed((*file)->start_write(from.part(0, 4096)), error_kind::bug, "directly at byte 100");
  check_failed(create_queued_output(scratch / "b", {.request_bytes = 1000}), error_kind::bug, "1000");
  BOOST_TEST(!std::filesystem::exists(scratch / "b"));
}

BOOST_AUTO_TEST_CASE(a_full_disk_is_reported_by_every_later_call_and_the_memory_is_free_again) {
  const aligned_noise from(512 * kib);
  for (const auto& options : ways()) {
    const scratch_folder scratch;
    auto file = check_ok(create_queued_output(scratch / "a", options));
    const file_size_limit limit(64 * kib);
    auto ticket = check_ok((*file)->start_write(from.part(0, 32 * kib)));
    for (size_t at = 32 * kib; ticket && at < 512 * kib; at += 16 * kib) {
      const auto next = (*file)->start_write(from.part(at, 16 * kib));
      if (!next) break;
      ticket = next;
    }
    check_failed((*file)->wait(*ticket), error_kind::no_space, (scratch / "a").string());
    BOOST_TEST((*file)->is_over(*ticket));
    check_failed((*file)->write(from.part(0, 10)), error_kind::no_space, (scratch / "a").string());
    check_failed((*file)->sync(), error_kind::no_space, (scratch / "a").string());
  }
}

BOOST_AUTO_TEST_CASE(missing_space_is_reported_before_anything_is_written) {
  const scratch_folder scratch;
  auto file = check_ok(create_queued_output(scratch / "a"));
  const file_size_limit limit(64 * kib);
  check_failed((*file)->expect(1 << 20), error_kind::no_space, (scratch / "a").string());
}

BOOST_AUTO_TEST_SUITE_END()
