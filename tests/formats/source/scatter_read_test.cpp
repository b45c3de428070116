// Tests that a load of many blocks at once stores the requested bytes at their targets, and that an error names the
// damaged file.
#include "formats/source/scatter_read.hpp"

#include <fmt/format.h>

#include <atomic>

#include "storage/memory/huge_memory.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(scatter_read)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

constexpr uint64_t kib = 1024;

/// Two files of random bytes with a tensor in each, which has more blocks than a thread reads at a time. The pieces of
/// the second tensor begin and end at arbitrary bytes.
struct two_files {
  scratch_folder scratch;
  std::vector<std::byte> data[2] = {noise(file_bytes, 1), noise(file_bytes, 2)};
  tensor_source source;

  two_files() {
    source.folder = scratch.path();
    source.has_digests = true;
    for (uint32_t f = 0; f < 2; ++f) {
      const std::string name(1, static_cast<char>('a' + f));
      write(f, data[f]);
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

  void write(uint32_t f, const std::vector<std::byte>& bytes) const {
    scratch.write(std::string(1, static_cast<char>('a' + f)),
                  std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

  static constexpr uint64_t pieces_per_file = 9, file_bytes = 12 * 1024 * kib + 123;
  static uint64_t begin(uint32_t f) { return f == 0 ? 4 * kib : 4 * kib + 77; }
  static uint64_t count(uint32_t f) { return f == 0 ? 1280 * kib : 1290 * kib + 9; }
  static uint64_t elements(uint32_t f) { return pieces_per_file * count(f); }

  /// Returns a request for all elements of both tensors, with the second tensor first in memory.
  [[nodiscard]] std::vector<scattered_tensor> all(std::byte* to) const {
    const auto type = core::dtype::u8;
    return {{&source.tensors[0], {{0, elements(0), type, to + elements(1)}}},
            {&source.tensors[1], {{0, elements(1), type, to}}}};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_byte_arrives_whatever_the_alignment_of_files_and_memory) {
  const two_files t;
  const uint64_t first = t.elements(0), second = t.elements(1);
  auto memory = std::move(storage::huge_memory::allocate(8192 + first + second).value());
  const std::span into(memory.data(), memory.bytes());
  for (const uint64_t shift : {uint64_t{0}, uint64_t{1}, uint64_t{77}, uint64_t{4096}}) {
    BOOST_TEST_INFO_SCOPE("shift " << shift);
    std::fill(into.begin(), into.end(), std::byte{0});
    const auto report = check_ok(read_scattered(real_files(), t.source, t.all(into.data() + shift)));
    BOOST_TEST(report->bytes == first + second);
    BOOST_TEST(report->verified_bytes == first + second);
    BOOST_TEST(same_bytes(into.subspan(shift, second), std::span(t.data[1]).subspan(t.begin(1), second)));
    BOOST_TEST(same_bytes(into.subspan(shift + second, first), std::span(t.data[0]).subspan(t.begin(0), first)));
  }
}

BOOST_AUTO_TEST_CASE(parts_of_pieces_have_no_digest_and_the_same_bytes_are_read_once_for_all) {
  const two_files t;
  // The request covers the last 100 bytes of a piece, the whole next piece, half of the third, and the second piece
  // again.
  const uint64_t n = t.count(0), first = n - 100, bytes = 100 + n + n / 2;
  std::vector<std::byte> into(bytes + n);
  const std::vector<scattered_tensor> wanted{
      {&t.source.tensors[0],
       {{first, bytes, core::dtype::u8, into.data()}, {n, n, core::dtype::u8, into.data() + bytes}}}};
  const auto report = check_ok(read_scattered(real_files(), t.source, wanted));
  BOOST_TEST(report->bytes == bytes);
  BOOST_TEST(report->verified_bytes == n);
  const auto whole = std::span(t.data[0]).subspan(t.begin(0));
  BOOST_TEST(same_bytes(std::span(into).first(bytes), whole.subspan(first, bytes)));
  BOOST_TEST(same_bytes(std::span(into).subspan(bytes), whole.subspan(n, n)));
}

BOOST_AUTO_TEST_CASE(the_first_broken_piece_is_named_whatever_is_wrong_behind_it) {
  const two_files t;
  std::vector<std::byte> into(t.elements(0) + t.elements(1));
  auto damaged = t.data[0];
  for (const uint64_t piece : {2U, 3U, 8U}) damaged[t.begin(0) + piece * t.count(0) + 5] ^= std::byte{1};
  t.write(0, damaged);
  std::filesystem::remove(t.scratch / "b");
  const std::string words = fmt::format("bytes at byte {}, of tensor 'a' (master)", t.begin(0) + 2 * t.count(0));
  for (int again = 0; again < 20; ++again)
    check_failed(read_scattered(real_files(), t.source, t.all(into.data())), error_kind::bad_input, words);
  auto without_digests = t.source;
  without_digests.has_digests = false;
  const std::vector<scattered_tensor> first{
      {&without_digests.tensors[0], {{0, t.elements(0), core::dtype::u8, into.data()}}}};
  const auto report = check_ok(read_scattered(real_files(), without_digests, first));
  BOOST_TEST(report->verified_bytes == 0U);
  BOOST_TEST(same_bytes(std::span(into).first(t.elements(0)), std::span(damaged).subspan(t.begin(0), t.elements(0))));
}

BOOST_AUTO_TEST_CASE(a_file_that_changed_its_length_is_refused) {
  const two_files t;
  std::vector<std::byte> into(t.elements(0) + t.elements(1));
  std::filesystem::resize_file(t.scratch / "b", t.file_bytes - 1);
  check_failed(read_scattered(real_files(), t.source, t.all(into.data())), error_kind::io, (t.scratch / "b").string());
}

BOOST_AUTO_TEST_CASE(a_load_ends_when_its_caller_wants_it) {
  const two_files t;
  std::vector<std::byte> into(t.elements(0) + t.elements(1));
  std::atomic<int> asked = 0;
  check_failed(read_scattered(real_files(), t.source, t.all(into.data()), [&] { return ++asked > 3; }),
               error_kind::stopped, "stopped while loading");
  BOOST_TEST(asked > 3);
}

BOOST_AUTO_TEST_SUITE_END()
