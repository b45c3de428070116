// Loads with many reads in flight bring the bytes that were asked for to where they belong, and name what is broken.
#include "checkpoint/source/native_read.hpp"

#include "checkpoint/source/tensor_source.hpp"
#include "storage/memory/huge_memory.hpp"
#include "tests/checkpoint/tensors.hpp"
#include "tests/scratch_folder.hpp"

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::tests;
using core::error_kind;

namespace {

constexpr uint64_t kib = 1024, file_bytes = 700 * kib + 123;

/// Two files of noise with a tensor of bytes in each; the second one's piece begins and ends anywhere.
struct two_files {
  scratch_folder scratch;
  std::vector<std::byte> data[2] = {noise(file_bytes, 1), noise(file_bytes, 2)};
  tensor_source source;

  two_files() {
    source.folder = scratch.path();
    source.has_digests = true;
    for (uint32_t f = 0; f < 2; ++f) {
      const std::string name(1, static_cast<char>('a' + f));
      scratch.write(name, std::string(reinterpret_cast<const char*>(data[f].data()), data[f].size()));
      source.files.push_back({scratch / name, file_bytes});
      tensor_entry t;
      t.name = name;
      t.type = core::dtype::u8;
      for (uint64_t i = 0; i < pieces_per_file; ++i) {
        const uint64_t at = begin(f) + i * count(f);
        t.pieces.push_back({f, i * count(f), count(f), at, digest_of(std::span(data[f]).subspan(at, count(f)))});
      }
      t.shape = {static_cast<int64_t>(pieces_per_file * count(f))};
      source.tensors.push_back(t);
    }
    check_ok(complete(source));
  }

  static constexpr uint64_t pieces_per_file = 5;
  static uint64_t begin(uint32_t f) { return f == 0 ? 4 * kib : 4 * kib + 77; }
  static uint64_t count(uint32_t f) { return f == 0 ? 128 * kib : 130 * kib + 9; }

  /// Everything, the second tensor first in memory; `shift` moves all destinations.
  [[nodiscard]] load_plan plan(uint64_t shift) const {
    std::vector<wanted_slice> wanted;
    uint64_t at = shift;
    for (const auto* t : {&source.tensors[1], &source.tensors[0]}) {
      const auto n = static_cast<uint64_t>(t->shape[0]);
      wanted.push_back({t->name, t->kind, "", t->type, t->shape, 0, n, at});
      at += n;
    }
    const auto out = plan_load(source, wanted);
    check_ok(out);
    return *out;
  }
};

std::vector<read_options> ways() {
  std::vector<read_options> out;
  for (const auto engine : {storage::queue_engine::best, storage::queue_engine::threads})
    for (const bool beside : {true, false})
      for (const uint64_t direct_min : {uint64_t{0}, ~uint64_t{0}})
        out.push_back({.verify_beside = beside,
                       .engine = engine,
                       .depth = 3,
                       .request_bytes = 16 * kib,
                       .direct_bytes_min = direct_min,
                       .direct_read_bytes_min = 0});
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(native_reads)

BOOST_AUTO_TEST_CASE(every_byte_arrives_whatever_the_alignment_of_files_and_memory) {
  const two_files t;
  auto memory = std::move(storage::huge_memory::allocate(4096 + 2 * file_bytes).value());
  const std::span into(memory.data(), memory.bytes());
  for (const auto& options : ways())
    for (const uint64_t shift : {uint64_t{0}, uint64_t{1}, uint64_t{77}, uint64_t{4096}}) {
      std::fill(into.begin(), into.end(), std::byte{0});
      const auto plan = t.plan(shift);
      const auto report = read_pieces(real_files(), t.source, plan, into, options);
      check_ok(report);
      const uint64_t second = t.pieces_per_file * t.count(1), first = t.pieces_per_file * t.count(0);
      BOOST_TEST(report->bytes == first + second);
      BOOST_TEST(report->verified_bytes == first + second);
      BOOST_TEST(same_bytes(into.subspan(shift, second), std::span(t.data[1]).subspan(t.begin(1), second)));
      BOOST_TEST(same_bytes(into.subspan(shift + second, first), std::span(t.data[0]).subspan(t.begin(0), first)));
      if (options.direct_bytes_min != 0) BOOST_TEST(report->direct_bytes == 0U);
    }
}

BOOST_AUTO_TEST_CASE(parts_of_pieces_and_the_same_bytes_twice_are_read_without_a_digest_of_their_own) {
  const two_files t;
  const auto& a = t.source.tensors[0];
  // the last 100 bytes of a piece, the whole of the next, half of the third; and the second piece once more
  const uint64_t n = t.count(0), first = n - 100, bytes = 100 + n + n / 2;
  const std::vector<wanted_slice> wanted{{"a", a.kind, "", a.type, a.shape, first, bytes, 0},
                                         {"a", a.kind, "", a.type, a.shape, n, n, bytes}};
  const auto plan = plan_load(t.source, wanted);
  check_ok(plan);
  for (const auto& options : ways()) {
    std::vector<std::byte> into(bytes + n);
    const auto report = read_pieces(real_files(), t.source, *plan, into, options);
    check_ok(report);
    BOOST_TEST(report->verified_bytes == 2 * n);
    const auto whole = std::span(t.data[0]).subspan(t.begin(0));
    BOOST_TEST(same_bytes(std::span(into).first(bytes), whole.subspan(first, bytes)));
    BOOST_TEST(same_bytes(std::span(into).subspan(bytes), whole.subspan(n, n)));
  }
}

BOOST_AUTO_TEST_CASE(the_first_broken_piece_is_named_even_when_a_later_file_is_missing) {
  two_files t;
  std::vector<std::byte> into(2 * file_bytes);
  auto damaged = t.data[0];
  damaged[t.begin(0) + 2 * t.count(0) + 5] ^= std::byte{1};
  t.scratch.write("a", std::string(reinterpret_cast<const char*>(damaged.data()), damaged.size()));
  const std::string words = "bytes at byte " + std::to_string(t.begin(0) + 2 * t.count(0)) + ", of tensor 'a' (master)";
  for (const bool missing : {false, true}) {
    if (missing) std::filesystem::remove(t.scratch / "b");
    for (auto options : ways()) {
      check_failed(read_pieces(real_files(), t.source, t.plan(0), into, options), error_kind::bad_input, words);
      options.verify = false;
      if (!missing) check_ok(read_pieces(real_files(), t.source, t.plan(0), into, options));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_changed_its_length_is_refused) {
  two_files t;
  std::vector<std::byte> into(2 * file_bytes);
  std::filesystem::resize_file(t.scratch / "b", file_bytes - 1);
  for (const auto& options : ways())
    check_failed(read_pieces(real_files(), t.source, t.plan(0), into, options), error_kind::io,
                 (t.scratch / "b").string());
}

BOOST_AUTO_TEST_CASE(memory_that_is_too_small_and_uneven_reads_are_refused) {
  const two_files t;
  std::vector<std::byte> into(2 * file_bytes);
  const auto plan = t.plan(0);
  check_failed(read_pieces(real_files(), t.source, plan, std::span(into).first(plan.destination_bytes - 1)),
               error_kind::bug, "to be loaded into memory of");
  check_failed(read_pieces(real_files(), t.source, plan, into, {.request_bytes = 5000}), error_kind::bug, "got 5000");
}

BOOST_AUTO_TEST_SUITE_END()
